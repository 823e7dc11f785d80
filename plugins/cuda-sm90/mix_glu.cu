/* SPDX-License-Identifier: MIT
 * mix_glu: moe_glu over ROCmFP2_MIX and ROCmFP3_MIX in the layout rows32, canonical order.
 *
 * A block is a tile of 32 rows of one group's expert, lane = row, gate and up in the same lane, so
 * x is read once for both.  Wave v of 16 takes the block pairs v, v + 16, ..: accumulators 2v and
 * 2v + 1.  The codes of two weights are the number of a word in a table in shared memory. */
#include "rows32_load.cuh"
#include "rows32_route.cuh"

#define MIX_WAVES 16

DEVICE uint32_t word_at(const uint32_t *table, uint32_t offset) {
    return *(const uint32_t *)((const uint8_t *)table + offset);
}

/* Two levels of bf16 times two of x. */
DEVICE float fold_pair(uint32_t pair, float x0, float x1, float sum) {
    sum = __fmaf_rn(__uint_as_float(pair << 16), x0, sum);
    return __fmaf_rn(__uint_as_float(pair & 0xffff0000u), x1, sum);
}

/* Two bits a weight: 16 pairs a book, one word a bank, so any mix of lanes is free of conflicts. */
struct mix2 {
    static const int words = 4, group = 640, table_words = 32, blocks = 2;
    uint32_t codes[words], meta;

    /* Where the lane's first bytes of a group lie, and its next group's. */
    static __device__ __forceinline__ uint32_t own(uint32_t lane) { return lane * 16u; }

    __device__ __forceinline__ void load(const uint8_t *at, uint32_t lane) {
        uint4 c = __ldcs((const uint4 *)at);
        codes[0] = c.x, codes[1] = c.y, codes[2] = c.z, codes[3] = c.w;
        meta = __ldcs((const uint32_t *)(at + 512 - 12 * (int32_t)lane));
    }

    /* By book, four bits. */
    static __device__ __forceinline__ uint32_t table_word(const opreg_side *side, uint32_t i) {
        uint32_t book = i >> 4, first = i & 3u, second = i >> 2 & 3u;
        uint32_t a = bits_of(side->levels[4 * book + first]);
        uint32_t b = bits_of(side->levels[4 * book + second]);
        return a >> 16 | (b & 0xffff0000u);
    }

    /* 16 weights of half h against x.  A byte of `books` is 0 or 64, and the offsets of the pairs
     * lie in the bytes of two words. */
    __device__ __forceinline__ float fold(int h, uint32_t books, const uint32_t *table,
                                          const float4 *x) const {
        uint32_t book = __byte_perm(books, 0u, 0x1111u * (uint32_t)h);
        uint32_t even = (codes[h] << 2 & 0x3c3c3c3cu) | book;
        uint32_t odd = (codes[h] >> 2 & 0x3c3c3c3cu) | book;
        float sum = 0.0f;
#pragma unroll
        for (int q = 0; q < 4; q++) {
            uint32_t select = 0x4440u + (uint32_t)q;
            float4 v = x[4 * h + q];
            sum = fold_pair(word_at(table, __byte_perm(even, 0u, select)), v.x, v.y, sum);
            sum = fold_pair(word_at(table, __byte_perm(odd, 0u, select)), v.z, v.w, sum);
        }
        return sum;
    }
};

/* Three bits a weight: 64 pairs a book as two bf16. */
struct mix3 {
    static const int words = 6, group = 896, table_words = 128, blocks = 1;
    uint32_t codes[words], meta;

    static __device__ __forceinline__ uint32_t own(uint32_t lane) { return lane * 16u; }

    __device__ __forceinline__ void load(const uint8_t *at, uint32_t lane) {
        uint4 c = __ldcs((const uint4 *)at);
        uint2 d = __ldcs((const uint2 *)(at + 512 - 8 * (int32_t)lane));
        codes[0] = c.x, codes[1] = c.y, codes[2] = c.z, codes[3] = c.w;
        codes[4] = d.x, codes[5] = d.y;
        meta = __ldcs((const uint32_t *)(at + 768 - 12 * (int32_t)lane));
    }

