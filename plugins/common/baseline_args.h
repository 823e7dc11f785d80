/* SPDX-License-Identifier: MIT
 * baseline_args.h - parameters of the baseline kernels, one struct a kernel, passed by value.  Read by
 * C and by device compilers. */
#ifndef OPREG_PLUGINS_BASELINE_ARGS_H
#define OPREG_PLUGINS_BASELINE_ARGS_H

#include "opreg/opreg_plugin.h"
#include "prepared.h"

#define BASELINE_THREADS 128 /* of every kernel but route and attention                            */
#define BASELINE_ROUTE_THREADS 1024
#define BASELINE_ATTENTION_THREADS 256 /* eight waves: one per strand                              */

typedef struct quantize_args {
    const void *x;
    int8_t *codes;
    float *scales;
    int16_t *sums;
    int64_t m, k, x_stride;
    uint32_t x_dtype, block; /* block: 32 or 256                                                   */
} quantize_args;

/* A route as a kernel reads it; header is null where the call is dense. */
typedef struct route_view {
    const opreg_route_header *header;
    const int32_t *group_expert, *group_start, *entry_token, *entry_dst;
    uint32_t cap_groups, cap_entries;
} route_view;

typedef struct matmul_args {
    const void *x; /* f32-activation formats: elements of x_dtype; else i8 codes                   */
    const float *scales;
    const int16_t *sums;
    const uint8_t *data[2]; /* W; or gate and up                                                   */
    const opreg_side *side[2];
    const float *bias; /* or null                                                                  */
    void *y;
    int64_t m, n, k, x_stride, y_stride, row_bytes;
    int64_t expert_stride[2];
    uint32_t x_dtype, y_dtype, pair, glu, scaled; /* scaled: times side->tensor_scale at the end   */
    float glu_alpha, glu_limit;
    uint32_t by_dst, prepared; /* prepared: the weights lie as `layout` says                       */
    int32_t experts, tokens, top_k;
    int32_t reserved;
    route_view route;
    prepared_shape layout;
} matmul_args;

typedef struct route_args {
    const int32_t *ids, *row_map; /* row_map: pairs form, else null                                */
    const float *weights;         /* or null: 1                                                    */
    opreg_route_header *header;
    int32_t *group_expert, *group_start, *entry_token, *entry_dst;
    float *entry_weight;
    uint32_t *scratch; /* [3 * (experts + 1)]                                                      */
    int64_t ids_stride, weights_stride;
    uint32_t cap_groups, cap_entries, pairs, words; /* words: of the whole route                  */
    int32_t top_k, experts;
} route_args;

typedef struct combine_args {
    const void *rows;
    const float *weights;
    void *y;
    int64_t tokens, n, x_stride, y_stride, weights_stride;
    uint32_t x_dtype, y_dtype;
    int32_t top_k, reserved;
} combine_args;

typedef struct attention_args {
    const void *q, *k, *v;
    const int32_t *table, *lens, *indptr, *q_indptr;
    const float *sinks, *k_scale, *v_scale;
    void *out;
    float *lse;
    int64_t q_stride, out_stride;
    int64_t k_block_stride, k_slot_stride, k_head_stride;
    int64_t v_block_stride, v_slot_stride, v_head_stride;
    uint32_t q_dtype, out_dtype, kv_dtype;
    int32_t seqs, tokens, max_q, q_heads, kv_heads, head_dim, block_size, num_blocks, table_stride;
    int32_t max_seq_len, window;
    float scale, softcap;
    uint32_t levels; /* of the segment tree: stack slots in shared memory                          */
    uint32_t reserved;
} attention_args;

typedef struct pack_args {
    uint8_t *stored, *prepared; /* unpack: 0 writes prepared, 1 writes stored                       */
    int64_t experts, n, blocks, groups, stored_stride; /* blocks, groups: of a row                 */
    uint32_t unpack, reserved;
    prepared_shape shape;
} pack_args;

#endif /* OPREG_PLUGINS_BASELINE_ARGS_H */
