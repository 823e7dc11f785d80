/* SPDX-License-Identifier: MIT
 * guard.c - runs a plan between bands of known bytes, and says which byte of which buffer is wrong.
 *
 * A run goes into copies of its outputs and workspace that the registry owns, so that nothing around
 * the caller's memory is needed and what lies between its rows survives.  It is made twice, over two
 * fills: a byte that has the fill both times was not written, whatever value it should have. */
#include <stdlib.h>
#include <string.h>

#include "error.h"
#include "watch.h"

#define GUARD_ALIGN 256u
#define BAND_LEAST  4096u
#define BAND_MOST   (1u << 20)
#define WORKSPACE   UINT32_MAX
#define INPUT_MOST  (1u << 20) /* larger ones are caches: not watched                               */

static const uint8_t fills[2] = {0xff, 0x5a}; /* the first is NaN in every float type              */

/* One guarded copy: a band, a place for the caller's alignment, the bytes, a band. */
typedef struct part {
    uint64_t at, bytes; /* in the arena, of the place; the bytes begin at + shift                   */
    uint64_t band;      /* at least, on each side                                                   */
    uint64_t shift;     /* of this run                                                              */
    const char *name;
    uint32_t buffer; /* its index, or WORKSPACE                                                     */
    uint32_t reserved;
} part;

struct guard {
    outputs outputs;
    device_block arena;
    uint64_t arena_bytes;
    part parts[OUTPUTS_MAX + 1];       /* the workspace last                                        */
    uint32_t count;
    int has_workspace;
    uint8_t *images[2];                /* of the arena after each run                               */
    /* inputs of at most INPUT_MOST bytes, before and after the first run */
    problem_buffer buffers[PROBLEM_MAX_BUFS];
    uint32_t num_buffers;
    uint64_t input_bytes;
    uint8_t *inputs[2];
};

static uint64_t round_up(uint64_t bytes) {
    return (bytes + GUARD_ALIGN - 1) / GUARD_ALIGN * GUARD_ALIGN;
}

/* A band that a whole row too many falls into. */
static uint64_t band_of(const output *o) {
    uint64_t row = (uint64_t)o->stride * o->element;
    return round_up(BAND_LEAST + (row < BAND_MOST ? row : BAND_MOST));
}

static void add_part(guard *g, const char *name, uint32_t buffer, uint64_t bytes, uint64_t band) {
    part *p = &g->parts[g->count++];
    p->name = name;
    p->buffer = buffer;
    p->bytes = bytes;
    p->band = band;
    p->at = g->arena_bytes + band;
    g->arena_bytes = p->at + GUARD_ALIGN + round_up(bytes) + band;
}

static int is_watched_input(const problem_buffer *buffer) {
    return !buffer->output && buffer->use != BUFFER_UNUSED && buffer->bytes > 0 &&
           buffer->bytes <= INPUT_MOST;
}

opreg_status guard_open(const opreg_plan *plan, guard **out) {
    guard *g = calloc(1, sizeof *g);
    opreg_status status;
    if (g == NULL) {
        return fail(OPREG_E_NOMEM, "no memory to guard %s", plan->name);
    }
    status = outputs_open(plan->op, &plan->problem, &g->outputs);
    for (uint32_t i = 0; status == OPREG_OK && i < g->outputs.count; i++) {
        const output *o = &g->outputs.rows[i];
        add_part(g, o->name, o->index, o->bytes, band_of(o));
    }
    if (status == OPREG_OK && plan->workspace > 0) {
        g->has_workspace = 1;
        add_part(g, "workspace", WORKSPACE, plan->workspace, BAND_LEAST);
    }
    g->num_buffers = problem_buffers(plan->op, &plan->problem, g->buffers);
    for (uint32_t i = 0; i < g->num_buffers; i++) {
        g->input_bytes += is_watched_input(&g->buffers[i]) ? g->buffers[i].bytes : 0;
    }
    for (int i = 0; status == OPREG_OK && i < 2; i++) {
        g->images[i] = malloc((size_t)g->arena_bytes);
        g->inputs[i] = malloc((size_t)g->input_bytes + 1);
        if (g->images[i] == NULL || g->inputs[i] == NULL) {
            status = fail(OPREG_E_NOMEM, "no memory to guard %s", plan->name);
        }
    }
    if (status == OPREG_OK) {
        status = block_open(plan, g->arena_bytes, &g->arena);
    }
    if (status != OPREG_OK) {
        guard_close(plan, g);
        return status;
    }
    *out = g;
    return OPREG_OK;
}

