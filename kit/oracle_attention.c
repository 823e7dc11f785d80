/* SPDX-License-Identifier: MIT
 * oracle_attention.c - attention in float64, by its definition. */
#include "attention.h"

#include <math.h>
#include <stdlib.h>

#include "oracle.h"

int32_t attention_block(const job *of, const attention_notes *notes, int32_t seq,
                        int32_t position) {
    const opreg_paged_attn_decode *p = &of->problem.attn;
    const int32_t *table = (const int32_t *)(const void *)of->bufs[OPREG_ATTN_TABLE].data;
    int32_t block = table[notes->pages[seq] + position / p->block_size];
    return block >= 0 && block < p->num_blocks ? block : -1;
}

int attention_sees(const opreg_paged_attn_decode *p, const attention_notes *notes, int32_t token,
                   int32_t position) {
    int32_t own = notes->lengths[notes->owner[token]] - 1 - notes->behind[token];
    return position <= own && (p->window == 0 || position > own - p->window);
}

int attention_visible(const opreg_paged_attn_decode *p, const attention_notes *notes, int32_t seq,
                      int32_t position) {
    for (int32_t t = 0; t < p->tokens; t++) {
        if (notes->owner[t] == seq && attention_sees(p, notes, t, position)) {
            return 1;
        }
    }
    return 0;
}

typedef struct head_view {
    const job *of;
    const attention_notes *notes;
    int32_t seq, token, head; /* seq -1: the token is no request's */
    double *scores, *out;
    double power; /* sum of (p * v)^2 over keys and elements                                        */
} head_view;

static double cache_at(const head_view *v, uint32_t index, int32_t block, int32_t position,
                       int32_t e) {
    const opreg_paged_attn_decode *p = &v->of->problem.attn;
    int is_k = index == OPREG_ATTN_K;
    int64_t kv_head = v->head / (p->q_heads / p->kv_heads);
    int64_t at = block * (is_k ? p->k_block_stride : p->v_block_stride) +
                 position % p->block_size * (is_k ? p->k_slot_stride : p->v_slot_stride) +
                 kv_head * (is_k ? p->k_head_stride : p->v_head_stride) + e;
    double value = (double)element_load(
        p->kv_dtype, v->of->bufs[index].data + (uint64_t)at * element_bytes(p->kv_dtype));
    if (p->kv_dtype == OPREG_F8_E4M3) {
        value *= (double)element_load(
            OPREG_F32, v->of->bufs[is_k ? OPREG_ATTN_K_SCALE : OPREG_ATTN_V_SCALE].data +
                           4 * kv_head);
    }
    return value;
}

/* Fills out and returns lse; -inf where nothing is seen. */
static double head_exact(head_view *v) {
    const opreg_paged_attn_decode *p = &v->of->problem.attn;
    const uint8_t *q = v->of->bufs[OPREG_ATTN_Q].data;
    double most = -INFINITY, total = 0;
    v->power = 0;
    int32_t length = v->seq < 0 ? 0 : v->notes->lengths[v->seq];
    for (int32_t e = 0; e < p->head_dim; e++) {
        v->out[e] = 0;
    }
    for (int32_t i = 0; i < length; i++) {
        int32_t block = attention_block(v->of, v->notes, v->seq, i);
        double dot = 0;
        v->scores[i] = -INFINITY;
        if (block < 0 || !attention_sees(p, v->notes, v->token, i)) {
            continue;
        }
        for (int32_t e = 0; e < p->head_dim; e++) {
            int64_t at = v->token * p->q_stride + (int64_t)v->head * p->head_dim + e;
            dot += (double)element_load(p->q_dtype, q + (uint64_t)at * element_bytes(p->q_dtype)) *
                   cache_at(v, OPREG_ATTN_K, block, i, e);
        }
        dot *= (double)p->scale;
        v->scores[i] = p->softcap > 0 ? (double)p->softcap * tanh(dot / (double)p->softcap) : dot;
        most = fmax(most, v->scores[i]);
    }
    if (most == -INFINITY) {
        return -INFINITY;
    }
    for (int32_t i = 0; i < length; i++) {
        if (v->scores[i] > -INFINITY) {
            int32_t block = attention_block(v->of, v->notes, v->seq, i);
            double weight = exp(v->scores[i] - most);
            total += weight;
            for (int32_t e = 0; e < p->head_dim; e++) {
                double part = weight * cache_at(v, OPREG_ATTN_V, block, i, e);
                v->out[e] += part;
                v->power += part * part;
            }
        }
    }
    if (p->flags & OPREG_PF_SINKS) {
        total += exp((double)element_load(OPREG_F32, v->of->bufs[OPREG_ATTN_SINKS].data +
                                                         4 * v->head) -
                     most);
    }
    for (int32_t e = 0; e < p->head_dim; e++) {
        v->out[e] /= total;
    }
    v->power /= total * total;
    return most + log(total);
}

