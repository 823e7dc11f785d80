/* SPDX-License-Identifier: MIT
 * plugin.c - the plugin hip-gfx1201: what kernels.inc does not say of its variants. */
#include "program.h"

static const char gqh_gemv_summary[] = "loads three superblocks ahead, or four rows a wave";
static const char gqh_cols_summary[] = "exactly 2 to 8 rows of x, weights decoded once";
static const char qdot_gemv_summary[] = "eight lanes a superblock, two outputs a wave";
static const char qdot_splitk_summary[] = "eight waves an output, for narrow n";
static const char qdot_grouped_summary[] = "eight lanes a superblock of each entry";
static const char qdot_grouped_glu_summary[] = "the same for gate and up, then glu";
static const char qdot_grouped_down_summary[] = "requantizes h, then eight lanes a superblock";

#define PLUGIN_PROGRAM gfx1201_program
#include "gpu_plugin.inc"
