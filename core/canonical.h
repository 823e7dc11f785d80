/* SPDX-License-Identifier: MIT
 * canonical.h - the float sequences that give the same bits on every device: exp, tanh, log, the
 * gated linear units, the combination of 32 accumulators, attention's score and merge, and loads
 * and stores of elements.  docs/numerics.md states each with its error.
 *
 * C subset of C11, nvcc and clang-HIP.  Compile with contraction off (-ffp-contract=off,
 * -fmad=false) and without flush to zero or fast math.  On HIP, '/' is correctly rounded only with
 * -fhip-fp32-correctly-rounded-divide-sqrt. */
#ifndef OPREG_CANONICAL_H
#define OPREG_CANONICAL_H

#include "formats/format.h"

/* Correctly rounded operations that must be one operation on every compiler. */
#if defined(__CUDACC__) && !defined(__HIP__)
#define CANONICAL_DIV(a, b)    __fdiv_rn(a, b)
#define CANONICAL_FMA(a, b, c) __fmaf_rn(a, b, c)
#else
#define CANONICAL_DIV(a, b)    ((a) / (b))
#define CANONICAL_FMA(a, b, c) fma_f32(a, b, c)
#endif

/* ---- exp, tanh, log: within 1.5 ulp over all f32 ------------------------------------------------
 */

/* exp(x): 0 below -104, Inf above 89, NaN passes. */
OPREG_FN float canonical_exp(float x) {
    float t = x < -104.0f ? -104.0f : x, n, r, p;
    int32_t half, whole;
    t = t > 89.0f ? 89.0f : t;
    /* nearest even integer of |v| < 2^22 */
    n = (t * 0x1.715476p0f + 0x1.8p23f) - 0x1.8p23f;
    n = x != x ? 0.0f : n; /* a NaN has no integer; it comes back through r */
    r = CANONICAL_FMA(n, -0x1.63p-1f, t);
    r = CANONICAL_FMA(n, 0x1.bd0106p-13f, r);
    p = CANONICAL_FMA(0x1.a0d2cep-13f, r, 0x1.6e879cp-10f);
    p = CANONICAL_FMA(p, r, 0x1.11121p-7f);
    p = CANONICAL_FMA(p, r, 0x1.555382p-5f);
    p = CANONICAL_FMA(p, r, 0x1.555554p-3f);
    p = CANONICAL_FMA(p, r, 0x1p-1f);
    p = CANONICAL_FMA(p, r * r, r) + 1.0f;
    /* 2^n in two factors, for results below the normals and above 2^127 */
    whole = (int32_t)n;
    half = (whole - (whole & 1)) / 2;
    p = p * float_of((uint32_t)(half + 127) << 23);
    return p * float_of((uint32_t)(whole - half + 127) << 23);
}

/* tanh(x): exactly odd; NaN passes. */
OPREG_FN float canonical_tanh(float x) {
    float a = float_of(bits_of(x) & 0x7fffffffu), z, p;
    uint32_t sign = bits_of(x) & 0x80000000u;
    if (a < 0.625f) {
        z = a * a;
        p = CANONICAL_FMA(-0x1.750ce4p-8f, z, 0x1.51f8cep-6f);
        p = CANONICAL_FMA(p, z, -0x1.b835a4p-5f);
        p = CANONICAL_FMA(p, z, 0x1.1106f6p-3f);
        p = CANONICAL_FMA(p, z, -0x1.555532p-2f);
        p = CANONICAL_FMA(p, z * a, a);
    } else {
        p = 1.0f - CANONICAL_DIV(2.0f, canonical_exp(2.0f * a) + 1.0f);
    }
    return float_of(bits_of(p) | sign);
}

/* log(x): NaN below 0, -Inf at +-0, NaN passes. */
OPREG_FN float canonical_log(float x) {
    uint32_t b = bits_of(x);
    float e = 0.0f, f, z, p;
    int32_t exponent;
    if ((b & 0x7fffffffu) == 0u) {
        return float_of(0xff800000u);
    }
    if (b >= 0x7f800000u) { /* Inf, NaN and everything negative */
        return b == 0x7f800000u ? x : float_of(0x7fc00000u);
    }
    if (b < 0x00800000u) { /* subnormal */
        b = bits_of(x * 0x1p23f);
        e = -23.0f;
    }
    /* mantissa in [sqrt(1/2), sqrt(2)) */
    exponent = (int32_t)((b + (0x3f800000u - 0x3f3504f3u)) >> 23) - 127;
    e = e + (float)exponent;
    f = float_of(b - ((uint32_t)exponent << 23)) - 1.0f;
    z = f * f;
    p = CANONICAL_FMA(0x1.a957e6p-5f, f, -0x1.bc397p-4f);
    p = CANONICAL_FMA(p, f, 0x1.f00b74p-4f);
    p = CANONICAL_FMA(p, f, -0x1.0110cap-3f);
    p = CANONICAL_FMA(p, f, 0x1.2302f8p-3f);
    p = CANONICAL_FMA(p, f, -0x1.552f04p-3f);
    p = CANONICAL_FMA(p, f, 0x1.99a542p-3f);
    p = CANONICAL_FMA(p, f, -0x1.00007p-2f);
    p = CANONICAL_FMA(p, f, 0x1.555548p-2f);
    p = CANONICAL_FMA(p, f, -0.5f);
    p = CANONICAL_FMA(e, -0x1.bd0106p-13f, p * z);
    return CANONICAL_FMA(e, 0x1.63p-1f, p + f);
}