void guard_close(const opreg_plan *plan, guard *g) {
    block_close(plan, &g->arena);
    free(g->images[0]);
    free(g->images[1]);
    free(g->inputs[0]);
    free(g->inputs[1]);
    outputs_close(&g->outputs);
    free(g);
}

/* ---- one run over one fill ------------------------------------------------------------------ */

/* Brings everything but the inside of the workspace to the host. */
static opreg_status fetch_image(const opreg_plan *plan, guard *g, uint8_t *image, void *stream) {
    const opreg_device_io *io = &plan->entry->io;
    const part *last = &g->parts[g->count - 1];
    uint64_t until = g->has_workspace ? last->at : g->arena_bytes, from = last->at + last->bytes;
    uint32_t mark = error_mark();
    opreg_status status = io->to_host(plan->host, plan->dev, image, g->arena.base, until, stream);
    if (status == OPREG_OK && g->has_workspace) {
        status = io->to_host(plan->host, plan->dev, image + from, g->arena.base + from,
                             g->arena_bytes - from, stream);
    }
    return status == OPREG_OK ? OPREG_OK : watch_failed(plan, status, mark, "copy a guarded run");
}

static opreg_status run_filled(const opreg_plan *plan, guard *g, const opreg_call *call, int which) {
    opreg_buf bufs[PROBLEM_MAX_BUFS];
    opreg_call inside = *call;
    uint32_t mark = error_mark();
    opreg_status status = plan->entry->io.fill(plan->host, plan->dev, g->arena.base, fills[which],
                                               g->arena_bytes, call->stream);
    if (status != OPREG_OK) {
        return watch_failed(plan, status, mark, "fill guarded memory");
    }
    memcpy(bufs, call->bufs, call->num_bufs * sizeof *bufs);
    for (uint32_t i = 0; i < g->outputs.count; i++) {
        const part *p = &g->parts[i];
        bufs[p->buffer] = (opreg_buf){g->arena.base + p->at + p->shift, p->bytes};
    }
    inside.bufs = bufs;
    if (g->has_workspace) {
        const part *p = &g->parts[g->count - 1];
        inside.workspace = (opreg_buf){g->arena.base + p->at, p->bytes};
    }
    status = plan_run_kernel(plan, &inside);
    return status == OPREG_OK ? fetch_image(plan, g, g->images[which], call->stream) : status;
}

/* ---- inputs --------------------------------------------------------------------------------- */

static opreg_status fetch_inputs(const opreg_plan *plan, guard *g, const opreg_call *call,
                                 int which) {
    uint8_t *to = g->inputs[which];
    uint32_t mark = error_mark();
    for (uint32_t i = 0; i < g->num_buffers; i++) {
        opreg_status status = OPREG_OK;
        if (is_watched_input(&g->buffers[i]) && call->bufs[i].ptr != NULL) {
            status = plan->entry->io.to_host(plan->host, plan->dev, to, call->bufs[i].ptr,
                                             g->buffers[i].bytes, call->stream);
            to += g->buffers[i].bytes;
        }
        if (status != OPREG_OK) {
            return watch_failed(plan, status, mark, "copy the inputs of a guarded run");
        }
    }
    return OPREG_OK;
}

static opreg_status check_inputs(const opreg_plan *plan, const guard *g, const opreg_call *call) {
    const uint8_t *before = g->inputs[0], *after = g->inputs[1];
    for (uint32_t i = 0; i < g->num_buffers; i++) {
        if (!is_watched_input(&g->buffers[i]) || call->bufs[i].ptr == NULL) {
            continue;
        }
        for (uint64_t b = 0; b < g->buffers[i].bytes; b++) {
            if (before[b] != after[b]) {
                return fail(OPREG_E_CHECK, "guard: %s changed byte %llu of buffer %u (%s), its input",
                            plan->name, (unsigned long long)b, i, g->buffers[i].name);
            }
        }
        before += g->buffers[i].bytes;
        after += g->buffers[i].bytes;
    }
    return OPREG_OK;
}

/* ---- checks --------------------------------------------------------------------------------- */

static opreg_status overwritten(const opreg_plan *plan, const part *p, int64_t at,
                                const char *where) {
    return p->buffer == WORKSPACE
               ? fail(OPREG_E_CHECK, "guard: %s wrote byte %lld of its workspace, which has %llu",
                      plan->name, (long long)at, (unsigned long long)p->bytes)
               : fail(OPREG_E_CHECK, "guard: %s wrote byte %lld of buffer %u (%s), %s", plan->name,
                      (long long)at, p->buffer, p->name, where);
}

