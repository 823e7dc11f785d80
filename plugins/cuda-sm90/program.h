/* SPDX-License-Identifier: MIT
 * program.h - the code objects and kernels of this plugin, by index. */
#ifndef OPREG_CUDA_SM90_PROGRAM_H
#define OPREG_CUDA_SM90_PROGRAM_H

#include "baseline.h"

/* Symbols after the baselines'. */
#define OPREG_FORMAT(...) +1
enum sm90_symbol {
    SM90_FIRST_ROWS32 = BASE_FIRST_FORMAT
#include "formats/formats.inc"
};
#undef OPREG_FORMAT

enum sm90_image { SM90_IMAGE_32 = BASELINE_IMAGES, SM90_IMAGE_K, SM90_IMAGE_IQ };

extern const gpu_program sm90_program;

#endif /* OPREG_CUDA_SM90_PROGRAM_H */
