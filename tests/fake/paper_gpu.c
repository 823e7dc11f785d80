/* SPDX-License-Identifier: MIT
 * paper_gpu.c - a device that only looks like a GPU. */
#include "paper_gpu.h"

#include <stdlib.h>
#include <string.h>

#include "cpu/cpu.h"

#define LAUNCHES 8
#define PROBLEM_BYTES 256

static const opreg_kernel *base[OPREG_OP_COUNT + 1];

/* One recorded launch: the arguments by value, the data they point at not. */
typedef struct launch {
    opreg_status (*run)(const void *problem, const opreg_call *call);
    unsigned char problem[PROBLEM_BYTES];
    opreg_call call;
    opreg_buf bufs[16];
    opreg_weight_view views[3];
    const opreg_weight_view *weights[3];
} launch;

typedef struct graph {
    int count;
    launch launches[LAUNCHES];
} graph;

typedef struct stream {
    graph *recording;
} stream;

/* ---- memory, streams and graphs ------------------------------------------------------------------- */

#define IO const opreg_host *host, const opreg_device *dev
#define IO_UNUSED (void)host, (void)dev

static opreg_status io_alloc(IO, uint64_t bytes, void **out) {
    IO_UNUSED;
    *out = aligned_alloc(256, (bytes + 511) / 256 * 256);
    return *out != NULL ? OPREG_OK : OPREG_E_NOMEM;
}

static void io_free(IO, void *ptr) {
    IO_UNUSED;
    free(ptr);
}

static opreg_status io_move(IO, void *dst, const void *src, uint64_t bytes, void *on) {
    IO_UNUSED;
    (void)on;
    if (bytes > 0) {
        memmove(dst, src, bytes);
    }
    return OPREG_OK;
}

static opreg_status io_fill(IO, void *dst, uint8_t byte, uint64_t bytes, void *on) {
    IO_UNUSED;
    (void)on;
    memset(dst, byte, bytes);
    return OPREG_OK;
}

static opreg_status io_stream_create(IO, void **out) {
    IO_UNUSED;
    *out = calloc(1, sizeof(stream));
    return *out != NULL ? OPREG_OK : OPREG_E_NOMEM;
}

static void io_stream_destroy(IO, void *on) {
    IO_UNUSED;
    free(on);
}

/* As on a real device, a stream that is being captured cannot be waited for. */
static opreg_status io_stream_sync(IO, void *on) {
    (void)dev;
    if (on != NULL && ((stream *)on)->recording != NULL) {
        host->error(host->ctx, "error 900 (capture unsupported)");
        return OPREG_E_DEVICE;
    }
    return OPREG_OK;
}

static opreg_status io_capture_begin(IO, void *on) {
    IO_UNUSED;
    ((stream *)on)->recording = calloc(1, sizeof(graph));
    return ((stream *)on)->recording != NULL ? OPREG_OK : OPREG_E_NOMEM;
}

static opreg_status io_capture_end(IO, void *on, void **out) {
    IO_UNUSED;
    *out = ((stream *)on)->recording;
    ((stream *)on)->recording = NULL;
    return OPREG_OK;
}

static opreg_status io_graph_launch(IO, void *which, void *on) {
    graph *g = which;
    opreg_status status = OPREG_OK;
    IO_UNUSED;
    (void)on;
    for (int i = 0; status == OPREG_OK && i < g->count; i++) {
        status = g->launches[i].run(g->launches[i].problem, &g->launches[i].call);
    }
    return status;
}

static void io_graph_destroy(IO, void *which) {
    IO_UNUSED;
    free(which);
}

static const opreg_device_io io = {.struct_size = sizeof io,
                                   .alloc = io_alloc,
                                   .free = io_free,
                                   .to_device = io_move,
                                   .to_host = io_move,
                                   .copy = io_move,
                                   .fill = io_fill,
                                   .stream_create = io_stream_create,
                                   .stream_destroy = io_stream_destroy,
                                   .stream_sync = io_stream_sync,
                                   .capture_begin = io_capture_begin,
                                   .capture_end = io_capture_end,
                                   .graph_launch = io_graph_launch,
                                   .graph_destroy = io_graph_destroy};

