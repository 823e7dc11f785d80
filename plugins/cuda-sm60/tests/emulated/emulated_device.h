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
