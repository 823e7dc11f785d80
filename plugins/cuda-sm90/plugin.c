/* SPDX-License-Identifier: MIT
 * plugin.c - the plugin cuda-sm90: its table, made from kernels.inc, and its entry. */
#include "gpu_steps.h"
#include "kernels.h"
#include "program.h"

#include <string.h>

static const uint32_t fp2_mix_only[] = {OPREG_ROCMFP2_MIX, 0};
#define no_formats NULL
#define KIND_BASELINE OPREG_KF_BASELINE
#define KIND_OPT_IN   0u
#define OPREG_LAYOUT_ROWS32 PREPARED_ROWS32

static const char base_quantize_summary[] = "one wave quantizes 256 activations";
static const char base_matmul_summary[] = "one wave an output, every format and layout";
static const char base_route_summary[] = "one block builds the route";
static const char base_moe_matmul_summary[] = "one wave an output of each entry";
static const char base_moe_glu_summary[] = "gate, up and glu by one wave an output";
static const char base_moe_down_summary[] = "requantizes h, then one wave an output";
static const char base_combine_summary[] = "one thread an output, slots ascending";
static const char base_ffn_summary[] = "the stages one after another, h in f32";
static const char rows32_one_summary[] = "one row of x, a lane a weight row, quantizes x itself";
static const char rows32_eight_summary[] = "up to 8 rows of x a pass on int8 tensor cores";
static const char rows32_moe_matmul_summary[] = "a tile of 32 weight rows a block, by group";
static const char rows32_moe_glu_summary[] = "gate, up and glu, a tile of 32 rows a block, by group";
static const char rows32_moe_down_summary[] = "requantizes h, a tile of 32 rows a block, by group";
static const char split_attention_summary[] = "a block a segment of 256 positions, then their tree";
static const char mix_glu_summary[] = "gate and up by level pairs from shared memory";
static const char base_attention_summary[] = "one block a head, one wave a strand";

#define OPREG_KERNEL(kernel, op_, level_, kind, priority_, m_min, m_max, tile_n, layout_, formats_) \
    static const opreg_kernel kernel##_kernel = {                                                  \
        .struct_size = sizeof(opreg_kernel),                                                       \
        .op = OPREG_OP_##op_,                                                                      \
        .flags = KIND_##kind | OPREG_KF_GRAPH_SAFE | OPREG_KF_DETERMINISTIC |                      \
                 OPREG_KF_WIDTH_INVARIANT,                                                         \
        .priority = priority_,                                                                     \
        .level = OPREG_LEVEL_##level_,                                                             \
        .layout = OPREG_LAYOUT_##layout_,                                                          \
        .name = #kernel,                                                                           \
        .summary = kernel##_summary,                                                               \
        .formats = formats_,                                                                       \
        .supports = kernel##_supports,                                                             \
        .workspace = kernel##_workspace,                                                           \
        .prepare = gpu_plan_prepare,                                                               \
        .run = kernel##_run,                                                                       \
        .release = gpu_plan_release,                                                               \
    };
#include "kernels.inc"
#undef OPREG_KERNEL

#define OPREG_KERNEL(kernel, ...) &kernel##_kernel,
static const opreg_kernel *const kernels[] = {
#include "kernels.inc"
};
#undef OPREG_KERNEL

static const opreg_layout *const layouts[] = {&prepared_rows32};

static opreg_status probe(const opreg_host *host, opreg_device *rows, size_t cap, size_t *count) {
    return gpu_open(host, &sm90_program, rows, cap, count);
}

static void shutdown_plugin(const opreg_host *host) { gpu_close(host); }

static const opreg_plugin plugin = {
    .struct_size = sizeof(opreg_plugin),
    .abi_major = OPREG_ABI_MAJOR,
    .abi_minor = OPREG_ABI_MINOR,
    .num_kernels = sizeof kernels / sizeof kernels[0],
    .num_layouts = sizeof layouts / sizeof layouts[0],
    .name = OPREG_PLUGIN_NAME,
    .version = OPREG_VERSION,
    .built_with = OPREG_PLUGIN_BUILT_WITH,
    .archs = OPREG_PLUGIN_ARCHS,
    .kernels = kernels,
    .layouts = layouts,
    .io = &gpu_io,
    .probe = probe,
    .shutdown = shutdown_plugin,
    .steps = &gpu_steps,
};

opreg_status opreg_plugin_entry(const opreg_host *host, opreg_plugin *out) {
    size_t bytes = sizeof plugin;
    if (host->abi_major != OPREG_ABI_MAJOR || host->abi_minor_min > OPREG_ABI_MINOR) {
        return OPREG_E_ABI;
    }
    if (out->struct_size < bytes) {
        bytes = out->struct_size;
    }
    memcpy(out, &plugin, bytes);
    if (out->abi_minor > host->abi_minor_max) {
        out->abi_minor = host->abi_minor_max;
    }
    return OPREG_OK;
}
