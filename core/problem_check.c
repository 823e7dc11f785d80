/* SPDX-License-Identifier: MIT
 * problem_check.c - the rules of every operator's problem, so that no kernel needs to repeat them. */
#include <math.h>
#include <string.h>

#include "error.h"
#include "formats/formats.h"
#include "formats/side.h"
#include "problem.h"

#define TRY(call)                                                                                  \
    do {                                                                                           \
        opreg_status try_status = (call);                                                          \
        if (try_status != OPREG_OK) {                                                              \
            return try_status;                                                                     \
        }                                                                                          \
    } while (0)

static opreg_status check_float(const char *key, uint32_t dtype) {
    if (dtype != OPREG_F32 && dtype != OPREG_F16 && dtype != OPREG_BF16) {
        return fail(OPREG_E_ARG, "%s dtype %s (%u) is not one of f32 f16 bf16", key,
                    opreg_dtype_name(dtype), dtype);
    }
    return OPREG_OK;
}

static opreg_status check_size(const char *key, int64_t value, int64_t least) {
    if (value < least) {
        return fail(OPREG_E_SHAPE, "%s is %lld, it must be at least %lld", key, (long long)value,
                    (long long)least);
    }
    return OPREG_OK;
}

static opreg_status check_stride(const char *key, int64_t stride, const char *of, int64_t length) {
    if (stride < length) {
        return fail(OPREG_E_SHAPE, "%s is %lld elements, it must be at least %s, %lld", key,
                    (long long)stride, of, (long long)length);
    }
    return OPREG_OK;
}

/* The last element of `rows` rows, in bytes of at most 16 an element, must be countable. */
static opreg_status check_extent(const char *key, int64_t rows, int64_t stride) {
    int64_t elements, bytes;
    if (!size_mul(rows, stride, &elements) || !size_mul(elements, 16, &bytes)) {
        return fail(OPREG_E_SHAPE, "%s: %lld rows of %lld elements overflow 64 bits", key,
                    (long long)rows, (long long)stride);
    }
    return OPREG_OK;
}

static opreg_status check_dialect(const char *key, uint32_t format, uint32_t dialect) {
    int known = 0;
    if (dialect > OPREG_DIALECT_ROCMFP4_HIP) {
        return fail(OPREG_E_ARG, "%s %u is not an opreg_dialect", key, dialect);
    }
    if (dialect != OPREG_DIALECT_DEFAULT) {
        side_dialect(format, dialect, &known);
        if (!known) {
            return fail(OPREG_E_SHAPE, "%s %u is not a reading of format %s", key, dialect,
                        opreg_dtype_name(format));
        }
    }
    return OPREG_OK;
}

/* A weight of experts * n rows of k values. */
static opreg_status check_weight(const char *key, uint32_t format, uint32_t dialect,
                                 int64_t experts, int64_t n, const char *k_key, int64_t k,
                                 const problem_formats *extra) {
    uint32_t values, bytes;
    int64_t total;
    if (format == OPREG_F8_E4M3 || format == OPREG_Q8_K) {
        return fail(OPREG_E_ARG, "%s is not a format of weights: %s", opreg_dtype_name(format),
                    format == OPREG_Q8_K ? "it is for quantized activations"
                                         : "it is for KV caches");
    }
    TRY(problem_block(format, extra, &values, &bytes));
    TRY(check_dialect(key, format, dialect));
    TRY(check_size(k_key, k, 1));
    if (k % values != 0) {
        return fail(OPREG_E_SHAPE, "%s %lld is not a multiple of the %s block, %u", k_key,
                    (long long)k, opreg_dtype_name(format), values);
    }
    if (!size_mul(k / values, bytes, &total) || !size_mul(total, n, &total) ||
        !size_mul(total, experts, &total)) {
        return fail(OPREG_E_SHAPE, "the bytes of %lld experts of %lld rows of %lld overflow 64 bits",
                    (long long)experts, (long long)n, (long long)k);
    }
    return OPREG_OK;
}

