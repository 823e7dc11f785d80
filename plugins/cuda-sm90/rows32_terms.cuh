/* SPDX-License-Identifier: MIT
 * rows32_terms.cuh - terms of the canonical sum on tensor cores, for 32 weight rows as they lie in the
 * layout rows32 and 8 * NT columns of x as records: weights go from the stored pieces to the operands
 * without crossing shared memory.
 *
 * A lane (g, t) of a wave has the outputs of rows 16 * mt + g + 8 * (i / 2) and columns 8 * nt + 2t +
 * i % 2, numbered [mt][nt][i].
 *
 * This is for formats whose decode() makes words t and t + 4 of 32 weights from word t of each 16-byte
 * piece, by the same rule for every t: the lane hands it word t in the place of word 0 and takes words
 * 0 and 4.  The list says WORDS of them. */
#ifndef OPREG_SM90_ROWS32_TERMS_CUH
#define OPREG_SM90_ROWS32_TERMS_CUH

#include "records_args.h"
#include "rows32_formats.cuh"
#include "rows32_load.cuh"
#include "tensor.cuh"

/* Words t and t + 4 of weights 32j .. 32j + 31: words points to the lane's word of the first piece,
 * pieces are 512 bytes apart. */
template <class F>
DEVICE void fragment_words(const uint8_t *words, int j, uint32_t *low, uint32_t *high) {
    uint32_t w[ROWS32_WORDS(F) + 3] = {}, q[8];
#pragma unroll
    for (int c = 0; c < F::bytes / 16; c++) {
        w[4 * c] = *(const uint32_t *)(words + c * 512);
    }
    F::decode(w, j, q, 0);
    *low = q[0];
    *high = q[4];
}

/* The operands of 32 weights of the wave's rows, from 16 * mt on. */
template <class F>
DEVICE void fragments(const uint8_t *words, int j, int mt, uint32_t *a) {
    fragment_words<F>(words + 256 * mt, j, &a[0], &a[2]);
    fragment_words<F>(words + 256 * mt + 128, j, &a[1], &a[3]);
}

/* b[nt][0 .. 1]: bytes at .. at + 31 of 8 * NT columns, whose records are `apart` bytes apart. */
template <int NT> DEVICE void column_bytes(uint32_t x, uint32_t apart, uint32_t at, uint32_t (*b)[2]) {
    uint32_t lane = lane_index();
    if constexpr (NT == 1) {
        load_matrix2(b[0], x + (lane & 7u) * apart + at + (lane >> 3 & 1u) * 16u);
    } else {
#pragma unroll
        for (int p = 0; p < NT / 2; p++) {
            uint32_t column = (uint32_t)p * 16u + (lane >> 4) * 8u + (lane & 7u);
            load_matrix4(b[2 * p], x + column * apart + at + (lane >> 3 & 1u) * 16u);
        }
    }
}

/* ---- units of 256 --------------------------------------------------------------------------------- */

/* Two small integers as halves. */
MEMBER uint32_t halves_of(uint32_t first, uint32_t second) {
    uint32_t biased = 0x64006400u | first | second << 16, result; /* 1024 + each */
    asm("sub.rn.f16x2 %0, %1, %2;" : "=r"(result) : "r"(biased), "r"(0x64006400u));
    return result;
}

/* The mins of a row that go with sums 2t, 2t + 1 and 2t + 8, 2t + 9. */
template <class F> MEMBER void min_halves(const uint32_t *w, uint32_t t, uint32_t *low, uint32_t *high) {
    uint32_t m[4] = {};
    F::mins(w, m);
    if (F::min_sub == 32) {
        uint32_t first = m[0] >> 8 * t & 255u, second = m[1] >> 8 * t & 255u;
        *low = halves_of(first, first);
        *high = halves_of(second, second);
    } else {
        uint32_t first = (t < 2 ? m[0] : m[1]) >> 16 * (t & 1u);
        uint32_t second = (t < 2 ? m[2] : m[3]) >> 16 * (t & 1u);
        *low = halves_of(first & 255u, first >> 8 & 255u);
        *high = halves_of(second & 255u, second >> 8 & 255u);
    }
}