    static __device__ __forceinline__ uint32_t table_word(const opreg_side *side, uint32_t i) {
        uint32_t book = i >> 6 & 1u, first = i & 7u, second = i >> 3 & 7u;
        uint32_t a = bits_of(side->levels[8 * book + first]);
        uint32_t b = bits_of(side->levels[8 * book + second]);
        return a >> 16 | (b & 0xffff0000u);
    }

    /* A byte of `books` is 0 or 64. */
    __device__ __forceinline__ float fold(int h, uint32_t books, const uint32_t *table,
                                          const float4 *x) const {
        /* 48 bits of codes: the lower 32 and the upper 32 */
        uint32_t a = codes[h * 3 / 2], b = codes[h * 3 / 2 + 1];
        uint32_t low = h & 1 ? a >> 16 | b << 16 : a, high = h & 1 ? b : a >> 16 | b << 16;
        uint32_t book = (books >> 8 * h & 64u) * 4u;
        float sum = 0.0f;
#pragma unroll
        for (int q = 0; q < 8; q++) {
            uint32_t bits = q < 5 ? low : high;
            int shift = (q < 5 ? 6 * q : 6 * q - 16) - 2;
            uint32_t at = ((shift < 0 ? bits << 2 : bits >> shift) & 0xfcu) | book;
            float4 v = x[4 * h + q / 2];
            sum = fold_pair(word_at(table, at), q & 1 ? v.z : v.x, q & 1 ? v.w : v.y, sum);
        }
        return sum;
    }
};

/* The scale bytes of four halves, those above 0x7e made 0: ue4m3_half of them is their value. */
DEVICE uint32_t scale_bytes(uint32_t meta, uint32_t mask) {
    uint32_t m = meta & mask;
    uint32_t bad = (m | ((m & 0x7f7f7f7fu) + 0x01010101u)) & 0x80808080u;
    return m & ~((bad >> 7) * 255u);
}

DEVICE float half_scale(uint32_t bytes, int h) {
    uint32_t at20 = h < 3 ? bytes << (20 - 8 * h) : bytes >> 4;
    return __uint_as_float(at20 & 0x07f00000u) * 0x1p+119f;
}

/* A row of x as f32 to shared memory; the whole block. */
DEVICE void bring_row(const matmul_args &a, int64_t row, float *to) {
    const float *from = (const float *)a.x + row * a.x_stride;
    if (a.x_dtype == OPREG_F32 && ((uintptr_t)from & 15u) == 0u) {
#pragma unroll 4
        for (uint32_t i = thread_index(); i < (uint32_t)a.k / 4u; i += 32 * MIX_WAVES) {
            ((float4 *)to)[i] = ((const float4 *)from)[i];
        }
        return;
    }
#pragma unroll 8
    for (uint32_t i = thread_index(); i < (uint32_t)a.k; i += 32 * MIX_WAVES) {
        to[i] = canonical_load(a.x, row * a.x_stride + i, a.x_dtype);
    }
}

