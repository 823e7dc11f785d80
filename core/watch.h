/* SPDX-License-Identifier: MIT
 * watch.h - what a plan carries while trace, shadow or guard is on; null otherwise, so that a run
 * that nobody watches pays for one branch (docs/decisions/instruments.md). */
#ifndef OPREG_WATCH_H
#define OPREG_WATCH_H

#include <pthread.h>

#include "outputs.h"
#include "plan.h"

typedef struct shadow shadow;
typedef struct guard guard;

typedef struct watch {
    pthread_mutex_t mutex; /* shadow and guard use memory of the plan: one such run at a time        */
    atomic_ullong runs, run_ns;
    uint64_t every;        /* of shadow                                                             */
    int strict;            /* a difference is E_CHECK                                               */
    char dir[512];         /* for replay files, "" when none are wanted                             */
    shadow *shadow;        /* null: off                                                             */
    guard *guard;
    atomic_int warned;     /* that a captured run is not checked: once                              */
    int opened;            /* 0: the plan is being taken back, and was none                         */
    /* under the mutex */
    uint64_t samples, differing, shadow_ns, guarded, guard_ns;
} watch;

/* Gives the plan a watch when a switch asks for one.  Called without the registry's lock, after the
 * plan's prepare.  E_NOMEM, E_DEVICE. */
opreg_status watch_open(opreg_plan *plan);

/* Adds the plan's numbers to the registry's summary. */
void watch_close(opreg_plan *plan);

/* The run of a watched plan; the call has been checked. */
opreg_status watch_run(const opreg_plan *plan, const opreg_args *args, const opreg_call *call);

/* A clock that only goes forward. */
uint64_t watch_now(void);

/* ---- memory of the plan's device, 256-byte aligned ------------------------------------------- */

typedef struct device_block {
    void *allocation;
    uint8_t *base;
} device_block;
opreg_status block_open(const opreg_plan *plan, uint64_t bytes, device_block *out);
void block_close(const opreg_plan *plan, device_block *block);

/* Fails with the plugin's text, or with `what` where it left none. */
opreg_status watch_failed(const opreg_plan *plan, opreg_status status, uint32_t mark,
                          const char *what);

/* ---- shadow: the reference variant beside the plan's ------------------------------------------- */

/* OPREG_OK with *out null where there is nothing to compare with: the plan is the reference. */
opreg_status shadow_open(const opreg_plan *plan, shadow **out);
void shadow_close(const opreg_plan *plan, shadow *s);

/* 1 when results are compared on the device, so that a sampled run can be captured. */
int shadow_stays_on_device(const shadow *s);

/* Enqueues the reference, whose outputs stay with the shadow: before the plan's own run, whose outputs
 * may be its inputs. */
opreg_status shadow_reference(const opreg_plan *plan, shadow *s, const opreg_call *call);

/* Compares what the plan's run wrote, and waits for it.  *text is set to the difference, or to null. */
opreg_status shadow_compare(const opreg_plan *plan, shadow *s, const opreg_call *call,
                            const char **text);

/* Enqueues the comparison of a run that is being captured; every launch of the graph adds to it. */
opreg_status shadow_compare_later(const opreg_plan *plan, shadow *s, const opreg_call *call);

/* What those launches have found: as shadow_compare.  No launch may be in flight. */
opreg_status shadow_found(const opreg_plan *plan, shadow *s, const char **text);
const char *shadow_reference_name(const shadow *s);

/* Writes the call's inputs and weights to a new file in dir and its name to path; E_UNSUPPORTED with
 * the reason where that cannot reproduce the difference. */
opreg_status replay_write(const opreg_plan *plan, const opreg_args *args, const opreg_call *call,
                          const char *dir, const char *reference, const char *text,
                          char *path, size_t cap);

/* ---- guard ------------------------------------------------------------------------------------- */

opreg_status guard_open(const opreg_plan *plan, guard **out);
void guard_close(const opreg_plan *plan, guard *g);

/* Runs the plan twice between bands of two fills, checks, and gives the outputs to the caller.
 * *extra_ns is the time beyond the first run. */
opreg_status guard_run(const opreg_plan *plan, guard *g, const opreg_call *call,
                       uint64_t *extra_ns);

#endif /* OPREG_WATCH_H */
