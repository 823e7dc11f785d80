/* SPDX-License-Identifier: MIT
 * problem_buffers.c - what each buffer and weight of a checked problem must be.
 * Sums and products here cannot overflow: problem_check has bounded every extent. */
#include <string.h>

#include "problem.h"

typedef struct table {
    problem_buffer *rows;
    uint32_t count;
} table;

static uint32_t element_bytes(uint32_t dtype) {
    switch (dtype) {
    case OPREG_F16:
    case OPREG_BF16:
        return 2;
    case OPREG_F8_E4M3:
        return 1;
    default:
        return 4;
    }
}

static void add(table *t, const char *name, int used, int output, uint32_t align, int64_t bytes) {
    problem_buffer *row = &t->rows[t->count++];
    row->name = name;
    row->use = used ? BUFFER_REQUIRED : BUFFER_UNUSED;
    row->output = (uint16_t)output;
    row->align = align;
    row->bytes = used ? (uint64_t)bytes : 0;
}

/* rows of `length` elements, `stride` apart; the last row ends with its last element. */
static int64_t extent(int64_t rows, int64_t stride, int64_t length, uint32_t dtype) {
    return rows == 0 || length == 0 ? 0 : ((rows - 1) * stride + length) * element_bytes(dtype);
}

static void add_rows(table *t, const char *name, int output, int64_t rows, int64_t stride,
                     int64_t length, uint32_t dtype) {
    add(t, name, 1, output, element_bytes(dtype), extent(rows, stride, length, dtype));
}

static int is_planes(uint32_t dtype) { return dtype == OPREG_Q8_0 || dtype == OPREG_Q8_K; }

static void add_x(table *t, int64_t rows, int64_t stride, int64_t k, uint32_t dtype) {
    if (is_planes(dtype)) {
        add(t, "x codes", 1, 0, 16, rows * k);
    } else {
        add_rows(t, "x", 0, rows, stride, k, dtype);
    }
}

/* f32 scales and i16 sums of planes of `rows` rows. */
static void add_planes(table *t, const char *scales, const char *sums, int used, int output,
                       int64_t rows, int64_t k, uint32_t q_dtype) {
    add(t, scales, used, output, 16, rows * (k / (q_dtype == OPREG_Q8_K ? 256 : 32)) * 4);
    add(t, sums, used, output, 16, rows * (k / 16) * 2);
}

static int64_t route_bytes(int64_t tokens, int32_t top_k, int32_t experts) {
    opreg_route_layout layout = {.struct_size = sizeof layout};
    return opreg_route_layout_get(tokens, top_k, experts, &layout) == OPREG_OK
               ? (int64_t)layout.bytes
               : 0;
}

static void matmul_buffers(table *t, const opreg_matmul_bt_quant *p) {
    int planes = is_planes(p->x_dtype);
    int64_t rows = p->n == 0 ? 0 : p->m;
    add_rows(t, "y", 1, p->m, p->y_stride, p->n, p->y_dtype);
    add_x(t, rows, p->x_stride, p->k, p->x_dtype);
    add(t, "bias", (p->flags & OPREG_PF_BIAS) != 0, 0, 4, p->n * 4);
    add_planes(t, "x scales", "x sums", planes, 0, rows, p->k, p->x_dtype);
}

static void route_buffers(table *t, const opreg_moe_route *p) {
    int pairs = p->form == OPREG_ROUTE_PAIRS;
    add(t, "route", 1, 1, 16, route_bytes(p->tokens, p->top_k, p->experts));
    add_rows(t, "ids", 0, p->tokens, p->ids_stride, p->top_k, OPREG_F32);
    add_rows(t, "weights", 0, p->tokens, p->weights_stride, p->top_k, OPREG_F32);
    if (pairs) {
        t->rows[OPREG_ROUTE_WEIGHTS].use = BUFFER_OPTIONAL;
    }
    add(t, "row_map", pairs, 0, 4, p->tokens * p->top_k * 4);
}

