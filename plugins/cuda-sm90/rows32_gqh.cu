/* SPDX-License-Identifier: MIT
 * Kernels over rows32 of the GQH formats. */
#include "rows32_gqh.cuh"

#define ROWS32_GQH_WIDTH(name, columns, parts, ahead, waves)                                       \
    KERNEL __launch_bounds__(32 * waves, 1)                                                        \
        rows32_##name##_x##columns##_p##parts(const __grid_constant__ gqh_args args) {                        \
        rows32_gqh<rows_##name, columns, parts, ahead>(args);                                      \
    }
ROWS32_GQH_FORMATS
