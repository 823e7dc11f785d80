/* SPDX-License-Identifier: MIT
 * kernels.h - the functions of every variant in kernels.inc. */
#ifndef OPREG_CPU_KERNELS_H
#define OPREG_CPU_KERNELS_H

#include "opreg/opreg_plugin.h"

#define OPREG_KERNEL(name, ...)                                                                    \
    opreg_status name##_supports(const opreg_device *dev, const void *problem, char reason[128]);  \
    uint64_t name##_workspace(const opreg_device *dev, const void *problem);                       \
    opreg_status name##_run(void *state, const void *problem, const opreg_call *call);
#include "cpu/kernels.inc"
#undef OPREG_KERNEL

#endif /* OPREG_CPU_KERNELS_H */