/* ---- kernels ------------------------------------------------------------------------------------------ */

/* Runs now, or is recorded when the stream is. */
static opreg_status enqueue(opreg_status (*run)(const void *, const opreg_call *), size_t bytes,
                            const void *problem, const opreg_call *call) {
    graph *g = call->stream != NULL ? ((stream *)call->stream)->recording : NULL;
    launch *l;
    if (g == NULL) {
        return run(problem, call);
    }
    if (g->count == LAUNCHES || call->num_bufs > 16 || bytes > PROBLEM_BYTES) {
        return OPREG_E_DEVICE;
    }
    l = &g->launches[g->count++];
    l->run = run;
    memcpy(l->problem, problem, bytes);
    l->call = *call;
    memcpy(l->bufs, call->bufs, call->num_bufs * sizeof l->bufs[0]);
    l->call.bufs = l->bufs;
    for (uint32_t i = 0; i < call->num_weights; i++) {
        l->views[i] = *call->weights[i];
        l->weights[i] = &l->views[i];
    }
    l->call.weights = l->weights;
    return OPREG_OK;
}

static float nudge(uint32_t index, float amount) {
    return 1.0f + amount * ((float)(index * 2654435761u >> 16) / 32768.0f - 1.0f);
}

/* Changes every result of a matmul by up to a part of itself. */
static opreg_status matmul_off_by(const void *problem, const opreg_call *call, float amount,
                                  uint32_t salt) {
    const opreg_matmul_bt_quant *p = problem;
    void *y = call->bufs[OPREG_MATMUL_Y].ptr;
    opreg_status status = base[OPREG_OP_MATMUL_BT_QUANT]->run(NULL, p, call);
    for (int64_t i = 0; i < p->m * p->n; i++) {
        int64_t at = i / p->n * p->y_stride + i % p->n;
        canonical_store(y, at, p->y_dtype,
                        canonical_load(y, at, p->y_dtype) *
                            nudge((uint32_t)(i % p->n) + salt, amount));
    }
    return status;
}

#define BODY(name) static opreg_status body_##name(const void *problem, const opreg_call *call)

BODY(matmul) { return base[OPREG_OP_MATMUL_BT_QUANT]->run(NULL, problem, call); }
BODY(moe) { return base[OPREG_OP_MOE_MATMUL]->run(NULL, problem, call); }
BODY(attention) { return base[OPREG_OP_PAGED_ATTN_DECODE]->run(NULL, problem, call); }
BODY(band_kept) { return matmul_off_by(problem, call, 1e-3f, 0); }
BODY(band_missed) { return matmul_off_by(problem, call, 0.1f, 0); }
BODY(band_of_its_own) { return matmul_off_by(problem, call, 0.06f, 0); }
BODY(int_missed) { return matmul_off_by(problem, call, 1e-3f, 0); }

BODY(width_missed) {
    const opreg_matmul_bt_quant *p = problem;
    return matmul_off_by(problem, call, 1e-4f, (uint32_t)p->m);
}

BODY(random_in_band) {
    static uint32_t calls;
    return matmul_off_by(problem, call, 1e-3f, calls++);
}

BODY(past_the_band_of_memory) {
    const opreg_matmul_bt_quant *p = problem;
    opreg_status status = base[OPREG_OP_MATMUL_BT_QUANT]->run(NULL, p, call);
    canonical_store(call->bufs[OPREG_MATMUL_Y].ptr, p->m * p->y_stride + p->n, p->y_dtype, 1.0f);
    return status;
}

#define KERNEL_RUN(name, op)                                                                          \
    static opreg_status run_##name(void *state, const void *problem, const opreg_call *call) {     \
        (void)state;                                                                               \
        return enqueue(body_##name, opreg_problem_size(OPREG_OP_##op), problem, call);                 \
    }
