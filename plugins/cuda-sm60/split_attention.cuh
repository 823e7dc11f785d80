/* SPDX-License-Identifier: MIT
 * split_attention.cuh - paged_attn_decode over segments of 256 positions.
 *
 * split_part: a block is one segment of one KV head and up to four of its query heads; wave r is
 * strand r, and a lane has dim / 32 neighbouring elements.  A key is read once for all heads.  A
 * lane ends up with the score of one key and head, so that each exponential is computed once.
 * split_merge: a block merges the parts of one head of one token as the canonical tree. */
#ifndef OPREG_SM60_SPLIT_ATTENTION_CUH
#define OPREG_SM60_SPLIT_ATTENTION_CUH

#include "attention.cuh"
#include "sm60_device.h"
#include "split_args.h"

/* ---- arithmetic: what is done to EACH elements of a lane
 * -------------------------------------------- */

/* The reference's order and bits. */
struct split_f32 {
    template <int EACH> struct query { float q[EACH]; };
    template <int EACH> struct output { float step[1]; };
    template <uint32_t KV> DEVICE_MEMBER float low(uint32_t w) {
        return KV == OPREG_BF16 ? float_of(w << 16) : float_of_half(w & 0xffffu);
    }
    template <uint32_t KV> DEVICE_MEMBER float high(uint32_t w) {
        return KV == OPREG_BF16 ? float_of(w & 0xffff0000u) : float_of_half(w >> 16);
    }
    template <int EACH> DEVICE_MEMBER void set(query<EACH> &q, int e, float value, float) {
        q.q[e] = value;
    }
    DEVICE_MEMBER float score_scale(float scale) { return scale; }
    template <int EACH, uint32_t KV>
    DEVICE_MEMBER float dot(const query<EACH> &q, const uint32_t *k) {
        float sum = 0.0f;
#pragma unroll
        for (int e = 0; e < EACH; e += 2) {
            sum = CANONICAL_FMA(q.q[e], low<KV>(k[e / 2]), sum);
            sum = CANONICAL_FMA(q.q[e + 1], high<KV>(k[e / 2]), sum);
        }
        return sum;
    }
    /* A weight as the strand keeps it, and back. */
    DEVICE_MEMBER uint32_t weight(float p) {
        return bits_of(p);
    }
    DEVICE_MEMBER float weight_value(uint32_t w) {
        return float_of(w);
    }
    template <int EACH> DEVICE_MEMBER void begin(output<EACH> &) {}
    template <int EACH, uint32_t KV>
    DEVICE_MEMBER void add(output<EACH> &, float *o, uint32_t w, const uint32_t *v) {
#pragma unroll
        for (int e = 0; e < EACH; e += 2) {
            o[e] = CANONICAL_FMA(float_of(w), low<KV>(v[e / 2]), o[e]);
            o[e + 1] = CANONICAL_FMA(float_of(w), high<KV>(v[e / 2]), o[e + 1]);
        }
    }
    template <int EACH> DEVICE_MEMBER void end(const output<EACH> &, float *) {}
};

/* Two products an instruction: a lane's part of a score, and the sum over the eight keys of a step,
 * are f16; everything else is f32.  The query is scaled before it is rounded. */
struct split_f16x2 {
    template <int EACH> struct query { uint32_t q[EACH / 2]; };
    template <int EACH> struct output { uint32_t step[EACH / 2]; };
    template <int EACH> DEVICE_MEMBER void set(query<EACH> &q, int e, float value, float scale) {
        const uint32_t half = half_of(value * scale);
        q.q[e / 2] = e % 2 == 0 ? half : q.q[e / 2] | half << 16;
    }
    DEVICE_MEMBER float score_scale(float) { return 1.0f; }
    template <int EACH, uint32_t KV>
    DEVICE_MEMBER float dot(const query<EACH> &q, const uint32_t *k) {
        uint32_t sum = 0;
#pragma unroll
        for (int i = 0; i < EACH / 2; i++) {
            sum = fma_halves(q.q[i], k[i], sum);
        }
        return sum_of_halves(sum);
    }
    DEVICE_MEMBER uint32_t weight(float p) {
        return half_of(p) * 0x10001u;
    }
    DEVICE_MEMBER float weight_value(uint32_t w) {
        return float_of_half(w & 0xffffu);
    }
    template <int EACH> DEVICE_MEMBER void begin(output<EACH> &out) {
#pragma unroll
        for (int i = 0; i < EACH / 2; i++) {
            out.step[i] = 0;
        }
    }
    template <int EACH, uint32_t KV>
    DEVICE_MEMBER void add(output<EACH> &out, float *, uint32_t w, const uint32_t *v) {
#pragma unroll
        for (int i = 0; i < EACH / 2; i++) {
            out.step[i] = fma_halves(w, v[i], out.step[i]);
        }
    }
    template <int EACH> DEVICE_MEMBER void end(const output<EACH> &out, float *o) {
#pragma unroll
        for (int i = 0; i < EACH / 2; i++) {
            o[2 * i] = o[2 * i] + float_of_half(out.step[i] & 0xffffu);
            o[2 * i + 1] = o[2 * i + 1] + float_of_half(out.step[i] >> 16);
        }
    }
};

