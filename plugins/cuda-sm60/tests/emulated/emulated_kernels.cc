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
    if (symbol == BASE_QUANTIZE) {
        return run_quantize;
    }
    if (symbol >= SM60_FIRST_STAGED &&
        symbol - SM60_FIRST_STAGED < sizeof staged_kernels / sizeof staged_kernels[0]) {
        return staged_kernels[symbol - SM60_FIRST_STAGED];
    }
    (void)base_route;
    (void)base_combine;
    (void)base_pack;
    return 0;
}
