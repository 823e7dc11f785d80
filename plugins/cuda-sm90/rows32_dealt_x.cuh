/* SPDX-License-Identifier: MIT
 * rows32_dealt_x.cuh - a row of x quantized by one wave to records in shared memory, several runs of 256
 * values at once: their maxima first, then all their scales in one division. */
#ifndef OPREG_SM90_ROWS32_DEALT_X_CUH
#define OPREG_SM90_ROWS32_DEALT_X_CUH

#include "records_args.h"
#include "rows32_x.cuh"

#define DEALT_RUNS 4 /* at once                                                                    */

/* The groups of a row that are the block's: rank, rank + parts, .. */
struct own_groups {
    uint32_t rank, parts, count;
};

/* The lane's eight values of a run of a group (units of 256) or two (units of 32): which of the block's
 * groups, and from which of its values on. */
template <class F> struct run_place {
    uint32_t group, at;
    __device__ __forceinline__ run_place(uint32_t run) {
        uint32_t lane = lane_index();
        group = F::unit == 256 ? run : 2u * run + lane / 16u;
        at = (F::unit == 256 ? lane : lane % 16u) * 8u;
    }
    __device__ __forceinline__ uint8_t *record(uint8_t *records) const {
        return records + group * (F::unit == 256 ? RECORD256_BYTES : RECORD32_BYTES);
    }
    /* Where the values begin in the row. */
    __device__ __forceinline__ int64_t k(const own_groups &own) const {
        return (int64_t)(own.rank + own.parts * group) * F::values + at;
    }
};

/* order: of a record's words, as rows32_x.cuh has it; sum: of the lane's codes, where the format has
 * mins. */
template <class F, int order>
DEVICE void put_codes(uint8_t *records, const own_groups &own, uint32_t run, uint32_t low,
                      uint32_t high, int32_t sum) {
    run_place<F> place(run);
    uint8_t *record = place.record(records);
    if (F::min_sub != 0) {
        sum += wave_xor(sum, 1);
        sum += F::unit == 32 ? wave_xor(sum, 2) : 0;
    }
    if (place.group >= own.count) {
        return;
    }
    if (order == X_HALVES) {
        uint32_t *words = (uint32_t *)(record + place.at / 32u * 32u) + place.at / 8u % 4u;
        words[0] = low, words[4] = high;
    } else {
        *(uint2 *)(record + place.at) = make_uint2(low, high);
    }
    if (F::min_sub != 0 && F::unit == 256 && place.at % 16u == 0u) {
        *(uint16_t *)(record + RECORD256_SUMS + place.at / 8u) = __half_as_ushort(__int2half_rn(sum));
    }
    if (F::min_sub != 0 && F::unit == 32 && place.at % 32u == 0u) {
        *(float *)(record + RECORD32_SUMS + place.at / 8u) = (float)sum;
    }
}

/* By all lanes of the unit. */
template <class F>
DEVICE void put_scale(uint8_t *records, const own_groups &own, uint32_t run, float scale) {
    run_place<F> place(run);
    uint32_t at = F::unit == 256 ? RECORD256_SCALE : RECORD32_SCALES + place.at / 32u * 4u;
    if (place.group < own.count) {
        *(float *)(place.record(records) + at) = scale;
    }
}

/* A scale and what values are multiplied by: NaN where codes are 0. */
struct run_scale {
    float scale, inverse;
};

/* largest: in size, max: the first value of that size; as quantize.cuh has it. */
template <class F> DEVICE run_scale scale_of(float largest, float max) {
    run_scale s;
    bool none = bits_of(largest) >= 0x7f800000u;
    if (F::unit == 256) {
        s.inverse = CANONICAL_DIV(-127.0f, max);
        none = none || magnitude_of(s.inverse) >= 0x7f800000u;
        s.scale = __frcp_rn(s.inverse);
    } else {
        float exact = CANONICAL_DIV(largest, 127.0f);
        s.inverse = __frcp_rn(exact);
        none = none || bits_of(s.inverse) == 0x7f800000u;
        s.scale = __half2float(__float2half_rn(exact));
    }
    if (none) {
        s.scale = bits_of(largest) >= 0x7f800000u ? float_of(0x7fc00000u) : 0.0f;
        s.inverse = float_of(0x7fc00000u);
    }
    return s;
}

