/* SPDX-License-Identifier: MIT
 * tensor.cuh - tensor-core products of integers and of halves, matrices and bulk copies in shared
 * memory: one wrapper an instruction.
 *
 * Lane (g, t) = (lane / 4, lane % 4).  d[0], d[1] are row g, columns 2t and 2t + 1; d[2], d[3] row
 * g + 8.  a[0], a[1] are bytes 4t .. 4t + 3 of rows g and g + 8, a[2], a[3] bytes 16 further on; b0,
 * b1 are the same bytes of column g. */
#ifndef OPREG_SM90_TENSOR_CUH
#define OPREG_SM90_TENSOR_CUH

#include "device.h"

/* 16 x 8 outputs, 32 bytes each; every output starts from c. */
DEVICE void mma_k32(int32_t *d, const uint32_t *a, uint32_t b0, uint32_t b1, int32_t c) {
    asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
        "{%10,%10,%10,%10};"
        : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1), "r"(c));
}

/* The same, added to d. */
DEVICE void mma_k32_add(int32_t *d, const uint32_t *a, uint32_t b0, uint32_t b1) {
    asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
        "{%0,%1,%2,%3};"
        : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/* Of unsigned bytes by signed ones. */
DEVICE void mma_k32_unsigned(int32_t *d, const uint32_t *a, uint32_t b0, uint32_t b1, int32_t c) {
    asm("mma.sync.aligned.m16n8k32.row.col.s32.u8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
        "{%10,%10,%10,%10};"
        : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1), "r"(c));
}

/* The same, added to d. */
DEVICE void mma_k32_unsigned_add(int32_t *d, const uint32_t *a, uint32_t b0, uint32_t b1) {
    asm("mma.sync.aligned.m16n8k32.row.col.s32.u8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
        "{%0,%1,%2,%3};"
        : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/* 16 bytes each: a0 and a1 are rows g and g + 8. */
DEVICE void mma_k16(int32_t *d, uint32_t a0, uint32_t a1, uint32_t b, int32_t c) {
    asm("mma.sync.aligned.m16n8k16.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5}, {%6}, "
        "{%7,%7,%7,%7};"
        : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])
        : "r"(a0), "r"(a1), "r"(b), "r"(c));
}

/* 16 halves each, summed in f32: exact while the sums are integers below 2^24.  A word is elements 2t
 * and 2t + 1, the second of a row or column 8 further on. */
DEVICE void mma_halves(float *d, const uint32_t *a, uint32_t b0, uint32_t b1) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
        "{%10,%10,%10,%10};"
        : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1), "f"(0.0f));
}

DEVICE uint32_t shared_address(const void *p) { return (uint32_t)__cvta_generic_to_shared(p); }

/* Four matrices of 8 rows of 16 bytes: lane i gives the address of row i % 8 of matrix i / 8 and gets
 * bytes 4t .. 4t + 3 of row g of each. */
DEVICE void load_matrix4(uint32_t *a, uint32_t address) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(a[0]), "=r"(a[1]), "=r"(a[2]), "=r"(a[3])
                 : "r"(address));
}

/* Two: addresses of the first 16 lanes. */
DEVICE void load_matrix2(uint32_t *a, uint32_t address) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0,%1}, [%2];"
                 : "=r"(a[0]), "=r"(a[1])
                 : "r"(address));
}

/* ---- barriers in shared memory that copies complete ------------------------------------------------ */

DEVICE void barrier_start(uint64_t *barrier, uint32_t arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)),
                 "r"(arrivals));
}

/* Before other threads and copies use barriers started here; a block barrier has to follow. */
DEVICE void barriers_started() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }

/* One arrival that also expects so many bytes of copies. */
DEVICE void barrier_expect(uint64_t *barrier, uint32_t bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(
                     shared_address(barrier)),
                 "r"(bytes)
                 : "memory");
}

DEVICE void barrier_arrive(uint64_t *barrier) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(barrier))
                 : "memory");
}

/* Waits for the end of phase `parity`: 0 the first, then 1, 0, .. */
DEVICE void barrier_wait(uint64_t *barrier, uint32_t parity) {
    asm volatile("{\n"
                 ".reg .pred done;\n"
                 "again:\n"
                 "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
                 "@!done bra again;\n"
                 "}" ::"r"(shared_address(barrier)),
                 "r"(parity)
                 : "memory");
}

/* Bytes are a multiple of 16, both ends aligned to 16. */
DEVICE void bulk_copy(void *shared, const void *global, uint32_t bytes, uint64_t *barrier) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, "
                 "[%3];" ::"r"(shared_address(shared)),
                 "l"(__cvta_generic_to_global(global)), "r"(bytes), "r"(shared_address(barrier))
                 : "memory");
}

/* Between what the launch ahead wrote and bulk copies that read it. */
DEVICE void before_bulk_copies() { asm volatile("fence.proxy.async;" ::: "memory"); }

#endif /* OPREG_SM90_TENSOR_CUH */
