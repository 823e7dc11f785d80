/* SPDX-License-Identifier: MIT
 * plans.h - one plan a problem, made when the problem first comes up. */
#ifndef DECODE_PLANS_H
#define DECODE_PLANS_H

#include <stddef.h>

#include "machine.h"

typedef struct plan_entry plan_entry;

typedef struct plans {
    machine *on;    /* borrowed */
    uint32_t level; /* least opreg_level of every plan */
    uint32_t flags; /* opreg problem flags of every plan */
    plan_entry *entries;
    size_t count, capacity;
    void *workspace; /* shared: one run at a time */
    uint64_t workspace_bytes;
    uint32_t moves; /* how often the workspace has moved */
} plans;

/* The plan for a problem, whose bytes are the key; null with the reason.  Owned by plans. */
const opreg_plan *plans_get(plans *p, opreg_op op, const void *problem, reason *why);

/* Finds the plan and runs it. */
int plans_run(plans *p, opreg_op op, const void *problem, const opreg_buf *bufs, uint32_t num_bufs,
              const opreg_weight *const *weights, uint32_t num_weights, reason *why);

/* Variant of plan i, in the order of their making; null past the end. */
const char *plans_kernel(const plans *p, size_t index);

void plans_close(plans *p);

#endif /* DECODE_PLANS_H */