static opreg_status check_bands(const opreg_plan *plan, const guard *g, int which) {
    for (uint32_t i = 0; i < g->count; i++) {
        const part *p = &g->parts[i];
        const uint8_t *bytes = g->images[which] + p->at + p->shift;
        int64_t before = (int64_t)(p->band + p->shift);
        int64_t after = (int64_t)(p->band + round_up(p->bytes) - p->bytes + GUARD_ALIGN - p->shift);
        for (int64_t b = 1; b <= before; b++) {
            if (bytes[-b] != fills[which]) {
                return overwritten(plan, p, -b, "before its start");
            }
        }
        for (int64_t b = 0; b < after; b++) {
            if (bytes[p->bytes + (uint64_t)b] != fills[which]) {
                return overwritten(plan, p, (int64_t)p->bytes + b, "past its end");
            }
        }
    }
    return OPREG_OK;
}

/* What lies between the rows of an output is the caller's. */
static opreg_status check_gaps(const opreg_plan *plan, const guard *g, uint32_t i, int which) {
    const output *o = &g->outputs.rows[i];
    const part *p = &g->parts[i];
    const uint8_t *bytes = g->images[which] + p->at + p->shift;
    for (int64_t row = 0; row + 1 < o->rows; row++) {
        uint64_t from = (uint64_t)(row * o->stride + o->length) * o->element;
        uint64_t until = (uint64_t)((row + 1) * o->stride) * o->element;
        for (uint64_t b = from; b < until; b++) {
            if (bytes[b] != fills[which]) {
                return overwritten(plan, p, (int64_t)b, "which lies between two rows");
            }
        }
    }
    return OPREG_OK;
}

static int is_fill(const uint8_t *bytes, uint32_t count, uint8_t fill) {
    for (uint32_t i = 0; i < count; i++) {
        if (bytes[i] != fill) {
            return 0;
        }
    }
    return 1;
}

static opreg_status check_written(const opreg_plan *plan, const guard *g, uint32_t i) {
    const output *o = &g->outputs.rows[i];
    const uint64_t base = g->parts[i].at + g->parts[i].shift;
    uint64_t missing = 0, of = 0;
    int64_t first_row = 0, first_column = 0;
    for (int64_t row = 0; row < o->rows; row++) {
        for (int64_t column = 0; o->owed[row] != 0 && column < o->length; column++) {
            uint64_t at = base + (uint64_t)(row * o->stride + column) * o->element;
            of++;
            if (is_fill(g->images[0] + at, o->element, fills[0]) &&
                is_fill(g->images[1] + at, o->element, fills[1])) {
                first_row = missing == 0 ? row : first_row;
                first_column = missing == 0 ? column : first_column;
                missing++;
            }
        }
    }
    return missing == 0
               ? OPREG_OK
               : fail(OPREG_E_CHECK,
                      "guard: %s did not write %llu of %llu elements of buffer %u (%s), the first "
                      "at byte %lld: row %lld, column %lld",
                      plan->name, (unsigned long long)missing, (unsigned long long)of, o->index,
                      o->name, (long long)((first_row * o->stride + first_column) * o->element),
                      (long long)first_row, (long long)first_column);
}

/* Two runs of a deterministic variant over one input are the same, whatever was there before. */
static opreg_status check_same(const opreg_plan *plan, const guard *g) {
    difference d = {0};
    const output *o;
    if ((plan->kernel->flags & OPREG_KF_DETERMINISTIC) == 0) {
        return OPREG_OK;
    }
    for (uint32_t i = 0; i < g->outputs.count; i++) {
        uint64_t at = g->parts[i].at + g->parts[i].shift;
        outputs_compare(&g->outputs, i, g->images[0] + at, g->images[1] + at, &d);
    }
    if (d.wrong == 0) {
        return OPREG_OK;
    }
    o = &g->outputs.rows[d.output];
    return fail(OPREG_E_CHECK,
                "guard: two runs of %s differ in %llu of %llu elements, first in buffer %u (%s) at "
                "byte %lld: row %lld, column %lld: it reads what was in its outputs or workspace, "
                "changes its inputs, or is not deterministic",
                plan->name, (unsigned long long)d.wrong, (unsigned long long)d.checked, o->index,
                o->name, (long long)((d.row * o->stride + d.column) * o->element), (long long)d.row,
                (long long)d.column);
}

