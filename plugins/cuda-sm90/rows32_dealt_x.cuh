/* SPDX-License-Identifier: MIT
 * rows32_dealt_x.cuh - rows of x quantized to records in shared memory: runs of 256 values of all rows,
 * dealt to a block's waves, several of a wave at once: their maxima first, then all their scales in one
 * division. */
#ifndef OPREG_SM90_ROWS32_DEALT_X_CUH
#define OPREG_SM90_ROWS32_DEALT_X_CUH

#include "records_args.h"
#include "rows32_dealt_args.h"
#include "rows32_x.cuh"

#define DEALT_RUNS  4 /* at once                                                                   */
#define DEALT_WAVES (DEALT_THREADS / 32u)

/* The groups of a row that are the block's: rank, rank + DEALT_PARTS, .. */
struct own_groups {
    uint32_t rank, count;
};

/* Where columns' records are in shared memory: `apart` bytes from one column to the next, 1 << bits of
 * them. */
struct dealt_records {
    uint32_t at, apart, bits;
};

/* The lane's eight values of run i: column i % columns, from `at` on of the block's group `group`. */
template <class F> struct run_place {
    uint32_t column, group, at;
    __device__ __forceinline__ run_place(const dealt_records &records, uint32_t i) {
        uint32_t lane = lane_index(), run = i >> records.bits;
        column = i & ((1u << records.bits) - 1u);
        group = F::unit == 256 ? run : 2u * run + lane / 16u;
        at = (F::unit == 256 ? lane : lane % 16u) * 8u;
    }
    __device__ __forceinline__ uint32_t record(const dealt_records &records) const {
        return records.at + column * records.apart +
               group * (F::unit == 256 ? RECORD256_BYTES : RECORD32_BYTES);
    }
    /* Where the values begin in the row. */
    __device__ __forceinline__ uint32_t k(const own_groups &own) const {
        return (own.rank + DEALT_PARTS * group) * F::values + at;
    }
    __device__ __forceinline__ bool there(const matmul_args &a, const own_groups &own) const {
        return column < (uint32_t)a.m && group < own.count &&
               (F::unit == 256 || k(own) < (uint32_t)a.k);
    }
};

DEVICE void put_shared(uint32_t at, uint32_t v) {
    asm volatile("st.shared.u32 [%0], %1;" ::"r"(at), "r"(v) : "memory");
}
DEVICE void put_shared(uint32_t at, uint2 v) {
    asm volatile("st.shared.v2.u32 [%0], {%1, %2};" ::"r"(at), "r"(v.x), "r"(v.y) : "memory");
}
DEVICE void put_shared(uint32_t at, uint16_t v) {
    asm volatile("st.shared.u16 [%0], %1;" ::"r"(at), "h"(v) : "memory");
}

/* order: of a record's words, as rows32_x.cuh has it. */
template <class F, int order>
DEVICE void put_codes(const dealt_records &records, const own_groups &own, uint32_t i, uint32_t low,
                      uint32_t high) {
    run_place<F> place(records, i);
    uint32_t record = place.record(records);
    int32_t sum = 0;
    if (F::min_sub != 0) {
        sum = dot4(low, 0x01010101u, dot4(high, 0x01010101u, 0));
        sum += wave_xor(sum, 1);
        sum += F::unit == 32 ? wave_xor(sum, 2) : 0;
    }
    if (F::unit == 32 && place.group >= own.count) {
        return;
    }
    if (order == X_HALVES) {
        uint32_t word = record + place.at / 32u * 32u + place.at / 8u % 4u * 4u;
        put_shared(word, low);
        put_shared(word + 16u, high);
    } else {
        put_shared(record + place.at, make_uint2(low, high));
    }
    if (F::min_sub != 0 && F::unit == 256 && place.at % 16u == 0u) {
        put_shared(record + RECORD256_SUMS + place.at / 8u, __half_as_ushort(__int2half_rn(sum)));
    }
    if (F::min_sub != 0 && F::unit == 32 && place.at % 32u == 0u) {
        put_shared(record + RECORD32_SUMS + place.at / 8u, bits_of((float)sum));
    }
}

/* By a lane of the unit. */
template <class F>
DEVICE void put_scale(const dealt_records &records, const own_groups &own, uint32_t i, float scale) {
    run_place<F> place(records, i);
    uint32_t at = F::unit == 256 ? RECORD256_SCALE : RECORD32_SCALES + place.at / 32u * 4u;
    if (place.group < own.count) {
        put_shared(place.record(records) + at, bits_of(scale));
    }
}

/* A scale and what values are multiplied by: 0 where it says nothing of them. */
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
        s.inverse = 0.0f;
    }
    asm volatile("" : "+f"(s.scale), "+f"(s.inverse)); /* once                                      */
    return s;
}

/* The first value of the wave's 256 that is `largest` in size. */
DEVICE float first_of_size(const float *v, uint32_t largest) {
    float first = 0.0f;
    bool mine = false;
#pragma unroll
    for (int i = 7; i >= 0; i--) {
        bool is = magnitude_of(v[i]) == largest;
        first = is ? v[i] : first;
        mine = mine || is;
    }
    return wave_read(first, first_bit(wave_ballot(mine)));
}

/* The largest of the lane's unit in size, and the first value of that size (units of 256).  Bits of
 * floats compare as integers do: signed ones find the largest above 0, unsigned ones the one farthest
 * below it. */
