/* SPDX-License-Identifier: MIT
 * shadow.c - runs the baseline of the plan's plugin beside a sampled run, and compares the two. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"
#include "watch.h"

/* Fewer outputs say nothing about a band: they are kept until there are as many. */
#define BAND_OUTPUTS 256u

/* The comparison's records on the device: of one run, and of all captured ones. */
#define PARTS_BYTES (OPREG_DIFFERENCE_PARTS * sizeof(opreg_difference))

struct shadow {
    candidate reference;
    const opreg_kernel *kernel;
    const opreg_device_steps *steps; /* null: compared on the host                                  */
    void *state;
    char name[128], text[512];
    outputs outputs;
    uint64_t at[OUTPUTS_MAX], image_bytes; /* of each output, in memory and images                  */
    device_block block; /* the reference's outputs, its workspace, the records of runs and captures */
    opreg_difference *run_parts, *captured_parts; /* in the block                                   */
    int captured;
    uint32_t reserved;
    uint8_t *got, *want; /* host images of the outputs; null where the device compares              */
    difference pending;  /* of INT and BAND variants, not judged yet                                */
};

const char *shadow_reference_name(const shadow *s) { return s->name; }

int shadow_stays_on_device(const shadow *s) { return s->steps != NULL; }

static uint64_t round_up(uint64_t bytes) { return (bytes + 255u) / 256u * 256u; }

/* The baseline of the plan's plugin that takes its problem; 0 when there is none. */
static int find_reference(const opreg_plan *plan, candidate *out) {
    plugin_entry *entry = plan->entry;
    for (size_t k = 0; k < entry->table.num_kernels; k++) {
        if (entry->kernels[k].op == (uint32_t)plan->op &&
            (entry->kernels[k].flags & OPREG_KF_BASELINE) != 0 &&
            select_judge(entry, k, plan->dev, plan->op, &plan->problem, out) == OPREG_OK) {
            return 1;
        }
    }
    return 0;
}

/* The reference's outputs lie one behind the other, then everything else. */
static opreg_status take_memory(const opreg_plan *plan, shadow *s) {
    const opreg_device_io *io = &plan->entry->io;
    uint64_t parts_at;
    uint32_t mark;
    opreg_status status;
    for (uint32_t i = 0; i < s->outputs.count; i++) {
        s->at[i] = s->image_bytes;
        s->image_bytes += round_up(s->outputs.rows[i].bytes);
    }
    if (s->steps == NULL) {
        s->got = calloc(1, (size_t)s->image_bytes);
        s->want = calloc(1, (size_t)s->image_bytes);
        if (s->got == NULL || s->want == NULL) {
            return fail(OPREG_E_NOMEM, "no memory to shadow %s", plan->name);
        }
    }
    parts_at = s->image_bytes + round_up(s->reference.workspace);
    status = block_open(plan, parts_at + 2 * PARTS_BYTES, &s->block);
    if (status != OPREG_OK) {
        return status;
    }
    s->run_parts = (opreg_difference *)(void *)(s->block.base + parts_at);
    s->captured_parts = s->run_parts + OPREG_DIFFERENCE_PARTS;
    mark = error_mark();
    status = io->fill(plan->host, plan->dev, s->captured_parts, 0, PARTS_BYTES, NULL);
    status = status == OPREG_OK ? io->stream_sync(plan->host, plan->dev, NULL) : status;
    return status == OPREG_OK ? OPREG_OK : watch_failed(plan, status, mark, "fill memory");
}

static opreg_status set_up(const opreg_plan *plan, shadow *s) {
    uint32_t mark;
    opreg_status status = outputs_open(plan->op, &plan->problem, &s->outputs);
    if (status == OPREG_OK) {
        status = take_memory(plan, s);
    }
    mark = error_mark();
    if (status == OPREG_OK && s->kernel->prepare != NULL) {
        status = s->kernel->prepare(plan->host, plan->dev, &plan->problem, &s->state);
        status = status == OPREG_OK ? OPREG_OK
                                    : watch_failed(plan, status, mark, "prepare the reference");
    }
    return status;
}