/* The terms of one superblock.  group: the tile's; x: the first column's record, the others `apart`
 * bytes apart. */
template <class F, int NT>
DEVICE void superblock_terms(const uint8_t *group, const uint8_t *x, uint32_t apart,
                             float (*terms)[NT][4]) {
    uint32_t lane = lane_index(), g = lane >> 2, t = lane & 3u, x_at = shared_address(x);
    const uint8_t *words = group + 16 * g + 4 * t;
    constexpr int scale_words = 64 / F::sub;
    uint32_t scales[4][scale_words];
    int32_t n[2][NT][4];
#pragma unroll
    for (int r = 0; r < 4; r++) {
        uint32_t w[ROWS32_WORDS(F)];
        read_group<F>(group, g + 8u * (uint32_t)r, w);
        F::scales(w, scales[r]);
    }
#pragma unroll
    for (int o = 0; o < 8 * NT; o++) {
        n[o / (4 * NT)][o / 4 % NT][o % 4] = 0;
    }
#pragma unroll
    for (int j = 0; j < 8; j++) {
        uint32_t b[NT][2];
        column_bytes<NT>(x_at, apart, 32u * (uint32_t)j, b);
#pragma unroll
        for (int mt = 0; mt < 2; mt++) {
            uint32_t a[4];
            fragments<F>(words, j, mt, a);
#pragma unroll
            for (int nt = 0; nt < NT; nt++) {
                int32_t s0[4], s1[4];
                if (F::sub == 32) {
                    mma_k32(s0, a, b[nt][0], b[nt][1], 0);
                } else {
                    mma_k16(s0, a[0], a[1], b[nt][0], 0);
                    mma_k16(s1, a[2], a[3], b[nt][1], 0);
                }
#pragma unroll
                for (int i = 0; i < 4; i++) {
                    const uint32_t *scale = scales[2 * mt + i / 2];
                    if (F::sub == 32) {
                        n[mt][nt][i] += signed_byte(scale[j / 4], j & 3) * s0[i];
                    } else {
                        n[mt][nt][i] += signed_byte(scale[j / 2], 2 * (j & 1)) * s0[i];
                        n[mt][nt][i] += signed_byte(scale[j / 2], 2 * (j & 1) + 1) * s1[i];
                    }
                }
            }
        }
    }
    uint32_t sums[NT][2];
    if (F::min_sub != 0) {
        column_bytes<NT>(x_at, apart, RECORD256_SUMS, sums);
    }
    asm volatile("" ::: "memory"); /* read again below: registers are dearer than shared memory */
    float yd[NT][2];
#pragma unroll
    for (int nt = 0; nt < NT; nt++) {
#pragma unroll
        for (int c = 0; c < 2; c++) {
            yd[nt][c] = *(const float *)(x + (8u * nt + 2u * t + c) * apart + RECORD256_SCALE);
        }
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
                float y = yd[nt][i & 1];
                float term = d[i / 2] * y * (float)(n[mt][nt][i] >> F::shift);
                if constexpr (F::min_sub != 0) {
                    term = term - dmin[i / 2] * y * m[i];
                }
                terms[mt][nt][i] = term;
            }
        }
    }
}

/* ---- units of 32 ------------------------------------------------------------------------------------ */

/* 16-byte pieces of a unit's codes; bytes of the rest of its row, scale first. */
template <class F> struct unit_parts {
    static const int pieces = F::bytes / 64;
    static const int rest = F::bytes / 4 - 16 * pieces;
};

/* The rest of a row to where scale() and min() of unit 0 read it, behind four units' codes; rest: row
 * 0's at the unit. */
