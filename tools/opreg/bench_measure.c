/* SPDX-License-Identifier: MIT
 * bench_measure.c - times of variants: cold weights, batches of all variants in turn, medians. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "output.h"
#include "truth.h"

#define BATCH_US   2000.0 /* a batch lasts at least this                                          */
#define ERROR_ROWS 256 /* rows of the weight behind the error                                   */

/* A variant with a prepared copy of each weight. */
typedef struct contestant {
    arm arm;
    opreg_buf *layouts;
    opreg_weight **prepared;
    int64_t runs; /* a batch                                                                     */
    void *graph;  /* of a batch; null: plain calls                                               */
    void *warm_graph;
    double *us; /* a run, by batch                                                             */
    int64_t turn;
} contestant;

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static opreg_status run_one(bench_set *s, const contestant *c, int64_t copy) {
    opreg_buf bufs[OPREG_MATMUL_BUFS] = {{NULL, 0}};
    opreg_args args = {.struct_size = sizeof args};
    const opreg_weight *weight = c->prepared ? c->prepared[copy] : s->weights[copy];
    bufs[OPREG_MATMUL_Y] = s->y;
    bufs[OPREG_MATMUL_X] = s->x;
    args.bufs = bufs;
    args.num_bufs = OPREG_MATMUL_BUFS;
    args.weights = &weight;
    args.num_weights = 1;
    args.workspace = c->arm.workspace;
    args.stream = s->where->stream;
    return opreg_plan_run(c->arm.plan, &args);
}

/* The next runs of a batch, each on the next copy; same: all on one, which is then warm. */
static opreg_status run_batch(bench_set *s, contestant *c, int same) {
    opreg_status status = OPREG_OK;
    for (int64_t i = 0; i < c->runs && status == OPREG_OK; i++) {
        status = run_one(s, c, same ? 0 : c->turn++ % s->copies);
    }
    return status;
}

/* Time of a batch, by the device's clock where it has one. */
static opreg_status time_batch(bench_set *s, contestant *c, int same, double *us) {
    const device *d = s->where;
    void *from = NULL, *to = NULL;
    opreg_status status = OPREG_OK;
    double start = 0;
    if (d->io->event_create) {
        status = d->io->event_create(d->host, &d->row, &from);
        if (status == OPREG_OK) {
            status = d->io->event_create(d->host, &d->row, &to);
        }
        if (status == OPREG_OK) {
            status = d->io->event_record(d->host, &d->row, from, d->stream);
        }
    } else {
        start = seconds_now();
    }
    if (status == OPREG_OK) {
        void *graph = same ? c->warm_graph : c->graph;
        status =
            graph ? d->io->graph_launch(d->host, &d->row, graph, d->stream) : run_batch(s, c, same);
    }
    if (status == OPREG_OK && from) {
        status = d->io->event_record(d->host, &d->row, to, d->stream);
        if (status == OPREG_OK) {
            status = d->io->event_elapsed_us(d->host, &d->row, from, to, us);
        }
    } else if (status == OPREG_OK) {
        status = d->io->stream_sync(d->host, &d->row, d->stream);
        *us = 1e6 * (seconds_now() - start);
    }
    if (from) {
        d->io->event_destroy(d->host, &d->row, from);
    }
    if (to) {
        d->io->event_destroy(d->host, &d->row, to);
    }
    return status;
}

static opreg_status open_contestant(bench_set *s, const char *kernel, contestant *c) {
    const device *d = s->where;
    opreg_status status = arm_open(d, OPREG_OP_MATMUL_BT_QUANT, &s->problem, kernel, NULL, &c->arm);
    if (status != OPREG_OK || opreg_plan_layout(c->arm.plan) == OPREG_LAYOUT_STORED) {
        return status;
    }
    c->layouts = calloc((size_t)s->copies, sizeof *c->layouts);
    c->prepared = calloc((size_t)s->copies, sizeof *c->prepared);
    for (int64_t i = 0; c->layouts && c->prepared && i < s->copies; i++) {
        c->layouts[i] = device_alloc(d, opreg_plan_layout_bytes(c->arm.plan));
        if (!c->layouts[i].ptr) {
            return OPREG_E_NOMEM;
        }
        status = opreg_weight_prepare(c->arm.plan, s->weights[i], c->layouts[i], d->stream,
                                      &c->prepared[i]);
        if (status != OPREG_OK) {
            return status;
        }
    }
    return c->layouts && c->prepared ? d->io->stream_sync(d->host, &d->row, d->stream)
                                     : OPREG_E_NOMEM;
}

static void close_contestant(bench_set *s, contestant *c) {
    if (c->graph) {
        s->where->io->graph_destroy(s->where->host, &s->where->row, c->graph);
    }
    if (c->warm_graph) {
        s->where->io->graph_destroy(s->where->host, &s->where->row, c->warm_graph);
    }
    for (int64_t i = 0; c->prepared && i < s->copies; i++) {
        opreg_weight_destroy(c->prepared[i]);
    }
    for (int64_t i = 0; c->layouts && i < s->copies; i++) {
        device_free(s->where, &c->layouts[i]);
    }
    free(c->prepared);
    free(c->layouts);
    free(c->us);
    if (c->arm.plan) {
        arm_close(&c->arm);
    }
}

