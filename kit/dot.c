/* SPDX-License-Identifier: MIT
 * dot.c - float64 dots of decoded weights, with the error that the canonical order admits.
 *
 * Integer-dot formats: |y - exact| <= (units / 32 + 12) * 2^-24 * S, S = sum over k of |scale part *
 * x| + |min part * x|, x the dequantized activation; INT sums units in any order: units + 24.
 * Underflow: a product of scales that is subnormal is off by up to 2^-150, times the unit's integer
 * sum; 2^-149 * |integer sum| a unit covers it, and 2^-149 the factors after the tree.
 * f32-activation formats: an accumulator is a chain of at most ceil(k / 32) fmaf (each off by 2^-24
 * of a partial sum, itself at most S), five adds, and at most eight roundings of level and scale:
 * (k / 32 + 16) * 2^-24 * S; any order: k + 24.  Underflow: 2^-149 for each fmaf times the largest
 * block scale (below 256), and 2^-149 * |x| for each decoded weight that is itself rounded. */
#include "dot.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "formats/formats.h"

#define ULP 0x1p-24
#define TINY 0x1p-149

static int64_t act_block(uint32_t act) { return act == OPREG_Q8_K ? 256 : 32; }

static int dot_x_alloc(uint32_t format, int64_t rows, int64_t k, dot_x *out) {
    size_t count = (size_t)(rows * k) + 1;
    memset(out, 0, sizeof *out);
    out->rows = rows;
    out->k = k;
    out->act = format_by_id(format)->act_dtype;
    out->x = calloc(count, sizeof *out->x);
    out->codes = calloc(count, sizeof *out->codes);
    out->scales = calloc(count, sizeof *out->scales);
    out->sums = calloc(count, sizeof *out->sums);
    return out->x != NULL && out->codes != NULL && out->scales != NULL && out->sums != NULL;
}

int dot_x_floats(uint32_t format, const job_buffer *x, int64_t rows, int64_t k, int64_t stride,
                 dot_x *out) {
    uint32_t size = element_bytes(x->dtype);
    if (!dot_x_alloc(format, rows, k, out)) {
        return 0;
    }
    out->raw_known = 1;
    for (int64_t row = 0; row < rows; row++) {
        for (int64_t i = 0; i < k; i++) {
            out->x[row * k + i] =
                element_load(x->dtype, x->data + (uint64_t)(row * stride + i) * size);
        }
        if (out->act != OPREG_F32) {
            activation_quantize(out->act, out->x + row * k, k, out->codes + row * k,
                                out->scales + row * (k / act_block(out->act)),
                                out->sums + row * (k / 16));
        }
    }
    return 1;
}

int dot_x_planes(uint32_t format, const job_buffer *codes, const job_buffer *scales,
                 const job_buffer *sums, int64_t rows, int64_t k, dot_x *out) {
    int64_t block;
    if (!dot_x_alloc(format, rows, k, out)) {
        return 0;
    }
    block = act_block(out->act);
    memcpy(out->codes, codes->data, codes->bytes);
    memcpy(out->scales, scales->data, scales->bytes);
    memcpy(out->sums, sums->data, sums->bytes);
    for (int64_t i = 0; i < rows * k; i++) {
        out->x[i] = (float)out->codes[i] * out->scales[i / block];
    }
    return 1;
}

void dot_x_clear(dot_x *x) {
    free(x->x);
    free(x->codes);
    free(x->scales);
    free(x->sums);
    memset(x, 0, sizeof *x);
}

/* Sum of the absolute integer sums of a row's units. */
static double integer_sizes(const job_weight *w, int64_t expert, int64_t row, const dot_x *x,
                            int64_t xrow) {
    const format_info *info = format_by_id(w->format);
    const uint8_t *at = w->data + expert * w->expert_stride + row * w->row_bytes;
    double sum = 0;
    for (int64_t k = 0; k < w->k; k += info->unit) {
        int32_t n[2] = {0, 0};
        const uint8_t *block = at + k / info->values * info->bytes;
        info->sums(block, (int)(k % info->values / info->unit), x->codes + xrow * x->k + k,
                   x->sums + (xrow * x->k + k) / 16, &w->records[expert], n);
        sum += fabs((double)n[0]) + fabs((double)n[1]);
    }
    return sum;
}

