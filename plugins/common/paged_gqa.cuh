/* SPDX-License-Identifier: MIT
 * paged_gqa.cuh - paged_attn_decode in which a block is one segment of 256 positions of one KV head
 * and computes all of its query heads, so that every key and value is read once; canonical order.
 *
 * A wave is one strand (of head dim 256: one half of its elements).  Scores: lane i is the strand's
 * key i, reads its row and folds it with each head's query from shared memory, so that a dot needs
 * no exchange between lanes and one exp serves 32 keys.  Values: a lane owns eight elements of
 * every GROUPS-th head and reads 16 bytes of each row.  A block passes 3 + HEADS / GROUPS barriers,
 * whatever its keys.  gqa_merge joins the segments' parts as the canonical tree. */
#ifndef OPREG_PLUGINS_PAGED_GQA_CUH
#define OPREG_PLUGINS_PAGED_GQA_CUH

#include "attention.cuh"
#include "paged_gqa_args.h"

#define GQA_STRANDS CANONICAL_STRANDS
#define GQA_KEYS    32 /* of a strand in a segment                                                 */
#define GQA_BATCH   64 /* elements of a key that a lane holds */

/* Eight parts that merge as the tree r with r + 1, then + 2, then + 4, for HEADS heads: strands of
 * a segment, or aligned runs of segments.  left and right are the factors of a merge, at the number
 * of its right part; negative where that side has no key. */
template <int HEADS> struct gqa_tree {
    float m[8][HEADS], l[8][HEADS], left[8][HEADS], right[8][HEADS];
    uint32_t any[8];
};

/* The largest m of parts [from, to), those without a key apart; *any says whether there is one. */
template <int HEADS>
DEVICE float gqa_largest(const gqa_tree<HEADS> &t, uint32_t from, uint32_t to, uint32_t h,
                         uint32_t *any) {
    float m = 0.0f;
    *any = 0u;
    for (uint32_t r = from; r < to; r++) {
        if (t.any[r] != 0u) {
            m = *any != 0u && !(t.m[r][h] > m) ? m : t.m[r][h];
            *any = 1u;
        }
    }
    return m;
}

/* Thread t < 7 * HEADS computes one merge's factors of one head. */
template <int HEADS> DEVICE void gqa_factors(gqa_tree<HEADS> &t) {
    if (thread_index() < 7u * HEADS) {
        uint32_t right = thread_index() / HEADS + 1u, h = thread_index() % HEADS;
        uint32_t width = right & (0u - right), left_any, right_any;
        float left_m = gqa_largest(t, right - width, right, h, &left_any), fl, fr;
        float right_m = gqa_largest(t, right, right + width, h, &right_any);
        (void)canonical_merge(left_m, right_m, &fl, &fr);
        t.left[right][h] = left_any != 0u ? fl : -1.0f;
        t.right[right][h] = right_any != 0u ? fr : -1.0f;
    }
}

DEVICE float gqa_merged(float left, float right, float fl, float fr) {
    float both = left * fl + right * fr;
    return fr < 0.0f ? left : fl < 0.0f ? right : both;
}

/* The tree over v[0..7], one value of head h of each part. */
template <int HEADS> DEVICE float gqa_tree_value(const gqa_tree<HEADS> &t, float *v, uint32_t h) {
#pragma unroll
    for (int distance = 1; distance < 8; distance <<= 1) {
#pragma unroll
        for (int r = 0; r < 8; r += 2 * distance) {
            v[r] = gqa_merged(v[r], v[r + distance], t.left[r + distance][h],
                              t.right[r + distance][h]);
        }
    }
    return v[0];
}

/* Eight elements of a cache row, widened. */
template <uint32_t KV> DEVICE void gqa_widen(const uint32_t *w, float *out) {
#pragma unroll
    for (int i = 0; i < 4; i++) {
        if (KV == OPREG_BF16) {
            out[2 * i] = float_of(w[i] << 16);
            out[2 * i + 1] = float_of(w[i] & 0xffff0000u);
        } else {
            out[2 * i] = half_to_float(w[i]);
            out[2 * i + 1] = half_to_float(w[i] >> 16);
        }
    }
}

/* What the waves of a block share.  queries are read before the first weight is written, and the
 * dots before the first element. */
