/* SPDX-License-Identifier: MIT
 * qdot_types.cuh - the type NAME_format of every integer-dot format, over slices. */
#ifndef OPREG_PLUGINS_QDOT_TYPES_CUH
#define OPREG_PLUGINS_QDOT_TYPES_CUH

#include "baseline_slices.cuh"

#define QDOT_TYPE_SUMS(NAME, name, values, bytes, unit, final)                                     \
    BASELINE_SLICES(NAME, name, values, bytes, unit, final)
#define QDOT_TYPE_FOLD(NAME, name, values, bytes, unit, final)
#define OPREG_FORMAT(NAME, name, ggml_type, values, bytes, act, unit, kind, final, side)           \
    QDOT_TYPE_##kind(NAME, name, values, bytes, unit, final)
#include "formats/formats.inc"

#endif /* OPREG_PLUGINS_QDOT_TYPES_CUH */
