/* SPDX-License-Identifier: MIT
 * bench_measure.c - times of variants: cold weights, batches of all variants in turn, medians. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"

#define BATCH_US     2000.0 /* a batch lasts at least this                                        */
#define MOST_RUNS    50000  /* of one                                                             */
#define WARM_BATCHES 5

/* A variant, with every copy of every weight prepared where it wants another layout. */
typedef struct contestant {
    arm arm;
    opreg_buf layouts;
    opreg_weight **prepared; /* as bench_set's stored                                             */
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

static opreg_status run_one(const bench_set *s, const contestant *c, int64_t turn) {
    opreg_buf bufs[BENCH_BUFS];
    opreg_args args = {.struct_size = sizeof args};
    bench_set_bufs(s, turn, bufs);
    args.bufs = bufs;
    args.num_bufs = problem_op_find(s->what->op)->num_bufs;
    if (s->num_weights > 0) {
        int64_t copy = turn / s->weight_divisor % s->weight_copies;
        args.weights = (const opreg_weight *const *)(c->prepared ? c->prepared : s->stored) +
                       copy * s->num_weights;
        args.num_weights = s->num_weights;
    }
    args.workspace = c->arm.workspace;
    args.stream = s->where->stream;
    return opreg_plan_run(c->arm.plan, &args);
}

/* The next runs of a batch, each a turn on; same: all the first, whose data is then warm. */
static opreg_status run_batch(bench_set *s, contestant *c, int same) {
    opreg_status status = OPREG_OK;
    for (int64_t i = 0; i < c->runs && status == OPREG_OK; i++) {
        status = run_one(s, c, same ? 0 : c->turn++ % s->turns);
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
    int64_t count = s->weight_copies * s->num_weights;
    uint64_t bytes, stride;
    opreg_status status = arm_open(d, s->what->op, &s->what->problem, kernel, NULL, &c->arm);
    if (status != OPREG_OK || count == 0 || opreg_plan_layout(c->arm.plan) == OPREG_LAYOUT_STORED) {
        return status;
    }
    bytes = opreg_plan_layout_bytes(c->arm.plan);
    stride = (bytes + 255) / 256 * 256;
    c->prepared = calloc((size_t)count, sizeof *c->prepared);
    c->layouts = device_alloc(d, stride * (uint64_t)count);
    if (!c->prepared || !c->layouts.ptr) {
        return OPREG_E_NOMEM;
    }
    for (int64_t i = 0; status == OPREG_OK && i < count; i++) {
        opreg_buf to = {(uint8_t *)c->layouts.ptr + (uint64_t)i * stride, bytes};
        status = opreg_weight_prepare(c->arm.plan, s->stored[i], to, d->stream, &c->prepared[i]);
    }
    return status == OPREG_OK ? d->io->stream_sync(d->host, &d->row, d->stream) : status;
}

static void drop_graphs(const device *d, contestant *c) {
    if (c->graph) {
        d->io->graph_destroy(d->host, &d->row, c->graph);
    }
    if (c->warm_graph) {
        d->io->graph_destroy(d->host, &d->row, c->warm_graph);
    }
    c->graph = c->warm_graph = NULL;
}

static void close_contestant(const bench_set *s, contestant *c) {
    drop_graphs(s->where, c);
    for (int64_t i = 0; c->prepared && i < s->weight_copies * s->num_weights; i++) {
        opreg_weight_destroy(c->prepared[i]);
    }
    device_free(s->where, &c->layouts);
    free(c->prepared);
    free(c->us);
    if (c->arm.plan) {
        arm_close(&c->arm);
    }
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

/* As many runs a batch as last for BATCH_US: a few first, since a clock around one tells little. */
static opreg_status size_batches(bench_set *s, contestant *c) {
    double us = 0;
    opreg_status status;
    c->runs = 1;
    status = time_batch(s, c, 0, &us); /* warms up */
    while (status == OPREG_OK) {
        status = time_batch(s, c, 0, &us);
        if (us >= BATCH_US / 8 || c->runs >= MOST_RUNS / 8) {
            break;
        }
        c->runs *= 8;
    }
    if (status == OPREG_OK && us < BATCH_US) {
        c->runs = (int64_t)((double)c->runs * BATCH_US / (us > 0.1 ? us : 0.1)) + 1;
        c->runs = c->runs < MOST_RUNS ? c->runs : MOST_RUNS;
    }
    return status;
}

/* Graphs of a batch.  Replayed, a short run is shorter than its plain call, so a batch may need
 * more of them. */
static opreg_status make_graphs(bench_set *s, contestant *c) {
    double us = 0;
    opreg_status status = capture_batch(s, c, 0, &c->graph);
    for (int i = 0; i < 2 && status == OPREG_OK; i++) {
        status = time_batch(s, c, 0, &us);
    }
    if (status == OPREG_OK && us < 0.9 * BATCH_US && c->runs < MOST_RUNS) {
        c->runs = (int64_t)((double)c->runs * BATCH_US / (us > 1.0 ? us : 1.0)) + 1;
        c->runs = c->runs < MOST_RUNS ? c->runs : MOST_RUNS;
        drop_graphs(s->where, c);
        status = capture_batch(s, c, 0, &c->graph);
    }
    return status == OPREG_OK ? capture_batch(s, c, 1, &c->warm_graph) : status;
}

static opreg_status prepare_batches(bench_set *s, contestant *c, const opreg_candidate *row,
                                    int batches) {
    opreg_status status = size_batches(s, c);
    c->us = calloc((size_t)batches, sizeof *c->us);
    if (!c->us) {
        return OPREG_E_NOMEM;
    }
    if (status == OPREG_OK && s->where->io->capture_begin &&
        (row->kernel_flags & OPREG_KF_GRAPH_SAFE) != 0) {
        status = make_graphs(s, c);
    }
    return status;
}

static double median(double *values, int count) {
    qsort(values, (size_t)count, sizeof *values, by_value);
    return values[count / 2];
}

static void finish_row(bench_set *s, contestant *c, bench_row *row, int batches) {
    double warm[WARM_BATCHES];
    int done = 0;
    row->us = median(c->us, batches);
    row->spread = (c->us[batches * 9 / 10] - c->us[batches / 10]) / 2;
    row->warm_us = (double)NAN;
    if (time_batch(s, c, 1, &warm[0]) == OPREG_OK) {
        while (done < WARM_BATCHES && time_batch(s, c, 1, &warm[done]) == OPREG_OK) {
            done++;
        }
    }
    if (done == WARM_BATCHES) {
        row->warm_us = median(warm, done) / (double)c->runs;
    }
    row->nmse = run_one(s, c, 0) == OPREG_OK ? bench_error(s) : (double)NAN;
}

void bench_measure(bench_set *s, bench_row *rows, size_t count, int batches) {
    contestant *all = calloc(count ? count : 1, sizeof *all);
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
            finish_row(s, &all[i], &rows[i], batches);
        }
        close_contestant(s, &all[i]);
    }
    free(all);
}
