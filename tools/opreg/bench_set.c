/* SPDX-License-Identifier: MIT
 * bench_set.c - data of a bench, and what the device it runs on can do at best. */
#define _GNU_SOURCE /* _SC_LEVEL3_CACHE_SIZE */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench.h"
#include "formats/encode.h"
#include "formats/formats.h"
#include "output.h"
#include "parallel.h"
#include "truth.h"

#define GPU_CACHE   (UINT64_C(64) << 20)  /* no driver call tells; the largest today is below     */
#define CPU_CACHE   (UINT64_C(128) << 20) /* a virtual machine sees the cache of the whole host   */
#define MOST_COPIES 4096

uint64_t bench_cache_bytes(const device *d) {
    long bytes;
    if (d->row.kind != OPREG_CPU) {
        return GPU_CACHE;
    }
    bytes = sysconf(_SC_LEVEL3_CACHE_SIZE);
    return bytes <= 0 || (uint64_t)bytes > CPU_CACHE ? CPU_CACHE : (uint64_t)bytes;
}

/* Gaussian weights of deviation 1/32, encoded a row at a time. */
static int make_blocks(bench_set *s, const format_info *info, uint64_t seed) {
    int64_t k = s->problem.k, n = s->problem.n;
    uint64_t row_bytes = (uint64_t)(k / info->values) * (uint64_t)info->bytes;
    float *row = malloc((size_t)k * sizeof *row);
    s->weight_bytes = row_bytes * (uint64_t)n;
    s->blocks = malloc((size_t)s->weight_bytes);
    if (!row || !s->blocks) {
        free(row);
        return 0;
    }
    for (int64_t r = 0; r < n; r++) {
        if (r < 64) {
            truth_gaussian(seed + (uint64_t)r, row, k);
            for (int64_t i = 0; i < k; i++) {
                row[i] *= 0x1p-5f;
            }
            format_encode(info->id, row, k, s->blocks + (uint64_t)r * row_bytes);
        } else { /* encoding every row would take longer than the bench */
            memcpy(s->blocks + (uint64_t)r * row_bytes, s->blocks + (uint64_t)(r % 64) * row_bytes,
                   (size_t)row_bytes);
        }
    }
    free(row);
    return 1;
}

static int place_copies(bench_set *s, uint64_t cache_bytes) {
    opreg_weight_desc desc = {.struct_size = sizeof desc};
    uint64_t copies = 4 * cache_bytes / s->weight_bytes + 1;
    s->copies = (int64_t)(copies > MOST_COPIES ? MOST_COPIES : copies);
    s->data = calloc((size_t)s->copies, sizeof *s->data);
    s->weights = calloc((size_t)s->copies, sizeof *s->weights);
    if (!s->data || !s->weights) {
        return 0;
    }
    desc.format = s->problem.b_dtype;
    desc.dialect = s->problem.b_dialect;
    desc.experts = 1;
    desc.n = s->problem.n;
    desc.k = s->problem.k;
    for (int64_t i = 0; i < s->copies; i++) {
        s->data[i] = device_alloc(s->where, s->weight_bytes);
        if (!s->data[i].ptr || !device_upload(s->where, s->data[i], s->blocks, s->weight_bytes)) {
            return 0;
        }
        desc.data = s->data[i];
        if (opreg_weight_create(s->where->reg, &s->where->row, &desc, &s->weights[i]) != OPREG_OK) {
            return 0;
        }
    }
    return 1;
}

int bench_set_open(const device *d, const opreg_matmul_bt_quant *problem, uint64_t cache_bytes,
                   uint64_t seed, bench_set *out, const char **reason) {
    const format_info *info = format_by_id(problem->b_dtype);
    uint64_t x_bytes = 0, y_bytes = 0;
    memset(out, 0, sizeof *out);
    out->where = d;
    out->problem = *problem;
    *reason = NULL;
    if (!info || !format_can_encode(info->id)) {
        *reason = "there is no encoder for this weight format";
        return 0;
    }
    if (problem->x_dtype != OPREG_F32 || problem->y_dtype != OPREG_F32 ||
        problem->glu != OPREG_GLU_NONE || (problem->flags & OPREG_PF_BIAS) != 0 ||
        problem->x_stride != problem->k || problem->y_stride != problem->n || problem->m < 1 ||
        problem->n < 1) {
        *reason = "the bench takes packed f32 x and y, no bias, no pair form";
        return 0;
    }
    opreg_problem_buffer(OPREG_OP_MATMUL_BT_QUANT, problem, OPREG_MATMUL_X, &x_bytes);
    opreg_problem_buffer(OPREG_OP_MATMUL_BT_QUANT, problem, OPREG_MATMUL_Y, &y_bytes);
    out->x_host = malloc((size_t)x_bytes);
    if (!out->x_host || !make_blocks(out, info, seed)) {
        *reason = "no memory";
        return 0;
    }
    truth_gaussian(seed ^ 0x5eed, out->x_host, problem->m * problem->k);
    out->moved_bytes = out->weight_bytes + x_bytes + y_bytes;
    out->x = device_alloc(d, x_bytes);
    out->y = device_alloc(d, y_bytes);
    return out->x.ptr && out->y.ptr && device_upload(d, out->x, out->x_host, x_bytes) &&
           place_copies(out, cache_bytes);
}

