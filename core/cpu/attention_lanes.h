/* SPDX-License-Identifier: MIT
 * attention_lanes.h - the text of the attention kernels for vector units, included once per
 * instruction set.  One task is one query token with up to four heads that share a KV head.
 *
 * A vector lane is a key while scores are made and an element of the head while values are added,
 * so that the order of docs/numerics.md never crosses lanes.  Sixty-four positions, which are one
 * step of all eight strands, are loaded once for all heads of the task.  The includer defines VF, a
 * vector of LANES floats, load_v, store_v, set_v, add_v, sub_v, mul_v, fma_v, exp_v, transpose16 and
 * widen, and how
 * much its registers hold: SCORE_HEADS times SCORE_CHAINS accumulators of scores, VALUE_HEADS times
 * VALUE_VECTORS vectors of values.  The loops over 64 keys are plain C that the compiler turns into
 * vectors. */

#define BLOCK_FN static inline __attribute__((always_inline))

#define LANES     16
#define STEP_KEYS (CANONICAL_STEP * CANONICAL_STRANDS)
#define HEADS     ATTENTION_HEADS
#define MAX_DIM   ATTENTION_LANES_MAX_DIM

/* Where the 64 positions from first on are. */
typedef struct lanes_keys {
    int64_t first;
    int64_t k[STEP_KEYS], v[STEP_KEYS]; /* first elements of the rows; -1 where the key is masked */
    int live[STEP_KEYS], of_strand[CANONICAL_STRANDS], count; /* count and of_strand: live ones   */
} lanes_keys;