/* x: a float dtype, or the planes that the weight's format is dotted with. */
static opreg_status check_x(uint32_t x, uint32_t format, int64_t k, int64_t x_stride) {
    if (x == OPREG_Q8_0 || x == OPREG_Q8_K) {
        const format_info *info = format_by_id(format); /* null: a plugin's, which says itself */
        if (info != NULL && info->act_dtype != x) {
            return fail(OPREG_E_SHAPE, "x is %s planes, but %s weights are dotted with %s",
                        opreg_dtype_name(x), info->name, opreg_dtype_name(info->act_dtype));
        }
        if (k % (x == OPREG_Q8_0 ? 32 : 256) != 0) {
            return fail(OPREG_E_SHAPE, "k %lld is not whole blocks of %s planes", (long long)k,
                        opreg_dtype_name(x));
        }
        if (x_stride != k) {
            return fail(OPREG_E_SHAPE, "x_stride is %lld: planes are packed, so it must be k, %lld",
                        (long long)x_stride, (long long)k);
        }
        return OPREG_OK;
    }
    if (x != OPREG_F32 && x != OPREG_F16 && x != OPREG_BF16) {
        return fail(OPREG_E_ARG, "x dtype %s (%u) is not one of f32 f16 bf16 q8_0 q8_k",
                    opreg_dtype_name(x), x);
    }
    return check_stride("x_stride", x_stride, "k", k);
}

static opreg_status check_glu(uint32_t glu, float alpha, float limit) {
    if (glu > OPREG_GLU_SWIGLU_OAI) {
        return fail(OPREG_E_ARG, "glu %u is not an opreg_glu", glu);
    }
    if (glu == OPREG_GLU_SWIGLU_OAI ? !isfinite(alpha) : alpha != 0.0f) {
        return fail(OPREG_E_SHAPE, "glu_alpha is %g: %s", (double)alpha,
                    glu == OPREG_GLU_SWIGLU_OAI ? "it must be finite"
                                                : "it must be 0 but with swiglu_oai");
    }
    if (glu == OPREG_GLU_SWIGLU_OAI || glu == OPREG_GLU_SILU_CLAMPED) {
        if (!(limit > 0.0f) || !isfinite(limit)) {
            return fail(OPREG_E_SHAPE, "glu_limit is %g, it must be above 0 and finite",
                        (double)limit);
        }
    } else if (limit != 0.0f) {
        return fail(OPREG_E_SHAPE, "glu_limit is %g: it must be 0 where the glu has no limit",
                    (double)limit);
    }
    return OPREG_OK;
}

/* tokens * top_k entries, by the route's own rule. */
static opreg_status check_route(int64_t tokens, int32_t top_k, int32_t experts) {
    opreg_route_layout layout = {.struct_size = sizeof layout};
    return opreg_route_layout_get(tokens, top_k, experts, &layout);
}

static opreg_status check_quantize(const opreg_quantize_act *p) {
    TRY(check_float("x", p->x_dtype));
    if (p->q_dtype != OPREG_Q8_0 && p->q_dtype != OPREG_Q8_K) {
        return fail(OPREG_E_ARG, "q dtype %s (%u) is not one of q8_0 q8_k",
                    opreg_dtype_name(p->q_dtype), p->q_dtype);
    }
    TRY(check_size("m", p->m, 0));
    TRY(check_size("k", p->k, 1));
    if (p->k % (p->q_dtype == OPREG_Q8_0 ? 32 : 256) != 0) {
        return fail(OPREG_E_SHAPE, "k %lld is not a multiple of the %s block, %d", (long long)p->k,
                    opreg_dtype_name(p->q_dtype), p->q_dtype == OPREG_Q8_0 ? 32 : 256);
    }
    TRY(check_stride("x_stride", p->x_stride, "k", p->k));
    return check_extent("x", p->m, p->x_stride);
}