template <int DIM, int HEADS> struct gqa_shared {
    static const int slice = GQA_SLICE(DIM), slices = DIM / slice;
    static const int row_lanes = slice / 8, groups = 32 / row_lanes, each = HEADS / groups;
    static const int buffers = each > 1 ? 2 : 1;
    union {
        float queries[HEADS][DIM];
        float weights[GQA_STRANDS][GQA_KEYS][HEADS]; /* heads by gqa_slot */
    };
    union {
        float dots[slices][GQA_STRANDS][HEADS][GQA_KEYS];
        float elements[buffers][GQA_STRANDS][groups * DIM];
    };
    float rescale[GQA_STRANDS][4][HEADS]; /* by step and slot */
    gqa_tree<HEADS> tree;
};

template <int DIM, int HEADS> DEVICE uint32_t gqa_slot(uint32_t head) {
    typedef gqa_shared<DIM, HEADS> shape;
    return head % shape::groups * shape::each + head / shape::groups;
}

/* The accumulators of 64 elements of one key, added as their part of the score's tree. */
template <int DIM> DEVICE float gqa_batch_dot(const float *q, const float *key) {
    const int fold = DIM / 32, count = GQA_BATCH / fold;
    float sums[count];
#pragma unroll
    for (int a = 0; a < count; a++) {
        sums[a] = 0.0f;
#pragma unroll
        for (int e = 0; e < fold; e++) {
            sums[a] = CANONICAL_FMA(q[a * fold + e], key[a * fold + e], sums[a]);
        }
    }
#pragma unroll
    for (int s = 1; s < count; s <<= 1) {
#pragma unroll
        for (int a = 0; a < count; a += 2 * s) {
            sums[a] = sums[a] + sums[a + s];
        }
    }
    return sums[0];
}

/* Dots of the strand's 32 keys with every head over this wave's slice. */
template <int DIM, int HEADS, uint32_t KV>
DEVICE void gqa_dots(const attention_args &a, gqa_shared<DIM, HEADS> &shared, int64_t k_at,
                     bool visible, uint32_t strand, uint32_t slice, uint32_t heads) {
    typedef gqa_shared<DIM, HEADS> shape;
    const uint8_t *row = (const uint8_t *)a.k + 2 * (k_at + (int64_t)slice * shape::slice);
#pragma unroll 1
    for (uint32_t batch = 0; batch < shape::slice / GQA_BATCH; batch++) {
        float key[GQA_BATCH];
        uint32_t w[GQA_BATCH / 2];
#pragma unroll
        for (int i = 0; i < GQA_BATCH / 2; i++) {
            w[i] = 0u;
        }
        if (visible) {
#pragma unroll
            for (int i = 0; i < GQA_BATCH / 8; i++) {
                load_words<4>(row + batch * (2u * GQA_BATCH) + 16 * i, w + 4 * i);
            }
        }
#pragma unroll
        for (int i = 0; i < GQA_BATCH / 8; i++) {
            gqa_widen<KV>(w + 4 * i, key + 8 * i);
        }
#pragma unroll 1
        for (uint32_t h = 0; h < heads; h++) {
            float *dot = &shared.dots[slice][strand][h][lane_index()];
            float sum = gqa_batch_dot<DIM>(
                &shared.queries[h][slice * shape::slice + batch * GQA_BATCH], key);
            *dot = batch == 0u ? sum : *dot + sum;
        }
    }
}

/* Scores, running maxima and weights of the strand's keys for the heads slice, slice + slices, ..
 */
