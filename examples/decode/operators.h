/* SPDX-License-Identifier: MIT
 * operators.h - the engine's matrices, and the operators that it runs through plans. */
#ifndef DECODE_OPERATORS_H
#define DECODE_OPERATORS_H

#include "cache.h"
#include "gguf.h"
#include "plans.h"

/* A weight of the model, in the layout that its plans want. */
typedef struct matrix {
    uint32_t format, act_dtype;
    int64_t n, k, experts;
    uint32_t layout;
    opreg_weight *weight;
} matrix;

/* A tensor as it is stored, on the device.  placed: its bytes, for machine_unplace. */
opreg_weight *tensor_open(machine *m, const gguf *file, const gguf_tensor *tensor,
                          const void **placed, reason *why);

/* Wraps the tensor, asks a plan with layout ANY what it wants, and prepares that.  tensor may be
 * null: an absent matrix. */
int matrix_open(plans *p, const gguf *file, const gguf_tensor *tensor, matrix *out, reason *why);
void matrix_close(matrix *w);

/* Rows of activations, and their quantized planes once a matrix has asked for them. */
typedef struct input {
    const float *x;
    int64_t m, k;
    uint32_t made; /* dtype of the planes that are there; OPREG_F32: none                          */
    int8_t *codes;
    float *scales;
    int16_t *sums;
} input;

/* Memory for m rows of k. */
int input_open(input *in, machine *on, int64_t m, int64_t k, reason *why);

/* Points the input at other rows. */
void input_set(input *in, const float *x, int64_t m, int64_t k);

/* y[m, n] = in * w^T (+ bias); bias may be null. */
int multiply(plans *p, const matrix *w, input *in, const float *bias, float *y, reason *why);

/* y[m, n] = glu(in * gate^T) * (in * up^T).  spare has m * n floats, for pairs of two formats. */
int multiply_glu(plans *p, const matrix *gate, const matrix *up, uint32_t glu, input *in, float *y,
                 float *spare, reason *why);

/* Mixture of experts of every row of in: ids and weights are [m, top_k]; y is [m, hidden]. */
typedef struct experts {
    const matrix *gate, *up, *down;
    uint32_t glu;
    int32_t count, top_k;
    int32_t *ids;
    float *weights;
    void *route;        /* opreg_route_layout_get bytes */
    uint64_t route_bytes;
    float *inner, *rows; /* [m * top_k, inter] and [m * top_k, hidden] */
} experts;
int run_experts(plans *p, const experts *e, input *in, float *y, reason *why);

/* Attention of one layer.  A request is a run of at most 8 tokens of one sequence. */
typedef struct attention {
    int32_t heads, requests, tokens, max_q, max_length, window, table_stride;
    float scale;
    const int32_t *table, *lengths, *starts; /* [requests, table_stride]; [requests]; [requests + 1] */
} attention;
int attend(plans *p, const attention *a, const cache *c, int32_t layer, const float *q, float *out,
           reason *why);

#endif /* DECODE_OPERATORS_H */
