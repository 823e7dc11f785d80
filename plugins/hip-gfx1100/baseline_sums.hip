/* SPDX-License-Identifier: MIT
 * One baseline matrix kernel for each integer-dot format. */
#include "baseline_slices.cuh"

#define BASELINE_KERNEL_SUMS(NAME, name, values, bytes, unit, final)                               \
    BASELINE_SLICES(NAME, name, values, bytes, unit, final)                                        \
    KERNEL KERNEL_THREADS(BASELINE_THREADS) base_##name(const matmul_args a) {                     \
        baseline_matmul<name##_format>(a);                                                         \
    }
#define BASELINE_KERNEL_FOLD(NAME, name, values, bytes, unit, final)
#define OPREG_FORMAT(NAME, name, ggml_type, values, bytes, act, unit, kind, final, side)           \
    BASELINE_KERNEL_##kind(NAME, name, values, bytes, unit, final)
#include "formats/formats.inc"
