/* SPDX-License-Identifier: MIT
 * device.h - one wrapper per device intrinsic, with its CUDA and its HIP form, so that kernels of all
 * devices share their sources.  Waves are 32 lanes wide on every device that opreg has. */
#ifndef OPREG_PLUGINS_DEVICE_H
#define OPREG_PLUGINS_DEVICE_H

#include <stdint.h>

#if defined(OPREG_EMULATED_DEVICE) /* tests of plugins */
#include "emulated_device.h"
#elif defined(__CUDACC__)
#define KERNEL extern "C" __global__ void
#define DEVICE static __device__ __forceinline__
#define KERNEL_THREADS(threads) __launch_bounds__(threads)
#define KERNEL_THREADS_UP_TO(threads) __launch_bounds__(threads)

DEVICE uint32_t thread_index() { return threadIdx.x; }
DEVICE uint32_t thread_count() { return blockDim.x; }
DEVICE uint32_t block_x() { return blockIdx.x; }
DEVICE uint32_t block_y() { return blockIdx.y; }
DEVICE uint32_t block_z() { return blockIdx.z; }
DEVICE uint32_t grid_x() { return gridDim.x; }
DEVICE uint32_t grid_y() { return gridDim.y; }
DEVICE void block_barrier() { __syncthreads(); }
DEVICE void wave_barrier() { __syncwarp(); }
DEVICE float wave_xor(float value, int mask) { return __shfl_xor_sync(0xffffffffu, value, mask); }
DEVICE int32_t wave_xor(int32_t value, int mask) {
    return __shfl_xor_sync(0xffffffffu, value, mask);
}
DEVICE uint32_t wave_xor(uint32_t value, int mask) {
    return __shfl_xor_sync(0xffffffffu, value, mask);
}
DEVICE uint32_t wave_ballot(bool value) { return __ballot_sync(0xffffffffu, value); }
DEVICE int count_bits(uint32_t value) { return __popc(value); }
/* Index of the lowest set bit; value is not 0. */
DEVICE int first_bit(uint32_t value) { return __ffs((int)value) - 1; }
/* The value of another lane. */
DEVICE float wave_read(float value, int lane) { return __shfl_sync(0xffffffffu, value, lane); }
DEVICE uint32_t wave_read(uint32_t value, int lane) {
    return __shfl_sync(0xffffffffu, value, lane);
}
/* The value of one lane, the same number in all lanes, which all take part. */
DEVICE float wave_scalar(float value, int lane) { return __shfl_sync(0xffffffffu, value, lane); }
DEVICE uint32_t wave_scalar(uint32_t value, int lane) {
    return __shfl_sync(0xffffffffu, value, lane);
}
/* The f16 in the low 16 bits. */
DEVICE float half_to_float(uint32_t half) {
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"((unsigned short)half));
    return value;
}
/* Signed bytes: c + sum of four products. */
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 610 /* no dp4a: four byte-selecting multiply-adds */
DEVICE int32_t dot4(uint32_t a, uint32_t b, int32_t c) {
    asm("vmad.s32.s32.s32 %0, %1.b0, %2.b0, %0;\n\t"
        "vmad.s32.s32.s32 %0, %1.b1, %2.b1, %0;\n\t"
        "vmad.s32.s32.s32 %0, %1.b2, %2.b2, %0;\n\t"
        "vmad.s32.s32.s32 %0, %1.b3, %2.b3, %0;"
        : "+r"(c)
        : "r"(a), "r"(b));
    return c;
}
#else
DEVICE int32_t dot4(uint32_t a, uint32_t b, int32_t c) { return __dp4a((int)a, (int)b, c); }
#endif
/* Bytes of b:a, picked by the low three bits of each byte of selector: 0..3 of a, 4..7 of b. */
DEVICE uint32_t pick_bytes(uint32_t a, uint32_t b, uint32_t selector) {
    uint32_t pairs = selector | selector >> 4;
    return __byte_perm(a, b, (pairs & 0x77u) | (pairs >> 8 & 0x7700u));
}
/* Little-endian words at any address of global memory. */
template <int words> DEVICE void load_words(const uint8_t *p, uint32_t *w) {
    for (int i = 0; i < words; i++) {
        w[i] = (uint32_t)p[4 * i] | (uint32_t)p[4 * i + 1] << 8 | (uint32_t)p[4 * i + 2] << 16 |
               (uint32_t)p[4 * i + 3] << 24;
    }
}
DEVICE uint32_t load_half(const uint8_t *p) { return (uint32_t)p[0] | (uint32_t)p[1] << 8; }
DEVICE uint32_t load_byte(const uint8_t *p) { return p[0]; }
/* The kernel's only parameter: read again where it is used, not held in registers from the start. */
template <class T> DEVICE const T &parameters_again(const T &a) { return a; }
/* A value that all lanes of the wave share, told to the compiler. */
DEVICE uint32_t wave_uniform(uint32_t value) { return value; }
/* The value, as far as the compiler knows a new one: nothing made from it is computed earlier. */
DEVICE int32_t computed_here(int32_t value) {
    asm volatile("" : "+r"(value));
    return value;
}
/* Chained launches: what the launch ahead wrote is there after the first; the second lets the next
 * one begin.  Nothing where launches are not chained. */
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
DEVICE void wait_for_launch_ahead() { asm volatile("griddepcontrol.wait;" ::: "memory"); }
DEVICE void let_next_launch_start() { asm volatile("griddepcontrol.launch_dependents;"); }
#else
DEVICE void wait_for_launch_ahead() {}
DEVICE void let_next_launch_start() {}
#endif
DEVICE uint32_t atomic_add(uint32_t *p, uint32_t value) { return atomicAdd(p, value); }
DEVICE uint32_t atomic_min(uint32_t *p, uint32_t value) { return atomicMin(p, value); }
#else
#define KERNEL extern "C" __attribute__((global)) void
#define DEVICE static __attribute__((device)) inline __attribute__((always_inline))
#ifndef __shared__ /* HIP's header defines it; it is not needed here */
#define __shared__ __attribute__((shared))
#endif
#define KERNEL_THREADS(threads) __attribute__((amdgpu_flat_work_group_size(threads, threads)))
#define KERNEL_THREADS_UP_TO(threads) __attribute__((amdgpu_flat_work_group_size(32, threads)))

