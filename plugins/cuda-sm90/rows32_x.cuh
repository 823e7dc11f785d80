/* SPDX-License-Identifier: MIT
 * rows32_x.cuh - one row of x quantized into shared memory by the waves that use it. */
#ifndef OPREG_SM90_ROWS32_X_CUH
#define OPREG_SM90_ROWS32_X_CUH

#include "quantize.cuh"
#include "rows32_args.h"
#include "rows32_load.cuh"

#include <cuda_fp16.h>

/* How the eight words of 32 codes lie: in order, as cross_by4() puts them, or 0 2 4 6 1 3 5 7 (units of
 * 256 alone). */
#define X_IN_ORDER 0
#define X_CROSSED  1
#define X_HALVES   2

/* The row's activations as records in shared memory. */
struct x_shared {
    uint8_t *codes;  /* [k]                                                                        */
    float *scales;   /* [k / unit]                                                                 */
    int16_t *sums;   /* [k / min_sub]                                                              */
};

/* `count` neighbouring values from a multiple of count on; aligned: rows begin at 16 bytes. */
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
    if (aligned) {
#pragma unroll
        for (int c = 0; c < count / 4; c++) {
            uint2 words = ((const uint2 *)((const uint16_t *)x + i))[c];
            uint32_t w[2] = {words.x, words.y};
#pragma unroll
            for (int e = 0; e < 4; e++) {
                uint32_t bits = w[e / 2] >> 16 * (e & 1) & 0xffffu;
                v[4 * c + e] = dtype == OPREG_F16 ? f16_value(bits) : float_of(bits << 16);
            }
        }
        return;
    }
#pragma unroll
    for (int c = 0; c < count; c++) {
        v[c] = canonical_load(x, i + c, dtype);
    }
}

/* Quantization as quantize.cuh does it, in fewer instructions: conversions by adding a power of two,
 * whose last bit is 1.  Values that do not count, of blocks without a scale, may come out as any. */
DEVICE uint32_t pack_low_bytes(const int *code) {
    return permute(permute((uint32_t)code[0], (uint32_t)code[1], 0x0040u),
                   permute((uint32_t)code[2], (uint32_t)code[3], 0x0040u), 0x5410u);
}

/* Four codes a lane, eight lanes a block of 32; *sum is the block's where it is asked for. */
template <bool sums>
DEVICE void quantize_q8_0_by4(const float *v, uint32_t *codes, float *scale, int32_t *sum) {
    uint32_t largest = 0;
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
    float exact = CANONICAL_DIV(float_of(largest), 127.0f), inverse = __frcp_rn(exact);
    bool none = largest >= 0x7f800000u || bits_of(inverse) == 0x7f800000u;
#pragma unroll
    for (int i = 0; i < 4; i++) { /* the nearest integer, halves away from 0 */
        float product = v[i] * inverse, m = float_of(magnitude_of(product));
        int whole = (int)bits_of(__fadd_rz(__fadd_rz(m, 0.5f), 0x1p23f)) - 0x4b000000;
        code[i] = none ? 0 : product < 0.0f ? -whole : whole;
    }
    *scale = __half2float(__float2half_rn(exact));
    if (none) {
        *scale = largest >= 0x7f800000u ? float_of(0x7fc00000u) : 0.0f;
    }
    *codes = pack_low_bytes(code);
    if (sums) {
        *sum = code[0] + code[1] + code[2] + code[3];
#pragma unroll
        for (int s = 1; s < 8; s <<= 1) {
            *sum += wave_xor(*sum, s);
        }
    }
}

/* Eight codes a lane, the whole wave a block of 256. */
DEVICE quantized8 quantize_q8_k_by8(const float *v) {
    quantized8 out;
    int code[8];
    uint32_t mine = 0;
    float first = 0.0f;
#pragma unroll
    for (int i = 0; i < 8; i++) {
        uint32_t m = magnitude_of(v[i]);
        first = m > mine ? v[i] : first;
        mine = m > mine ? m : mine;
    }
    uint32_t largest = __reduce_max_sync(0xffffffffu, mine);
    float max = wave_read(first, first_bit(wave_ballot(mine == largest)));
    float inverse = CANONICAL_DIV(-127.0f, max);
    bool none = largest >= 0x7f800000u || magnitude_of(inverse) >= 0x7f800000u;
#pragma unroll
    for (int i = 0; i < 8; i++) {
        int near = (int)bits_of(v[i] * inverse + 0x1.8p23f) - 0x4b400000;
        code[i] = none ? 0 : near > 127 ? 127 : near;
    }
    out.scale = __frcp_rn(inverse);
    if (none) {
        out.scale = largest >= 0x7f800000u ? float_of(0x7fc00000u) : 0.0f;
    }
    out.low = pack_low_bytes(code);
    out.high = pack_low_bytes(code + 4);
    out.sum = code[0] + code[1] + code[2] + code[3] + code[4] + code[5] + code[6] + code[7];
    return out;
}

