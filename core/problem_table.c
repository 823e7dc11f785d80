/* SPDX-License-Identifier: MIT
 * problem_table.c - the fields of every operator's problem, in the order texts print them. */
#include "problem.h"

#include <stddef.h>
#include <string.h>

#define FIELD(type, member, key, kind, presence)                                                   \
    { key, (uint16_t)offsetof(type, member), (uint16_t)FIELD_##kind, FIELD_##presence }
#define COUNT(rows) (uint32_t)(sizeof(rows) / sizeof((rows)[0]))

#define ASKS (OPREG_PF_DETERMINISTIC | OPREG_PF_GRAPH_SAFE | OPREG_PF_WIDTH_INVARIANT)

#define T opreg_quantize_act
static const problem_field quantize_fields[] = {
    FIELD(T, m, "m", I64, SHOWN),           FIELD(T, k, "k", I64, REQUIRED),
    FIELD(T, x_dtype, "x", DTYPE, SHOWN),   FIELD(T, q_dtype, "q", DTYPE, REQUIRED),
    FIELD(T, x_stride, "x_stride", I64, DEFAULTED), FIELD(T, level, "level", LEVEL, DEFAULTED),
    FIELD(T, flags, "flags", FLAGS, DEFAULTED),
};
#undef T

#define T opreg_matmul_bt_quant
static const problem_field matmul_fields[] = {
    FIELD(T, m, "m", I64, SHOWN),
    FIELD(T, n, "n", I64, REQUIRED),
    FIELD(T, k, "k", I64, REQUIRED),
    FIELD(T, b_dtype, "b", DTYPE, REQUIRED),
    FIELD(T, b_dialect, "dialect", DIALECT, DEFAULTED),
    FIELD(T, x_dtype, "x", DTYPE, SHOWN),
    FIELD(T, y_dtype, "y", DTYPE, SHOWN),
    FIELD(T, glu, "glu", GLU, DEFAULTED),
    FIELD(T, glu_alpha, "alpha", F32, DEFAULTED),
    FIELD(T, glu_limit, "limit", F32, DEFAULTED),
    FIELD(T, x_stride, "x_stride", I64, DEFAULTED),
    FIELD(T, y_stride, "y_stride", I64, DEFAULTED),
    FIELD(T, layout, "layout", LAYOUT, DEFAULTED),
    FIELD(T, level, "level", LEVEL, DEFAULTED),
    FIELD(T, flags, "flags", FLAGS, DEFAULTED),
};
#undef T

#define T opreg_moe_route
static const problem_field route_fields[] = {
    FIELD(T, tokens, "tokens", I64, SHOWN),
    FIELD(T, top_k, "top_k", I32, REQUIRED),
    FIELD(T, experts, "experts", I32, REQUIRED),
    FIELD(T, form, "form", FORM, DEFAULTED),
    FIELD(T, ids_stride, "ids_stride", I64, DEFAULTED),
    FIELD(T, weights_stride, "weights_stride", I64, DEFAULTED),
    FIELD(T, level, "level", LEVEL, DEFAULTED),
    FIELD(T, flags, "flags", FLAGS, DEFAULTED),
};
#undef T

#define T opreg_moe_matmul
static const problem_field moe_fields[] = {
    FIELD(T, tokens, "tokens", I64, SHOWN),
    FIELD(T, n, "n", I64, REQUIRED),
    FIELD(T, k, "k", I64, REQUIRED),
    FIELD(T, experts, "experts", I32, REQUIRED),
    FIELD(T, top_k, "top_k", I32, REQUIRED),
    FIELD(T, b_dtype, "b", DTYPE, REQUIRED),
    FIELD(T, b_dialect, "dialect", DIALECT, DEFAULTED),
    FIELD(T, x_dtype, "x", DTYPE, SHOWN),
    FIELD(T, y_dtype, "y", DTYPE, SHOWN),
    FIELD(T, x_rows, "rows", ROWS, DEFAULTED),
    FIELD(T, glu, "glu", GLU, DEFAULTED),
    FIELD(T, glu_alpha, "alpha", F32, DEFAULTED),
    FIELD(T, glu_limit, "limit", F32, DEFAULTED),
    FIELD(T, x_stride, "x_stride", I64, DEFAULTED),
    FIELD(T, y_stride, "y_stride", I64, DEFAULTED),
    FIELD(T, layout, "layout", LAYOUT, DEFAULTED),
    FIELD(T, level, "level", LEVEL, DEFAULTED),
    FIELD(T, flags, "flags", FLAGS, DEFAULTED),
};
#undef T

#define T opreg_moe_combine
static const problem_field combine_fields[] = {
    FIELD(T, tokens, "tokens", I64, SHOWN),
    FIELD(T, n, "n", I64, REQUIRED),
    FIELD(T, top_k, "top_k", I32, REQUIRED),
    FIELD(T, x_dtype, "x", DTYPE, SHOWN),
    FIELD(T, y_dtype, "y", DTYPE, SHOWN),
    FIELD(T, x_stride, "x_stride", I64, DEFAULTED),
    FIELD(T, y_stride, "y_stride", I64, DEFAULTED),
    FIELD(T, weights_stride, "weights_stride", I64, DEFAULTED),
    FIELD(T, level, "level", LEVEL, DEFAULTED),
    FIELD(T, flags, "flags", FLAGS, DEFAULTED),
};
#undef T

#define T opreg_moe_ffn
static const problem_field ffn_fields[] = {
    FIELD(T, tokens, "tokens", I64, SHOWN),
    FIELD(T, hidden, "hidden", I64, REQUIRED),
    FIELD(T, inter, "inter", I64, REQUIRED),
    FIELD(T, experts, "experts", I32, REQUIRED),
    FIELD(T, top_k, "top_k", I32, REQUIRED),
    FIELD(T, b_dtype, "b", DTYPE, REQUIRED),
    FIELD(T, b_dialect, "dialect", DIALECT, DEFAULTED),
    FIELD(T, down_dtype, "down", DTYPE, DEFAULTED),
    FIELD(T, down_dialect, "down_dialect", DIALECT, DEFAULTED),
    FIELD(T, x_dtype, "x", DTYPE, SHOWN),
    FIELD(T, y_dtype, "y", DTYPE, SHOWN),
    FIELD(T, glu, "glu", GLU, DEFAULTED),
    FIELD(T, glu_alpha, "alpha", F32, DEFAULTED),
    FIELD(T, glu_limit, "limit", F32, DEFAULTED),
    FIELD(T, x_stride, "x_stride", I64, DEFAULTED),
    FIELD(T, y_stride, "y_stride", I64, DEFAULTED),
    FIELD(T, weights_stride, "weights_stride", I64, DEFAULTED),
    FIELD(T, layout, "layout", LAYOUT, DEFAULTED),
    FIELD(T, down_layout, "down_layout", LAYOUT, DEFAULTED),
    FIELD(T, level, "level", LEVEL, DEFAULTED),
    FIELD(T, flags, "flags", FLAGS, DEFAULTED),
};
#undef T

#define T opreg_paged_attn_decode
static const problem_field attn_fields[] = {
    FIELD(T, seqs, "seqs", I32, SHOWN),
    FIELD(T, q_heads, "hq", I32, REQUIRED),
    FIELD(T, kv_heads, "hk", I32, REQUIRED),
    FIELD(T, head_dim, "d", I32, REQUIRED),
    FIELD(T, max_seq_len, "len", I32, REQUIRED),
    FIELD(T, q_dtype, "q", DTYPE, SHOWN),
    FIELD(T, kv_dtype, "kv", DTYPE, SHOWN),
    FIELD(T, out_dtype, "out", DTYPE, SHOWN),
    FIELD(T, block_size, "block", I32, DEFAULTED),
    FIELD(T, num_blocks, "blocks", I32, DEFAULTED),
    FIELD(T, table_stride, "table_stride", I32, DEFAULTED),
    FIELD(T, max_q, "max_q", I32, DEFAULTED),
    FIELD(T, tokens, "tokens", I32, SHOWN),
    FIELD(T, window, "window", I32, DEFAULTED),
    FIELD(T, scale, "scale", F32, DEFAULTED),
    FIELD(T, softcap, "softcap", F32, DEFAULTED),
    FIELD(T, q_stride, "q_stride", I64, DEFAULTED),
    FIELD(T, out_stride, "out_stride", I64, DEFAULTED),
    FIELD(T, k_block_stride, "k_block_stride", I64, DEFAULTED),
    FIELD(T, k_slot_stride, "k_slot_stride", I64, DEFAULTED),
    FIELD(T, k_head_stride, "k_head_stride", I64, DEFAULTED),
    FIELD(T, v_block_stride, "v_block_stride", I64, DEFAULTED),
    FIELD(T, v_slot_stride, "v_slot_stride", I64, DEFAULTED),
    FIELD(T, v_head_stride, "v_head_stride", I64, DEFAULTED),
    FIELD(T, level, "level", LEVEL, DEFAULTED),
    FIELD(T, flags, "flags", FLAGS, DEFAULTED),
};
#undef T

#define ROW(id, type, text, rows, known, bufs, reserved_at)                                        \
    {                                                                                              \
        id, (uint32_t)sizeof(type), known, (uint32_t)bufs, (uint32_t)offsetof(type, level),        \
            (uint32_t)offsetof(type, flags), reserved_at, COUNT(rows), text, rows                  \
    }
#define RESERVED(type) (int32_t)offsetof(type, reserved)

static const problem_op ops[OPREG_OP_COUNT] = {
    ROW(OPREG_OP_QUANTIZE_ACT, opreg_quantize_act, "quantize_act", quantize_fields, ASKS,
        OPREG_QUANTIZE_BUFS, RESERVED(opreg_quantize_act)),
    ROW(OPREG_OP_MATMUL_BT_QUANT, opreg_matmul_bt_quant, "matmul_bt_quant", matmul_fields,
        ASKS | OPREG_PF_BIAS, OPREG_MATMUL_BUFS, RESERVED(opreg_matmul_bt_quant)),
    ROW(OPREG_OP_MOE_ROUTE, opreg_moe_route, "moe_route", route_fields, ASKS, OPREG_ROUTE_BUFS, -1),
    ROW(OPREG_OP_MOE_MATMUL, opreg_moe_matmul, "moe_matmul", moe_fields, ASKS, OPREG_MOE_BUFS, -1),
    ROW(OPREG_OP_MOE_GLU, opreg_moe_matmul, "moe_glu", moe_fields, ASKS, OPREG_MOE_BUFS, -1),
    ROW(OPREG_OP_MOE_DOWN, opreg_moe_matmul, "moe_down", moe_fields, ASKS, OPREG_MOE_BUFS, -1),
    ROW(OPREG_OP_MOE_COMBINE, opreg_moe_combine, "moe_combine", combine_fields, ASKS,
        OPREG_COMBINE_BUFS, -1),
    ROW(OPREG_OP_MOE_FFN, opreg_moe_ffn, "moe_ffn", ffn_fields, ASKS, OPREG_FFN_BUFS, -1),
    ROW(OPREG_OP_PAGED_ATTN_DECODE, opreg_paged_attn_decode, "paged_attn_decode", attn_fields,
        ASKS | OPREG_PF_CSR | OPREG_PF_Q_INDPTR | OPREG_PF_SINKS | OPREG_PF_LSE, OPREG_ATTN_BUFS,
        RESERVED(opreg_paged_attn_decode)),
};

const problem_op *problem_op_find(opreg_op op) {
    uint32_t i = (uint32_t)op - 1u;
    return i < OPREG_OP_COUNT ? &ops[i] : NULL;
}

const char *opreg_op_name(opreg_op op) {
    const problem_op *row = problem_op_find(op);
    return row != NULL ? row->name : "?";
}

opreg_op opreg_op_by_name(const char *name) {
    for (uint32_t i = 0; name != NULL && i < OPREG_OP_COUNT; i++) {
        if (strcmp(ops[i].name, name) == 0) {
            return ops[i].op;
        }
    }
    return (opreg_op)0;
}

size_t opreg_problem_size(opreg_op op) {
    const problem_op *row = problem_op_find(op);
    return row != NULL ? row->size : 0;
}
