/* SPDX-License-Identifier: MIT
 * Kernels of rows32_dealt.cuh for every format of units of 256 that rows32_list.inc calls WORDS. */
#include "rows32_dealt.cuh"

#define DEALT_BY_WORDS(name)                                                                       \
    KERNEL __launch_bounds__(DEALT_THREADS, 1)                                                     \
        rows32_##name##_dealt(const __grid_constant__ dealt_args args) {                           \
        rows32_dealt<rows_##name>(args);                                                           \
    }
#define DEALT_BY_ROWS(name)
#define ROWS32_UNIT32(...)
#define ROWS32_UNIT256(NAME, name, image, values, min_sub, table_words, by) DEALT_BY_##by(name)
#include "rows32_list.inc"
