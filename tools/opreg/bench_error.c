/* SPDX-License-Identifier: MIT
 * bench_error.c - the error of a result beside its time: the operator by its definition in float64,
 * on decoded weights and activations as they are, for some of the outputs. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "formats/formats.h"
#include "kit/job.h"

#define ERROR_COLUMNS  256 /* outputs of a row                                                   */
#define ERROR_ROWS     16
#define ERROR_REQUESTS 2 /* of attention, whose outputs cost a walk through the cache each */

typedef struct nmse {
    double error, size;
} nmse;

static void compare(nmse *sum, double got, double exact) {
    sum->error += (got - exact) * (got - exact);
    sum->size += exact * exact;
}

/* The first output on the host; null when it cannot be had. */
static uint8_t *output(const bench_set *s, uint32_t index) {
    const bench_buffer *b = &s->bufs[index];
    uint8_t *bytes = malloc((size_t)b->bytes);
    opreg_buf from = {b->memory.ptr, b->bytes};
    if (bytes && !device_download(s->where, bytes, from, b->bytes)) {
        free(bytes);
        bytes = NULL;
    }
    return bytes;
}

static double at(const uint8_t *bytes, uint32_t dtype, int64_t i) {
    return (double)element_load(dtype, bytes + (uint64_t)i * element_bytes(dtype));
}

static int64_t least(int64_t a, int64_t b) {
    return a < b ? a : b;
}

/* ---- products of decoded weights ---- */

/* Row r of an expert. */
static void decode(const bench_weight *w, int64_t expert, int64_t r, double *values) {
    const format_info *info = format_by_id(w->desc.format);
    const opreg_side *side = &w->records[expert];
    const uint8_t *block =
        w->rows + (uint64_t)expert * w->expert_stride + (uint64_t)(r % w->distinct * w->row_bytes);
    double scale = info->side == FORMAT_SIDE_SCALE ? (double)side->tensor_scale : 1.0;
    for (int64_t i = 0; i < w->desc.k; i += info->values, block += info->bytes) {
        for (int j = 0; j < info->values; j++) {
            values[i + j] = scale * (double)info->value(block, j, side);
        }
    }
}

/* count outputs of one row of activations; rows of the weight that repeat are computed once. */
static void products(const bench_weight *w, int64_t expert, const double *x, int64_t count,
                     double *row, double *out) {
    for (int64_t r = 0; r < count; r++) {
        double sum = 0;
        if (r >= w->distinct) {
            out[r] = out[r - w->distinct];
            continue;
        }
        decode(w, expert, r, row);
        for (int64_t i = 0; i < w->desc.k; i++) {
            sum += row[i] * x[i];
        }
        out[r] = sum;
    }
}

static double activate(uint32_t glu, float alpha, float limit, double gate, double up) {
    double most = (double)limit;
    switch (glu) {
    case OPREG_GLU_SILU_CLAMPED:
        gate = fmin(gate, most);
        up = fmax(-most, fmin(up, most));
        return gate / (1.0 + exp(-gate)) * up;
    case OPREG_GLU_GELU_TANH:
        return 0.5 * gate *
               (1.0 + tanh(0.79788456080286535588 * (gate + 0.044715 * gate * gate * gate))) * up;
    case OPREG_GLU_SWIGLU_OAI:
        gate = fmin(gate, most);
        up = fmax(-most, fmin(up, most));
        return gate / (1.0 + exp(-(double)alpha * gate)) * (up + 1.0);
    default:
        return gate / (1.0 + exp(-gate)) * up;
    }
}

typedef struct scratch {
    double *x, *row, *gate, *up, *down; /* of the longest side of the problem each               */
} scratch;

static int scratch_open(const bench_set *s, scratch *out) {
    size_t longest = 1;
    for (uint32_t i = 0; i < s->num_weights; i++) {
        size_t n = (size_t)s->weights[i].desc.n, k = (size_t)s->weights[i].desc.k;
        longest = longest > n ? longest : n;
        longest = longest > k ? longest : k;
    }
    out->x = malloc(5 * longest * sizeof(double));
    out->row = out->x + longest;
    out->gate = out->row + longest;
    out->up = out->gate + longest;
    out->down = out->up + longest;
    return out->x != NULL;
}

