/* SPDX-License-Identifier: MIT
 * outputs.c - what a run must write, row by row, and how two results of it compare. */
#include "outputs.h"

#include <stdlib.h>
#include <string.h>

#include "cpu/route.h"
#include "error.h"
#include "formats/formats.h"
#include "steps.h"

/* ---- shapes --------------------------------------------------------------------------------- */

static void add(outputs *of, uint32_t index, uint32_t dtype, uint32_t element, int64_t rows,
                int64_t length, int64_t stride) {
    of->rows[of->count++] = (output){.index = index,
                                     .dtype = dtype,
                                     .element = element,
                                     .rows = rows,
                                     .length = length,
                                     .stride = stride};
}

static void add_floats(outputs *of, uint32_t index, uint32_t dtype, int64_t rows, int64_t length,
                       int64_t stride) {
    add(of, index, dtype, dtype == OPREG_F32 ? 4 : 2, rows, length, stride);
}

static void add_all(outputs *of, const problem_any *p, const problem_buffer *buffers) {
    const opreg_quantize_act *q = &p->quantize;
    const opreg_paged_attn_decode *a = &p->attn;
    int64_t block = q->q_dtype == OPREG_Q8_K ? 256 : 32;
    switch (of->op) {
    case OPREG_OP_QUANTIZE_ACT:
        add(of, OPREG_QUANTIZE_CODES, 0, 1, q->m, q->k, q->k);
        add_floats(of, OPREG_QUANTIZE_SCALES, OPREG_F32, q->m, q->k / block, q->k / block);
        add(of, OPREG_QUANTIZE_SUMS, 0, 2, q->m, q->k / 16, q->k / 16);
        break;
    case OPREG_OP_MATMUL_BT_QUANT:
        add_floats(of, OPREG_MATMUL_Y, p->matmul.y_dtype, p->matmul.m, p->matmul.n,
                   p->matmul.y_stride);
        break;
    case OPREG_OP_MOE_ROUTE:
        add(of, OPREG_ROUTE_ROUTE, 0, 4, (int64_t)buffers[OPREG_ROUTE_ROUTE].bytes / 4, 1, 1);
        break;
    case OPREG_OP_MOE_MATMUL:
    case OPREG_OP_MOE_GLU:
    case OPREG_OP_MOE_DOWN:
        add_floats(of, OPREG_MOE_Y, p->moe.y_dtype, p->moe.tokens * p->moe.top_k, p->moe.n,
                   p->moe.y_stride);
        break;
    case OPREG_OP_MOE_COMBINE:
        add_floats(of, OPREG_COMBINE_Y, p->combine.y_dtype, p->combine.tokens, p->combine.n,
                   p->combine.y_stride);
        break;
    case OPREG_OP_MOE_FFN:
        add_floats(of, OPREG_FFN_Y, p->ffn.y_dtype, p->ffn.tokens, p->ffn.hidden, p->ffn.y_stride);
        break;
    case OPREG_OP_PAGED_ATTN_DECODE:
        add_floats(of, OPREG_ATTN_OUT, a->out_dtype, a->tokens, (int64_t)a->q_heads * a->head_dim,
                   a->out_stride);
        if ((a->flags & OPREG_PF_LSE) != 0) {
            add_floats(of, OPREG_ATTN_LSE, OPREG_F32, a->tokens, a->q_heads, a->q_heads);
        }
        break;
    }
}

/* The route that decides which rows are owed, and the numbers that bound it. */
static void set_route(outputs *of, const problem_any *p, const problem_buffer *buffers) {
    if (of->op == OPREG_OP_MOE_ROUTE) {
        of->tokens = p->route.tokens;
        of->top_k = p->route.top_k;
        of->experts = p->route.experts;
        of->route_bytes = buffers[OPREG_ROUTE_ROUTE].bytes;
    } else if (of->op == OPREG_OP_MOE_MATMUL || of->op == OPREG_OP_MOE_GLU ||
               of->op == OPREG_OP_MOE_DOWN) {
        of->tokens = p->moe.tokens;
        of->top_k = p->moe.top_k;
        of->experts = p->moe.experts;
        of->route_bytes = buffers[OPREG_MOE_ROUTE_BUF].bytes;
    }
}

