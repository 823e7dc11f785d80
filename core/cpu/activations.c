/* SPDX-License-Identifier: MIT
 * activations.c - converts rows of x once per call and dots them with rows of blocks. */
#include "cpu/activations.h"

#include "cpu/folds.h"
#include "cpu/rows16.h"
#include "formats/act.h"

typedef struct convert_job {
    const activation_source *source;
    uint32_t act_dtype;
    float *x;
    int8_t *codes;
    float *scales;
    int16_t *sums;
} convert_job;

int64_t activations_block(uint32_t act_dtype) {
    return act_dtype == OPREG_Q8_K ? 256 : 32;
}

static void quantize_row(void *arg, int64_t m) {
    const convert_job *job = arg;
    const activation_source *source = job->source;
    int64_t block = activations_block(job->act_dtype), k = source->k;
    for (int64_t first = 0; first < k; first += block) {
        float values[256];
        int8_t *codes = job->codes + m * k + first;
        int16_t *sums = job->sums + (m * k + first) / 16;
        for (int64_t i = 0; i < block; i++) {
            values[i] = canonical_load(source->x, m * source->stride + first + i, source->dtype);
        }
        job->scales[(m * k + first) / block] = job->act_dtype == OPREG_Q8_K
                                                   ? act_q8_k(values, codes, sums)
                                                   : act_q8_0(values, codes, sums);
    }
}

static void widen_row(void *arg, int64_t m) {
    const convert_job *job = arg;
    const activation_source *source = job->source;
    for (int64_t i = 0; i < source->k; i++) {
        job->x[m * source->k + i] =
            canonical_load(source->x, m * source->stride + i, source->dtype);
    }
}

static int is_planes(uint32_t dtype) {
    return dtype == OPREG_Q8_0 || dtype == OPREG_Q8_K;
}

static uint64_t plane_bytes(uint32_t act_dtype, int64_t rows, int64_t k, convert_job *job,
                            void *workspace, uint64_t *used) {
    uint64_t count = (uint64_t)rows * (uint64_t)k;
    job->codes = workspace_take(workspace, used, count);
    job->scales =
        workspace_take(workspace, used, count / (uint64_t)activations_block(act_dtype) * 4);
    job->sums = workspace_take(workspace, used, count / 16 * 2);
    return *used;
}

uint64_t activations_bytes(uint32_t act_dtype, uint32_t x_dtype, int64_t rows, int64_t k) {
    convert_job job;
    uint64_t used = 0;
    if (is_planes(x_dtype) || act_dtype == x_dtype) {
        return 0;
    }
    if (act_dtype == OPREG_F32) {
        workspace_take(NULL, &used, (uint64_t)rows * (uint64_t)k * 4);
        return used;
    }
    return plane_bytes(act_dtype, rows, k, &job, NULL, &used);
}

void activations_quantize(const opreg_host *host, uint32_t act_dtype,
                          const activation_source *source, int8_t *codes, float *scales,
                          int16_t *sums) {
    convert_job job = {source, act_dtype, NULL, codes, scales, sums};
    host->parallel_for(host->ctx, source->rows, quantize_row, &job);
}

activations activations_make(const opreg_host *host, uint32_t act_dtype,
                             const activation_source *source, void *workspace, uint64_t *used) {
    activations out = {.dtype = act_dtype, .k = source->k};
    convert_job job = {.source = source, .act_dtype = act_dtype};
    if (is_planes(source->dtype)) {
        out.codes = source->x;
        out.scales = source->scales;
        out.sums = source->sums;
    } else if (act_dtype != OPREG_F32) {
        plane_bytes(act_dtype, source->rows, source->k, &job, workspace, used);
        activations_quantize(host, act_dtype, source, job.codes, job.scales, job.sums);
        out.codes = job.codes;
        out.scales = job.scales;
        out.sums = job.sums;
    } else if (source->dtype == OPREG_F32) {
        out.x = source->x;
        out.x_stride = source->stride;
    } else {
        job.x = workspace_take(workspace, used, (uint64_t)source->rows * (uint64_t)source->k * 4);
        host->parallel_for(host->ctx, source->rows, widen_row, &job);
        out.x = job.x;
        out.x_stride = source->k;
    }
    return out;
}

/* One row of weights; the block of a prepared layout is put together in scratch. */
typedef struct weight_row {
    const opreg_weight_view *weight;
    const format_info *format;
    int64_t expert, n;
    const uint8_t *stored; /* null where the layout is prepared */
    const opreg_side *side;
} weight_row;

static const uint8_t *row_block(const weight_row *row, int64_t block, uint8_t scratch[256]) {
    if (row->stored != NULL) {
        return row->stored + block * row->format->bytes;
    }
    rows16_block(row->weight, row->expert, row->n, block, scratch);
    return scratch;
}

/* Terms of the integer dots, one a unit. */
static void add_terms(const activations *x, int64_t m, const weight_row *row,
                      float accumulators[32]) {
    const format_info *format = row->format;
    int64_t units = x->k / format->unit, parts = format->values / format->unit;
    const int8_t *codes = x->codes + m * x->k;
    const int16_t *sums = x->sums + m * x->k / 16;
    const float *scales = x->scales + m * units;
    uint8_t scratch[256];
    for (int64_t u = 0; u < units; u++) {
        const uint8_t *block = row_block(row, u / parts, scratch);
        int part = (int)(u % parts);
        int32_t n[2] = {0, 0};
        format->sums(block, part, codes + u * format->unit, sums + u * format->unit / 16, row->side,
                     n);
        accumulators[u % 32] += format->term(block, part, n, scales[u], row->side);
    }
}

float activations_dot(const activations *x, int64_t m, const format_info *format,
                      const opreg_weight_view *weight, int64_t expert, int64_t n) {
    float accumulators[32] = {0}, y;
    const weight_row row = {
        .weight = weight,
        .format = format,
        .expert = expert,
        .n = n,
        .stored = weight->layout == OPREG_LAYOUT_STORED
                      ? (const uint8_t *)weight->data + expert * weight->expert_stride +
                            n * weight->row_bytes
                      : NULL,
        .side = &weight->side[expert],
    };
    if (format->kind == FORMAT_SUMS) {
        add_terms(x, m, &row, accumulators);
    } else {
        /* no prepared layout holds these formats */
        fold_row_of(format->id)(row.stored, x->x + m * x->x_stride, x->k, row.side, accumulators);
    }
    y = canonical_tree(accumulators) * format->final_factor;
    /* GQH's tensor scale is inside its block scales */
    return format->side == FORMAT_SIDE_SCALE ? y * row.side->tensor_scale : y;
}
