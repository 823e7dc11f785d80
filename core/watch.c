/* SPDX-License-Identifier: MIT
 * watch.c - the run of a plan while trace, shadow or guard is on. */
#define _GNU_SOURCE
#include "watch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "error.h"

#define BLOCK_ALIGN 256u

uint64_t watch_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

opreg_status watch_failed(const opreg_plan *plan, opreg_status status, uint32_t mark,
                          const char *what) {
    return error_since(mark)[0] != '\0'
               ? status
               : fail(status, "%s: the device could not %s: %s", plan->name, what,
                      opreg_status_name(status));
}

opreg_status block_open(const opreg_plan *plan, uint64_t bytes, device_block *out) {
    uint32_t mark = error_mark();
    opreg_status status =
        plan->entry->io.alloc(plan->host, plan->dev, bytes + BLOCK_ALIGN, &out->allocation);
    if (status != OPREG_OK) {
        out->allocation = NULL;
        return watch_failed(plan, status, mark, "allocate memory for shadow or guard");
    }
    out->base = (uint8_t *)out->allocation +
                (BLOCK_ALIGN - (uintptr_t)out->allocation % BLOCK_ALIGN) % BLOCK_ALIGN;
    return OPREG_OK;
}

void block_close(const opreg_plan *plan, device_block *block) {
    if (block->allocation != NULL) {
        plan->entry->io.free(plan->host, plan->dev, block->allocation);
        block->allocation = NULL;
    }
}

/* ---- what is said ---------------------------------------------------------------------------- */

/* Once a problem: what differs, and where the file is that reproduces it. */
static void report(const opreg_plan *plan, const char *text, const char *replay) {
    char problem[PROBLEM_TEXT_BYTES], device[64];
    device_text(plan->dev, device, sizeof device);
    problem_text(plan->op, &plan->problem, 1, problem, sizeof problem);
    registry_log(plan->reg, OPREG_LOG_ERROR, "shadow: %s is not %s on %s dev=%s %s: %s; replay: %s",
                 plan->name, shadow_reference_name(plan->watch->shadow), opreg_op_name(plan->op),
                 device, problem, text, replay);
}

/* The same, and leaves that file. */
static void report_run(const opreg_plan *plan, const opreg_args *args, const opreg_call *call,
                       const char *text) {
    char path[600] = "";
    if (plan->watch->dir[0] == '\0') {
        snprintf(path, sizeof path, "none; set OPREG_SHADOW_DIR");
    } else if (replay_write(plan, args, call, plan->watch->dir,
                            shadow_reference_name(plan->watch->shadow), text, path,
                            sizeof path) != OPREG_OK) {
        snprintf(path, sizeof path, "none; %.500s", opreg_last_error());
    }
    report(plan, text, path);
}

static int is_first_report(const opreg_plan *plan) {
    return summary_first_report(&plan->reg->summary, plan->name, plan->op, &plan->problem);
}

/* ---- life ----------------------------------------------------------------------------------- */

/* 1 while the stream is being captured, and the device can tell. */
static int is_capturing(const opreg_plan *plan, void *stream) {
    const opreg_device_io *io = &plan->entry->io;
    int yes = 0;
    return io->capturing != NULL &&
           io->capturing(plan->host, plan->dev, stream, &yes) == OPREG_OK && yes;
}

/* A plan that was asked for graphs, on a device that cannot tell when a stream is being captured: whoever
 * asks so will capture it, and a check that waits would break that. */
static int may_be_captured(const opreg_plan *plan) {
    const problem_op *about = problem_op_find(plan->op);
    uint32_t asked;
    memcpy(&asked, plan->problem.bytes + about->flags_offset, sizeof asked);
    return (asked & OPREG_PF_GRAPH_SAFE) != 0 && plan->entry->io.capturing == NULL;
}

