/* SPDX-License-Identifier: MIT
 * Kernels of rows32_tiled.cuh for the formats of units of 256 that rows32_list.inc calls
 * ROWS. */
#include "rows32_tiled.cuh"

#define TILED_BY_ROWS(name)                                                                        \
    KERNEL __launch_bounds__(TILED_THREADS, 1)                                                     \
        rows32_##name##_tiled(const __grid_constant__ tiled_args args) {                           \
        rows32_tiled<rows_##name>(args);                                                           \
    }
#define TILED_BY_WORDS(name)
#define ROWS32_UNIT32(...)
#define ROWS32_UNIT256(NAME, name, image, values, min_sub, table_words, by) TILED_BY_##by(name)
#include "rows32_list.inc"
