/* SPDX-License-Identifier: MIT
 * rows32_part_dots.cuh - a lane's own units of rows of the layout rows32 in shared memory times
 * those of a row of x, and x there as the dots take it.
 *
 * Lane (g, t) = (lane / 4, lane % 4) has unit t of each group of its rows.
 *
 * A part_dot of a format has
 *   words              of a unit
 *   offset, dialects   whether sum() takes the unit's `sums`; whether scales have dialects
 *   put(unit, i, codes, there)
 *                      where eight codes 8i .. of a unit of x go, if it is there; the whole wave
 *   codes_at(row, t), scale_at(row, t)
 *                      where the lane's words and scale are in a group
 *   make(), read_scale(at, offset), scale(bits, dialect)
 *   sum(w, x, levels, sums)
 *                      the integer dot as a float */
#ifndef OPREG_SM90_ROWS32_PART_DOTS_CUH
#define OPREG_SM90_ROWS32_PART_DOTS_CUH

#include "rows32_dots.cuh"
#include "rows32_parts_args.h"
#include "rows32_x.cuh"
#include "tensor.cuh"

/* A row of x. */
struct part_x {
    uint8_t *codes;
    float *scales, *sums; /* sums: of codes, as sum() takes them */
};

DEVICE part_x part_row(uint8_t *row, uint32_t groups) {
    return {row, (float *)(row + groups * 128u), (float *)(row + groups * 144u)};
}

/* Words of shared memory at an address and `offset`, which is a constant. */
template <int count> DEVICE void part_read(uint32_t at, int offset, uint32_t *w) {
    if (count == 4) {
        asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                     : "=r"(w[0]), "=r"(w[1]), "=r"(w[count - 2]), "=r"(w[count - 1])
                     : "r"(at + (uint32_t)offset));
    } else if (count == 2) {
        asm volatile("ld.shared.v2.u32 {%0, %1}, [%2];"
                     : "=r"(w[0]), "=r"(w[count - 1])
                     : "r"(at + (uint32_t)offset));
    } else {
        asm volatile("ld.shared.u32 %0, [%1];" : "=r"(w[0]) : "r"(at + (uint32_t)offset));
    }
}
DEVICE uint32_t part_read_half(uint32_t at, int offset) {
    uint32_t half;
    asm volatile("{\n.reg .u16 h;\nld.shared.u16 h, [%1];\ncvt.u32.u16 %0, h;\n}"
                 : "=r"(half)
                 : "r"(at + (uint32_t)offset));
    return half;
}
DEVICE uint32_t part_read_byte(uint32_t at, int offset) {
    uint32_t byte;
    asm volatile("ld.shared.u8 %0, [%1];" : "=r"(byte) : "r"(at + (uint32_t)offset));
    return byte;
}

struct part_levels {
    uint32_t v[4], ones; /* ones: all bits, which the compiler does not know */
};

template <class F> struct part_dot;

/* c plus the dot of unsigned bytes with signed ones. */
MEMBER int32_t unsigned_dot4(uint32_t a, uint32_t b, int32_t c) {
    asm("dp4a.u32.s32 %0, %1, %2, %0;" : "+r"(c) : "r"(a), "r"(b));
    return c;
}

/* 1.5 * 2^23 as bits, to which integers are added for a float that is exact: see exact_float(). */
#define PART_EXACT 0x4b400000

/* ---- sixteen levels by nibble, in two tables as levels_dot has them -------------------------- */

template <uint32_t low0, uint32_t low1, uint32_t high0, uint32_t high1> struct part_nibbles {
    static const int words = 4;
    static const bool offset = false;
    MEMBER void put(uint8_t *unit, uint32_t, uint2 codes, bool there) {
        uint32_t at;
        codes = cross_by8(codes, &at);
        if (there) {
            ((uint2 *)unit)[at] = codes;
        }
    }
    MEMBER uint32_t codes_at(uint32_t row, uint32_t t) { return t * 512u + row * 16u; }
    /* The second table lies backwards, so that a complement selects in it: that is a subtraction,
     * and there is more room for those than for logic. */
    MEMBER uint32_t backwards(uint32_t v) { return permute(v, 0u, 0x0123u); }
    MEMBER part_levels make() {
        return {{kept(low0), kept(low1), kept(backwards(high1)), kept(backwards(high0))},
                kept(~0u)};
    }
    MEMBER float sum(const uint32_t *w, const uint32_t *x, const part_levels &l, float) {
        int32_t n = PART_EXACT;
#pragma unroll
        for (int i = 0; i < 4; i++) {
            uint32_t upper = w[i] >> 16;
            n = dot4(permute_signs(l.v[0], l.v[1], w[i]), x[2 * i], n);
            n = dot4(permute_signs(l.v[2], l.v[3], l.ones - w[i]), x[2 * i], n);
            n = dot4(permute_signs(l.v[0], l.v[1], upper), x[2 * i + 1], n);
            n = dot4(permute_signs(l.v[2], l.v[3], l.ones - upper), x[2 * i + 1], n);
        }
        return float_of((uint32_t)n) - 0x1.8p23f;
    }
};