/* ---- parts
 * --------------------------------------------------------------------------------------------- */

template <int DIM, int HEADS> struct split_shared {
    int64_t k_at[256], v_at[256];   /* first element of each position's rows, -1 where masked */
    uint32_t weights[8][HEADS * 8]; /* by strand: head * 8 + key */
    float o[8][HEADS][DIM];         /* parts of the strands */
    float m[8][HEADS], l[8][HEADS]; /* m is NaN where the strand has no key */
    float left[8][HEADS], right[8][HEADS]; /* factors of a merge, at its right part's number */
};

/* A lane's elements of a row, as they are stored, by one load. */
template <int EACH> DEVICE void load_elements(const uint16_t *from, uint32_t *w) {
    if (EACH == 2) {
        w[0] = *(const uint32_t *)from;
    } else if (EACH == 4) {
        uint2 v = *(const uint2 *)from;
        w[0] = v.x;
        w[EACH / 2 - 1] = v.y;
    } else {
        uint4 v = *(const uint4 *)from;
        w[0] = v.x;
        w[1 % (EACH / 2)] = v.y;
        w[2 % (EACH / 2)] = v.z;
        w[EACH / 2 - 1] = v.w;
    }
}

/* The eight rows of a step; a masked one is that of a key that counts. */
template <int EACH>
DEVICE void load_step(const void *cache, const int64_t *places, uint32_t mask,
                      uint32_t (*w)[EACH / 2]) {
    const uint16_t *mine = (const uint16_t *)cache + lane_index() * EACH;
    const int64_t first = places[8 * first_bit(mask)];
    if (((uint64_t)cache & 15u) == 0u) {
#pragma unroll
        for (int j = 0; j < 8; j++) {
            load_elements<EACH>(mine + (mask >> j & 1u ? places[8 * j] : first), w[j]);
        }
        return;
    }
#pragma unroll 1
    for (int i = 0; i < 8 * EACH / 2; i++) { /* rare, and small rather than quick */
        const int j = i / (EACH / 2), e = i % (EACH / 2) * 2;
        const uint16_t *from = mine + (mask >> j & 1u ? places[8 * j] : first) + e;
        const uint32_t two = two_halves(from[0], from[1]);
#pragma unroll
        for (int n = 0; n < 8 * EACH / 2; n++) {
            w[n / (EACH / 2)][n % (EACH / 2)] = n == i ? two : w[n / (EACH / 2)][n % (EACH / 2)];
        }
    }
}

/* A lane's elements of a query, widened. */
template <int EACH> DEVICE void load_query(const void *q, int64_t at, uint32_t dtype, float *out) {
#pragma unroll 1
    for (int i = 0; i < EACH; i++) { /* once a block: one text for every dtype */
        const float value = canonical_load(q, at + i, dtype);
#pragma unroll
        for (int e = 0; e < EACH; e++) {
            out[e] = e == i ? value : out[e];
        }
    }
}

/* Sums of 8 * HEADS values over the wave, neighbours first; a level halves the values that a lane
 * is answerable for.  The index of the lane's value comes back. */
template <int HEADS> DEVICE uint32_t spread_sums(float *v) {
    uint32_t index = 0;
#pragma unroll
    for (int level = 0; level < 5; level++) {
        const int half = HEADS * 8 >> (level + 1), s = 1 << level;
        if (half > 0) {
            const bool upper = (lane_index() & (uint32_t)s) != 0u;
            index += upper ? (uint32_t)half : 0u;
#pragma unroll
            for (int i = 0; i < HEADS * 4; i++) {
                if (i < half) {
                    const float send = upper ? v[i] : v[i + half];
                    const float keep = upper ? v[i + half] : v[i];
                    v[i] = keep + wave_xor(send, s);
                }
            }
        } else {
            v[0] = v[0] + wave_xor(v[0], s);
        }
    }
    return index;
}

