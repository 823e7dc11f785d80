/* SPDX-License-Identifier: MIT
 * oracle_moe.c - float64 results of the grouped operators. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "dot.h"
#include "formats/format.h"
#include "moe.h"
#include "oracle.h"

static int moe_x(const job *of, dot_x *x) {
    const opreg_moe_matmul *p = &of->problem.moe;
    int64_t rows = p->x_rows == OPREG_X_BY_TOKEN ? p->tokens : p->tokens * p->top_k;
    if (p->x_dtype == OPREG_Q8_0 || p->x_dtype == OPREG_Q8_K) {
        return dot_x_planes(p->b_dtype, &of->bufs[OPREG_MOE_X], &of->bufs[OPREG_MOE_X_SCALES],
                            &of->bufs[OPREG_MOE_X_SUMS], rows, p->k, x);
    }
    return dot_x_floats(p->b_dtype, &of->bufs[OPREG_MOE_X], rows, p->k, p->x_stride, x);
}

static void moe_compare(const job *of, opreg_level level, const dots *d, const dot_x *x,
                        const uint8_t *y, finding *f) {
    const opreg_moe_matmul *p = &of->problem.moe;
    const moe_notes *notes = of->extra;
    uint32_t size = element_bytes(p->y_dtype);
    int pair = p->glu != OPREG_GLU_NONE;
    band sum = {0, 0, 0, 0};
    for (int64_t r = 0; r < notes->rows; r++) {
        for (int64_t n = 0; n < p->n; n++) {
            const uint8_t *at = y + (uint64_t)(r * p->y_stride + n) * size;
            int64_t i = r * p->n + n;
            double got = (double)element_load(p->y_dtype, at);
            if (notes->x_of[r] < MOE_ZERO) {
                continue;
            }
            if (notes->x_of[r] == MOE_ZERO) {
                if (got != 0 || signbit(got)) {
                    finding_set(f, "zero-row", "row %lld belongs to no expert or token, but "
                                               "y[%lld,%lld] is %g, not +0",
                                (long long)r, (long long)r, (long long)n, got);
                }
                continue;
            }
            if (isnan(d[0].exact[i]) || (pair && isnan(d[1].exact[i]))) {
                continue;
            }
            if (pair) {
                band_add(&sum, p->y_dtype, got,
                         glu_exact(p->glu, (double)p->glu_alpha, (double)p->glu_limit, d[0].raw[i],
                                   d[1].raw[i]));
                continue;
            }
            double bound = level == OPREG_LEVEL_CANONICAL ? d[0].bound[i] : d[0].loose[i];
            if (bound >= 0 && level >= OPREG_LEVEL_INT) {
                element_check(p->y_dtype, got, d[0].exact[i], bound, "oracle", r, n, f);
            }
            band_add(&sum, p->y_dtype, got, d[0].raw[i]);
        }
    }
    if (of->data == DATA_GAUSSIAN && x->raw_known) {
        band_close(&sum, band_limit(p->b_dtype), f);
    }
}

void oracle_moe(const job *of, opreg_level level, uint8_t *const outputs[JOB_BUFS], finding *f) {
    const opreg_moe_matmul *p = &of->problem.moe;
    const moe_notes *notes = of->extra;
    dots d[2];
    dot_x x;
    if (notes->rows == 0 || p->n == 0) {
        return;
    }
    memset(d, 0, sizeof d);
    if (!moe_x(of, &x)) {
        return;
    }
    if (dots_make(&of->weights[0], &x, notes->rows, notes->x_of, notes->expert_of, &d[0]) &&
        (p->glu == OPREG_GLU_NONE ||
         dots_make(&of->weights[1], &x, notes->rows, notes->x_of, notes->expert_of, &d[1]))) {
        moe_compare(of, level, d, &x, outputs[OPREG_MOE_Y], f);
    }
    dots_clear(&d[0]);
    dots_clear(&d[1]);
    dot_x_clear(&x);
}

/* ---- moe_combine: the definition, one rounding after another --------------------------------------- */

