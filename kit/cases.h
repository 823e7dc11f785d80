/* SPDX-License-Identifier: MIT
 * cases.h - the case tables: case `index` of an operator and format, made from a seed.
 *
 * Every axis (M, N, K, dtypes, data kind, ...) is a list.  Each list is shuffled by the seed, and
 * case i takes entry i of every list, around and around: as the lists are of different lengths, all
 * entries of all of them are met, in changing company.  The first case of a format is fixed: f32,
 * gaussian, 256 outputs and more, so that the band is always asked. */
#ifndef OPREG_KIT_CASES_H
#define OPREG_KIT_CASES_H

#include "job.h"

typedef struct case_key {
    opreg_op op;
    uint32_t format; /* opreg_dtype of the weight; 0 where the operator has none                    */
    uint32_t index;
    uint32_t salt;   /* other data for the same problem                                             */
    uint64_t seed;
} case_key;

#define CASE_OTHER_WEIGHTS 2u /* a salt with other weights too; all others have the same            */

/* Cases of one operator and format.  flags: OPREG_KIT_*. */
uint32_t cases_count(opreg_op op, uint32_t format, uint32_t flags);

/* 0 when out of memory. */
int case_make(const case_key *key, job *out);

int case_make_quantize(const case_key *key, job *out);
int case_make_matmul(const case_key *key, job *out);
int case_make_route(const case_key *key, job *out);
int case_make_moe(const case_key *key, job *out); /* moe_matmul, moe_glu, moe_down */
int case_make_combine(const case_key *key, job *out);
int case_make_ffn(const case_key *key, job *out);
int case_make_attention(const case_key *key, job *out);

/* ---- for their makers ---------------------------------------------------------------------------- */

/* Entry `index` of a list shuffled for this key's operator, format and axis. */
int64_t edge_pick(const case_key *key, const char *axis, const int64_t *list, size_t count);
#define PICK(key, axis, list) edge_pick(key, axis, list, sizeof(list) / sizeof((list)[0]))

/* The state for shapes (the same for every salt), and for other data. */
random_state case_random(const case_key *key, int with_salt);

data_kind case_data(const case_key *key);

/* An activations buffer of rows x columns: elements, data, loose gaps. */
int case_rows(random_state *random, job *out, uint32_t index, uint32_t dtype, int64_t rows,
              int64_t columns, int64_t stride);

/* Planes of quantized activations in three buffers. */
int case_planes(random_state *random, job *out, const uint32_t index[3], uint32_t act, int64_t rows,
                int64_t k);

/* An output buffer of rows x columns. */
int case_output(job *out, uint32_t index, uint32_t dtype, int64_t rows, int64_t columns,
                int64_t stride);

/* The state for weights, after that for the shape has done its part. */
random_state case_random_weights(const case_key *key, random_state shape);

/* A dialect of the format, all of them in turn. */
uint32_t case_dialect(const case_key *key, uint32_t format);

/* glu_alpha and glu_limit of a kind. */
void case_glu(random_state *random, uint32_t glu, float *alpha, float *limit);

/* "f32->bf16" */
void case_dtypes(job *out, uint32_t from, uint32_t to);

/* Slack and a base that is off by some bytes. */
void case_weight_place(random_state *random, job_weight *weight);

/* What the float dtypes and the M of an operator go through. */
extern const int64_t float_dtypes[3];
extern const int64_t m_edges[14];
extern const int64_t n_edges[18];

/* ---- the route, made on the host ------------------------------------------------------------------ */

typedef struct route_spec {
    int64_t tokens;
    int32_t top_k, experts;
    const int32_t *ids;     /* [tokens, top_k]                                                       */
    const float *weights;   /* [tokens, top_k]; null: 1                                              */
    const int32_t *row_map; /* [tokens * top_k]; null: t * top_k + slot belongs to t                  */
} route_spec;

/* The bytes that moe_route must write, and which of them (1) it must; both have layout.bytes. */
void route_build(const route_spec *spec, const opreg_route_layout *layout, uint8_t *bytes,
                 uint8_t *owned);

#endif /* OPREG_KIT_CASES_H */
