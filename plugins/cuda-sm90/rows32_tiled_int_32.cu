/* SPDX-License-Identifier: MIT
 * Kernels of rows32_tiled_int.cuh, 64 and 128 columns, for the formats of units of 32. */
#include "rows32_tiled_int.cuh"

#define INT_KERNEL(name, columns)                                                                  \
    KERNEL __launch_bounds__(TILED_THREADS, 1)                                                     \
        rows32_##name##_int##columns(const __grid_constant__ tiled_args args) {                    \
        rows32_tiled_int<rows_##name, columns / 64>(args);                                         \
    }
#define ROWS32_UNIT32(NAME, name, image, values, min_sub, table_words, by)                         \
    INT_KERNEL(name, 64) INT_KERNEL(name, 128)
#define ROWS32_UNIT256(...)
#include "rows32_list.inc"
