/* SPDX-License-Identifier: MIT
 * program.c - the embedded code objects and the kernels in them. */
#include "program.h"

#include "gpu_steps.h"
#include "split_args.h"
#include "staged_args.h"
#include "steps_args.h"

/* images.S puts each code object between two symbols; images.inc lists them. */
#define SM60_IMAGE(name) extern const unsigned char sm60_##name[];
#include "images.inc"
#undef SM60_IMAGE

#define SM60_IMAGE(name) SM60_IMAGE_##name,
enum sm60_image {
#include "images.inc"
    SM60_IMAGES
};
#undef SM60_IMAGE

/* Sizes are not constants to the compiler; the driver reads them from the object itself. */
#define SM60_IMAGE(name) {#name, sm60_##name, 0},
static const gpu_image images[] = {
#include "images.inc"
};
#undef SM60_IMAGE

#ifdef OPREG_SM60_PTX
#define SM60_IMAGE(name) extern const unsigned char sm60_##name##_ptx[];
#include "images.inc"
#undef SM60_IMAGE
#define SM60_IMAGE(name) {#name, sm60_##name##_ptx, 0},
static const gpu_image jit_images[] = {
#include "images.inc"
};
#undef SM60_IMAGE
#define JIT_IMAGES jit_images
#else
#define JIT_IMAGES NULL
#endif

#define OPREG_FORMAT(NAME, name, ggml, values, bytes, act, unit, kind, final, side)                \
    {"base_" #name, BASELINE_IMAGE_##kind, 0},
#define SLOT4_FORMAT(NAME, name, bytes, final)                                                     \
    {"slot4_base_" #name, SM60_IMAGE_slot4, 0}, {"slot4_pack_" #name, SM60_IMAGE_slot4, 0},        \
        {"slot4_unpack_" #name, SM60_IMAGE_slot4, 0},
#define STAGED_FORMAT(NAME, name, layout, pairs, unit, words, table_bytes)                         \
    {"staged_" #name, SM60_IMAGE_staged, STAGED_MOST_SHARED},
#define SPLIT_PART(dim, heads, name, arithmetic, kv, blocks)                                       \
    {"split_" #dim "_" #heads "_" #name, SM60_IMAGE_split_attention, 0},
static const gpu_symbol symbols[] = {
    BASELINE_OPS_SYMBOLS
#include "formats/formats.inc"
#include "slot4_formats.inc"
#include "staged_list.inc"
    {"split_merge", SM60_IMAGE_split_attention, 4u * 4u * SPLIT_MOST_SEGMENTS},
#include "split_list.inc"
    STEPS_SYMBOLS(SM60_IMAGE_steps)
};
#undef OPREG_FORMAT
#undef SLOT4_FORMAT
#undef STAGED_FORMAT
#undef SPLIT_PART

/* the steps are the last symbols */
const uint32_t gpu_first_step = sizeof symbols / sizeof symbols[0] - STEP_KERNELS;

const gpu_program sm60_program = {
    .arch = "sm_60",
    .images = images,
    .jit_images = JIT_IMAGES,
    .num_images = sizeof images / sizeof images[0],
    .symbols = symbols,
    .num_symbols = sizeof symbols / sizeof symbols[0],
};
