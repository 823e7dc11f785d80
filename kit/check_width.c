/* SPDX-License-Identifier: MIT
 * check_width.c - width invariance: a row has the bits of a call with that row alone. */
#include <stdlib.h>
#include <string.h>

#include "attention.h"
#include "check.h"
#include "moe.h"
#include "oracle.h"

/* A call that is one row of another.  It shares the other's memory but for `own`. */
typedef struct lone {
    job of;
    uint8_t *own[3];
    uint32_t num_own;
    uint64_t from[JOB_BUFS]; /* output: the byte where the row starts in the other's buffer         */
} lone;

static void lone_start(lone *l, const job *of) {
    memset(l, 0, sizeof *l);
    l->of = *of;
}

/* An input from element `first` on. */
static void narrow_input(lone *l, uint32_t index, int64_t first, int64_t count) {
    job_buffer *b = &l->of.bufs[index];
    uint64_t at = (uint64_t)first * element_bytes(b->dtype);
    if (b->role == JOB_ABSENT) {
        return;
    }
    b->data += at;
    b->loose = b->loose != NULL ? b->loose + at : NULL;
    b->bytes = (uint64_t)count * element_bytes(b->dtype);
}

static void narrow_output(lone *l, uint32_t index, int64_t first, int64_t count) {
    job_buffer *b = &l->of.bufs[index];
    if (b->role != JOB_ABSENT) {
        l->from[index] = (uint64_t)first * element_bytes(b->dtype);
        b->owned = NULL;
        b->bytes = (uint64_t)count * element_bytes(b->dtype);
    }
}

/* Puts integers in the place of an input. */
static int32_t *replace_input(lone *l, uint32_t index, uint64_t bytes) {
    job_buffer *b = &l->of.bufs[index];
    uint8_t *fresh = calloc(bytes + 4, 1);
    l->own[l->num_own++] = fresh;
    b->data = fresh;
    b->loose = NULL;
    b->bytes = bytes;
    return (int32_t *)(void *)fresh;
}

static void narrow_x(lone *l, uint32_t x, uint32_t scales, uint32_t sums, int64_t row, int64_t k,
                     int64_t stride) {
    uint32_t type = l->of.bufs[scales].role != JOB_ABSENT ? l->of.bufs[x].dtype : 0;
    narrow_input(l, x, row * stride, k);
    if (type != 0) {
        int64_t blocks = (int64_t)(l->of.bufs[scales].bytes / 4);
        int64_t rows_blocks = (int64_t)(l->of.bufs[sums].bytes / 2) / (k / 16);
        blocks = rows_blocks > 0 ? blocks / rows_blocks : 0; /* a row's */
        narrow_input(l, scales, row * blocks, blocks);
        narrow_input(l, sums, row * (k / 16), k / 16);
    }
}

static int lone_matmul(uint32_t pick, lone *l) {
    opreg_matmul_bt_quant *p = &l->of.problem.matmul;
    int64_t row;
    if (p->m < 2 || p->n == 0) {
        return 0;
    }
    row = (int64_t)pick % p->m;
    p->m = 1;
    narrow_x(l, OPREG_MATMUL_X, OPREG_MATMUL_X_SCALES, OPREG_MATMUL_X_SUMS, row, p->k, p->x_stride);
    narrow_output(l, OPREG_MATMUL_Y, row * p->y_stride, p->n);
    return 1;
}

/* A route of one token whose slots go to the experts of rows [first, first + top_k). */
static int lone_route(lone *l, uint32_t index, const moe_notes *notes, int64_t first,
                      int32_t top_k, int32_t experts) {
    opreg_route_layout layout;
    int32_t ids[64];
    uint8_t *owned;
    memset(&layout, 0, sizeof layout);
    layout.struct_size = sizeof layout;
    if (top_k > 64 || opreg_route_layout_get(1, top_k, experts, &layout) != OPREG_OK) {
        return 0;
    }
    for (int32_t s = 0; s < top_k; s++) {
        ids[s] = (int32_t)notes->expert_of[first + s]; /* negative: a row of zeros */
    }
    route_spec spec = {1, top_k, experts, ids, NULL, NULL};
    uint8_t *route = (uint8_t *)replace_input(l, index, layout.bytes);
    owned = malloc(layout.bytes);
    if (route != NULL && owned != NULL) {
        route_build(&spec, &layout, route, owned);
    }
    free(owned);
    return route != NULL;
}

static int lone_moe(uint32_t pick, lone *l) {
    opreg_moe_matmul *p = &l->of.problem.moe;
    const moe_notes *notes = l->of.extra;
    int64_t row = -1;
    if (p->n == 0 || notes->rows < 2) {
        return 0;
    }
    for (int64_t i = 0; i < notes->rows && row < 0; i++) {
        int64_t at = ((int64_t)pick + i) % notes->rows;
        row = notes->x_of[at] >= 0 ? at : -1;
    }
    if (row < 0 || !lone_route(l, OPREG_MOE_ROUTE_BUF, notes, row, 1, p->experts)) {
        return 0;
    }
    p->tokens = p->top_k = 1;
    narrow_x(l, OPREG_MOE_X, OPREG_MOE_X_SCALES, OPREG_MOE_X_SUMS, notes->x_of[row], p->k,
             p->x_stride);
    narrow_output(l, OPREG_MOE_Y, row * p->y_stride, p->n);
    return 1;
}