/* A lane whose value is of head h. */
template <int HEADS> DEVICE int lane_of_head(int h) {
    return HEADS == 4 ? (h >> 1) | (h & 1) << 1 : h;
}

/* The strand's running part.  m and l are those of the lane's head. */
template <int HEADS, int EACH> struct split_strand {
    float m, l, o[HEADS][EACH];
    bool any;
};

/* One step: eight keys against the heads, then their values, which are asked for when the keys'
 * registers are free. */
template <class A, int HEADS, int EACH, uint32_t KV>
DEVICE void split_step(const attention_args &a, uint32_t mask, const int64_t *k_at,
                       const int64_t *v_at, const typename A::template query<EACH> *q,
                       uint32_t *weights, split_strand<HEADS, EACH> &p) {
    float values[HEADS * 8], m, factor, score;
    uint32_t v[8][EACH / 2];
    load_step<EACH>(a.k, k_at, mask, v);
#pragma unroll
    for (int j = 0; j < 8; j++) {
#pragma unroll
        for (int h = 0; h < HEADS; h++) {
            values[8 * h + j] = A::template dot<EACH, KV>(q[h], v[j]);
        }
    }
    load_step<EACH>(a.v, v_at, mask, v);
    const uint32_t index = spread_sums<HEADS>(values);
    score = canonical_score(values[0], 1.0f, A::score_scale(a.scale), a.softcap);
    score = mask >> (index & 7u) & 1u ? score : float_of(0xff800000u);
    m = score > p.m ? score : p.m; /* a NaN never is the maximum */
#pragma unroll
    for (int s = HEADS; s < 8 * HEADS; s <<= 1) {
        const float other = wave_xor(m, s);
        m = other > m ? other : m;
    }
    factor = canonical_exp(p.m - m);
    weights[index] = A::weight(canonical_exp(score - m));
    p.m = m;
    wave_barrier();
    if (p.any) {
        p.l = p.l * factor;
#pragma unroll
        for (int h = 0; h < HEADS; h++) {
            const float of_head = wave_read(factor, lane_of_head<HEADS>(h));
#pragma unroll
            for (int e = 0; e < EACH; e++) {
                p.o[h][e] = p.o[h][e] * of_head;
            }
        }
    }
    p.any = true;
    typename A::template output<EACH> out[HEADS];
#pragma unroll
    for (int h = 0; h < HEADS; h++) {
        A::begin(out[h]);
    }
#pragma unroll
    for (int j = 0; j < 8; j++) {
        if (mask >> j & 1u) {
            p.l = p.l + A::weight_value(weights[(index & ~7u) + (uint32_t)j]);
#pragma unroll
            for (int h = 0; h < HEADS; h++) {
                A::template add<EACH, KV>(out[h], p.o[h], weights[8 * h + j], v[j]);
            }
        }
    }
#pragma unroll
    for (int h = 0; h < HEADS; h++) {
        A::end(out[h], p.o[h]);
    }
    wave_barrier();
}

/* The sum by two factors; a negative one says that this side has no key. */
DEVICE float merged(float left, float right, float left_factor, float right_factor) {
    const float both = left * left_factor + right * right_factor;
    return right_factor < 0.0f ? left : left_factor < 0.0f ? right : both;
}

/* The maximum of parts [from, to), NaN where none has a key. */
template <int HEADS> DEVICE float largest(const float (*m)[HEADS], int from, int to, int h) {
    float most = float_of(0x7fc00000u);
    for (int w = from; w < to; w++) {
        most = m[w][h] > most || most != most ? m[w][h] : most;
    }
    return most;
}

/* Eight values as the tree of the strands, whose factors are there. */
template <int HEADS>
DEVICE float tree_of_strands(float *v, const float (*left)[HEADS], const float (*right)[HEADS],
                             int h) {
#pragma unroll
    for (int d = 1; d < 8; d <<= 1) {
#pragma unroll
        for (int i = 0; i < 8; i += 2 * d) {
            v[i] = merged(v[i], v[i + d], left[i + d][h], right[i + d][h]);
        }
    }
    return v[0];
}

