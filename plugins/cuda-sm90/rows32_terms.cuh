/* SPDX-License-Identifier: MIT
 * rows32_terms.cuh - terms of the canonical sum on tensor cores, for 32 weight rows as they lie in the
 * layout rows32 and 8 * NT columns of x: weights go from the stored pieces to the operands
 * without crossing shared memory.
 *
 * A lane (g, t) of a wave has the outputs of rows 16 * mt + g + 8 * (i / 2) and columns 8 * nt + 2t +
 * i % 2, numbered [mt][nt][i]. */
#ifndef OPREG_SM90_ROWS32_TERMS_CUH
#define OPREG_SM90_ROWS32_TERMS_CUH

#include "records_args.h"
#include "rows32_fragments.cuh"
#include "tensor.cuh"

/* Where words come from by the table of their format. */
template <class F> struct stored_words {
    const uint32_t *table;
    __device__ __forceinline__ void get(const uint8_t *group, uint32_t row, uint32_t t, int j,
                                        uint32_t *low, uint32_t *high) const {
        superblock_words<F>::get(group, row, t, j, table, low, high);
    }
};

/* The operands of 32 weights of the wave's rows, from 16 * mt on. */
template <class F, bool in_place, class W>
DEVICE void fragments(const uint8_t *group, const W &words, int j, int mt, uint32_t *a) {
    uint32_t row = (lane_index() >> 2) + 16u * (uint32_t)mt, t = lane_index() & 3u;
    if constexpr (in_place) {
        superblock_words<F>::get_in_place(group, row, t, j, &a[0], &a[2]);
        superblock_words<F>::get_in_place(group, row + 8u, t, j, &a[1], &a[3]);
        return;
    }
    words.get(group, row, t, j, &a[0], &a[2]);
    words.get(group, row + 8u, t, j, &a[1], &a[3]);
}

/* ---- columns ---------------------------------------------------------------------------------------- */

/* 8 * NT columns of one group of x in shared memory.  bytes: 32 codes from 32j on as b[nt][0 .. 1];
 * sums16: the sums of a superblock, in the same form; scales, sums: of columns 8 * nt + 2t and + 1, of
 * a superblock (unit 0) or of a unit of 32. */
template <class F> struct record_columns { /* eight records, `apart` bytes from one to the next        */
    const uint8_t *x;
    uint32_t apart;
    template <int NT> __device__ __forceinline__ void bytes(uint32_t j, uint32_t (*b)[2]) const {
        static_assert(NT == 1);
        uint32_t lane = lane_index();
        load_matrix2(b[0],
                     shared_address(x) + (lane & 7u) * apart + 32u * j + (lane >> 3 & 1u) * 16u);
    }
    template <int NT> __device__ __forceinline__ void sums16(uint32_t (*b)[2]) const {
        bytes<NT>(RECORD256_SUMS / 32, b);
    }
    __device__ __forceinline__ float2 pair_at(uint32_t at) const {
        const uint8_t *first = x + 2u * (lane_index() & 3u) * apart + at;
        return make_float2(*(const float *)first, *(const float *)(first + apart));
    }
    __device__ __forceinline__ float2 scales(int, uint32_t unit) const {
        return pair_at(F::unit == 256 ? RECORD256_SCALE : RECORD32_SCALES + 4u * unit);
    }
    __device__ __forceinline__ float2 sums(int, uint32_t unit) const {
        return pair_at(RECORD32_SUMS + 4u * unit);
    }
};

template <class F> struct block_columns { /* NT blocks, one behind another                             */
    static const uint32_t block = F::unit == 256 ? BLOCK256_BYTES : BLOCK32_BYTES;
    const uint8_t *x;
    template <int NT> __device__ __forceinline__ void pieces(uint32_t at, uint32_t (*b)[2]) const {
        static_assert(NT % 2 == 0);
        uint32_t lane = lane_index();
        uint32_t from = shared_address(x) + at + (lane >> 3 & 1u) * BLOCK_PIECE + (lane & 7u) * 16u;
#pragma unroll
        for (int p = 0; p < NT; p += 2) {
            load_matrix4(b[p], from + ((uint32_t)p + (lane >> 4)) * block);
        }
    }
    template <int NT> __device__ __forceinline__ void bytes(uint32_t j, uint32_t (*b)[2]) const {
        pieces<NT>(2u * j * BLOCK_PIECE, b);
    }
    template <int NT> __device__ __forceinline__ void sums16(uint32_t (*b)[2]) const {
        pieces<NT>(BLOCK256_SUMS, b);
    }
    __device__ __forceinline__ float2 pair_at(int nt, uint32_t at) const {
        return *(const float2 *)(x + (uint32_t)nt * block + at + 8u * (lane_index() & 3u));
    }
    __device__ __forceinline__ float2 scales(int nt, uint32_t unit) const {
        return pair_at(nt, F::unit == 256 ? BLOCK256_SCALES : BLOCK32_SCALES + 32u * unit);
    }
    __device__ __forceinline__ float2 sums(int nt, uint32_t unit) const {
        return pair_at(nt, BLOCK32_SUMS + 32u * unit);
    }
};