opreg_status shadow_open(const opreg_plan *plan, shadow **out) {
    candidate reference;
    shadow *s;
    opreg_status status;
    if ((plan->kernel->flags & OPREG_KF_BASELINE) != 0) {
        return OPREG_OK;
    }
    if (!find_reference(plan, &reference)) {
        registry_log(plan->reg, OPREG_LOG_WARN,
                     "shadow: no baseline of plugin %s takes the problem of %s: it is not compared",
                     plan->entry->name, plan->name);
        return OPREG_OK;
    }
    s = calloc(1, sizeof *s);
    if (s == NULL) {
        return fail(OPREG_E_NOMEM, "no memory to shadow %s", plan->name);
    }
    if (plan->entry->table.steps != NULL && plan->op != OPREG_OP_MOE_ROUTE) {
        s->steps = &plan->entry->steps; /* of a route, only the host knows which words are owed */
    }
    s->reference = reference;
    s->kernel = &reference.entry->kernels[reference.kernel];
    candidate_name(&reference, s->name, sizeof s->name);
    status = set_up(plan, s);
    if (status != OPREG_OK) {
        shadow_close(plan, s);
        return status;
    }
    *out = s;
    return OPREG_OK;
}

void shadow_close(const opreg_plan *plan, shadow *s) {
    if (s->kernel->release != NULL && s->state != NULL) {
        s->kernel->release(s->state);
    }
    block_close(plan, &s->block);
    free(s->got);
    free(s->want);
    outputs_close(&s->outputs);
    free(s);
}

/* ---- a sampled run -------------------------------------------------------------------------- */

static opreg_status run_reference(const opreg_plan *plan, shadow *s, const opreg_call *inside) {
    uint32_t before = 0, mark = error_mark();
    opreg_status status;
    if (plan->kind == OPREG_CPU) {
        before = float_enter();
    }
    status = s->kernel->run(s->state, &plan->problem, inside);
    if (plan->kind == OPREG_CPU) {
        float_leave(before);
    }
    if (status != OPREG_OK && error_since(mark)[0] == '\0') {
        fail(status, "shadow: the reference %s failed: %s", s->name, opreg_status_name(status));
    }
    return status;
}

/* The route that says which rows count: an input, or what the reference wrote. */
static opreg_status fetch_route(const opreg_plan *plan, shadow *s, const opreg_call *call) {
    opreg_status status = OPREG_OK;
    if (s->outputs.route == NULL) {
        return OPREG_OK;
    }
    if (plan->op == OPREG_OP_MOE_ROUTE) {
        memcpy(s->outputs.route, s->want, (size_t)s->outputs.route_bytes);
    } else {
        status = plan->entry->io.to_host(plan->host, plan->dev, s->outputs.route,
                                         call->bufs[OPREG_MOE_ROUTE_BUF].ptr,
                                         s->outputs.route_bytes, call->stream);
    }
    outputs_owe(&s->outputs);
    return status;
}

/* The caller's outputs as they are, so that rows which no run writes are equal afterwards. */
static opreg_status copy_outputs(const opreg_plan *plan, shadow *s, const opreg_call *call) {
    opreg_status status = OPREG_OK;
    for (uint32_t i = 0; i < s->outputs.count && status == OPREG_OK; i++) {
        const output *o = &s->outputs.rows[i];
        status = plan->entry->io.copy(plan->host, plan->dev, s->block.base + s->at[i],
                                      call->bufs[o->index].ptr, o->bytes, call->stream);
    }
    return status;
}