void oracle_combine(const job *of, uint8_t *const outputs[JOB_BUFS], finding *f) {
    const opreg_moe_combine *p = &of->problem.combine;
    const job_buffer *rows = &of->bufs[OPREG_COMBINE_ROWS];
    const uint8_t *weights = of->bufs[OPREG_COMBINE_WEIGHTS].data;
    uint8_t *want[JOB_BUFS] = {NULL};
    uint32_t xs = element_bytes(p->x_dtype), ys = element_bytes(p->y_dtype);
    char detail[320];
    if (!outputs_alloc(of, want)) {
        return;
    }
    for (int64_t t = 0; t < p->tokens; t++) {
        for (int64_t n = 0; n < p->n; n++) {
            float sum = 0.0f;
            for (int64_t s = 0; s < p->top_k; s++) {
                int64_t row = (t * p->top_k + s) * p->x_stride + n;
                float w = element_load(OPREG_F32, weights + 4 * (t * p->weights_stride + s));
                float product = w * element_load(p->x_dtype, rows->data + (uint64_t)row * xs);
                sum = sum + product;
            }
            element_store(p->y_dtype,
                          want[OPREG_COMBINE_Y] + (uint64_t)(t * p->y_stride + n) * ys, sum);
        }
    }
    if (!outputs_equal(of, outputs, want, detail)) {
        finding_set(f, "oracle", "against slots added in order: %s", detail);
    }
    outputs_free(want);
}

/* ---- moe_ffn: the band against float64 all through -------------------------------------------------- */

static void ffn_compare(const job *of, const double *h, const uint8_t *y, finding *f) {
    const opreg_moe_ffn *p = &of->problem.ffn;
    const moe_notes *notes = of->extra;
    double *values = malloc((size_t)p->inter * sizeof *values);
    double *sizes = malloc((size_t)p->inter * sizeof *sizes);
    double *sum = calloc((size_t)(p->tokens * p->hidden) + 1, sizeof *sum);
    double limit = band_limit(p->down_dtype);
    band b = {0, 0, 0, 0};
    for (int64_t n = 0; values != NULL && sizes != NULL && sum != NULL && n < p->hidden; n++) {
        for (int64_t r = 0; r < notes->rows; r++) {
            int64_t t = r / p->top_k, e = notes->expert_of[r];
            const uint8_t *w = of->bufs[OPREG_FFN_WEIGHTS].data +
                               4 * (t * p->weights_stride + r % p->top_k);
            double dot = 0;
            if (e < 0) {
                continue;
            }
            weight_row(&of->weights[2], e, n, values, sizes);
            for (int64_t i = 0; i < p->inter; i++) {
                dot += values[i] * h[r * p->inter + i];
            }
            dot *= p->down_dtype == OPREG_NVFP4 ? (double)of->weights[2].records[e].tensor_scale : 1;
            sum[t * p->hidden + n] += dot * (double)element_load(OPREG_F32, w);
        }
    }
    for (int64_t t = 0; sum != NULL && t < p->tokens; t++) {
        int twice = 0;
        for (int64_t s = 0; s < p->top_k; s++) {
            twice |= notes->x_of[t * p->top_k + s] == MOE_TWICE;
        }
        for (int64_t n = 0; !twice && n < p->hidden; n++) {
            const uint8_t *at = y + (uint64_t)(t * p->y_stride + n) * element_bytes(p->y_dtype);
            band_add(&b, p->y_dtype, (double)element_load(p->y_dtype, at), sum[t * p->hidden + n]);
        }
    }
    /* two quantizations in a row, each within its format's band */
    band_close(&b, limit + band_limit(p->b_dtype), f);
    free(values);
    free(sizes);
    free(sum);
}

void oracle_ffn(const job *of, uint8_t *const outputs[JOB_BUFS], finding *f) {
    const opreg_moe_ffn *p = &of->problem.ffn;
    const moe_notes *notes = of->extra;
    dots d[2];
    dot_x x;
    if (of->data != DATA_GAUSSIAN || notes->rows == 0) {
        return;
    }
    memset(d, 0, sizeof d);
    if (!dot_x_floats(p->b_dtype, &of->bufs[OPREG_FFN_X], p->tokens, p->hidden, p->x_stride, &x)) {
        return;
    }
    if (dots_make(&of->weights[0], &x, notes->rows, notes->x_of, notes->expert_of, &d[0]) &&
        dots_make(&of->weights[1], &x, notes->rows, notes->x_of, notes->expert_of, &d[1])) {
        for (int64_t i = 0; i < notes->rows * p->inter; i++) {
            d[0].raw[i] = glu_exact(p->glu, (double)p->glu_alpha, (double)p->glu_limit,
                                    d[0].raw[i], d[1].raw[i]);
        }
        ffn_compare(of, d[0].raw, outputs[OPREG_FFN_Y], f);
    }
    dots_clear(&d[0]);
    dots_clear(&d[1]);
    dot_x_clear(&x);
}