/* Merges the strands' parts and stores the segment's. */
template <int DIM, int HEADS>
DEVICE void store_segment(const split_args &args, split_shared<DIM, HEADS> &s, int64_t first_part,
                          int heads) {
    const int t = (int)thread_index();
    float v[8];
    if (t >= HEADS && t < 8 * HEADS) { /* merge `right` is with the part its lowest bit below */
        const int right = t / HEADS, h = t % HEADS, low = right & -right;
        const float ml = largest<HEADS>(s.m, right - low, right, h);
        const float mr = largest<HEADS>(s.m, right, right + low, h);
        float fl, fr;
        (void)canonical_merge(ml, mr, &fl, &fr);
        s.left[right][h] = ml == ml ? fl : -1.0f;
        s.right[right][h] = mr == mr ? fr : -1.0f;
    }
    block_barrier();
    for (int i = t; i < heads * DIM; i += (int)SPLIT_THREADS) {
        const int h = i / DIM, e = i % DIM;
#pragma unroll
        for (int w = 0; w < 8; w++) {
            v[w] = s.o[w][h][e];
        }
        args.o[(first_part + (int64_t)h * args.segments) * DIM + e] =
            tree_of_strands<HEADS>(v, s.left, s.right, h);
    }
    if (t < heads) {
#pragma unroll
        for (int w = 0; w < 8; w++) {
            v[w] = s.l[w][t];
        }
        args.l[first_part + (int64_t)t * args.segments] =
            tree_of_strands<HEADS>(v, s.left, s.right, t);
        args.m[first_part + (int64_t)t * args.segments] = largest<HEADS>(s.m, 0, 8, t);
    }
}

/* Where the rows of a segment's positions begin. */
template <int DIM, int HEADS>
DEVICE void find_rows(const attention_args &a, const visible_keys &keys, int32_t base,
                      int32_t kv_head, split_shared<DIM, HEADS> &s) {
    const int32_t i = (int32_t)thread_index(), position = base + i; /* a thread each */
    int32_t page = -1;
    s.k_at[i] = s.v_at[i] = -1;
    if (position >= keys.begin && position < keys.end) {
        page = page_of(a, keys, position);
    }
    if (page >= 0) {
        const int64_t slot = position % a.block_size;
        s.k_at[i] = page * a.k_block_stride + slot * a.k_slot_stride + kv_head * a.k_head_stride;
        s.v_at[i] = page * a.v_block_stride + slot * a.v_slot_stride + kv_head * a.v_head_stride;
    }
}

/* Grid: (segments, KV heads * chunks of HEADS query heads, tokens). */
template <int DIM, int HEADS, class A, uint32_t KV> DEVICE void split_part(const split_args &args) {
    constexpr int EACH = DIM / 32;
    __shared__ split_shared<DIM, HEADS> shared;
    const attention_args &a = args.base;
    const int32_t segment = (int32_t)block_x(), token = (int32_t)block_z();
    const int32_t group = a.q_heads / a.kv_heads, chunks = (group + HEADS - 1) / HEADS;
    const int32_t kv_head = (int32_t)block_y() / chunks, chunk = (int32_t)block_y() % chunks;
    const int32_t first_head = kv_head * group + chunk * HEADS;
    const int32_t heads = group - chunk * HEADS < HEADS ? group - chunk * HEADS : HEADS;
    const int32_t base = segment * CANONICAL_SEGMENT, wave = (int32_t)wave_index();
    const visible_keys keys = keys_of_token(a, token);
    if (base >= keys.end || base + CANONICAL_SEGMENT <= keys.begin) {
        return;
    }
    find_rows(a, keys, base, kv_head, shared);
    typename A::template query<EACH> q[HEADS];
#pragma unroll
    for (int h = 0; h < HEADS; h++) {
        const int64_t head = first_head + (h < heads ? h : 0);
        float elements[EACH];
        load_query<EACH>(a.q, token * a.q_stride + head * DIM + (int32_t)lane_index() * EACH,
                         a.q_dtype, elements);
#pragma unroll
        for (int e = 0; e < EACH; e++) {
            A::set(q[h], e, elements[e], a.scale);
        }
    }
    split_strand<HEADS, EACH> p;
    p.any = false;
    p.m = float_of(0xff800000u);
    p.l = 0.0f;
#pragma unroll
    for (int h = 0; h < HEADS; h++) {
#pragma unroll
        for (int e = 0; e < EACH; e++) {
            p.o[h][e] = 0.0f;
        }
    }
    block_barrier();
#pragma unroll 1
    for (int32_t c = 0; c < 4; c++) {
        const int64_t *k_at = shared.k_at + 64 * c + wave, *v_at = shared.v_at + 64 * c + wave;
        uint32_t mask = 0;
#pragma unroll
        for (int j = 0; j < 8; j++) {
            mask |= k_at[8 * j] >= 0 ? 1u << j : 0u;
        }
        if (mask != 0u) { /* the same in all lanes */
            split_step<A, HEADS, EACH, KV>(a, mask, k_at, v_at, q, shared.weights[wave], p);
        }
    }
#pragma unroll
    for (int h = 0; h < HEADS; h++) {
#pragma unroll
        for (int e = 0; e < EACH; e++) {
            shared.o[wave][h][lane_index() * EACH + (uint32_t)e] = p.o[h][e];
        }
        if ((int)lane_index() == lane_of_head<HEADS>(h)) {
            shared.m[wave][h] = p.any ? p.m : float_of(0x7fc00000u);
            shared.l[wave][h] = p.l;
        }
    }
    block_barrier();
    store_segment<DIM, HEADS>(
        args, shared, ((int64_t)token * a.q_heads + first_head) * args.segments + segment, heads);
}