opreg_status outputs_open(opreg_op op, const problem_any *problem, outputs *out) {
    problem_buffer buffers[PROBLEM_MAX_BUFS];
    memset(out, 0, sizeof *out);
    out->op = op;
    problem_buffers(op, problem, buffers);
    add_all(out, problem, buffers);
    set_route(out, problem, buffers);
    for (uint32_t i = 0; i < out->count; i++) {
        output *o = &out->rows[i];
        o->name = buffers[o->index].name;
        o->bytes = buffers[o->index].bytes;
        o->owed = malloc(o->rows > 0 ? (size_t)o->rows : 1);
        if (o->owed == NULL) {
            long long missing = (long long)o->rows;
            outputs_close(out);
            return fail(OPREG_E_NOMEM, "no memory to watch %lld rows", missing);
        }
        memset(o->owed, 1, (size_t)o->rows);
    }
    if (out->route_bytes > 0) {
        out->route = calloc(1, (size_t)out->route_bytes);
        if (out->route == NULL) {
            outputs_close(out);
            return fail(OPREG_E_NOMEM, "no memory to watch a route");
        }
    }
    return OPREG_OK;
}

void outputs_close(outputs *of) {
    for (uint32_t i = 0; i < of->count; i++) {
        free(of->rows[i].owed);
    }
    free(of->route);
    memset(of, 0, sizeof *of);
}

/* ---- what is owed --------------------------------------------------------------------------- */

static void owe_words(uint8_t *owed, uint64_t at, uint64_t count) {
    memset(owed + at / 4, 1, (size_t)count);
}

/* The used part of every array; unused capacity and gaps are free. */
static void owe_route(outputs *of, const route *r) {
    opreg_route_layout layout = {.struct_size = sizeof layout};
    uint8_t *owed = of->rows[0].owed;
    opreg_route_layout_get(of->tokens, of->top_k, of->experts, &layout);
    owe_words(owed, 0, sizeof(opreg_route_header) / 4);
    owe_words(owed, layout.group_expert, r->groups);
    owe_words(owed, layout.group_start, (uint64_t)r->groups + 1);
    owe_words(owed, layout.entry_token, r->entries);
    owe_words(owed, layout.entry_dst, r->entries);
    owe_words(owed, layout.entry_weight, r->entries);
}

void outputs_owe(outputs *of) {
    route r;
    if (of->route == NULL) {
        return;
    }
    r = route_read(of->route, of->tokens, of->top_k, of->experts);
    memset(of->rows[0].owed, 0, (size_t)of->rows[0].rows);
    if (of->op == OPREG_OP_MOE_ROUTE) {
        owe_route(of, &r);
        return;
    }
    for (uint32_t group = 0; group < r.groups; group++) {
        uint32_t first, last;
        route_group(&r, group, &first, &last);
        for (uint32_t entry = first; entry < last; entry++) {
            if (route_has_row(&r, entry)) {
                of->rows[0].owed[r.entry_dst[entry]] = 1;
            }
        }
    }
}

/* ---- comparison ----------------------------------------------------------------------------- */

void outputs_compare(const outputs *of, uint32_t which, const uint8_t *got, const uint8_t *want,
                     difference *d) {
    const output *o = &of->rows[which];
    for (int64_t row = 0; row < o->rows; row++) {
        for (int64_t column = 0; o->owed[row] != 0 && column < o->length; column++) {
            int64_t at = row * o->stride + column;
            if (step_compare_element(d, o->dtype, o->element, got, want, at) && d->wrong == 1) {
                d->output = which;
                d->row = row;
                d->column = column;
                d->got = step_bits_at(got, at, o->element);
                d->want = step_bits_at(want, at, o->element);
            }
        }
    }
}

static double format_band(uint32_t format) {
    const format_info *info = format_by_id(format);
    if (format == OPREG_IQ1_S || format == OPREG_IQ1_M) {
        return 2e-3;
    }
    return info != NULL && info->act_dtype == OPREG_F32 ? 1e-10 : 5e-4;
}

static double operator_band(opreg_op op, const problem_any *problem) {
    switch (op) {
    case OPREG_OP_MATMUL_BT_QUANT: return format_band(problem->matmul.b_dtype);
    case OPREG_OP_MOE_MATMUL:
    case OPREG_OP_MOE_GLU:
    case OPREG_OP_MOE_DOWN: return format_band(problem->moe.b_dtype);
    case OPREG_OP_MOE_FFN:
        return format_band(problem->ffn.b_dtype) + format_band(problem->ffn.down_dtype);
    case OPREG_OP_PAGED_ATTN_DECODE: return 1e-6;
    default: return 1e-10;
    }
}

double outputs_band(const opreg_kernel *kernel, const problem_any *problem) {
    double one = kernel->band > 0 ? kernel->band : operator_band((opreg_op)kernel->op, problem);
    return 4 * one; /* each may be sqrt(one) off on its own side */
}