opreg_status watch_open(opreg_plan *plan) {
    opreg_registry *reg = plan->reg;
    uint64_t every;
    int guarded;
    opreg_status status;
    watch *w;
    if (!atomic_load(&reg->watching) || plan->empty) {
        return OPREG_OK;
    }
    status = registry_lock(reg);
    if (status != OPREG_OK) {
        return status;
    }
    w = calloc(1, sizeof *w);
    every = reg->shadow_every;
    guarded = reg->guard_on;
    if (w != NULL) {
        w->strict = reg->strict;
        snprintf(w->dir, sizeof w->dir, "%s", reg->shadow_dir);
    }
    registry_unlock(reg);
    if (w == NULL) {
        return fail(OPREG_E_NOMEM, "no memory to watch %s", plan->name);
    }
    pthread_mutex_init(&w->mutex, NULL);
    w->every = every;
    plan->watch = w;
    if ((every > 0 || guarded) && may_be_captured(plan)) {
        registry_log(reg, OPREG_LOG_WARN,
                     "%s: its problem asks for graph_safe, so it may be captured, %s waits for the "
                     "stream, and this device cannot tell: this plan is not checked",
                     plan->name, every > 0 ? "shadow" : "guard");
        w->opened = 1;
        return OPREG_OK;
    }
    if (every > 0) {
        status = shadow_open(plan, &w->shadow);
    }
    if (status == OPREG_OK && guarded) {
        status = guard_open(plan, &w->guard);
    }
    w->opened = status == OPREG_OK;
    return status; /* what is there is freed with the plan */
}

/* Says what the launches of graphs found, whose inputs are gone. */
static void report_captured(const opreg_plan *plan) {
    watch *w = plan->watch;
    const char *text = NULL;
    if (w->shadow == NULL) {
        return;
    }
    if (shadow_found(plan, w->shadow, &text) != OPREG_OK) {
        registry_log(plan->reg, OPREG_LOG_WARN, "shadow: %s: %s", plan->name, opreg_last_error());
    } else if (text != NULL) {
        w->differing++;
        if (is_first_report(plan)) {
            report(plan, text, "none; the runs were captured in a graph");
        }
    }
}

void watch_close(opreg_plan *plan) {
    watch *w = plan->watch;
    variant_total total = {.asynchronous = plan->kind != OPREG_CPU};
    if (w == NULL) {
        return;
    }
    report_captured(plan);
    memcpy(total.name, plan->name, sizeof total.name);
    total.runs = atomic_load(&w->runs);
    total.run_ns = atomic_load(&w->run_ns);
    total.samples = w->samples;
    total.differing = w->differing;
    total.shadow_ns = w->shadow_ns;
    total.guarded = w->guarded;
    total.guard_ns = w->guard_ns;
    if (w->opened) {
        summary_add(&plan->reg->summary, &total);
    }
    if (w->shadow != NULL) {
        shadow_close(plan, w->shadow);
    }
    if (w->guard != NULL) {
        guard_close(plan, w->guard);
    }
    pthread_mutex_destroy(&w->mutex);
    free(w);
    plan->watch = NULL;
}

/* ---- a run ---------------------------------------------------------------------------------- */

/* Waits for what the stream has to do, and learns whether it can be waited for. */
static opreg_status settle(const opreg_plan *plan, void *stream) {
    char text[512];
    uint32_t mark = error_mark();
    opreg_status status = plan->entry->io.stream_sync(plan->host, plan->dev, stream);
    if (status == OPREG_OK) {
        return OPREG_OK;
    }
    snprintf(text, sizeof text, "%.*s", (int)sizeof text - 1, error_since(mark));
    return fail(status,
                "%s: shadow and guard wait for the stream, and it cannot be waited for (%s): is it "
                "being captured in a graph? Switch them off for captured plans, or the graph off",
                plan->name, text[0] != '\0' ? text : opreg_status_name(status));
}

static opreg_status compare(const opreg_plan *plan, const opreg_args *args,
                            const opreg_call *call) {
    watch *w = plan->watch;
    const char *text = NULL;
    opreg_status status = shadow_compare(plan, w->shadow, call, &text);
    if (status != OPREG_OK || text == NULL) {
        return status;
    }
    w->differing++;
    if (is_first_report(plan)) {
        report_run(plan, args, call, text);
    }
    return w->strict ? fail(OPREG_E_CHECK, "shadow: %s is not %s: %s", plan->name,
                            shadow_reference_name(w->shadow), text)
                     : OPREG_OK;
}

