/* SPDX-License-Identifier: MIT
 * Kernels of rows32_wide.cuh, 16 and 32 columns, for the formats that rows32_list.inc calls WORDS. */
#include "rows32_wide.cuh"

#define WIDE_KERNEL(name, columns)                                                                 \
    KERNEL __launch_bounds__(WIDE_THREADS, 1)                                                      \
        rows32_##name##_wide##columns(const __grid_constant__ wide_args args) {                    \
        rows32_wide<rows_##name, columns / 8>(args);                                               \
    }
#define WIDE_WORDS(name) WIDE_KERNEL(name, 16) WIDE_KERNEL(name, 32)
#define WIDE_ROWS(name)
#define ROWS32_UNIT32(NAME, name, image, values, min_sub, table_words, by) WIDE_##by(name)
#define ROWS32_UNIT256(NAME, name, image, values, min_sub, table_words, by) WIDE_##by(name)
#include "rows32_list.inc"
