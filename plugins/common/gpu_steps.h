/* SPDX-License-Identifier: MIT
 * gpu_steps.h - the table of steps of a plugin whose program has the kernels of steps.cuh. */
#ifndef OPREG_PLUGINS_GPU_STEPS_H
#define OPREG_PLUGINS_GPU_STEPS_H

#include "baseline.h"

extern const opreg_device_steps gpu_steps;

/* Index of STEPS_SYMBOLS in the program's symbols; the plugin defines it. */
extern const uint32_t gpu_first_step;

#endif /* OPREG_PLUGINS_GPU_STEPS_H */
