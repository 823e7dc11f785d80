/* SPDX-License-Identifier: MIT
 * mix_formats.cuh - ROCmFP2_MIX and ROCmFP3_MIX over the layout rows32: tables of levels in shared
 * memory, and the fold of 64 weights of a few rows in the canonical order.
 *
 * A table has a line of 128 bytes for each run of codes and book, which holds the run's levels over
 * and over: lane l reads from its own banks, so no mix of codes has a conflict.  Two bits a weight:
 * the four weights of a byte as bf16, in 16 copies.  The address of a look-up is one permute: the
 * codes' byte above the lane's offset and the book.  Three bits: two weights, as bf16 in 32 copies and
 * as f32 in 16, which need no widening but take shared memory twice the time: every other look-up. */
#ifndef OPREG_SM90_MIX_FORMATS_CUH
#define OPREG_SM90_MIX_FORMATS_CUH

#include "mix_args.h"
#include "rows32_load.cuh"
#include "rows32_route.cuh"

DEVICE float low_level(uint32_t pair) { return __uint_as_float(pair << 16); }
DEVICE float high_level(uint32_t pair) { return __uint_as_float(pair & 0xffff0000u); }

/* The bits of two floats that are bf16 in one word. */
DEVICE uint32_t level_pair(uint32_t first, uint32_t second) {
    return __byte_perm(first, second, 0x7632);
}

/* The scales of four halves.  As e4m3 a byte is twice its value as ue4m3_half; of those above 0x7e, which
 * are to be 0, the maximum with 0 leaves that.  All steps are exact. */
DEVICE void half_scales(uint32_t meta, uint32_t mask, float *scales) {
    uint32_t low, high;
    asm("{.reg .b16 a, b; mov.b32 {a, b}, %2; cvt.rn.f16x2.e4m3x2 %0, a; cvt.rn.f16x2.e4m3x2 %1, b;}"
        : "=r"(low), "=r"(high)
        : "r"(meta & mask));
    asm("max.f16x2 %0, %0, %2; max.f16x2 %1, %1, %2;" : "+r"(low), "+r"(high) : "r"(0u));
    asm("mul.rn.f16x2 %0, %0, %2; mul.rn.f16x2 %1, %1, %2;"
        : "+r"(low), "+r"(high)
        : "r"(0x38003800u)); /* 0.5 */
    scales[0] = half_to_float(low & 0xffffu);
    scales[1] = half_to_float(low >> 16);
    scales[2] = half_to_float(high & 0xffffu);
    scales[3] = half_to_float(high >> 16);
}

/* Codes and scales of 64 weights of a row. */
struct mix2 {
    static const int group = MIX2_GROUP, table = MIX2_TABLE;
    uint32_t codes[4], meta;

    /* From a tile's group in shared memory. */
    __device__ __forceinline__ void read(const uint8_t *from, uint32_t lane) {
        uint4 c = *((const uint4 *)from + lane);
        codes[0] = c.x, codes[1] = c.y, codes[2] = c.z, codes[3] = c.w;
        meta = *((const uint32_t *)(from + 512) + lane);
    }

    /* What a thread of a block of MIX_THREADS puts into a table: eight threads a line, thread t the
     * bytes t / 16 + 32 k in the book t / 8 mod 2; so of the four weights only the last two differ.
     * Line of four codes (a byte) and a book: 2 * byte + book. */
    struct filling {
        uint32_t first, second, third, fourth; /* the levels of the book                           */

        __device__ __forceinline__ uint32_t level(uint32_t code) const {
            uint32_t even = code & 2u ? third : first, odd = code & 2u ? fourth : second;
            return code & 1u ? odd : even;
        }
    };

    static __device__ __forceinline__ filling ask(const opreg_side *side) {
        const float *l = side->levels + (thread_index() >> 3 & 1u) * 4u;
        return {bits_of(l[0]), bits_of(l[1]), bits_of(l[2]), bits_of(l[3])};
    }

    static __device__ __forceinline__ void fill(uint8_t *table, const filling &f) {
        uint32_t t = thread_index(), pair = level_pair(f.level(t >> 4), f.level(t >> 6));
        uint32_t low = f.level(t >> 8 & 1u), high = f.level((t >> 8 & 1u) + 2u);
        uint8_t *at = table + (t >> 3) * 128u + (t & 7u) * 16u;
#pragma unroll
        for (uint32_t k = 0; k < 8u; k++) {
            uint32_t other = level_pair(k & 1u ? high : low, f.level(k >> 1));
            *(uint4 *)(at + k * (MIX_THREADS / 8u * 128u)) = make_uint4(pair, other, pair, other);
        }
    }