opreg_status shadow_reference(const opreg_plan *plan, shadow *s, const opreg_call *call) {
    const opreg_device_io *io = &plan->entry->io;
    opreg_buf bufs[PROBLEM_MAX_BUFS];
    opreg_call inside = *call;
    uint32_t mark = error_mark();
    opreg_status status = OPREG_OK;
    if (s->steps != NULL && s->outputs.route != NULL) {
        status = copy_outputs(plan, s, call);
    }
    if (status != OPREG_OK) {
        return watch_failed(plan, status, mark, "copy the outputs");
    }
    memcpy(bufs, call->bufs, call->num_bufs * sizeof *bufs);
    for (uint32_t i = 0; i < s->outputs.count; i++) {
        bufs[s->outputs.rows[i].index] =
            (opreg_buf){s->block.base + s->at[i], s->outputs.rows[i].bytes};
    }
    inside.bufs = bufs;
    inside.workspace = s->reference.workspace > 0
                           ? (opreg_buf){s->block.base + s->image_bytes, s->reference.workspace}
                           : (opreg_buf){NULL, 0};
    status = run_reference(plan, s, &inside);
    mark = error_mark();
    if (status == OPREG_OK && s->steps == NULL) {
        status = io->to_host(plan->host, plan->dev, s->want, s->block.base, s->image_bytes,
                             call->stream);
        status = status == OPREG_OK ? fetch_route(plan, s, call) : status;
        status = status == OPREG_OK ? OPREG_OK : watch_failed(plan, status, mark, "copy the reference");
    }
    return status;
}

static void describe(shadow *s, const difference *d, double limit) {
    const output *o = &s->outputs.rows[d->output];
    char band[96] = "";
    if (limit > 0) {
        snprintf(band, sizeof band, ", at most %.3g is admitted", limit);
    }
    snprintf(s->text, sizeof s->text,
             "buffer %u (%s) row %lld column %lld is 0x%0*x, the reference has 0x%0*x; %llu of %llu "
             "elements differ, largest error %.3g, NMSE %.3g%s",
             o->index, o->name, (long long)d->row, (long long)d->column, (int)o->element * 2, d->got,
             (int)o->element * 2, d->want, (unsigned long long)d->wrong,
             (unsigned long long)d->checked, d->largest,
             d->energy > 0 ? d->error / d->energy : d->error > 0 ? (double)INFINITY : 0.0, band);
}

/* 1 when a's first wrong element is before b's. */
static int is_before(const difference *a, const difference *b) {
    return a->output != b->output ? a->output < b->output
           : a->row != b->row     ? a->row < b->row
                                  : a->column < b->column;
}

static void keep(difference *sum, const difference *d) {
    if (d->wrong > 0 && (sum->wrong == 0 || is_before(d, sum))) {
        sum->output = d->output;
        sum->got = d->got;
        sum->want = d->want;
        sum->row = d->row;
        sum->column = d->column;
    }
    sum->checked += d->checked;
    sum->wrong += d->wrong;
    sum->largest = fmax(sum->largest, d->largest);
    sum->error += d->error;
    sum->energy += d->energy;
    sum->store += d->store;
}

/* 1 when the band is missed: by this run alone, or by it and those before where they are small. */
static int misses_band(const opreg_plan *plan, shadow *s, const difference *d) {
    double limit = outputs_band(plan->kernel, &plan->problem), most;
    int missed;
    keep(&s->pending, d);
    if (s->pending.checked < BAND_OUTPUTS && isfinite(s->pending.error)) {
        return 0;
    }
    most = sqrt(limit * s->pending.energy) + 2 * sqrt(s->pending.store);
    missed = !(sqrt(s->pending.error) <= most);
    if (missed) {
        describe(s, &s->pending,
                 s->pending.energy > 0 ? most * most / s->pending.energy : limit);
    }
    memset(&s->pending, 0, sizeof s->pending);
    return missed;
}

static int is_integers(opreg_op op) {
    return op == OPREG_OP_QUANTIZE_ACT || op == OPREG_OP_MOE_ROUTE;
}

/* Sets *text where the results differ more than the variant promises. */
static void judge(const opreg_plan *plan, shadow *s, const difference *d, const char **text) {
    *text = NULL;
    if (plan->kernel->level == OPREG_LEVEL_CANONICAL || is_integers(plan->op)) {
        if (d->wrong > 0) {
            describe(s, d, 0);
            *text = s->text;
        }
    } else if (misses_band(plan, s, d)) {
        *text = s->text;
    }
}

