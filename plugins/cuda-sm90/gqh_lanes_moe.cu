/* SPDX-License-Identifier: MIT
 * Grouped kernels over GQH weights of the layout rows32. */
#include "gqh_lanes.cuh"
#include "gqh_lanes_prepared.cuh"

#define GQH_MOE(name)                                                                              \
    KERNEL __launch_bounds__(32 * GQH_MOE_WAVES, 1)                                                \
        name##_moe(const __grid_constant__ gqh_lanes_args args) {                                  \
        gqh_grouped<name##_prepared>(args);                                                        \
    }
GQH_MOE(gqh4)
GQH_MOE(gqh3)
GQH_MOE(gqh2_h)
GQH_MOE(gqh2_c)