template <class F> DEVICE void unit_rest(const uint8_t *rest, uint32_t row, uint32_t *w) {
    constexpr int each = unit_parts<F>::rest;
    const uint8_t *mine = rest + row * (4u * each);
    w[16 * unit_parts<F>::pieces] = each == 4   ? *(const uint32_t *)mine
                                    : each == 2 ? *(const uint16_t *)mine
                                                : *mine;
}

/* As integers where 12582912 stands for 0: bits of the float of the same value. */
#define INTEGER_FLOAT_BITS 0x4b400000
#define INTEGER_FLOAT      12582912.0f

template <class F> MEMBER float unit_dot(int32_t bits) {
    constexpr float step = 1.0f / (float)(1 << F::shift);
    return __fmaf_rn(__int_as_float(bits), step, -INTEGER_FLOAT * step);
}

/* The terms of one unit.  codes: its pieces for the tile's rows; rest: the group's rest of row 0 at
 * the unit; x, apart, slot: the first column's record, the distance to the next, the unit's place. */
template <class F, int NT>
DEVICE void unit_terms(const uint8_t *codes, const uint8_t *rest, uint32_t dialect, const uint8_t *x,
                       uint32_t apart, uint32_t slot, float (*terms)[NT][4]) {
    uint32_t lane = lane_index(), g = lane >> 2, t = lane & 3u;
    constexpr int pieces = unit_parts<F>::pieces;
    const uint8_t *words = codes + 16 * g + 4 * t;
    uint32_t b[NT][2];
    column_bytes<NT>(shared_address(x), apart, 32u * slot, b);
#pragma unroll
    for (int mt = 0; mt < 2; mt++) {
        uint32_t a[4];
        float d[2][2], xm[2];
#pragma unroll
        for (int h = 0; h < 2; h++) {
            uint32_t w[4 * ROWS32_WORDS(F)] = {}, q[8];
            const uint8_t *row = words + 256 * mt + 128 * h;
#pragma unroll
            for (int c = 0; c < pieces; c++) {
                w[4 * c] = *(const uint32_t *)(row + c * 512);
            }
            F::decode(w, 0, q, 0);
            a[h] = q[0];
            a[2 + h] = q[4];
            unit_rest<F>(rest, g + 16u * (uint32_t)mt + 8u * (uint32_t)h, w);
            d[h][0] = F::scale(w, 0, 0, dialect);
            d[h][1] = F::sub == 16 ? F::scale(w, 0, 1, dialect) : 0.0f;
            if constexpr (F::min_sub != 0) {
                xm[h] = F::min(w, 0);
            }
        }
#pragma unroll
        for (int nt = 0; nt < NT; nt++) {
            int32_t s0[4], s1[4];
            float yd[2], sum[2];
#pragma unroll
            for (int c = 0; c < 2; c++) {
                const uint8_t *column = x + (8u * nt + 2u * t + c) * apart + 4u * slot;
                yd[c] = *(const float *)(column + RECORD32_SCALES);
                if constexpr (F::min_sub != 0) {
                    sum[c] = *(const float *)(column + RECORD32_SUMS);
                }
            }
            if (F::sub == 32) {
                mma_k32(s0, a, b[nt][0], b[nt][1], INTEGER_FLOAT_BITS);
            } else {
                mma_k16(s0, a[0], a[1], b[nt][0], INTEGER_FLOAT_BITS);
                mma_k16(s1, a[2], a[3], b[nt][1], INTEGER_FLOAT_BITS);
            }
#pragma unroll
            for (int i = 0; i < 4; i++) {
                float y = yd[i & 1], term = d[i / 2][0] * y * unit_dot<F>(s0[i]);
                if (F::sub == 16) {
                    term = term + d[i / 2][1] * y * unit_dot<F>(s1[i]);
                }
                if constexpr (F::min_sub != 0) {
                    term = term + xm[i / 2] * y * sum[i & 1];
                }
                terms[mt][nt][i] = term;
            }
        }
    }
}

#endif /* OPREG_SM90_ROWS32_TERMS_CUH */
