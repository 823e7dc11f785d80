/* SPDX-License-Identifier: MIT
 * truth.c - float64 products of decoded weights, and the bounds of docs/numerics.md. */
#include "truth.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "formats/act.h"
#include "formats/formats.h"
#include "parallel.h"

#define ROWS_A_TASK 16
#define LARGEST     0x1p120 /* of the magnitudes of a dot, for sums that stay finite in f32 */

/* Formats whose weight is a scale part and a min part: the bytes of the block that hold codes. With
 * those zero, the value is the min part alone. */
static const struct {
    uint32_t format;
    uint16_t from, to;
} two_parts[] = {{OPREG_Q4_1, 4, 20},   {OPREG_Q5_1, 4, 24},   {OPREG_Q2_K, 16, 80},
                 {OPREG_Q4_K, 16, 144}, {OPREG_Q5_K, 16, 176}, {OPREG_ROCMFP2, 0, 8}};

typedef struct worker {
    const truth_input *in;
    const format_info *info;
    truth *out;
    const float *quantized; /* [x_rows, k], as the format sees them                               */
    int64_t blocks_of_rows;
    int code_from, code_to; /* 0, 0: one part                                                     */
    double units, fixed;    /* the bound is (units + fixed) * 2^-24 * S                           */
    int failed;
} worker;

