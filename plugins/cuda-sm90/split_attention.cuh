/* SPDX-License-Identifier: MIT
 * split_attention.cuh - paged_attn_decode over segments of 256 positions, canonical order.
 *
 * split_part: a block is one segment of one KV head and up to four of its query heads.  A strand is
 * DIM / 8 lanes with eight elements each, so a block has DIM threads and reads every key and value
 * once, 16 bytes a lane.  It stores one part a head.  split_merge: a block is one head of one token
 * and merges its segments' parts as the tree. */
#ifndef OPREG_SM90_SPLIT_ATTENTION_CUH
#define OPREG_SM90_SPLIT_ATTENTION_CUH

#include "attention.cuh"
#include "split_args.h"

DEVICE uint32_t shared_address(const void *p) { return (uint32_t)__cvta_generic_to_shared(p); }

/* Eight elements of a cache row in registers as they are stored. */
template <uint32_t KV> struct cache8 {
    static const int words = KV == OPREG_F8_E4M3 ? 2 : 4;
    uint32_t w[words];
    __device__ __forceinline__ void load(const void *cache, int64_t at, bool aligned) {
        if (!aligned) { /* the cache's base is not a multiple of 16 bytes */
#pragma unroll
            for (int i = 0; i < words; i++) {
                w[i] = 0u;
#pragma unroll
                for (int b = 0; b < (KV == OPREG_F8_E4M3 ? 4 : 2); b++) {
                    w[i] |= KV == OPREG_F8_E4M3
                                ? (uint32_t)((const uint8_t *)cache)[at + 4 * i + b] << 8 * b
                                : (uint32_t)((const uint16_t *)cache)[at + 2 * i + b] << 16 * b;
                }
            }
        } else if (KV == OPREG_F8_E4M3) {
            uint2 v = __ldg((const uint2 *)((const uint8_t *)cache + at));
            w[0] = v.x;
            w[1] = v.y;
        } else {
            uint4 v = __ldg((const uint4 *)((const uint16_t *)cache + at));
            w[0] = v.x;
            w[1] = v.y;
            w[words - 2] = v.z;
            w[words - 1] = v.w;
        }
    }
    __device__ __forceinline__ void values(float *out) const {
#pragma unroll
        for (int i = 0; i < 4; i++) {
            if (KV == OPREG_BF16) {
                out[2 * i] = __uint_as_float(w[i % words] << 16);
                out[2 * i + 1] = __uint_as_float(w[i % words] & 0xffff0000u);
            } else {
                uint32_t pair = w[i % words];
                if (KV == OPREG_F8_E4M3) {
                    unsigned short two = (unsigned short)(w[i / 2] >> 16 * (i & 1));
                    asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(pair) : "h"(two));
                }
                asm("cvt.f32.f16 %0, %1;" : "=f"(out[2 * i]) : "h"((unsigned short)pair));
                asm("cvt.f32.f16 %0, %1;" : "=f"(out[2 * i + 1]) : "h"((unsigned short)(pair >> 16)));
            }
        }
    }
};

/* What the strands of a block share. */
template <int DIM, int HEADS> struct split_shared {
    int64_t k_at[256], v_at[256]; /* first element of each position's rows, -1 where masked         */
    float scores[8][HEADS * 8];   /* by strand: head * 8 + key, then the weights                    */
    float rescale[8][HEADS];
    float o[DIM / 32][HEADS][DIM]; /* parts of the waves                                            */
    float m[DIM / 32][HEADS], l[DIM / 32][HEADS];
    int any[DIM / 32];
    float left[DIM / 32][HEADS], right[DIM / 32][HEADS]; /* factors, at the right part's number      */
};