typedef struct lanes_step {
    float k[STEP_KEYS * MAX_DIM]; /* element e of key 16t + l at (t * d + e) * 16 + l */
    float v[STEP_KEYS * MAX_DIM]; /* of key i at i * d, d the head_dim in whole vectors */
    float scores[HEADS][STEP_KEYS];
    lanes_keys keys, next; /* of this step and the one after it */
    int asked_k, asked_v;  /* rows of next that were asked for  */
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

/* Finds the 64 positions from first on. */
static void find_keys(const attention_query *query, int64_t first, lanes_keys *keys) {
    const opreg_paged_attn_decode *p = query->problem;
    int64_t index = first / p->block_size, slot = first % p->block_size;
    memset(keys->of_strand, 0, sizeof keys->of_strand);
    keys->first = first;
    keys->count = 0;
    for (int i = 0; i < STEP_KEYS; i++) {
        int64_t page = attention_page_at(query, first + i, index);
        keys->live[i] = page >= 0;
        keys->k[i] = page < 0 ? -1
                              : page * p->k_block_stride + slot * p->k_slot_stride +
                                    query->kv_head * p->k_head_stride;
        keys->v[i] = page < 0 ? -1
                              : page * p->v_block_stride + slot * p->v_slot_stride +
                                    query->kv_head * p->v_head_stride;
        keys->count += page >= 0;
        keys->of_strand[i % CANONICAL_STRANDS] += page >= 0;
        if (++slot == p->block_size) {
            slot = 0;
            index++;
        }
    }
}

/* Rows of a page are far apart: those of the next step are asked for, some at a time, while this one
 * is computed. */
static inline void fetch_rows(const void *cache, const int64_t *rows, int *asked, int count,
                              const opreg_paged_attn_decode *p) {
    int64_t size = p->kv_dtype == OPREG_F32 ? 4 : p->kv_dtype == OPREG_F8_E4M3 ? 1 : 2;
    for (int end = *asked + count; *asked < end && *asked < STEP_KEYS; (*asked)++) {
        const char *row = (const char *)cache + rows[*asked] * size;
        for (int64_t byte = 0; rows[*asked] >= 0 && byte < p->head_dim * size; byte += 64) {
            __builtin_prefetch(row + byte, 0, 2);
        }
    }
}

/* Loads the 64 positions from first on; returns how many are not masked. */
static int load_step(const attention_query *query, int64_t first, const float *fp8,
                     lanes_step *step) {
    const opreg_paged_attn_decode *p = query->problem;
    int32_t d = whole_vectors(p->head_dim);
    if (step->next.first != first) {
        find_keys(query, first, &step->next);
    }
    step->keys = step->next;
    find_keys(query, first + STEP_KEYS, &step->next);
    step->asked_k = step->asked_v = 0;
    for (int t = 0; step->keys.count > 0 && t < STEP_KEYS / LANES; t++) {
        load_keys(query, step->keys.k + t * LANES, fp8, step->k + t * LANES * d);
    }
    for (int i = 0; i < STEP_KEYS; i++) {
        if (step->keys.live[i]) {
            widen(step->v + i * d, query->v, step->keys.v[i], p->head_dim, p->kv_dtype, fp8);
        }
    }
    return step->keys.count;
}

/* Accumulators 8g .. 8g + 7 of sixteen keys and some heads, added up neighbours first. */
BLOCK_FN void dot_eight(const attention_query *queries, const int heads, const float *k, int32_t d,
                        const int32_t run, int32_t g, VF out[SCORE_HEADS]) {
    VF a[SCORE_HEADS][8];
    for (int c = 0; c < 8; c += SCORE_CHAINS) {
        const int32_t first = (8 * g + c) * run;
        VF s[SCORE_HEADS][SCORE_CHAINS];
        for (int h = 0; h < heads; h++) {
            for (int i = 0; i < SCORE_CHAINS; i++) {
                s[h][i] = set_v(0.0f);
            }
        }
        if (first + SCORE_CHAINS * run <= d) {
            for (int32_t j = 0; j < run; j++) {
                for (int i = 0; i < SCORE_CHAINS; i++) {
                    VF column = load_v(k + (first + i * run + j) * LANES);
                    for (int h = 0; h < heads; h++) {
                        s[h][i] = fma_v(set_v(queries[h].q[first + i * run + j]), column, s[h][i]);
                    }
                }
            }
        } else {
            for (int i = 0; i < SCORE_CHAINS; i++) {
                for (int32_t e = first + i * run; e < d && e < first + (i + 1) * run; e++) {
                    VF column = load_v(k + e * LANES);
                    for (int h = 0; h < heads; h++) {
                        s[h][i] = fma_v(set_v(queries[h].q[e]), column, s[h][i]);
                    }
                }
            }
        }
        for (int h = 0; h < heads; h++) {
            for (int i = 0; i < SCORE_CHAINS; i++) {
                a[h][c + i] = s[h][i];
            }
        }
    }
    for (int h = 0; h < heads; h++) {
        out[h] = add_v(add_v(add_v(a[h][0], a[h][1]), add_v(a[h][2], a[h][3])),
                       add_v(add_v(a[h][4], a[h][5]), add_v(a[h][6], a[h][7])));
    }
}

/* The 64 scores of some heads; `run`, the elements of an accumulator, is a constant of each call. */
BLOCK_FN void score_heads(const attention_query *queries, const int heads, const int32_t run,
                          lanes_step *step, float scores[][STEP_KEYS]) {
    const opreg_paged_attn_decode *p = queries->problem;
    const float *k = step->k;
    int32_t d = p->head_dim;
    for (int t = 0; t < STEP_KEYS / LANES; t++, k += LANES * whole_vectors(d)) {
        VF part[4][SCORE_HEADS];
        fetch_rows(queries->k, step->next.k, &step->asked_k, STEP_KEYS / 8, p);
        for (int g = 0; g < 4; g++) {
            dot_eight(queries, heads, k, d, run, g, part[g]);
        }
        for (int h = 0; h < heads; h++) {
            VF sum = add_v(add_v(part[0][h], part[1][h]), add_v(part[2][h], part[3][h]));
            sum = mul_v(mul_v(sum, set_v(queries->k_scale)), set_v(p->scale));
            store_v(scores[h] + t * LANES, sum);
        }
    }
}

static void score_step(const attention_query *queries, int heads, lanes_step *step) {
    const opreg_paged_attn_decode *p = queries->problem;
    int32_t run = (p->head_dim + 31) / 32;
#define SCORE(heads_, run_) score_heads(queries + h, heads_, run_, step, step->scores + h)
    for (int h = 0; h < heads;) {
        if (heads - h < SCORE_HEADS) {
            SCORE(1, run);
            h++;
            continue;
        }
        switch (run) {
        case 2: SCORE(SCORE_HEADS, 2); break;
        case 4: SCORE(SCORE_HEADS, 4); break;
        case 8: SCORE(SCORE_HEADS, 8); break;
        default: SCORE(SCORE_HEADS, run); break;
        }
        h += SCORE_HEADS;
    }
#undef SCORE
    for (int h = 0; p->softcap != 0.0f && h < heads; h++) {
        for (int i = 0; i < STEP_KEYS; i++) {
            float *score = &step->scores[h][i];
            *score = p->softcap * canonical_tanh(*score / p->softcap);
        }
    }
}

/* Raises the maximum of each strand that has a key in the step, and scales what it holds. */
static void raise_maxima(const lanes_step *step, const float *scores, attention_part *strands,
                         int32_t d) {
    float maxima[CANONICAL_STRANDS];
    for (int r = 0; r < CANONICAL_STRANDS; r++) {
        maxima[r] = strands[r].used ? strands[r].m : -INFINITY;
    }
    for (int i = 0; i < STEP_KEYS; i += CANONICAL_STRANDS) {
        for (int r = 0; r < CANONICAL_STRANDS; r++) {
            float s = step->keys.live[i + r] ? scores[i + r] : -INFINITY;
            maxima[r] = s > maxima[r] ? s : maxima[r];
        }
    }
    for (int r = 0; r < CANONICAL_STRANDS; r++) {
        attention_part *part = &strands[r];
        float m = maxima[r], factor;
        if (step->keys.of_strand[r] == 0) {
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

/* p of the step's keys, and their sums into the strands. */
static void weigh_keys(const lanes_step *step, const float *scores, attention_part *strands,
                       float *restrict p) {
    float maxima[LANES], sums[CANONICAL_STRANDS];
    for (int i = 0; i < LANES; i++) {
        const attention_part *part = &strands[i % CANONICAL_STRANDS];
        maxima[i] = part->used ? part->m : 0.0f;
    }
    for (int i = 0; i < STEP_KEYS; i += LANES) { /* of masked keys too: nobody reads them */
        store_v(p + i, exp_v(sub_v(load_v(scores + i), load_v(maxima))));
    }
    for (int r = 0; r < CANONICAL_STRANDS; r++) {
        sums[r] = strands[r].l;
    }
    for (int i = 0; i < STEP_KEYS; i += CANONICAL_STRANDS) {
        for (int r = 0; r < CANONICAL_STRANDS; r++) {
            sums[r] = step->keys.live[i + r] ? sums[r] + p[i + r] : sums[r];
        }
    }
    for (int r = 0; r < CANONICAL_STRANDS; r++) {
        strands[r].l = sums[r];
    }
}

/* Some vectors of a strand of some heads stay in registers over its eight keys. */
BLOCK_FN void add_vectors(const lanes_step *step, int r, float *const to[], const float *v, int32_t d,
                          const float (*weights)[STEP_KEYS], const int heads, const int vectors) {
    VF o[VALUE_HEADS][4];
    for (int h = 0; h < heads; h++) {
        for (int e = 0; e < vectors; e++) {
            o[h][e] = load_v(to[h] + e * LANES);
        }
    }
    for (int i = r; i < STEP_KEYS; i += CANONICAL_STRANDS) {
        if (step->keys.live[i]) {
            for (int e = 0; e < vectors; e++) {
                VF value = load_v(v + i * d + e * LANES);
                for (int h = 0; h < heads; h++) {
                    o[h][e] = fma_v(set_v(weights[h][i]), value, o[h][e]);
                }
            }
        }
    }
    for (int h = 0; h < heads; h++) {
        for (int e = 0; e < vectors; e++) {
            store_v(to[h] + e * LANES, o[h][e]);
        }
    }
}

BLOCK_FN void add_values(const lanes_step *step, int r, attention_part (*strands)[CANONICAL_STRANDS],
                         const float (*weights)[STEP_KEYS], const int heads, int32_t head_dim) {
    int32_t d = whole_vectors(head_dim), first = 0;
    float *to[VALUE_HEADS];
    for (int h = 0; h < heads; h++) {
        to[h] = strands[h][r].o;
    }
    for (; first < d; first += VALUE_VECTORS * LANES) {
        if (first + VALUE_VECTORS * LANES <= d) {
            add_vectors(step, r, to, step->v + first, d, weights, heads, VALUE_VECTORS);
        } else {
            for (int32_t e = 0; first + e < d; e += LANES) {
                float *one[VALUE_HEADS];
                for (int h = 0; h < heads; h++) {
                    one[h] = to[h] + e;
                }
                add_vectors(step, r, one, step->v + first + e, d, weights, heads, 1);
            }
        }
        for (int h = 0; h < heads; h++) {
            to[h] += VALUE_VECTORS * LANES;
        }
    }
}

static void attend_step(const attention_query *queries, int heads, lanes_step *step,
                        attention_part (*strands)[CANONICAL_STRANDS]) {
    int32_t d = queries->problem->head_dim;
    float p[HEADS][STEP_KEYS];
    score_step(queries, heads, step);
    for (int h = 0; h < heads; h++) {
        raise_maxima(step, step->scores[h], strands[h], d);
        weigh_keys(step, step->scores[h], strands[h], p[h]);
    }
    for (int r = 0; r < CANONICAL_STRANDS; r++) {
        int h = 0;
        fetch_rows(queries->v, step->next.v, &step->asked_v, STEP_KEYS / CANONICAL_STRANDS,
                   queries->problem);
        for (; step->keys.of_strand[r] > 0 && h + VALUE_HEADS <= heads; h += VALUE_HEADS) {
            add_values(step, r, strands + h, (const float(*)[STEP_KEYS])p + h, VALUE_HEADS, d);
        }
        for (; step->keys.of_strand[r] > 0 && h < heads; h++) {
            add_values(step, r, strands + h, (const float(*)[STEP_KEYS])p + h, 1, d);
        }
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
        attend_step(queries, heads, step, strands);
    }
    for (int h = 0; h < heads; h++) {
        attention_join_strands(strands[h], d);
        attention_merge(out[h], &strands[h][0], d);
    }
}

/* The token and heads of a unit. */
typedef struct lanes_unit {
    int64_t token, first_head;
    int heads;
} lanes_unit;

static lanes_unit find_unit(const opreg_paged_attn_decode *p, int64_t unit) {
    int64_t group = p->q_heads / p->kv_heads, chunks = (group + HEADS - 1) / HEADS;
    int64_t chunk = unit % chunks, kv_head = unit / chunks % p->kv_heads;
    lanes_unit out = {unit / chunks / p->kv_heads, kv_head * group + chunk * HEADS, HEADS};
    out.heads = group - chunk * HEADS < HEADS ? (int)(group - chunk * HEADS) : HEADS;
    return out;
}

static attention_part *parts_of(const attention_job *job, int64_t token, int64_t head) {
    return job->parts + (token * job->problem->q_heads + head) * job->cut.splits;
}

static void attend(void *arg, int64_t task) {
    const attention_job *job = arg;
    const opreg_paged_attn_decode *p = job->problem;
    const lanes_unit unit = find_unit(p, task / job->cut.splits);
    int64_t split = task % job->cut.splits, begin = 0, end = 0, run, last;
    attention_stack stacks[HEADS];
    attention_query queries[HEADS];
    attention_part *tops[HEADS];
    lanes_step step;
    float fp8[256];
    step.next.first = -1;
    for (int byte = 0; byte < 256 && p->kv_dtype == OPREG_F8_E4M3; byte++) {
        fp8[byte] = canonical_e4m3_to_f32((uint32_t)byte);
    }
    for (int h = 0; h < unit.heads; h++) {
        attention_query_make(p, job->bufs, unit.token, unit.first_head + h, &queries[h]);
        attention_load_query(job, unit.token, unit.first_head + h, &queries[h]);
        stacks[h].depth = 0;
        begin = queries[h].begin; /* of the token: the same for every head */
        end = queries[h].end;
    }
    last = (end + CANONICAL_SEGMENT - 1) / CANONICAL_SEGMENT;
    run = attention_split_segments(&job->cut, end);
    last = last < (split + 1) * run ? last : (split + 1) * run;
    for (int64_t segment = split * run; segment < last; segment++) {
        for (int h = 0; h < unit.heads; h++) {
            tops[h] = attention_push(&stacks[h]);
        }
        if ((segment + 1) * CANONICAL_SEGMENT > begin) {
            attend_segment(queries, unit.heads, segment, fp8, &step, tops);
        }
        for (int h = 0; h < unit.heads; h++) {
            attention_settle(&stacks[h], p->head_dim);
        }
    }
    for (int h = 0; h < unit.heads; h++) {
        attention_part *part = attention_finish(&stacks[h], p->head_dim);
        if (job->cut.splits > 1) {
            attention_part *out = parts_of(job, unit.token, unit.first_head + h) + split;
            out->used = part->used;
            out->m = part->m;
            out->l = part->l;
            memcpy(out->o, part->o, (size_t)p->head_dim * sizeof part->o[0]);
        } else {
            attention_store(job, &queries[h], unit.token, unit.first_head + h, part);
        }
    }
}

static void combine(void *arg, int64_t task) {
    const attention_job *job = arg;
    const lanes_unit unit = find_unit(job->problem, task);
    for (int h = 0; h < unit.heads; h++) {
        attention_part *parts = parts_of(job, unit.token, unit.first_head + h);
        attention_query query;
        for (int64_t distance = 1; distance < job->cut.splits; distance *= 2) {
            for (int64_t i = 0; i + distance < job->cut.splits; i += 2 * distance) {
                attention_merge(&parts[i], &parts[i + distance], job->problem->head_dim);
            }
        }
        attention_query_make(job->problem, job->bufs, unit.token, unit.first_head + h, &query);
        attention_store(job, &query, unit.token, unit.first_head + h, &parts[0]);
    }
}
