/* SPDX-License-Identifier: MIT
 * kernels.h - the functions of every variant in kernels.inc that is not a baseline. */
#ifndef OPREG_CUDA_SM60_KERNELS_H
#define OPREG_CUDA_SM60_KERNELS_H

#include "baseline.h"

extern const uint32_t down_ws_formats[], glu_ws_formats[], gemv_ws_formats[]; /* 0 ends */

#define OPREG_KERNEL(name, op, level, kind, ...) KERNEL_DECLARE_##kind(name)
#define KERNEL_DECLARE_BASELINE(name)
#define KERNEL_DECLARE_OPT_IN(name) BASELINE_DECLARE(name)
#include "kernels.inc"
#undef OPREG_KERNEL

#endif /* OPREG_CUDA_SM60_KERNELS_H */
