/* SPDX-License-Identifier: MIT
 * bench_weights.c - the weights of a bench on the host: a model's own, encoded gaussians, or random
 * valid blocks where a format has no encoder. */
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "formats/encode.h"
#include "formats/formats.h"
#include "formats/side.h"
#include "kit/job.h"

#define DENSE_ROWS  256 /* different rows of a weight that is made                               */
#define EXPERT_ROWS 32

static int describe(bench_weight *w, const problem_weight *p) {
    const format_info *info = format_by_id(p->format);
    if (!info) {
        return 0;
    }
    w->desc.struct_size = sizeof w->desc;
    w->desc.format = p->format;
    w->desc.dialect = p->dialect;
    w->desc.experts = p->experts;
    w->desc.n = p->n;
    w->desc.k = p->k;
    w->row_bytes = p->k / info->values * info->bytes;
    w->records = calloc((size_t)p->experts, sizeof *w->records);
    return w->records != NULL;
}

/* Gaussian weights of the deviation of a model's, where there is an encoder: the error is then that
 * of such weights.  Each expert has the rows in another order. */
static int encode_rows(bench_weight *w, uint64_t seed) {
    int64_t k = w->desc.k, bytes = w->row_bytes;
    random_state random = random_start(seed, 5);
    uint8_t *pool = malloc((size_t)(w->distinct * bytes) + 1);
    float *row = malloc((size_t)k * sizeof *row);
    int done = pool && row;
    for (int64_t r = 0; done && r < w->distinct; r++) {
        for (int64_t i = 0; i < k; i++) {
            row[i] = 0x1p-5f * random_gauss(&random);
        }
        done = format_encode(w->desc.format, row, k, pool + r * bytes);
    }
    for (int64_t e = 0; done && e < w->desc.experts; e++) {
        for (int64_t r = 0; r < w->distinct; r++) {
            memcpy(w->made + (uint64_t)e * w->expert_stride + (uint64_t)(r * bytes),
                   pool + (r + 7 * e) % w->distinct * bytes, (size_t)bytes);
        }
    }
    free(pool);
    free(row);
    return done;
}

static int make_weight(bench_weight *w, const problem_weight *p, uint64_t seed) {
    random_state random = random_start(seed, 1);
    int64_t most = p->experts > 1 ? EXPERT_ROWS : DENSE_ROWS;
    job_weight made;
    memset(&made, 0, sizeof made);
    w->distinct = p->n < most ? p->n : most;
    if (!weight_make(&random, DATA_GAUSSIAN, p->format, p->dialect, p->experts, w->distinct, p->k,
                     &made)) {
        weight_clear(&made);
        return 0;
    }
    w->expert_stride = (uint64_t)made.expert_stride;
    w->rows = w->made = made.data;
    w->desc.side = w->made_side = made.side;
    w->desc.side_bytes = made.side_bytes;
    w->desc.tensor_scale = made.tensor_scale;
    made.data = made.side = NULL;
    weight_clear(&made);
    return !format_can_encode(p->format) || encode_rows(w, seed);
}

int bench_weights_make(bench_set *s, uint64_t seed, const char **reason) {
    problem_weight wanted[PROBLEM_MAX_WEIGHTS];
    s->num_weights = problem_weights(s->what->op, &s->what->problem, wanted);
    for (uint32_t i = 0; i < s->num_weights; i++) {
        bench_weight *w = &s->weights[i];
        const model_weight *from = s->what->weights[i];
        if (!describe(w, &wanted[i])) {
            *reason = "no memory, or a format that a plugin brings";
            return 0;
        }
        if (from) {
            w->rows = from->data;
            w->distinct = from->n;
            w->expert_stride = from->expert_bytes;
            w->desc.side = from->side;
            w->desc.side_bytes = from->side_bytes;
            w->desc.tensor_scale = from->tensor_scale;
        } else if (!make_weight(w, &wanted[i], seed + i)) {
            *reason = "no memory for the weight";
            return 0;
        }
        if (side_decode(&w->desc, w->records) != OPREG_OK) {
            *reason = opreg_last_error();
            return 0;
        }
    }
    return 1;
}
