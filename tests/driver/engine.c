/* SPDX-License-Identifier: MIT
 * engine.c - what an engine does on a device, written as a user would. */
#include "engine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_BLOCKS  32
#define MAX_WEIGHTS 3
#define MAX_BUFFERS 12

typedef struct engine {
    opreg_registry *reg;
    const opreg_device *dev;
    const opreg_device_io *io;
    const opreg_host *host;
    void *stream, *graph, *events[2];
    void *blocks[MAX_BLOCKS];
    uint32_t num_blocks;
    opreg_status status; /* of the first failure                                                    */
    char said[512];
} engine;

/* Keeps the first failure.  1: go on. */
static int went_well(engine *e, opreg_status status) {
    if (status != OPREG_OK && e->status == OPREG_OK) {
        e->status = status;
        snprintf(e->said, sizeof e->said, "%s", opreg_last_error());
    }
    return status == OPREG_OK;
}

static void *take(engine *e, uint64_t bytes) {
    void *block = NULL;
    if (e->num_blocks == MAX_BLOCKS ||
        !went_well(e, e->io->alloc(e->host, e->dev, bytes, &block))) {
        return NULL;
    }
    e->blocks[e->num_blocks++] = block;
    if (!went_well(e, e->io->fill(e->host, e->dev, block, 0, bytes, e->stream))) {
        return NULL;
    }
    return block;
}

/* A weight of zeros: its data on the device, its side data from the host. */
static int make_weight(engine *e, uint32_t format, int64_t experts, int64_t n, int64_t k,
                       opreg_weight **out) {
    static const unsigned char side[5] = {0, 0, 0x80, 0x3f, 0}; /* GQH: a scale of 1, grid 0       */
    opreg_format_row row;
    opreg_weight_desc desc = {.struct_size = sizeof desc, .format = format, .experts = experts,
                              .n = n, .k = k};
    row.struct_size = sizeof row;
    if (!went_well(e, opreg_format_by_id(format, &row))) {
        return 0;
    }
    desc.data.bytes = (uint64_t)(experts * n * (k / row.block_values)) * row.block_bytes;
    desc.data.ptr = take(e, desc.data.bytes);
    if (format == OPREG_GQH4) {
        desc.side = side;
        desc.side_bytes = sizeof side;
    }
    return desc.data.ptr != NULL && went_well(e, opreg_weight_create(e->reg, e->dev, &desc, out));
}

static int prepare(engine *e, const opreg_plan *plan, opreg_weight **weight) {
    opreg_weight *prepared = NULL;
    opreg_buf dst = {NULL, opreg_plan_layout_bytes(plan)};
    if (opreg_plan_layout(plan) == OPREG_LAYOUT_STORED) {
        return 1;
    }
    dst.ptr = take(e, dst.bytes);
    if (dst.ptr == NULL ||
        !went_well(e, opreg_weight_prepare(plan, *weight, dst, e->stream, &prepared))) {
        return 0;
    }
    went_well(e, e->io->stream_sync(e->host, e->dev, e->stream));
    opreg_weight_destroy(*weight);
    *weight = prepared;
    return 1;
}

/* What the device says of the stream. */
static int is_capturing(engine *e) {
    int yes = -1;
    went_well(e, e->io->capturing(e->host, e->dev, e->stream, &yes));
    return yes;
}

static void run_in_graph(engine *e, const opreg_plan *plan, const opreg_args *args) {
    double us = -1.0;
    if (e->io->capture_begin == NULL) {
        return; /* the CPU */
    }
    if (!went_well(e, is_capturing(e) == 0 ? OPREG_OK : OPREG_E_CHECK) ||
        !went_well(e, e->io->capture_begin(e->host, e->dev, e->stream))) {
        return;
    }
    went_well(e, is_capturing(e) == 1 ? OPREG_OK : OPREG_E_CHECK);
    went_well(e, opreg_plan_run(plan, args));
    if (!went_well(e, e->io->capture_end(e->host, e->dev, e->stream, &e->graph))) {
        return;
    }
    for (int i = 0; i < 2; i++) {
        if (!went_well(e, e->io->event_create(e->host, e->dev, &e->events[i]))) {
            return;
        }
    }
    if (went_well(e, e->io->event_record(e->host, e->dev, e->events[0], e->stream)) &&
        went_well(e, e->io->graph_launch(e->host, e->dev, e->graph, e->stream)) &&
        went_well(e, e->io->event_record(e->host, e->dev, e->events[1], e->stream))) {
        went_well(e, e->io->event_elapsed_us(e->host, e->dev, e->events[0], e->events[1], &us));
    }
}

typedef struct one_run {
    opreg_op op;
    const char *problem;
    uint32_t num_weights;
    struct {
        uint32_t format;
        int64_t experts, n, k;
    } weights[MAX_WEIGHTS];
} one_run;