    /* S rows, tables and books by row mod TABLES, against x; acc: of the two blocks. */
    template <int S, int TABLES>
    static __device__ __forceinline__ void fold(const mix2 *w, const bool *books,
                                                const uint8_t *tables, const float4 *x,
                                                float (*acc)[2]) {
        uint32_t starts[S][2]; /* a byte a half: the lane's offset in a line, and 128 for book 1 */
        float scales[S][4];
        uint32_t own = (lane_index() & 15u) * 0x0808u;
#pragma unroll
        for (int s = 0; s < S; s++) {
            bool two = books[s % TABLES];
            uint32_t mask = two ? 0x8080u : 0u;
            starts[s][0] = (w[s].meta & mask) | own;
            starts[s][1] = (w[s].meta >> 16 & mask) | own;
            half_scales(w[s].meta, two ? 0x7f7f7f7fu : ~0u, scales[s]);
        }
#pragma unroll
        for (int h = 0; h < 4; h++) {
            float sum[S];
#pragma unroll
            for (int q = 0; q < 4; q++) {
                float4 v = x[4 * h + q];
#pragma unroll
                for (int s = 0; s < S; s++) {
                    uint32_t at = __byte_perm(w[s].codes[h], starts[s][h >> 1],
                                              0x7704u | (uint32_t)q << 4 | (uint32_t)(h & 1));
                    uint2 levels = *(const uint2 *)(tables + s % TABLES * table + at);
                    sum[s] = __fmaf_rn(low_level(levels.x), v.x, q == 0 ? 0.0f : sum[s]);
                    sum[s] = __fmaf_rn(high_level(levels.x), v.y, sum[s]);
                    sum[s] = __fmaf_rn(low_level(levels.y), v.z, sum[s]);
                    sum[s] = __fmaf_rn(high_level(levels.y), v.w, sum[s]);
                }
            }
#pragma unroll
            for (int s = 0; s < S; s++) {
                acc[s][h >> 1] = __fmaf_rn(scales[s][h], sum[s], acc[s][h >> 1]);
            }
        }
    }
};

struct mix3 {
    static const int group = MIX3_GROUP, table = MIX3_TABLE;
    static const uint32_t floats = 0xaa; /* bit q: pair q of a half by the table of f32           */
    uint32_t codes[6], meta;

    __device__ __forceinline__ void read(const uint8_t *from, uint32_t lane) {
        uint4 c = *((const uint4 *)from + lane);
        uint2 d = *((const uint2 *)(from + 512) + lane);
        codes[0] = c.x, codes[1] = c.y, codes[2] = c.z, codes[3] = c.w;
        codes[4] = d.x, codes[5] = d.y;
        meta = *((const uint32_t *)(from + 768) + lane);
    }

    /* Of a block of MIX_THREADS, thread t has the line t / 8 of each book: line of two codes (six
     * bits) and a book: 64 * book + codes. */
    struct filling {
        uint32_t first[2], second[2];
    };

    static __device__ __forceinline__ filling ask(const opreg_side *side) {
        const float *l = side->levels;
        uint32_t first = thread_index() >> 3 & 7u, second = thread_index() >> 6;
        return {{bits_of(l[first]), bits_of(l[8u + first])},
                {bits_of(l[second]), bits_of(l[8u + second])}};
    }

    static __device__ __forceinline__ void fill(uint8_t *table, const filling &f) {
#pragma unroll
        for (uint32_t book = 0; book < 2u; book++) {
            uint32_t a = f.first[book], b = f.second[book], p = level_pair(a, b);
            uint8_t *at = table + book * (MIX_THREADS * 16u) + thread_index() * 16u;
            *(uint4 *)at = make_uint4(p, p, p, p);
            *(uint4 *)(at + MIX3_FLOATS) = make_uint4(a, b, a, b);
        }
    }