/* ---- units of 256 --------------------------------------------------------------------------------- */

/* Two small integers as halves. */
MEMBER uint32_t halves_of(uint32_t first, uint32_t second) {
    uint32_t biased = first + second * 65536u + 0x64006400u, result; /* 1024 + each */
    asm("sub.rn.f16x2 %0, %1, %2;" : "=r"(result) : "r"(biased), "r"(0x64006400u));
    return result;
}

/* Byte i of a word, signed: one instruction. */
MEMBER int32_t scale_at(uint32_t word, int i) {
    uint32_t sign = 8u | (uint32_t)i, scale;
    asm("prmt.b32 %0, %1, 0, %2;"
        : "=r"(scale)
        : "r"(word), "r"((uint32_t)i | sign << 4 | sign << 8 | sign << 12));
    return (int32_t)scale;
}

/* The mins of a row that go with sums 2t, 2t + 1 and 2t + 8, 2t + 9. */
template <class F> MEMBER void min_halves(const uint32_t *w, uint32_t t, uint32_t *low, uint32_t *high) {
    uint32_t m[4] = {};
    if (F::min_sub == 32) { /* mins are made byte by byte */
        uint32_t v[4] = {w[0], w[1], w[2] >> 8 * t, w[3] >> 8 * t};
        F::mins(v, m);
        *low = halves_of(m[0] & 255u, m[0] & 255u);
        *high = halves_of(m[1] & 255u, m[1] & 255u);
    } else {
        F::mins(w, m);
        uint32_t first = (t < 2 ? m[0] : m[1]) >> 16 * (t & 1u);
        uint32_t second = (t < 2 ? m[2] : m[3]) >> 16 * (t & 1u);
        *low = halves_of(first & 255u, first >> 8 & 255u);
        *high = halves_of(second & 255u, second >> 8 & 255u);
    }
}

/* The terms of one superblock.  group: the tile's; words: stored_words or another source of them. */
template <class F, int NT, class X, class W>
DEVICE void superblock_terms(const uint8_t *group, const W &words, const X &x,
                             float (*terms)[NT][4]) {
    uint32_t lane = lane_index(), g = lane >> 2, t = lane & 3u;
    constexpr int scale_words = 64 / F::sub;
    uint32_t scales[4][scale_words];
    /* the upper nibbles of words as they lie are sixteen times theirs: summed apart */
    constexpr bool in_place = superblock_words<F>::in_place && NT == 1;
    int32_t n[2][NT][4], upper[2][NT][4];
#pragma unroll
    for (int r = 0; r < 4; r++) {
        uint32_t w[ROWS32_WORDS(F)];
        read_group<F>(group, g + 8u * (uint32_t)r, w);
        F::scales(w, scales[r]);
    }
#pragma unroll
    for (int o = 0; o < 8 * NT; o++) {
        n[o / (4 * NT)][o / 4 % NT][o % 4] = 0;
        upper[o / (4 * NT)][o / 4 % NT][o % 4] = 0;
    }
#pragma unroll
    for (int j = 0; j < 8; j++) {
        uint32_t b[NT][2];
        x.template bytes<NT>((uint32_t)j, b);
#pragma unroll
        for (int mt = 0; mt < 2; mt++) {
            uint32_t a[4];
            fragments<F, in_place>(group, words, j, mt, a);
#pragma unroll
            for (int nt = 0; nt < NT; nt++) {
                int32_t s0[4], s1[4];
                if (in_place) {
                    mma_k32_unsigned(s0, a, b[nt][0], b[nt][1], 0);
                } else if (F::sub == 32) {
                    mma_k32(s0, a, b[nt][0], b[nt][1], 0);
                } else {
                    mma_k16(s0, a[0], a[1], b[nt][0], 0);
                    mma_k16(s1, a[2], a[3], b[nt][1], 0);
                }
#pragma unroll
                for (int i = 0; i < 4; i++) {
                    const uint32_t *scale = scales[2 * mt + i / 2];
                    if (in_place && j % 2 != 0) {
                        upper[mt][nt][i] += scale_at(scale[j / 4], j & 3) * s0[i];
                    } else if (F::sub == 32) {
                        n[mt][nt][i] += scale_at(scale[j / 4], j & 3) * s0[i];
                    } else {
                        n[mt][nt][i] += scale_at(scale[j / 2], 2 * (j & 1)) * s0[i];
                        n[mt][nt][i] += scale_at(scale[j / 2], 2 * (j & 1) + 1) * s1[i];
                    }
                }
            }
        }
    }
    uint32_t sums[NT][2];
    if (F::min_sub != 0) {
        x.template sums16<NT>(sums);
    }
    asm volatile("" ::: "memory"); /* read again below: registers are dearer than shared memory */
    float2 yd[NT];
#pragma unroll
    for (int nt = 0; nt < NT; nt++) {
        yd[nt] = x.scales(nt, 0u);
    }
#pragma unroll
    for (int mt = 0; mt < 2; mt++) {
        float d[2], dmin[2];
        uint32_t mins[4];
#pragma unroll
        for (int h = 0; h < 2; h++) {
            uint32_t w[ROWS32_WORDS(F)];
            read_group<F>(group, g + 16u * (uint32_t)mt + 8u * (uint32_t)h, w);
            d[h] = F::d(w);
            if constexpr (F::min_sub != 0) {
                dmin[h] = F::dmin(w);
                min_halves<F>(w, t, &mins[h], &mins[2 + h]);
            }
        }
#pragma unroll
        for (int nt = 0; nt < NT; nt++) {
            float m[4];
            if constexpr (F::min_sub != 0) {
                mma_halves(m, mins, sums[nt][0], sums[nt][1]);
            }
#pragma unroll
            for (int i = 0; i < 4; i++) {
                float y = i & 1 ? yd[nt].y : yd[nt].x;
                int32_t sum = (n[mt][nt][i] >> F::shift) + (in_place ? upper[mt][nt][i] >> 4 : 0);
                float term = d[i / 2] * y * (float)sum;
                if constexpr (F::min_sub != 0) {
                    term = term - dmin[i / 2] * y * m[i];
                }
                terms[mt][nt][i] = term;
            }
        }
    }
}