static opreg_status check_matmul(const opreg_matmul_bt_quant *p, const problem_formats *extra) {
    TRY(check_float("y", p->y_dtype));
    TRY(check_size("m", p->m, 0));
    TRY(check_size("n", p->n, 0));
    TRY(check_weight("b_dialect", p->b_dtype, p->b_dialect, 1, p->n, "k", p->k, extra));
    TRY(check_x(p->x_dtype, p->b_dtype, p->k, p->x_stride));
    TRY(check_stride("y_stride", p->y_stride, "n", p->n));
    TRY(check_extent("x", p->m, p->x_stride));
    TRY(check_extent("y", p->m, p->y_stride));
    TRY(check_extent("bias", 1, p->n));
    TRY(check_glu(p->glu, p->glu_alpha, p->glu_limit));
    if (p->glu != OPREG_GLU_NONE && (p->flags & OPREG_PF_BIAS) != 0) {
        return fail(OPREG_E_SHAPE, "the pair form (glu %u) has no bias", p->glu);
    }
    return OPREG_OK;
}

static opreg_status check_moe_route(const opreg_moe_route *p) {
    if (p->form != OPREG_ROUTE_TOPK && p->form != OPREG_ROUTE_PAIRS) {
        return fail(OPREG_E_ARG, "form %u is not OPREG_ROUTE_TOPK or OPREG_ROUTE_PAIRS", p->form);
    }
    TRY(check_route(p->tokens, p->top_k, p->experts));
    TRY(check_stride("ids_stride", p->ids_stride, "top_k", p->top_k));
    TRY(check_stride("weights_stride", p->weights_stride, "top_k", p->top_k));
    if (p->form == OPREG_ROUTE_PAIRS && (p->ids_stride != p->top_k || p->weights_stride != p->top_k)) {
        return fail(OPREG_E_SHAPE, "pairs are packed: ids_stride and weights_stride must be top_k, %d",
                    p->top_k);
    }
    TRY(check_extent("ids", p->tokens, p->ids_stride));
    return check_extent("weights", p->tokens, p->weights_stride);
}

static opreg_status check_moe(opreg_op op, const opreg_moe_matmul *p,
                              const problem_formats *extra) {
    int64_t entries = 0;
    TRY(check_float("y", p->y_dtype));
    TRY(check_route(p->tokens, p->top_k, p->experts));
    TRY(check_size("n", p->n, 0));
    TRY(check_weight("b_dialect", p->b_dtype, p->b_dialect, p->experts, p->n, "k", p->k, extra));
    TRY(check_x(p->x_dtype, p->b_dtype, p->k, p->x_stride));
    TRY(check_stride("y_stride", p->y_stride, "n", p->n));
    if (p->x_rows != OPREG_X_BY_TOKEN && p->x_rows != OPREG_X_BY_DST) {
        return fail(OPREG_E_ARG, "x_rows %u is not OPREG_X_BY_TOKEN or OPREG_X_BY_DST", p->x_rows);
    }
    if (op == OPREG_OP_MOE_DOWN && p->x_rows != OPREG_X_BY_DST) {
        return fail(OPREG_E_SHAPE, "moe_down reads its rows by destination: x_rows must be "
                                   "OPREG_X_BY_DST");
    }
    TRY(check_glu(p->glu, p->glu_alpha, p->glu_limit));
    if ((op == OPREG_OP_MOE_GLU) != (p->glu != OPREG_GLU_NONE)) {
        return fail(OPREG_E_SHAPE, op == OPREG_OP_MOE_GLU ? "moe_glu needs a glu that is not none"
                                                          : "%s has no glu: it must be none",
                    opreg_op_name(op));
    }
    size_mul(p->tokens, p->top_k, &entries); /* checked with the route */
    TRY(check_extent("x", p->x_rows == OPREG_X_BY_TOKEN ? p->tokens : entries, p->x_stride));
    return check_extent("y", entries, p->y_stride);
}

static opreg_status check_combine(const opreg_moe_combine *p) {
    int64_t entries = 0;
    TRY(check_float("x", p->x_dtype));
    TRY(check_float("y", p->y_dtype));
    TRY(check_route(p->tokens, p->top_k, 1));
    TRY(check_size("n", p->n, 0));
    TRY(check_stride("x_stride", p->x_stride, "n", p->n));
    TRY(check_stride("y_stride", p->y_stride, "n", p->n));
    TRY(check_stride("weights_stride", p->weights_stride, "top_k", p->top_k));
    size_mul(p->tokens, p->top_k, &entries);
    TRY(check_extent("rows", entries, p->x_stride));
    TRY(check_extent("y", p->tokens, p->y_stride));
    return check_extent("weights", p->tokens, p->weights_stride);
}