/* Watched runs of a plan wait for each other. */
static opreg_status lock_runs(const opreg_plan *plan) {
    return registry_lock_of(plan->reg, &plan->watch->mutex, "the plan under shadow or guard");
}

/* Under the watch's lock. */
static opreg_status checked_run(const opreg_plan *plan, const opreg_args *args,
                                const opreg_call *call, int sample, uint64_t *own_ns) {
    watch *w = plan->watch;
    uint64_t start = watch_now(), from, extra = 0;
    opreg_status status = settle(plan, call->stream);
    if (status == OPREG_OK && sample) {
        status = shadow_reference(plan, w->shadow, call);
    }
    if (status != OPREG_OK) {
        return status;
    }
    from = watch_now();
    w->shadow_ns += sample ? from - start : 0;
    if (w->guard != NULL) {
        status = guard_run(plan, w->guard, call, &extra);
        w->guarded++;
        w->guard_ns += extra;
    } else {
        status = plan_run_kernel(plan, call);
    }
    start = watch_now();
    *own_ns = start - from - extra;
    if (sample) {
        w->samples++;
        status = status == OPREG_OK ? compare(plan, args, call) : status;
        w->shadow_ns += watch_now() - start;
    }
    return status;
}

/* Under the watch's lock: nothing waits, and what is found is read when the plan is destroyed. */
static opreg_status captured_run(const opreg_plan *plan, const opreg_call *call) {
    watch *w = plan->watch;
    uint64_t start = watch_now(), own;
    opreg_status status = shadow_reference(plan, w->shadow, call);
    w->shadow_ns += watch_now() - start;
    if (status == OPREG_OK) {
        status = plan_run_kernel(plan, call);
    }
    own = watch_now();
    if (status == OPREG_OK) {
        status = shadow_compare_later(plan, w->shadow, call);
    }
    w->samples++;
    w->shadow_ns += watch_now() - own;
    return status;
}

/* A run that is being captured, and cannot be checked: refused in strict mode, else said once. */
static opreg_status unchecked_run(const opreg_plan *plan, const opreg_call *call, const char *what) {
    watch *w = plan->watch;
    if (w->strict) {
        return fail(OPREG_E_STRICT,
                    "%s: the stream is being captured in a graph, and %s waits for the stream: "
                    "switch it off for captured plans, or the graph off",
                    plan->name, what);
    }
    if (atomic_exchange(&w->warned, 1) == 0) {
        registry_log(plan->reg, OPREG_LOG_WARN,
                     "%s: the stream is being captured in a graph, and %s waits for the stream: "
                     "captured runs are not checked",
                     plan->name, what);
    }
    return plan_run_kernel(plan, call);
}

opreg_status watch_run(const opreg_plan *plan, const opreg_args *args, const opreg_call *call) {
    watch *w = plan->watch;
    uint64_t number = atomic_fetch_add_explicit(&w->runs, 1, memory_order_relaxed), own_ns = 0;
    int sample = w->shadow != NULL && number % w->every == 0;
    opreg_status status;
    if (!sample && w->guard == NULL) {
        uint64_t start = watch_now();
        status = plan_run_kernel(plan, call);
        own_ns = watch_now() - start;
    } else if (!is_capturing(plan, call->stream)) {
        status = lock_runs(plan);
        if (status == OPREG_OK) {
            status = checked_run(plan, args, call, sample, &own_ns);
            pthread_mutex_unlock(&w->mutex);
        }
    } else if (w->guard != NULL || !shadow_stays_on_device(w->shadow)) {
        status = unchecked_run(plan, call, w->guard != NULL ? "guard" : "shadow");
    } else {
        status = lock_runs(plan);
        if (status == OPREG_OK) {
            status = captured_run(plan, call);
            pthread_mutex_unlock(&w->mutex);
        }
    }
    atomic_fetch_add_explicit(&w->run_ns, own_ns, memory_order_relaxed);
    return status;
}
