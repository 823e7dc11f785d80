/* SPDX-License-Identifier: MIT
 * reference_matmul.c - matmul_bt_quant, plain, with bias and in the pair form. */
#include "cpu/activations.h"
#include "cpu/kernels.h"

#include <stdio.h>

/* Weight rows and x rows of one task. */
#define TILE_N 16
#define TILE_M 64

typedef struct matmul_job {
    const opreg_matmul_bt_quant *problem;
    const opreg_call *call;
    const format_info *format;
    activations x;
    int64_t tiles_n;
} matmul_job;

opreg_status reference_matmul_supports(const opreg_device *dev, const void *problem,
                                       char reason[128]) {
    const opreg_matmul_bt_quant *p = problem;
    (void)dev;
    if (format_by_id(p->b_dtype) == NULL) {
        snprintf(reason, 128, "weight format %u is a plugin's own", (unsigned)p->b_dtype);
        return OPREG_E_UNSUPPORTED;
    }
    return OPREG_OK;
}

uint64_t reference_matmul_workspace(const opreg_device *dev, const void *problem) {
    const opreg_matmul_bt_quant *p = problem;
    (void)dev;
    return activations_bytes(format_by_id(p->b_dtype)->act_dtype, p->x_dtype, p->m, p->k);
}

static float multiply(const matmul_job *job, int which, int64_t m, int64_t n) {
    const opreg_weight_view *weight = job->call->weights[which];
    return activations_dot(&job->x, m, job->format, weight_row(weight, 0, n), weight->side);
}

static float element(const matmul_job *job, int64_t m, int64_t n) {
    const opreg_matmul_bt_quant *p = job->problem;
    float y = multiply(job, 0, m, n);
    if (p->glu != OPREG_GLU_NONE) {
        return canonical_glu(p->glu, y, multiply(job, 1, m, n), p->glu_alpha, p->glu_limit);
    }
    if ((p->flags & OPREG_PF_BIAS) != 0) {
        return y + ((const float *)job->call->bufs[OPREG_MATMUL_BIAS].ptr)[n];
    }
    return y;
}

static void multiply_tile(void *arg, int64_t tile) {
    const matmul_job *job = arg;
    const opreg_matmul_bt_quant *p = job->problem;
    int64_t first_n = tile % job->tiles_n * TILE_N, first_m = tile / job->tiles_n * TILE_M;
    for (int64_t n = first_n; n < p->n && n < first_n + TILE_N; n++) {
        for (int64_t m = first_m; m < p->m && m < first_m + TILE_M; m++) {
            canonical_store(job->call->bufs[OPREG_MATMUL_Y].ptr, m * p->y_stride + n, p->y_dtype,
                            element(job, m, n));
        }
    }
}

opreg_status reference_matmul_run(void *state, const void *problem, const opreg_call *call) {
    const opreg_matmul_bt_quant *p = problem;
    const activation_source source = {
        .dtype = p->x_dtype,
        .rows = p->m,
        .k = p->k,
        .stride = p->x_stride,
        .x = call->bufs[OPREG_MATMUL_X].ptr,
        .scales = call->bufs[OPREG_MATMUL_X_SCALES].ptr,
        .sums = call->bufs[OPREG_MATMUL_X_SUMS].ptr,
    };
    matmul_job job = {.problem = p, .call = call, .format = format_by_id(p->b_dtype)};
    uint64_t used = 0;
    (void)state;
    job.tiles_n = (p->n + TILE_N - 1) / TILE_N;
    job.x =
        activations_make(call->host, job.format->act_dtype, &source, call->workspace.ptr, &used);
    call->host->parallel_for(call->host->ctx, job.tiles_n * ((p->m + TILE_M - 1) / TILE_M),
                             multiply_tile, &job);
    return OPREG_OK;
}