static uint64_t next_random(uint64_t *state) { /* splitmix64 */
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

void truth_gaussian(uint64_t seed, float *x, int64_t count) {
    uint64_t state = seed;
    for (int64_t i = 0; i < count; i += 2) {
        double u = ((double)(next_random(&state) >> 11) + 1.0) * 0x1p-53;
        double angle = (double)(next_random(&state) >> 11) * (0x1p-53 * 6.283185307179586);
        double radius = sqrt(-2.0 * log(u));
        x[i] = (float)(radius * cos(angle));
        if (i + 1 < count) {
            x[i + 1] = (float)(radius * sin(angle));
        }
    }
}

/* What the format's kernels see of x: codes times scales, or x itself. */
static void quantize(uint32_t act, const float *x, int64_t count, float *out) {
    int8_t codes[256];
    int16_t sums[16];
    int block = act == OPREG_Q8_K ? 256 : 32;
    if (act == OPREG_F32) {
        memcpy(out, x, (size_t)count * sizeof *x);
        return;
    }
    for (int64_t i = 0; i < count; i += block) {
        float scale =
            act == OPREG_Q8_K ? act_q8_k(x + i, codes, sums) : act_q8_0(x + i, codes, sums);
        for (int j = 0; j < block; j++) {
            /* a 24-bit scale times an 8-bit code does not fit f32, so codes and scales stay
             * factors: the product is made in double by the caller */
            out[2 * (i + j)] = scale;
            out[2 * (i + j) + 1] = (float)codes[j];
        }
    }
}

/* Decoded weights of one row, and the sum of the magnitudes of their parts. */
static void decode_row(const worker *w, const uint8_t *row, const opreg_side *side, double *value,
                       double *parts) {
    const format_info *info = w->info;
    double scale = info->side == FORMAT_SIDE_SCALE ? (double)side->tensor_scale : 1.0;
    uint8_t mins[256];
    for (int64_t i = 0; i < w->in->k; i += info->values, row += info->bytes) {
        if (w->code_to > 0) {
            memcpy(mins, row, (size_t)info->bytes);
            memset(mins + w->code_from, 0, (size_t)(w->code_to - w->code_from));
        }
        for (int j = 0; j < info->values; j++) {
            double v = (double)info->value(row, j, side) * scale;
            double m = w->code_to > 0 ? (double)info->value(mins, j, side) : 0.0;
            value[i + j] = v;
            parts[i + j] = fabs(v - m) + fabs(m);
        }
    }
}

static void one_row(const worker *w, const truth_entry *entry, int64_t n, const double *value,
                    const double *parts) {
    int64_t k = w->in->k, at = entry->y_row * w->in->n + n;
    const float *x = w->in->x + entry->x_row * k;
    double raw = 0, exact = 0, size = 0;
    for (int64_t i = 0; i < k; i++) {
        raw += value[i] * (double)x[i];
    }
    if (w->info->act_dtype == OPREG_F32) {
        for (int64_t i = 0; i < k; i++) {
            size += parts[i] * fabs((double)x[i]);
        }
        exact = raw;
    } else {
        const float *q = w->quantized + entry->x_row * k * 2;
        for (int64_t i = 0; i < k; i++) {
            double seen = (double)q[2 * i] * (double)q[2 * i + 1];
            exact += value[i] * seen;
            size += parts[i] * fabs(seen);
        }
    }
    w->out->raw[at] = raw;
    w->out->exact[at] = exact;
    /* the last part is for underflow: 2^-149 times an integer sum below 2^28, a unit */
    if (!(size < LARGEST)) {
        w->out->bound[at] = (double)INFINITY; /* f32 sums may overflow on the way */
        return;
    }
    w->out->bound[at] = (w->units + w->fixed) * 0x1p-24 * size +
                        0x1p-121 * (double)((k + w->info->unit - 1) / w->info->unit);
}

/* Task: ROWS_A_TASK rows of one expert, for all entries of that expert. */
static void some_rows(void *arg, int64_t task) {
    worker *w = arg;
    const truth_input *in = w->in;
    int64_t group = task / w->blocks_of_rows, from = task % w->blocks_of_rows * ROWS_A_TASK;
    int64_t to = from + ROWS_A_TASK < in->n ? from + ROWS_A_TASK : in->n, first = 0, last;
    double *value = malloc((size_t)in->k * 2 * sizeof *value), *parts;
    if (!value) {
        w->failed = 1;
        return;
    }
    parts = value + in->k;
    for (int64_t seen = 0;; first = last, seen++) { /* the group's entries */
        last = first + 1;
        while (last < in->num_entries && in->entries[last].expert == in->entries[first].expert) {
            last++;
        }
        if (seen == group) {
            break;
        }
    }
    for (int64_t n = from; n < to; n++) {
        int64_t expert = in->entries[first].expert;
        decode_row(w, in->data + (uint64_t)expert * in->expert_stride + (uint64_t)n * in->row_bytes,
                   &in->sides[expert], value, parts);
        for (int64_t i = first; i < last; i++) {
            one_row(w, &in->entries[i], n, value, parts);
        }
    }
    free(value);
}

int truth_make(const truth_input *in, truth *out) {
    worker w = {.in = in, .info = format_by_id(in->format), .out = out};
    size_t outputs = (size_t)in->y_rows * (size_t)in->n, seen;
    float *quantized = NULL;
    int64_t groups = 1;
    memset(out, 0, sizeof *out);
    out->n = in->n;
    out->y_rows = in->y_rows;
    if (!w.info) {
        return 0;
    }
    seen = (size_t)in->x_rows * (size_t)in->k * (w.info->act_dtype == OPREG_F32 ? 1 : 2);
    out->raw = calloc(outputs, sizeof(double));
    out->exact = calloc(outputs, sizeof(double));
    out->bound = calloc(outputs, sizeof(double));
    quantized = malloc(seen * sizeof *quantized);
    if (!out->raw || !out->exact || !out->bound || !quantized) {
        free(quantized);
        truth_free(out);
        return 0;
    }
    quantize(w.info->act_dtype, in->x, in->x_rows * in->k, quantized);
    w.quantized = quantized;
    for (size_t i = 0; i < sizeof two_parts / sizeof *two_parts; i++) {
        if (two_parts[i].format == in->format &&
            (in->format != OPREG_ROCMFP2 || in->sides[0].dialect == OPREG_DIALECT_ROCMFP2_AFFINE)) {
            w.code_from = two_parts[i].from;
            w.code_to = two_parts[i].to;
        }
    }
    out->int_scale = 1.0;
    if (w.info->act_dtype == OPREG_F32) {
        w.units = (double)in->k / 32.0;
        w.fixed = 16.0;
        out->band = 1e-10;
    } else {
        double units = (double)((in->k + w.info->unit - 1) / w.info->unit);
        w.units = units / 32.0;
        w.fixed = 12.0;
        out->int_scale = (units + 24.0) / (w.units + w.fixed);
        out->band = in->format == OPREG_IQ1_S || in->format == OPREG_IQ1_M ? 2e-3 : 5e-4;
    }
    for (int64_t i = 1; i < in->num_entries; i++) {
        groups += in->entries[i].expert != in->entries[i - 1].expert;
    }
    w.blocks_of_rows = (in->n + ROWS_A_TASK - 1) / ROWS_A_TASK;
    parallel_run(in->threads, groups * w.blocks_of_rows, some_rows, &w);
    free(quantized);
    if (w.failed) {
        truth_free(out);
        return 0;
    }
    return 1;
}

void truth_free(truth *t) {
    free(t->raw);
    free(t->exact);
    free(t->bound);
    t->raw = t->exact = t->bound = NULL;
}

truth_result truth_compare(const truth *t, const float *y, int64_t rows, uint32_t level) {
    truth_result r = {0};
    double error = 0, size = 0, wider = level == OPREG_LEVEL_INT ? t->int_scale : 1.0;
    for (int64_t i = 0; i < rows * t->n; i++) {
        if (isinf(t->bound[i])) {
            continue;
        }
        r.outputs++;
        double value = (double)y[i], off = fabs(value - t->exact[i]), ratio;
        error += (value - t->raw[i]) * (value - t->raw[i]);
        size += t->raw[i] * t->raw[i];
        ratio = off == 0.0 ? 0.0 : off / (t->bound[i] * wider);
        if (!(ratio <= r.worst)) {
            r.worst = isnan(ratio) ? (double)INFINITY : ratio;
            r.worst_row = i / t->n;
            r.worst_column = i % t->n;
        }
    }
    r.nmse = error == 0.0 ? 0.0 : error / size;
    return r;
}
