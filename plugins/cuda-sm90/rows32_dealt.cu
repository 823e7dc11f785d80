/* SPDX-License-Identifier: MIT
 * Kernels of rows32_dealt.cuh for every format of rows32_dealt_list.inc. */
#include "rows32_dealt.cuh"

#define ROWS32_DEALT(NAME, name)                                                                   \
    KERNEL __launch_bounds__(DEALT_THREADS, 1)                                                     \
        rows32_##name##_dealt(const __grid_constant__ dealt_args args) {                           \
        rows32_dealt<rows_##name>(args);                                                           \
    }
#include "rows32_dealt_list.inc"
