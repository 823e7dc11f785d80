/* SPDX-License-Identifier: MIT
 * program.c - the embedded cubins and the kernels in them. */
#include "gpu_steps.h"
#include "mix_args.h"
#include "mix_int8_args.h"
#include "rows32_host.h"
#include "split_args.h"
#include "steps_args.h"

/* images.S puts each cubin between two symbols. */
#define IMAGE_SYMBOLS(name) extern const unsigned char sm90_##name[], sm90_##name##_end[];
IMAGE_SYMBOLS(baseline_ops)
IMAGE_SYMBOLS(baseline_sums)
IMAGE_SYMBOLS(baseline_fold)
IMAGE_SYMBOLS(rows32_32)
IMAGE_SYMBOLS(rows32_k)
IMAGE_SYMBOLS(rows32_iq)
IMAGE_SYMBOLS(split_attention)
IMAGE_SYMBOLS(tensor_attention)
IMAGE_SYMBOLS(mix_rows)
IMAGE_SYMBOLS(steps)
IMAGE_SYMBOLS(rows32_records)
IMAGE_SYMBOLS(rows32_team)
IMAGE_SYMBOLS(rows32_dealt)
IMAGE_SYMBOLS(rows32_tiled)
IMAGE_SYMBOLS(rows32_tiled_rows)
IMAGE_SYMBOLS(rows32_tiled_int)
IMAGE_SYMBOLS(rows32_tiled_int_rows)
IMAGE_SYMBOLS(rows32_tiled_int_32)
IMAGE_SYMBOLS(rows32_short)
IMAGE_SYMBOLS(rows32_wide)
IMAGE_SYMBOLS(rows32_wide_rows)
IMAGE_SYMBOLS(stored_32)
IMAGE_SYMBOLS(stored_k)
IMAGE_SYMBOLS(stored_iq)
IMAGE_SYMBOLS(stored_team)
IMAGE_SYMBOLS(rows32_gqh)
IMAGE_SYMBOLS(gqh_lanes_stored)
IMAGE_SYMBOLS(gqh_lanes_moe)
IMAGE_SYMBOLS(rows32_parts)
IMAGE_SYMBOLS(mix_int8)

/* Sizes are not constants to the compiler; the driver reads them from the cubin itself. */
static const gpu_image images[] = {
    {"baseline_ops", sm90_baseline_ops, 0},
    {"baseline_sums", sm90_baseline_sums, 0},
    {"baseline_fold", sm90_baseline_fold, 0},
    {"rows32_32", sm90_rows32_32, 0},
    {"rows32_k", sm90_rows32_k, 0},
    {"rows32_iq", sm90_rows32_iq, 0},
    {"split_attention", sm90_split_attention, 0},
    {"tensor_attention", sm90_tensor_attention, 0},
    {"mix_rows", sm90_mix_rows, 0},
    {"steps", sm90_steps, 0},
    {"rows32_records", sm90_rows32_records, 0},
    {"rows32_team", sm90_rows32_team, 0},
    {"rows32_dealt", sm90_rows32_dealt, 0},
    {"rows32_tiled", sm90_rows32_tiled, 0},
    {"rows32_tiled_rows", sm90_rows32_tiled_rows, 0},
    {"rows32_tiled_int", sm90_rows32_tiled_int, 0},
    {"rows32_tiled_int_rows", sm90_rows32_tiled_int_rows, 0},
    {"rows32_tiled_int_32", sm90_rows32_tiled_int_32, 0},
    {"rows32_short", sm90_rows32_short, 0},
    {"rows32_wide", sm90_rows32_wide, 0},
    {"rows32_wide_rows", sm90_rows32_wide_rows, 0},
    {"stored_32", sm90_stored_32, 0},
    {"stored_k", sm90_stored_k, 0},
    {"stored_iq", sm90_stored_iq, 0},
    {"stored_team", sm90_stored_team, 0},
    {"rows32_gqh", sm90_rows32_gqh, 0},
    {"gqh_lanes_stored", sm90_gqh_lanes_stored, 0},
    {"gqh_lanes_moe", sm90_gqh_lanes_moe, 0},
    {"rows32_parts", sm90_rows32_parts, 0},
    {"mix_int8", sm90_mix_int8, 0},
};

