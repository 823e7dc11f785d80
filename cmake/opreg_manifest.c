/* SPDX-License-Identifier: MIT
 * Preprocessed, never compiled: turns a plugin's kernels.inc into the names for its manifest. */
#include "opreg/opreg_plugin.h"
opreg_manifest_abi OPREG_ABI_MAJOR OPREG_ABI_MINOR
#define OPREG_KERNEL(name, ...) opreg_manifest_kernel name
#include OPREG_MANIFEST_KERNELS
