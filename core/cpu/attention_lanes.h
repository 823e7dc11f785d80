/* SPDX-License-Identifier: MIT
 * attention_lanes.h - the text of the attention kernels for vector units, included once per
 * instruction set.  One task is one query token with up to four heads that share a KV head.
 *
 * A vector lane is a key while scores are made and an element of the head while values are added,
 * so that the order of docs/numerics.md never crosses lanes.  Sixty-four positions, which are one
 * step of all eight strands, are loaded once for all heads of the task.  The loops over LANES are
 * plain C that the compiler turns into vectors.  The includer defines transpose16 and widen. */

#define LANES     16
#define STEP_KEYS (CANONICAL_STEP * CANONICAL_STRANDS)
#define HEADS     4
#define MAX_DIM   ATTENTION_LANES_MAX_DIM

typedef struct lanes_step {
    float k[STEP_KEYS / LANES][MAX_DIM][LANES]; /* of 16 keys, by element */
    float v[STEP_KEYS][MAX_DIM];
    float scores[STEP_KEYS], p[STEP_KEYS];
    int64_t values[STEP_KEYS]; /* of the first element of a key's v; -1 where the key is masked */
    int live[STEP_KEYS];
} lanes_step;

/* Rows of K of sixteen keys as columns.  Masked keys are zero, which no result sees. */
static void load_keys(const attention_query *query, const int64_t *keys, const float *fp8,
                      float (*out)[LANES]) {
    float rows[LANES][MAX_DIM];
    const opreg_paged_attn_decode *p = query->problem;
    int32_t d = p->head_dim;
    for (int i = 0; i < LANES; i++) {
        if (keys[i] >= 0) {
            widen(rows[i], query->k, keys[i], d, p->kv_dtype, fp8);
        } else {
            memset(rows[i], 0, (size_t)d * sizeof(float));
        }
    }
    for (int32_t e = 0; e < d; e += LANES) {
        transpose16(rows, e, out);
    }
}

/* Loads the 64 positions from first on; returns how many are not masked. */
static int load_step(const attention_query *query, int64_t first, const float *fp8,
                     lanes_step *step) {
    const opreg_paged_attn_decode *p = query->problem;
    int64_t keys[STEP_KEYS];
    int count = 0;
    for (int i = 0; i < STEP_KEYS; i++) {
        int64_t page = attention_page(query, first + i), slot = (first + i) % p->block_size;
        step->live[i] = page >= 0;
        keys[i] = page < 0 ? -1
                           : page * p->k_block_stride + slot * p->k_slot_stride +
                                 query->kv_head * p->k_head_stride;
        step->values[i] = page < 0 ? -1
                                   : page * p->v_block_stride + slot * p->v_slot_stride +
                                         query->kv_head * p->v_head_stride;
        count += page >= 0;
    }
    if (count == 0) {
        return 0;
    }
    for (int t = 0; t < STEP_KEYS / LANES; t++) {
        load_keys(query, keys + t * LANES, fp8, step->k[t]);
    }
    for (int i = 0; i < STEP_KEYS; i++) {
        if (step->live[i]) {
            widen(step->v[i], query->v, step->values[i], p->head_dim, p->kv_dtype, fp8);
        }
    }
    return count;
}

/* Accumulators 8g .. 8g + 7 of sixteen keys, added up neighbours first. */
static inline void dot_eight(const float *q, float (*k)[LANES], int32_t d, int32_t run, int32_t g,
                             float *restrict out) {
    float a[8][LANES];
    for (int i = 0; i < 8; i++) {
        int32_t e = (8 * g + i) * run, end = e + run < d ? e + run : d;
        float sum[LANES] = {0};
        for (; e < end; e++) {
            for (int l = 0; l < LANES; l++) {
                sum[l] = fmaf(q[e], k[e][l], sum[l]);
            }
        }
        memcpy(a[i], sum, sizeof sum);
    }
    for (int l = 0; l < LANES; l++) {
        out[l] = ((a[0][l] + a[1][l]) + (a[2][l] + a[3][l])) +
                 ((a[4][l] + a[5][l]) + (a[6][l] + a[7][l]));
    }
}

static void score_keys(const attention_query *query, float (*k)[LANES], float *restrict scores) {
    const opreg_paged_attn_decode *p = query->problem;
    int32_t run = (p->head_dim + 31) / 32;
    float g[4][LANES];
    for (int32_t i = 0; i < 4; i++) {
        dot_eight(query->q, k, p->head_dim, run, i, g[i]);
    }
    for (int l = 0; l < LANES; l++) {
        scores[l] = (((g[0][l] + g[1][l]) + (g[2][l] + g[3][l])) * query->k_scale) * p->scale;
    }
    if (p->softcap != 0.0f) {
        for (int l = 0; l < LANES; l++) {
            scores[l] = p->softcap * canonical_tanh(scores[l] / p->softcap);
        }
    }
}

/* Raises the maximum of each strand that has a key in the step, and scales what it holds. */
static void raise_maxima(const lanes_step *step, attention_part *strands, int32_t d) {
    for (int r = 0; r < CANONICAL_STRANDS; r++) {
        attention_part *part = &strands[r];
        float m = part->used ? part->m : -INFINITY, factor;
        int keys = 0;
        for (int i = r; i < STEP_KEYS; i += CANONICAL_STRANDS) {
            m = step->live[i] && step->scores[i] > m ? step->scores[i] : m;
            keys += step->live[i];
        }
        if (keys == 0) {
            continue;
        }
        if (!part->used) {
            part->used = 1;
            part->l = 0.0f;
            memset(part->o, 0, (size_t)d * sizeof part->o[0]);
        } else if (m != part->m) { /* else the factor is exp(0) = 1, but where m is infinite */
            factor = canonical_exp(part->m - m);
            part->l = part->l * factor;
            for (int32_t e = 0; e < d; e++) {
                part->o[e] = part->o[e] * factor;
            }
        } else if (m - m != 0.0f) {
            part->l = NAN; /* exp(Inf - Inf) */
            for (int32_t e = 0; e < d; e++) {
                part->o[e] = NAN;
            }
        }
        part->m = m;
    }
}

