/* SPDX-License-Identifier: MIT
 * fake_plugin.h - a small right plugin: kernels that only mark their output, on host memory.  Fakes
 * that misbehave include it, name a FAKE_WRONG and are wrong in that one point. */
#ifndef FAKE_PLUGIN_H
#define FAKE_PLUGIN_H

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "opreg/opreg_plugin.h"

#ifndef FAKE_NAME
#define FAKE_NAME "fake"
#endif
#ifndef FAKE_ORDINAL
#define FAKE_ORDINAL 0
#endif
#ifndef FAKE_ENTRY
#define FAKE_ENTRY opreg_plugin_entry
#endif

/* What a run leaves in the first output float: which kernel it was. */
#define FAKE_MARK_BASE 1.0f
#define FAKE_MARK_EXACT 2.0f
#define FAKE_MARK_INT 3.0f
#define FAKE_MARK_PREPARED 4.0f

static atomic_int fake_shutdowns, fake_prepares, fake_releases;

static opreg_status fake_alloc(const opreg_host *host, const opreg_device *dev, uint64_t bytes,
                               void **out) {
    (void)host, (void)dev;
    *out = malloc(bytes > 0 ? bytes : 1);
    return *out != NULL ? OPREG_OK : OPREG_E_NOMEM;
}
static void fake_free(const opreg_host *host, const opreg_device *dev, void *ptr) {
    (void)host, (void)dev;
    free(ptr);
}
static opreg_status fake_move(const opreg_host *host, const opreg_device *dev, void *dst,
                              const void *src, uint64_t bytes, void *stream) {
    (void)host, (void)dev, (void)stream;
    memcpy(dst, src, bytes);
    return OPREG_OK;
}
static opreg_status fake_fill(const opreg_host *host, const opreg_device *dev, void *dst,
                              uint8_t byte, uint64_t bytes, void *stream) {
    (void)host, (void)dev, (void)stream;
    memset(dst, byte, bytes);
    return OPREG_OK;
}
static opreg_status fake_stream(const opreg_host *host, const opreg_device *dev, void **stream) {
    (void)host, (void)dev;
    *stream = NULL;
    return OPREG_OK;
}
static void fake_stream_end(const opreg_host *host, const opreg_device *dev, void *stream) {
    (void)host, (void)dev, (void)stream;
}
static opreg_status fake_sync(const opreg_host *host, const opreg_device *dev, void *stream) {
    (void)host, (void)dev, (void)stream;
    return OPREG_OK;
}

static const opreg_device_io fake_io = {.struct_size = sizeof(opreg_device_io),
                                        .alloc = fake_alloc,
                                        .free = fake_free,
                                        .to_device = fake_move,
                                        .to_host = fake_move,
                                        .copy = fake_move,
                                        .fill = fake_fill,
                                        .stream_create = fake_stream,
                                        .stream_destroy = fake_stream_end,
                                        .stream_sync = fake_sync};

static opreg_status fake_supports(const opreg_device *dev, const void *problem, char reason[128]) {
    (void)dev, (void)problem, (void)reason;
    return OPREG_OK;
}
static opreg_status fake_few_rows(const opreg_device *dev, const void *problem, char reason[128]) {
    const opreg_matmul_bt_quant *p = problem;
    (void)dev;
    if (p->m > 8) {
        snprintf(reason, 128, "m %lld is above 8", (long long)p->m);
        return OPREG_E_UNSUPPORTED;
    }
    return OPREG_OK;
}
static uint64_t fake_workspace(const opreg_device *dev, const void *problem) {
    (void)dev, (void)problem;
    return 1000;
}
static opreg_status fake_prepare(const opreg_host *host, const opreg_device *dev,
                                 const void *problem, void **state) {
    (void)host, (void)dev, (void)problem;
    fake_prepares++;
    *state = malloc(1);
    return OPREG_OK;
}
static void fake_release(void *state) {
    fake_releases++;
    free(state);
}
static opreg_status fake_mark(const opreg_call *call, float mark) {
    memcpy(call->bufs[0].ptr, &mark, sizeof mark);
    return OPREG_OK;
}
static opreg_status fake_run_base(void *state, const void *problem, const opreg_call *call) {
    (void)state, (void)problem;
    return fake_mark(call, FAKE_MARK_BASE);
}
static opreg_status fake_run_exact(void *state, const void *problem, const opreg_call *call) {
    (void)state, (void)problem;
    return fake_mark(call, FAKE_MARK_EXACT);
}
static opreg_status fake_run_int(void *state, const void *problem, const opreg_call *call) {
    (void)state, (void)problem;
    return fake_mark(call, FAKE_MARK_INT);
}
static opreg_status fake_run_prepared(void *state, const void *problem, const opreg_call *call) {
    (void)state, (void)problem;
    return fake_mark(call, FAKE_MARK_PREPARED);
}
static opreg_status fake_run_silent(void *state, const void *problem, const opreg_call *call) {
    (void)state, (void)problem, (void)call;
    return OPREG_E_DEVICE;
}

static const uint32_t fake_formats[] = {OPREG_Q4_K, OPREG_Q8_0, 0};
static const uint32_t fake_one_format[] = {OPREG_Q4_K, 0};