/* ---- units of 32 ------------------------------------------------------------------------------------ */

/* As integers where 12582912 stands for 0: bits of the float of the same value. */
#define INTEGER_FLOAT_BITS 0x4b400000
#define INTEGER_FLOAT      12582912.0f

template <class F> MEMBER float unit_dot(int32_t bits) {
    constexpr float step = 1.0f / (float)(1 << F::shift);
    return __fmaf_rn(__int_as_float(bits), step, -INTEGER_FLOAT * step);
}

/* The terms of unit `slot` of a group. */
template <class F, int NT, class X>
DEVICE void unit_terms(const uint8_t *group, uint32_t dialect, const X &x, uint32_t slot,
                       float (*terms)[NT][4]) {
    typedef unit_words<F> words;
    uint32_t lane = lane_index(), g = lane >> 2, t = lane & 3u;
    const uint8_t *codes = group + words::first_piece(slot) * 512u;
    const uint8_t *rest = group + words::pieces * 512;
    uint32_t b[NT][2];
    x.template bytes<NT>(slot, b);
#pragma unroll
    for (int mt = 0; mt < 2; mt++) {
        uint32_t a[4];
        float d[2][2], xm[2];
#pragma unroll
        for (int h = 0; h < 2; h++) {
            uint32_t w[4 * ROWS32_WORDS(F)] = {}, row = g + 16u * (uint32_t)mt + 8u * (uint32_t)h;
            words::get(codes, rest, row, t, slot, &a[h], &a[2 + h]);
            words::scales(rest, row, slot, w);
            d[h][0] = F::scale(w, 0, 0, dialect);
            d[h][1] = F::sub == 16 ? F::scale(w, 0, 1, dialect) : 0.0f;
            if constexpr (F::min_sub != 0) {
                xm[h] = F::min(w, 0);
            }
        }
#pragma unroll
        for (int nt = 0; nt < NT; nt++) {
            int32_t s0[4], s1[4];
            float2 yd = x.scales(nt, slot), sum = make_float2(0.0f, 0.0f);
            if constexpr (F::min_sub != 0) {
                sum = x.sums(nt, slot);
            }
            if (F::sub == 32) {
                mma_k32(s0, a, b[nt][0], b[nt][1], INTEGER_FLOAT_BITS);
            } else {
                mma_k16(s0, a[0], a[1], b[nt][0], INTEGER_FLOAT_BITS);
                mma_k16(s1, a[2], a[3], b[nt][1], INTEGER_FLOAT_BITS);
            }
#pragma unroll
            for (int i = 0; i < 4; i++) {
                float y = i & 1 ? yd.y : yd.x, term = d[i / 2][0] * y * unit_dot<F>(s0[i]);
                if (F::sub == 16) {
                    term = term + d[i / 2][1] * y * unit_dot<F>(s1[i]);
                }
                if constexpr (F::min_sub != 0) {
                    term = term + xm[i / 2] * y * (i & 1 ? sum.y : sum.x);
                }
                terms[mt][nt][i] = term;
            }
        }
    }
}

#endif /* OPREG_SM90_ROWS32_TERMS_CUH */