/* 32 elements of a strand stay in registers over its eight keys. */
static void add_values(const lanes_step *step, int r, attention_part *part, int32_t d) {
    for (int32_t first = 0; first < d; first += 32) {
        int32_t count = d - first < 32 ? d - first : 32;
        float o[32];
        memcpy(o, part->o + first, (size_t)count * sizeof(float));
        for (int i = r; i < STEP_KEYS; i += CANONICAL_STRANDS) {
            const float *v = step->v[i] + first;
            float p = step->p[i];
            if (!step->live[i]) {
                continue;
            }
            for (int e = 0; e < 32; e++) { /* past count: memory of the step, dropped */
                o[e] = fmaf(p, v[e], o[e]);
            }
        }
        memcpy(part->o + first, o, (size_t)count * sizeof(float));
    }
}

static void attend_step(const attention_query *query, lanes_step *step, attention_part *strands) {
    int32_t d = query->problem->head_dim;
    float maxima[STEP_KEYS];
    for (int t = 0; t < STEP_KEYS / LANES; t++) {
        score_keys(query, step->k[t], step->scores + t * LANES);
    }
    raise_maxima(step, strands, d);
    for (int i = 0; i < STEP_KEYS; i++) {
        maxima[i] = step->live[i] ? strands[i % CANONICAL_STRANDS].m : 0.0f;
    }
    for (int i = 0; i < STEP_KEYS; i++) {
        step->p[i] = canonical_exp(step->scores[i] - maxima[i]);
    }
    for (int i = 0; i < STEP_KEYS; i++) {
        if (step->live[i]) {
            strands[i % CANONICAL_STRANDS].l += step->p[i];
        }
    }
    for (int r = 0; r < CANONICAL_STRANDS; r++) {
        add_values(step, r, &strands[r], d);
    }
}

/* One segment of every head into out[head]. */
static void attend_segment(const attention_query *queries, int heads, int64_t segment,
                           const float *fp8, lanes_step *step, attention_part **out) {
    attention_part strands[HEADS][CANONICAL_STRANDS];
    int32_t d = queries->problem->head_dim;
    for (int h = 0; h < heads; h++) {
        for (int r = 0; r < CANONICAL_STRANDS; r++) {
            strands[h][r].used = 0;
        }
    }
    for (int c = 0; c < CANONICAL_SEGMENT / STEP_KEYS; c++) {
        if (load_step(queries, segment * CANONICAL_SEGMENT + c * STEP_KEYS, fp8, step) == 0) {
            continue;
        }
        for (int h = 0; h < heads; h++) {
            attend_step(&queries[h], step, strands[h]);
        }
    }
    for (int h = 0; h < heads; h++) {
        attention_join_strands(strands[h], d);
        attention_merge(out[h], &strands[h][0], d);
    }
}

static void attend(void *arg, int64_t task) {
    const attention_job *job = arg;
    const opreg_paged_attn_decode *p = job->problem;
    int64_t group = p->q_heads / p->kv_heads, chunks = (group + HEADS - 1) / HEADS;
    int64_t chunk = task % chunks, kv_head = task / chunks % p->kv_heads;
    int64_t begin = 0, end = 0, token = task / chunks / p->kv_heads,
            first = kv_head * group + chunk * HEADS;
    int heads = group - chunk * HEADS < HEADS ? (int)(group - chunk * HEADS) : HEADS;
    attention_stack stacks[HEADS];
    attention_query queries[HEADS];
    attention_part *tops[HEADS];
    lanes_step step;
    float fp8[256];
    for (int byte = 0; byte < 256 && p->kv_dtype == OPREG_F8_E4M3; byte++) {
        fp8[byte] = canonical_e4m3_to_f32((uint32_t)byte);
    }
    for (int h = 0; h < heads; h++) {
        attention_query_make(p, job->bufs, token, first + h, &queries[h]);
        attention_load_query(job, token, first + h, &queries[h]);
        stacks[h].depth = 0;
        begin = queries[h].begin; /* of the token: the same for every head */
        end = queries[h].end;
    }
    for (int64_t segment = 0; segment * CANONICAL_SEGMENT < end; segment++) {
        for (int h = 0; h < heads; h++) {
            tops[h] = attention_push(&stacks[h]);
        }
        if ((segment + 1) * CANONICAL_SEGMENT > begin) {
            attend_segment(queries, heads, segment, fp8, &step, tops);
        }
        for (int h = 0; h < heads; h++) {
            attention_settle(&stacks[h], p->head_dim);
        }
    }
    for (int h = 0; h < heads; h++) {
        attention_store(job, &queries[h], token, first + h,
                        attention_finish(&stacks[h], p->head_dim));
    }
}

/* Tasks of a problem. */
static int64_t count_tasks(const opreg_paged_attn_decode *p) {
    int64_t group = p->q_heads / p->kv_heads;
    return (int64_t)p->tokens * p->kv_heads * ((group + HEADS - 1) / HEADS);
}
