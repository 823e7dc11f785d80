/* SPDX-License-Identifier: MIT
 * product.c - one tile of results, by the reference or by a kernel of the layout rows16. */
#include "cpu/product.h"

static void multiply_reference(const product *job, const opreg_weight_view *weight, int64_t expert,
                               int64_t tile, const int64_t *rows, int count,
                               float out[][PRODUCT_N]) {
    for (int r = 0; r < product_rows(job, tile); r++) {
        for (int c = 0; c < count; c++) {
            out[c][r] = activations_dot(&job->x, rows[c], job->format, weight, expert,
                                        tile * PRODUCT_N + r);
        }
    }
}

static void multiply_rows16(const product *job, const opreg_weight_view *weight, int64_t expert,
                            int64_t tile, const int64_t *rows, int count, float out[][PRODUCT_N]) {
    rows16_column columns[PRODUCT_M];
    int64_t k = job->x.k;
    for (int c = 0; c < count; c++) {
        columns[c].q = job->x.codes + rows[c] * k;
        columns[c].d = job->x.scales + rows[c] * (k / job->format->unit);
        columns[c].s = job->x.sums + rows[c] * (k / 16);
    }
    job->tile(rows16_tile(weight, expert, tile), k / job->format->values, columns, count, out);
}

static void multiply(const product *job, int which, int64_t expert, int64_t tile,
                     const int64_t *rows, int count, float out[][PRODUCT_N]) {
    if (job->tile != NULL) {
        multiply_rows16(job, job->weights[which], expert, tile, rows, count, out);
    } else {
        multiply_reference(job, job->weights[which], expert, tile, rows, count, out);
    }
}

void product_tile(const product *job, int64_t expert, int64_t tile, const int64_t *rows, int count,
                  float out[][PRODUCT_N]) {
    multiply(job, 0, expert, tile, rows, count, out);
    if (job->glu != OPREG_GLU_NONE) {
        float up[PRODUCT_M][PRODUCT_N];
        multiply(job, 1, expert, tile, rows, count, up);
        for (int c = 0; c < count; c++) {
            for (int r = 0; r < product_rows(job, tile); r++) {
                out[c][r] =
                    canonical_glu(job->glu, out[c][r], up[c][r], job->glu_alpha, job->glu_limit);
            }
        }
    }
}
