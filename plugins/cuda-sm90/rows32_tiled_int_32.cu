/* SPDX-License-Identifier: MIT
 * Kernels of rows32_tiled_int.cuh, 64 and 128 columns, for the formats of units of 32. */
#include "rows32_tiled_int.cuh"

#define ROWS32_UNIT32(NAME, name, image, values, min_sub, table_words, by)                         \
    INT_KERNEL(name, 64) INT_KERNEL(name, 128)
#define ROWS32_UNIT256(...)
#include "rows32_list.inc"
