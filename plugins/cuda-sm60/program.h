/* SPDX-License-Identifier: MIT
 * program.h - the code objects and kernels of this plugin, by index. */
#ifndef OPREG_CUDA_SM60_PROGRAM_H
#define OPREG_CUDA_SM60_PROGRAM_H

#include "baseline.h"

/* Every format has one baseline symbol; the kernels of slot4 follow, then the staged kernels in the
 * order of staged_list.inc. */
#define OPREG_FORMAT(NAME, ...)         SM60_BASELINE_##NAME,
#define SLOT4_FORMAT(NAME, name, ...)   SM60_##NAME##_BASELINE, SM60_##NAME##_PACK, SM60_##NAME##_UNPACK,
enum sm60_symbol {
    SM60_BEFORE_FORMATS = BASE_FIRST_FORMAT - 1,
#include "formats/formats.inc"
    SM60_AFTER_FORMATS,
    SM60_BEFORE_SLOT4 = SM60_AFTER_FORMATS - 1,
#include "slot4_formats.inc"
    SM60_FIRST_STAGED
};
#undef OPREG_FORMAT
#undef SLOT4_FORMAT

extern const gpu_program sm60_program;

#endif /* OPREG_CUDA_SM60_PROGRAM_H */