    template <int S, int TABLES>
    static __device__ __forceinline__ void fold(const mix3 *w, const bool *books,
                                                const uint8_t *tables, const float4 *x,
                                                float (*acc)[2]) {
        uint32_t own = lane_index() * 4u, own_floats = (lane_index() & 15u) * 8u;
        float scales[S][4];
        uint32_t meta[S];
#pragma unroll
        for (int s = 0; s < S; s++) {
            bool two = books[s % TABLES];
            meta[s] = two ? w[s].meta : 0u;
            half_scales(w[s].meta, two ? 0x7f7f7f7fu : ~0u, scales[s]);
        }
#pragma unroll
        for (int h = 0; h < 4; h++) {
            float sum[S];
            uint32_t low[S], high[S], start[S][2]; /* of 48 bits of codes the lower and upper 32 */
#pragma unroll
            for (int s = 0; s < S; s++) {
                uint32_t a = w[s].codes[h * 3 / 2], b = w[s].codes[h * 3 / 2 + 1];
                uint32_t across = __byte_perm(a, b, 0x5432);
                uint32_t book = (h == 0 ? meta[s] << 6 : meta[s] >> (8 * h - 6)) & 0x2000u;
                low[s] = h & 1 ? across : a;
                high[s] = h & 1 ? b : across;
                /* by permutes, which the compiler does not take apart to save registers */
                start[s][0] = __byte_perm(book, own, 0x3214);
                start[s][1] = __byte_perm(book, own_floats, 0x3214);
            }
#pragma unroll
            for (int q = 0; q < 8; q++) {
                float4 v = x[4 * h + q / 2];
                float first = q & 1 ? v.z : v.x, second = q & 1 ? v.w : v.y;
                int shift = (q < 5 ? 6 * q : 6 * q - 16) - 7, wide = (int)(floats >> q & 1u);
#pragma unroll
                for (int s = 0; s < S; s++) {
                    uint32_t bits = q < 5 ? low[s] : high[s];
                    uint32_t at = ((shift < 0 ? bits << -shift : bits >> shift) & 0x1f80u) |
                                  start[s][wide];
                    const uint8_t *line = tables + s % TABLES * table + at;
                    float a, b;
                    if (wide) {
                        float2 levels = *(const float2 *)(line + MIX3_FLOATS);
                        a = levels.x, b = levels.y;
                    } else {
                        uint32_t pair = *(const uint32_t *)line;
                        a = low_level(pair), b = high_level(pair);
                    }
                    sum[s] = __fmaf_rn(a, first, q == 0 ? 0.0f : sum[s]);
                    sum[s] = __fmaf_rn(b, second, sum[s]);
                }
            }
#pragma unroll
            for (int s = 0; s < S; s++) {
                acc[s][h >> 1] = __fmaf_rn(scales[s][h], sum[s], acc[s][h >> 1]);
            }
        }
    }
};

/* ---- entries ------------------------------------------------------------------------------------ */

/* Brings what lies there closer. */
DEVICE void ask_for(const void *at) { asm volatile("prefetch.global.L1 [%0];" ::"l"(at)); }

DEVICE void ask_l2_for(const void *at) { asm volatile("prefetch.global.L2 [%0];" ::"l"(at)); }

/* What can be on its way to the L2 before the launch ahead has ended: the route, which is read only
 * then, as far as the block's first group needs it, and the levels of all experts, each block a part
 * (they are weights). */
template <int TABLES> DEVICE void ask_ahead(const matmul_args &a) {
    uint32_t t = thread_index();
    if (a.route.header == 0) {
        return;
    }
    if (t < 5u) {
        uint32_t g = block_y(), e = g < a.route.cap_entries ? g : a.route.cap_entries - 1u;
        const void *from = a.route.header;
        from = t == 1u ? a.route.group_expert + g : from;
        from = t == 2u ? a.route.group_start + g : from;
        from = t == 3u ? a.route.entry_token + e : from;
        from = t == 4u ? a.route.entry_dst + e : from;
        ask_l2_for(from);
    }
    uint32_t bytes = (uint32_t)a.experts * (uint32_t)sizeof(opreg_side);
    uint32_t line = block_y() * grid_x() + block_x() + t * (grid_x() * grid_y());
    if (line * 128u < bytes) {
#pragma unroll
        for (int m = 0; m < TABLES; m++) {
            ask_l2_for((const uint8_t *)a.side[m] + line * 128u);
        }
    }
}

/* A group of the route.  A row of x is a group of one entry of a dense call. */
struct mix_group {
    uint32_t groups, entries;
    int32_t expert, begin, end;

    /* Asks for what the route has of group g, which is below cap_groups. */
    __device__ __forceinline__ void ask(const matmul_args &a, uint32_t g) {
        if (a.route.header == 0) {
            groups = entries = (uint32_t)a.m;
            expert = 0;
            begin = (int32_t)g;
            end = (int32_t)g + 1;
        } else {
            groups = a.route.header->groups;
            entries = a.route.header->entries;
            expert = a.route.group_expert[g];
            begin = a.route.group_start[g];
            end = a.route.group_start[g + 1];
        }
    }

    /* Cuts that to what there is; false where there is nothing to do. */
    __device__ __forceinline__ bool settle(const matmul_args &a, uint32_t g) {
        if (a.route.header != 0) {
            groups = min(groups, a.route.cap_groups);
            begin = max(begin, 0);
            end = min(end, (int32_t)min(entries, a.route.cap_entries));
        }
        return g < groups && begin < end;
    }
};

DEVICE group_entry mix_entry_at(const matmul_args &a, int32_t e) {
    group_entry row = {e, e};
    return a.route.header == 0 ? row : entry_at(a, e);
}

/* Whether y has the entry's row, and whether the row is more than zeros. */
DEVICE bool entry_stored(const matmul_args &a, group_entry e) {
    return a.route.header == 0 || (e.dst >= 0 && e.dst < (int32_t)a.route.cap_entries);
}

DEVICE bool entry_counts(const matmul_args &a, int32_t expert, group_entry e) {
    return a.route.header == 0 || entry_lives(a, expert, e.token);
}

#endif /* OPREG_SM90_MIX_FORMATS_CUH */
