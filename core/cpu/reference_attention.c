/* SPDX-License-Identifier: MIT
 * reference_attention.c - paged_attn_decode: one task is one query token of one head. */
#include "cpu/attention.h"
#include "cpu/kernels.h"

/* Keys of one strand in one step. */
#define STEP    CANONICAL_STEP
#define STRANDS CANONICAL_STRANDS
#define SEGMENT CANONICAL_SEGMENT

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
    attention_join_strands(strands, d);
    attention_merge(out, &strands[0], d);
}

CPU_HOT static void attend(void *arg, int64_t task) {
    const attention_job *job = arg;
    const opreg_paged_attn_decode *p = job->problem;
    int64_t token = task / p->q_heads, head = task % p->q_heads;
    attention_stack stack = {.depth = 0};
    attention_query query;
    attention_query_make(p, job->bufs, token, head, &query);
    attention_load_query(job, token, head, &query);
    for (int64_t segment = 0; segment * SEGMENT < query.end; segment++) {
        attention_part *part = attention_push(&stack);
        if ((segment + 1) * SEGMENT > query.begin) {
            attend_segment(&query, segment, part);
        }
        attention_settle(&stack, p->head_dim);
    }
    attention_store(job, &query, token, head, attention_finish(&stack, p->head_dim));
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
    attention_job job = {.problem = problem, .bufs = call->bufs};
    (void)state;
    call->host->parallel_for(call->host->ctx, (int64_t)job.problem->tokens * job.problem->q_heads,
                             attend, &job);
    return OPREG_OK;
}