/* Eight keys against the heads: scores of the strand to shared memory. */
template <int DIM, int HEADS, uint32_t KV>
DEVICE void step_scores(const cache8<KV> *k, const float (*q)[8], uint32_t mask, float k_scale,
                        const attention_args &a, float *scores) {
    constexpr int LANES = DIM / 8, PARTS = 32 / LANES, EACH = 8 / PARTS;
    float v[HEADS * 8];
#pragma unroll
    for (int j = 0; j < 8; j++) {
        float key[8];
        k[j].values(key);
#pragma unroll
        for (int h = 0; h < HEADS; h++) {
            float sums[PARTS];
#pragma unroll
            for (int p = 0; p < PARTS; p++) {
                sums[p] = 0.0f;
#pragma unroll
                for (int e = 0; e < EACH; e++) {
                    sums[p] = __fmaf_rn(q[h][p * EACH + e], key[p * EACH + e], sums[p]);
                }
            }
            if constexpr (PARTS == 4) {
                v[h * 8 + j] = (sums[0] + sums[1]) + (sums[2] + sums[3]);
            } else if constexpr (PARTS == 2) {
                v[h * 8 + j] = sums[0] + sums[1];
            } else {
                v[h * 8 + j] = sums[0];
            }
        }
    }
    /* neighbours first; a level halves the values that a lane is answerable for */
    uint32_t lane = lane_index() & (LANES - 1u);
    int first = 0;
    constexpr int levels = LANES == 8 ? 3 : LANES == 16 ? 4 : 5;
#pragma unroll
    for (int level = 0; level < levels; level++) {
        constexpr int all = HEADS * 8;
        const int half = all >> (level + 1), s = 1 << level;
        if (half > 0) {
            bool upper = (lane & (uint32_t)s) != 0u;
            first += upper ? half : 0;
#pragma unroll
            for (int i = 0; i < all / 2; i++) {
                if (i < half) {
                    float send = upper ? v[i] : v[i + half];
                    float keep = upper ? v[i + half] : v[i];
                    v[i] = keep + wave_xor(send, s);
                }
            }
        } else {
            v[0] = v[0] + wave_xor(v[0], s);
        }
    }
    constexpr int left = (HEADS * 8 >> levels) > 0 ? HEADS * 8 >> levels : 1;
#pragma unroll
    for (int i = 0; i < left; i++) {
        float s = canonical_score(v[i], k_scale, a.scale, a.softcap);
        scores[first + i] = mask >> ((first + i) & 7) & 1u ? s : float_of(0xff800000u);
    }
    __syncwarp();
}

/* Running part of a strand: o is the lane's eight elements of each head. */
template <int HEADS> struct strand_part {
    float m[HEADS], l[HEADS], o[HEADS][8];
    int any;
};

template <int DIM, int HEADS, uint32_t KV>
DEVICE void step_values(const cache8<KV> *v, uint32_t mask, float *scores, float *rescale,
                        strand_part<HEADS> &p) {
    constexpr int LANES = DIM / 8, COUNT = HEADS * 8;
    uint32_t lane = lane_index() & (LANES - 1u);
    float m[HEADS];
#pragma unroll
    for (int h = 0; h < HEADS; h++) {
        float4 a = *(const float4 *)(scores + 8 * h), b = *(const float4 *)(scores + 8 * h + 4);
        m[h] = fmaxf(p.m[h], fmaxf(fmaxf(fmaxf(a.x, a.y), fmaxf(a.z, a.w)),
                                   fmaxf(fmaxf(b.x, b.y), fmaxf(b.z, b.w))));
    }
    __syncwarp();
    /* weights: a lane takes its share of the keys times heads */
#pragma unroll
    for (int i = 0; i < (COUNT + LANES - 1) / LANES; i++) {
        int at = (int)lane + i * LANES;
        if (at < COUNT) {
            float mine = m[0];
#pragma unroll
            for (int h = 1; h < HEADS; h++) {
                mine = at >> 3 == h ? m[h] : mine;
            }
            scores[at] = canonical_exp(scores[at] - mine);
        }
    }
    if (lane < HEADS) {
        float before = p.m[0], after = m[0];
#pragma unroll
        for (int h = 1; h < HEADS; h++) {
            before = lane == (uint32_t)h ? p.m[h] : before;
            after = lane == (uint32_t)h ? m[h] : after;
        }
        rescale[lane] = canonical_exp(before - after);
    }
    __syncwarp();
    if (mask != 0u) {
#pragma unroll
        for (int h = 0; h < HEADS; h++) {
            float factor = rescale[h];
            p.m[h] = m[h];
            factor = p.any ? factor : 1.0f; /* the first step begins from zeros                    */
            p.l[h] = p.l[h] * factor;
#pragma unroll
            for (int e = 0; e < 8; e++) {
                p.o[h][e] = p.o[h][e] * factor;
            }
        }
        p.any = 1;
    }
    bool whole = __all_sync(0xffffffffu, mask == 255u);
#pragma unroll
    for (int j4 = 0; j4 < 8; j4 += 4) {
        float weights[HEADS][4];
#pragma unroll
        for (int h = 0; h < HEADS; h++) {
            float4 four = *(const float4 *)(scores + 8 * h + j4);
            weights[h][0] = four.x;
            weights[h][1] = four.y;
            weights[h][2] = four.z;
            weights[h][3] = four.w;
        }
#pragma unroll
        for (int i = 0; i < 4; i++) {
            if (whole || (mask >> (j4 + i) & 1u)) {
                float value[8];
                v[j4 + i].values(value);
#pragma unroll
                for (int h = 0; h < HEADS; h++) {
                    p.l[h] = p.l[h] + weights[h][i];
#pragma unroll
                    for (int e = 0; e < 8; e++) {
                        p.o[h][e] = __fmaf_rn(weights[h][i], value[e], p.o[h][e]);
                    }
                }
            }
        }
    }
    __syncwarp();
}