DEVICE uint32_t thread_index() { return __builtin_amdgcn_workitem_id_x(); }
DEVICE uint32_t thread_count() { return __builtin_amdgcn_workgroup_size_x(); }
DEVICE uint32_t block_x() { return __builtin_amdgcn_workgroup_id_x(); }
DEVICE uint32_t block_y() { return __builtin_amdgcn_workgroup_id_y(); }
DEVICE uint32_t block_z() { return __builtin_amdgcn_workgroup_id_z(); }
DEVICE uint32_t grid_x() {
    return __builtin_amdgcn_grid_size_x() / __builtin_amdgcn_workgroup_size_x();
}
DEVICE uint32_t grid_y() {
    return __builtin_amdgcn_grid_size_y() / __builtin_amdgcn_workgroup_size_y();
}
DEVICE void block_barrier() {
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
    __builtin_amdgcn_s_barrier();
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}
DEVICE void wave_barrier() { __builtin_amdgcn_fence(__ATOMIC_ACQ_REL, "wavefront"); }
/* One instruction for the constants below, which are data-parallel operands of the ALU. */
DEVICE uint32_t wave_xor(uint32_t value, int mask) {
    switch (mask) {
    case 1: return __builtin_amdgcn_update_dpp(0u, value, 0x161, 15, 15, true);
    case 2: return __builtin_amdgcn_update_dpp(0u, value, 0x162, 15, 15, true);
    case 4: return __builtin_amdgcn_update_dpp(0u, value, 0x164, 15, 15, true);
    case 8: return __builtin_amdgcn_update_dpp(0u, value, 0x168, 15, 15, true);
    case 16:
        return __builtin_amdgcn_permlanex16(value, value, 0x76543210u, 0xfedcba98u, false, false);
    default: {
        uint32_t lane = __builtin_amdgcn_mbcnt_lo(~0u, 0u) ^ (uint32_t)mask;
        return (uint32_t)__builtin_amdgcn_ds_bpermute((int)(lane << 2), (int)value);
    }
    }
}
DEVICE int32_t wave_xor(int32_t value, int mask) { return (int32_t)wave_xor((uint32_t)value, mask); }
DEVICE float wave_xor(float value, int mask) {
    return __builtin_bit_cast(float, wave_xor(__builtin_bit_cast(uint32_t, value), mask));
}
DEVICE uint32_t wave_ballot(bool value) { return __builtin_amdgcn_ballot_w32(value); }
DEVICE int count_bits(uint32_t value) { return __builtin_popcount(value); }
DEVICE int first_bit(uint32_t value) { return __builtin_ctz(value); }
DEVICE uint32_t wave_read(uint32_t value, int lane) {
    return (uint32_t)__builtin_amdgcn_ds_bpermute(lane << 2, (int)value);
}
DEVICE float wave_read(float value, int lane) {
    return __builtin_bit_cast(float, wave_read(__builtin_bit_cast(uint32_t, value), lane));
}
DEVICE uint32_t wave_scalar(uint32_t value, int lane) {
    return (uint32_t)__builtin_amdgcn_readlane((int)value, lane);
}
DEVICE float wave_scalar(float value, int lane) {
    return __builtin_bit_cast(float, wave_scalar(__builtin_bit_cast(uint32_t, value), lane));
}
DEVICE float half_to_float(uint32_t half) {
    return (float)__builtin_bit_cast(_Float16, (uint16_t)half);
}
DEVICE int32_t dot4(uint32_t a, uint32_t b, int32_t c) {
    return __builtin_amdgcn_sudot4(true, (int)a, true, (int)b, c, false);
}
DEVICE uint32_t pick_bytes(uint32_t a, uint32_t b, uint32_t selector) {
    return __builtin_amdgcn_perm(b, a, selector);
}
#define GLOBAL_MEMORY __attribute__((address_space(1)))
/* RDNA loads words at any byte address: 16 bytes are one instruction. */
template <int words> DEVICE void load_words(const uint8_t *p, uint32_t *w) {
    struct __attribute__((packed)) unaligned {
        uint32_t w[words];
    };
    const GLOBAL_MEMORY unaligned *from = (const GLOBAL_MEMORY unaligned *)p;
    for (int i = 0; i < words; i++) {
        w[i] = from->w[i];
    }
}
DEVICE uint32_t load_half(const uint8_t *p) {
    struct __attribute__((packed)) unaligned {
        uint16_t half;
    };
    return ((const GLOBAL_MEMORY unaligned *)p)->half;
}
DEVICE uint32_t load_byte(const uint8_t *p) { return *(const GLOBAL_MEMORY uint8_t *)p; }
DEVICE uint32_t wave_uniform(uint32_t value) {
    return (uint32_t)__builtin_amdgcn_readfirstlane((int)value);
}
DEVICE int32_t computed_here(int32_t value) {
    asm volatile("" : "+v"(value));
    return value;
}
template <class T> DEVICE const T &parameters_again(const T &) {
    auto p = __builtin_amdgcn_kernarg_segment_ptr();
    asm volatile("" : "+s"(p));
    return *(const T *)p;
}
DEVICE void wait_for_launch_ahead() {}
DEVICE void let_next_launch_start() {}
DEVICE uint32_t atomic_add(uint32_t *p, uint32_t value) {
    return __atomic_fetch_add(p, value, __ATOMIC_RELAXED);
}
DEVICE uint32_t atomic_min(uint32_t *p, uint32_t value) {
    return __atomic_fetch_min(p, value, __ATOMIC_RELAXED);
}
#endif

/* A member function of a struct that has no objects. */
#if defined(OPREG_EMULATED_DEVICE)
#define DEVICE_MEMBER static inline
#elif defined(__CUDACC__)
#define DEVICE_MEMBER static __device__ __forceinline__
#else
#define DEVICE_MEMBER static __attribute__((device)) inline __attribute__((always_inline))
#endif

#define WAVE 32u
DEVICE uint32_t lane_index() { return thread_index() & (WAVE - 1u); }
DEVICE uint32_t wave_index() { return thread_index() / WAVE; }

/* Sum over the wave as the canonical row tree does: a[l] += a[l xor s], s = 16, 8, 4, 2, 1. */
DEVICE float wave_tree(float value) {
    for (int s = 16; s > 0; s >>= 1) {
        value = value + wave_xor(value, s);
    }
    return value;
}

/* The same with neighbours first, as attention scores are summed. */
DEVICE float wave_tree_near(float value) {
    for (int s = 1; s < 32; s <<= 1) {
        value = value + wave_xor(value, s);
    }
    return value;
}

#endif /* OPREG_PLUGINS_DEVICE_H */
