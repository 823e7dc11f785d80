/* SPDX-License-Identifier: MIT
 * mix_glu: moe_glu over ROCmFP2_MIX in the layout rows32, canonical order.
 *
 * A block is a tile of 32 rows of one group's expert, lane = row, gate and up in the same lane, so x
 * is read once for both.  Wave v of 16 takes the block pairs v, v + 16, ..: accumulators 2v and
 * 2v + 1.  Four bits of code are two weights.  Their levels come from tables in shared memory with
 * one word a bank, so any mix of lanes is free of conflicts: every other pair as one word of two
 * bf16, the rest as two words of f32, which spends fewer instructions and more shared reads. */
#include "rows32_load.cuh"
#include "rows32_route.cuh"

#define MIX_WAVES 16

/* By tensor: pairs of bf16, then the first and the second level as f32; each by book, four bits. */
struct mix_tables {
    uint32_t words[2][3][32];
};

DEVICE void make_tables(mix_tables *tables, const opreg_side *gate, const opreg_side *up) {
    uint32_t t = thread_index();
    if (t < 64u) {
        const opreg_side *side = t < 32u ? gate : up;
        uint32_t book = t >> 4 & 1u, first = t & 3u, second = t >> 2 & 3u;
        uint32_t a = bits_of(side->levels[4 * book + first]);
        uint32_t b = bits_of(side->levels[4 * book + second]);
        tables->words[t >> 5][0][t & 31u] = a >> 16 | (b & 0xffff0000u);
        tables->words[t >> 5][1][t & 31u] = a;
        tables->words[t >> 5][2][t & 31u] = b;
    }
}

DEVICE uint32_t table_word(const uint32_t (*tables)[32], int which, uint32_t offset) {
    return *(const uint32_t *)((const uint8_t *)tables[which] + offset);
}

/* Four weights of a half: codes in bits 8q .. 8q + 7; book is 0 or 64. */
DEVICE float fold4(uint32_t codes, int q, uint32_t book, const uint32_t (*tables)[32],
                   const float4 &x, float sum) {
    uint32_t first = ((q ? codes >> (8 * q - 2) : codes << 2) & 0x3cu) | book;
    uint32_t second = (codes >> (8 * q + 2) & 0x3cu) | book;
    uint32_t pair = table_word(tables, 0, first);
    float c = __uint_as_float(table_word(tables, 1, second));
    float d = __uint_as_float(table_word(tables, 2, second));
    sum = __fmaf_rn(__uint_as_float(pair << 16), x.x, sum);
    sum = __fmaf_rn(__uint_as_float(pair & 0xffff0000u), x.y, sum);
    sum = __fmaf_rn(c, x.z, sum);
    return __fmaf_rn(d, x.w, sum);
}

struct mix_group {
    uint4 codes;
    uint32_t meta;
};

DEVICE mix_group load_mix(const uint8_t *group, uint32_t lane) {
    mix_group g;
    g.codes = __ldcs((const uint4 *)group + lane);
    g.meta = __ldcs((const uint32_t *)(group + 512) + lane);
    return g;
}

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

KERNEL __launch_bounds__(32 * MIX_WAVES, 2) mix_glu(const __grid_constant__ rows32_args args) {
    extern __shared__ __align__(16) float mix_x[];
    __shared__ __align__(128) mix_tables tables;
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
    const uint8_t *gate = a.data[0] + at * a.expert_stride[0] + (int64_t)block_x() * 32 * a.row_bytes;
    const uint8_t *up = a.data[1] + at * a.expert_stride[1] + (int64_t)block_x() * 32 * a.row_bytes;
    make_tables(&tables, gate_side, up_side);
    uint32_t gate_mode = gate_side->mode, up_mode = up_side->mode;
    uint32_t gate_mask = gate_mode ? 0x7f7f7f7fu : ~0u, up_mask = up_mode ? 0x7f7f7f7fu : ~0u;
    uint32_t gate_book = gate_mode ? 64u : 0u, up_book = up_mode ? 64u : 0u;
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
        mix_group g, u;
        if (wave < groups) {
            g = load_mix(gate + wave * 640u, lane);
            u = load_mix(up + wave * 640u, lane);
        }
        for (int64_t i = thread_index(); i < a.k; i += 32 * MIX_WAVES) {
            mix_x[i] = canonical_load(a.x, row * a.x_stride + i, a.x_dtype);
        }
        __syncthreads();
        float acc_gate[2] = {0.0f, 0.0f}, acc_up[2] = {0.0f, 0.0f};
#pragma unroll 1
        for (uint32_t p = wave; p < groups; p += MIX_WAVES) {
            mix_group now = g, now_up = u;
            if (p + MIX_WAVES < groups) {
                g = load_mix(gate + (p + MIX_WAVES) * 640u, lane);
                u = load_mix(up + (p + MIX_WAVES) * 640u, lane);
            }
            const float4 *x = (const float4 *)(mix_x + p * 64u);
            uint32_t scales = scale_bytes(now.meta, gate_mask);
            uint32_t scales_up = scale_bytes(now_up.meta, up_mask);
            uint32_t gate_codes[4] = {now.codes.x, now.codes.y, now.codes.z, now.codes.w};
            uint32_t up_codes[4] = {now_up.codes.x, now_up.codes.y, now_up.codes.z, now_up.codes.w};
#pragma unroll
            for (int h = 0; h < 4; h++) {
                uint32_t book = now.meta >> (8 * h + 1) & gate_book;
                uint32_t book_up = now_up.meta >> (8 * h + 1) & up_book;
                float sum_gate = 0.0f, sum_up = 0.0f;
#pragma unroll
                for (int q = 0; q < 4; q++) {
                    float4 v = x[4 * h + q];
                    sum_gate = fold4(gate_codes[h], q, book, tables.words[0], v, sum_gate);
                    sum_up = fold4(up_codes[h], q, book_up, tables.words[1], v, sum_up);
                }
                acc_gate[h >> 1] =
                    __fmaf_rn(half_scale(scales, h), sum_gate, acc_gate[h >> 1]);
                acc_up[h >> 1] =
                    __fmaf_rn(half_scale(scales_up, h), sum_up, acc_up[h >> 1]);
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
