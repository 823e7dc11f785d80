/* SPDX-License-Identifier: MIT
 * check_composition.c - moe_ffn is defined as moe_glu, moe_down and moe_combine with h in f32: a
 * CANONICAL variant has the bits of the reference's three stages. */
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "moe.h"
#include "oracle.h"

static job_buffer floats(job_role role, int64_t rows, int64_t columns) {
    job_buffer b;
    memset(&b, 0, sizeof b);
    b.role = (uint32_t)role;
    b.dtype = OPREG_F32;
    b.align = 4;
    b.bytes = (uint64_t)(rows * columns) * 4;
    b.data = calloc(b.bytes + 1, 1);
    return b;
}

/* Rows that no entry names are not written by a stage, and zero in the whole. */
static void clear_unnamed(job_buffer *rows, const moe_notes *notes, int64_t columns) {
    for (int64_t r = 0; r < notes->rows; r++) {
        if (notes->x_of[r] < MOE_ZERO) {
            memset(rows->data + (uint64_t)(r * columns) * 4, 0, (size_t)columns * 4);
        }
    }
}

static int run_stage(const reference *ref, job *stage, finding *f) {
    finding own = {NULL, ""};
    opreg_status status = reference_run(ref, stage, &own);
    if (status != OPREG_OK || own.check != NULL) {
        finding_set(f, "composition", "the reference's %s of it: %s%.200s",
                    opreg_op_name(stage->op), opreg_status_name(status), own.detail);
        return 0;
    }
    return 1;
}

static job stage_of(const job *ffn, opreg_op op) {
    job stage = *ffn;
    memset(&stage.problem, 0, sizeof stage.problem);
    memset(stage.bufs, 0, sizeof stage.bufs);
    stage.op = op;
    stage.prepare = 0;
    stage.num_weights = 0;
    return stage;
}

static void fill_moe(const opreg_moe_ffn *p, opreg_moe_matmul *out) {
    out->struct_size = sizeof *out;
    out->y_dtype = OPREG_F32;
    out->tokens = p->tokens;
    out->experts = p->experts;
    out->top_k = p->top_k;
}

static job glu_of(const job *ffn) {
    const opreg_moe_ffn *p = &ffn->problem.ffn;
    job stage = stage_of(ffn, OPREG_OP_MOE_GLU);
    opreg_moe_matmul *moe = &stage.problem.moe;
    fill_moe(p, moe);
    moe->x_dtype = p->x_dtype;
    moe->b_dtype = p->b_dtype;
    moe->b_dialect = p->b_dialect;
    moe->glu = p->glu;
    moe->glu_alpha = p->glu_alpha;
    moe->glu_limit = p->glu_limit;
    moe->n = moe->y_stride = p->inter;
    moe->k = p->hidden;
    moe->x_stride = p->x_stride;
    moe->x_rows = OPREG_X_BY_TOKEN;
    stage.num_bufs = OPREG_MOE_ROUTE_BUF + 1;
    stage.bufs[OPREG_MOE_Y] = floats(JOB_OUTPUT, p->tokens * p->top_k, p->inter);
    stage.bufs[OPREG_MOE_X] = ffn->bufs[OPREG_FFN_X];
    stage.bufs[OPREG_MOE_ROUTE_BUF] = ffn->bufs[OPREG_FFN_ROUTE];
    stage.num_weights = 2;
    return stage;
}

static job down_of(const job *ffn, const job_buffer *h) {
    const opreg_moe_ffn *p = &ffn->problem.ffn;
    job stage = stage_of(ffn, OPREG_OP_MOE_DOWN);
    opreg_moe_matmul *moe = &stage.problem.moe;
    fill_moe(p, moe);
    moe->x_dtype = OPREG_F32;
    moe->b_dtype = p->down_dtype;
    moe->b_dialect = p->down_dialect;
    moe->n = moe->y_stride = p->hidden;
    moe->k = moe->x_stride = p->inter;
    moe->x_rows = OPREG_X_BY_DST;
    stage.num_bufs = OPREG_MOE_ROUTE_BUF + 1;
    stage.bufs[OPREG_MOE_Y] = floats(JOB_OUTPUT, p->tokens * p->top_k, p->hidden);
    stage.bufs[OPREG_MOE_X] = *h;
    stage.bufs[OPREG_MOE_X].role = JOB_INPUT;
    stage.bufs[OPREG_MOE_ROUTE_BUF] = ffn->bufs[OPREG_FFN_ROUTE];
    stage.num_weights = 1;
    stage.weights[0] = ffn->weights[2];
    return stage;
}

static job combine_of(const job *ffn, const job_buffer *rows) {
    const opreg_moe_ffn *p = &ffn->problem.ffn;
    job stage = stage_of(ffn, OPREG_OP_MOE_COMBINE);
    opreg_moe_combine *combine = &stage.problem.combine;
    combine->struct_size = sizeof *combine;
    combine->x_dtype = OPREG_F32;
    combine->y_dtype = p->y_dtype;
    combine->top_k = p->top_k;
    combine->tokens = p->tokens;
    combine->n = combine->x_stride = p->hidden;
    combine->y_stride = p->y_stride;
    combine->weights_stride = p->weights_stride;
    stage.num_bufs = OPREG_COMBINE_WEIGHTS + 1;
    stage.bufs[OPREG_COMBINE_Y] = ffn->bufs[OPREG_FFN_Y];
    stage.bufs[OPREG_COMBINE_Y].data = calloc(ffn->bufs[OPREG_FFN_Y].bytes + 1, 1);
    stage.bufs[OPREG_COMBINE_ROWS] = *rows;
    stage.bufs[OPREG_COMBINE_ROWS].role = JOB_INPUT;
    stage.bufs[OPREG_COMBINE_WEIGHTS] = ffn->bufs[OPREG_FFN_WEIGHTS];
    return stage;
}

void check_composition(const reference *ref, const job *of, uint8_t *const a[JOB_BUFS],
                       finding *f) {
    const opreg_moe_ffn *p = &of->problem.ffn;
    const moe_notes *notes = of->extra;
    uint8_t *want[JOB_BUFS] = {NULL};
    char detail[320];
    if (of->op != OPREG_OP_MOE_FFN || p->tokens == 0) {
        return;
    }
    job glu = glu_of(of);
    job down = down_of(of, &glu.bufs[OPREG_MOE_Y]);
    job combine = combine_of(of, &down.bufs[OPREG_MOE_Y]);
    int ok = glu.bufs[0].data != NULL && down.bufs[0].data != NULL && combine.bufs[0].data != NULL;
    if (ok && run_stage(ref, &glu, f)) {
        clear_unnamed(&glu.bufs[OPREG_MOE_Y], notes, p->inter);
        if (run_stage(ref, &down, f)) {
            clear_unnamed(&down.bufs[OPREG_MOE_Y], notes, p->hidden);
            if (run_stage(ref, &combine, f)) {
                want[OPREG_FFN_Y] = combine.bufs[OPREG_COMBINE_Y].data;
                if (!outputs_equal(of, a, want, detail)) {
                    finding_set(f, "composition", "not the bits of glu, down and combine: %.240s",
                                detail);
                }
            }
        }
    }
    free(glu.bufs[OPREG_MOE_Y].data);
    free(down.bufs[OPREG_MOE_Y].data);
    free(combine.bufs[OPREG_COMBINE_Y].data);
}
