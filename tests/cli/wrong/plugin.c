/* SPDX-License-Identifier: MIT
 * plugin.c - a plugin on the host's memory whose variants are wrong, to test that opreg verify
 * notices.  q8_0 weights, f32 x and y. */
#include "opreg/opreg_plugin.h"

#include <stdio.h>

#include "canonical.h"
#include "formats/act.h"
#include "formats/q8_0.h"

extern const opreg_device_io host_memory;

typedef enum fault { RIGHT, OTHER_ORDER, SAME_SUMS, BEYOND_BOUND, BEYOND_BAND, UNWRITTEN } fault;

static const uint32_t q8_0_only[] = {OPREG_Q8_0, 0};

static opreg_status supports(const opreg_device *dev, const void *problem, char reason[128]) {
    const opreg_matmul_bt_quant *p = problem;
    (void)dev;
    if (p->b_dtype != OPREG_Q8_0 || p->x_dtype != OPREG_F32 || p->y_dtype != OPREG_F32 ||
        p->glu != OPREG_GLU_NONE || (p->flags & OPREG_PF_BIAS) != 0) {
        snprintf(reason, 128, "only q8_0 weights with f32 x and y");
        return OPREG_E_UNSUPPORTED;
    }
    return OPREG_OK;
}

static float dot(const uint8_t *row, const float *x, int64_t k, fault how) {
    static const opreg_side none = {.tensor_scale = 1.0f};
    float accumulators[32] = {0};
    for (int64_t u = 0; u < k / 32; u++) {
        int8_t codes[32];
        int16_t sums[2];
        int32_t n[2] = {0, 0};
        float yd = act_q8_0(x + 32 * u, codes, sums);
        q8_0_sums(row + 34 * u, 0, codes, sums, &none, n);
        accumulators[how == OTHER_ORDER || how == SAME_SUMS ? 0 : u % 32] +=
            q8_0_term(row + 34 * u, 0, n, yd, &none);
    }
    return canonical_tree(accumulators);
}

static opreg_status multiply(const void *problem, const opreg_call *call, fault how) {
    const opreg_matmul_bt_quant *p = problem;
    const opreg_weight_view *w = call->weights[0];
    const float *x = call->bufs[OPREG_MATMUL_X].ptr;
    float *y = call->bufs[OPREG_MATMUL_Y].ptr;
    for (int64_t m = 0; m < p->m; m++) {
        for (int64_t n = 0; n < p->n - (how == UNWRITTEN); n++) {
            float v =
                dot((const uint8_t *)w->data + n * w->row_bytes, x + m * p->x_stride, p->k, how);
            v = how == BEYOND_BOUND && n == p->n - 1 ? v + 0.01f * v + 0.001f : v;
            v = how == BEYOND_BAND ? v * 1.1f : v;
            y[m * p->y_stride + n] = v;
        }
    }
    return OPREG_OK;
}

#define RUN(name, how)                                                                             \
    static opreg_status name##_run(void *state, const void *problem, const opreg_call *call) {     \
        (void)state;                                                                               \
        return multiply(problem, call, how);                                                       \
    }
RUN(right, RIGHT)
RUN(other_order, OTHER_ORDER)
RUN(same_sums, SAME_SUMS)
RUN(beyond_bound, BEYOND_BOUND)
RUN(beyond_band, BEYOND_BAND)
RUN(unwritten, UNWRITTEN)

static opreg_status breaks_run(void *state, const void *problem, const opreg_call *call) {
    (void)state;
    (void)problem;
    call->host->error(call->host->ctx, "driver error 700 (it broke)");
    return OPREG_E_DEVICE;
}

#define WRONG_BASELINE OPREG_KF_BASELINE
#define WRONG_OPT_IN   0u
#define OPREG_KERNEL(kernel, op_, level_, kind, priority_, m_min, m_max, tile_n, layout_,          \
                     formats_)                                                                     \
    static const opreg_kernel kernel##_kernel = {.struct_size = sizeof(opreg_kernel),              \
                                                 .op = OPREG_OP_##op_,                             \
                                                 .flags = WRONG_##kind,                            \
                                                 .priority = priority_,                            \
                                                 .level = OPREG_LEVEL_##level_,                    \
                                                 .layout = OPREG_LAYOUT_##layout_,                 \
                                                 .name = #kernel,                                  \
                                                 .summary = "for tests",                           \
                                                 .formats = formats_,                              \
                                                 .supports = supports,                             \
                                                 .run = kernel##_run};
#include "kernels.inc"
#undef OPREG_KERNEL
#define OPREG_KERNEL(kernel, ...) &kernel##_kernel,
static const opreg_kernel *const kernels[] = {
#include "kernels.inc"
};

static opreg_status probe(const opreg_host *host, opreg_device *rows, size_t cap, size_t *count) {
    (void)host;
    *count = 1;
    if (cap > 0) {
        rows[0] = (opreg_device){.struct_size = sizeof rows[0],
                                 .kind = OPREG_CPU,
                                 .ordinal = 7,
                                 .units = 1,
                                 .arch = "any",
                                 .name = "wrong: host memory"};
    }
    return OPREG_OK;
}

static const opreg_plugin plugin = {.struct_size = sizeof(opreg_plugin),
                                    .abi_major = OPREG_ABI_MAJOR,
                                    .abi_minor = OPREG_ABI_MINOR,
                                    .num_kernels = sizeof kernels / sizeof kernels[0],
                                    .name = OPREG_PLUGIN_NAME,
                                    .version = OPREG_VERSION,
                                    .built_with = OPREG_PLUGIN_BUILT_WITH,
                                    .archs = OPREG_PLUGIN_ARCHS,
                                    .kernels = kernels,
                                    .io = &host_memory,
                                    .probe = probe};

opreg_status opreg_plugin_entry(const opreg_host *host, opreg_plugin *out) {
    if (host->abi_major != OPREG_ABI_MAJOR || out->struct_size < sizeof plugin) {
        return OPREG_E_ABI;
    }
    *out = plugin;
    return OPREG_OK;
}