/* Row r of x, which is floats or planes. */
static void read_x(const bench_set *s, uint32_t index, const uint32_t planes[2], int64_t r,
                   int64_t stride, int64_t k, double *x) {
    const bench_buffer *b = &s->bufs[index];
    if (b->dtype != OPREG_Q8_0 && b->dtype != OPREG_Q8_K) {
        for (int64_t i = 0; i < k; i++) {
            x[i] = bench_value(b, r * stride + i);
        }
        return;
    }
    for (int64_t i = 0, block = b->dtype == OPREG_Q8_K ? 256 : 32; i < k; i++) {
        const float *scales = (const float *)(const void *)s->bufs[planes[0]].pool;
        x[i] = (double)((const int8_t *)b->pool)[r * k + i] * (double)scales[(r * k + i) / block];
    }
}

/* Output n of a row whose products with gate, or with the only weight, and with up are there. */
static double output_of(uint32_t glu, float alpha, float limit, const scratch *t, int64_t n) {
    return glu == OPREG_GLU_NONE ? t->gate[n] : activate(glu, alpha, limit, t->gate[n], t->up[n]);
}

static void matmul_error(const bench_set *s, const uint8_t *y, scratch *t, nmse *sum) {
    static const uint32_t planes[2] = {OPREG_MATMUL_X_SCALES, OPREG_MATMUL_X_SUMS};
    const opreg_matmul_bt_quant *p = &s->what->problem.matmul;
    const bench_buffer *bias = &s->bufs[OPREG_MATMUL_BIAS];
    int64_t columns = least(p->n, ERROR_COLUMNS);
    for (int64_t m = 0; m < least(p->m, ERROR_ROWS); m++) {
        read_x(s, OPREG_MATMUL_X, planes, m, p->x_stride, p->k, t->x);
        products(&s->weights[0], 0, t->x, columns, t->row, t->gate);
        if (p->glu != OPREG_GLU_NONE) {
            products(&s->weights[1], 0, t->x, columns, t->row, t->up);
        }
        for (int64_t n = 0; n < columns; n++) {
            double exact = output_of(p->glu, p->glu_alpha, p->glu_limit, t, n);
            exact += bias->bytes > 0 ? bench_value(bias, n) : 0.0;
            compare(sum, at(y, p->y_dtype, m * p->y_stride + n), exact);
        }
    }
}

static void moe_error(const bench_set *s, const uint8_t *y, scratch *t, nmse *sum) {
    static const uint32_t planes[2] = {OPREG_MOE_X_SCALES, OPREG_MOE_X_SUMS};
    const opreg_moe_matmul *p = &s->what->problem.moe;
    int64_t columns = least(p->n, ERROR_COLUMNS);
    for (int64_t e = 0; e < least(bench_entries(s->what), ERROR_ROWS); e++) {
        int64_t row = p->x_rows == OPREG_X_BY_TOKEN ? e / p->top_k : e;
        read_x(s, OPREG_MOE_X, planes, row, p->x_stride, p->k, t->x);
        products(&s->weights[0], s->ids[e], t->x, columns, t->row, t->gate);
        if (p->glu != OPREG_GLU_NONE) {
            products(&s->weights[1], s->ids[e], t->x, columns, t->row, t->up);
        }
        for (int64_t n = 0; n < columns; n++) {
            double exact = output_of(p->glu, p->glu_alpha, p->glu_limit, t, n);
            compare(sum, at(y, p->y_dtype, e * p->y_stride + n), exact);
        }
    }
}