/* NMSE of one run over the first rows of the weight. */
static double error_of(bench_set *s, const contestant *c) {
    static opreg_side plain = {.tensor_scale = 1.0f};
    const opreg_matmul_bt_quant *p = &s->problem;
    truth_entry entries[64];
    truth_input in = {.format = p->b_dtype, .data = s->blocks, .sides = &plain, .k = p->k};
    int64_t m = p->m < 64 ? p->m : 64;
    double nmse = (double)NAN;
    float *y = malloc((size_t)s->y.bytes), *part = NULL;
    truth t = {0};
    in.n = p->n < ERROR_ROWS ? p->n : ERROR_ROWS;
    in.row_bytes = in.expert_stride = s->weight_bytes / (uint64_t)p->n;
    in.x = s->x_host;
    in.x_rows = in.y_rows = in.num_entries = m;
    in.entries = entries;
    in.threads = 1;
    for (int64_t i = 0; i < m; i++) {
        entries[i] = (truth_entry){0, i, i};
    }
    part = malloc((size_t)(m * in.n) * sizeof *part);
    if (y && part && run_one(s, c, 0) == OPREG_OK &&
        device_download(s->where, y, s->y, s->y.bytes) && truth_make(&in, &t)) {
        for (int64_t i = 0; i < m; i++) {
            memcpy(part + i * in.n, y + i * p->n, (size_t)in.n * sizeof *part);
        }
        nmse = truth_compare(&t, part, m, OPREG_LEVEL_CANONICAL).nmse;
        truth_free(&t);
    }
    free(part);
    free(y);
    return nmse;
}

static opreg_status capture_batch(bench_set *s, contestant *c, int same, void **graph) {
    const device *d = s->where;
    opreg_status status = d->io->capture_begin(d->host, &d->row, d->stream), ran;
    if (status != OPREG_OK) {
        return status;
    }
    ran = run_batch(s, c, same);
    status = d->io->capture_end(d->host, &d->row, d->stream, graph);
    return ran != OPREG_OK ? ran : status;
}

/* One call to warm up and to size the batches, then a graph of a batch where the device has them.
 */
static opreg_status prepare_batches(bench_set *s, contestant *c, const opreg_candidate *row,
                                    int batches) {
    const device *d = s->where;
    double us = 0;
    opreg_status status;
    c->runs = 1;
    status = time_batch(s, c, 0, &us);
    if (status == OPREG_OK) {
        status = time_batch(s, c, 0, &us);
    }
    if (status != OPREG_OK) {
        return status;
    }
    c->runs = us > BATCH_US ? 1 : (int64_t)(BATCH_US / (us > 0.1 ? us : 0.1)) + 1;
    c->us = calloc((size_t)batches, sizeof *c->us);
    if (c->us && d->io->capture_begin && (row->kernel_flags & OPREG_KF_GRAPH_SAFE) != 0) {
        status = capture_batch(s, c, 0, &c->graph);
        if (status == OPREG_OK) {
            status = capture_batch(s, c, 1, &c->warm_graph);
        }
    }
    return c->us ? status : OPREG_E_NOMEM;
}

static void finish_row(bench_set *s, contestant *c, bench_row *row, int batches, double bandwidth) {
    double warm = (double)NAN;
    qsort(c->us, (size_t)batches, sizeof *c->us, by_value);
    row->us = c->us[batches / 2];
    row->spread = (c->us[batches * 9 / 10] - c->us[batches / 10]) / 2;
    if (time_batch(s, c, 1, &warm) == OPREG_OK && time_batch(s, c, 1, &warm) == OPREG_OK) {
        row->warm_us = warm / (double)c->runs;
    }
    row->gbps = 1e-3 * (double)s->moved_bytes / row->us;
    row->floor_us = bandwidth > 0 ? 1e6 * (double)s->moved_bytes / bandwidth : 0;
    row->nmse = error_of(s, c);
}

void bench_measure(bench_set *s, bench_row *rows, size_t count, int batches, double bandwidth) {
    contestant *all = calloc(count ? count : 1, sizeof *all);
    double baseline = 0;
    for (size_t i = 0; i < count; i++) {
        opreg_status status = all ? open_contestant(s, rows[i].kernel, &all[i]) : OPREG_E_NOMEM;
        if (status == OPREG_OK) {
            status = prepare_batches(s, &all[i], rows[i].candidate, batches);
        }
        if (status != OPREG_OK) {
            snprintf(rows[i].failed, sizeof rows[i].failed, "%s", opreg_last_error());
        }
    }
    for (int b = 0; all && b < batches; b++) {
        for (size_t i = 0; i < count; i++) {
            double us = 0;
            if (rows[i].failed[0]) {
                continue;
            }
            if (time_batch(s, &all[i], 0, &us) != OPREG_OK) {
                snprintf(rows[i].failed, sizeof rows[i].failed, "%s", opreg_last_error());
            }
            all[i].us[b] = us / (double)all[i].runs;
        }
    }
    for (size_t i = 0; all && i < count; i++) {
        if (!rows[i].failed[0]) {
            finish_row(s, &all[i], &rows[i], batches, bandwidth);
        }
        if (!rows[i].failed[0] && (rows[i].candidate->kernel_flags & OPREG_KF_BASELINE) != 0) {
            baseline = rows[i].us;
        }
    }
    for (size_t i = 0; i < count; i++) {
        rows[i].ratio = baseline > 0 && rows[i].us > 0 ? baseline / rows[i].us : 0;
        if (all) {
            close_contestant(s, &all[i]);
        }
    }
    free(all);
}
