/* SPDX-License-Identifier: MIT
 * emulated_kernels.cc - the kernels of the plugin, compiled for the CPU from their own sources. */
#include "program.h"

#include "baseline_ops.cuh"
#include "staged_formats.cuh"

#define STAGED_FORMAT(NAME, name, unit, words, table_bytes) STAGED_KERNEL(name)
#include "staged_list.inc"
#undef STAGED_FORMAT

static void run_quantize(const void *p) {
    base_quantize(*(const quantize_args *)p);
}
static void run_route(const void *p) {
    base_route(*(const route_args *)p);
}
static void run_combine(const void *p) {
    base_combine(*(const combine_args *)p);
}
static void run_pack(const void *p) {
    base_pack(*(const pack_args *)p);
}

#define STAGED_FORMAT(NAME, name, unit, words, table_bytes)                                        \
    static void run_##name(const void *p) {                                                        \
        staged_##name(*(const staged_args *)p);                                                    \
    }
#include "staged_list.inc"
#undef STAGED_FORMAT

emulated_kernel *emulated_symbol(uint32_t symbol) {
#define STAGED_FORMAT(NAME, name, unit, words, table_bytes) run_##name,
    static emulated_kernel *const staged_kernels[] = {
#include "staged_list.inc"
    };
#undef STAGED_FORMAT
    switch (symbol) {
    case BASE_QUANTIZE:
        return run_quantize;
    case BASE_ROUTE:
        return run_route;
    case BASE_COMBINE:
        return run_combine;
    case BASE_PACK:
        return run_pack;
    default:
        break;
    }
    if (symbol >= SM60_FIRST_STAGED &&
        symbol - SM60_FIRST_STAGED < sizeof staged_kernels / sizeof staged_kernels[0]) {
        return staged_kernels[symbol - SM60_FIRST_STAGED];
    }
    return 0;
}