void bench_set_close(bench_set *s) {
    for (int64_t i = 0; i < s->copies; i++) {
        if (s->weights) {
            opreg_weight_destroy(s->weights[i]);
        }
        if (s->data) {
            device_free(s->where, &s->data[i]);
        }
    }
    free(s->weights);
    free(s->data);
    device_free(s->where, &s->x);
    device_free(s->where, &s->y);
    free(s->blocks);
    free(s->x_host);
}

/* ---- bandwidth ---- */

typedef struct reading {
    const uint64_t *words;
    int64_t words_a_task;
    uint64_t sums[256];
} reading;

static void read_some(void *arg, int64_t task) {
    reading *r = arg;
    const uint64_t *p = r->words + task * r->words_a_task;
    uint64_t sums[8] = {0};
    for (int64_t i = 0; i + 8 <= r->words_a_task; i += 8) {
        for (int j = 0; j < 8; j++) {
            sums[j] += p[i + j];
        }
    }
    for (int j = 1; j < 8; j++) {
        sums[0] += sums[j];
    }
    r->sums[task & 255] = sums[0];
}

static double cpu_bandwidth(unsigned threads, uint64_t cache) {
    uint64_t bytes = 4 * cache < (UINT64_C(256) << 20) ? UINT64_C(256) << 20 : 4 * cache;
    int64_t tasks = (int64_t)threads;
    reading r = {.words_a_task = (int64_t)(bytes / 8) / tasks};
    uint64_t *words = malloc((size_t)bytes);
    double best = 0;
    if (!words) {
        return 0;
    }
    memset(words, 1, (size_t)bytes);
    r.words = words;
    for (int i = 0; i < 4; i++) {
        double start = seconds_now(), took;
        parallel_run(threads, tasks, read_some, &r);
        took = seconds_now() - start;
        best = (double)(tasks * r.words_a_task * 8) / took > best
                   ? (double)(tasks * r.words_a_task * 8) / took
                   : best;
    }
    free(words);
    return best;
}

/* Device-to-device copy: what it reads and writes. */
static double gpu_bandwidth(const device *d) {
    uint64_t bytes = UINT64_C(512) << 20;
    opreg_buf from = device_alloc(d, bytes), to = device_alloc(d, bytes);
    void *start = NULL, *end = NULL;
    double best = 0, us = 0;
    if (from.ptr && to.ptr && d->io->event_create && device_fill(d, from, 1) &&
        d->io->event_create(d->host, &d->row, &start) == OPREG_OK &&
        d->io->event_create(d->host, &d->row, &end) == OPREG_OK) {
        for (int i = 0; i < 10; i++) {
            if (d->io->event_record(d->host, &d->row, start, d->stream) != OPREG_OK ||
                d->io->copy(d->host, &d->row, to.ptr, from.ptr, bytes, d->stream) != OPREG_OK ||
                d->io->event_record(d->host, &d->row, end, d->stream) != OPREG_OK ||
                d->io->event_elapsed_us(d->host, &d->row, start, end, &us) != OPREG_OK) {
                break;
            }
            best = 2e6 * (double)bytes / us > best ? 2e6 * (double)bytes / us : best;
        }
    }
    if (start) {
        d->io->event_destroy(d->host, &d->row, start);
    }
    if (end) {
        d->io->event_destroy(d->host, &d->row, end);
    }
    device_free(d, &from);
    device_free(d, &to);
    return best;
}

double bench_bandwidth(const device *d, unsigned threads) {
    return d->row.kind == OPREG_CPU ? cpu_bandwidth(threads, bench_cache_bytes(d))
                                    : gpu_bandwidth(d);
}