/* ---- merge
 * --------------------------------------------------------------------------------------------- */

/* Grid: (query heads, tokens).  Shared: m, l and two factors for each segment.  A position p of the
 * tree is the right child once, so the factors of that merge lie at p. */
KERNEL KERNEL_THREADS(SPLIT_MERGE_THREADS) split_merge(const split_args args) {
    DYNAMIC_SHARED(memory);
    const attention_args &a = args.base;
    const int32_t head = (int32_t)block_x(), token = (int32_t)block_y(), count = args.segments;
    const int32_t t = (int32_t)thread_index(), step = (int32_t)SPLIT_MERGE_THREADS;
    const int32_t dim = a.head_dim, kv_head = head / (a.q_heads / a.kv_heads);
    float *m = (float *)memory, *l = m + count, *fl = l + count, *fr = fl + count;
    const visible_keys keys = keys_of_token(a, token);
    const int32_t used =
        keys.end > keys.begin ? (keys.end + CANONICAL_SEGMENT - 1) / CANONICAL_SEGMENT : 0;
    const int64_t first = ((int64_t)token * a.q_heads + head) * count;
    float *o = args.o + first * dim, maximum = 0.0f, total = 0.0f, keep = 1.0f, sink = 0.0f;
    for (int32_t s = t; s < used; s += step) {
        const bool there = s >= keys.begin / CANONICAL_SEGMENT;
        m[s] = there ? args.m[first + s] : float_of(0x7fc00000u);
        l[s] = there ? args.l[first + s] : 0.0f;
    }
    for (int32_t d = 1; d < used; d <<= 1) {
        block_barrier();
        for (int32_t j = 2 * d * t; j + d < used; j += 2 * d * step) {
            const int32_t p = j + d;
            const bool left = m[j] == m[j], right = m[p] == m[p];
            float x, y, both = canonical_merge(m[j], m[p], &x, &y);
            fl[p] = left ? x : -1.0f;
            fr[p] = right ? y : -1.0f;
            l[j] = merged(l[j], l[p], fl[p], fr[p]);
            m[j] = left ? (right ? both : m[j]) : m[p];
        }
    }
    for (int32_t d = 1; d < used; d <<= 1) {
        block_barrier();
        for (int32_t i = t; i < (used + d - 1) / (2 * d) * dim; i += step) {
            const int32_t j = i / dim * 2 * d, e = i % dim, p = j + d;
            o[j * dim + e] = merged(o[j * dim + e], o[p * dim + e], fl[p], fr[p]);
        }
    }
    block_barrier();
    const bool any = used > 0 && m[0] == m[0];
    if (any) {
        maximum = m[0];
        total = l[0];
        if (a.sinks != 0) {
            maximum = canonical_merge(m[0], a.sinks[head], &keep, &sink);
            total = total * keep + 1.0f * sink;
        }
    }
    for (int32_t e = t; e < dim; e += step) {
        float value = 0.0f;
        if (any) {
            value = a.sinks != 0 ? o[e] * keep + 0.0f * sink : o[e];
            value = CANONICAL_DIV(value, total);
            value = a.v_scale != 0 ? value * a.v_scale[kv_head] : value;
        }
        canonical_store(a.out, token * a.out_stride + (int64_t)head * dim + e, a.out_dtype, value);
    }
    if (t == 0 && a.lse != 0) {
        a.lse[(int64_t)token * a.q_heads + head] =
            any ? maximum + canonical_log(total) : float_of(0xff800000u);
    }
}

#define SPLIT_PART_KERNEL(dim, heads, name, arithmetic, kv, blocks)                                \
    KERNEL __launch_bounds__(SPLIT_THREADS, blocks)                                                \
        split_##dim##_##heads##_##name(const split_args args) {                                    \
        split_part<dim, heads, arithmetic, kv>(args);                                              \
    }

#endif /* OPREG_SM60_SPLIT_ATTENTION_CUH */
