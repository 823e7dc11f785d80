/* SPDX-License-Identifier: MIT
 * plugin.c - the built-in plugin "cpu": one device, the host, and the table made from kernels.inc.
 */
#include "cpu/cpu.h"
#include "cpu/kernels.h"
#include "cpu/rows16.h"

#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#define OPREG_FORMAT(ID, ...) OPREG_##ID,
static const uint32_t all_formats[] = {
#include "formats/formats.inc"
    0};
#undef OPREG_FORMAT

#define no_formats   NULL
#define CPU_BASELINE OPREG_KF_BASELINE
#define CPU_OPT_IN   0u

/* layouts of kernels.inc: a baseline takes all of them */
#define CPU_LAYOUT_STORED OPREG_LAYOUT_STORED
#define CPU_LAYOUT_EVERY  OPREG_LAYOUT_ANY
#define CPU_LAYOUT_ROWS16 ROWS16_LAYOUT

static const char reference_quantize_summary[] = "the canonical activation quantizer";
static const char reference_matmul_summary[] = "the canonical order, every format and dtype";
static const char reference_route_summary[] = "the canonical route, byte for byte";
static const char reference_moe_matmul_summary[] = "the canonical order, every format and dtype";
static const char reference_moe_glu_summary[] = "the canonical order of gate, up and GLU";
static const char reference_moe_down_summary[] = "the canonical order, h by destination";
static const char reference_combine_summary[] = "router weights times rows, slots ascending";
static const char reference_ffn_summary[] = "moe_glu, moe_down and moe_combine with h in f32";
static const char reference_attention_summary[] = "the canonical order, every cache and table";

static const char rows16_avx2_matmul_summary[] = "AVX2, 16 rows side by side";
static const char rows16_avx2_moe_matmul_summary[] = "AVX2, 16 rows side by side";
static const char rows16_avx2_moe_glu_summary[] = "AVX2, 16 rows side by side";
static const char rows16_avx2_moe_down_summary[] = "AVX2, 16 rows side by side";
static const char rows16_avx2_ffn_summary[] = "AVX2, 16 rows side by side";
static const char rows16_avx512_matmul_summary[] = "AVX-512 VNNI, 16 rows side by side";
static const char rows16_avx512_moe_matmul_summary[] = "AVX-512 VNNI, 16 rows side by side";
static const char rows16_avx512_moe_glu_summary[] = "AVX-512 VNNI, 16 rows side by side";
static const char rows16_avx512_moe_down_summary[] = "AVX-512 VNNI, 16 rows side by side";
static const char rows16_avx512_ffn_summary[] = "AVX-512 VNNI, 16 rows side by side";
static const char avx2_attention_summary[] = "AVX2, lanes of keys, then of elements";
static const char avx512_attention_summary[] = "AVX-512, lanes of keys, then of elements";

#define OPREG_KERNEL(kernel, op_, level_, kind, priority_, m_min, m_max, tile_n, layout_,          \
                     formats_)                                                                     \
    static const opreg_kernel kernel##_kernel = {                                                  \
        .struct_size = sizeof(opreg_kernel),                                                       \
        .op = OPREG_OP_##op_,                                                                      \
        .flags = CPU_##kind | OPREG_KF_DETERMINISTIC | OPREG_KF_WIDTH_INVARIANT,                   \
        .priority = priority_,                                                                     \
        .level = OPREG_LEVEL_##level_,                                                             \
        .layout = CPU_LAYOUT_##layout_,                                                            \
        .name = #kernel,                                                                           \
        .summary = kernel##_summary,                                                               \
        .formats = formats_,                                                                       \
        .supports = kernel##_supports,                                                             \
        .workspace = kernel##_workspace,                                                           \
        .run = kernel##_run,                                                                       \
    };
#include "cpu/kernels.inc"
#undef OPREG_KERNEL

#define OPREG_KERNEL(kernel, ...) &kernel##_kernel,
static const opreg_kernel *const kernels[] = {
#include "cpu/kernels.inc"
};
#undef OPREG_KERNEL

static void set_text(char *out, size_t size, const char *text) {
    snprintf(out, size, "%.*s", (int)size - 1, text);
}

/* "model name : Some Processor" of the first processor, where the system says. */
static void read_model(char *out, size_t size) {
    FILE *file = fopen("/proc/cpuinfo", "r");
    char line[256];
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        char *colon = strchr(line, ':');
        if (strncmp(line, "model name", 10) == 0 && colon != NULL && colon[1] == ' ') {
            line[strcspn(line, "\n")] = '\0';
            set_text(out, size, colon + 2);
            break;
        }
    }
    if (file != NULL) {
        fclose(file);
    }
}

static opreg_status probe(const opreg_host *host, opreg_device *rows, size_t cap, size_t *count) {
    struct utsname system;
    long threads = sysconf(_SC_NPROCESSORS_ONLN), pages = sysconf(_SC_PHYS_PAGES);
    long page_bytes = sysconf(_SC_PAGESIZE);
    (void)host;
    *count = 1;
    if (cap == 0) {
        return OPREG_OK;
    }
    memset(&rows[0], 0, sizeof rows[0]);
    rows[0].struct_size = sizeof rows[0];
    rows[0].kind = OPREG_CPU;
    rows[0].units = threads > 0 ? (uint32_t)threads : 1u;
    rows[0].memory_bytes =
        pages > 0 && page_bytes > 0 ? (uint64_t)pages * (uint64_t)page_bytes : 0u;
    set_text(rows[0].arch, sizeof rows[0].arch, uname(&system) >= 0 ? system.machine : "unknown");
    set_text(rows[0].name, sizeof rows[0].name, "host processor");
    read_model(rows[0].name, sizeof rows[0].name);
    return OPREG_OK;
}

static const opreg_layout *const layouts[] = {&rows16_layout};

static const opreg_plugin plugin = {
    .struct_size = sizeof(opreg_plugin),
    .abi_major = OPREG_ABI_MAJOR,
    .abi_minor = OPREG_ABI_MINOR,
    .num_kernels = sizeof kernels / sizeof kernels[0],
    .name = "cpu",
    .version = OPREG_VERSION,
    .built_with =
#ifdef __VERSION__
        "C11, compiler " __VERSION__,
#else
        "C11",
#endif
    .archs = "host",
    .num_layouts = sizeof layouts / sizeof layouts[0],
    .kernels = kernels,
    .layouts = layouts,
    .io = &cpu_io,
    .probe = probe,
    .steps = &cpu_steps,
};

opreg_status opreg_cpu_entry(const opreg_host *host, opreg_plugin *out) {
    if (host->abi_major != OPREG_ABI_MAJOR || out->struct_size < sizeof plugin) {
        return OPREG_E_ABI;
    }
    *out = plugin;
    return OPREG_OK;
}
