/* SPDX-License-Identifier: MIT
 * program.c - the embedded cubins and the kernels in them. */
#include "program.h"

/* images.S puts each cubin between two symbols. */
#define IMAGE_SYMBOLS(name) extern const unsigned char sm90_##name[], sm90_##name##_end[];
IMAGE_SYMBOLS(baseline_ops)
IMAGE_SYMBOLS(baseline_sums)
IMAGE_SYMBOLS(baseline_fold)

/* Sizes are not constants to the compiler; the driver reads them from the cubin itself. */
static const gpu_image images[] = {
    {"baseline_ops", sm90_baseline_ops, 0},
    {"baseline_sums", sm90_baseline_sums, 0},
    {"baseline_fold", sm90_baseline_fold, 0},
};

#define OPREG_FORMAT(NAME, name, ggml, values, bytes, act, unit, kind, final, side)                \
    {"base_" #name, BASELINE_IMAGE_##kind, 0},
static const gpu_symbol symbols[] = {BASELINE_OPS_SYMBOLS
#include "formats/formats.inc"
};
#undef OPREG_FORMAT

const gpu_program sm90_program = {
    .arch = "sm_90",
    .major = 9,
    .minor = 0,
    .images = images,
    .num_images = sizeof images / sizeof images[0],
    .symbols = symbols,
    .num_symbols = sizeof symbols / sizeof symbols[0],
};
