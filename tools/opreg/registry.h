/* SPDX-License-Identifier: MIT
 * registry.h - a registry for one run of the command, and its listings as arrays. */
#ifndef OPREG_TOOLS_REGISTRY_H
#define OPREG_TOOLS_REGISTRY_H

#include "opreg/opreg.h"
#include "options.h"

/* Null after a line on stderr.  threads 0: one per processor. */
opreg_registry *registry_open(const command *self, int64_t threads);

/* All rows of a listing; freed by the caller.  Null with *count 0 where there are none. */
opreg_device *registry_devices(opreg_registry *reg, size_t *count);
opreg_plugin_row *registry_plugins(opreg_registry *reg, size_t *count);
opreg_kernel_row *registry_kernels(opreg_registry *reg, size_t *count);
opreg_flag_row *registry_flags(opreg_registry *reg, size_t *count);

/* Every variant for a problem on a device; null after a line on stderr. */
opreg_candidate *registry_explain(const command *self, opreg_registry *reg,
                                  const opreg_device *device, opreg_op op, const void *problem,
                                  size_t *count);

/* The device called text ("cuda:0", "cpu", "cuda:0/sm_90") among rows; null when there is none. */
const opreg_device *device_called(const opreg_device *rows, size_t count, const char *text);

#endif /* OPREG_TOOLS_REGISTRY_H */