static void moe_buffers(table *t, const opreg_moe_matmul *p) {
    int64_t entries = p->tokens * p->top_k;
    int64_t rows = p->n == 0 ? 0 : p->x_rows == OPREG_X_BY_TOKEN ? p->tokens : entries;
    add_rows(t, "y", 1, entries, p->y_stride, p->n, p->y_dtype);
    add_x(t, rows, p->x_stride, p->k, p->x_dtype);
    add(t, "route", 1, 0, 16, route_bytes(p->tokens, p->top_k, p->experts));
    add_planes(t, "x scales", "x sums", is_planes(p->x_dtype), 0, rows, p->k, p->x_dtype);
}

static void combine_buffers(table *t, const opreg_moe_combine *p) {
    add_rows(t, "y", 1, p->tokens, p->y_stride, p->n, p->y_dtype);
    add_rows(t, "rows", 0, p->tokens * p->top_k, p->x_stride, p->n, p->x_dtype);
    add_rows(t, "weights", 0, p->tokens, p->weights_stride, p->top_k, OPREG_F32);
}

static void ffn_buffers(table *t, const opreg_moe_ffn *p) {
    add_rows(t, "y", 1, p->tokens, p->y_stride, p->hidden, p->y_dtype);
    add_rows(t, "x", 0, p->tokens, p->x_stride, p->hidden, p->x_dtype);
    add(t, "route", 1, 0, 16, route_bytes(p->tokens, p->top_k, p->experts));
    add_rows(t, "weights", 0, p->tokens, p->weights_stride, p->top_k, OPREG_F32);
}

static int64_t cache_bytes(const opreg_paged_attn_decode *p, int64_t block, int64_t slot,
                           int64_t head) {
    if (p->num_blocks == 0) {
        return 0;
    }
    return ((p->num_blocks - 1) * block + (p->block_size - 1) * slot + (p->kv_heads - 1) * head +
            p->head_dim) *
           element_bytes(p->kv_dtype);
}

static void attn_buffers(table *t, const opreg_paged_attn_decode *p) {
    int64_t length = (int64_t)p->q_heads * p->head_dim;
    int csr = (p->flags & OPREG_PF_CSR) != 0, fp8 = p->kv_dtype == OPREG_F8_E4M3;
    int64_t table_rows = csr ? 1 : p->seqs;
    add_rows(t, "out", 1, p->tokens, p->out_stride, length, p->out_dtype);
    add_rows(t, "q", 0, p->tokens, p->q_stride, length, p->q_dtype);
    add(t, "k", 1, 0, element_bytes(p->kv_dtype),
        cache_bytes(p, p->k_block_stride, p->k_slot_stride, p->k_head_stride));
    add(t, "v", 1, 0, element_bytes(p->kv_dtype),
        cache_bytes(p, p->v_block_stride, p->v_slot_stride, p->v_head_stride));
    add(t, csr ? "indices" : "block_table", 1, 0, 4, table_rows * p->table_stride * 4);
    add(t, csr ? "last_page_len" : "seq_lens", 1, 0, 4, (int64_t)p->seqs * 4);
    add(t, "indptr", csr, 0, 4, ((int64_t)p->seqs + 1) * 4);
    add(t, "q_indptr", (p->flags & OPREG_PF_Q_INDPTR) != 0, 0, 4, ((int64_t)p->seqs + 1) * 4);
    add(t, "sinks", (p->flags & OPREG_PF_SINKS) != 0, 0, 4, (int64_t)p->q_heads * 4);
    add(t, "k_scale", fp8, 0, 4, (int64_t)p->kv_heads * 4);
    add(t, "v_scale", fp8, 0, 4, (int64_t)p->kv_heads * 4);
    add(t, "lse", (p->flags & OPREG_PF_LSE) != 0, 1, 4, (int64_t)p->tokens * p->q_heads * 4);
}

