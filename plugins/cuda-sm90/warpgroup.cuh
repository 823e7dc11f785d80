/* SPDX-License-Identifier: MIT
 * warpgroup.cuh - products of a warpgroup, four neighbouring waves: 64 rows by 64 columns of 32 bytes, the
 * rows in registers as tensor.cuh says (16 of each wave), the columns in shared memory.
 *
 * They run beside what follows.  A product's registers belong to it until warpgroup_wait says so:
 * operands may be made for the next ones, outputs not be read. */
#ifndef OPREG_SM90_WARPGROUP_CUH
#define OPREG_SM90_WARPGROUP_CUH

#include "device.h"

/* Columns in pieces of 8 columns by 16 bytes (128 bytes); k_step and n_step: bytes from one piece to
 * the next along a column and across columns.  16 bytes on are 1 on in the descriptor. */
DEVICE uint64_t column_descriptor(uint32_t address, uint32_t k_step, uint32_t n_step) {
    return (uint64_t)(address >> 4 & 0x3fffu) | (uint64_t)(k_step >> 4) << 16 |
           (uint64_t)(n_step >> 4) << 32;
}

/* Before the first product, and after registers of products were written. */
DEVICE void warpgroup_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
/* What was asked for so far is a group. */
DEVICE void warpgroup_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
/* Until at most `left` groups run. */
template <int left> DEVICE void warpgroup_wait() {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(left) : "memory");
}

/* The outputs of groups that have ended: keeps reads of them behind the wait. */
DEVICE void outputs_ready(int32_t *d) {
#pragma unroll
    for (int i = 0; i < 32; i++) {
        asm volatile("" : "+r"(d[i])::"memory");
    }
}

/* d[4n + i]: columns 8n .. 8n + 7 as tensor.cuh has them.  add: 0 starts from zero.  type: of a. */
#define WARPGROUP_MMA(name, type)                                                                  \
    DEVICE void name(int32_t *d, const uint32_t *a, uint64_t b, int add) {                         \
        asm volatile(                                                                              \
            "{\n.reg .pred add;\nsetp.ne.b32 add, %37, 0;\n"                                       \
            "wgmma.mma_async.sync.aligned.m64n64k32.s32." type ".s8 {"                             \
            "%0, %1, %2, %3, %4, %5, %6, %7, "                                                     \
            "%8, %9, %10, %11, %12, %13, %14, %15, "                                               \
            "%16, %17, %18, %19, %20, %21, %22, %23, "                                             \
            "%24, %25, %26, %27, %28, %29, %30, %31}, "                                            \
            "{%32, %33, %34, %35}, %36, add;\n}"                                                   \
            : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3]),                                      \
              "+r"(d[4]), "+r"(d[5]), "+r"(d[6]), "+r"(d[7]),                                      \
              "+r"(d[8]), "+r"(d[9]), "+r"(d[10]), "+r"(d[11]),                                    \
              "+r"(d[12]), "+r"(d[13]), "+r"(d[14]), "+r"(d[15]),                                  \
              "+r"(d[16]), "+r"(d[17]), "+r"(d[18]), "+r"(d[19]),                                  \
              "+r"(d[20]), "+r"(d[21]), "+r"(d[22]), "+r"(d[23]),                                  \
              "+r"(d[24]), "+r"(d[25]), "+r"(d[26]), "+r"(d[27]),                                  \
              "+r"(d[28]), "+r"(d[29]), "+r"(d[30]), "+r"(d[31])                                   \
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(add));                       \
    }
WARPGROUP_MMA(warpgroup_mma_signed, "s8")
WARPGROUP_MMA(warpgroup_mma_unsigned, "u8")

#endif /* OPREG_SM90_WARPGROUP_CUH */
