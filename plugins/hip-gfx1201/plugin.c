/* SPDX-License-Identifier: MIT
 * plugin.c - the plugin hip-gfx1201: what kernels.inc does not say of its variants. */
#include "gpu_steps.h"
#include "program.h"

static const char gqh_gemv_summary[] = "loads three superblocks ahead, or four rows a wave";
static const char gqh_cols_summary[] = "exactly 2 to 8 rows of x, weights decoded once";
static const char qdot_gemv_summary[] = "eight lanes a superblock, x quantized in the prologue";
static const char qdot_splitk_summary[] = "up to eight waves an output, for narrow n";
static const char qdot_grouped_summary[] = "eight lanes a superblock of each entry";
static const char qdot_grouped_glu_summary[] = "the same for gate and up, then glu";
static const char qdot_grouped_down_summary[] = "requantizes h, then eight lanes a superblock";
static const char paged_gqa_summary[] = "a block a segment of a KV head, all its query heads";
static const char wmma_tile_summary[] = "int8 matrix instructions, 16 rows of W by 32 of x a wave";
static const char tiny_n_gemv_summary[] = "bf16 and f16 weights of up to 64 rows, deep loads";

#define PLUGIN_PROGRAM gfx1201_program
#ifndef OPREG_EMULATED_DEVICE /* which has the variants alone */
#define PLUGIN_STEPS &gpu_steps
#endif
#include "gpu_plugin.inc"