struct part_half_scales {
    static const bool dialects = false;
    MEMBER uint32_t scale_at(uint32_t row, uint32_t t) { return 2048u + row * 8u + t * 2u; }
    MEMBER uint32_t read_scale(uint32_t at, int offset) { return part_read_half(at, offset); }
    MEMBER float scale(uint32_t bits, uint32_t) { return f16_value(bits); }
};
struct part_byte_scales {
    MEMBER uint32_t scale_at(uint32_t row, uint32_t t) { return 2048u + row * 4u + t; }
    MEMBER uint32_t read_scale(uint32_t at, int offset) { return part_read_byte(at, offset); }
};

template <>
struct part_dot<rows_iq4_nl>
    : part_nibbles<0xbfad9881u, 0xf6eaddcfu, 0x271a0e02u, 0x725a4636u>, part_half_scales {};
template <>
struct part_dot<rows_mxfp4>
    : part_nibbles<0x04030200u, 0x0d090705u, 0xfdfeff00u, 0xf4f8fafcu>, part_byte_scales {
    static const bool dialects = false;
    MEMBER float scale(uint32_t bits, uint32_t) { return e8m0_half(bits); }
};
template <>
struct part_dot<rows_rocmfp4_fast>
    : part_nibbles<0x04030200u, 0x0b090705u, 0xfdfeff00u, 0xf6f8fafcu>, part_byte_scales {
    static const bool dialects = true;
    MEMBER float scale(uint32_t bits, uint32_t dialect) { return rocmfp4_scale_of(bits, dialect); }
};

/* ---- Q2_0: codes where they are, and sums divided by the place of their bits ----------------- */

template <> struct part_dot<rows_q2_0> {
    static const int words = 2;
    static const bool dialects = false, offset = true;
    /* bits 2s of the bytes of a word are weights s, s + 4, s + 8, s + 12 of sixteen */
    MEMBER void put(uint8_t *unit, uint32_t i, uint2 codes, bool there) {
        uint16_t *pairs = (uint16_t *)unit + i / 2u * 8u + i % 2u;
#pragma unroll
        for (uint32_t s = 0; there && s < 4u; s++) {
            pairs[2u * s] = (uint16_t)permute(codes.x, codes.y, 0x40u + 0x11u * s);
        }
    }
    MEMBER uint32_t codes_at(uint32_t row, uint32_t t) {
        return (t >> 1) * 512u + row * 16u + (t & 1u) * 8u;
    }
    MEMBER uint32_t scale_at(uint32_t row, uint32_t t) { return 1024u + row * 4u + (t & 2u); }
    MEMBER part_levels make() { return {{0, 0, 0, 0}, 0}; }
    MEMBER uint32_t read_scale(uint32_t at, int offset) { return part_read_half(at, offset); }
    MEMBER float scale(uint32_t bits, uint32_t) { return f16_value(bits); }
    /* levels are the codes minus 1: sums is -1.5 * 2^17 minus the unit's sum of activations */
    MEMBER float sum(const uint32_t *w, const uint32_t *x, const part_levels &, float sums) {
        int32_t c[4] = {0, 0, 0, PART_EXACT};
#pragma unroll
        for (int i = 0; i < 4; i++) {
            uint32_t mask = 0x03030303u << 2 * i;
            c[i] = unsigned_dot4(w[0] & mask, x[i], c[i]);
            c[i] = unsigned_dot4(w[1] & mask, x[4 + i], c[i]);
        }
        int32_t n = c[0] * 64 + (c[1] * 16 + (c[2] * 4 + c[3]));
        return CANONICAL_FMA(float_of((uint32_t)n), 0x1p-6f, sums);
    }
};