/* Of the first token: each of its experts' gate and up are needed in full. */
static void ffn_error(const bench_set *s, const uint8_t *y, scratch *t, nmse *sum) {
    const opreg_moe_ffn *p = &s->what->problem.ffn;
    int64_t columns = least(p->hidden, ERROR_COLUMNS);
    double exact[ERROR_COLUMNS] = {0};
    read_x(s, OPREG_FFN_X, NULL, 0, p->x_stride, p->hidden, t->x);
    for (int32_t slot = 0; slot < p->top_k; slot++) {
        double weight = bench_value(&s->bufs[OPREG_FFN_WEIGHTS], slot);
        products(&s->weights[0], s->ids[slot], t->x, p->inter, t->row, t->gate);
        products(&s->weights[1], s->ids[slot], t->x, p->inter, t->row, t->up);
        for (int64_t i = 0; i < p->inter; i++) {
            t->gate[i] = activate(p->glu, p->glu_alpha, p->glu_limit, t->gate[i], t->up[i]);
        }
        products(&s->weights[2], s->ids[slot], t->gate, columns, t->row, t->down);
        for (int64_t n = 0; n < columns; n++) {
            exact[n] += weight * t->down[n];
        }
    }
    for (int64_t n = 0; n < columns; n++) {
        compare(sum, at(y, p->y_dtype, n), exact[n]);
    }
}

/* ---- operators without weights ---- */

static void combine_error(const bench_set *s, const uint8_t *y, nmse *sum) {
    const opreg_moe_combine *p = &s->what->problem.combine;
    for (int64_t t = 0; t < least(p->tokens, ERROR_ROWS); t++) {
        for (int64_t n = 0; n < p->n; n++) {
            double exact = 0;
            for (int64_t slot = 0; slot < p->top_k; slot++) {
                exact +=
                    bench_value(&s->bufs[OPREG_COMBINE_WEIGHTS], t * p->weights_stride + slot) *
                    bench_value(&s->bufs[OPREG_COMBINE_ROWS],
                                (t * p->top_k + slot) * p->x_stride + n);
            }
            compare(sum, at(y, p->y_dtype, t * p->y_stride + n), exact);
        }
    }
}

static void quantize_error(const bench_set *s, const uint8_t *codes, nmse *sum) {
    const opreg_quantize_act *p = &s->what->problem.quantize;
    int64_t block = p->q_dtype == OPREG_Q8_K ? 256 : 32;
    uint8_t *scales = output(s, OPREG_QUANTIZE_SCALES);
    for (int64_t i = 0; scales && i < least(p->m, ERROR_ROWS) * p->k; i++) {
        double got = (double)((const int8_t *)codes)[i] * at(scales, OPREG_F32, i / block);
        compare(sum, got,
                bench_value(&s->bufs[OPREG_QUANTIZE_X], i / p->k * p->x_stride + i % p->k));
    }
    if (!scales) {
        sum->size = (double)NAN;
    }
    free(scales);
}

static int64_t slot_of(const opreg_paged_attn_decode *p, const bench_set *s, int32_t request,
                       int32_t position, int is_k) {
    const int32_t *table = (const int32_t *)(const void *)s->bufs[OPREG_ATTN_TABLE].pool;
    int32_t pages = (p->max_seq_len + p->block_size - 1) / p->block_size;
    int64_t row = (p->flags & OPREG_PF_CSR) != 0 ? pages : p->table_stride;
    int64_t block = table[request * row + position / p->block_size];
    int64_t slot = position % p->block_size;
    return is_k ? block * p->k_block_stride + slot * p->k_slot_stride
                : block * p->v_block_stride + slot * p->v_slot_stride;
}