/* The order of 32 codes that goes with nibbles as they are stored: word 2i + h has codes 4i + 2h,
 * 16 + 4i + 2h, and the next of each.  One word a lane, in order; gives the lane's new word of the
 * block's eight and which one it is. */
DEVICE uint32_t cross_by4(uint32_t codes, uint32_t *word) {
    uint32_t lane = lane_index() % 8u, other = wave_xor(codes, 4);
    *word = lane < 4u ? 2u * lane : 2u * lane - 7u;
    return lane < 4u ? permute(codes, other, 0x5140u) : permute(other, codes, 0x7362u);
}

/* Two words a lane. */
DEVICE uint2 cross_by8(uint2 codes, uint32_t *pair) {
    uint32_t lane = lane_index() % 4u, x = wave_xor(codes.x, 2), y = wave_xor(codes.y, 2);
    uint32_t low = lane < 2u ? codes.x : y, high = lane < 2u ? x : codes.y;
    *pair = lane < 2u ? 2u * lane : 2u * lane - 3u;
    return make_uint2(permute(low, high, 0x5140u), permute(low, high, 0x7362u));
}

/* A lane's elements of group u of a row of x that does not come as planes; zeros past the row's end. */
template <class F>
DEVICE void load_x_group(const matmul_args &a, int64_t row, bool aligned, uint32_t u, float *v) {
    constexpr int count = F::values / 32;
    int64_t first = row * a.x_stride + (int64_t)u * F::values;
    if (!has_unit<F>((uint32_t)a.k - u * (uint32_t)F::values, lane_index() / 8u)) {
#pragma unroll
        for (int i = 0; i < count; i++) {
            v[i] = 0.0f;
        }
        return;
    }
    load_values<count>(a.x, first + lane_index() * count, a.x_dtype, aligned, v);
}

/* Puts group u of planes into shared memory; the whole wave.  crossed: see cross_by4. */
template <class F, int order>
DEVICE void keep_planes(const matmul_args &a, int64_t row, uint32_t u, const x_shared &s) {
    uint32_t lane = lane_index(), left = (uint32_t)a.k - u * (uint32_t)F::values;
    const uint32_t *codes = (const uint32_t *)((const int8_t *)a.x + row * a.k) +
                            (int64_t)u * (F::values / 4);
#pragma unroll
    for (int c = 0; c < F::values / 128; c++) {
        uint32_t word = has_unit<F>(left, lane / 8u) ? codes[c * 32 + lane] : 0u, at = lane % 8u;
        if (order == X_CROSSED) {
            word = cross_by4(word, &at);
        } else if (order == X_HALVES) {
            at = (at & 1u) * 4u + at / 2u;
        }
        ((uint32_t *)(s.codes + (int64_t)u * F::values))[c * 32 + lane / 8u * 8u + at] = word;
    }
    constexpr int scales = F::values / F::unit;
    if (lane < scales) {
        s.scales[u * scales + lane] =
            has_unit<F>(left, lane) ? a.scales[row * (a.k / F::unit) + u * scales + lane] : 0.0f;
    }
    if (F::min_sub != 0) {
        constexpr int sums = F::values / (F::min_sub != 0 ? F::min_sub : 1);
        constexpr int each = (F::min_sub != 0 ? F::min_sub : 16) / 16;
        if (lane < sums) {
            const int16_t *from = a.sums + row * (a.k / 16) + u * (F::values / 16) + lane * each;
            bool there = has_unit<F>(left, lane);
            s.sums[u * sums + lane] =
                there ? (int16_t)(each == 2 ? from[0] + from[each - 1] : from[0]) : (int16_t)0;
        }
    }
}