static void one_dot(const job_weight *w, int64_t expert, int64_t row, const double *values,
                    const double *sizes, const dot_x *x, int64_t xrow, dots *out, int64_t at) {
    const format_info *info = format_by_id(w->format);
    double factor = info->side == FORMAT_SIDE_SCALE ? (double)w->records[expert].tensor_scale : 1.0;
    double exact = 0, size = 0, raw = 0, power = 0, span = 0, under = 0;
    double chain = info->kind == FORMAT_SUMS ? ceil((double)w->k / info->unit) : (double)w->k;
    int64_t block = act_block(x->act);
    int finite = 1;
    for (int64_t i = 0; i < w->k; i++) {
        double plain = (double)x->x[xrow * x->k + i], used = plain;
        if (x->act != OPREG_F32) {
            used = (double)x->codes[xrow * x->k + i] *
                   (double)x->scales[(xrow * x->k + i) / block];
        }
        finite &= isfinite(used) && isfinite(values[i]);
        exact += values[i] * used;
        size += sizes[i] * fabs(used);
        raw += values[i] * plain;
        power += values[i] * plain * values[i] * plain;
        span += fabs(plain);
    }
    out->exact[at] = exact * factor;
    out->raw[at] = raw * factor;
    out->power[at] = power * factor * factor;
    size *= factor;
    if (!finite || size > 0x1p110) {
        out->exact[at] = finite ? out->exact[at] : (double)NAN;
        out->bound[at] = out->loose[at] = -1;
        return;
    }
    if (size < 0x1p-80) {
        under = info->kind == FORMAT_SUMS
                    ? TINY * (integer_sizes(w, expert, row, x, xrow) * fmax(factor, 1) + 1)
                    : TINY * (256.0 * (double)w->k + span);
    }
    out->bound[at] = (chain / 32 + (info->kind == FORMAT_SUMS ? 12 : 16)) * ULP * size + under;
    out->loose[at] = (chain + 24) * ULP * size + under;
}

int dots_make(const job_weight *weight, const dot_x *x, int64_t rows, const int64_t *x_of,
              const int64_t *expert_of, dots *out) {
    size_t count = (size_t)(rows * weight->n) + 1;
    double *values = malloc((size_t)weight->k * sizeof *values);
    double *sizes = malloc((size_t)weight->k * sizeof *sizes);
    memset(out, 0, sizeof *out);
    out->rows = rows;
    out->n = weight->n;
    out->exact = calloc(count, sizeof *out->exact);
    out->bound = calloc(count, sizeof *out->bound);
    out->loose = calloc(count, sizeof *out->loose);
    out->raw = calloc(count, sizeof *out->raw);
    out->power = calloc(count, sizeof *out->power);
    int ok = values != NULL && sizes != NULL && out->exact != NULL && out->bound != NULL &&
             out->loose != NULL && out->raw != NULL && out->power != NULL;
    for (int64_t e = 0; ok && e < weight->experts; e++) {
        int64_t users = 0;
        for (int64_t r = 0; r < rows; r++) {
            users += expert_of[r] == e && x_of[r] >= 0;
        }
        for (int64_t n = 0; users > 0 && n < weight->n; n++) {
            weight_row(weight, e, n, values, sizes);
            for (int64_t r = 0; r < rows; r++) {
                if (expert_of[r] == e && x_of[r] >= 0) {
                    one_dot(weight, e, n, values, sizes, x, x_of[r], out, r * weight->n + n);
                }
            }
        }
    }
    free(values);
    free(sizes);
    return ok;
}

void dots_clear(dots *d) {
    free(d->exact);
    free(d->bound);
    free(d->loose);
    free(d->raw);
    free(d->power);
    memset(d, 0, sizeof *d);
}