static opreg_status check_ffn(const opreg_moe_ffn *p, const problem_formats *extra) {
    TRY(check_float("x", p->x_dtype));
    TRY(check_float("y", p->y_dtype));
    TRY(check_route(p->tokens, p->top_k, p->experts));
    TRY(check_weight("b_dialect", p->b_dtype, p->b_dialect, p->experts, p->inter, "hidden",
                     p->hidden, extra));
    TRY(check_weight("down_dialect", p->down_dtype, p->down_dialect, p->experts, p->hidden, "inter",
                     p->inter, extra));
    TRY(check_glu(p->glu, p->glu_alpha, p->glu_limit));
    if (p->glu == OPREG_GLU_NONE) {
        return fail(OPREG_E_SHAPE, "moe_ffn needs a glu that is not none");
    }
    TRY(check_stride("x_stride", p->x_stride, "hidden", p->hidden));
    TRY(check_stride("y_stride", p->y_stride, "hidden", p->hidden));
    TRY(check_stride("weights_stride", p->weights_stride, "top_k", p->top_k));
    TRY(check_extent("x", p->tokens, p->x_stride));
    TRY(check_extent("y", p->tokens, p->y_stride));
    /* what every composition holds between its stages; tokens * top_k is an int32 */
    TRY(check_extent("h", p->tokens * p->top_k, p->inter));
    TRY(check_extent("the rows of down", p->tokens * p->top_k, p->hidden));
    return check_extent("weights", p->tokens, p->weights_stride);
}

static opreg_status check_cache(const char *name, const opreg_paged_attn_decode *p, int64_t block,
                                int64_t slot, int64_t head) {
    const struct {
        int64_t stride;
        int32_t count;
        const char *what;
    } axes[] = {{block, p->num_blocks, "block"}, {slot, p->block_size, "slot"},
                {head, p->kv_heads, "head"}};
    int64_t total = p->head_dim, part;
    for (int i = 0; i < 3; i++) {
        if (axes[i].stride < (axes[i].count > 1 ? p->head_dim : 0)) {
            return fail(OPREG_E_SHAPE, "%s_%s_stride is %lld, it must be at least head_dim, %d",
                        name, axes[i].what, (long long)axes[i].stride, p->head_dim);
        }
        if (!size_mul(axes[i].count, axes[i].stride, &part) || !size_add(total, part, &total) ||
            total > INT64_MAX / 16) {
            return fail(OPREG_E_SHAPE, "the extent of the %s cache overflows 64 bits", name);
        }
    }
    return OPREG_OK;
}

