/* SPDX-License-Identifier: MIT
 * matmul.c - the baseline: y = x * W^T for q8_0 weights, as plain as it gets.
 *
 * Needs no workspace, so it quantizes every activation once for each row of W. */
#include "example.h"

#include <stdio.h>

opreg_status matmul_supports(const opreg_device *dev, const void *problem, char reason[128]) {
    const opreg_matmul_bt_quant *p = problem;
    (void)dev;
    if (p->b_dtype != OPREG_Q8_0) {
        snprintf(reason, 128, "weight format %u is not q8_0", (unsigned)p->b_dtype);
        return OPREG_E_UNSUPPORTED;
    }
    if (p->x_dtype == OPREG_Q8_0) {
        snprintf(reason, 128, "x is quantized already, this variant takes f32, f16 and bf16");
        return OPREG_E_UNSUPPORTED;
    }
    if (p->glu != OPREG_GLU_NONE) {
        snprintf(reason, 128, "glu kind %u asks for the pair form", (unsigned)p->glu);
        return OPREG_E_UNSUPPORTED;
    }
    return OPREG_OK;
}

uint64_t matmul_workspace(const opreg_device *dev, const void *problem) {
    (void)dev;
    (void)problem;
    return 0;
}

typedef struct matmul_job {
    const opreg_matmul_bt_quant *problem;
    const opreg_call *call;
} matmul_job;

/* Row n of W against every row of x. */
static void multiply_weight_row(void *arg, int64_t n) {
    const matmul_job *job = arg;
    const opreg_matmul_bt_quant *p = job->problem;
    const opreg_buf *bufs = job->call->bufs;
    const uint8_t *weights = job->call->weights[0]->data;
    weights += n * job->call->weights[0]->row_bytes;
    for (int64_t m = 0; m < p->m; m++) {
        float accumulators[32] = {0}, y;
        for (int64_t u = 0; u < p->k / 32; u++) {
            int8_t codes[32];
            int16_t sums[2];
            float scale = quantize_block(bufs[OPREG_MATMUL_X].ptr, m * p->x_stride + 32 * u,
                                         p->x_dtype, codes, sums);
            accumulators[u % 32] += block_term(weights + 34 * u, codes, sums, scale);
        }
        y = canonical_tree(accumulators);
        if (p->flags & OPREG_PF_BIAS) {
            y += ((const float *)bufs[OPREG_MATMUL_BIAS].ptr)[n];
        }
        canonical_store(bufs[OPREG_MATMUL_Y].ptr, m * p->y_stride + n, p->y_dtype, y);
    }
}

opreg_status matmul_run(void *state, const void *problem, const opreg_call *call) {
    matmul_job job = {problem, call};
    (void)state;
    call->host->parallel_for(call->host->ctx, job.problem->n, multiply_weight_row, &job);
    return OPREG_OK;
}