/* The same from a lane's elements, which are quantized. */
template <class F, int order>
DEVICE void keep_values(uint32_t u, const float *v, const x_shared &s) {
    uint32_t lane = lane_index();
    if (F::unit == 256) {
        quantized8 q = quantize_q8_k_by8(v);
        uint2 pair = make_uint2(q.low, q.high);
        uint32_t at = lane % 4u;
        if (order == X_CROSSED) {
            pair = cross_by8(pair, &at);
        }
        if (order == X_HALVES) {
            uint32_t *words = (uint32_t *)(s.codes + (int64_t)u * 256) + lane / 4u * 8u + at;
            words[0] = pair.x, words[4] = pair.y;
        } else {
            ((uint2 *)(s.codes + (int64_t)u * 256))[lane / 4u * 4u + at] = pair;
        }
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
        float scale;
        uint32_t codes, at = lane % 8u;
        int32_t sum = 0;
        quantize_q8_0_by4<F::min_sub != 0>(v, &codes, &scale, &sum);
        if (order == X_CROSSED) {
            codes = cross_by4(codes, &at);
        }
        ((uint32_t *)(s.codes + (int64_t)u * 128))[lane / 8u * 8u + at] = codes;
        if (lane % 8u == 0u) {
            s.scales[u * 4 + lane / 8] = scale;
            if (F::min_sub != 0) {
                s.sums[u * 4 + lane / 8] = (int16_t)sum;
            }
        }
    }
}

/* Brings group u of a row of x to shared memory; the whole wave. */
template <class F, int order>
DEVICE void bring_group(const matmul_args &a, int64_t row, bool aligned, uint32_t u,
                        const x_shared &s) {
    if (a.scales != 0) {
        keep_planes<F, order>(a, row, u, s);
        return;
    }
    float v[F::values / 32];
    load_x_group<F>(a, row, aligned, u, v);
    keep_values<F, order>(u, v, s);
}

/* A wave's first groups of x, every wave's one after another's, all asked for before the first is quantized. */
template <class F, uint32_t count> struct first_values {
    float v[count][F::values / 32];

    __device__ __forceinline__ void load(const matmul_args &a, uint32_t groups) {
        bool aligned = ((uintptr_t)a.x & 15u) == 0u;
#pragma unroll
        for (uint32_t i = 0; i < count; i++) {
            uint32_t u = wave_index() + i * (thread_count() / 32u);
            if (u < groups) {
                load_x_group<F>(a, 0, aligned, u, v[i]);
            }
        }
    }
    template <int order> __device__ __forceinline__ void keep(uint32_t groups, const x_shared &x) {
#pragma unroll
        for (uint32_t i = 0; i < count; i++) {
            uint32_t u = wave_index() + i * (thread_count() / 32u);
            if (u < groups) {
                keep_values<F, order>(u, v[i], x);
            }
        }
    }
};

/* Brings the wave's groups of the only row of x, from number `first` of them on. */
template <class F, int order>
DEVICE void bring_groups(const matmul_args &a, uint32_t groups, uint32_t first, const x_shared &x) {
    uint32_t waves = thread_count() / 32u;
    for (uint32_t u = wave_index() + first * waves; u < groups; u += waves) {
        bring_group<F, order>(a, 0, ((uintptr_t)a.x & 15u) == 0u, u, x);
    }
}

/* Same on the host: the block's shared memory, for so many values of a row. */
template <class F>
DEVICE x_shared x_records(const matmul_args &a, uint32_t values, uint8_t *shared, uint32_t *end) {
    x_shared x;
    int64_t k = F::unit == 256 ? a.k : (int64_t)values;
    uint32_t at = (uint32_t)k;
    x.codes = shared;
    x.scales = (float *)(shared + at);
    at += (uint32_t)(k / F::unit) * 4u;
    at = (at + 15u) & ~15u;
    x.sums = (int16_t *)(shared + at);
    at += F::min_sub != 0 ? (uint32_t)(k / (F::min_sub != 0 ? F::min_sub : 1)) * 2u : 0u;
    *end = (at + 15u) & ~15u;
    return x;
}

#endif /* OPREG_SM90_ROWS32_X_CUH */