template <class F> DEVICE void largest_of(const float *v, float *largest, float *max) {
    if (F::unit == 256) {
        int32_t b[8];
#pragma unroll
        for (int i = 0; i < 8; i++) {
            b[i] = (int32_t)bits_of(v[i]);
        }
        int32_t above = __vimax3_s32(__vimax3_s32(b[0], b[1], b[2]), b[3], b[4]);
        uint32_t below = __vimax3_u32(__vimax3_u32((uint32_t)b[0], (uint32_t)b[1], (uint32_t)b[2]),
                                      (uint32_t)b[3], (uint32_t)b[4]);
        above = __vimax3_s32(__vimax3_s32(above, b[5], b[6]), b[7], 0);
        below = __vimax3_u32(__vimax3_u32(below, (uint32_t)b[5], (uint32_t)b[6]), (uint32_t)b[7],
                             0x80000000u);
        uint32_t high = __reduce_max_sync(0xffffffffu, (uint32_t)above);
        uint32_t low = __reduce_max_sync(0xffffffffu, below) & 0x7fffffffu;
        *largest = float_of(high > low ? high : low);
        *max = high > low ? float_of(high) : -float_of(low);
        if (high == low) {
            *max = first_of_size(v, high);
        }
    } else {
        float most = 0.0f;
#pragma unroll
        for (int i = 0; i < 8; i++) { /* NaN if one is                                              */
            asm("max.NaN.f32 %0, %1, %2;" : "=f"(most) : "f"(most), "f"(float_of(magnitude_of(v[i]))));
        }
        uint32_t mine = bits_of(most);
#pragma unroll
        for (int s = 1; s < 4; s <<= 1) {
            uint32_t other = wave_xor(mine, s);
            mine = other > mine ? other : mine;
        }
        *max = *largest = float_of(mine);
    }
}

/* The code of a value in the last byte; see quantize_q8_k_by8 and quantize_q8_0_by4 for how.  No product
 * is above 127 by more than its rounding; those that are none belong to units whose scale is NaN. */
template <class F> DEVICE int code_of(float value, float inverse) {
    float product = value * inverse;
    if (F::unit == 256) {
        return (int)bits_of(product + 0x1.8p23f);
    }
    float m = float_of(magnitude_of(product));
    m = __fadd_rz(__fadd_rz(m, 0.5f), 0x1p23f) - 0x1p23f;
    return (int)bits_of(float_of(bits_of(m) | (bits_of(product) & 0x80000000u)) + 0x1.8p23f);
}

/* Where the lane's values of runs first, first + DEALT_WAVES, .. begin in x; -1: nowhere. */
template <class F>
DEVICE void find_runs(const matmul_args &a, const own_groups &own, const dealt_records &records,
                      uint32_t first, int64_t *at) {
#pragma unroll
    for (uint32_t r = 0; r < DEALT_RUNS; r++) {
        run_place<F> place(records, first + r * DEALT_WAVES);
        at[r] = place.there(a, own) ? place.column * a.x_stride + place.k(own) : -1;
        asm volatile("" : "+l"(at[r])); /* now, not when they are asked for                          */
    }
}

/* PLAIN: f32 at a multiple of 16 bytes. */
template <bool PLAIN>
DEVICE void load_runs(const matmul_args &a, bool aligned, const int64_t *at, float (*v)[8]) {
#pragma unroll
    for (uint32_t r = 0; r < DEALT_RUNS; r++) {
        if (at[r] >= 0) {
            load_values<8>(a.x, at[r], PLAIN ? (uint32_t)OPREG_F32 : a.x_dtype, PLAIN || aligned,
                           v[r]);
        } else {
#pragma unroll
            for (int i = 0; i < 8; i++) {
                v[r][i] = 0.0f;
            }
        }
    }
}

/* The same runs' records; all: the number of runs. */
template <class F, int order>
DEVICE void put_runs(const own_groups &own, const dealt_records &records, uint32_t first,
                     uint32_t all, const float (*v)[8]) {
    constexpr uint32_t shared_by = F::unit == 256 ? 32 : 4; /* lanes of a unit                       */
    uint32_t own_run = lane_index() % shared_by % DEALT_RUNS;
    float largest = 1.0f, max = 1.0f;
#pragma unroll
    for (uint32_t r = 0; r < DEALT_RUNS; r++) {
        if (first + r * DEALT_WAVES < all) {
            float l, m;
            largest_of<F>(v[r], &l, &m);
            largest = own_run == r ? l : largest;
            max = own_run == r ? m : max;
        }
    }
    run_scale mine = scale_of<F>(largest, max);
    if (lane_index() % shared_by < DEALT_RUNS && first + own_run * DEALT_WAVES < all) {
        put_scale<F>(records, own, first + own_run * DEALT_WAVES, mine.scale);
    }
#pragma unroll
    for (uint32_t r = 0; r < DEALT_RUNS; r++) {
        if (first + r * DEALT_WAVES < all) {
            float inverse = wave_read(mine.inverse, (int)(lane_index() / shared_by * shared_by + r));
            int code[8];
#pragma unroll
            for (int i = 0; i < 8; i++) {
                code[i] = code_of<F>(v[r][i], inverse);
            }
            put_codes<F, order>(records, own, first + r * DEALT_WAVES, pack_low_bytes(code),
                                pack_low_bytes(code + 4));
        }
    }
}

/* The same of x that came quantized. */
template <class F, int order>
DEVICE void bring_planes(const matmul_args &a, const own_groups &own, const dealt_records &records,
                         uint32_t i) {
    run_place<F> place(records, i);
    bool there = place.there(a, own);
    int64_t at = place.column * a.k + place.k(own);
    uint2 codes = there ? *(const uint2 *)((const int8_t *)a.x + at) : make_uint2(0u, 0u);
    float scale = there ? a.scales[at / F::unit] : 0.0f;
    if (lane_index() % (F::unit == 256 ? 32 : 4) == 0u) {
        put_scale<F>(records, own, i, scale);
    }
    put_codes<F, order>(records, own, i, codes.x, codes.y);
}

#endif /* OPREG_SM90_ROWS32_DEALT_X_CUH */
