/* SPDX-License-Identifier: MIT
 * matmul_shared.c - a variant with its own flag: quantizes x once, into the workspace.
 *
 * The same bits as the baseline, since neither the codes nor the order of the terms change. */
#include "example.h"

/* The workspace: codes [m, k], scales [m, k / 32], sums [m, k / 16], each 4-byte aligned because k
 * is a multiple of 32. */
typedef struct planes {
    int8_t *codes;
    float *scales;
    int16_t *sums;
} planes;

static planes planes_of(void *workspace, const opreg_matmul_bt_quant *p) {
    char *base = workspace;
    planes at;
    at.codes = (int8_t *)base;
    base += p->m * p->k;
    at.scales = (float *)(void *)base;
    base += p->m * (p->k / 32) * 4;
    at.sums = (int16_t *)(void *)base;
    return at;
}

typedef struct shared_job {
    const opreg_matmul_bt_quant *problem;
    const opreg_call *call;
    planes x;
} shared_job;

static void quantize_x_row(void *arg, int64_t m) {
    const shared_job *job = arg;
    const opreg_matmul_bt_quant *p = job->problem;
    for (int64_t u = 0; u < p->k / 32; u++) {
        job->x.scales[m * (p->k / 32) + u] =
            quantize_block(job->call->bufs[OPREG_MATMUL_X].ptr, m * p->x_stride + 32 * u,
                           p->x_dtype, job->x.codes + m * p->k + 32 * u,
                           job->x.sums + m * (p->k / 16) + 2 * u);
    }
}

/* The canonical order: term u goes to accumulator u mod 32, then the tree. */
static float dot(const uint8_t *weights, const planes *x, int64_t m, int64_t k) {
    float accumulators[32] = {0};
    for (int64_t u = 0; u < k / 32; u++) {
        accumulators[u % 32] +=
            block_term(weights + 34 * u, x->codes + m * k + 32 * u, x->sums + m * (k / 16) + 2 * u,
                       x->scales[m * (k / 32) + u]);
    }
    return canonical_tree(accumulators);
}

static void multiply_weight_row(void *arg, int64_t n) {
    const shared_job *job = arg;
    const opreg_matmul_bt_quant *p = job->problem;
    const opreg_buf *bufs = job->call->bufs;
    const uint8_t *weights = job->call->weights[0]->data;
    weights += n * job->call->weights[0]->row_bytes;
    for (int64_t m = 0; m < p->m; m++) {
        float y = dot(weights, &job->x, m, p->k);
        if (p->flags & OPREG_PF_BIAS) {
            y += ((const float *)bufs[OPREG_MATMUL_BIAS].ptr)[n];
        }
        canonical_store(bufs[OPREG_MATMUL_Y].ptr, m * p->y_stride + n, p->y_dtype, y);
    }
}

opreg_status matmul_shared_supports(const opreg_device *dev, const void *problem,
                                    char reason[128]) {
    return matmul_supports(dev, problem, reason);
}

uint64_t matmul_shared_workspace(const opreg_device *dev, const void *problem) {
    const opreg_matmul_bt_quant *p = problem;
    (void)dev;
    return (uint64_t)p->m * (uint64_t)(p->k + p->k / 32 * 4 + p->k / 16 * 2);
}

opreg_status matmul_shared_run(void *state, const void *problem, const opreg_call *call) {
    shared_job job = {problem, call, planes_of(call->workspace.ptr, problem)};
    (void)state;
    call->host->parallel_for(call->host->ctx, job.problem->m, quantize_x_row, &job);
    call->host->parallel_for(call->host->ctx, job.problem->n, multiply_weight_row, &job);
    return OPREG_OK;
}
