/* SPDX-License-Identifier: MIT
 * Kernels of rows32_parts.cuh and rows32_parts_long.cuh. */
#include "rows32_parts.cuh"
#include "rows32_parts_long.cuh"

/* two blocks a multiprocessor: one of the next launch */
#define PARTS_KERNELS(NAME, name)                                                                  \
    KERNEL __launch_bounds__(PARTS_THREADS, 2)                                                     \
        rows32_##name##_parts_moe(const __grid_constant__ parts_args args) {                       \
        rows32_parts<rows_##name, true>(args);                                                     \
    }                                                                                              \
    KERNEL __launch_bounds__(PARTS_THREADS, 2)                                                     \
        rows32_##name##_parts(const __grid_constant__ parts_args args) {                           \
        rows32_parts<rows_##name, false>(args);                                                    \
    }                                                                                              \
    KERNEL __launch_bounds__(PARTS_LONG_THREADS, 2)                                                \
        rows32_##name##_parts_long(const __grid_constant__ parts_args args) {                      \
        rows32_parts_long<rows_##name>(args);                                                      \
    }
ROWS32_PARTS_FORMATS(PARTS_KERNELS)
