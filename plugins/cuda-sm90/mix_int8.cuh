/* SPDX-License-Identifier: MIT
 * mix_int8.cuh - ROCmFP2_MIX with levels and activations as bytes: books, 64 weights of a row against
 * x, and the quantization of x.
 *
 * A book's largest level is 127, so that a level is off by a 254th of it at the most; the book's factor
 * is in the scales of its halves.  32 values of x share a scale in the same way. */
#ifndef OPREG_SM90_MIX_INT8_CUH
#define OPREG_SM90_MIX_INT8_CUH

#include "rows32_load.cuh"

#define MIX_INT8_ROUND 12582912.0f /* with it added, a small float has its integer in the low bits */
#define MIX_INT8_ZERO  0x4b400000u /* the bits of that                                              */
#define MIX_INT8_LEAST 0x1p-119f   /* what is less counts as 0: 127 over it is still a number       */

/* The lowest byte of each. */
DEVICE uint32_t low_bytes(uint32_t a, uint32_t b, uint32_t c, uint32_t d) {
    return __byte_perm(__byte_perm(a, b, 0x0040), __byte_perm(c, d, 0x0040), 0x5410);
}

DEVICE uint32_t rounded_bytes(float a, float b, float c, float d, float by) {
    return low_bytes(bits_of(__fmaf_rn(a, by, MIX_INT8_ROUND)),
                     bits_of(__fmaf_rn(b, by, MIX_INT8_ROUND)),
                     bits_of(__fmaf_rn(c, by, MIX_INT8_ROUND)),
                     bits_of(__fmaf_rn(d, by, MIX_INT8_ROUND)));
}

/* What makes numbers up to `most` up to 127. */
DEVICE float byte_factor(float most) {
    float inverse;
    asm("rcp.approx.f32 %0, %1;" : "=f"(inverse) : "f"(most));
    return most >= MIX_INT8_LEAST ? 127.0f * inverse : 0.0f;
}

/* ---- books ---------------------------------------------------------------------------------------- */

struct mix_int8_books {
    uint32_t levels[2]; /* four bytes a book                                                        */
    uint32_t factors;   /* f16: of book 0; of book 1 below zero, or 0 where bit 7 is the scale's    */
    float unit;         /* what a sum is times                                                      */
};

/* A matrix's levels on their way; one thread. */
struct mix_int8_side {
    float levels[8];
    uint32_t mode;

    __device__ __forceinline__ void load(const opreg_side *side) {
#pragma unroll
        for (int i = 0; i < 8; i++) {
            levels[i] = side->levels[i];
        }
        mode = side->mode;
    }

    __device__ __forceinline__ mix_int8_books books() const {
        mix_int8_books b;
        float most[2];
#pragma unroll
        for (int k = 0; k < 2; k++) {
            const float *l = levels + 4 * k;
            most[k] = fmaxf(fmaxf(fabsf(l[0]), fabsf(l[1])), fmaxf(fabsf(l[2]), fabsf(l[3])));
            b.levels[k] = rounded_bytes(l[0], l[1], l[2], l[3], byte_factor(most[k]));
        }
        /* as e4m3 a scale is twice its value and up to 448, times 64 within f16 */
        float all = fmaxf(most[0], most[1]), by = all >= MIX_INT8_LEAST ? 64.0f / all : 0.0f;
        float second = mode != 0u ? -(most[1] * by) : 0.0f;
        asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(b.factors) : "f"(second), "f"(most[0] * by));
        b.unit = all * (1.0f / (2.0f * 64.0f * 127.0f));
        return b;
    }
};

/* Scales of four halves, each by its book's factor.  A scale that is to be 0 is no number as e4m3, and
 * in mode 0 may be below zero. */
DEVICE void mix_int8_scales(uint32_t meta, uint32_t factors, float *scales) {
    uint32_t s[2];
    asm("{.reg .b16 a, b; mov.b32 {a, b}, %2; cvt.rn.f16x2.e4m3x2 %0, a; cvt.rn.f16x2.e4m3x2 %1, b;}"
        : "=r"(s[0]), "=r"(s[1])
        : "r"(meta));
#pragma unroll
    for (int i = 0; i < 2; i++) {
        asm("{.reg .b16 a, b; .reg .b32 f, first, second;\n"
            "mov.b32 {a, b}, %3;\n"
            "mov.b32 f, {a, a}; mul.rn.f16x2 first, %2, f;\n"
            "mov.b32 f, {b, b}; mul.rn.f16x2 second, %2, f;\n"
            "mov.b32 f, 0; max.f16x2 first, first, f; max.f16x2 first, first, second;\n"
            "mov.b32 {a, b}, first; cvt.f32.f16 %0, a; cvt.f32.f16 %1, b;}"
            : "=f"(scales[2 * i]), "=f"(scales[2 * i + 1])
            : "r"(s[i]), "r"(factors));
    }
}

/* ---- 64 weights ------------------------------------------------------------------------------------- */

/* The bytes of a and b that the lower four nibbles of `by` name; bit 3 of each is 0. */
DEVICE uint32_t pick_levels(const uint32_t *books, uint32_t by) {
    uint32_t levels;
    asm("prmt.b32 %0, %1, %2, %3;" : "=r"(levels) : "r"(books[0]), "r"(books[1]), "r"(by));
    return levels;
}

/* The upper half of a word of such nibbles, twice.  As f16 it is a number, and times 1 the same one:
 * products have a pipe of their own, shifts share that of the picks. */
