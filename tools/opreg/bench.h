/* SPDX-License-Identifier: MIT
 * bench.h - what the parts of opreg bench share. */
#ifndef OPREG_TOOLS_BENCH_H
#define OPREG_TOOLS_BENCH_H

#include <jansson.h>

#include "device.h"
#include "model.h"
#include "options.h"
#include "output.h"
#include "problem.h"

#define BENCH_BATCHES 20 /* at least */
#define BENCH_BUFS    12 /* of any operator                                                      */
#define BENCH_WEIGHTS 3

/* ---- what is measured ---- */

/* A problem, and in a model how often a token needs it. */
typedef struct bench_case {
    opreg_op op;
    problem_any problem;
    int64_t count; /* 0: of no model                                  */
    const model_weight *weights[BENCH_WEIGHTS]; /* null: made from the seed                      */
} bench_case;

/* "[OP] key=value ...", checked.  0 with opreg_last_error set. */
int bench_case_parse(const char *text, opreg_op op, bench_case *out);

/* The cases of a run without --problem; op 0: of all operators.  Freed by the caller. */
bench_case *bench_default_cases(opreg_op op, size_t *count);

/* What a token of a model needs. */
typedef struct bench_model {
    gguf *file;
    side_data *side;
    model_weight *weights;
    bench_case *cases;
    size_t count;
    int64_t skipped; /* tensors that no operator reads, or that are read by row                  */
} bench_model;

/* Each distinct (format, n, k) of a file once, its experts' groups and its attention at a length of
 * context, for some tokens at a time.  0 with *error set.  Closed in both cases. */
int bench_model_open(const char *path, model_types *types, int64_t tokens, int64_t context,
                     bench_model *out, gguf_error *error);
void bench_model_close(bench_model *model);

/* What a call of a case comes to. */
typedef struct bench_cost {
    double bytes;      /* that a run must move: weights, inputs and outputs, each once           */
    double operations; /* multiplies and adds of the definition; 0 where that says nothing       */
    int64_t m, n, k;   /* -1: does not apply                                                      */
    uint32_t format;   /* of the weight; 0: none                                                  */
} bench_cost;
bench_cost bench_cost_of(const bench_case *c);

/* Entries of a route. */
int64_t bench_entries(const bench_case *c);

/* ---- its data ---- */

/* A buffer of the operator.  What a run reads cold is there more than once: turn t uses copy
 * t / divisor % copies. */
typedef struct bench_buffer {
    uint32_t dtype;      /* of floats; 0: integers                                               */
    uint64_t bytes;      /* of one copy; 0: absent                                               */
    uint8_t *pool;       /* the contents, repeated as often as they fit; null: an output         */
    uint64_t pool_bytes; /* each: copies * bytes                                                 */
    int each;            /* every copy has contents of its own                                   */
    int64_t copies, divisor;
    uint64_t stride;
    opreg_buf memory;
} bench_buffer;

/* A weight on the host: row r of expert e is row r % distinct of rows + e * expert_stride. */
typedef struct bench_weight {
    opreg_weight_desc desc; /* without data                                                      */
    int64_t row_bytes, distinct;
    uint64_t expert_stride;
    const uint8_t *rows;
    opreg_side *records; /* [experts]                                                            */
    uint8_t *made, *made_side;
} bench_weight;

/* A problem with its data on a device. */
typedef struct bench_set {
    const device *where;
    const bench_case *what;
    bench_buffer bufs[BENCH_BUFS];
    bench_weight weights[BENCH_WEIGHTS];
    uint32_t num_weights;
    int32_t *ids; /* [routes, tokens * top_k], experts                                           */
    opreg_buf memory[BENCH_WEIGHTS];
    opreg_weight **stored; /* [weight_copies, num_weights]                                       */
    int64_t weight_copies, weight_divisor, turns;
    int cold; /* the turns together exceed four times the cache                                  */
} bench_set;

/* 0 with *reason set; closed in both cases. */
int bench_set_open(const device *d, const bench_case *c, uint64_t cache_bytes, uint64_t seed,
                   bench_set *out, const char **reason);
void bench_set_close(bench_set *s);

/* The buffers of a turn. */
void bench_set_bufs(const bench_set *s, int64_t turn, opreg_buf bufs[BENCH_BUFS]);

/* Host data of a set: everything but copies.  0 with *reason set. */
int bench_data_make(bench_set *s, uint64_t cache_bytes, uint64_t seed, const char **reason);

/* Their weights.  0 with *reason set. */
int bench_weights_make(bench_set *s, uint64_t seed, const char **reason);

/* Element i of a float buffer on the host. */
double bench_value(const bench_buffer *b, int64_t i);

/* NMSE of the outputs of turn 0, which have just been written, against float64 of the activations
 * as they are; NaN where the operator has no float result. */
double bench_error(const bench_set *s);

/* ---- measuring ---- */

/* One variant on one problem. */
typedef struct bench_row {
    const opreg_candidate *candidate;
    char kernel[100];
    double us, spread, warm_us; /* median of batches, half of the middle 80 %, data in cache     */
    double nmse;
    char failed[256]; /* "" or why there is no time                                              */
} bench_row;

/* Measures rows[count]: warm-up, then batches of all variants in turn. */
void bench_measure(bench_set *s, bench_row *rows, size_t count, int batches);

/* Bytes of the last cache of a device, as far as it is known. */
uint64_t bench_cache_bytes(const device *d);

/* Bytes a second that the device streams, measured now; 0 where it cannot be. */
double bench_bandwidth(const device *d, unsigned threads);

/* "580.159.04": the version of the driver behind a kind of device; 0 where there is none, or none
 * is told. */
int bench_driver_version(uint32_t kind, char text[64]);

/* ---- the report: an array of objects with the keys of docs/command.md ---- */

typedef struct bench_style {
    int json, columns, compared; /* columns: as in bench/baselines                               */
} bench_style;

/* The heading of the columns. */
void bench_print_heading(void);

void bench_print(const json_t *row, const bench_style *style);

/* "m4 n640 k2560 e512 top10". */
void bench_shape(const json_t *row, char *text, size_t cap);

/* Rows of a file of JSON lines or of tab-separated columns.  Null after a line on stderr. */
json_t *bench_read(const command *self, const char *path);

/* Adds "was_us", "change", "was_chosen" and "choice_changed" to rows that `then` has too.  Returns
 * how many rows were compared; *worse: how many regressed by more than the spreads and the
 * tolerance, or are of a problem for which a plan takes another variant. */
size_t bench_compare(json_t *rows, const json_t *then, double tolerance, size_t *worse);

/* One row more: what a token of a model takes on the device of that id, by the chosen variants.
 * Null where nothing of a model was measured there. */
json_t *bench_total(const json_t *rows, const char *device_id);

/* Writes the rows as one page.  0 after a line on stderr. */
int bench_html(const command *self, const char *path, const json_t *rows);

#endif /* OPREG_TOOLS_BENCH_H */
