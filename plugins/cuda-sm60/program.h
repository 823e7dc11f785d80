/* SPDX-License-Identifier: MIT
 * program.h - the code objects and kernels of this plugin, by index. */
#ifndef OPREG_CUDA_SM60_PROGRAM_H
#define OPREG_CUDA_SM60_PROGRAM_H

#include "baseline.h"

extern const gpu_program sm60_program;

#endif /* OPREG_CUDA_SM60_PROGRAM_H */