DEVICE uint32_t upper_half(uint32_t word, uint32_t one) {
    uint32_t upper;
    asm("{.reg .b16 a, b; .reg .b32 twice; mov.b32 {a, b}, %1; mov.b32 twice, {b, b};\n"
        "mul.rn.f16x2 %0, twice, %2;}"
        : "=r"(upper)
        : "r"(word), "r"(one));
    return upper;
}

/* Kept in registers; the compiler would make them anew at each use. */
struct mix_int8_constants {
    uint32_t one, zero; /* f16 1 twice; where a sum of integers begins                             */

    __device__ __forceinline__ mix_int8_constants() : one(0x3c003c00u), zero(MIX_INT8_ZERO) {
        asm volatile("" : "+r"(one), "+r"(zero));
    }
};

/* A half against its x.  book: 4 in every nibble for book 1, or 0. */
DEVICE float mix_int8_half(uint32_t codes, uint32_t book, const uint32_t *books, const uint4 &x,
                           const mix_int8_constants &c) {
    uint32_t even = (codes & 0x33333333u) | book, odd = (codes >> 2 & 0x33333333u) | book;
    int32_t sum = (int32_t)c.zero;
    sum = dot4(pick_levels(books, even), x.x, sum);
    sum = dot4(pick_levels(books, odd), x.y, sum);
    sum = dot4(pick_levels(books, upper_half(even, c.one)), x.z, sum);
    sum = dot4(pick_levels(books, upper_half(odd, c.one)), x.w, sum);
    return __uint_as_float((uint32_t)sum) - MIX_INT8_ROUND;
}

/* sum + four halves of a row against theirs of x; scales: of each 32 of x.  codes has a word a half. */
DEVICE float mix_int8_group(uint4 codes, uint32_t meta, const mix_int8_books &b, const uint4 *x,
                            float2 scales, float sum, const mix_int8_constants &c) {
    uint32_t second = (meta >> 5 & 0x04040404u) * 0x11u;
    float s[4];
    mix_int8_scales(meta, b.factors, s);
    float h0 = mix_int8_half(codes.x, __byte_perm(second, 0u, 0x0000), b.levels, x[0], c);
    float h1 = mix_int8_half(codes.y, __byte_perm(second, 0u, 0x1111), b.levels, x[1], c);
    float h2 = mix_int8_half(codes.z, __byte_perm(second, 0u, 0x2222), b.levels, x[2], c);
    float h3 = mix_int8_half(codes.w, __byte_perm(second, 0u, 0x3333), b.levels, x[3], c);
    sum = __fmaf_rn(scales.x, __fmaf_rn(s[0], h0, s[1] * h1), sum);
    return __fmaf_rn(scales.y, __fmaf_rn(s[2], h2, s[3] * h3), sum);
}

/* ---- x ---------------------------------------------------------------------------------------------- */

/* 16 values of x. */
struct mix_int8_x {
    float4 v[4];

    /* Half `half` of a row. */
    __device__ __forceinline__ void load(const matmul_args &a, int64_t row, uint32_t half) {
        int64_t at = row * a.x_stride + 16 * (int64_t)half;
        const float *from = (const float *)a.x + at;
        if (a.x_dtype == OPREG_F32 && ((uintptr_t)from & 15u) == 0u) {
#pragma unroll
            for (int q = 0; q < 4; q++) {
                v[q] = ((const float4 *)from)[q];
            }
            return;
        }
        v[0] = v[1] = v[2] = v[3] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
#pragma unroll 1
        for (int q = 0; q < 4; q++) { /* code that few calls need stays small                       */
            float4 four;
            four.x = canonical_load(a.x, at + 4 * q, a.x_dtype);
            four.y = canonical_load(a.x, at + 4 * q + 1, a.x_dtype);
            four.z = canonical_load(a.x, at + 4 * q + 2, a.x_dtype);
            four.w = canonical_load(a.x, at + 4 * q + 3, a.x_dtype);
#pragma unroll
            for (int i = 0; i < 4; i++) {
                v[i] = i == q ? four : v[i];
            }
        }
    }

    /* As half h of a row: values 0 2 4 6, 1 3 5 7, 8 10 12 14, 9 11 13 15; a scale for the halves of
     * two neighbouring lanes, all of which call it.  What is infinite or no number makes the scale no
     * number. */
    __device__ __forceinline__ void store(uint32_t h, uint32_t halves, uint4 *codes,
                                          float *scales) const {
        uint32_t most = 0u;
#pragma unroll
        for (int q = 0; q < 4; q++) {
            most = max(max(most, bits_of(v[q].x) & 0x7fffffffu), bits_of(v[q].y) & 0x7fffffffu);
            most = max(max(most, bits_of(v[q].z) & 0x7fffffffu), bits_of(v[q].w) & 0x7fffffffu);
        }
        most = max(most, wave_xor(most, 1));
        float top = __uint_as_float(most), by = byte_factor(top);
        if (h < halves) {
            codes[h] = make_uint4(rounded_bytes(v[0].x, v[0].z, v[1].x, v[1].z, by),
                                  rounded_bytes(v[0].y, v[0].w, v[1].y, v[1].w, by),
                                  rounded_bytes(v[2].x, v[2].z, v[3].x, v[3].z, by),
                                  rounded_bytes(v[2].y, v[2].w, v[3].y, v[3].w, by));
            if ((h & 1u) == 0u) {
                scales[h / 2u] =
                    most < 0x7f800000u ? top * (1.0f / 127.0f) : __uint_as_float(0x7fc00000u);
            }
        }
    }
};

#endif /* OPREG_SM90_MIX_INT8_CUH */
