/* SPDX-License-Identifier: MIT
 * rows32_records.cu - quantizes x to the records of records_args.h, or puts given planes there. */
#include "quantize.cuh"
#include "records_args.h"

DEVICE uint16_t half_of_integer(int32_t value) {
    uint16_t half;
    asm("cvt.rn.f16.s32 %0, %1;" : "=h"(half) : "r"(value));
    return half;
}

/* Eight neighbouring values a lane. */
DEVICE void load_eight(const records_args &a, int64_t at, float *v) {
    if (a.x_dtype == OPREG_F32 && ((uintptr_t)((const float *)a.x + at) & 15u) == 0u) {
        float4 low = ((const float4 *)((const float *)a.x + at))[0];
        float4 high = ((const float4 *)((const float *)a.x + at))[1];
        v[0] = low.x, v[1] = low.y, v[2] = low.z, v[3] = low.w;
        v[4] = high.x, v[5] = high.y, v[6] = high.z, v[7] = high.w;
        return;
    }
#pragma unroll
    for (int i = 0; i < 8; i++) {
        v[i] = canonical_load(a.x, at + i, a.x_dtype);
    }
}

/* The lane's part of a given plane. */
DEVICE quantized8 load_planes(const records_args &a, int64_t row, int64_t first) {
    uint2 codes = *(const uint2 *)((const int8_t *)a.x + row * a.k + first);
    quantized8 q = {codes.x, codes.y, a.scales[(row * a.k + first) / a.unit], 0};
    q.sum = dot4(codes.x, 0x01010101u, dot4(codes.y, 0x01010101u, 0));
    return q;
}

/* Where the lane's eight codes, its sum or scale of a row go. */
struct record_place {
    uint8_t *codes, *sums, *scale;
};

DEVICE int64_t block_of(int64_t row, int64_t group, int64_t groups) {
    constexpr int each = BLOCKS_TOGETHER;
    return (row / (8 * each) * groups + group) * each + row / 8 % each;
}

DEVICE record_place place_of(const records_args &a, int64_t row, int64_t run) {
    uint32_t lane = lane_index();
    record_place p;
    if (a.unit == 256u && a.blocks) {
        uint8_t *block = a.records + block_of(row, run, a.k / 256) * BLOCK256_BYTES;
        uint32_t r = (uint32_t)row % 8u;
        p.codes = block + lane / 2u * BLOCK_PIECE + r * 16u + lane % 2u * 8u;
        p.sums = block + BLOCK256_SUMS + lane / 16u * BLOCK_PIECE + r * 16u + lane / 2u % 8u * 2u;
        p.scale = block + BLOCK256_SCALES + r * 4u;
    } else if (a.unit == 256u) {
        uint8_t *record = a.records + (row * (a.k / 256) + run) * RECORD256_BYTES;
        p.codes = record + lane * 8u;
        p.sums = record + RECORD256_SUMS + lane / 2u * 2u;
        p.scale = record + RECORD256_SCALE;
    } else {
        uint32_t at = (uint32_t)run * 8u + lane / 4u;
        if (a.blocks) {
            uint8_t *block = a.records + block_of(row, at / 4u, (a.k + 127) / 128) * BLOCK32_BYTES;
            uint32_t r = (uint32_t)row % 8u, slot = at % 4u;
            p.codes = block + (slot * 2u + lane / 2u % 2u) * BLOCK_PIECE + r * 16u + lane % 2u * 8u;
            p.sums = block + BLOCK32_SUMS + slot * 32u + r * 4u;
            p.scale = block + BLOCK32_SCALES + slot * 32u + r * 4u;
        } else {
            uint8_t *record = a.records + (row * ((a.k + 127) / 128) + at / 4u) * RECORD32_BYTES;
            p.codes = record + at % 4u * 32u + lane % 4u * 8u;
            p.sums = record + RECORD32_SUMS + at % 4u * 4u;
            p.scale = record + RECORD32_SCALES + at % 4u * 4u;
        }
    }
    return p;
}

/* One wave a run of 256 values of one row. */
KERNEL KERNEL_THREADS(RECORDS_THREADS) rows32_records(const __grid_constant__ records_args a) {
    uint32_t lane = lane_index();
    int64_t run = (int64_t)block_x() * (RECORDS_THREADS / WAVE) + wave_index();
    int64_t first = run * 256 + lane * 8;
    let_next_launch_start();
    wait_for_launch_ahead();
    int64_t end = a.unit == 256u ? a.k : (a.k + 127) / 128 * 128; /* of the last group             */
    if (run * 256 >= end) {
        return;
    }
    for (int64_t row = block_y(); row < a.padded; row += grid_y()) {
        quantized8 q = {0u, 0u, 0.0f, 0};
        bool given = row < a.m && first < a.k;
        if (a.scales != 0) {
            if (given) {
                q = load_planes(a, row, first);
            }
        } else {
            float v[8];
#pragma unroll
            for (int i = 0; i < 8; i++) {
                v[i] = 0.0f;
            }
            if (given) {
                load_eight(a, row * a.x_stride + first, v);
            }
            q = a.unit == 32u ? quantize_q8_0(v) : quantize_q8_k(v);
        }
        int32_t sum = q.sum + wave_xor(q.sum, 1);
        record_place place = place_of(a, row, run);
        int32_t sum32 = sum + wave_xor(sum, 2);
        if (first >= end) {
            continue;
        }
        *(uint2 *)place.codes = make_uint2(q.low, q.high);
        if (a.unit == 256u) {
            if (lane % 2u == 0u) {
                *(uint16_t *)place.sums = half_of_integer(sum);
            }
            if (lane == 0u) {
                *(float *)place.scale = q.scale;
            }
        } else {
            if (lane % 4u == 0u) {
                *(float *)place.sums = (float)sum32;
                *(float *)place.scale = q.scale;
            }
        }
    }
}
