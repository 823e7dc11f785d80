/* SPDX-License-Identifier: MIT
 * emulated_device.h - device.h on the CPU: a block's threads are coroutines that switch at barriers
 * and wave operations, blocks run one after another.  For function, not for speed. */
#ifndef OPREG_EMULATED_DEVICE_H
#define OPREG_EMULATED_DEVICE_H

#include "emulator.h"

#include <string.h>

#define KERNEL static void
#define DEVICE static inline
#define KERNEL_THREADS(threads)
#define KERNEL_THREADS_UP_TO(threads)
#define __launch_bounds__(...)
#define __shared__ static /* one block at a time */

struct uint4 {
    uint32_t x, y, z, w;
};
struct uint2 {
    uint32_t x, y;
};

DEVICE uint32_t thread_index() {
    return emulated->index;
}
DEVICE uint32_t thread_count() {
    return emulated->count;
}
DEVICE uint32_t block_x() {
    return emulated->block[0];
}
DEVICE uint32_t block_y() {
    return emulated->block[1];
}
DEVICE uint32_t block_z() {
    return emulated->block[2];
}
DEVICE uint32_t grid_x() {
    return emulated->grid[0];
}
DEVICE uint32_t grid_y() {
    return emulated->grid[1];
}
DEVICE void let_next_launch_start() {} /* launches run one after another */
DEVICE void wait_for_launch_ahead() {}
DEVICE void block_barrier() {
    emulated_block_barrier();
}
DEVICE void wave_barrier() {
    (void)emulated_exchange(0, 0);
}
DEVICE uint32_t wave_read(uint32_t value, int lane) {
    return emulated_exchange(value, (uint32_t)lane & 31u);
}
DEVICE float wave_read(float value, int lane) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    bits = wave_read(bits, lane);
    memcpy(&value, &bits, sizeof bits);
    return value;
}
DEVICE uint32_t wave_xor(uint32_t value, int mask) {
    return wave_read(value, (int)(emulated->index & 31u) ^ mask);
}
DEVICE int32_t wave_xor(int32_t value, int mask) {
    return (int32_t)wave_xor((uint32_t)value, mask);
}
DEVICE float wave_xor(float value, int mask) {
    return wave_read(value, (int)(emulated->index & 31u) ^ mask);
}
DEVICE uint32_t wave_scalar(uint32_t value, int lane) {
    return wave_read(value, lane);
}
DEVICE float wave_scalar(float value, int lane) {
    return wave_read(value, lane);
}
DEVICE uint32_t wave_uniform(uint32_t value) {
    return value;
}
DEVICE int32_t computed_here(int32_t value) {
    return value;
}
template <class T> DEVICE const T &parameters_again(const T &a) {
    return a;
}
DEVICE int32_t dot4(uint32_t a, uint32_t b, int32_t c) {
    for (int i = 0; i < 32; i += 8) {
        c += (int8_t)(a >> i) * (int8_t)(b >> i);
    }
    return c;
}
DEVICE uint32_t pick_bytes(uint32_t a, uint32_t b, uint32_t selector) {
    uint64_t bytes = (uint64_t)b << 32 | a;
    uint32_t picked = 0;
    for (int i = 0; i < 32; i += 8) {
        picked |= (uint32_t)(bytes >> 8 * (selector >> i & 7u) & 255u) << i;
    }
    return picked;
}
template <int words> DEVICE void load_words(const uint8_t *p, uint32_t *w) {
    memcpy(w, p, 4 * words);
}
DEVICE uint32_t load_half(const uint8_t *p) {
    return (uint32_t)p[0] | (uint32_t)p[1] << 8;
}
DEVICE uint32_t load_byte(const uint8_t *p) {
    return p[0];
}
float emulated_half(uint32_t half);
DEVICE float half_to_float(uint32_t half) {
    return emulated_half(half & 0xffffu);
}
struct byte_tile {
    int32_t c[8];
};
DEVICE uint32_t tile_row(int i) {
    return 2u * (uint32_t)i + (emulated->index >> 4 & 1u);
}
DEVICE void tile_multiply(const uint32_t *a, const uint32_t *b, byte_tile *t) {
    for (uint32_t row = 0; row < 16; row++) {
        for (int w = 0; w < 4; w++) {
            uint32_t from = wave_read(a[w], (int)row);
            if ((row & 1u) == (emulated->index >> 4 & 1u)) {
                t->c[row / 2] = dot4(from, b[w], t->c[row / 2]);
            }
        }
    }
}
#define EXTERN_SHARED(type, name) type *const name = (type *)(void *)emulated_shared
DEVICE uint32_t wave_ballot(bool value) {
    uint32_t bits = (value ? 1u : 0u) << (emulated->index & 31u);
    for (int s = 1; s < 32; s <<= 1) {
        bits |= wave_xor(bits, s);
    }
    return bits;
}
DEVICE int count_bits(uint32_t value) {
    return __builtin_popcount(value);
}
DEVICE int first_bit(uint32_t value) {
    return __builtin_ctz(value);
}
DEVICE uint32_t atomic_add(uint32_t *p, uint32_t value) {
    uint32_t before = *p;
    *p += value;
    return before;
}
DEVICE uint32_t atomic_min(uint32_t *p, uint32_t value) {
    uint32_t before = *p;
    *p = value < before ? value : before;
    return before;
}

#endif /* OPREG_EMULATED_DEVICE_H */
