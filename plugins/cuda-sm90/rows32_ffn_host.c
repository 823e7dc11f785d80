/* SPDX-License-Identifier: MIT
 * rows32_ffn_host.c - the variant rows32_ffn: rows32_moe_glu, rows32_moe_down and the combination, one
 * after another on the stream, h and the rows in f32 in the workspace: their bits. */
#include "kernels.h"

/* The workspace: h, rows, then what the stages take in turn. */
typedef struct ffn_offsets {
    uint64_t rows, rows_bytes, shared, end;
} ffn_offsets;

static uint64_t align256(uint64_t bytes) { return (bytes + 255u) & ~(uint64_t)255u; }

static opreg_moe_combine combination_of(const opreg_moe_ffn *p) {
    return (opreg_moe_combine){.struct_size = sizeof(opreg_moe_combine),
                               .x_dtype = OPREG_F32,
                               .y_dtype = p->y_dtype,
                               .top_k = p->top_k,
                               .tokens = p->tokens,
                               .n = p->hidden,
                               .x_stride = p->hidden,
                               .y_stride = p->y_stride,
                               .weights_stride = p->weights_stride};
}

static ffn_offsets offsets_of(const opreg_device *dev, const ffn_stages *s) {
    uint64_t entries = (uint64_t)(s->glu.tokens * s->glu.top_k);
    uint64_t glu = rows32_moe_glu_workspace(dev, &s->glu);
    uint64_t down = rows32_moe_down_workspace(dev, &s->down);
    ffn_offsets at = {.rows = align256(entries * (uint64_t)s->glu.n * 4u),
                      .rows_bytes = entries * (uint64_t)s->down.n * 4u};
    at.shared = align256(at.rows + at.rows_bytes);
    at.end = at.shared + (glu > down ? glu : down);
    return at;
}

opreg_status rows32_ffn_supports(const opreg_device *dev, const void *problem, char reason[128]) {
    ffn_stages s = ffn_stages_of(problem);
    opreg_status status = rows32_moe_glu_supports(dev, &s.glu, reason);
    return status != OPREG_OK ? status : rows32_moe_down_supports(dev, &s.down, reason);
}

uint64_t rows32_ffn_workspace(const opreg_device *dev, const void *problem) {
    ffn_stages s = ffn_stages_of(problem);
    return offsets_of(dev, &s).end;
}

opreg_status rows32_ffn_run(void *state, const void *problem, const opreg_call *call) {
    const gpu_plan *plan = state;
    gpu_plan chained = {plan->device, 1}; /* weights of down are nothing that glu writes             */
    ffn_stages s = ffn_stages_of(problem);
    opreg_moe_combine combine = combination_of(problem);
    ffn_offsets at = offsets_of(NULL, &s);
    uint8_t *workspace = call->workspace.ptr;
    opreg_buf h = {workspace, at.rows}, rows = {workspace + at.rows, at.rows_bytes};
    opreg_buf glu_bufs[OPREG_MOE_BUFS] = {h, call->bufs[OPREG_FFN_X], call->bufs[OPREG_FFN_ROUTE]};
    opreg_buf down_bufs[OPREG_MOE_BUFS] = {rows, h, call->bufs[OPREG_FFN_ROUTE]};
    opreg_buf combine_bufs[OPREG_COMBINE_BUFS] = {call->bufs[OPREG_FFN_Y], rows,
                                                  call->bufs[OPREG_FFN_WEIGHTS]};
    opreg_call stage = *call;
    /* a route that is not moe_route's may leave rows out: they count as zero */
    opreg_status status =
        gpu_fill(call->host, plan->device, rows.ptr, 0, at.rows_bytes, call->stream);
    stage.workspace.ptr = workspace + at.shared;
    stage.workspace.bytes = at.end - at.shared;
    stage.num_bufs = OPREG_MOE_BUFS;
    stage.bufs = glu_bufs;
    stage.num_weights = 2;
    if (status == OPREG_OK) {
        status = rows32_moe_glu_run(state, &s.glu, &stage);
    }
    stage.bufs = down_bufs;
    stage.weights = call->weights + 2;
    stage.num_weights = 1;
    if (status == OPREG_OK) {
        status = rows32_moe_down_run(&chained, &s.down, &stage);
    }
    stage.num_bufs = OPREG_COMBINE_BUFS;
    stage.bufs = combine_bufs;
    stage.num_weights = 0;
    return status != OPREG_OK ? status : base_combine_run(state, &combine, &stage);
}
