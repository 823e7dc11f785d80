/* SPDX-License-Identifier: MIT
 * rows32_host.h - symbols of the kernels over rows32, in the order of rows32_list.inc. */
#ifndef OPREG_SM90_ROWS32_HOST_H
#define OPREG_SM90_ROWS32_HOST_H

#include "program.h"
#include "rows32_args.h"

/* Kernels of a format, from its first symbol on: units of 32 have the first two, units of 256 all;
 * rows32_spread follows where spread_waves is not 0, then rows32_stream where stages is not 0. */
enum rows32_method {
    ROWS32_ONE_W8,
    ROWS32_EIGHT_W8,
    ROWS32_ONE_W4,
    ROWS32_ONE_W16
};
/* And from its symbol `more` on. */
enum rows32_method_more {
    ROWS32_SHORT,
    ROWS32_WIDE16,
    ROWS32_WIDE32,
    ROWS32_INT64,
    ROWS32_INT128,
    ROWS32_TILED /* of units of 256 alone                                                           */
};

#define ROWS32_EIGHT_MOST 256 /* rows of x of rows32_eight where there is rows32_tiled              */
#define ROWS32_WIDE_MOST  32  /* rows of x for which rows32_wide always wins                        */
#define ROWS32_MOST_SHARED (200u * 1024u)
#define ROWS32_TENSOR_SHARED (226u * 1024u) /* of rows32_team and rows32_tiled                      */

typedef struct rows32_format {
    uint32_t id, unit, symbol; /* symbol: of ROWS32_ONE_W8                                         */
    uint32_t more, team;       /* symbols of ROWS32_SHORT and of rows32_team, which may be 0: none */
    int32_t values, min_sub, table_words;
    uint32_t spread_waves, stages;
} rows32_format;

/* Groups of a row of k values; the last one may be short. */
static inline int64_t rows32_groups(const rows32_format *f, int64_t k) {
    return (k + f->values - 1) / f->values;
}
/* Null where no kernel takes the format. */
const rows32_format *rows32_format_find(uint32_t id);
extern const uint32_t rows32_formats[]; /* 0 ends                                                   */
extern const uint32_t rows32_tiled_formats[];
extern const uint32_t gqh_formats[];

/* Bytes of a format's tables of spread_dot in rows32_dots.cuh. */
uint32_t rows32_spread_table(const rows32_format *f);

/* ---- rows32_team, rows32_wide and rows32_tiled --------------------------------------------------- */

/* Bytes of so many rows of x as records and as blocks. */
uint64_t rows32_records_bytes(const rows32_format *f, int64_t rows, int64_t k);
uint64_t rows32_blocks_bytes(const rows32_format *f, int64_t rows, int64_t k);
/* Quantizes `rows` rows of x to records, or where blocks is 1 to blocks, in the workspace; to `padded`
 * rows, missing ones of zeros. */
opreg_status rows32_records_run(const opreg_call *call, const gpu_plan *plan,
                                const rows32_format *f, const matmul_args *x, int64_t rows,
                                int64_t padded, uint32_t blocks);
/* Bytes of one column in shared memory: its records, and 16 where eight would meet in the banks. */
uint32_t rows32_column_bytes(const rows32_format *f, int64_t k);
/* Whether eight rows of x fit beside the weights on their way. */
int rows32_team_fits(const rows32_format *f, int64_t k);
/* The symbol of rows32_dealt, or 0. */
uint32_t rows32_dealt_symbol(const rows32_format *f);
/* Whether rows32_dealt takes a dense call of up to eight rows: what a block has fits, and 32 bits count
 * the matrix in pieces of 16 bytes. */
int rows32_deals(const rows32_format *f, int64_t n, int64_t k, uint32_t weights);
opreg_status rows32_dealt_run(const opreg_call *call, const gpu_plan *plan, const rows32_format *f,
                              const matmul_args *args);
/* Quantize x of args into the workspace, then run; groups: of the route, 0 for a dense call. */
opreg_status rows32_team_run(const opreg_call *call, const gpu_plan *plan, const rows32_format *f,
                             const matmul_args *args, int64_t rows, uint32_t groups);
/* Whether rows32_wide is faster than rows32_tiled: by the rows of bench/baselines/h200.tsv a block of it
 * takes a sixth of the time for 32 rows by 32 columns that a block of 128 by 64 takes. */
int rows32_wide_wins(int64_t n, int64_t rows, uint32_t units);
/* How rows32_tiled_int cuts a call: sets of 64 columns a block, 0 where rows32_wide is faster; blocks of a
 * cluster, which share the groups of a row. */
typedef struct rows32_cut {
    uint32_t sets, parts;
} rows32_cut;
rows32_cut rows32_int_cut(const rows32_format *f, const opreg_matmul_bt_quant *p, uint32_t units);
/* A dense call. */
opreg_status rows32_wide_run(const opreg_call *call, const gpu_plan *plan, const rows32_format *f,
                             const matmul_args *args, int64_t rows);

/* The arguments of a dense and of a grouped call; the registry has checked them. */
void rows32_dense_args(const opreg_matmul_bt_quant *p, const opreg_call *call, matmul_args *args);
void rows32_moe_args(const opreg_moe_matmul *p, const opreg_call *call, matmul_args *args);
/* Groups of a grouped call that can have an entry: blocks for more would wait for a multiprocessor only
 * to end there. */
uint32_t rows32_moe_groups(const matmul_args *args);

#endif /* OPREG_SM90_ROWS32_HOST_H */
