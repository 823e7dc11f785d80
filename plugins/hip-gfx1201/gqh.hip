/* SPDX-License-Identifier: MIT
 * The GQH kernels: one row of x with deep loads or many rows of W, and exactly 2 to 8 rows of x. */
#include "gqh.cuh"

GQH_KERNELS(gqh4, gqh_ratios<gqh4_wire>)
GQH_KERNELS(gqh3, gqh_ratios<gqh3_wire>)
GQH_KERNELS(gqh2_h, gqh_ratios<gqh2_h_wire>)
GQH_KERNELS(gqh2_c, gqh2_c_wire)