static int lone_combine(uint32_t pick, lone *l) {
    opreg_moe_combine *p = &l->of.problem.combine;
    int64_t token;
    if (p->tokens < 2 || p->n == 0) {
        return 0;
    }
    token = (int64_t)pick % p->tokens;
    p->tokens = 1;
    narrow_input(l, OPREG_COMBINE_ROWS, token * p->top_k * p->x_stride,
                 (p->top_k - 1) * p->x_stride + p->n);
    narrow_input(l, OPREG_COMBINE_WEIGHTS, token * p->weights_stride, p->top_k);
    narrow_output(l, OPREG_COMBINE_Y, token * p->y_stride, p->n);
    return 1;
}

static int lone_ffn(uint32_t pick, lone *l) {
    opreg_moe_ffn *p = &l->of.problem.ffn;
    const moe_notes *notes = l->of.extra;
    int64_t token;
    if (p->tokens < 2) {
        return 0;
    }
    token = (int64_t)pick % p->tokens;
    for (int32_t s = 0; s < p->top_k; s++) {
        int64_t row = token * p->top_k + s;
        /* a hostile route may give a slot another token's x: not a call of one token */
        if (notes->x_of[row] == MOE_TWICE || (notes->x_of[row] >= 0 && notes->x_of[row] != token)) {
            return 0;
        }
    }
    if (!lone_route(l, OPREG_FFN_ROUTE, notes, token * p->top_k, p->top_k, p->experts)) {
        return 0;
    }
    p->tokens = 1;
    narrow_input(l, OPREG_FFN_X, token * p->x_stride, p->hidden);
    narrow_input(l, OPREG_FFN_WEIGHTS, token * p->weights_stride, p->top_k);
    narrow_output(l, OPREG_FFN_Y, token * p->y_stride, p->hidden);
    return 1;
}

/* The token as the last of a request that is as long as the token sees. */
static int lone_attention(uint32_t pick, lone *l) {
    opreg_paged_attn_decode *p = &l->of.problem.attn;
    const attention_notes *notes = l->of.extra;
    int32_t token, seq, length, pages, *lens, *indptr;
    if (p->tokens < 2) {
        return 0;
    }
    token = (int32_t)(pick % (uint32_t)p->tokens);
    seq = notes->owner[token];
    if (seq < 0) {
        return 0;
    }
    length = notes->lengths[seq] - notes->behind[token];
    length = length > 0 ? length : 0;
    pages = (length + p->block_size - 1) / p->block_size;
    lens = replace_input(l, OPREG_ATTN_LENS, 4);
    if (lens == NULL) {
        return 0;
    }
    lens[0] = length;
    if ((p->flags & OPREG_PF_CSR) != 0) {
        lens[0] = length - (pages > 0 ? (pages - 1) * p->block_size : 0);
        indptr = replace_input(l, OPREG_ATTN_INDPTR, 8);
        if (indptr == NULL) {
            return 0;
        }
        indptr[1] = p->table_stride = pages;
    }
    narrow_input(l, OPREG_ATTN_TABLE, notes->pages[seq], p->table_stride);
    p->flags &= ~OPREG_PF_Q_INDPTR;
    l->of.bufs[OPREG_ATTN_Q_INDPTR].role = JOB_ABSENT;
    p->seqs = p->tokens = p->max_q = 1;
    narrow_input(l, OPREG_ATTN_Q, token * p->q_stride, (int64_t)p->q_heads * p->head_dim);
    narrow_output(l, OPREG_ATTN_OUT, token * p->out_stride, (int64_t)p->q_heads * p->head_dim);
    narrow_output(l, OPREG_ATTN_LSE, (int64_t)token * p->q_heads, p->q_heads);
    return 1;
}

static int lone_make(uint32_t pick, lone *l) {
    switch (l->of.op) {
    case OPREG_OP_MATMUL_BT_QUANT: return lone_matmul(pick, l);
    case OPREG_OP_MOE_MATMUL:
    case OPREG_OP_MOE_GLU:
    case OPREG_OP_MOE_DOWN: return lone_moe(pick, l);
    case OPREG_OP_MOE_COMBINE: return lone_combine(pick, l);
    case OPREG_OP_MOE_FFN: return lone_ffn(pick, l);
    case OPREG_OP_PAGED_ATTN_DECODE: return lone_attention(pick, l);
    default: return 0; /* a row of quantize_act has no neighbours in its result; a route is one */
    }
}

static void compare(const reference *ref, const variant *v, const opreg_plan *plan, const lone *l,
                    uint32_t pick, uint8_t *const a[JOB_BUFS], finding *f) {
    static const surroundings around = {0, 0, 0, 0, 1, 0, 0};
    uint8_t *outputs[JOB_BUFS], *rows[JOB_BUFS] = {NULL};
    char detail[320];
    if (!outputs_alloc(&l->of, outputs)) {
        return;
    }
    for (uint32_t i = 0; i < l->of.num_bufs; i++) {
        rows[i] = a[i] != NULL ? a[i] + l->from[i] : NULL;
    }
    if (check_run(ref, v, plan, &l->of, around, outputs, f) &&
        !outputs_equal(&l->of, rows, outputs, detail)) {
        finding_set(f, "width", "a row (pick %u) against the call with it alone: %.240s", pick,
                    detail);
    }
    outputs_free(outputs);
}

void check_width(const reference *ref, const variant *v, const job *of, uint32_t pick,
                 uint8_t *const a[JOB_BUFS], finding *f) {
    opreg_plan *plan = NULL;
    lone l;
    lone_start(&l, of);
    if (lone_make(pick, &l) &&
        opreg_plan_create_named(ref->reg, &v->where->device, of->op, &l.of.problem, v->name,
                                &plan) == OPREG_OK) {
        compare(ref, v, plan, &l, pick, a, f);
        opreg_plan_destroy(plan);
    }
    for (uint32_t i = 0; i < l.num_own; i++) {
        free(l.own[i]);
    }
}
