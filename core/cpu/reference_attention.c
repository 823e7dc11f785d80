/* SPDX-License-Identifier: MIT
 * reference_attention.c - paged_attn_decode: one task is one query token of one head. */
#include "cpu/attention.h"
#include "cpu/kernels.h"

typedef struct attention_job {
    const opreg_paged_attn_decode *problem;
    const opreg_buf *bufs;
} attention_job;

/* Keys of one strand in one step. */
#define STEP       CANONICAL_STEP
#define STRANDS    CANONICAL_STRANDS
#define SEGMENT    CANONICAL_SEGMENT
#define TREE_DEPTH 24 /* 2^31 positions are 2^23 segments */

static void load_row(float *out, const void *array, int64_t first, int32_t count, uint32_t dtype) {
    for (int32_t e = 0; e < count; e++) {
        out[e] = canonical_load(array, first + e, dtype);
    }
}

/* Element e is in accumulator e / ceil(d / 32). */
static float dot_key(const float *q, const float *k, int32_t d) {
    float accumulators[32] = {0};
    int32_t run = (d + 31) / 32;
    for (int32_t a = 0; a * run < d; a++) {
        float sum = 0.0f;
        for (int32_t e = a * run; e < d && e < (a + 1) * run; e++) {
            sum = fmaf(q[e], k[e], sum);
        }
        accumulators[a] = sum;
    }
    return canonical_tree_near(accumulators);
}

/* b, which has the higher positions, into a. */
static void merge_parts(attention_part *a, const attention_part *b, int32_t d) {
    float factor_a, factor_b;
    if (!b->used) {
        return;
    }
    if (!a->used) {
        a->used = 1;
        a->m = b->m;
        a->l = b->l;
        memcpy(a->o, b->o, (size_t)d * sizeof a->o[0]);
        return;
    }
    a->m = canonical_merge(a->m, b->m, &factor_a, &factor_b);
    a->l = a->l * factor_a + b->l * factor_b;
    for (int32_t e = 0; e < d; e++) {
        a->o[e] = a->o[e] * factor_a + b->o[e] * factor_b;
    }
}

/* Scales what the strand has to the maximum that the step's scores bring. */
static void raise_maximum(attention_part *part, const float *scores, int count, int32_t d) {
    float m = part->used ? part->m : -INFINITY, factor;
    for (int i = 0; i < count; i++) {
        m = scores[i] > m ? scores[i] : m; /* a NaN never is the maximum */
    }
    if (!part->used) {
        part->used = 1;
        part->l = 0.0f;
        memset(part->o, 0, (size_t)d * sizeof part->o[0]);
    } else {
        factor = canonical_exp(part->m - m);
        part->l = part->l * factor;
        for (int32_t e = 0; e < d; e++) {
            part->o[e] = part->o[e] * factor;
        }
    }
    part->m = m;
}

static void add_value(attention_part *part, float score, const float *v, int32_t d) {
    float p = canonical_exp(score - part->m);
    part->l = part->l + p;
    for (int32_t e = 0; e < d; e++) {
        part->o[e] = fmaf(p, v[e], part->o[e]);
    }
}

/* Eight positions of one strand, first, first + 8, ...; masked ones are skipped. */
static void attend_step(const attention_query *query, int64_t first, attention_part *part) {
    const opreg_paged_attn_decode *p = query->problem;
    float scores[STEP], row[ATTENTION_MAX_DIM];
    int64_t values[STEP];
    int count = 0;
    for (int64_t j = 0; j < STEP; j++) {
        int64_t position = first + STRANDS * j, page = attention_page(query, position);
        int64_t slot = position % p->block_size;
        if (page < 0) {
            continue;
        }
        load_row(row, query->k,
                 page * p->k_block_stride + slot * p->k_slot_stride +
                     query->kv_head * p->k_head_stride,
                 p->head_dim, p->kv_dtype);
        scores[count] = canonical_score(dot_key(query->q, row, p->head_dim), query->k_scale,
                                        p->scale, p->softcap);
        values[count++] =
            page * p->v_block_stride + slot * p->v_slot_stride + query->kv_head * p->v_head_stride;
    }
    if (count == 0) {
        return;
    }
    raise_maximum(part, scores, count, p->head_dim);
    for (int i = 0; i < count; i++) {
        load_row(row, query->v, values[i], p->head_dim, p->kv_dtype);
        add_value(part, scores[i], row, p->head_dim);
    }
}

