/* SPDX-License-Identifier: MIT
 * reference_moe_matmul.c - moe_matmul, moe_glu and moe_down: one computation, three operators. */
#include "cpu/grouped.h"
#include "cpu/kernels.h"
#include "cpu/matmul.h"

#include <stdio.h>

opreg_status reference_moe_matmul_supports(const opreg_device *dev, const void *problem,
                                           char reason[128]) {
    const opreg_moe_matmul *p = problem;
    (void)dev;
    if (format_by_id(p->b_dtype) == NULL) {
        snprintf(reason, 128, "weight format %u is a plugin's own", (unsigned)p->b_dtype);
        return OPREG_E_UNSUPPORTED;
    }
    return OPREG_OK;
}

static int64_t rows_of_x(const opreg_moe_matmul *p) {
    return p->x_rows == OPREG_X_BY_TOKEN ? p->tokens : p->tokens * p->top_k;
}

uint64_t reference_moe_matmul_workspace(const opreg_device *dev, const void *problem) {
    const opreg_moe_matmul *p = problem;
    (void)dev;
    return activations_bytes(format_by_id(p->b_dtype)->act_dtype, p->x_dtype, rows_of_x(p), p->k);
}

opreg_status moe_matmul_run(const opreg_moe_matmul *p, const opreg_call *call, tile_finder find) {
    const activation_source source = {
        .dtype = p->x_dtype,
        .rows = rows_of_x(p),
        .k = p->k,
        .stride = p->x_stride,
        .x = call->bufs[OPREG_MOE_X].ptr,
        .scales = call->bufs[OPREG_MOE_X_SCALES].ptr,
        .sums = call->bufs[OPREG_MOE_X_SUMS].ptr,
    };
    grouped job = {
        .host = call->host,
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
        .route = route_read(call->bufs[OPREG_MOE_ROUTE_BUF].ptr, p->tokens, p->top_k, p->experts),
        .x_rows = p->x_rows,
        .y = call->bufs[OPREG_MOE_Y].ptr,
        .y_dtype = p->y_dtype,
        .y_stride = p->y_stride,
    };
    uint64_t used = 0;
    job.product.x = activations_make(call->host, job.product.format->act_dtype, &source,
                                     call->workspace.ptr, &used);
    grouped_run(&job);
    return OPREG_OK;
}

opreg_status reference_moe_matmul_run(void *state, const void *problem, const opreg_call *call) {
    (void)state;
    return moe_matmul_run(problem, call, NULL);
}

opreg_status reference_moe_glu_supports(const opreg_device *dev, const void *problem,
                                        char reason[128]) {
    return reference_moe_matmul_supports(dev, problem, reason);
}

uint64_t reference_moe_glu_workspace(const opreg_device *dev, const void *problem) {
    return reference_moe_matmul_workspace(dev, problem);
}

opreg_status reference_moe_glu_run(void *state, const void *problem, const opreg_call *call) {
    return reference_moe_matmul_run(state, problem, call);
}

opreg_status reference_moe_down_supports(const opreg_device *dev, const void *problem,
                                         char reason[128]) {
    return reference_moe_matmul_supports(dev, problem, reason);
}

uint64_t reference_moe_down_workspace(const opreg_device *dev, const void *problem) {
    return reference_moe_matmul_workspace(dev, problem);
}

opreg_status reference_moe_down_run(void *state, const void *problem, const opreg_call *call) {
    return reference_moe_matmul_run(state, problem, call);
}