/* Merges the part of the strands `distance` lanes away into every lane's own. */
template <int HEADS> DEVICE void merge_lanes(strand_part<HEADS> &p, int distance) {
    int other_any = (int)wave_xor((int32_t)p.any, distance);
#pragma unroll
    for (int h = 0; h < HEADS; h++) {
        float other_m = wave_xor(p.m[h], distance), other_l = wave_xor(p.l[h], distance);
        float mine, theirs, m = canonical_merge(p.m[h], other_m, &mine, &theirs);
        bool both = p.any && other_any;
#pragma unroll
        for (int e = 0; e < 8; e++) {
            float other = wave_xor(p.o[h][e], distance);
            float merged = p.o[h][e] * mine + other * theirs;
            p.o[h][e] = both ? merged : p.any ? p.o[h][e] : other;
        }
        float merged = p.l[h] * mine + other_l * theirs;
        p.l[h] = both ? merged : p.any ? p.l[h] : other_l;
        p.m[h] = both ? m : p.any ? p.m[h] : other_m;
    }
    p.any |= other_any;
}

/* The sum by two factors; a negative one says that this side has no key. */
DEVICE float merged_value(float left, float right, float fl, float fr) {
    float both = left * fl + right * fr;
    return fr < 0.0f ? left : fl < 0.0f ? right : both;
}

/* Eight elements of q; by vectors where they lie so. */
DEVICE void load_query(const void *q, int64_t at, uint32_t dtype, float *out) {
    if (dtype == OPREG_F32) {
        const float *from = (const float *)q + at;
        if (((uintptr_t)from & 15u) == 0u) {
            float4 x = ((const float4 *)from)[0], y = ((const float4 *)from)[1];
            out[0] = x.x, out[1] = x.y, out[2] = x.z, out[3] = x.w;
            out[4] = y.x, out[5] = y.y, out[6] = y.z, out[7] = y.w;
        } else {
#pragma unroll
            for (int e = 0; e < 8; e++) {
                out[e] = from[e];
            }
        }
    } else {
        __align__(16) uint16_t bits[8];
        const uint16_t *from = (const uint16_t *)q + at;
        if (((uintptr_t)from & 15u) == 0u) {
            *(uint4 *)bits = *(const uint4 *)from;
        } else {
#pragma unroll
            for (int e = 0; e < 8; e++) {
                bits[e] = from[e];
            }
        }
#pragma unroll
        for (int e = 0; e < 8; e++) {
            float half;
            asm("cvt.f32.f16 %0, %1;" : "=f"(half) : "h"(bits[e]));
            out[e] = dtype == OPREG_BF16 ? bf16_to_f32(bits[e]) : half;
        }
    }
}

