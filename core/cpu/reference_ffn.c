/* SPDX-License-Identifier: MIT
 * reference_ffn.c - moe_ffn: moe_glu, moe_down and moe_combine one after the other, h and the rows
 * in f32 in the workspace. */
#include "cpu/combine.h"
#include "cpu/grouped.h"
#include "cpu/kernels.h"
#include "cpu/matmul.h"

#include <stdio.h>

opreg_status reference_ffn_supports(const opreg_device *dev, const void *problem,
                                    char reason[128]) {
    const opreg_moe_ffn *p = problem;
    uint32_t format = format_by_id(p->b_dtype) == NULL ? p->b_dtype : p->down_dtype;
    (void)dev;
    if (format_by_id(format) == NULL) {
        snprintf(reason, 128, "weight format %u is a plugin's own", (unsigned)format);
        return OPREG_E_UNSUPPORTED;
    }
    return OPREG_OK;
}

/* h, then rows, then what the two stages take. */
static void take_rows(const opreg_moe_ffn *p, void *workspace, uint64_t *used, float **h,
                      float **rows) {
    uint64_t entries = (uint64_t)p->tokens * (uint64_t)p->top_k;
    *h = workspace_take(workspace, used, entries * (uint64_t)p->inter * 4);
    *rows = workspace_take(workspace, used, entries * (uint64_t)p->hidden * 4);
}

uint64_t reference_ffn_workspace(const opreg_device *dev, const void *problem) {
    const opreg_moe_ffn *p = problem;
    uint64_t used = 0;
    float *h, *rows;
    (void)dev;
    take_rows(p, NULL, &used, &h, &rows);
    used +=
        activations_bytes(format_by_id(p->b_dtype)->act_dtype, p->x_dtype, p->tokens, p->hidden);
    return used + activations_bytes(format_by_id(p->down_dtype)->act_dtype, OPREG_F32,
                                    p->tokens * p->top_k, p->inter);
}

static void run_glu(const opreg_moe_ffn *p, const opreg_call *call, tile_finder find,
                    uint64_t *used, float *h) {
    const activation_source source = {
        .dtype = p->x_dtype,
        .rows = p->tokens,
        .k = p->hidden,
        .stride = p->x_stride,
        .x = call->bufs[OPREG_FFN_X].ptr,
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
                .weights = {call->weights[0], call->weights[1]},
                .n = p->inter,
            },
        .route = route_read(call->bufs[OPREG_FFN_ROUTE].ptr, p->tokens, p->top_k, p->experts),
        .x_rows = OPREG_X_BY_TOKEN,
        .y = h,
        .y_dtype = OPREG_F32,
        .y_stride = p->inter,
    };
    job.product.x = activations_make(call->host, job.product.format->act_dtype, &source,
                                     call->workspace.ptr, used);
    grouped_run(&job);
}

static void run_down(const opreg_moe_ffn *p, const opreg_call *call, tile_finder find,
                     uint64_t *used, const float *h, float *rows) {
    const activation_source source = {
        .dtype = OPREG_F32,
        .rows = p->tokens * p->top_k,
        .k = p->inter,
        .stride = p->inter,
        .x = h,
    };
    grouped job = {
        .host = call->host,
        .product =
            {
                .format = format_by_id(p->down_dtype),
                .tile = find != NULL ? find(p->down_dtype) : NULL,
                .weights = {call->weights[2], NULL},
                .n = p->hidden,
            },
        .route = route_read(call->bufs[OPREG_FFN_ROUTE].ptr, p->tokens, p->top_k, p->experts),
        .x_rows = OPREG_X_BY_DST,
        .y = rows,
        .y_dtype = OPREG_F32,
        .y_stride = p->hidden,
    };
    job.product.x = activations_make(call->host, job.product.format->act_dtype, &source,
                                     call->workspace.ptr, used);
    grouped_run(&job);
}

opreg_status ffn_run(const opreg_moe_ffn *p, const opreg_call *call, tile_finder find) {
    const opreg_moe_combine combine = {
        .struct_size = sizeof combine,
        .x_dtype = OPREG_F32,
        .y_dtype = p->y_dtype,
        .top_k = p->top_k,
        .tokens = p->tokens,
        .n = p->hidden,
        .x_stride = p->hidden,
        .y_stride = p->y_stride,
        .weights_stride = p->weights_stride,
    };
    uint64_t used = 0;
    float *h, *rows;
    take_rows(p, call->workspace.ptr, &used, &h, &rows);
    /* a route that is not moe_route's may leave rows out: they count as zero */
    memset(call->workspace.ptr, 0, (size_t)used);
    run_glu(p, call, find, &used, h);
    run_down(p, call, find, &used, h, rows);
    combine_rows(call->host, &combine, call->bufs[OPREG_FFN_Y].ptr, rows,
                 call->bufs[OPREG_FFN_WEIGHTS].ptr);
    return OPREG_OK;
}

opreg_status reference_ffn_run(void *state, const void *problem, const opreg_call *call) {
    (void)state;
    return ffn_run(problem, call, NULL);
}
