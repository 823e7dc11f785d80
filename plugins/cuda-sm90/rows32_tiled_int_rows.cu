/* SPDX-License-Identifier: MIT
 * Kernels of rows32_tiled_int.cuh, 64 and 128 columns, for the formats of units of 256 that rows32_list.inc
 * calls ROWS. */
#include "rows32_tiled_int.cuh"

#define INT_ROWS(name) INT_KERNEL(name, 64) INT_KERNEL(name, 128)
#define INT_WORDS(name)
#define ROWS32_UNIT32(...)
#define ROWS32_UNIT256(NAME, name, image, values, min_sub, table_words, by) INT_##by(name)
#include "rows32_list.inc"
