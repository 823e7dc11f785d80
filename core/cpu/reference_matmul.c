/* SPDX-License-Identifier: MIT
 * reference_matmul.c - matmul_bt_quant, plain, with bias and in the pair form. */
#include "cpu/kernels.h"
#include "cpu/matmul.h"

#include <stdio.h>

/* x rows of one task. */
#define TASK_M 64

typedef struct matmul_job {
    const opreg_matmul_bt_quant *problem;
    const opreg_call *call;
    product product;
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

/* Stores the results of one tile, with the bias. */
static void store_tile(const matmul_job *job, int64_t tile, int64_t first_m, int count,
                       float out[][PRODUCT_N]) {
    const opreg_matmul_bt_quant *p = job->problem;
    const float *bias = job->call->bufs[OPREG_MATMUL_BIAS].ptr;
    for (int c = 0; c < count; c++) {
        for (int r = 0; r < product_rows(&job->product, tile); r++) {
            int64_t n = tile * PRODUCT_N + r;
            float y = (p->flags & OPREG_PF_BIAS) != 0 ? out[c][r] + bias[n] : out[c][r];
            canonical_store(job->call->bufs[OPREG_MATMUL_Y].ptr, (first_m + c) * p->y_stride + n,
                            p->y_dtype, y);
        }
    }
}

static void multiply_task(void *arg, int64_t task) {
    const matmul_job *job = arg;
    int64_t tiles = product_tiles(job->product.n), tile = task % tiles;
    int64_t m = task / tiles * TASK_M, end = m + TASK_M;
    end = end < job->problem->m ? end : job->problem->m;
    while (m < end) {
        float out[PRODUCT_M][PRODUCT_N];
        int64_t rows[PRODUCT_M];
        int count = 0;
        for (; count < PRODUCT_M && m + count < end; count++) {
            rows[count] = m + count;
        }
        product_tile(&job->product, 0, tile, rows, count, out);
        store_tile(job, tile, m, count, out);
        m += count;
    }
}

opreg_status matmul_run(const opreg_matmul_bt_quant *p, const opreg_call *call, tile_finder find) {
    const activation_source source = {
        .dtype = p->x_dtype,
        .rows = p->m,
        .k = p->k,
        .stride = p->x_stride,
        .x = call->bufs[OPREG_MATMUL_X].ptr,
        .scales = call->bufs[OPREG_MATMUL_X_SCALES].ptr,
        .sums = call->bufs[OPREG_MATMUL_X_SUMS].ptr,
    };
    matmul_job job = {
        .problem = p,
        .call = call,
        .product =
            {
                .format = format_by_id(p->b_dtype),
                .tile = find != NULL ? find(p->b_dtype) : NULL,
                .glu = p->glu,
                .glu_alpha = p->glu_alpha,
                .glu_limit = p->glu_limit,
                .weights = {call->weights[0], p->glu != OPREG_GLU_NONE ? call->weights[1] : NULL},
                .n = p->n,
            },
    };
    uint64_t used = 0;
    job.product.x = activations_make(call->host, job.product.format->act_dtype, &source,
                                     call->workspace.ptr, &used);
    call->host->parallel_for(call->host->ctx, product_tiles(p->n) * ((p->m + TASK_M - 1) / TASK_M),
                             multiply_task, &job);
    return OPREG_OK;
}

opreg_status reference_matmul_run(void *state, const void *problem, const opreg_call *call) {
    (void)state;
    return matmul_run(problem, call, NULL);
}
