/* SPDX-License-Identifier: MIT
 * Preprocessed, never compiled: turns a plugin's kernels.inc into the names for its manifest. */
#include "opreg/opreg_plugin.h"
/* the lowest minor that will do: what a plugin adds to its table is optional */
opreg_manifest_abi OPREG_ABI_MAJOR 0u
#define OPREG_KERNEL(name, ...) opreg_manifest_kernel name
#include OPREG_MANIFEST_KERNELS