/* One segment into *out: eight strands, merged as a tree. */
static void attend_segment(const attention_query *query, int64_t segment, attention_part *out) {
    attention_part strands[STRANDS];
    int32_t d = query->problem->head_dim;
    for (int r = 0; r < STRANDS; r++) {
        strands[r].used = 0;
        for (int step = 0; step < SEGMENT / (STEP * STRANDS); step++) {
            attend_step(query, segment * SEGMENT + step * STEP * STRANDS + r, &strands[r]);
        }
    }
    for (int distance = 1; distance < STRANDS; distance *= 2) {
        for (int r = 0; r < STRANDS; r += 2 * distance) {
            merge_parts(&strands[r], &strands[r + distance], d);
        }
    }
    out->used = 0;
    merge_parts(out, &strands[0], d);
}

/* Segments 0 .. of the query as a tree: 2j with 2j + 1, then those pairs; a node without a partner
 * moves up.  stack[i] holds a finished node of 2^level[i] segments. */
static void attend_all(const attention_query *query, attention_part *stack) {
    int level[TREE_DEPTH + 1], depth = 0;
    int32_t d = query->problem->head_dim;
    for (int64_t segment = 0; segment * SEGMENT < query->end; segment++) {
        stack[depth].used = 0;
        if ((segment + 1) * SEGMENT > query->begin) {
            attend_segment(query, segment, &stack[depth]);
        }
        level[depth++] = 0;
        while (depth > 1 && level[depth - 1] == level[depth - 2]) {
            depth--;
            merge_parts(&stack[depth - 1], &stack[depth], d);
            level[depth - 1]++;
        }
    }
    if (depth == 0) {
        stack[0].used = 0;
    }
    for (; depth > 1; depth--) {
        merge_parts(&stack[depth - 2], &stack[depth - 1], d);
    }
}

static void join_sink(attention_part *part, float sink, int32_t d) {
    attention_part other;
    other.used = 1;
    other.m = sink;
    other.l = 1.0f;
    memset(other.o, 0, (size_t)d * sizeof other.o[0]);
    merge_parts(part, &other, d);
}

/* A part without a key is a zero row and -inf, with sinks too. */
static void store_row(const attention_job *job, const attention_query *query, int64_t token,
                      int64_t head, const attention_part *part) {
    const opreg_paged_attn_decode *p = job->problem;
    void *out = job->bufs[OPREG_ATTN_OUT].ptr;
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

CPU_HOT static void attend(void *arg, int64_t task) {
    const attention_job *job = arg;
    const opreg_paged_attn_decode *p = job->problem;
    int64_t token = task / p->q_heads, head = task % p->q_heads;
    attention_part stack[TREE_DEPTH + 1];
    attention_query query;
    attention_query_make(p, job->bufs, token, head, &query);
    load_row(query.q, job->bufs[OPREG_ATTN_Q].ptr, token * p->q_stride + head * p->head_dim,
             p->head_dim, p->q_dtype);
    attend_all(&query, stack);
    if (stack[0].used && (p->flags & OPREG_PF_SINKS) != 0) {
        join_sink(&stack[0], ((const float *)job->bufs[OPREG_ATTN_SINKS].ptr)[head], p->head_dim);
    }
    store_row(job, &query, token, head, &stack[0]);
}

opreg_status reference_attention_supports(const opreg_device *dev, const void *problem,
                                          char reason[128]) {
    (void)dev;
    (void)problem;
    (void)reason;
    return OPREG_OK;
}

uint64_t reference_attention_workspace(const opreg_device *dev, const void *problem) {
    (void)dev;
    (void)problem;
    return 0;
}

opreg_status reference_attention_run(void *state, const void *problem, const opreg_call *call) {
    attention_job job = {problem, call->bufs};
    (void)state;
    call->host->parallel_for(call->host->ctx, (int64_t)job.problem->tokens * job.problem->q_heads,
                             attend, &job);
    return OPREG_OK;
}
