/* SPDX-License-Identifier: MIT
 * format.h - what every format header shares: the C subset that C11, nvcc and clang-HIP compile.
 *
 * A format header NAME.h defines, with NAME from formats.inc:
 *   float NAME_value(const uint8_t *block, int i, const opreg_side *side)
 *       decoded weight i of the block, bit-exact by the formats page;
 *   integer-dot formats (activations Q8_0 or Q8_K):
 *     void  NAME_sums(const uint8_t *block, int part, const int8_t *q, const int16_t *sums,
 *                     const opreg_side *side, int32_t n[2])
 *       exact integer sums of one unit.  part is the unit's index inside the block (0 where a block
 *       is one unit); q and sums point at the unit's first code and first 16-code sum.
 *     float NAME_term(const uint8_t *block, int part, const int32_t n[2], float yd,
 *                     const opreg_side *side)
 *       the unit's f32 term by the canonical formula (docs/numerics.md), yd = activation scale;
 *   f32-activation formats:
 *     float NAME_fold(const uint8_t *block, int part, const float *x, int count, float acc,
 *                     const opreg_side *side)
 *       acc after the unit's weights; x points at the unit's first activation; count is the unit's
 *       length, shorter only at the end of a row of F32, F16 or BF16.
 *   host only: const char *NAME_invalid(const uint8_t *block, const opreg_side *side)
 *       null, or why the block must be refused (static text).
 * Unit u of a row goes to accumulator u mod 32, ascending.
 *
 * Blocks are not aligned: bytes are read one by one or by the load_* functions below.
 * Every float operation here is one IEEE binary32 operation: compile with contraction off and
 * without flush to zero; fma_f32 is written where it is meant. */
#ifndef OPREG_FORMAT_H
#define OPREG_FORMAT_H

#include "opreg/opreg_plugin.h"

#if defined(__CUDACC__) || defined(__CUDA__) || defined(__HIP__)
#define OPREG_ON_DEVICE 1
#if defined(__clang__) /* needs no vendor header */
#define OPREG_FN    static inline __attribute__((device, always_inline))
#define OPREG_TABLE static __attribute__((device)) const
#else
#define OPREG_FN    static __device__ __forceinline__
#define OPREG_TABLE static __device__ const
#endif
#else
#include <math.h>
#include <string.h>
#define OPREG_FN        static inline
#define OPREG_TABLE     static const
#define OPREG_ON_DEVICE 0
#endif

#if defined(__clang__) /* clang for HIP and CUDA contracts unless told otherwise */
#pragma clang fp contract(off)
#endif

/* Bits as a float and back. */
OPREG_FN float float_of(uint32_t bits) {
#if OPREG_ON_DEVICE && defined(__clang__)
    return __builtin_bit_cast(float, bits);
#elif OPREG_ON_DEVICE
    return __uint_as_float(bits);
#else
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
#endif
}

OPREG_FN uint32_t bits_of(float f) {
#if OPREG_ON_DEVICE && defined(__clang__)
    return __builtin_bit_cast(uint32_t, f);
#elif OPREG_ON_DEVICE
    return __float_as_uint(f);
#else
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    return bits;
#endif
}

/* a * b + c, rounded once. */
OPREG_FN float fma_f32(float a, float b, float c) {
#if OPREG_ON_DEVICE && defined(__clang__)
    return __builtin_fmaf(a, b, c);
#else
    return fmaf(a, b, c);
#endif
}

OPREG_FN uint32_t load_u16(const uint8_t *p) { return (uint32_t)p[0] | (uint32_t)p[1] << 8; }

OPREG_FN uint32_t load_u32(const uint8_t *p) { return load_u16(p) | load_u16(p + 2) << 16; }

/* IEEE binary16 to f32, exact; subnormals kept, NaN stays NaN. */
OPREG_FN float f16_to_f32(uint32_t h) {
    uint32_t sign = (h & 0x8000u) << 16, exponent = (h >> 10) & 31u, mantissa = h & 0x3ffu;
    if (exponent == 31u) {
        return float_of(sign | 0x7f800000u | mantissa << 13);
    }
    if (exponent != 0u) {
        return float_of(sign | (exponent + 112u) << 23 | mantissa << 13);
    }
    /* 0 or subnormal: mantissa * 2^-24 is exact in f32 */
    return float_of(sign | bits_of((float)(int32_t)mantissa * 0x1p-24f));
}

OPREG_FN float bf16_to_f32(uint32_t h) { return float_of(h << 16); }

/* f32 to bf16, nearest even; NaN stays quiet. */
OPREG_FN uint32_t f32_to_bf16(float f) {
    uint32_t b = bits_of(f);
    if ((b & 0x7fffffffu) > 0x7f800000u) {
        return (b >> 16 | 0x40u) & 0xffffu;
    }
    return (b + 0x7fffu + (b >> 16 & 1u)) >> 16;
}

/* f32 to f16, nearest even, subnormals kept, overflow to Inf; NaN stays quiet. */
OPREG_FN uint32_t f32_to_f16(float f) {
    uint32_t b = bits_of(f), sign = b >> 16 & 0x8000u, a = b & 0x7fffffffu;
    if (a > 0x7f800000u) {
        return sign | 0x7e00u | (a >> 13 & 0x1ffu);
    }
    if (a >= 0x47800000u) { /* 65536 and up, Inf */
        return sign | 0x7c00u;
    }
    if (a >= 0x38800000u) { /* normal: the carry may make 65520 an Inf, as it should */
        return sign | (a - 0x38000000u + 0xfffu + (a >> 13 & 1u)) >> 13;
    }
    if (a < 0x33000000u) { /* under half of the smallest subnormal */
        return sign;
    }
    {
        uint32_t shift = 126u - (a >> 23), m = (a & 0x7fffffu) | 0x800000u;
        uint32_t half = 1u << (shift - 1u), rest = m & ((half << 1) - 1u), q = m >> shift;
        return sign | (q + (uint32_t)(rest > half || (rest == half && (q & 1u))));
    }
}

#endif /* OPREG_FORMAT_H */