/* ---- gated linear units
 * --------------------------------------------------------------------------- */

OPREG_FN float canonical_silu(float x) {
    return CANONICAL_DIV(x, 1.0f + canonical_exp(-x));
}

OPREG_FN float canonical_gelu_tanh(float x) {
    float inner = (0x1.988454p-1f * x) * (1.0f + (0.044715f * x) * x);
    return (0.5f * x) * (1.0f + canonical_tanh(inner));
}

/* The smaller of x and limit; NaN passes. */
OPREG_FN float canonical_below(float x, float limit) {
    return x > limit ? limit : x;
}

OPREG_FN float canonical_within(float x, float limit) {
    return x < -limit ? -limit : canonical_below(x, limit);
}

OPREG_FN float canonical_swiglu_oai(float g, float u, float alpha, float limit) {
    float gate = canonical_below(g, limit), up = canonical_within(u, limit);
    return CANONICAL_DIV(gate, 1.0f + canonical_exp(-(alpha * gate))) * (up + 1.0f);
}

/* act(g) * u of an opreg_glu kind other than NONE; g and u are f32 results before any store. */
OPREG_FN float canonical_glu(uint32_t kind, float g, float u, float alpha, float limit) {
    if (kind == OPREG_GLU_SILU) {
        return canonical_silu(g) * u;
    }
    if (kind == OPREG_GLU_SILU_CLAMPED) {
        return canonical_silu(canonical_below(g, limit)) * canonical_within(u, limit);
    }
    if (kind == OPREG_GLU_GELU_TANH) {
        return canonical_gelu_tanh(g) * u;
    }
    return canonical_swiglu_oai(g, u, alpha, limit);
}

/* ---- accumulators
 * ----------------------------------------------------------------------------------- */

/* Row dots: a[l] += a[l xor s], s = 16, 8, 4, 2, 1.  Destroys a. */
OPREG_FN float canonical_tree(float a[32]) {
    int s, l;
    for (s = 16; s > 0; s /= 2) {
        for (l = 0; l < s; l++) {
            a[l] = a[l] + a[l + s];
        }
    }
    return a[0];
}

/* Attention scores: the same with s = 1, 2, 4, 8, 16.  Destroys a. */
OPREG_FN float canonical_tree_near(float a[32]) {
    int s, l;
    for (s = 1; s < 32; s *= 2) {
        for (l = 0; l < 32; l += 2 * s) {
            a[l] = a[l] + a[l + s];
        }
    }
    return a[0];
}

/* ---- attention
 * ---------------------------------------------------------------------------------------- */

#define CANONICAL_SEGMENT 256 /* positions of one segment */
#define CANONICAL_STRANDS 8   /* position i of a segment is in strand i mod 8                     */
#define CANONICAL_STEP    8   /* keys of a strand that share one maximum: 64c + 8j + r, j < 8     */

/* k_scale is 1 for caches other than fp8; softcap 0 is off. */
OPREG_FN float canonical_score(float dot, float k_scale, float scale, float softcap) {
    float s = (dot * k_scale) * scale;
    if (softcap != 0.0f) {
        s = softcap * canonical_tanh(CANONICAL_DIV(s, softcap));
    }
    return s;
}

/* Of two parts with keys, m1 the maximum of the part with the lower positions: the common maximum
 * and the factor of each.  l and o become (x1 * *a1) + (x2 * *a2), two roundings and one. */
OPREG_FN float canonical_merge(float m1, float m2, float *a1, float *a2) {
    float m = m2 > m1 ? m2 : m1;
    *a1 = canonical_exp(m1 - m);
    *a2 = canonical_exp(m2 - m);
    return m;
}

/* ---- elements
 * ------------------------------------------------------------------------------------------- */

/* Finite e4m3: 0x7f and 0xff are NaN, everything else a number. */
OPREG_FN float canonical_e4m3_to_f32(uint32_t byte) {
    uint32_t sign = (byte & 0x80u) << 24, exponent = byte >> 3 & 15u, mantissa = byte & 7u;
    if ((byte & 0x7fu) == 0x7fu) {
        return float_of(0x7fc00000u);
    }
    if (exponent == 0u) {
        return float_of(sign | bits_of((float)(int32_t)mantissa * 0x1p-9f));
    }
    return float_of(sign | (exponent + 120u) << 23 | mantissa << 20);
}

/* Element at index of an array of dtype F32, F16, BF16 or F8_E4M3, aligned to its elements. */
OPREG_FN float canonical_load(const void *array, int64_t index, uint32_t dtype) {
    if (dtype == OPREG_F32) {
        return ((const float *)array)[index];
    }
    if (dtype == OPREG_F16) {
        return f16_to_f32(((const uint16_t *)array)[index]);
    }
    if (dtype == OPREG_BF16) {
        return bf16_to_f32(((const uint16_t *)array)[index]);
    }
    return canonical_e4m3_to_f32(((const uint8_t *)array)[index]);
}

/* Stores to an array of dtype F32, F16 or BF16: one rounding, nearest even. */
OPREG_FN void canonical_store(void *array, int64_t index, uint32_t dtype, float value) {
    if (dtype == OPREG_F32) {
        ((float *)array)[index] = value;
    } else if (dtype == OPREG_F16) {
        ((uint16_t *)array)[index] = (uint16_t)f32_to_f16(value);
    } else {
        ((uint16_t *)array)[index] = (uint16_t)f32_to_bf16(value);
    }
}

#endif /* OPREG_CANONICAL_H */
