/* SPDX-License-Identifier: MIT
 * Kernels of rows32_short.cuh for every format of rows32_list.inc. */
#include "rows32_short.cuh"

#define SHORT_KERNEL(name)                                                                         \
    KERNEL __launch_bounds__(SHORT_THREADS, 16 / SHORT_TILES)                                      \
        rows32_##name##_short(const __grid_constant__ rows32_args args) {                          \
        rows32_short<rows_##name>(args);                                                           \
    }
#define ROWS32_UNIT32(NAME, name, image, values, min_sub, table_words, by) SHORT_KERNEL(name)
#define ROWS32_UNIT256(NAME, name, image, values, min_sub, table_words, by) SHORT_KERNEL(name)
#include "rows32_list.inc"