/* Grid: (segments, KV heads * chunks of HEADS query heads, tokens); DIM threads. */
template <int DIM, int HEADS, uint32_t KV> DEVICE void split_part(const split_args &args) {
    constexpr int LANES = DIM / 8, STRANDS_A_WAVE = 32 / LANES, WAVES = DIM / 32;
    __shared__ __align__(16) split_shared<DIM, HEADS> shared;
    const attention_args &a = args.base;
    int32_t segment = (int32_t)block_x(), token = (int32_t)block_z();
    int32_t group = a.q_heads / a.kv_heads, chunks = (group + HEADS - 1) / HEADS;
    int32_t kv_head = (int32_t)block_y() / chunks, chunk = (int32_t)block_y() % chunks;
    visible_keys keys = keys_of_token(a, token);
    int32_t base = segment * CANONICAL_SEGMENT;
    if (base >= keys.end || base + CANONICAL_SEGMENT <= keys.begin) {
        return;
    }
    for (int32_t i = (int32_t)thread_index(); i < 256; i += DIM) {
        int32_t position = base + i;
        int64_t k_at = -1, v_at = -1;
        if (position >= keys.begin && position < keys.end) {
            int32_t page = page_of(a, keys, position);
            if (page >= 0) {
                int64_t slot = position % a.block_size;
                k_at = page * a.k_block_stride + slot * a.k_slot_stride + kv_head * a.k_head_stride;
                v_at = page * a.v_block_stride + slot * a.v_slot_stride + kv_head * a.v_head_stride;
            }
        }
        shared.k_at[i] = k_at;
        shared.v_at[i] = v_at;
    }
    uint32_t lane = lane_index(), wave = wave_index(), in_strand = lane & (LANES - 1u);
    uint32_t strand = wave * STRANDS_A_WAVE + lane / LANES;
    int32_t first_head = kv_head * group + chunk * HEADS, element = (int32_t)in_strand * 8;
    int32_t last_head = kv_head * group + group - 1;
    float q[HEADS][8];
#pragma unroll
    for (int h = 0; h < HEADS; h++) {
        int64_t head = first_head + h < last_head ? first_head + h : last_head;
        load_query(a.q, token * a.q_stride + head * DIM + element, a.q_dtype, q[h]);
    }
    float k_scale = KV == OPREG_F8_E4M3 ? a.k_scale[kv_head] : 1.0f;
    strand_part<HEADS> p;
    p.any = 0;
#pragma unroll
    for (int h = 0; h < HEADS; h++) {
        p.m[h] = float_of(0xff800000u);
        p.l[h] = 0.0f;
#pragma unroll
        for (int e = 0; e < 8; e++) {
            p.o[h][e] = 0.0f;
        }
    }
    block_barrier();
    cache8<KV> k[8], v[8];
    bool aligned = ((uintptr_t)a.k & 15u) == 0u && ((uintptr_t)a.v & 15u) == 0u;
    uint32_t mask = 0, next_mask = 0;
#pragma unroll
    for (int j = 0; j < 8; j++) {
        int64_t k_at = shared.k_at[8 * j + strand], v_at = shared.v_at[8 * j + strand];
        mask |= k_at >= 0 ? 1u << j : 0u;
        k[j].load(a.k, (k_at >= 0 ? k_at : 0) + element, aligned);
        v[j].load(a.v, (v_at >= 0 ? v_at : 0) + element, aligned);
    }
#pragma unroll 1
    for (int c = 0; c < 4; c++) {
        float *scores = shared.scores[strand], *rescale = shared.rescale[strand];
        step_scores<DIM, HEADS, KV>(k, q, mask, k_scale, a, scores);
        next_mask = 0;
        if (c < 3) {
#pragma unroll
            for (int j = 0; j < 8; j++) {
                int64_t k_at = shared.k_at[64 * (c + 1) + 8 * j + strand];
                next_mask |= k_at >= 0 ? 1u << j : 0u;
                k[j].load(a.k, (k_at >= 0 ? k_at : 0) + element, aligned);
            }
        }
        step_values<DIM, HEADS, KV>(v, mask, scores, rescale, p);
        if (c < 3) {
#pragma unroll
            for (int j = 0; j < 8; j++) {
                int64_t v_at = shared.v_at[64 * (c + 1) + 8 * j + strand];
                v[j].load(a.v, (v_at >= 0 ? v_at : 0) + element, aligned);
            }
        }
        mask = next_mask;
    }
#pragma unroll
    for (int distance = LANES; distance < 32; distance <<= 1) {
        merge_lanes<HEADS>(p, distance);
    }
    if (lane < LANES) {
#pragma unroll
        for (int h = 0; h < HEADS; h++) {
#pragma unroll
            for (int e = 0; e < 8; e += 4) {
                *(float4 *)&shared.o[wave][h][element + e] =
                    make_float4(p.o[h][e], p.o[h][e + 1], p.o[h][e + 2], p.o[h][e + 3]);
            }
            shared.m[wave][h] = p.m[h];
            shared.l[wave][h] = p.l[h];
        }
        shared.any[wave] = p.any;
    }
    /* the waves' parts as a tree: a thread for the factors of each merge and head, then thread e is
     * element e of all of them */
    block_barrier();
    int32_t e = (int32_t)thread_index();
    if (e < (WAVES - 1) * HEADS) {
        /* merge number `right` - 1 is that of the part `right` with the one its lowest bit below */
        int32_t right = e / HEADS + 1, h = e % HEADS, low = right & -right, left = right - low;
        float ml = 0.0f, mr = 0.0f, fl, fr;
        int left_any = 0, right_any = 0;
        for (int32_t w = left; w < right + low; w++) { /* maxima of the two sides                  */
            if (shared.any[w]) {
                float m = shared.m[w][h];
                if (w < right) {
                    ml = left_any && !(m > ml) ? ml : m;
                    left_any = 1;
                } else {
                    mr = right_any && !(m > mr) ? mr : m;
                    right_any = 1;
                }
            }
        }
        (void)canonical_merge(ml, mr, &fl, &fr);
        shared.left[right][h] = left_any ? fl : -1.0f;
        shared.right[right][h] = right_any ? fr : -1.0f;
    }
    block_barrier();
    float part_o[HEADS], part_l = 0.0f, part_m = 0.0f;
    int part_any = 0;
#pragma unroll
    for (int h = 0; h < HEADS; h++) {
        float o[WAVES];
#pragma unroll
        for (int w = 0; w < WAVES; w++) {
            o[w] = shared.o[w][h][e];
        }
#pragma unroll
        for (int distance = 1; distance < WAVES; distance <<= 1) {
#pragma unroll
            for (int w = 0; w < WAVES; w += 2 * distance) {
                o[w] = merged_value(o[w], o[w + distance], shared.left[w + distance][h],
                                    shared.right[w + distance][h]);
            }
        }
        part_o[h] = o[0];
    }
    if (e < HEADS) {
        float l[WAVES];
#pragma unroll
        for (int w = 0; w < WAVES; w++) {
            l[w] = shared.l[w][e];
            if (shared.any[w]) {
                float m = shared.m[w][e];
                part_m = part_any && !(m > part_m) ? part_m : m;
                part_any = 1;
            }
        }
#pragma unroll
        for (int distance = 1; distance < WAVES; distance <<= 1) {
#pragma unroll
            for (int w = 0; w < WAVES; w += 2 * distance) {
                l[w] = merged_value(l[w], l[w + distance], shared.left[w + distance][e],
                                    shared.right[w + distance][e]);
            }
        }
        part_l = l[0];
        if (first_head + e <= last_head) {
            int64_t part = ((int64_t)token * a.q_heads + first_head + e) * args.segments + segment;
            args.m[part] = part_any ? part_m : float_of(0x7fc00000u);
            args.l[part] = part_l;
        }
    }
#pragma unroll
    for (int h = 0; h < HEADS; h++) {
        if (first_head + h <= last_head) {
            int64_t part = ((int64_t)token * a.q_heads + first_head + h) * args.segments + segment;
            args.o[part * DIM + e] = part_o[h];
        }
    }
}

