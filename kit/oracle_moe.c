/* SPDX-License-Identifier: MIT
 * oracle_moe.c - float64 results of the grouped operators. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "dot.h"
#include "formats/formats.h"
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

static void moe_compare(const job *of, const opreg_kernel_row *variant, const dots d[2],
                        const dot_x *x, const uint8_t *y, finding *f) {
    const opreg_moe_matmul *p = &of->problem.moe;
    const moe_notes *notes = of->extra;
    const glu_kind glu = {p->glu, (double)p->glu_alpha, (double)p->glu_limit};
    uint32_t size = element_bytes(p->y_dtype);
    banded b;
    if (!banded_open(&b, p->y_dtype, band_admitted(variant, p->b_dtype), notes->rows, p->n)) {
        return;
    }
    for (int64_t r = 0; r < notes->rows; r++) {
        for (int64_t n = 0; notes->x_of[r] >= MOE_ZERO && n < p->n; n++) {
            double got =
                (double)element_load(p->y_dtype, y + (uint64_t)(r * p->y_stride + n) * size);
            if (notes->x_of[r] != MOE_ZERO) {
                compare_output(&b, d, p->glu != OPREG_GLU_NONE, &glu, (opreg_level)variant->level, r, n,
                               r * p->n + n, 0, got, f);
            } else if (got != 0 || signbit(got)) {
                finding_set(f, "zero-row", "row %lld belongs to no expert or token, but "
                                           "y[%lld,%lld] is %g, not +0",
                            (long long)r, (long long)r, (long long)n, got);
            }
        }
    }
    banded_close(&b, of->data == DATA_GAUSSIAN && x->raw_known ? f : NULL);
}

void oracle_moe(const job *of, const opreg_kernel_row *variant, uint8_t *const outputs[JOB_BUFS],
                finding *f) {
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
        moe_compare(of, variant, d, &x, outputs[OPREG_MOE_Y], f);
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

/* One result of a token: the sum over its slots, and the expected power of its error. */
typedef struct ffn_sum {
    double value, power;
} ffn_sum;

/* Adds row r of h times row n of its expert's down weights. */
static void ffn_add(const job *of, const double *h, const double *h_power, int64_t r,
                    const double *values, ffn_sum *sum) {
    const opreg_moe_ffn *p = &of->problem.ffn;
    int64_t t = r / p->top_k, e = ((const moe_notes *)of->extra)->expert_of[r];
    double w = (double)element_load(OPREG_F32, of->bufs[OPREG_FFN_WEIGHTS].data +
                                                   4 * (t * p->weights_stride + r % p->top_k));
    double limit = band_limit(p->down_dtype), dot = 0, power = 0;
    for (int64_t i = 0; i < p->inter; i++) {
        double value = values[i], hi = h[r * p->inter + i];
        dot += value * hi;
        power += value * value * (limit * hi * hi + h_power[r * p->inter + i]);
    }
    w *= p->down_dtype == OPREG_NVFP4 ? (double)of->weights[2].records[e].tensor_scale : 1;
    sum->value += dot * w;
    sum->power += power * w * w;
}

/* h and the expected power of its error, [rows, inter]. */
static void ffn_compare(const job *of, const double *h, const double *h_power, const uint8_t *y,
                        finding *f) {
    const opreg_moe_ffn *p = &of->problem.ffn;
    const moe_notes *notes = of->extra;
    double *values = malloc((size_t)p->inter * sizeof *values);
    double *sizes = malloc((size_t)p->inter * sizeof *sizes);
    ffn_sum *sums = calloc((size_t)(p->tokens * p->hidden) + 1, sizeof *sums);
    /* two quantizations in a row, each within its format's band */
    double limit = band_limit(p->down_dtype) + band_limit(p->b_dtype);
    banded b;
    int ok = banded_open(&b, p->y_dtype, limit, p->tokens, p->hidden);
    ok = ok && values != NULL && sizes != NULL && sums != NULL;
    for (int64_t e = 0; ok && e < p->experts; e++) {
        for (int64_t n = 0; n < p->hidden; n++) {
            int known = 0;
            for (int64_t r = 0; r < notes->rows; r++) {
                if (notes->expert_of[r] != e) {
                    continue;
                }
                if (!known) {
                    weight_row(&of->weights[2], e, n, values, sizes);
                    known = 1;
                }
                ffn_add(of, h, h_power, r, values, &sums[r / p->top_k * p->hidden + n]);
            }
        }
    }
    for (int64_t t = 0; ok && t < p->tokens; t++) {
        int twice = 0;
        for (int64_t s = 0; s < p->top_k; s++) {
            twice |= notes->x_of[t * p->top_k + s] == MOE_TWICE;
        }
        for (int64_t n = 0; !twice && n < p->hidden; n++) {
            const uint8_t *at = y + (uint64_t)(t * p->y_stride + n) * element_bytes(p->y_dtype);
            const ffn_sum *sum = &sums[t * p->hidden + n];
            banded_add(&b, t, n, (double)element_load(p->y_dtype, at), sum->value,
                       sum->power / limit);
        }
    }
    banded_close(&b, ok ? f : NULL);
    free(values);
    free(sizes);
    free(sums);
}

/* h = glu of the two dots, over them in d[0]: raw and power. */
static void ffn_h(const opreg_moe_ffn *p, const dots d[2], int64_t count) {
    double limit = band_limit(p->b_dtype);
    for (int64_t i = 0; i < count; i++) {
        const double raws[2] = {d[0].raw[i], d[1].raw[i]};
        const double powers[2] = {d[0].power[i], d[1].power[i]};
        d[0].raw[i] =
            glu_exact(p->glu, (double)p->glu_alpha, (double)p->glu_limit, raws[0], raws[1]);
        d[0].power[i] = limit * glu_power(p->glu, (double)p->glu_alpha, (double)p->glu_limit, raws,
                                          powers, limit);
    }
}

/* The step of h's own quantizer: h is no gaussian, and its largest may stand far above the rest.  As
 * with gaussian data, the band is an order above the quantizer's noise of step^2 / 12. */
static void ffn_step(const opreg_moe_ffn *p, const dots *h) {
    uint32_t act = format_by_id(p->down_dtype)->act_dtype;
    int64_t block = act == OPREG_Q8_K ? 256 : 32;
    for (int64_t first = 0; act != OPREG_F32 && first < h->rows * p->inter; first += block) {
        double largest = 0;
        for (int64_t i = first; i < first + block; i++) {
            largest = fmax(largest, fabs(h->raw[i]));
        }
        for (int64_t i = first; i < first + block; i++) {
            h->power[i] += largest * largest / (127.0 * 127.0);
        }
    }
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
        ffn_h(p, d, notes->rows * p->inter);
        ffn_step(p, &d[0]);
        ffn_compare(of, d[0].raw, d[0].power, outputs[OPREG_FFN_Y], f);
    }
    dots_clear(&d[0]);
    dots_clear(&d[1]);
    dot_x_clear(&x);
}
