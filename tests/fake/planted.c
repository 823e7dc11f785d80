/* SPDX-License-Identifier: MIT
 * planted.c - wrong kernels with their baselines in one plugin, as a device's plugin has them: what
 * shadow compares with.  The mistakes here need several calls to show; the others are mutations'. */
#include "planted.h"

#include <stdio.h>
#include <string.h>

#include "cpu/cpu.h"
#include "mutations.h"

#define KERNELS_MOST 192
#define CACHED 1024

static const opreg_kernel *reference, *all[KERNELS_MOST];

/* What a careless kernel keeps between calls. */
static struct {
    int calls;
    const void *x;
    float copy[CACHED];
} kept;

void planted_forget(void) { memset(&kept, 0, sizeof kept); }

#define RUN(name)                                                                                  \
    static opreg_status run_##name(void *state, const void *problem, const opreg_call *call)

RUN(stale_output) {
    (void)state;
    return kept.calls++ % 3 == 2 ? OPREG_OK : reference->run(NULL, problem, call);
}

RUN(swapped_halves) {
    const opreg_matmul_bt_quant *p = problem;
    opreg_status status = reference->run(NULL, problem, call);
    float *y = call->bufs[OPREG_MATMUL_Y].ptr;
    (void)state;
    for (int64_t i = 0; i < p->n / 2 && p->y_dtype == OPREG_F32; i++) {
        float swap = y[i];
        y[i] = y[i + p->n / 2];
        y[i + p->n / 2] = swap;
    }
    return status;
}

/* The activations of the last call are taken again where x has the same address. */
RUN(caches_x_by_address) {
    const opreg_matmul_bt_quant *p = problem;
    opreg_call inside = *call;
    opreg_buf bufs[OPREG_MATMUL_BUFS];
    (void)state;
    if (p->m * p->k > CACHED || p->x_dtype != OPREG_F32 || p->m != 1) {
        return reference->run(NULL, problem, call);
    }
    if (kept.x != call->bufs[OPREG_MATMUL_X].ptr) {
        kept.x = call->bufs[OPREG_MATMUL_X].ptr;
        memcpy(kept.copy, kept.x, (size_t)p->k * sizeof(float));
    }
    memcpy(bufs, call->bufs, call->num_bufs * sizeof bufs[0]);
    bufs[OPREG_MATMUL_X].ptr = kept.copy;
    inside.bufs = bufs;
    return reference->run(NULL, problem, &inside);
}

static opreg_status takes_all(const opreg_device *dev, const void *problem, char reason[128]) {
    (void)dev, (void)problem, (void)reason;
    return OPREG_OK;
}

static opreg_status takes_none(const opreg_device *dev, const void *problem, char reason[128]) {
    (void)dev, (void)problem;
    snprintf(reason, 128, "it asks for m of at least 4096");
    return OPREG_E_UNSUPPORTED;
}

static uint64_t workspace(const opreg_device *dev, const void *problem) {
    return reference->workspace != NULL ? reference->workspace(dev, problem) : 0;
}

static const uint32_t formats[] = {OPREG_Q4_0, 0};
#define ROW(name_, takes_, run_, story_)                                                           \
    {.struct_size = sizeof(opreg_kernel),                                                          \
     .op = OPREG_OP_MATMUL_BT_QUANT,                                                               \
     .flags = OPREG_KF_DETERMINISTIC | OPREG_KF_GRAPH_SAFE,                                        \
     .priority = 1,                                                                                \
     .level = OPREG_LEVEL_CANONICAL,                                                               \
     .name = name_,                                                                                \
     .summary = story_,                                                                            \
     .formats = formats,                                                                           \
     .supports = takes_,                                                                           \
     .workspace = workspace,                                                                       \
     .run = run_}
static const opreg_kernel rows[] = {
    ROW("stale_output", takes_all, run_stale_output, "every third call leaves y as it was"),
    ROW("swapped_halves", takes_all, run_swapped_halves, "the halves of a row are exchanged"),
    ROW("caches_x_by_address", takes_all, run_caches_x_by_address, "old activations, new ones lost"),
    ROW("never_taken", takes_none, run_swapped_halves, "lists a format whose problems it refuses"),
};

opreg_status planted_entry(const opreg_host *host, opreg_plugin *out) {
    opreg_plugin cpu = {.struct_size = sizeof cpu}, wrong = {.struct_size = sizeof wrong};
    uint32_t count = 0;
    opreg_status status = opreg_cpu_entry(host, &cpu);
    if (status == OPREG_OK) {
        status = mutations_entry(host, &wrong);
    }
    if (status != OPREG_OK) {
        return status;
    }
    for (uint32_t i = 0; i < cpu.num_kernels; i++) {
        if ((cpu.kernels[i]->flags & OPREG_KF_BASELINE) != 0) {
            all[count++] = cpu.kernels[i];
            if (cpu.kernels[i]->op == OPREG_OP_MATMUL_BT_QUANT) {
                reference = cpu.kernels[i];
            }
        }
    }
    for (uint32_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        all[count++] = &rows[i];
    }
    for (uint32_t i = 0; i < wrong.num_kernels && count < KERNELS_MOST; i++) {
        all[count++] = wrong.kernels[i];
    }
    *out = cpu;
    out->name = "planted";
    out->built_with = "mistakes";
    out->kernels = all;
    out->num_kernels = count;
    return OPREG_OK;
}
