/* SPDX-License-Identifier: MIT
 * plugin.c - the smallest plugin: one operator, a baseline and a variant with its own flag.
 *
 * Its device is the host's memory, so that it runs anywhere.  Copy the folder to start one of your
 * own. */
#include "example.h"

#include <string.h>

static const uint32_t q8_0_only[] = {OPREG_Q8_0, 0};

#define EXAMPLE_BASELINE OPREG_KF_BASELINE
#define EXAMPLE_OPT_IN   0u

/* One opreg_kernel for each line of kernels.inc. */
#define OPREG_KERNEL(kernel, op_, level_, kind, priority_, m_min, m_max, tile_n, layout_, formats_) \
    static const opreg_kernel kernel##_kernel = {                                                   \
        .struct_size = sizeof(opreg_kernel),                                                        \
        .op = OPREG_OP_##op_,                                                                       \
        .flags = EXAMPLE_##kind | OPREG_KF_DETERMINISTIC | OPREG_KF_WIDTH_INVARIANT,                \
        .priority = priority_,                                                                      \
        .level = OPREG_LEVEL_##level_,                                                              \
        .layout = OPREG_LAYOUT_##layout_,                                                           \
        .name = #kernel,                                                                            \
        .summary = kernel##_summary,                                                                \
        .formats = formats_,                                                                        \
        .supports = kernel##_supports,                                                              \
        .workspace = kernel##_workspace,                                                            \
        .run = kernel##_run,                                                                        \
    };
static const char matmul_summary[] = "q8_0 weights, quantizes x for every row of W";
static const char matmul_shared_summary[] = "q8_0 weights, quantizes x once into the workspace";
#include "kernels.inc"
#undef OPREG_KERNEL

#define OPREG_KERNEL(kernel, ...) &kernel##_kernel,
static const opreg_kernel *const kernels[] = {
#include "kernels.inc"
};
#undef OPREG_KERNEL

static opreg_status probe(const opreg_host *host, opreg_device *rows, size_t cap, size_t *count) {
    (void)host;
    *count = 1;
    if (cap > 0) {
        const opreg_device device = {
            .struct_size = sizeof device,
            .kind = OPREG_CPU,
            .ordinal = 1, /* 0 is the built-in backend */
            .units = 1,
            .arch = "any",
            .name = "example: host memory",
        };
        rows[0] = device;
    }
    return OPREG_OK;
}

static const opreg_plugin plugin = {
    .struct_size = sizeof(opreg_plugin),
    .abi_major = OPREG_ABI_MAJOR,
    .abi_minor = OPREG_ABI_MINOR,
    .num_kernels = sizeof kernels / sizeof kernels[0],
    .name = OPREG_PLUGIN_NAME,
    .version = OPREG_VERSION,
    .built_with = OPREG_PLUGIN_BUILT_WITH,
    .archs = OPREG_PLUGIN_ARCHS,
    .kernels = kernels,
    .io = &host_memory,
    .probe = probe,
};

opreg_status opreg_plugin_entry(const opreg_host *host, opreg_plugin *out) {
    size_t bytes = out->struct_size < sizeof plugin ? out->struct_size : sizeof plugin;
    if (host->abi_major != OPREG_ABI_MAJOR || host->abi_minor_min > OPREG_ABI_MINOR) {
        return OPREG_E_ABI;
    }
    memcpy(out, &plugin, bytes);
    if (out->abi_minor > host->abi_minor_max) {
        out->abi_minor = host->abi_minor_max; /* an older host, which knows a shorter table */
    }
    return OPREG_OK;
}