#define OPREG_FORMAT(NAME, name, ggml, values, bytes, act, unit, kind, final, side)                \
    {"base_" #name, BASELINE_IMAGE_##kind, 0},
#define ROWS32_SYMBOL(name, image, method)                                                         \
    {"rows32_" #name "_" method, SM90_IMAGE_##image, ROWS32_MOST_SHARED},
#define ROWS32_SPREAD_0(name, image)
#define ROWS32_SPREAD_16(name, image)                                                              \
    {"rows32_" #name "_ring", SM90_IMAGE_##image, ROWS32_TENSOR_SHARED},
#define ROWS32_SPREAD_28(name, image)           ROWS32_SYMBOL(name, image, "spread")
#define ROWS32_SPREAD_32(name, image)           ROWS32_SYMBOL(name, image, "spread")
#define ROWS32_SPREAD(name, image, waves)       ROWS32_SPREAD_##waves(name, image)
#define ROWS32_MAYBE_SPREAD(name, image, waves) ROWS32_SPREAD(name, image, waves)
#define ROWS32_STREAM_0(name, image)
#define ROWS32_STREAM_2(name, image)             ROWS32_SYMBOL(name, image, "stream")
#define ROWS32_STREAM_4(name, image)             ROWS32_SYMBOL(name, image, "stream")
#define ROWS32_STREAM(name, image, stages)       ROWS32_STREAM_##stages(name, image)
#define ROWS32_MAYBE_STREAM(name, image, stages) ROWS32_STREAM(name, image, stages)
#define ROWS32_UNIT32(NAME, name, image, values, min_sub, words, by)                               \
    ROWS32_SYMBOL(name, image, "one_w8") ROWS32_SYMBOL(name, image, "eight_w8")                    \
    ROWS32_MAYBE_SPREAD(name, image, ROWS32_SPREAD_WAVES_##name)                                   \
    ROWS32_MAYBE_STREAM(name, image, ROWS32_STREAM_STAGES_##name)
#define ROWS32_UNIT256(NAME, name, image, values, min_sub, words, by)                              \
    ROWS32_SYMBOL(name, image, "one_w8") ROWS32_SYMBOL(name, image, "eight_w8")                    \
    ROWS32_SYMBOL(name, image, "one_w4") ROWS32_SYMBOL(name, image, "one_w16")                     \
    ROWS32_MAYBE_SPREAD(name, image, ROWS32_SPREAD_WAVES_##name)                                   \
    ROWS32_MAYBE_STREAM(name, image, ROWS32_STREAM_STAGES_##name)
#define MOST_OF(a, b) ((a) > (b) ? (a) : (b))
#define SPLIT_PART(dim, heads, name, kv, element, blocks)                                          \
    {"split_part_d" #dim "_h" #heads "_" #name, SM90_IMAGE_SPLIT,                                  \
     MOST_OF(SPLIT_PART_BYTES(dim, heads, element), SPLIT_SHARE_BYTES(1))},
/* the most parts that split_host.c admits, at head_dim 256 */
#define SPLIT_MERGE(dim) {"split_merge_d" #dim, SM90_IMAGE_SPLIT, (4096u + 131u * dim) * 4u},
#define SPLIT_TENSOR(dim, name, kv, element, where, tiles)                                         \
    {"tensor_d" #dim "_" #name "_" #where, SM90_IMAGE_TENSOR,                                      \
     SPLIT_TENSOR_BYTES(dim, element, TENSOR_WAVES(dim, tensor_##where), tiles)},
#define SPLIT_HALF(dim, name, kv, element)                                                         \
    {"split_half_d" #dim "_" #name, SM90_IMAGE_SPLIT,                                              \
     MOST_OF(SPLIT_HALF_BYTES(element), SPLIT_SHARE_BYTES(1))},
#define TENSOR_MERGE(dim) {"tensor_merge_d" #dim, SM90_IMAGE_TENSOR, 0},
#define GQH_SYMBOL(name, image) {#name, SM90_IMAGE_GQH##image, 227u * 1024u},
#define ROWS32_GQH_WIDTH(name, columns, parts, ahead, waves)                                       \
    GQH_SYMBOL(rows32_##name##_x##columns##_p##parts, )
#define GQH_WIDTH(name, columns, quads, ahead, waves)                                              \
    GQH_SYMBOL(name##_stored_x##columns##_q##quads, _STORED)
#define PARTS_SYMBOLS(NAME, name)                                                                  \
    {"rows32_" #name "_parts_moe", SM90_IMAGE_PARTS, PARTS_SHARED},                                \
        {"rows32_" #name "_parts", SM90_IMAGE_PARTS, PARTS_SHARED},                                \
        {"rows32_" #name "_parts_long", SM90_IMAGE_PARTS, PARTS_SHARED},
static const gpu_symbol symbols[] = {BASELINE_OPS_SYMBOLS
#include "formats/formats.inc"
#include "rows32_list.inc"
#include "split_list.inc"
    {"mix2_glu", SM90_IMAGE_MIX, MIX_MOST_SHARED},
    {"mix2_rows", SM90_IMAGE_MIX, MIX_MOST_SHARED},
    {"mix3_glu", SM90_IMAGE_MIX, MIX_MOST_SHARED},
    {"mix3_rows", SM90_IMAGE_MIX, MIX_MOST_SHARED},
    {"mix2_int8_glu", SM90_IMAGE_MIX_INT8, MIX_INT8_SHARED(MIX_INT8_GLU_WAVES, MIX_INT8_MOST_K)},
    {"mix2_int8_rows", SM90_IMAGE_MIX_INT8, MIX_INT8_SHARED(MIX_INT8_ROWS_WAVES, MIX_INT8_MOST_K)},
    ROWS32_GQH_FORMATS GQH_STORED_FORMATS
    GQH_SYMBOL(gqh4_moe, _MOE)
    GQH_SYMBOL(gqh3_moe, _MOE)
    GQH_SYMBOL(gqh2_h_moe, _MOE)
    GQH_SYMBOL(gqh2_c_moe, _MOE)
    {"rows32_records", SM90_IMAGE_RECORDS, 0},
    ROWS32_PARTS_FORMATS(PARTS_SYMBOLS)
#undef ROWS32_UNIT32
#undef ROWS32_UNIT256
#define STORED_SYMBOL(name, image, method)                                                         \
    {"stored_" #name "_" method, SM90_IMAGE_STORED_##image, ROWS32_TENSOR_SHARED},
#define STORED_SYMBOLS_ROWS(name, image)                                                           \
    STORED_SYMBOL(name, image, "one_w8") STORED_SYMBOL(name, image, "one_w4")                      \
    STORED_SYMBOL(name, image, "eight")
#define STORED_SYMBOLS_WORDS(name, image)                                                          \
    STORED_SYMBOLS_ROWS(name, image) STORED_SYMBOL(name, TEAM, "team")
#define ROWS32_UNIT32(NAME, name, image, values, min_sub, words, by)                               \
    STORED_SYMBOLS_##by(name, image)
#define ROWS32_UNIT256(NAME, name, image, values, min_sub, words, by)                              \
    STORED_SYMBOLS_##by(name, image)
#include "rows32_list.inc"
#undef ROWS32_UNIT32
#undef ROWS32_UNIT256
#define ROWS32_SYMBOLS_MORE(name, by, int_image)                                                   \
    {"rows32_" #name "_short", SM90_IMAGE_SHORT, ROWS32_MOST_SHARED},                              \
        {"rows32_" #name "_wide16", SM90_IMAGE_WIDE_##by, ROWS32_TENSOR_SHARED},                   \
        {"rows32_" #name "_wide32", SM90_IMAGE_WIDE_##by, ROWS32_TENSOR_SHARED},                   \
        {"rows32_" #name "_int64", SM90_IMAGE_INT_##int_image, ROWS32_TENSOR_SHARED},              \
        {"rows32_" #name "_int128", SM90_IMAGE_INT_##int_image, ROWS32_TENSOR_SHARED},
#define ROWS32_UNIT32(NAME, name, image, values, min_sub, words, by)                               \
    ROWS32_SYMBOLS_MORE(name, by, 32)
#define ROWS32_UNIT256(NAME, name, image, values, min_sub, words, by)                              \
    ROWS32_SYMBOLS_MORE(name, by, by)                                                              \
    {"rows32_" #name "_tiled", SM90_IMAGE_TILED_##by, ROWS32_TENSOR_SHARED},
#include "rows32_list.inc"
#undef ROWS32_UNIT32
#undef ROWS32_UNIT256
#define ROWS32_TEAM_ROWS(name)
#define ROWS32_TEAM_WORDS(name) {"rows32_" #name "_team", SM90_IMAGE_TEAM, ROWS32_TENSOR_SHARED},
#define ROWS32_UNIT32(NAME, name, image, values, min_sub, words, by)  ROWS32_TEAM_##by(name)
#define ROWS32_UNIT256(NAME, name, image, values, min_sub, words, by) ROWS32_TEAM_##by(name)
#include "rows32_list.inc"
#undef ROWS32_UNIT32
#undef ROWS32_UNIT256
#define ROWS32_DEALT(NAME, name) {"rows32_" #name "_dealt", SM90_IMAGE_DEALT, ROWS32_TENSOR_SHARED},
#include "rows32_dealt_list.inc"
#undef ROWS32_DEALT
    STEPS_SYMBOLS(SM90_IMAGE_STEPS)
};
#undef OPREG_FORMAT

/* the steps are the last symbols */
const uint32_t gpu_first_step = sizeof symbols / sizeof symbols[0] - STEP_KERNELS;

const gpu_program sm90_program = {
    .arch = "sm_90",
    .images = images,
    .num_images = sizeof images / sizeof images[0],
    .symbols = symbols,
    .num_symbols = sizeof symbols / sizeof symbols[0],
};