/* A lane's value in a register for good: the compiler makes what it can make from the lane's number
 * anew at each use. */
MEMBER uint32_t held(uint32_t value) { return wave_xor(value, 0); }

/* ---- a lane ---------------------------------------------------------------------------------- */

/* Where a lane's words are, as bytes from the beginnings of a tile and of a row of x. */
template <class F> struct part_lane {
    typedef part_dot<F> dot;
    uint32_t codes, scale, x, unit, dialect;
    part_levels levels;

    __device__ __forceinline__ void start(uint32_t row) {
        uint32_t t = lane_index() & 3u;
        codes = held(dot::codes_at(row, t));
        scale = held(dot::scale_at(row, t));
        x = 32u * t;
        unit = 4u * t;
        dialect = 0u;
        levels = dot::make();
    }
};

/* A lane's words of a group of two rows that are eight apart. */
template <class F> struct part_words {
    typedef part_dot<F> dot;
    uint32_t w[2][dot::words], scale[2];

    __device__ __forceinline__ void read(uint32_t codes_at, uint32_t scale_at, int offset) {
#pragma unroll
        for (int p = 0; p < 2; p++) {
            part_read<dot::words>(codes_at, offset + 128 * p, w[p]);
            scale[p] = dot::read_scale(scale_at, offset + F::bytes % 16 * 8 * p);
        }
    }
};

/* Adds the terms of both rows in a group, number u from the addresses on, which are those of the
 * lane's codes, scale and sums of x. */
template <class F>
DEVICE void add_part_terms(const part_lane<F> &lane, const part_words<F> &words, uint32_t x_at,
                           uint32_t y_at, uint32_t sums_at, int u, float *first, float *second) {
    typedef part_dot<F> dot;
    uint32_t x[8], yd, sums = 0;
    part_read<4>(x_at, u * 128, x);
    part_read<4>(x_at, u * 128 + 16, x + 4);
    part_read<1>(y_at, u * 16, &yd);
    if (dot::offset) {
        part_read<1>(sums_at, u * 16, &sums);
    }
#pragma unroll
    for (int p = 0; p < 2; p++) {
        float xd = dot::scale(words.scale[p], lane.dialect), *to = p == 0 ? first : second;
        float sum = dot::sum(words.w[p], x, lane.levels, float_of(sums));
        *to = *to + xd * float_of(yd) * sum;
    }
}

/* The sums over two rows' units, in every lane of a row; a tile of up to eight groups, and a row of
 * x, at shared addresses. */
template <class F>
DEVICE void part_sums(const part_lane<F> &lane, uint32_t tile, uint32_t row, uint32_t groups,
                      float *sum) {
    constexpr int most = 8, step = 32 * F::bytes;
    float v[2][4] = {{0.0f, 0.0f, 0.0f, 0.0f}, {0.0f, 0.0f, 0.0f, 0.0f}};
    uint32_t codes_at = tile + lane.codes, scale_at = tile + lane.scale, x_at = row + lane.x;
    uint32_t y_at = row + groups * 128u + lane.unit, sums_at = y_at + groups * 16u;
    part_words<F> words[2];
    asm volatile("" : "+r"(codes_at), "+r"(scale_at), "+r"(x_at), "+r"(y_at), "+r"(sums_at));
    words[0].read(codes_at, scale_at, 0);
#pragma unroll
    for (int u = 0; u < most; u++) { /* groups u and u + 4 are the tree's first pairs */
        if ((uint32_t)u < groups) {
            if (u + 1 < most && (uint32_t)(u + 1) < groups) {
                words[(u + 1) & 1].read(codes_at, scale_at, (u + 1) * step);
            }
            add_part_terms<F>(lane, words[u & 1], x_at, y_at, sums_at, u, &v[0][u & 3],
                              &v[1][u & 3]);
        }
    }
#pragma unroll
    for (int p = 0; p < 2; p++) {
        sum[p] = (v[p][0] + v[p][2]) + (v[p][1] + v[p][3]);
        sum[p] = sum[p] + wave_xor(sum[p], 18); /* t ^ 2 of the same row */
        sum[p] = sum[p] + wave_xor(sum[p], 9);  /* t ^ 1                 */
    }
}

/* ---- x --------------------------------------------------------------------------------------- */

/* The larger magnitude, NaN of one. */
DEVICE float larger_or_nan(float a, float b) {
    float c;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(c) : "f"(fabsf(a)), "f"(fabsf(b)));
    return c;
}