/* The largest of the lane's unit in size, and the first value of that size (units of 256). */
template <class F> DEVICE void largest_of(const float *v, float *largest, float *max) {
    uint32_t mine = 0;
    float first = 0.0f;
#pragma unroll
    for (int i = 0; i < 8; i++) {
        uint32_t m = magnitude_of(v[i]);
        first = m > mine ? v[i] : first;
        mine = m > mine ? m : mine;
    }
    if (F::unit == 256) {
        uint32_t most = __reduce_max_sync(0xffffffffu, mine);
        *max = wave_read(first, first_bit(wave_ballot(mine == most)));
        *largest = float_of(most);
    } else {
#pragma unroll
        for (int s = 1; s < 4; s <<= 1) {
            uint32_t other = wave_xor(mine, s);
            mine = other > mine ? other : mine;
        }
        *max = *largest = float_of(mine);
    }
}

/* The code of a value; see quantize_q8_k_by8 and quantize_q8_0_by4 for how. */
template <class F> DEVICE int code_of(float value, float inverse) {
    float product = value * inverse;
    if (F::unit == 256) {
        int near = (int)bits_of(product + 0x1.8p23f) - 0x4b400000;
        return inverse != inverse ? 0 : near > 127 ? 127 : near;
    }
    float m = float_of(magnitude_of(product));
    int whole = (int)bits_of(__fadd_rz(__fadd_rz(m, 0.5f), 0x1p23f)) - 0x4b000000;
    return inverse != inverse ? 0 : product < 0.0f ? -whole : whole;
}

/* Runs first, first + step, .. of a row's elements; PLAIN: f32 at a multiple of 16 bytes. */
template <class F, int order, bool PLAIN>
DEVICE void bring_runs(const matmul_args &a, int64_t row, bool aligned, const own_groups &own,
                       uint32_t first, uint32_t step, uint8_t *records) {
    constexpr uint32_t shared_by = F::unit == 256 ? 32 : 4; /* lanes of a unit                       */
    uint32_t own_run = lane_index() % shared_by % DEALT_RUNS;
    float v[DEALT_RUNS][8], largest = 0.0f, max = 0.0f;
#pragma unroll
    for (uint32_t r = 0; r < DEALT_RUNS; r++) {
        run_place<F> place(first + r * step);
        int64_t k = place.k(own);
        if (place.group < own.count && k < a.k) {
            load_values<8>(a.x, row * a.x_stride + k, PLAIN ? (uint32_t)OPREG_F32 : a.x_dtype,
                           PLAIN || aligned, v[r]);
        } else {
#pragma unroll
            for (int i = 0; i < 8; i++) {
                v[r][i] = 0.0f;
            }
        }
    }
#pragma unroll
    for (uint32_t r = 0; r < DEALT_RUNS; r++) {
        float l, m;
        largest_of<F>(v[r], &l, &m);
        largest = own_run == r ? l : largest;
        max = own_run == r ? m : max;
    }
    run_scale mine = scale_of<F>(largest, max);
    if (lane_index() % shared_by < DEALT_RUNS) {
        put_scale<F>(records, own, first + own_run * step, mine.scale);
    }
#pragma unroll
    for (uint32_t r = 0; r < DEALT_RUNS; r++) {
        float inverse = wave_read(mine.inverse, (int)(lane_index() / shared_by * shared_by + r));
        int code[8];
#pragma unroll
        for (int i = 0; i < 8; i++) {
            code[i] = code_of<F>(v[r][i], inverse);
        }
        put_codes<F, order>(records, own, first + r * step, pack_low_bytes(code), pack_low_bytes(code + 4),
                     code[0] + code[1] + code[2] + code[3] + code[4] + code[5] + code[6] + code[7]);
    }
}

/* The same of a row that came quantized. */
template <class F, int order>
DEVICE void bring_planes(const matmul_args &a, int64_t row, const own_groups &own, uint32_t run,
                         uint8_t *records) {
    run_place<F> place(run);
    int64_t k = place.k(own);
    bool there = place.group < own.count && k < a.k;
    uint2 codes = there ? *(const uint2 *)((const int8_t *)a.x + row * a.k + k) : make_uint2(0u, 0u);
    float scale = there ? a.scales[(row * a.k + k) / F::unit] : 0.0f;
    put_scale<F>(records, own, run, scale);
    put_codes<F, order>(records, own, run, codes.x, codes.y,
                 dot4(codes.x, 0x01010101u, dot4(codes.y, 0x01010101u, 0)));
}

#endif /* OPREG_SM90_ROWS32_DEALT_X_CUH */
