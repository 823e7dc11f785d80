/* SPDX-License-Identifier: MIT
 * plain_emulation.cu - what the staged kernels of down are measured against: the same loop over
 * rows with byte-selecting multiply-adds, one (VMAD) a weight, on levels looked up by byte
 * permutes.  Only compiled and counted (count_sass.py), never run. */
#include "sm60_device.h"

/* Sixteen signed levels in four words; codes: four nibbles. */
DEVICE uint32_t look_up(uint32_t codes) {
    uint32_t low = permute(0xbfad9881u, 0xf6eaddcfu, codes & 0x7777u);
    uint32_t high = permute(0x26190d01u, 0x71594535u, codes & 0x7777u);
    return permute(low, high, (codes >> 1 & 0x4444u) | 0x3210u);
}

KERNEL plain_iq4_nl(const uint32_t *x, float *y, uint32_t rows, float yd) {
    extern __shared__ uint16_t tile[];
    const uint16_t *block = tile + 9u * thread_index();
    uint32_t q[8];
    for (uint32_t i = 0; i < 8u; i++) {
        q[i] = x[8u * thread_index() + i];
    }
#pragma unroll 1
    for (uint32_t r = 0; r < rows; r++) {
        int32_t sum = 0;
#pragma unroll
        for (uint32_t i = 0; i < 8u; i++) {
            sum = dot4(look_up(block[1u + i]), q[i], sum);
        }
        *y = float_of_half(block[0]) * yd * (float)sum;
        block += 180;
        y += 21;
    }
}

KERNEL plain_q2_0(const uint32_t *x, float *y, uint32_t rows, float yd, int32_t codes_sum) {
    extern __shared__ uint16_t tile[];
    const uint16_t *block = tile + 9u * (thread_index() / 2u), *codes = block + 1;
    uint32_t q[8];
    codes += 4u * (thread_index() & 1u);
    for (uint32_t i = 0; i < 8u; i++) {
        q[i] = x[8u * thread_index() + i];
    }
#pragma unroll 1
    for (uint32_t r = 0; r < rows; r++) {
        int32_t sum = -codes_sum;
#pragma unroll
        for (uint32_t i = 0; i < 2u; i++) {
            uint32_t w = two_halves(codes[2u * i], codes[2u * i + 1u]);
#pragma unroll
            for (uint32_t j = 0; j < 4u; j++) {
                sum = dot4(w >> 2u * j & 0x03030303u, q[4u * i + j], sum);
            }
        }
        *y = float_of_half(block[0]) * yd * (float)sum;
        block += 180;
        codes += 180;
        y += 41;
    }
}
