/* SPDX-License-Identifier: MIT
 * reference_combine.c - moe_combine: router weights times rows, slots ascending. */
#include "cpu/combine.h"
#include "cpu/kernels.h"

typedef struct combine_job {
    const opreg_moe_combine *problem;
    void *y;
    const void *rows;
    const float *weights;
} combine_job;

static void combine_token(void *arg, int64_t t) {
    const combine_job *job = arg;
    const opreg_moe_combine *p = job->problem;
    for (int64_t n = 0; n < p->n; n++) {
        float sum = 0.0f;
        for (int32_t slot = 0; slot < p->top_k; slot++) {
            int64_t row = t * p->top_k + slot;
            sum += job->weights[t * p->weights_stride + slot] *
                   canonical_load(job->rows, row * p->x_stride + n, p->x_dtype);
        }
        canonical_store(job->y, t * p->y_stride + n, p->y_dtype, sum);
    }
}

void combine_rows(const opreg_host *host, const opreg_moe_combine *problem, void *y,
                  const void *rows, const float *weights) {
    combine_job job = {problem, y, rows, weights};
    host->parallel_for(host->ctx, problem->tokens, combine_token, &job);
}

opreg_status reference_combine_supports(const opreg_device *dev, const void *problem,
                                        char reason[128]) {
    (void)dev;
    (void)problem;
    (void)reason;
    return OPREG_OK;
}

uint64_t reference_combine_workspace(const opreg_device *dev, const void *problem) {
    (void)dev;
    (void)problem;
    return 0;
}

opreg_status reference_combine_run(void *state, const void *problem, const opreg_call *call) {
    (void)state;
    combine_rows(call->host, problem, call->bufs[OPREG_COMBINE_Y].ptr,
                 call->bufs[OPREG_COMBINE_ROWS].ptr, call->bufs[OPREG_COMBINE_WEIGHTS].ptr);
    return OPREG_OK;
}