template <class F> DEVICE void mix_glu(const rows32_args &args) {
    extern __shared__ __align__(16) float mix_x[];
    __shared__ __align__(128) uint32_t tables[2][F::table_words];
    __shared__ float reduction[2][32][32];
    const matmul_args &a = args.base;
    uint32_t lane = lane_index(), wave = wave_index(), groups = args.groups;
    int32_t expert, begin, end;
    let_next_launch_start();
    if (args.chained) {
        wait_for_launch_ahead();
    }
    if (!group_range(a, block_y(), &expert, &begin, &end)) {
        return;
    }
    int64_t n = (int64_t)block_x() * 32 + lane;
    bool known = expert >= 0 && expert < a.experts;
    int64_t at = known ? expert : 0;
    const opreg_side *gate_side = a.side[0] + at, *up_side = a.side[1] + at;
    const uint8_t *gate =
        a.data[0] + at * a.expert_stride[0] + (int64_t)block_x() * 32 * a.row_bytes;
    const uint8_t *up = a.data[1] + at * a.expert_stride[1] + (int64_t)block_x() * 32 * a.row_bytes;
    for (uint32_t i = thread_index(); i < F::table_words; i += 32 * MIX_WAVES) {
        tables[0][i] = F::table_word(gate_side, i);
        tables[1][i] = F::table_word(up_side, i);
    }
    uint32_t gate_mode = gate_side->mode, up_mode = up_side->mode;
    uint32_t gate_mask = gate_mode ? 0x7f7f7f7fu : ~0u, up_mask = up_mode ? 0x7f7f7f7fu : ~0u;
    uint32_t gate_book = gate_mode ? 0x40404040u : 0u, up_book = up_mode ? 0x40404040u : 0u;
    for (int32_t e = begin; e < end; e++) {
        int32_t token = a.route.entry_token[e], dst = a.route.entry_dst[e];
        if (dst < 0 || dst >= (int32_t)a.route.cap_entries) {
            continue;
        }
        if (!entry_lives(a, expert, token)) {
            if (wave == 0u && n < a.n) {
                store_output(a, dst, n, 0.0f);
            }
            continue;
        }
        int64_t row = a.by_dst ? dst : token;
        F g, u;
        uint32_t own = wave * F::group + F::own(lane);
        const uint8_t *next = gate + own, *next_up = up + own;
        if (wave < groups) {
            g.load(next, lane);
            u.load(next_up, lane);
        }
        bring_row(a, row, mix_x);
        __syncthreads();
        float acc_gate[2] = {0.0f, 0.0f}, acc_up[2] = {0.0f, 0.0f};
#pragma unroll 1
        for (uint32_t p = wave; p < groups; p += MIX_WAVES) {
            F now = g, now_up = u;
            next += MIX_WAVES * F::group;
            next_up += MIX_WAVES * F::group;
            if (p + MIX_WAVES < groups) {
                g.load(next, lane);
                u.load(next_up, lane);
            }
            const float4 *x = (const float4 *)(mix_x + p * 64u);
            uint32_t scales = scale_bytes(now.meta, gate_mask);
            uint32_t scales_up = scale_bytes(now_up.meta, up_mask);
            uint32_t books = now.meta >> 1 & gate_book, books_up = now_up.meta >> 1 & up_book;
#pragma unroll
            for (int h = 0; h < 4; h++) {
                float sum_gate = now.fold(h, books, tables[0], x);
                float sum_up = now_up.fold(h, books_up, tables[1], x);
                acc_gate[h >> 1] = __fmaf_rn(half_scale(scales, h), sum_gate, acc_gate[h >> 1]);
                acc_up[h >> 1] = __fmaf_rn(half_scale(scales_up, h), sum_up, acc_up[h >> 1]);
            }
        }
        reduction[0][2 * wave][lane] = acc_gate[0];
        reduction[0][2 * wave + 1][lane] = acc_gate[1];
        reduction[1][2 * wave][lane] = acc_up[0];
        reduction[1][2 * wave + 1][lane] = acc_up[1];
        __syncthreads();
        if (wave < 2u) {
            float sum = finish_tree<32>(&reduction[wave][0][lane], 32);
            reduction[wave][0][lane] = sum;
        }
        __syncthreads();
        if (wave == 0u && n < a.n) {
            store_output(a, dst, n,
                         canonical_glu(a.glu, reduction[0][0][lane], reduction[1][0][lane],
                                       a.glu_alpha, a.glu_limit));
        }
        __syncthreads();
    }
}

#define MIX_KERNEL(name, format)                                                                   \
    KERNEL __launch_bounds__(32 * MIX_WAVES, format::blocks)                                       \
        name(const __grid_constant__ rows32_args args) {                                           \
        mix_glu<format>(args);                                                                     \
    }
MIX_KERNEL(mix2_glu, mix2)
MIX_KERNEL(mix3_glu, mix3)