template <int DIM, int HEADS>
DEVICE void gqa_weights(const attention_args &a, gqa_shared<DIM, HEADS> &shared, uint32_t seen,
                        uint32_t strand, uint32_t slice, uint32_t heads) {
    typedef gqa_shared<DIM, HEADS> shape;
    const float nothing = float_of(0xff800000u);
    uint32_t lane = lane_index(), step = lane >> 3;
    bool visible = (seen >> lane & 1u) != 0u;
    bool rescaled = (seen & ((1u << 8u * step) - 1u)) != 0u && (seen >> 8u * step & 255u) != 0u;
#pragma unroll 1
    for (uint32_t h = slice; h < heads; h += shape::slices) {
        float dot = shared.dots[0][strand][h][lane];
        if (shape::slices == 2) {
            dot = dot + shared.dots[shape::slices - 1][strand][h][lane];
        }
        float score = canonical_score(dot, 1.0f, a.scale, a.softcap);
        float most = visible && score == score ? score : nothing; /* a NaN never is the maximum */
#pragma unroll
        for (int s = 1; s < 8; s <<= 1) {
            float other = wave_xor(most, s);
            most = other > most ? other : most;
        }
        float m0 = wave_scalar(most, 0), m1 = wave_scalar(most, 8);
        float m2 = wave_scalar(most, 16), m3 = wave_scalar(most, 24);
        m1 = m1 > m0 ? m1 : m0;
        m2 = m2 > m1 ? m2 : m1;
        m3 = m3 > m2 ? m3 : m2;
        float after = step == 0u ? m0 : step == 1u ? m1 : step == 2u ? m2 : m3;
        float before = step == 0u ? nothing : step == 1u ? m0 : step == 2u ? m1 : m2;
        float factor = canonical_exp(before - after);
        uint32_t slot = gqa_slot<DIM, HEADS>(h);
        shared.weights[strand][lane][slot] = canonical_exp(score - after);
        if ((lane & 7u) == 0u) {
            shared.rescale[strand][step][slot] = rescaled ? factor : 1.0f;
        }
        if (lane == 0u) {
            shared.tree.m[strand][h] = m3;
        }
    }
}

