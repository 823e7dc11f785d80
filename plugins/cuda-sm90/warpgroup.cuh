/* SPDX-License-Identifier: MIT
 * warpgroup.cuh - products of a warpgroup, four neighbouring waves: 64 rows by 64 or
 * 128 columns of 32 bytes, the rows in registers as tensor.cuh says (16 of each wave), the columns in shared memory.
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

/* Two warpgroups of a block take turns with products, so that one's run beside other work of the other and not
 * all of both at once.  first: before all; last: after all; the block is those two. */
DEVICE uint32_t warpgroup_index() { return wave_index() / 4u; }
DEVICE void wait_for_turn() {
    asm volatile("bar.sync %0, 256;" ::"r"(warpgroup_index() + 1u) : "memory");
}
DEVICE void pass_turn() {
    asm volatile("bar.arrive %0, 256;" ::"r"(2u - warpgroup_index()) : "memory");
}
DEVICE void first_turn() {
    if (warpgroup_index() == 1u) {
        pass_turn();
    }
}
DEVICE void last_turn() {
    if (warpgroup_index() == 0u) {
        wait_for_turn();
    }
}

/* The outputs of groups that have ended: keeps reads of them behind the wait. */
template <int count> DEVICE void outputs_ready(int32_t *d) {
#pragma unroll
    for (int i = 0; i < count; i++) {
        asm volatile("" : "+r"(d[i])::"memory");
    }
}

#define WARPGROUP_OUT8(i)                                                                          \
    "+r"(d[i]), "+r"(d[i + 1]), "+r"(d[i + 2]), "+r"(d[i + 3]), "+r"(d[i + 4]), "+r"(d[i + 5]),     \
        "+r"(d[i + 6]), "+r"(d[i + 7])
#define WARPGROUP_OUT32(i)                                                                         \
    WARPGROUP_OUT8(i), WARPGROUP_OUT8(i + 8), WARPGROUP_OUT8(i + 16), WARPGROUP_OUT8(i + 24)
#define WARPGROUP_NAMES32                                                                          \
    "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "                       \
    "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define WARPGROUP_NAMES64                                                                          \
    WARPGROUP_NAMES32 ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, "   \
                      "%46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, "     \
                      "%60, %61, %62, %63"

/* d[4n + i]: columns 8n .. 8n + 7 as tensor.cuh has them.  add: 0 starts from zero.  type: of a.
 * a0 .. add: numbers of the operands behind the outputs. */
#define WARPGROUP_MMA(name, type, columns, names, a0, a1, a2, a3, b0, more, ...)                   \
    DEVICE void name(int32_t *d, const uint32_t *a, uint64_t b, int add) {                         \
        asm volatile("{\n.reg .pred add;\nsetp.ne.b32 add, " more ", 0;\n"                         \
                     "wgmma.mma_async.sync.aligned.m64n" columns "k32.s32." type ".s8 {" names     \
                     "}, {" a0 ", " a1 ", " a2 ", " a3 "}, " b0 ", add;\n}"                        \
                     : __VA_ARGS__                                                                 \
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(add));              \
    }
#define WARPGROUP_MMA64(name, type)                                                                \
    WARPGROUP_MMA(name, type, "64", WARPGROUP_NAMES32, "%32", "%33", "%34", "%35", "%36", "%37",   \
                  WARPGROUP_OUT32(0))
#define WARPGROUP_MMA128(name, type)                                                               \
    WARPGROUP_MMA(name, type, "128", WARPGROUP_NAMES64, "%64", "%65", "%66", "%67", "%68", "%69",  \
                  WARPGROUP_OUT32(0), WARPGROUP_OUT32(32))
WARPGROUP_MMA64(warpgroup_mma_signed, "s8")
WARPGROUP_MMA64(warpgroup_mma_unsigned, "u8")
WARPGROUP_MMA128(warpgroup_mma128_signed, "s8")
WARPGROUP_MMA128(warpgroup_mma128_unsigned, "u8")

#endif /* OPREG_SM90_WARPGROUP_CUH */
