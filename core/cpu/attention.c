/* SPDX-License-Identifier: MIT
 * attention.c - what all attention variants share: page tables and token ranges, which are not
 * trusted; parts and their tree; the row of a finished part. */
#include "cpu/attention.h"

static int64_t clamp(int64_t value, int64_t low, int64_t high) {
    return value < low ? low : value > high ? high : value;
}

/* Entry i of an indptr of [seqs + 1], inside [0, limit]. */
static int64_t bound(const opreg_buf *indptr, int64_t i, int64_t limit) {
    return clamp(((const int32_t *)indptr->ptr)[i], 0, limit);
}

/* The request that owns a token, the first one where several claim it; -1 when none does.  *index
 * is the token's place in the request, *count how many tokens the request has, at most max_q. */
static int64_t find_request(const opreg_paged_attn_decode *p, const opreg_buf *bufs, int64_t token,
                            int64_t *index, int64_t *count) {
    *index = 0;
    *count = 1;
    if ((p->flags & OPREG_PF_Q_INDPTR) == 0) {
        return token;
    }
    for (int64_t request = 0; request < p->seqs; request++) {
        int64_t first = bound(&bufs[OPREG_ATTN_Q_INDPTR], request, p->tokens);
        int64_t last = bound(&bufs[OPREG_ATTN_Q_INDPTR], request + 1, p->tokens);
        last = last > first + p->max_q ? first + p->max_q : last;
        if (token >= first && token < last) {
            *index = token - first;
            *count = last - first;
            return request;
        }
    }
    return -1;
}

/* Sets the pages of a request and returns its clamped length. */
static int64_t read_pages(const opreg_paged_attn_decode *p, const opreg_buf *bufs, int64_t request,
                          attention_query *out) {
    const int32_t *table = bufs[OPREG_ATTN_TABLE].ptr;
    int64_t length = ((const int32_t *)bufs[OPREG_ATTN_LENS].ptr)[request];
    out->pages = table + request * p->table_stride;
    out->num_pages = p->table_stride;
    if ((p->flags & OPREG_PF_CSR) != 0) {
        int64_t first = bound(&bufs[OPREG_ATTN_INDPTR], request, p->table_stride);
        int64_t last = bound(&bufs[OPREG_ATTN_INDPTR], request + 1, p->table_stride);
        out->pages = table + first;
        out->num_pages = last > first ? last - first : 0;
        length = out->num_pages == 0
                     ? 0
                     : (out->num_pages - 1) * p->block_size + clamp(length, 0, p->block_size);
    }
    return clamp(length, 0, p->max_seq_len);
}

void attention_query_make(const opreg_paged_attn_decode *problem, const opreg_buf *bufs,
                          int64_t token, int64_t head, attention_query *out) {
    const opreg_paged_attn_decode *p = problem;
    int64_t index, count, request = find_request(p, bufs, token, &index, &count);
    int fp8 = p->kv_dtype == OPREG_F8_E4M3;
    out->problem = p;
    out->k = bufs[OPREG_ATTN_K].ptr;
    out->v = bufs[OPREG_ATTN_V].ptr;
    out->kv_head = head / (p->q_heads / p->kv_heads);
    out->k_scale = fp8 ? ((const float *)bufs[OPREG_ATTN_K_SCALE].ptr)[out->kv_head] : 1.0f;
    out->v_scale = fp8 ? ((const float *)bufs[OPREG_ATTN_V_SCALE].ptr)[out->kv_head] : 1.0f;
    out->begin = out->end = 0;
    out->pages = NULL;
    out->num_pages = 0;
    if (request >= 0) {
        /* causal, the last token of the request at its last position */
        int64_t end = read_pages(p, bufs, request, out) - count + index + 1;
        out->end = end > 0 ? end : 0;
        out->begin = p->window > 0 && out->end > p->window ? out->end - p->window : 0;
    }
}

/* Enough tasks for the threads of a large machine, as long as each has two segments or more. */
#define TASKS_WANTED   24
#define SPLIT_SEGMENTS 2

static int64_t segments_of(int64_t positions) {
    return (positions + CANONICAL_SEGMENT - 1) / CANONICAL_SEGMENT;
}

attention_cut attention_cut_of(const opreg_paged_attn_decode *p) {
    int64_t group = p->q_heads / p->kv_heads;
    int64_t most = (segments_of(p->max_seq_len) + SPLIT_SEGMENTS - 1) / SPLIT_SEGMENTS;
    attention_cut cut = {
        (int64_t)p->tokens * p->kv_heads * ((group + ATTENTION_HEADS - 1) / ATTENTION_HEADS), 1};
    while (cut.units * cut.splits < TASKS_WANTED && cut.splits < most) {
        cut.splits *= 2;
    }
    return cut;
}

int64_t attention_split_segments(const attention_cut *cut, int64_t end) {
    int64_t segments = segments_of(end), run = SPLIT_SEGMENTS;
    while (run * cut->splits < segments) {
        run *= 2;
    }
    return run;
}

void attention_load_query(const attention_job *job, int64_t token, int64_t head,
                          attention_query *query) {
    const opreg_paged_attn_decode *p = job->problem;
    for (int32_t e = 0; e < p->head_dim; e++) {
        query->q[e] = canonical_load(job->bufs[OPREG_ATTN_Q].ptr,
                                     token * p->q_stride + head * p->head_dim + e, p->q_dtype);
    }
}

static void join_sink(attention_part *part, float sink, int32_t d) {
    attention_part other;
    other.used = 1;
    other.m = sink;
    other.l = 1.0f;
    memset(other.o, 0, (size_t)d * sizeof other.o[0]);
    attention_merge(part, &other, d);
}

void attention_store(const attention_job *job, const attention_query *query, int64_t token,
                     int64_t head, attention_part *part) {
    const opreg_paged_attn_decode *p = job->problem;
    void *out = job->bufs[OPREG_ATTN_OUT].ptr;
    if (part->used && (p->flags & OPREG_PF_SINKS) != 0) {
        join_sink(part, ((const float *)job->bufs[OPREG_ATTN_SINKS].ptr)[head], p->head_dim);
    }
    for (int32_t e = 0; e < p->head_dim; e++) {
        float value = 0.0f;
        if (part->used) {
            value = part->o[e] / part->l;
            value = p->kv_dtype == OPREG_F8_E4M3 ? value * query->v_scale : value;
        }
        canonical_store(out, token * p->out_stride + head * p->head_dim + e, p->out_dtype, value);
    }
    if ((p->flags & OPREG_PF_LSE) != 0) {
        ((float *)job->bufs[OPREG_ATTN_LSE].ptr)[token * p->q_heads + head] =
            part->used ? part->m + canonical_log(part->l) : -INFINITY;
    }
}