static void compare_head(const head_view *v, double lse, uint8_t *const outputs[JOB_BUFS],
                         banded *sum, band *lses, finding *f) {
    const opreg_paged_attn_decode *p = &v->of->problem.attn;
    int64_t row = (int64_t)v->token * p->q_heads + v->head;
    for (int32_t e = 0; e < p->head_dim; e++) {
        int64_t at = v->token * p->out_stride + (int64_t)v->head * p->head_dim + e;
        double got = (double)element_load(
            p->out_dtype, outputs[OPREG_ATTN_OUT] + (uint64_t)at * element_bytes(p->out_dtype));
        if (lse == -INFINITY && (got != 0 || signbit(got))) {
            finding_set(f, "zero-row", "token %d sees no key, but out[%d,%d,%d] is %g, not +0",
                        v->token, v->token, v->head, e, got);
        }
        banded_add(sum, row, e, got, v->out[e], v->power / p->head_dim);
    }
    if (p->flags & OPREG_PF_LSE) {
        double got = (double)element_load(OPREG_F32, outputs[OPREG_ATTN_LSE] + 4 * row);
        if (lse == -INFINITY ? got != -INFINITY : !(fabs(got - lse) <= 7e-3 * fmax(1, fabs(lse)))) {
            finding_set(f, lse == -INFINITY ? "zero-row" : "band",
                        "lse of token %d, head %d is %g, not %g", v->token, v->head, got, lse);
        }
        if (lse != -INFINITY) {
            band_add(lses, OPREG_F32, got, lse);
        }
    }
}

void oracle_attention(const job *of, uint8_t *const outputs[JOB_BUFS], finding *f) {
    const opreg_paged_attn_decode *p = &of->problem.attn;
    const attention_notes *notes = of->extra;
    band lses = {0, 0, 0, 0};
    banded sum;
    head_view v = {of, notes, 0, 0, 0, NULL, NULL, 0};
    if (of->data != DATA_GAUSSIAN ||
        !banded_open(&sum, p->out_dtype, 1e-6, (int64_t)p->tokens * p->q_heads, p->head_dim)) {
        return;
    }
    v.scores = malloc(((size_t)p->max_seq_len + 1) * sizeof *v.scores);
    v.out = malloc((size_t)p->head_dim * sizeof *v.out);
    for (; v.scores != NULL && v.out != NULL && v.token < p->tokens; v.token++) {
        v.seq = notes->owner[v.token];
        for (v.head = 0; v.head < p->q_heads; v.head++) {
            double lse = head_exact(&v);
            compare_head(&v, lse, outputs, &sum, &lses, f);
        }
    }
    banded_close(&sum, f);
    lses.count = lses.count > 0 ? 256 : 0; /* few, but each is one number near the others */
    band_close(&lses, 1e-6, f);
    free(v.scores);
    free(v.out);
}
