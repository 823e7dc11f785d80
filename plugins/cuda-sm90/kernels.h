/* SPDX-License-Identifier: MIT
 * kernels.h - the functions of every variant in kernels.inc that is not a baseline. */
#ifndef OPREG_CUDA_SM90_KERNELS_H
#define OPREG_CUDA_SM90_KERNELS_H

#include "baseline.h"

#endif /* OPREG_CUDA_SM90_KERNELS_H */
