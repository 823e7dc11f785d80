/* SPDX-License-Identifier: MIT
 * program.c - the embedded code objects and the kernels in them. */
#include "program.h"

#include "gpu_steps.h"
#include "steps_args.h"

/* images.S puts each code object behind a symbol; its size is in its own header. */
#define IMAGE_SYMBOL(name) extern const unsigned char hip_##name[];
IMAGE_SYMBOL(baseline_ops)
IMAGE_SYMBOL(baseline_sums)
IMAGE_SYMBOL(baseline_fold)
IMAGE_SYMBOL(qdot)
IMAGE_SYMBOL(attention)
IMAGE_SYMBOL(wmma)
IMAGE_SYMBOL(tiny_n)
IMAGE_SYMBOL(steps)

static const gpu_image images[] = {
    {"baseline_ops", hip_baseline_ops, 0},
    {"baseline_sums", hip_baseline_sums, 0},
    {"baseline_fold", hip_baseline_fold, 0},
    {"qdot", hip_qdot, 0},
    {"attention", hip_attention, 0},
    {"wmma", hip_wmma, 0},
    {"tiny_n", hip_tiny_n, 0},
    {"steps", hip_steps, 0},
};

/* Images after the baselines', in the order of `images`. */
enum { IMAGE_QDOT = BASELINE_IMAGES, IMAGE_ATTENTION, IMAGE_WMMA, IMAGE_TINY_N, IMAGE_STEPS };

#define OPREG_FORMAT(NAME, name, ggml, values, bytes, act, unit, kind, final, side)                \
    {"base_" #name, BASELINE_IMAGE_##kind, 0},
#define QDOT_FORMAT(NAME, name, sums)                                                              \
    {"qdot_gemv_" #name, IMAGE_QDOT, 0},                                                           \
        {"qdot_fused_" #name, IMAGE_QDOT, QDOT_FUSED_SHARED(QDOT_FUSED_K, 32)},                    \
        {"qdot_grouped_" #name, IMAGE_QDOT, 0},
#define GQA_PART(dim, heads, name, kv)                                                             \
    {"gqa_d" #dim "_h" #heads "_" #name, IMAGE_ATTENTION, GQA_DYNAMIC ? GQA_SHARED(dim, heads) : 0},
#define GQA_MERGE(dim) {"gqa_merge_d" #dim, IMAGE_ATTENTION, 0},
#define WMMA_FORMAT(NAME, name, halves, sums) {"wmma_tile_" #name, IMAGE_WMMA, 0},
static const gpu_symbol symbols[] = {BASELINE_OPS_SYMBOLS
#include "formats/formats.inc"
#include "qdot_list.inc"
#undef QDOT_FORMAT
#define QDOT_FORMAT(NAME, name, sums)
#define QDOT_FORMAT_256(NAME, name, sums) {"qdot_splitk_" #name, IMAGE_QDOT, 0},
#include "qdot_list.inc"
#include "paged_gqa_list.inc"
#include "wmma_list.inc"
    {"tiny_n_bf16", IMAGE_TINY_N, 0}, {"tiny_n_f16", IMAGE_TINY_N, 0},
    STEPS_SYMBOLS(IMAGE_STEPS)
};
#undef OPREG_FORMAT

/* the steps are the last symbols */
const uint32_t gpu_first_step = sizeof symbols / sizeof symbols[0] - STEP_KERNELS;

const gpu_program gfx1100_program = {
    .arch = "gfx1100",
    .images = images,
    .num_images = sizeof images / sizeof images[0],
    .symbols = symbols,
    .num_symbols = sizeof symbols / sizeof symbols[0],
};
