/* SPDX-License-Identifier: MIT
 * The qdot kernels of every format in qdot_list.inc: dense, grouped, and K across waves. */
#include "qdot.cuh"

#include "qdot_types.cuh"

#define QDOT_FORMAT(NAME, name, sums) QDOT_KERNELS(name, sums)
#define QDOT_FORMAT_256(NAME, name, sums)                                                          \
    QDOT_KERNELS(name, sums)                                                                       \
    QDOT_SPLITK_KERNEL(name, sums)
#include "qdot_list.inc"
