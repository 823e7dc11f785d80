/* SPDX-License-Identifier: MIT
 * sm60_device.h - the instructions that the staged kernels of sm_60 are made of, and what they mean
 * in C for the emulator of the tests. */
#ifndef OPREG_SM60_DEVICE_H
#define OPREG_SM60_DEVICE_H

#include "device.h"

#include "formats/format.h"

#if !defined(OPREG_EMULATED_DEVICE)

#define DYNAMIC_SHARED(name) extern __shared__ uint4 name[]

/* The thread's index, read here and not kept in a register from somewhere before. */
DEVICE uint32_t thread_again() {
    uint32_t t;
    asm volatile("mov.u32 %0, %%tid.x;" : "=r"(t));
    return t;
}

DEVICE uint4 read_only(const uint4 *p) {
    return __ldg(p);
}

/* Both halves of l times those of p0, and of h times p1, added to sum: four XMAD. */
DEVICE int32_t halves4(uint32_t l, uint32_t h, uint32_t p0, uint32_t p1, int32_t sum) {
    asm("{\n\t"
        ".reg .u16 la, lb, ha, hb, pa, pb, qa, qb;\n\t"
        "mov.b32 {la, lb}, %1;\n\t"
        "mov.b32 {ha, hb}, %2;\n\t"
        "mov.b32 {pa, pb}, %3;\n\t"
        "mov.b32 {qa, qb}, %4;\n\t"
        "mad.wide.s16 %0, la, pa, %0;\n\t"
        "mad.wide.s16 %0, lb, pb, %0;\n\t"
        "mad.wide.s16 %0, ha, qa, %0;\n\t"
        "mad.wide.s16 %0, hb, qb, %0;\n\t"
        "}"
        : "+r"(sum)
        : "r"(l), "r"(h), "r"(p0), "r"(p1));
    return sum;
}

DEVICE int32_t halves2(uint32_t c, uint32_t p, int32_t sum) {
    asm("{\n\t"
        ".reg .u16 ca, cb, pa, pb;\n\t"
        "mov.b32 {ca, cb}, %1;\n\t"
        "mov.b32 {pa, pb}, %2;\n\t"
        "mad.wide.s16 %0, ca, pa, %0;\n\t"
        "mad.wide.s16 %0, cb, pb, %0;\n\t"
        "}"
        : "+r"(sum)
        : "r"(c), "r"(p));
    return sum;
}

DEVICE uint32_t two_halves(uint32_t low, uint32_t high) {
    return __byte_perm(low, high, 0x5410);
}

/* Bytes of high:low by nibbles of the selector; bit 3 of one: only the byte's sign, eight times.
 * The intrinsic would clear that bit. */
DEVICE uint32_t permute(uint32_t low, uint32_t high, uint32_t selector) {
    uint32_t bytes;
    asm("prmt.b32 %0, %1, %2, %3;" : "=r"(bytes) : "r"(low), "r"(high), "r"(selector));
    return bytes;
}

/* The f16 in the low half of a word, exactly, done here and not before; and the other way round, to
 * nearest even. */
DEVICE float float_of_half(uint32_t half) {
    float f;
    asm volatile("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"((uint16_t)half));
    return f;
}

DEVICE uint32_t half_of(float f) {
    uint16_t half;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(half) : "f"(f));
    return half;
}

/* a * b + c of both halves, f16, rounded once. */
DEVICE uint32_t fma_halves(uint32_t a, uint32_t b, uint32_t c) {
    uint32_t sum;
    asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(sum) : "r"(a), "r"(b), "r"(c));
    return sum;
}

/* The sum of both halves, rounded to f16. */
DEVICE float sum_of_halves(uint32_t w) {
    float sum;
    asm("{\n\t"
        ".reg .f16 a, b;\n\t"
        "mov.b32 {a, b}, %1;\n\t"
        "add.rn.f16 a, a, b;\n\t"
        "cvt.f32.f16 %0, a;\n\t"
        "}"
        : "=f"(sum)
        : "r"(w));
    return sum;
}

/* A mask that the compiler does not fuse with what follows: it then takes a shift with an add,
 * which runs at twice the rate of a shift. */
DEVICE uint32_t masked(uint32_t h, uint32_t mask) {
    uint32_t m;
    asm("and.b32 %0, %1, %2;" : "=r"(m) : "r"(h), "r"(mask));
    return m;
}

#else

#define DYNAMIC_SHARED(name) uint4 *const name = (uint4 *)emulated_shared

DEVICE uint32_t thread_again() {
    return thread_index();
}
DEVICE uint4 read_only(const uint4 *p) {
    return *p;
}
DEVICE uint32_t two_halves(uint32_t low, uint32_t high) {
    return (low & 0xffffu) | high << 16;
}

DEVICE uint32_t permute(uint32_t low, uint32_t high, uint32_t selector) {
    uint32_t bytes = 0;
    for (uint32_t i = 0; i < 4u; i++) {
        uint32_t n = selector >> 4u * i & 15u, from = n & 4u ? high : low;
        uint32_t byte = from >> 8u * (n & 3u) & 255u;
        bytes |= (n & 8u ? (byte >> 7) * 255u : byte) << 8u * i;
    }
    return bytes;
}

/* Both halves of a times those of b. */
DEVICE int32_t halves2(uint32_t a, uint32_t b, int32_t sum) {
    return sum + (int16_t)a * (int16_t)b + (int16_t)(a >> 16) * (int16_t)(b >> 16);
}
DEVICE int32_t halves4(uint32_t l, uint32_t h, uint32_t p0, uint32_t p1, int32_t sum) {
    return halves2(h, p1, halves2(l, p0, sum));
}

DEVICE float float_of_half(uint32_t half) {
    return f16_to_f32(half & 0xffffu);
}
DEVICE uint32_t half_of(float f) {
    return f32_to_f16(f);
}
/* Rounded twice: no more than close. */
DEVICE uint32_t fma_halves(uint32_t a, uint32_t b, uint32_t c) {
    uint32_t low = half_of(fma_f32(float_of_half(a), float_of_half(b), float_of_half(c)));
    return low |
           half_of(fma_f32(float_of_half(a >> 16), float_of_half(b >> 16), float_of_half(c >> 16)))
               << 16;
}
DEVICE float sum_of_halves(uint32_t w) {
    return float_of_half(half_of(float_of_half(w) + float_of_half(w >> 16)));
}
DEVICE uint32_t masked(uint32_t h, uint32_t mask) {
    return h & mask;
}

#endif

/* The f16 at an even address. */
DEVICE float half_at(const uint8_t *p) {
    return float_of_half(*(const uint16_t *)p);
}

#endif /* OPREG_SM60_DEVICE_H */
