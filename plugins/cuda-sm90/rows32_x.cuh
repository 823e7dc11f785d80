/* SPDX-License-Identifier: MIT
 * rows32_x.cuh - one row of x quantized into shared memory by the waves that use it. */
#ifndef OPREG_SM90_ROWS32_X_CUH
#define OPREG_SM90_ROWS32_X_CUH

#include "quantize.cuh"
#include "rows32_args.h"
#include "rows32_formats.cuh"

/* The row's activations as records in shared memory. */
struct x_shared {
    uint8_t *codes;  /* [k]                                                                        */
    float *scales;   /* [k / unit]                                                                 */
    int16_t *sums;   /* [k / min_sub]                                                              */
};

DEVICE float load_x(const void *x, int64_t i, uint32_t dtype) { return canonical_load(x, i, dtype); }

/* `count` neighbouring values from a multiple of count on. */
template <int count>
DEVICE void load_values(const void *x, int64_t i, uint32_t dtype, bool aligned, float *v) {
    if (aligned && dtype == OPREG_F32) {
#pragma unroll
        for (int c = 0; c < count / 4; c++) {
            float4 f = ((const float4 *)((const float *)x + i))[c];
            v[4 * c] = f.x;
            v[4 * c + 1] = f.y;
            v[4 * c + 2] = f.z;
            v[4 * c + 3] = f.w;
        }
        return;
    }
#pragma unroll
    for (int c = 0; c < count; c++) {
        v[c] = load_x(x, i + c, dtype);
    }
}

/* Four codes a lane, eight lanes a block of 32. */
DEVICE void quantize_q8_0_by4(const float *v, uint32_t *codes, float *scale, int32_t *sum) {
    uint32_t largest = 0;
    float inverse;
    int code[4];
#pragma unroll
    for (int i = 0; i < 4; i++) {
        uint32_t m = magnitude_of(v[i]);
        largest = m > largest ? m : largest;
    }
#pragma unroll
    for (int s = 1; s < 8; s <<= 1) {
        uint32_t other = wave_xor(largest, s);
        largest = other > largest ? other : largest;
    }
    *scale = CANONICAL_DIV(float_of(largest), 127.0f);
    inverse = CANONICAL_DIV(1.0f, *scale);
    bool none = largest >= 0x7f800000u || bits_of(inverse) == 0x7f800000u;
#pragma unroll
    for (int i = 0; i < 4; i++) {
        float product = v[i] * inverse, m = float_of(magnitude_of(product));
        int whole = (int)m;
        whole += m - (float)whole >= 0.5f;
        code[i] = none ? 0 : product < 0.0f ? -whole : whole;
    }
    *scale = f16_to_f32(f32_to_f16(*scale));
    if (none) {
        *scale = largest >= 0x7f800000u ? float_of(0x7fc00000u) : 0.0f;
    }
    *codes = pack4(code[0], code[1], code[2], code[3]);
    *sum = code[0] + code[1] + code[2] + code[3];
#pragma unroll
    for (int s = 1; s < 8; s <<= 1) {
        *sum += wave_xor(*sum, s);
    }
}

/* Brings group u of a row of x to shared memory; the whole wave, for itself. */
template <class F>
DEVICE void bring_group(const matmul_args &a, int64_t row, bool aligned, uint32_t u,
                        const x_shared &s) {
    uint32_t lane = lane_index();
    if (a.scales != 0) { /* planes */
        const uint32_t *codes = (const uint32_t *)((const int8_t *)a.x + row * a.k) +
                                (int64_t)u * (F::values / 4);
#pragma unroll
        for (int c = 0; c < F::values / 128; c++) {
            ((uint32_t *)(s.codes + (int64_t)u * F::values))[c * 32 + lane] = codes[c * 32 + lane];
        }
        constexpr int scales = F::values / F::unit;
        if (lane < scales) {
            s.scales[u * scales + lane] = a.scales[row * (a.k / F::unit) + u * scales + lane];
        }
        if (F::min_sub != 0) {
            constexpr int sums = F::values / (F::min_sub != 0 ? F::min_sub : 1);
            constexpr int each = (F::min_sub != 0 ? F::min_sub : 16) / 16;
            if (lane < sums) {
                const int16_t *from = a.sums + row * (a.k / 16) + u * (F::values / 16) + lane * each;
                s.sums[u * sums + lane] = (int16_t)(each == 2 ? from[0] + from[each - 1] : from[0]);
            }
        }
        return;
    }
    int64_t first = row * a.x_stride + (int64_t)u * F::values;
    if (F::unit == 256) {
        float v[8];
        load_values<8>(a.x, first + lane * 8, a.x_dtype, aligned, v);
        quantized8 q = quantize_q8_k(v);
        ((uint2 *)(s.codes + (int64_t)u * 256))[lane] = make_uint2(q.low, q.high);
        if (lane == 0u) {
            s.scales[u] = q.scale;
        }
        if (F::min_sub != 0) {
            int32_t sum = q.sum + wave_xor(q.sum, 1);
            sum = F::min_sub == 32 ? sum + wave_xor(sum, 2) : sum;
            constexpr int lanes = F::min_sub / 8 > 0 ? F::min_sub / 8 : 1;
            if (lane % lanes == 0u) {
                s.sums[u * (32 / lanes) + lane / lanes] = (int16_t)sum;
            }
        }
    } else {
        float v[4], scale;
        uint32_t codes;
        int32_t sum;
        load_values<4>(a.x, first + lane * 4, a.x_dtype, aligned, v);
        quantize_q8_0_by4(v, &codes, &scale, &sum);
        ((uint32_t *)(s.codes + (int64_t)u * 128))[lane] = codes;
        if (lane % 8u == 0u) {
            s.scales[u * 4 + lane / 8] = scale;
            if (F::min_sub != 0) {
                s.sums[u * 4 + lane / 8] = (int16_t)sum;
            }
        }
    }
}

/* Same on the host: the block's shared memory. */
template <class F> DEVICE x_shared x_records(const matmul_args &a, uint8_t *shared, uint32_t *end) {
    x_shared x;
    uint32_t at = (uint32_t)a.k;
    x.codes = shared;
    x.scales = (float *)(shared + at);
    at += (uint32_t)(a.k / F::unit) * 4u;
    at = (at + 15u) & ~15u;
    x.sums = (int16_t *)(shared + at);
    at += F::min_sub != 0 ? (uint32_t)(a.k / (F::min_sub != 0 ? F::min_sub : 1)) * 2u : 0u;
    *end = (at + 15u) & ~15u;
    return x;
}

#endif /* OPREG_SM90_ROWS32_X_CUH */
