/* SPDX-License-Identifier: MIT
 * wmma_tile of every format in wmma_list.inc. */
#include "wmma.cuh"
#include "qdot_types.cuh"

#define WMMA_FORMAT(NAME, name, halves, sums) WMMA_KERNEL(name, halves, sums)
#include "wmma_list.inc"