static opreg_status check(const opreg_plan *plan, guard *g) {
    opreg_status status = OPREG_OK;
    for (int which = 0; which < 2 && status == OPREG_OK; which++) {
        status = check_bands(plan, g, which);
        for (uint32_t i = 0; status == OPREG_OK && i < g->outputs.count; i++) {
            status = check_gaps(plan, g, i, which);
        }
    }
    for (uint32_t i = 0; status == OPREG_OK && i < g->outputs.count; i++) {
        status = check_written(plan, g, i);
    }
    return status == OPREG_OK ? check_same(plan, g) : status;
}

/* ---- the way out ---------------------------------------------------------------------------- */

/* The rows that were owed, to the caller: the rest of its memory is not touched. */
static opreg_status give_output(const opreg_plan *plan, const guard *g, uint32_t i,
                                const opreg_call *call) {
    const opreg_device_io *io = &plan->entry->io;
    const output *o = &g->outputs.rows[i];
    const uint8_t *from = g->arena.base + g->parts[i].at + g->parts[i].shift;
    uint8_t *to = call->bufs[o->index].ptr;
    opreg_status status = OPREG_OK;
    for (int64_t row = 0; status == OPREG_OK && row < o->rows;) {
        int64_t last = row + 1;
        uint64_t at = (uint64_t)(row * o->stride) * o->element, bytes;
        if (o->owed[row] == 0) {
            row++;
            continue;
        }
        while (o->stride == o->length && last < o->rows && o->owed[last] != 0) {
            last++; /* rows that touch are one copy */
        }
        bytes = (uint64_t)((last - row - 1) * o->stride + o->length) * o->element;
        status = io->copy(plan->host, plan->dev, to + at, from + at, bytes, call->stream);
        row = last;
    }
    return status;
}

static opreg_status give_outputs(const opreg_plan *plan, const guard *g, const opreg_call *call) {
    uint32_t mark = error_mark();
    opreg_status status = OPREG_OK;
    for (uint32_t i = 0; status == OPREG_OK && i < g->outputs.count; i++) {
        status = give_output(plan, g, i, call);
    }
    if (status == OPREG_OK) { /* the next run may come on another stream */
        status = plan->entry->io.stream_sync(plan->host, plan->dev, call->stream);
    }
    return status == OPREG_OK ? OPREG_OK : watch_failed(plan, status, mark, "copy guarded outputs");
}

/* The route that says which rows are owed: an input, or what moe_route wrote. */
static opreg_status fetch_route(const opreg_plan *plan, guard *g, const opreg_call *call) {
    uint32_t mark = error_mark();
    opreg_status status = OPREG_OK;
    if (g->outputs.route == NULL) {
        return OPREG_OK;
    }
    if (plan->op == OPREG_OP_MOE_ROUTE) {
        memcpy(g->outputs.route, g->images[0] + g->parts[0].at + g->parts[0].shift,
               (size_t)g->outputs.route_bytes);
    } else {
        status = plan->entry->io.to_host(plan->host, plan->dev, g->outputs.route,
                                         call->bufs[OPREG_MOE_ROUTE_BUF].ptr,
                                         g->outputs.route_bytes, call->stream);
    }
    if (status != OPREG_OK) {
        return watch_failed(plan, status, mark, "copy a route");
    }
    outputs_owe(&g->outputs);
    return OPREG_OK;
}

opreg_status guard_run(const opreg_plan *plan, guard *g, const opreg_call *call,
                       uint64_t *extra_ns) {
    uint64_t begin = watch_now(), start, before;
    opreg_status status = fetch_inputs(plan, g, call, 0);
    if (status != OPREG_OK) {
        return status;
    }
    before = watch_now() - begin;
    for (uint32_t i = 0; i < g->outputs.count; i++) {
        part *p = &g->parts[i]; /* as far from 256 as the caller's own */
        p->shift = (uintptr_t)call->bufs[p->buffer].ptr % GUARD_ALIGN;
    }
    status = run_filled(plan, g, call, 0);
    start = watch_now();
    if (status == OPREG_OK) {
        status = fetch_inputs(plan, g, call, 1);
    }
    if (status == OPREG_OK) {
        status = check_inputs(plan, g, call);
    }
    if (status == OPREG_OK) {
        status = run_filled(plan, g, call, 1);
    }
    if (status == OPREG_OK) {
        status = fetch_route(plan, g, call);
    }
    if (status == OPREG_OK) {
        status = check(plan, g);
    }
    if (status == OPREG_OK) {
        status = give_outputs(plan, g, call);
    }
    *extra_ns = watch_now() - start + before;
    return status;
}