#define FAKE_ASKS (OPREG_KF_GRAPH_SAFE | OPREG_KF_DETERMINISTIC)
static const opreg_kernel fake_kernels[] = {
    {sizeof(opreg_kernel), OPREG_OP_MATMUL_BT_QUANT,
     OPREG_KF_BASELINE | FAKE_ASKS | OPREG_KF_WIDTH_INVARIANT, 0, OPREG_LEVEL_CANONICAL,
     OPREG_LAYOUT_ANY, "base", "takes all", fake_formats, fake_supports, NULL, NULL, fake_run_base,
     NULL, 0},
    {sizeof(opreg_kernel), OPREG_OP_MATMUL_BT_QUANT, FAKE_ASKS, 10, OPREG_LEVEL_CANONICAL,
     OPREG_LAYOUT_STORED, "exact_one", "few rows, with scratch", fake_one_format, fake_few_rows,
     fake_workspace, fake_prepare, fake_run_exact, fake_release, 0},
    {sizeof(opreg_kernel), OPREG_OP_MATMUL_BT_QUANT, 0, 20, OPREG_LEVEL_INT, OPREG_LAYOUT_STORED,
     "int_one", "integer sums", fake_one_format, fake_few_rows, NULL, NULL, fake_run_int, NULL,
     0},
    {sizeof(opreg_kernel), OPREG_OP_MATMUL_BT_QUANT, 0, 5, OPREG_LEVEL_BAND, 1, "prepared_one",
     "reads the swapped layout", fake_one_format, fake_supports, NULL, NULL, fake_run_prepared,
     NULL, 0},
    {sizeof(opreg_kernel), OPREG_OP_MOE_COMBINE, OPREG_KF_BASELINE, 0, OPREG_LEVEL_CANONICAL,
     OPREG_LAYOUT_ANY, "silent", "fails without a text", NULL, fake_supports, NULL, NULL,
     fake_run_silent, NULL, 0},
};
static const opreg_kernel *const fake_rows[] = {&fake_kernels[0], &fake_kernels[1],
                                                &fake_kernels[2], &fake_kernels[3],
                                                &fake_kernels[4]};

/* The prepared form is every byte xor 0x55. */
static uint64_t fake_layout_bytes(const opreg_device *dev, uint32_t format, int64_t experts,
                                  int64_t n, int64_t k) {
    (void)dev;
    return format == OPREG_Q4_K ? (uint64_t)(experts * n * (k / 256) * 144) : 0;
}
static opreg_status fake_swap(const opreg_weight_view *from, void *dst) {
    for (int64_t i = 0; i < from->experts * from->n * from->row_bytes; i++) {
        ((uint8_t *)dst)[i] = ((const uint8_t *)from->data)[i] ^ 0x55u;
    }
    return OPREG_OK;
}
static opreg_status fake_pack(const opreg_host *host, const opreg_device *dev,
                              const opreg_weight_view *stored, void *dst, void *stream) {
    (void)host, (void)dev, (void)stream;
    return fake_swap(stored, dst);
}
static const opreg_layout fake_layout = {sizeof(opreg_layout), 1, "swapped", "bytes xor 0x55",
                                         fake_one_format, fake_layout_bytes, fake_pack, fake_pack};
static const opreg_layout *const fake_layouts[] = {&fake_layout};

static opreg_status fake_probe(const opreg_host *host, opreg_device *rows, size_t cap,
                               size_t *count) {
    (void)host;
    *count = 1;
    if (cap > 0) {
        rows[0].kind = OPREG_CUDA;
        rows[0].ordinal = FAKE_ORDINAL;
        rows[0].units = 1;
        snprintf(rows[0].arch, sizeof rows[0].arch, "fake_1");
        snprintf(rows[0].name, sizeof rows[0].name, "fake device");
    }
    return OPREG_OK;
}

static void fake_shutdown(const opreg_host *host) {
    (void)host;
    fake_shutdowns++;
}

static opreg_plugin fake_table(void) {
    return (opreg_plugin){.struct_size = sizeof(opreg_plugin),
                          .abi_major = OPREG_ABI_MAJOR,
                          .abi_minor = OPREG_ABI_MINOR,
                          .num_kernels = sizeof fake_rows / sizeof fake_rows[0],
                          .num_layouts = 1,
                          .name = FAKE_NAME,
                          .version = "1.2.3",
                          .built_with = "nothing",
                          .archs = "fake_1",
                          .kernels = fake_rows,
                          .layouts = fake_layouts,
                          .io = &fake_io,
                          .probe = fake_probe,
                          .shutdown = fake_shutdown};
}

#ifdef FAKE_WRONG
static void FAKE_WRONG(opreg_plugin *table);
#endif

opreg_status FAKE_ENTRY(const opreg_host *host, opreg_plugin *out);
opreg_status FAKE_ENTRY(const opreg_host *host, opreg_plugin *out) {
    (void)host;
    *out = fake_table();
#ifdef FAKE_WRONG
    FAKE_WRONG(out);
#endif
    return OPREG_OK;
}

#endif /* FAKE_PLUGIN_H */