static opreg_status check_attn(const opreg_paged_attn_decode *p) {
    int64_t positions;
    TRY(check_float("q", p->q_dtype));
    TRY(check_float("out", p->out_dtype));
    if (p->kv_dtype != OPREG_F8_E4M3 && check_float("kv", p->kv_dtype) != OPREG_OK) {
        return fail(OPREG_E_ARG, "kv dtype %s (%u) is not one of f32 f16 bf16 f8_e4m3",
                    opreg_dtype_name(p->kv_dtype), p->kv_dtype);
    }
    TRY(check_size("seqs", p->seqs, 0));
    TRY(check_size("max_q", p->max_q, 1));
    TRY(check_size("tokens", p->tokens, 0));
    if (p->max_q > 8) {
        return fail(OPREG_E_SHAPE, "max_q is %d, a request has 1 to 8 query tokens", p->max_q);
    }
    if ((p->flags & OPREG_PF_Q_INDPTR) == 0 && (p->tokens != p->seqs || p->max_q != 1)) {
        return fail(OPREG_E_SHAPE,
                    "without OPREG_PF_Q_INDPTR each request has one token: tokens %d must be seqs "
                    "%d and max_q %d must be 1",
                    p->tokens, p->seqs, p->max_q);
    }
    if (p->tokens > (int64_t)p->seqs * p->max_q) {
        return fail(OPREG_E_SHAPE, "tokens %d is more than seqs %d times max_q %d", p->tokens,
                    p->seqs, p->max_q);
    }
    TRY(check_size("q_heads", p->q_heads, 1));
    TRY(check_size("kv_heads", p->kv_heads, 1));
    if (p->q_heads % p->kv_heads != 0) {
        return fail(OPREG_E_SHAPE, "q_heads %d is not a multiple of kv_heads %d", p->q_heads,
                    p->kv_heads);
    }
    if (p->head_dim < 64 || p->head_dim > 512) {
        return fail(OPREG_E_SHAPE, "head_dim %d is not in 64..512", p->head_dim);
    }
    TRY(check_size("block_size", p->block_size, 1));
    TRY(check_size("num_blocks", p->num_blocks, 0));
    TRY(check_size("table_stride", p->table_stride, 0));
    TRY(check_size("max_seq_len", p->max_seq_len, 0));
    TRY(check_size("window", p->window, 0));
    positions = (int64_t)p->table_stride * p->block_size;
    if ((p->flags & OPREG_PF_CSR) == 0 && p->max_seq_len > positions) {
        return fail(OPREG_E_SHAPE,
                    "max_seq_len %d is more than a table row holds: %d entries of %d positions",
                    p->max_seq_len, p->table_stride, p->block_size);
    }
    if (!(p->scale > 0.0f) || !isfinite(p->scale)) {
        return fail(OPREG_E_SHAPE, "scale is %g, it must be above 0 and finite", (double)p->scale);
    }
    if (!(p->softcap >= 0.0f) || !isfinite(p->softcap)) {
        return fail(OPREG_E_SHAPE, "softcap is %g, it must be 0 or above and finite",
                    (double)p->softcap);
    }
    positions = (int64_t)p->q_heads * p->head_dim;
    TRY(check_stride("q_stride", p->q_stride, "q_heads * head_dim", positions));
    TRY(check_stride("out_stride", p->out_stride, "q_heads * head_dim", positions));
    TRY(check_extent("block_table", p->seqs, p->table_stride));
    TRY(check_extent("q", p->tokens, p->q_stride));
    TRY(check_extent("out", p->tokens, p->out_stride));
    TRY(check_cache("k", p, p->k_block_stride, p->k_slot_stride, p->k_head_stride));
    return check_cache("v", p, p->v_block_stride, p->v_slot_stride, p->v_head_stride);
}

opreg_status problem_check(opreg_op op, const problem_any *problem, const problem_formats *extra) {
    const problem_op *row = problem_op_find(op);
    uint32_t value;
    if (row == NULL) {
        return fail(OPREG_E_ARG, "%d is not an operator: use OPREG_OP_*", (int)op);
    }
    memcpy(&value, problem->bytes + row->level_offset, sizeof value);
    if (value > OPREG_LEVEL_CANONICAL) {
        return fail(OPREG_E_ARG, "level %u is not an opreg_level", value);
    }
    memcpy(&value, problem->bytes + row->flags_offset, sizeof value);
    if ((value & ~row->flags) != 0) {
        return fail(OPREG_E_ARG, "flags 0x%x: %s does not know 0x%x", value, row->name,
                    value & ~row->flags);
    }
    if (row->reserved_offset >= 0) {
        memcpy(&value, problem->bytes + row->reserved_offset, sizeof value);
        if (value != 0) {
            return fail(OPREG_E_ARG, "reserved is %u, it must be 0", value);
        }
    }
    switch (op) {
    case OPREG_OP_QUANTIZE_ACT:
        return check_quantize(&problem->quantize);
    case OPREG_OP_MATMUL_BT_QUANT:
        return check_matmul(&problem->matmul, extra);
    case OPREG_OP_MOE_ROUTE:
        return check_moe_route(&problem->route);
    case OPREG_OP_MOE_MATMUL:
    case OPREG_OP_MOE_GLU:
    case OPREG_OP_MOE_DOWN:
        return check_moe(op, &problem->moe, extra);
    case OPREG_OP_MOE_COMBINE:
        return check_combine(&problem->combine);
    case OPREG_OP_MOE_FFN:
        return check_ffn(&problem->ffn, extra);
    case OPREG_OP_PAGED_ATTN_DECODE:
        return check_attn(&problem->attn);
    }
    return fail(OPREG_E_ARG, "%d is not an operator: use OPREG_OP_*", (int)op);
}