/* Grid: (segments, KV heads, tokens). */
template <int DIM, int HEADS, uint32_t KV> DEVICE void gqa_part(const gqa_args &args) {
    typedef gqa_shared<DIM, HEADS> shape;
    static_assert(sizeof(shape) == GQA_SHARED(DIM, HEADS), "the host counts other bytes");
#if GQA_DYNAMIC
    extern __shared__ float gqa_bytes[];
    shape &shared = *(shape *)gqa_bytes;
#else
    __shared__ shape shared;
#endif
    const attention_args &a = args.base;
    int32_t segment = (int32_t)block_x(), kv_head = (int32_t)block_y(), token = (int32_t)block_z();
    uint32_t heads = (uint32_t)(a.q_heads / a.kv_heads), first_head = (uint32_t)kv_head * heads;
    uint32_t lane = lane_index(), wave = wave_uniform(wave_index());
    uint32_t strand = wave % GQA_STRANDS, slice = wave / GQA_STRANDS;
    visible_keys keys = keys_of_token(a, token);
    int32_t base = segment * CANONICAL_SEGMENT;
    int32_t position = base + (int32_t)(8u * lane + strand);
    int64_t k_at = 0, v_at = 0;
    bool visible = false;
    if (base >= keys.end || base + CANONICAL_SEGMENT <= keys.begin) {
        return;
    }
    if (position >= keys.begin && position < keys.end) {
        int32_t page = page_of(a, keys, position);
        if (page >= 0) {
            int64_t at = position % a.block_size;
            k_at = page * a.k_block_stride + at * a.k_slot_stride + kv_head * a.k_head_stride;
            v_at = page * a.v_block_stride + at * a.v_slot_stride + kv_head * a.v_head_stride;
            visible = true;
        }
    }
    uint32_t seen = wave_ballot(visible); /* bit i: key i; step c has bits 8 c and up */
    for (uint32_t i = thread_index(); i < heads * DIM; i += thread_count()) {
        (&shared.queries[0][0])[i] =
            canonical_load(a.q, token * a.q_stride + (int64_t)(first_head * DIM + i), a.q_dtype);
    }
    if (slice == 0u && lane == 0u) {
        shared.tree.any[strand] = seen;
    }
    block_barrier();
    gqa_dots<DIM, HEADS, KV>(a, shared, k_at, visible, strand, slice, heads);
    block_barrier();
    gqa_weights(a, shared, seen, strand, slice, heads);
    block_barrier();
    gqa_factors(shared.tree);

    uint32_t group = lane / shape::row_lanes, element = lane % shape::row_lanes * 8u;
    const float *factors = &shared.rescale[strand][0][0];
    const float *weights = &shared.weights[strand][0][0];
    float o[shape::each][8], l = 0.0f; /* l: of the head in slot `lane` */
#pragma unroll
    for (int i = 0; i < shape::each; i++) {
#pragma unroll
        for (int e = 0; e < 8; e++) {
            o[i][e] = 0.0f;
        }
    }
#pragma unroll 1
    for (uint32_t step = 0; step < 4u; step++) {
        uint32_t mask = seen >> 8u * step & 255u;
        uint32_t w[CANONICAL_STEP][4];
        if (mask == 0u) {
            continue;
        }
#pragma unroll
        for (uint32_t j = 0; j < CANONICAL_STEP; j++) {
            if ((mask >> j & 1u) != 0u) {
                uint32_t low = wave_scalar((uint32_t)v_at, (int)(8u * step + j));
                uint32_t high = wave_scalar((uint32_t)(v_at >> 32), (int)(8u * step + j));
                int64_t at = (int64_t)((uint64_t)high << 32 | low) + (int64_t)slice * shape::slice;
                load_words<4>((const uint8_t *)a.v + 2 * at + 2u * element, w[j]);
            }
        }
        l = l * factors[step * HEADS + lane % HEADS];
#pragma unroll
        for (uint32_t i = 0; i < shape::each; i++) {
            float factor = factors[step * HEADS + group * shape::each + i];
#pragma unroll
            for (int e = 0; e < 8; e++) {
                o[i][e] = o[i][e] * factor;
            }
        }
#pragma unroll
        for (uint32_t j = 0; j < CANONICAL_STEP; j++) {
            if ((mask >> j & 1u) != 0u) {
                const float *key = weights + (8u * step + j) * HEADS;
                float v[8];
                gqa_widen<KV>(w[j], v);
                l = l + key[lane % HEADS];
#pragma unroll
                for (uint32_t i = 0; i < shape::each; i++) {
                    if (i * shape::groups < heads) {
                        float weight = key[group * shape::each + i];
#pragma unroll
                        for (int e = 0; e < 8; e++) {
                            o[i][e] = CANONICAL_FMA(weight, v[e], o[i][e]);
                        }
                    }
                }
            }
        }
    }
    if (slice == 0u && lane < HEADS) { /* slot `lane` is head i * groups + g */
        shared.tree.l[strand][lane % shape::each * shape::groups + lane / shape::each] = l;
    }
    int64_t parts = ((int64_t)token * a.q_heads + first_head) * args.segments + segment;
#pragma unroll
    for (uint32_t i = 0; i < shape::each; i++) {
        float *buffer = &shared.elements[i % shape::buffers][strand][group * DIM];
        if (i * shape::groups >= heads) {
            break;
        }
#pragma unroll
        for (int e = 0; e < 8; e++) {
            buffer[slice * shape::slice + element + (uint32_t)e] = o[i][e];
        }
        block_barrier(); /* a buffer's readers are before the barrier of the pass that follows */
        uint32_t head = i * shape::groups + thread_index() / DIM, e = thread_index() % DIM;
        if (head < heads) {
            float v[GQA_STRANDS];
#pragma unroll
            for (int r = 0; r < GQA_STRANDS; r++) {
                v[r] = shared.elements[i % shape::buffers][r][thread_index()];
            }
            args.o[(parts + (int64_t)head * args.segments) * DIM + e] =
                gqa_tree_value(shared.tree, v, head);
        }
    }
    if (thread_index() < heads) {
        uint32_t h = thread_index(), any;
        float v[GQA_STRANDS], m = gqa_largest(shared.tree, 0u, GQA_STRANDS, h, &any);
#pragma unroll
        for (int r = 0; r < GQA_STRANDS; r++) {
            v[r] = shared.tree.l[r][h];
        }
        args.m[parts + (int64_t)h * args.segments] = any != 0u ? m : float_of(0x7fc00000u);
        args.l[parts + (int64_t)h * args.segments] = gqa_tree_value(shared.tree, v, h);
    }
}

/* ---- segments
 * ------------------------------------------------------------------------------------- */

#define GQA_LEVELS                                                                                 \
    8 /* of the tree that one wave merges: 128 segments                             */

/* A part of one head; a lane holds EACH of its elements. */
template <int EACH> struct gqa_run {
    float m, l, o[EACH];
    uint32_t any;
};

/* b = a, of lower positions, merged with b. */
template <int EACH> DEVICE void gqa_join(const gqa_run<EACH> &a, gqa_run<EACH> &b) {
    float fa, fb, m;
    if (a.any == 0u) {
        return;
    }
    if (b.any == 0u) {
        b = a;
        return;
    }
    m = canonical_merge(a.m, b.m, &fa, &fb);
    b.m = m;
    b.l = a.l * fa + b.l * fb;
#pragma unroll
    for (int e = 0; e < EACH; e++) {
        b.o[e] = a.o[e] * fa + b.o[e] * fb;
    }
}