/* One head of the first query token of a request. */
static void head_error(const bench_set *s, const uint8_t *out, int32_t request, int32_t head,
                       double *scores, double *exact, nmse *sum) {
    const opreg_paged_attn_decode *p = &s->what->problem.attn;
    const bench_buffer *b = s->bufs;
    int64_t kv_head = head / (p->q_heads / p->kv_heads);
    int64_t token = (int64_t)request * p->tokens / p->seqs;
    int64_t behind = ((int64_t)request + 1) * p->tokens / p->seqs - token - 1;
    int32_t last = (int32_t)(p->max_seq_len - 1 - behind);
    int32_t first = p->window > 0 && last >= p->window ? last - p->window + 1 : 0;
    double k_scale = 1, v_scale = 1, most = -(double)INFINITY, total = 0;
    if (p->kv_dtype == OPREG_F8_E4M3) {
        k_scale = bench_value(&b[OPREG_ATTN_K_SCALE], kv_head);
        v_scale = bench_value(&b[OPREG_ATTN_V_SCALE], kv_head);
    }
    for (int32_t i = first; i <= last; i++) {
        int64_t from = slot_of(p, s, request, i, 1) + kv_head * p->k_head_stride;
        double dot = 0;
        for (int32_t e = 0; e < p->head_dim; e++) {
            dot += bench_value(&b[OPREG_ATTN_Q],
                               token * p->q_stride + (int64_t)head * p->head_dim + e) *
                   bench_value(&b[OPREG_ATTN_K], from + e);
        }
        dot *= k_scale * (double)p->scale;
        scores[i] = p->softcap > 0 ? (double)p->softcap * tanh(dot / (double)p->softcap) : dot;
        most = fmax(most, scores[i]);
    }
    if ((p->flags & OPREG_PF_SINKS) != 0) {
        double sink = bench_value(&b[OPREG_ATTN_SINKS], head);
        most = fmax(most, sink);
        total = exp(sink - most);
    }
    memset(exact, 0, (size_t)p->head_dim * sizeof *exact);
    for (int32_t i = first; i <= last; i++) {
        int64_t from = slot_of(p, s, request, i, 0) + kv_head * p->v_head_stride;
        double weight = exp(scores[i] - most);
        total += weight;
        for (int32_t e = 0; e < p->head_dim; e++) {
            exact[e] += weight * v_scale * bench_value(&b[OPREG_ATTN_V], from + e);
        }
    }
    for (int32_t e = 0; e < p->head_dim; e++) {
        int64_t to = token * p->out_stride + (int64_t)head * p->head_dim + e;
        compare(sum, at(out, p->out_dtype, to), exact[e] / total);
    }
}

static void attention_error(const bench_set *s, const uint8_t *out, nmse *sum) {
    const opreg_paged_attn_decode *p = &s->what->problem.attn;
    double *scores = malloc(((size_t)p->max_seq_len + (size_t)p->head_dim) * sizeof *scores);
    /* two heads of the first and of the last key group say as much as all of them */
    for (int32_t r = 0; scores && r < least(p->seqs, ERROR_REQUESTS); r++) {
        for (int32_t h = 0; h < p->q_heads; h++) {
            if (h < 2 || h >= p->q_heads - 2) {
                head_error(s, out, r, h, scores, scores + p->max_seq_len, sum);
            }
        }
    }
    if (!scores) {
        sum->size = (double)NAN;
    }
    free(scores);
}

double bench_error(const bench_set *s) {
    nmse sum = {0, 0};
    scratch t;
    uint8_t *out = NULL;
    if (s->what->op == OPREG_OP_MOE_ROUTE || !scratch_open(s, &t)) {
        return (double)NAN;
    }
    out = output(s, 0);
    if (out) {
        switch (s->what->op) {
        case OPREG_OP_QUANTIZE_ACT:
            quantize_error(s, out, &sum);
            break;
        case OPREG_OP_MATMUL_BT_QUANT:
            matmul_error(s, out, &t, &sum);
            break;
        case OPREG_OP_MOE_MATMUL:
        case OPREG_OP_MOE_GLU:
        case OPREG_OP_MOE_DOWN:
            moe_error(s, out, &t, &sum);
            break;
        case OPREG_OP_MOE_COMBINE:
            combine_error(s, out, &sum);
            break;
        case OPREG_OP_MOE_FFN:
            ffn_error(s, out, &t, &sum);
            break;
        case OPREG_OP_PAGED_ATTN_DECODE:
            attention_error(s, out, &sum);
            break;
        case OPREG_OP_MOE_ROUTE:
            break;
        }
    }
    free(out);
    free(t.x);
    return out ? sum.error == 0.0 ? 0.0 : sum.error / sum.size : (double)NAN;
}
