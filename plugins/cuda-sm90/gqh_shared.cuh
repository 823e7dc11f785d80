/* SPDX-License-Identifier: MIT
 * gqh_shared.cuh - what the kernels over GQH weights share: loads, look-ups, copies of x. */
#ifndef OPREG_SM90_GQH_SHARED_CUH
#define OPREG_SM90_GQH_SHARED_CUH

#include "device.h"

#include "canonical.h"
#include "formats/tables/gqh2c_codebook.h"
#include "gqh_shared_args.h"

/* The wave's number, as all its lanes are told it. */
DEVICE uint32_t gqh_wave() { return wave_read(wave_index(), 0); }

/* Loads that stay where they are written, ahead of the work on the weights before. */
DEVICE uint2 weights8(const uint8_t *p) {
    uint2 v;
    asm volatile("ld.global.L1::no_allocate.v2.u32 {%0, %1}, [%2];" : "=r"(v.x), "=r"(v.y) : "l"(p));
    return v;
}
DEVICE uint32_t weights4(const uint8_t *p) {
    uint32_t v;
    asm volatile("ld.global.u32 %0, [%1];" : "=r"(v) : "l"(p));
    return v;
}
DEVICE uint32_t weights2(const uint8_t *p) {
    uint16_t v;
    asm volatile("ld.global.u16 %0, [%1];" : "=h"(v) : "l"(p));
    return v;
}
DEVICE uint32_t weights1(const uint8_t *p) {
    uint32_t v;
    asm volatile("ld.global.u8 %0, [%1];" : "=r"(v) : "l"(p));
    return v;
}

DEVICE uint4 weights16(const uint8_t *p) {
    uint4 v;
    asm volatile("ld.global.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "l"(p));
    return v;
}
DEVICE void *shared_at(uint32_t address) { return __cvta_shared_to_generic(address); }

/* Byte k of codes between the ends of slot, which has its lower byte in bits 0 .. 7. */
DEVICE uint32_t gqh_entry(uint32_t codes, int k, uint32_t slot) {
    return __byte_perm(codes, slot, 0x5604u | (uint32_t)k << 4);
}

/* Four magnitudes of a row of GQH2_C's codebook, which fill half an entry of its table. */
DEVICE float4 codebook_half(uint32_t row, uint32_t upper) {
    uint64_t bytes = gqh2c_codebook[row] >> 32 * upper;
    float v[4];
#pragma unroll
    for (int i = 0; i < 4; i++) {
        v[i] = 0x1p-6f * (float)(int)(bytes >> 8 * i & 255u);
    }
    return make_float4(v[0], v[1], v[2], v[3]);
}

/* Eight levels from the entry at `at` of that table, with the signs of number `index`. */
DEVICE void signed_levels(uint32_t at, uint32_t index, float *out) {
    uint32_t signs = index << 1 | ((uint32_t)count_bits(index) & 1u); /* of even parity              */
#pragma unroll
    for (int j = 0; j < 2; j++) {
        float4 v = *(const float4 *)shared_at(at + 128u * (uint32_t)j);
        float four[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
        for (int e = 0; e < 4; e++) {
            uint32_t sign = signs << (31 - 4 * j - e) & 0x80000000u;
            out[4 * j + e] = float_of(bits_of(four[e]) ^ sign);
        }
    }
}

/* Sixteen bytes of x to shared memory; there after copies_wait. */
DEVICE void copy_four(float *to, const float *from) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(
                     (uint32_t)__cvta_generic_to_shared(to)),
                 "l"(from));
}

DEVICE void copies_wait() { asm volatile("cp.async.wait_all;" ::: "memory"); }

#endif /* OPREG_SM90_GQH_SHARED_CUH */