uint32_t problem_buffers(opreg_op op, const problem_any *problem,
                         problem_buffer out[PROBLEM_MAX_BUFS]) {
    const opreg_quantize_act *q = &problem->quantize;
    table t = {out, 0};
    memset(out, 0, sizeof(problem_buffer) * PROBLEM_MAX_BUFS);
    switch (op) {
    case OPREG_OP_QUANTIZE_ACT:
        add(&t, "codes", 1, 1, 16, q->m * q->k);
        add_planes(&t, "scales", "sums", 1, 1, q->m, q->k, q->q_dtype);
        add_rows(&t, "x", 0, q->m, q->x_stride, q->k, q->x_dtype);
        break;
    case OPREG_OP_MATMUL_BT_QUANT:
        matmul_buffers(&t, &problem->matmul);
        break;
    case OPREG_OP_MOE_ROUTE:
        route_buffers(&t, &problem->route);
        break;
    case OPREG_OP_MOE_MATMUL:
    case OPREG_OP_MOE_GLU:
    case OPREG_OP_MOE_DOWN:
        moe_buffers(&t, &problem->moe);
        break;
    case OPREG_OP_MOE_COMBINE:
        combine_buffers(&t, &problem->combine);
        break;
    case OPREG_OP_MOE_FFN:
        ffn_buffers(&t, &problem->ffn);
        break;
    case OPREG_OP_PAGED_ATTN_DECODE:
        attn_buffers(&t, &problem->attn);
        break;
    }
    return t.count;
}

static void put_weight(problem_weight *out, const char *name, uint32_t format, uint32_t dialect,
                       uint32_t layout, int64_t experts, int64_t n, int64_t k) {
    out->name = name;
    out->format = format;
    out->dialect = dialect;
    out->layout = layout;
    out->reserved = 0;
    out->experts = experts;
    out->n = n;
    out->k = k;
}

uint32_t problem_weights(opreg_op op, const problem_any *problem,
                         problem_weight out[PROBLEM_MAX_WEIGHTS]) {
    const opreg_matmul_bt_quant *m = &problem->matmul;
    const opreg_moe_matmul *e = &problem->moe;
    const opreg_moe_ffn *f = &problem->ffn;
    switch (op) {
    case OPREG_OP_MATMUL_BT_QUANT:
        put_weight(&out[0], m->glu == OPREG_GLU_NONE ? "W" : "gate", m->b_dtype, m->b_dialect,
                   m->layout, 1, m->n, m->k);
        if (m->glu == OPREG_GLU_NONE) {
            return 1;
        }
        out[1] = out[0];
        out[1].name = "up";
        return 2;
    case OPREG_OP_MOE_MATMUL:
    case OPREG_OP_MOE_GLU:
    case OPREG_OP_MOE_DOWN:
        put_weight(&out[0], op == OPREG_OP_MOE_GLU ? "gate" : op == OPREG_OP_MOE_DOWN ? "down" : "W",
                   e->b_dtype, e->b_dialect, e->layout, e->experts, e->n, e->k);
        if (op != OPREG_OP_MOE_GLU) {
            return 1;
        }
        out[1] = out[0];
        out[1].name = "up";
        return 2;
    case OPREG_OP_MOE_FFN:
        put_weight(&out[0], "gate", f->b_dtype, f->b_dialect, f->layout, f->experts, f->inter,
                   f->hidden);
        out[1] = out[0];
        out[1].name = "up";
        put_weight(&out[2], "down", f->down_dtype, f->down_dialect, f->down_layout, f->experts,
                   f->hidden, f->inter);
        return 3;
    default:
        return 0;
    }
}

int problem_is_empty(opreg_op op, const problem_any *problem) {
    switch (op) {
    case OPREG_OP_QUANTIZE_ACT:
        return problem->quantize.m == 0;
    case OPREG_OP_MATMUL_BT_QUANT:
        return problem->matmul.m == 0 || problem->matmul.n == 0;
    case OPREG_OP_MOE_ROUTE:
        return 0;
    case OPREG_OP_MOE_MATMUL:
    case OPREG_OP_MOE_GLU:
    case OPREG_OP_MOE_DOWN:
        return problem->moe.tokens == 0 || problem->moe.n == 0;
    case OPREG_OP_MOE_COMBINE:
        return problem->combine.tokens == 0 || problem->combine.n == 0;
    case OPREG_OP_MOE_FFN:
        return problem->ffn.tokens == 0;
    case OPREG_OP_PAGED_ATTN_DECODE:
        return problem->attn.tokens == 0;
    }
    return 0;
}
