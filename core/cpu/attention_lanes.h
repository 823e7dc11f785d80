/* SPDX-License-Identifier: MIT
 * attention_lanes.h - the text of the attention kernels for vector units, included once per
 * instruction set.  One task is one query token with up to four heads that share a KV head.
 *
 * A vector lane is a key while scores are made and an element of the head while values are added,
 * so that the order of docs/numerics.md never crosses lanes.  Sixty-four positions, which are one
 * step of all eight strands, are loaded once for all heads of the task.  The includer defines VF, a
 * vector of LANES floats, load_v, store_v, set_v, add_v, mul_v, fma_v, transpose16 and widen.  The
 * loops over 64 keys are plain C that the compiler turns into vectors. */

#define LANES     16
#define STEP_KEYS (CANONICAL_STEP * CANONICAL_STRANDS)
#define HEADS     4
#define MAX_DIM   ATTENTION_LANES_MAX_DIM

typedef struct lanes_step {
    float k[STEP_KEYS * MAX_DIM]; /* element e of key 16t + l at (t * d + e) * 16 + l */
    float v[STEP_KEYS * MAX_DIM]; /* of key i at i * d, d the head_dim in whole vectors */
    float scores[STEP_KEYS], p[STEP_KEYS];
    int64_t values[STEP_KEYS]; /* of the first element of a key's v; -1 where the key is masked */
    int live[STEP_KEYS];
} lanes_step;

/* The last vector of a row is whole: what is past head_dim is dropped. */
static inline int32_t whole_vectors(int32_t d) {
    return (d + LANES - 1) / LANES * LANES;
}

/* Rows of K of sixteen keys as columns.  Masked keys are zero, which no result sees. */
static void load_keys(const attention_query *query, const int64_t *keys, const float *fp8,
                      float *out) {
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
        transpose16(rows, e, out + e * LANES);
    }
}

/* Rows of a page are far apart: they are asked for before they are needed. */
static inline void fetch_row(const void *cache, int64_t first, const opreg_paged_attn_decode *p) {
    int64_t size = p->kv_dtype == OPREG_F32 ? 4 : p->kv_dtype == OPREG_F8_E4M3 ? 1 : 2;
    const char *row = (const char *)cache + first * size;
    for (int64_t byte = 0; byte < p->head_dim * size; byte += 64) {
        __builtin_prefetch(row + byte);
    }
}

/* Loads the 64 positions from first on; returns how many are not masked. */
static int load_step(const attention_query *query, int64_t first, const float *fp8,
                     lanes_step *step) {
    const opreg_paged_attn_decode *p = query->problem;
    int64_t keys[STEP_KEYS];
    int32_t d = whole_vectors(p->head_dim);
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
        if (page >= 0) {
            fetch_row(query->k, keys[i], p);
        }
    }
    if (count == 0) {
        return 0;
    }
    for (int t = 0; t < STEP_KEYS / LANES; t++) {
        for (int i = t * LANES; i < (t + 1) * LANES; i++) {
            if (step->live[i]) {
                fetch_row(query->v, step->values[i], p);
            }
        }
        load_keys(query, keys + t * LANES, fp8, step->k + t * LANES * d);
    }
    for (int i = 0; i < STEP_KEYS; i++) {
        if (step->live[i]) {
            widen(step->v + i * d, query->v, step->values[i], p->head_dim, p->kv_dtype, fp8);
        }
    }
    return count;
}

/* Accumulators 8g .. 8g + 7 of sixteen keys, added up neighbours first. */
static inline VF dot_eight(const float *q, const float *k, int32_t d, int32_t run, int32_t g) {
    VF a[8];
    for (int i = 0; i < 8; i++) {
        a[i] = set_v(0.0f);
    }
    if (8 * (g + 1) * run <= d) { /* eight chains at once */
        const float *from = q + 8 * g * run, *column = k + 8 * g * run * LANES;
        for (int32_t j = 0; j < run; j++) {
            for (int i = 0; i < 8; i++) {
                a[i] =
                    fma_v(set_v(from[i * run + j]), load_v(column + (i * run + j) * LANES), a[i]);
            }
        }
    } else {
        for (int i = 0; i < 8; i++) {
            for (int32_t e = (8 * g + i) * run; e < d && e < (8 * g + i + 1) * run; e++) {
                a[i] = fma_v(set_v(q[e]), load_v(k + e * LANES), a[i]);
            }
        }
    }
    return add_v(add_v(add_v(a[0], a[1]), add_v(a[2], a[3])),
                 add_v(add_v(a[4], a[5]), add_v(a[6], a[7])));
}

static void score_keys(const attention_query *query, const float *k, float *restrict scores) {
    const opreg_paged_attn_decode *p = query->problem;
    int32_t d = p->head_dim, run = (d + 31) / 32;
    VF low = add_v(dot_eight(query->q, k, d, run, 0), dot_eight(query->q, k, d, run, 1));
    VF high = add_v(dot_eight(query->q, k, d, run, 2), dot_eight(query->q, k, d, run, 3));
    store_v(scores, mul_v(mul_v(add_v(low, high), set_v(query->k_scale)), set_v(p->scale)));
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

/* Some vectors of a strand, at most four, stay in registers over its eight keys. */
static inline __attribute__((always_inline)) void add_vectors(const lanes_step *step, int r,
                                                              float *to, const float *v, int32_t d,
                                                              const int vectors) {
    VF o[4];
    for (int e = 0; e < vectors; e++) {
        o[e] = load_v(to + e * LANES);
    }
    for (int i = r; i < STEP_KEYS; i += CANONICAL_STRANDS) {
        if (step->live[i]) {
            VF p = set_v(step->p[i]);
            for (int e = 0; e < vectors; e++) {
                o[e] = fma_v(p, load_v(v + i * d + e * LANES), o[e]);
            }
        }
    }
    for (int e = 0; e < vectors; e++) {
        store_v(to + e * LANES, o[e]);
    }
}

static void add_values(const lanes_step *step, int r, attention_part *part, int32_t head_dim) {
    int32_t d = whole_vectors(head_dim), first = 0;
    for (; first + 4 * LANES <= d; first += 4 * LANES) {
        add_vectors(step, r, part->o + first, step->v + first, d, 4);
    }
    for (; first < d; first += LANES) {
        add_vectors(step, r, part->o + first, step->v + first, d, 1);
    }
}

static void attend_step(const attention_query *query, lanes_step *step, attention_part *strands) {
    int32_t d = query->problem->head_dim;
    float maxima[STEP_KEYS];
    for (int t = 0; t < STEP_KEYS / LANES; t++) {
        score_keys(query, step->k + t * LANES * whole_vectors(d), step->scores + t * LANES);
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