/* Grid: (query heads, tokens); SPLIT_MERGE_THREADS threads.  A position p of the tree is the right
 * child once, so its factors lie at p: left negative takes the right part, right negative the left. */
template <int DIM> DEVICE void split_merge(const split_args &args) {
    extern __shared__ __align__(16) float merge_shared[];
    const attention_args &a = args.base;
    int32_t head = (int32_t)block_x(), token = (int32_t)block_y(), count = args.segments;
    int32_t t = (int32_t)thread_index();
    float *m = merge_shared, *l = m + count, *fl = l + count, *fr = fl + count, *nodes = fr + count;
    visible_keys keys = keys_of_token(a, token);
    int32_t used = (keys.end + 255) / 256, from = keys.begin / 256;
    int64_t first = ((int64_t)token * a.q_heads + head) * count;
    if (keys.end <= keys.begin) {
        used = 0;
    }
    /* absent parts have the maximum NaN: a maximum itself never is one */
    for (int32_t s = t; s < used; s += SPLIT_MERGE_THREADS) {
        m[s] = s >= from ? args.m[first + s] : float_of(0x7fc00000u);
        l[s] = s >= from ? args.l[first + s] : 0.0f;
    }
    for (int32_t d = 1; d < used; d <<= 1) {
        block_barrier();
        for (int32_t j = 2 * d * t; j + d < used; j += 2 * d * SPLIT_MERGE_THREADS) {
            int32_t p = j + d;
            bool left = m[j] == m[j], right = m[p] == m[p];
            float a1, a2, both = canonical_merge(m[j], m[p], &a1, &a2);
            fl[p] = left ? a1 : -1.0f;
            fr[p] = right ? a2 : -1.0f;
            l[j] = left ? (right ? l[j] * a1 + l[p] * a2 : l[j]) : l[p];
            m[j] = left ? (right ? both : m[j]) : m[p];
        }
    }
    block_barrier();
    /* runs of eight segments, then the tree over the runs */
    constexpr int LANES = DIM / 4, RUNS = SPLIT_MERGE_THREADS / LANES;
    int32_t runs = (used + 7) / 8, e4 = t % LANES;
    for (int32_t run = t / LANES; run < runs; run += RUNS) {
        float4 v[8];
#pragma unroll
        for (int i = 0; i < 8; i++) {
            int32_t s = run * 8 + i;
            v[i] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
            if (s < used && s >= from) {
                v[i] = ((const float4 *)(args.o + (first + s) * DIM))[e4];
            }
        }
#pragma unroll
        for (int d = 1; d < 8; d <<= 1) {
#pragma unroll
            for (int i = 0; i + d < 8; i += 2 * d) {
                int32_t p = run * 8 + i + d;
                if (p < used) {
                    float x = fl[p], y = fr[p];
                    float4 b = make_float4(v[i].x * x + v[i + d].x * y, v[i].y * x + v[i + d].y * y,
                                           v[i].z * x + v[i + d].z * y, v[i].w * x + v[i + d].w * y);
                    v[i] = y < 0.0f ? v[i] : x < 0.0f ? v[i + d] : b;
                }
            }
        }
        ((float4 *)(nodes + run * DIM))[e4] = v[0];
    }
    for (int32_t d = 1; d < runs; d <<= 1) {
        block_barrier();
        for (int32_t i = t; i < (runs + 2 * d - 1) / (2 * d) * DIM; i += SPLIT_MERGE_THREADS) {
            int32_t j = i / DIM * 2 * d, e = i % DIM, p = (j + d) * 8;
            if (j + d < runs) {
                float left = nodes[j * DIM + e], right = nodes[(j + d) * DIM + e];
                float both = left * fl[p] + right * fr[p];
                nodes[j * DIM + e] = fr[p] < 0.0f ? left : fl[p] < 0.0f ? right : both;
            }
        }
    }
    block_barrier();
    int32_t kv_head = head / (a.q_heads / a.kv_heads);
    bool any = used > 0 && m[0] == m[0];
    float total = any ? l[0] : 0.0f, maximum = any ? m[0] : 0.0f, keep = 1.0f, sink = 0.0f;
    if (any && a.sinks != 0) {
        maximum = canonical_merge(m[0], a.sinks[head], &keep, &sink);
        total = l[0] * keep + 1.0f * sink;
    }
    for (int32_t e = t; e < DIM; e += SPLIT_MERGE_THREADS) {
        float value = 0.0f;
        if (any) {
            value = nodes[e];
            if (a.sinks != 0) {
                value = value * keep + 0.0f * sink;
            }
            value = CANONICAL_DIV(value, total);
            value = a.v_scale != 0 ? value * a.v_scale[kv_head] : value;
        }
        canonical_store(a.out, token * a.out_stride + (int64_t)head * DIM + e, a.out_dtype, value);
    }
    if (t == 0 && a.lse != 0) {
        a.lse[(int64_t)token * a.q_heads + head] =
            any ? maximum + canonical_log(total) : float_of(0xff800000u);
    }
}

#endif /* OPREG_SM90_SPLIT_ATTENTION_CUH */
