/* SPDX-License-Identifier: MIT
 * plugin.c - the plugin cuda-sm90: what kernels.inc does not say of its variants. */
#include "gpu_steps.h"
#include "kernels.h"
#include "program.h"

static const uint32_t mix_formats[] = {OPREG_ROCMFP2_MIX, OPREG_ROCMFP3_MIX, 0};
static const uint32_t mix2_formats[] = {OPREG_ROCMFP2_MIX, 0};

static const char rows32_one_summary[] = "one row of x, a lane a weight row, quantizes x itself";
static const char rows32_eight_summary[] = "8, 16 or 32 rows of x a pass on int8 tensor cores";
static const char rows32_tiled_summary[] = "128 weight rows by 64 of x a block on int8 tensor cores";
static const char rows32_gqh_summary[] = "GQH: up to eight rows of x a pass, levels from shared memory";
static const char stored_gqh_summary[] = "GQH as stored: up to four rows of x a pass, a lane an accumulator";
static const char stored_rows_summary[] = "stored rows through shared memory, 8 rows of x a pass";
static const char rows32_tiled_int_summary[] = "128 weight rows by 64 or 128 of x a block, sums in any order";
static const char rows32_moe_matmul_summary[] = "a tile of 32 weight rows a block, by group";
static const char rows32_moe_glu_summary[] = "gate, up and glu, a tile of 32 rows a block, by group";
static const char rows32_moe_down_summary[] = "requantizes h, a tile of 32 rows a block, by group";
static const char rows32_ffn_summary[] = "rows32_moe_glu, rows32_moe_down and the combination";
static const char split_attention_summary[] = "a block a segment of 256 positions, or half of one, then their tree";
static const char tensor_attention_summary[] = "a cluster of blocks a KV head, at head_dim 256 blocks of 128 keys; tensor cores";
static const char gqh_moe_matmul_summary[] = "GQH by group, a lane an accumulator";
static const char gqh_moe_glu_summary[] = "GQH of gate and up by group, a lane an accumulator";
static const char gqh_moe_down_summary[] = "gqh_moe_matmul of h";
static const char mix_matmul_summary[] = "four rows a lane, levels of weights from shared memory";
static const char mix_moe_matmul_summary[] = "mix_matmul, by group";
static const char mix_glu_summary[] = "gate and up in one lane, levels from shared memory";
static const char mix_down_summary[] = "mix_moe_matmul of h";
static const char mix_matmul_int8_summary[] = "mix_matmul with x and levels as int8";
static const char mix_moe_matmul_int8_summary[] = "mix_matmul_int8, by group";
static const char mix_glu_int8_summary[] = "mix_glu with x and levels as int8";
static const char mix_down_int8_summary[] = "mix_moe_matmul_int8 of h";

#define PLUGIN_PROGRAM sm90_program
#define PLUGIN_LAYOUTS {&prepared_rows32}
#define PLUGIN_STEPS   &gpu_steps
#include "gpu_plugin.inc"