/* Eight codes a lane, four lanes a block of 32, as quantize.cuh has them.  2^15 + 0.5 is added, so
 * that the second byte is the nearest integer, halves away from 0; it is negated with what is below
 * it. */
DEVICE uint2 quantize_part(const float *v, float *scale) {
    float most = larger_or_nan(v[0], v[1]);
    uint32_t q[8];
#pragma unroll
    for (int i = 2; i < 8; i++) {
        most = larger_or_nan(most, v[i]);
    }
    most = larger_or_nan(most, wave_xor(most, 1));
    most = larger_or_nan(most, wave_xor(most, 2));
    uint32_t largest = bits_of(most);
    float exact = CANONICAL_DIV(most, 127.0f), inverse = __frcp_rn(exact);
    bool none = largest >= 0x7f800000u || bits_of(inverse) == 0x7f800000u;
#pragma unroll
    for (int i = 0; i < 8; i++) {
        float product = v[i] * inverse;
        uint32_t bits = bits_of(__fadd_rz(fabsf(product), 0x1p15f + 0.5f));
        q[i] = product < 0.0f ? 2u * 0x47000000u + 0xffu - bits : bits;
    }
    *scale = __half2float(__float2half_rn(exact));
    if (none) {
        *scale = largest >= 0x7f800000u ? float_of(0x7fc00000u) : 0.0f;
    }
    uint32_t low = permute(permute(q[0], q[1], 0x0051u), permute(q[2], q[3], 0x0051u), 0x5410u);
    uint32_t high = permute(permute(q[4], q[5], 0x0051u), permute(q[6], q[7], 0x0051u), 0x5410u);
    return make_uint2(none ? 0u : low, none ? 0u : high);
}

/* A lane's elements of units 8j .. 8j + 7 of a row of x that does not come as planes; zeros past
 * the row's end. */
DEVICE void load_part(const matmul_args &a, int64_t row, bool aligned, uint32_t j, float *v) {
    uint32_t at = j * 256u + lane_index() * 8u;
    if (at >= (uint32_t)a.k) {
#pragma unroll
        for (int i = 0; i < 8; i++) {
            v[i] = 0.0f;
        }
        return;
    }
    load_values<8>(a.x, row * a.x_stride + at, a.x_dtype, aligned, v);
}

/* Keeps them in shared memory; the whole wave. */
template <class F>
DEVICE void keep_part(const matmul_args &a, int64_t row, uint32_t groups, uint32_t j,
                      const float *v, const part_x &x) {
    typedef part_dot<F> dot;
    uint32_t lane = lane_index(), unit = 8u * j + lane / 4u;
    uint2 codes = make_uint2(0u, 0u);
    float scale = 0.0f;
    if (a.scales == 0) {
        codes = quantize_part(v, &scale);
    } else if (unit * 32u < (uint32_t)a.k) {
        codes = ((const uint2 *)((const int8_t *)a.x + row * a.k))[j * 32u + lane];
        scale = a.scales[row * (a.k / 32) + unit];
    }
    int32_t sum = 0;
    if (dot::offset) {
        sum = dot4(codes.x, 0x01010101u, dot4(codes.y, 0x01010101u, 0));
        sum += wave_xor(sum, 1);
        sum += wave_xor(sum, 2);
    }
    bool there = unit < groups * 4u; /* an odd number of groups ends in between */
    dot::put(x.codes + unit * 32u, lane % 4u, codes, there);
    if (there && lane % 4u == 0u) {
        x.scales[unit] = scale;
        if (dot::offset) {
            x.sums[unit] = -0x1.8p17f - (float)sum;
        }
    }
}

/* ---- blocks ---------------------------------------------------------------------------------- */

/* Of a block's slots: filled by a copy, left by the waves that read it. */
struct parts_barriers {
    uint64_t full[2][PARTS_SLOTS], empty[PARTS_SLOTS]; /* full: of even and odd rounds */
};

/* The block's share of `entries` times a matrix's tiles. */
DEVICE void deal_tiles(const parts_args &args, uint32_t entries, uint32_t *begin, uint32_t *end) {
    uint32_t total = entries * args.tiles; /* times blocks it is below 2^32: see the host */
    *begin = total * block_x() / grid_x();
    *end = total * (block_x() + 1u) / grid_x();
}

#endif /* OPREG_SM90_ROWS32_PART_DOTS_CUH */
