/* SPDX-License-Identifier: MIT
 * Kernels over stored GQH weights. */
#include "gqh_lanes.cuh"
#include "gqh_lanes_stored.cuh"

#define GQH_WIDTH(name, columns, quads, ahead, waves)                                              \
    KERNEL __launch_bounds__(32 * waves, 1)                                                        \
        name##_stored_x##columns##_q##quads(const __grid_constant__ gqh_lanes_args args) {         \
        gqh_dense<name##_stored, columns, quads, ahead>(args);                                     \
    }
GQH_STORED_FORMATS