static void run(engine *e, const one_run *r, int in_graph) {
    union {
        opreg_matmul_bt_quant matmul;
        opreg_moe_ffn ffn;
        opreg_paged_attn_decode attention;
    } problem;
    opreg_weight *weights[MAX_WEIGHTS] = {NULL};
    opreg_buf bufs[MAX_BUFFERS] = {{NULL, 0}};
    opreg_args args = {.struct_size = sizeof args, .bufs = bufs, .num_weights = r->num_weights,
                       .weights = (const opreg_weight *const *)weights, .stream = e->stream};
    opreg_plan *plan = NULL;
    unsigned char *result = NULL;
    int ready = went_well(e, opreg_problem_parse(r->op, r->problem, &problem)) &&
                went_well(e, opreg_plan_create(e->reg, e->dev, r->op, &problem, &plan));
    for (uint32_t i = 0; ready && i < r->num_weights; i++) {
        ready = make_weight(e, r->weights[i].format, r->weights[i].experts, r->weights[i].n,
                            r->weights[i].k, &weights[i]) &&
                prepare(e, plan, &weights[i]);
    }
    for (uint32_t i = 0; ready && i < MAX_BUFFERS; i++) {
        if (opreg_problem_buffer(r->op, &problem, i, &bufs[i].bytes) != OPREG_OK) {
            break;
        }
        args.num_bufs = i + 1;
        bufs[i].ptr = bufs[i].bytes > 0 ? take(e, bufs[i].bytes) : NULL;
        ready = bufs[i].bytes == 0 || bufs[i].ptr != NULL;
    }
    if (ready && opreg_plan_workspace(plan) > 0) {
        args.workspace.bytes = opreg_plan_workspace(plan);
        args.workspace.ptr = take(e, args.workspace.bytes);
        ready = args.workspace.ptr != NULL;
    }
    if (ready) {
        ready = went_well(e, opreg_plan_run(plan, &args));
        if (ready && in_graph) {
            run_in_graph(e, plan, &args);
        }
        result = malloc(bufs[0].bytes);
        if (result != NULL &&
            went_well(e, e->io->to_host(e->host, e->dev, result, bufs[0].ptr, bufs[0].bytes,
                                        e->stream))) {
            went_well(e, e->io->to_device(e->host, e->dev, bufs[0].ptr, result, bufs[0].bytes,
                                          e->stream));
            went_well(e, e->io->copy(e->host, e->dev, bufs[0].ptr, bufs[0].ptr, bufs[0].bytes,
                                     e->stream));
        }
    }
    went_well(e, e->io->stream_sync(e->host, e->dev, e->stream));
    free(result);
    for (uint32_t i = 0; i < r->num_weights; i++) {
        opreg_weight_destroy(weights[i]);
    }
    opreg_plan_destroy(plan);
}

opreg_status engine_step(opreg_registry *reg, const opreg_device *dev) {
    static const one_run runs[] = {
        {OPREG_OP_MATMUL_BT_QUANT, "m=1 n=64 k=256 b=q4_0", 1, {{OPREG_Q4_0, 1, 64, 256}}},
        {OPREG_OP_MATMUL_BT_QUANT, "m=2 n=32 k=256 b=gqh4", 1, {{OPREG_GQH4, 1, 32, 256}}},
        {OPREG_OP_MOE_FFN, "tokens=2 hidden=256 inter=256 experts=4 top_k=2 b=q4_k down=q6_k glu=silu",
         3, {{OPREG_Q4_K, 4, 256, 256}, {OPREG_Q4_K, 4, 256, 256}, {OPREG_Q6_K, 4, 256, 256}}},
        {OPREG_OP_PAGED_ATTN_DECODE,
         "seqs=1 hq=8 hk=2 d=128 len=512 block=16 blocks=32",          0, {{0, 0, 0, 0}}},
    };
    engine e = {.reg = reg, .dev = dev};
    if (!went_well(&e, opreg_device_io_get(reg, dev, &e.io, &e.host))) {
        return e.status;
    }
    if (went_well(&e, e.io->stream_create(e.host, dev, &e.stream))) {
        for (size_t i = 0; i < sizeof runs / sizeof runs[0]; i++) {
            run(&e, &runs[i], i == 0);
        }
    }
    for (int i = 0; i < 2 && e.io->event_destroy != NULL; i++) {
        e.io->event_destroy(e.host, dev, e.events[i]);
    }
    if (e.io->graph_destroy != NULL) {
        e.io->graph_destroy(e.host, dev, e.graph);
    }
    for (uint32_t i = 0; i < e.num_blocks; i++) {
        e.io->free(e.host, dev, e.blocks[i]);
    }
    e.io->stream_destroy(e.host, dev, e.stream);
    if (e.status != OPREG_OK && e.host != NULL) {
        e.host->error(e.host->ctx, "%s", e.said); /* a release may have said more since */
    }
    return e.status;
}