KERNEL_RUN(matmul, MATMUL_BT_QUANT)
KERNEL_RUN(moe, MOE_MATMUL)
KERNEL_RUN(attention, PAGED_ATTN_DECODE)
KERNEL_RUN(band_kept, MATMUL_BT_QUANT)
KERNEL_RUN(band_missed, MATMUL_BT_QUANT)
KERNEL_RUN(band_of_its_own, MATMUL_BT_QUANT)
KERNEL_RUN(int_missed, MATMUL_BT_QUANT)
KERNEL_RUN(width_missed, MATMUL_BT_QUANT)
KERNEL_RUN(random_in_band, MATMUL_BT_QUANT)
KERNEL_RUN(past_the_band_of_memory, MATMUL_BT_QUANT)

/* Works when it is called, on the data of that moment; a replay has nothing to do. */
static opreg_status run_graph_missed(void *state, const void *problem, const opreg_call *call) {
    (void)state;
    return base[OPREG_OP_MOE_MATMUL]->run(NULL, problem, call);
}

static opreg_status takes_all(const opreg_device *dev, const void *problem, char reason[128]) {
    (void)dev;
    (void)problem;
    (void)reason;
    return OPREG_OK;
}

static opreg_status takes_q4_0(const opreg_device *dev, const void *problem, char reason[128]) {
    (void)dev;
    strcpy(reason, "it is not q4_0");
    return ((const opreg_matmul_bt_quant *)problem)->b_dtype == OPREG_Q4_0 ? OPREG_OK
                                                                           : OPREG_E_UNSUPPORTED;
}

static opreg_status takes_rare(const opreg_device *dev, const void *problem, char reason[128]) {
    (void)dev;
    strcpy(reason, "m is not 64");
    return ((const opreg_matmul_bt_quant *)problem)->m == 64 ? OPREG_OK : OPREG_E_UNSUPPORTED;
}

#define WORKSPACE(name, op)                                                                          \
    static uint64_t workspace_##name(const opreg_device *dev, const void *problem) {               \
        return base[OPREG_OP_##op]->workspace(dev, problem);                                           \
    }
WORKSPACE(matmul, MATMUL_BT_QUANT)
WORKSPACE(moe, MOE_MATMUL)
WORKSPACE(attention, PAGED_ATTN_DECODE)

static const uint32_t two_formats[] = {OPREG_Q4_0, OPREG_Q4_K, 0};

#define ALL (OPREG_KF_DETERMINISTIC | OPREG_KF_GRAPH_SAFE | OPREG_KF_WIDTH_INVARIANT)
#define ROW(name_, op_, level_, flags_, supports_, shape_, formats_, run_)                         \
    {.struct_size = sizeof(opreg_kernel),                                                          \
     .op = OPREG_OP_##op_,                                                                         \
     .flags = flags_,                                                                              \
     .priority = 1,                                                                                \
     .level = OPREG_LEVEL_##level_,                                                                \
     .name = name_,                                                                                \
     .summary = "for the kit's own tests",                                                         \
     .formats = formats_,                                                                          \
     .supports = supports_,                                                                        \
     .workspace = workspace_##shape_,                                                              \
     .run = run_}

