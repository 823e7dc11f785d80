/* SPDX-License-Identifier: MIT
 * program.h - the code objects and kernels of this plugin, by index. */
#ifndef OPREG_CUDA_SM60_PROGRAM_H
#define OPREG_CUDA_SM60_PROGRAM_H

#include "baseline.h"

/* Every format has one baseline symbol; then the lists as they are included, each row a kernel, of
 * slot4 SLOT4_KERNELS. */
#define OPREG_FORMAT(NAME, ...)           SM60_BASELINE_##NAME,
#define SLOT4_FORMAT(NAME, ...)           SM60_##NAME##_BASE, SM60_##NAME##_PACK, SM60_##NAME##_UNPACK,
#define STAGED_FORMAT(NAME, name, ...)    SM60_STAGED_##name,
#define SPLIT_PART(dim, heads, name, ...) SM60_SPLIT_##dim##_##heads##_##name,
enum sm60_symbol {
    SM60_BEFORE_FORMATS = BASE_FIRST_FORMAT - 1,
#include "formats/formats.inc"
    SM60_AFTER_FORMATS,
    SM60_BEFORE_SLOT4 = SM60_AFTER_FORMATS - 1,
#include "slot4_formats.inc"
    SM60_FIRST_STAGED,
    SM60_BEFORE_STAGED = SM60_FIRST_STAGED - 1,
#include "staged_list.inc"
    SM60_SPLIT_MERGE,
    SM60_FIRST_SPLIT,
    SM60_BEFORE_SPLIT = SM60_FIRST_SPLIT - 1,
#include "split_list.inc"
};
#undef OPREG_FORMAT
#undef SLOT4_FORMAT
#undef STAGED_FORMAT
#undef SPLIT_PART

extern const gpu_program sm60_program;

#endif /* OPREG_CUDA_SM60_PROGRAM_H */
