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

struct shadow {
    candidate reference;
    const opreg_kernel *kernel;
    void *state;
    char name[128], text[512];
    outputs outputs;
    uint64_t at[OUTPUTS_MAX], image_bytes; /* of each output, in memory and images                  */
    device_block block;                    /* the reference's outputs, then its workspace           */
    uint8_t *got, *want;                   /* host images of the outputs                            */
    difference pending;                    /* of INT and BAND variants, not judged yet              */
};

const char *shadow_reference_name(const shadow *s) { return s->name; }

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

static opreg_status set_up(const opreg_plan *plan, shadow *s) {
    uint32_t mark;
    opreg_status status = outputs_open(plan->op, &plan->problem, &s->outputs);
    if (status != OPREG_OK) {
        return status;
    }
    for (uint32_t i = 0; i < s->outputs.count; i++) {
        s->at[i] = s->image_bytes;
        s->image_bytes += round_up(s->outputs.rows[i].bytes);
    }
    s->got = calloc(1, (size_t)s->image_bytes);
    s->want = calloc(1, (size_t)s->image_bytes);
    if (s->got == NULL || s->want == NULL) {
        return fail(OPREG_E_NOMEM, "no memory to shadow %s", plan->name);
    }
    status = block_open(plan, s->image_bytes + s->reference.workspace, &s->block);
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

opreg_status shadow_reference(const opreg_plan *plan, shadow *s, const opreg_call *call) {
    const opreg_device_io *io = &plan->entry->io;
    opreg_buf bufs[PROBLEM_MAX_BUFS];
    opreg_call inside = *call;
    uint32_t mark;
    opreg_status status;
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
    if (status == OPREG_OK) {
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

static void keep(difference *sum, const difference *d) {
    if (sum->wrong == 0) {
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
    double limit = outputs_band(plan->op, &plan->problem), most;
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

opreg_status shadow_compare(const opreg_plan *plan, shadow *s, const opreg_call *call,
                            const char **text) {
    difference d = {0};
    uint32_t mark = error_mark();
    for (uint32_t i = 0; i < s->outputs.count; i++) {
        const output *o = &s->outputs.rows[i];
        opreg_status status =
            plan->entry->io.to_host(plan->host, plan->dev, s->got + s->at[i],
                                    call->bufs[o->index].ptr, o->bytes, call->stream);
        if (status != OPREG_OK) {
            return watch_failed(plan, status, mark, "copy the outputs");
        }
        outputs_compare(&s->outputs, i, s->got + s->at[i], s->want + s->at[i], &d);
    }
    *text = NULL;
    if (plan->kernel->level == OPREG_LEVEL_CANONICAL || is_integers(plan->op)) {
        if (d.wrong > 0) {
            describe(s, &d, 0);
            *text = s->text;
        }
    } else if (misses_band(plan, s, &d)) {
        *text = s->text;
    }
    return OPREG_OK;
}
