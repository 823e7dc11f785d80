/* SPDX-License-Identifier: MIT
 * The qdot kernels of every format in qdot_list.inc: dense, grouped, and K across waves. */
#include "qdot.cuh"

#define QDOT_TYPE_SUMS(NAME, name, values, bytes, unit, final)                                     \
    BASELINE_SLICES(NAME, name, values, bytes, unit, final)
#define QDOT_TYPE_FOLD(NAME, name, values, bytes, unit, final)
#define OPREG_FORMAT(NAME, name, ggml_type, values, bytes, act, unit, kind, final, side)           \
    QDOT_TYPE_##kind(NAME, name, values, bytes, unit, final)
#include "formats/formats.inc"

#define QDOT_FORMAT(NAME, name, sums) QDOT_KERNELS(name, sums)
#define QDOT_FORMAT_256(NAME, name, sums)                                                          \
    QDOT_KERNELS(name, sums)                                                                       \
    QDOT_SPLITK_KERNEL(name, sums)
#include "qdot_list.inc"
