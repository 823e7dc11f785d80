/* SPDX-License-Identifier: MIT
 * program.h - the code objects and kernels of this plugin, by index. */
#ifndef OPREG_CUDA_SM90_PROGRAM_H
#define OPREG_CUDA_SM90_PROGRAM_H

#include "baseline.h"
#include "gqh_lanes_args.h"
#include "rows32_args.h"
#include "rows32_gqh_args.h"
#include "rows32_parts_args.h"

/* Symbols after the baselines'. */
#define OPREG_FORMAT(...) +1
enum sm90_symbol {
    SM90_FIRST_ROWS32 = BASE_FIRST_FORMAT
#include "formats/formats.inc"
};
#undef OPREG_FORMAT

#define ROWS32_UNIT32(NAME, name, ...)  +2 + (ROWS32_SPREAD_WAVES_##name > 0) + (ROWS32_STREAM_STAGES_##name > 0)
#define ROWS32_UNIT256(NAME, name, ...) +4 + (ROWS32_SPREAD_WAVES_##name > 0) + (ROWS32_STREAM_STAGES_##name > 0)
enum sm90_symbol_split {
    SM90_FIRST_SPLIT = SM90_FIRST_ROWS32
#include "rows32_list.inc"
};
#undef ROWS32_UNIT32
#undef ROWS32_UNIT256

#define SPLIT_PART(...) +1
#define SPLIT_MERGE(...) +1
#define SPLIT_TENSOR(...) +1
#define TENSOR_MERGE(...) +1
#define SPLIT_HALF(...) +1
enum sm90_symbol_mix {
    SM90_FIRST_MIX = SM90_FIRST_SPLIT
#include "split_list.inc"
};
#undef SPLIT_PART
#undef SPLIT_MERGE
#undef SPLIT_TENSOR
#undef TENSOR_MERGE
#undef SPLIT_HALF

/* of a format after the other, by width */
#define ROWS32_GQH_WIDTH(...) +1
#define GQH_WIDTH(...)        +1
#define PARTS_SYMBOLS(...)    +PARTS_METHODS
enum sm90_symbol_stored {
    SM90_FIRST_MIX_INT8 = SM90_FIRST_MIX + 4,
    SM90_FIRST_GQH = SM90_FIRST_MIX_INT8 + 2,
    SM90_FIRST_GQH_STORED = SM90_FIRST_GQH ROWS32_GQH_FORMATS,
    SM90_FIRST_GQH_MOE = SM90_FIRST_GQH_STORED GQH_STORED_FORMATS,
    SM90_RECORDS = SM90_FIRST_GQH_MOE + 4,
    SM90_FIRST_PARTS,
    SM90_FIRST_STORED = SM90_FIRST_PARTS ROWS32_PARTS_FORMATS(PARTS_SYMBOLS)
};
#undef ROWS32_GQH_WIDTH
#undef GQH_WIDTH
#undef PARTS_SYMBOLS

/* then those of each format in the order of enum rows32_method_more, then rows32_team's */
#define STORED_COUNT_ROWS  +3
#define STORED_COUNT_WORDS +4
#define ROWS32_UNIT32(NAME, name, image, values, min_sub, words, by)  STORED_COUNT_##by
#define ROWS32_UNIT256(NAME, name, image, values, min_sub, words, by) STORED_COUNT_##by
enum sm90_symbol_tensor {
    SM90_FIRST_MORE = SM90_FIRST_STORED
#include "rows32_list.inc"
};
#undef ROWS32_UNIT32
#undef ROWS32_UNIT256

enum sm90_image {
    SM90_IMAGE_32 = BASELINE_IMAGES,
    SM90_IMAGE_K,
    SM90_IMAGE_IQ,
    SM90_IMAGE_SPLIT,
    SM90_IMAGE_TENSOR,
    SM90_IMAGE_MIX,
    SM90_IMAGE_STEPS,
    SM90_IMAGE_RECORDS,
    SM90_IMAGE_TEAM,
    SM90_IMAGE_DEALT,
    SM90_IMAGE_TILED_WORDS,
    SM90_IMAGE_TILED_ROWS,
    SM90_IMAGE_INT_WORDS,
    SM90_IMAGE_INT_ROWS,
    SM90_IMAGE_INT_32,
    SM90_IMAGE_SHORT,
    SM90_IMAGE_WIDE_WORDS,
    SM90_IMAGE_WIDE_ROWS,
    SM90_IMAGE_STORED_32,
    SM90_IMAGE_STORED_K,
    SM90_IMAGE_STORED_IQ,
    SM90_IMAGE_STORED_TEAM,
    SM90_IMAGE_GQH,
    SM90_IMAGE_GQH_STORED,
    SM90_IMAGE_GQH_MOE,
    SM90_IMAGE_PARTS,
    SM90_IMAGE_MIX_INT8
};

extern const gpu_program sm90_program;

#endif /* OPREG_CUDA_SM90_PROGRAM_H */