static opreg_status enqueue_comparison(const opreg_plan *plan, shadow *s, const opreg_call *call,
                                       opreg_difference *parts) {
    opreg_status status = OPREG_OK;
    for (uint32_t i = 0; i < s->outputs.count && status == OPREG_OK; i++) {
        const output *o = &s->outputs.rows[i];
        const opreg_step_compare args = {.struct_size = sizeof args,
                                         .dtype = o->dtype,
                                         .element = o->element,
                                         .output = i,
                                         .rows = o->rows,
                                         .length = o->length,
                                         .stride = o->stride,
                                         .got = call->bufs[o->index].ptr,
                                         .want = s->block.base + s->at[i],
                                         .parts = parts};
        status = s->steps->compare(plan->host, plan->dev, &args, call->stream);
    }
    return status;
}

/* The sum of a device's records, once the stream has come to them. */
static opreg_status fetch_parts(const opreg_plan *plan, const opreg_difference *parts, void *stream,
                                difference *d) {
    opreg_difference host[OPREG_DIFFERENCE_PARTS];
    opreg_status status =
        plan->entry->io.to_host(plan->host, plan->dev, host, parts, PARTS_BYTES, stream);
    for (uint32_t i = 0; status == OPREG_OK && i < OPREG_DIFFERENCE_PARTS; i++) {
        keep(d, &host[i]);
    }
    return status;
}

static opreg_status compare_on_device(const opreg_plan *plan, shadow *s, const opreg_call *call,
                                      difference *d) {
    opreg_status status = plan->entry->io.fill(plan->host, plan->dev, s->run_parts, 0, PARTS_BYTES,
                                               call->stream);
    if (status == OPREG_OK) {
        status = enqueue_comparison(plan, s, call, s->run_parts);
    }
    return status == OPREG_OK ? fetch_parts(plan, s->run_parts, call->stream, d) : status;
}

static opreg_status compare_on_host(const opreg_plan *plan, shadow *s, const opreg_call *call,
                                    difference *d) {
    opreg_status status = OPREG_OK;
    for (uint32_t i = 0; i < s->outputs.count && status == OPREG_OK; i++) {
        const output *o = &s->outputs.rows[i];
        status = plan->entry->io.to_host(plan->host, plan->dev, s->got + s->at[i],
                                         call->bufs[o->index].ptr, o->bytes, call->stream);
        if (status == OPREG_OK) {
            outputs_compare(&s->outputs, i, s->got + s->at[i], s->want + s->at[i], d);
        }
    }
    return status;
}

opreg_status shadow_compare(const opreg_plan *plan, shadow *s, const opreg_call *call,
                            const char **text) {
    difference d = {0};
    uint32_t mark = error_mark();
    opreg_status status = s->steps != NULL ? compare_on_device(plan, s, call, &d)
                                           : compare_on_host(plan, s, call, &d);
    *text = NULL;
    if (status != OPREG_OK) {
        return watch_failed(plan, status, mark, "compare the outputs");
    }
    judge(plan, s, &d, text);
    return OPREG_OK;
}

opreg_status shadow_compare_later(const opreg_plan *plan, shadow *s, const opreg_call *call) {
    uint32_t mark = error_mark();
    opreg_status status = enqueue_comparison(plan, s, call, s->captured_parts);
    s->captured = 1;
    return status == OPREG_OK ? OPREG_OK : watch_failed(plan, status, mark, "compare the outputs");
}

opreg_status shadow_found(const opreg_plan *plan, shadow *s, const char **text) {
    difference d = {0};
    uint32_t mark = error_mark();
    opreg_status status = OPREG_OK;
    *text = NULL;
    if (s->captured) {
        status = fetch_parts(plan, s->captured_parts, NULL, &d);
    }
    if (status != OPREG_OK) {
        return watch_failed(plan, status, mark, "read what captured runs found");
    }
    judge(plan, s, &d, text);
    return OPREG_OK;
}