static const opreg_kernel rows[] = {
    ROW("matmul", MATMUL_BT_QUANT, CANONICAL, ALL, takes_all, matmul, two_formats, run_matmul),
    ROW("moe", MOE_MATMUL, CANONICAL, ALL, takes_all, moe, two_formats, run_moe),
    ROW("attention", PAGED_ATTN_DECODE, CANONICAL, ALL, takes_all, attention, NULL, run_attention),
    ROW("band_kept", MATMUL_BT_QUANT, BAND, ALL, takes_all, matmul, two_formats, run_band_kept),
    ROW("band_missed", MATMUL_BT_QUANT, BAND, ALL, takes_all, matmul, two_formats,
        run_band_missed),
    ROW("int_missed", MATMUL_BT_QUANT, INT, ALL, takes_all, matmul, two_formats, run_int_missed),
    ROW("width_missed", MATMUL_BT_QUANT, BAND, ALL, takes_all, matmul, two_formats,
        run_width_missed),
    ROW("random_in_band", MATMUL_BT_QUANT, BAND, 0, takes_all, matmul, two_formats,
        run_random_in_band),
    ROW("random_but_claims_not", MATMUL_BT_QUANT, BAND, OPREG_KF_DETERMINISTIC, takes_all, matmul,
        two_formats, run_random_in_band),
    ROW("past_the_band_of_memory", MATMUL_BT_QUANT, CANONICAL, ALL, takes_all, matmul, two_formats,
        run_past_the_band_of_memory),
    ROW("graph_missed", MOE_MATMUL, CANONICAL, ALL, takes_all, moe, two_formats, run_graph_missed),
    ROW("declares_too_much", MATMUL_BT_QUANT, CANONICAL, ALL, takes_q4_0, matmul, two_formats,
        run_matmul),
    ROW("band_not_declared", MATMUL_BT_QUANT, BAND, ALL, takes_all, matmul, two_formats,
        run_band_of_its_own),
    {.struct_size = sizeof(opreg_kernel),
     .op = OPREG_OP_MATMUL_BT_QUANT,
     .flags = ALL,
     .level = OPREG_LEVEL_BAND,
     .name = "band_declared",
     .summary = "band_not_declared, declared",
     .formats = two_formats,
     .supports = takes_all,
     .workspace = workspace_matmul,
     .run = run_band_of_its_own,
     .band = 2e-3},
    ROW("takes_rare", MATMUL_BT_QUANT, CANONICAL, ALL, takes_rare, matmul, two_formats, run_matmul),
};

#define P(i) &rows[i]
static const opreg_kernel *const kernels[] = {P(0), P(1), P(2),  P(3),  P(4),  P(5),  P(6), P(7),
                                              P(8), P(9), P(10), P(11), P(12), P(13), P(14)};

static opreg_status probe(const opreg_host *host, opreg_device *out, size_t cap, size_t *count) {
    (void)host;
    *count = 1;
    if (cap > 0) {
        memset(out, 0, sizeof *out);
        out->struct_size = sizeof *out;
        out->kind = OPREG_CUDA;
        out->ordinal = 7;
        out->units = 1;
        strcpy(out->arch, "paper");
        strcpy(out->name, "paper");
    }
    return OPREG_OK;
}

static opreg_status probe_nothing(const opreg_host *host, opreg_device *out, size_t cap,
                                  size_t *count) {
    (void)host;
    (void)out;
    (void)cap;
    *count = 0;
    return OPREG_OK;
}

opreg_status paper_gpu_entry(const opreg_host *host, opreg_plugin *out) {
    opreg_plugin cpu;
    opreg_status status;
    memset(&cpu, 0, sizeof cpu);
    cpu.struct_size = sizeof cpu;
    status = opreg_cpu_entry(host, &cpu);
    if (status != OPREG_OK) {
        return status;
    }
    for (uint32_t i = 0; i < cpu.num_kernels; i++) {
        if (cpu.kernels[i]->flags & OPREG_KF_BASELINE) {
            base[cpu.kernels[i]->op] = cpu.kernels[i];
        }
    }
    *out = cpu;
    out->name = "paper-gpu";
    out->built_with = "paper";
    out->archs = "paper";
    out->kernels = kernels;
    out->num_kernels = sizeof kernels / sizeof kernels[0];
    out->layouts = NULL;
    out->num_layouts = 0;
    out->io = &io;
    out->probe = probe;
    return OPREG_OK;
}

opreg_status paper_gpu_absent_entry(const opreg_host *host, opreg_plugin *out) {
    opreg_status status = paper_gpu_entry(host, out);
    out->name = "paper-none";
    out->probe = probe_nothing;
    return status;
}
