/* SPDX-License-Identifier: MIT
 * problem_defaults.c - what a field has that a problem's text does not name. */
#include <math.h>
#include <string.h>

#include "problem.h"

typedef struct defaults {
    const problem_op *row;
    problem_any *problem;
    const unsigned char *named;
} defaults;

static int is_named(const defaults *d, size_t offset) {
    for (uint32_t i = 0; i < d->row->num_fields; i++) {
        if (d->row->fields[i].offset == offset) {
            return d->named[i];
        }
    }
    return 0;
}

#define DEFAULT(member, value)                                                                     \
    do {                                                                                           \
        if (!is_named(d, (size_t)((const char *)&p->member - (const char *)p))) {                  \
            p->member = (value);                                                                   \
        }                                                                                          \
    } while (0)

static float default_alpha(uint32_t glu) { return glu == OPREG_GLU_SWIGLU_OAI ? 1.702f : 0.0f; }

static float default_limit(uint32_t glu) {
    return glu == OPREG_GLU_SWIGLU_OAI || glu == OPREG_GLU_SILU_CLAMPED ? 7.0f : 0.0f;
}

static void matmul_defaults(const defaults *d, opreg_matmul_bt_quant *p) {
    DEFAULT(m, 1);
    DEFAULT(x_dtype, OPREG_F32);
    DEFAULT(y_dtype, OPREG_F32);
    DEFAULT(glu_alpha, default_alpha(p->glu));
    DEFAULT(glu_limit, default_limit(p->glu));
    DEFAULT(x_stride, p->k);
    DEFAULT(y_stride, p->n);
    DEFAULT(layout, OPREG_LAYOUT_ANY);
}

static void moe_defaults(const defaults *d, opreg_op op, opreg_moe_matmul *p) {
    DEFAULT(tokens, 1);
    DEFAULT(x_dtype, OPREG_F32);
    DEFAULT(y_dtype, OPREG_F32);
    DEFAULT(x_rows, op == OPREG_OP_MOE_DOWN ? OPREG_X_BY_DST : OPREG_X_BY_TOKEN);
    DEFAULT(glu, op == OPREG_OP_MOE_GLU ? OPREG_GLU_SILU : OPREG_GLU_NONE);
    DEFAULT(glu_alpha, default_alpha(p->glu));
    DEFAULT(glu_limit, default_limit(p->glu));
    DEFAULT(x_stride, p->k);
    DEFAULT(y_stride, p->n);
    DEFAULT(layout, OPREG_LAYOUT_ANY);
}

static void combine_defaults(const defaults *d, opreg_moe_combine *p) {
    DEFAULT(tokens, 1);
    DEFAULT(x_dtype, OPREG_F32);
    DEFAULT(y_dtype, OPREG_F32);
    DEFAULT(x_stride, p->n);
    DEFAULT(y_stride, p->n);
    DEFAULT(weights_stride, p->top_k);
}

static void ffn_defaults(const defaults *d, opreg_moe_ffn *p) {
    DEFAULT(tokens, 1);
    DEFAULT(x_dtype, OPREG_F32);
    DEFAULT(y_dtype, OPREG_F32);
    DEFAULT(down_dtype, p->b_dtype);
    DEFAULT(down_dialect, p->down_dtype == p->b_dtype ? p->b_dialect : OPREG_DIALECT_DEFAULT);
    DEFAULT(glu, OPREG_GLU_SILU);
    DEFAULT(glu_alpha, default_alpha(p->glu));
    DEFAULT(glu_limit, default_limit(p->glu));
    DEFAULT(x_stride, p->hidden);
    DEFAULT(y_stride, p->hidden);
    DEFAULT(weights_stride, p->top_k);
    DEFAULT(layout, OPREG_LAYOUT_ANY);
    DEFAULT(down_layout, OPREG_LAYOUT_ANY);
}

/* Saturates instead of overflowing: the checks refuse the result. */
static int64_t product(int64_t a, int64_t b) {
    int64_t out;
    return size_mul(a, b, &out) ? out : INT64_MAX;
}

static int32_t narrow(int64_t value) { return value > INT32_MAX ? INT32_MAX : (int32_t)value; }

static void attn_defaults(const defaults *d, opreg_paged_attn_decode *p) {
    int64_t pages;
    DEFAULT(seqs, 1);
    DEFAULT(q_dtype, OPREG_F32);
    DEFAULT(kv_dtype, OPREG_F16);
    DEFAULT(out_dtype, p->q_dtype);
    DEFAULT(block_size, 16);
    DEFAULT(max_q, 1);
    DEFAULT(tokens, narrow(product(p->seqs, (p->flags & OPREG_PF_Q_INDPTR) != 0 ? p->max_q : 1)));
    pages = p->block_size > 0 ? ((int64_t)p->max_seq_len + p->block_size - 1) / p->block_size : 0;
    DEFAULT(num_blocks, narrow(product(pages, p->seqs)));
    DEFAULT(table_stride,
            narrow((p->flags & OPREG_PF_CSR) != 0 ? product(pages, p->seqs) : pages));
    DEFAULT(scale, p->head_dim > 0 ? (float)(1.0 / sqrt((double)p->head_dim)) : 0.0f);
    DEFAULT(q_stride, product(p->q_heads, p->head_dim));
    DEFAULT(out_stride, product(p->q_heads, p->head_dim));
    DEFAULT(k_head_stride, p->head_dim);
    DEFAULT(k_slot_stride, product(p->kv_heads, p->head_dim));
    DEFAULT(k_block_stride, product(product(p->kv_heads, p->head_dim), p->block_size));
    DEFAULT(v_head_stride, p->k_head_stride);
    DEFAULT(v_slot_stride, p->k_slot_stride);
    DEFAULT(v_block_stride, p->k_block_stride);
}

static void quantize_defaults(const defaults *d, opreg_quantize_act *p) {
    DEFAULT(m, 1);
    DEFAULT(x_dtype, OPREG_F32);
    DEFAULT(x_stride, p->k);
}

static void route_defaults(const defaults *d, opreg_moe_route *p) {
    DEFAULT(tokens, 1);
    DEFAULT(form, OPREG_ROUTE_TOPK);
    DEFAULT(ids_stride, p->top_k);
    DEFAULT(weights_stride, p->top_k);
}

void problem_defaults(opreg_op op, problem_any *problem, const unsigned char *named) {
    const defaults d = {problem_op_find(op), problem, named};
    switch (op) {
    case OPREG_OP_QUANTIZE_ACT:
        quantize_defaults(&d, &problem->quantize);
        break;
    case OPREG_OP_MATMUL_BT_QUANT:
        matmul_defaults(&d, &problem->matmul);
        break;
    case OPREG_OP_MOE_ROUTE:
        route_defaults(&d, &problem->route);
        break;
    case OPREG_OP_MOE_MATMUL:
    case OPREG_OP_MOE_GLU:
    case OPREG_OP_MOE_DOWN:
        moe_defaults(&d, op, &problem->moe);
        break;
    case OPREG_OP_MOE_COMBINE:
        combine_defaults(&d, &problem->combine);
        break;
    case OPREG_OP_MOE_FFN:
        ffn_defaults(&d, &problem->ffn);
        break;
    case OPREG_OP_PAGED_ATTN_DECODE:
        attn_defaults(&d, &problem->attn);
        break;
    }
}
