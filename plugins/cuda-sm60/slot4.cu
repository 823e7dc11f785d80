/* SPDX-License-Identifier: MIT
 * The layout slot4: to it, back from it, and its baselines. */
#include "slot4.cuh"

#define SLOT4_FORMAT(NAME, name, bytes, final)                                                     \
    SLOT4_BASELINE_KERNEL(name, final)                                                             \
    SLOT4_PACK_KERNEL(name, bytes)                                                                 \
    SLOT4_UNPACK_KERNEL(name, bytes)
#include "slot4_formats.inc"