template <int DIM> struct gqa_merge_shared {
    gqa_tree<1> tree;
    float o[8][DIM];
};

/* Grid: (query heads, tokens).  Wave w merges the w-th aligned run of segments. */
template <int DIM> DEVICE void gqa_merge(const gqa_args &args) {
    const int each = DIM / 32;
    __shared__ gqa_merge_shared<DIM> shared;
    const attention_args &a = args.base;
    int32_t head = (int32_t)block_x(), token = (int32_t)block_y();
    uint32_t lane = lane_index(), wave = wave_uniform(wave_index());
    visible_keys keys = keys_of_token(a, token);
    uint32_t first = (uint32_t)(keys.begin / CANONICAL_SEGMENT), run = 1u;
    uint32_t last = (uint32_t)((keys.end + CANONICAL_SEGMENT - 1) / CANONICAL_SEGMENT);
    int64_t parts = ((int64_t)token * a.q_heads + head) * args.segments;
    gqa_run<each> stack[GQA_LEVELS], current;
    while (8u * run < last) {
        run *= 2u;
    }
    uint32_t from = wave * run, to = from + run < last ? from + run : last;
#pragma unroll
    for (int level = 0; level < GQA_LEVELS; level++) {
        stack[level].any = 0u;
    }
    for (uint32_t s = from > first ? from : first; s < to; s++) {
        uint32_t index = s - from, carried = 1u;
        current.m = args.m[parts + s];
        current.l = args.l[parts + s];
        current.any = current.m == current.m ? 1u : 0u;
#pragma unroll
        for (int e = 0; e < each; e++) {
            current.o[e] = args.o[(parts + s) * DIM + lane * each + (uint32_t)e];
        }
#pragma unroll
        for (int level = 0; level < GQA_LEVELS; level++) { /* as a binary counter */
            if (carried != 0u && (index >> level & 1u) != 0u) {
                gqa_join(stack[level], current);
                stack[level].any = 0u;
            } else if (carried != 0u) {
                stack[level] = current;
                carried = 0u;
            }
        }
    }
    current.any = 0u;
    current.m = current.l = 0.0f;
#pragma unroll
    for (int e = 0; e < each; e++) {
        current.o[e] = 0.0f;
    }
#pragma unroll
    for (int level = 0; level < GQA_LEVELS; level++) {
        gqa_join(stack[level], current);
    }
#pragma unroll
    for (int e = 0; e < each; e++) {
        shared.o[wave][lane * each + (uint32_t)e] = current.o[e];
    }
    if (lane == 0u) {
        shared.tree.any[wave] = current.any;
        shared.tree.m[wave][0] = current.m;
        shared.tree.l[wave][0] = current.l;
    }
    block_barrier();
    gqa_factors(shared.tree);
    block_barrier();
    if (thread_index() < DIM) {
        uint32_t e = thread_index(), any;
        float v[8], o, l, m = gqa_largest(shared.tree, 0u, 8u, 0u, &any), value = 0.0f;
#pragma unroll
        for (int r = 0; r < 8; r++) {
            v[r] = shared.o[r][e];
        }
        o = gqa_tree_value(shared.tree, v, 0u);
#pragma unroll
        for (int r = 0; r < 8; r++) {
            v[r] = shared.tree.l[r][0];
        }
        l = gqa_tree_value(shared.tree, v, 0u);
        if (any != 0u && a.sinks != 0) { /* the last part: no elements, sum 1 */
            float fo, fs;
            m = canonical_merge(m, a.sinks[head], &fo, &fs);
            o = o * fo + 0.0f * fs;
            l = l * fo + 1.0f * fs;
        }
        if (any != 0u) {
            value = CANONICAL_DIV(o, l);
        }
        canonical_store(a.out, token * a.out_stride + (int64_t)head * DIM + e, a.out_dtype, value);
        if (a.lse != 0 && e == 0u) {
            a.lse[(int64_t)token * a.q_heads + head] =
                any != 0u ? m + canonical_log(l) : float_of(0xff800000u);
        }
    }
}

#endif /* OPREG_PLUGINS_PAGED_GQA_CUH */
