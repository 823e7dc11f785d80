/* SPDX-License-Identifier: MIT
 * plans.c - finds plans by the bytes of their problem. */
#include "plans.h"

#include <stdlib.h>
#include <string.h>

typedef union any_problem {
    opreg_quantize_act quantize;
    opreg_matmul_bt_quant matmul;
    opreg_moe_route route;
    opreg_moe_matmul moe;
    opreg_moe_combine combine;
    opreg_paged_attn_decode attention;
} any_problem;

struct plan_entry {
    opreg_op op;
    any_problem problem;
    opreg_plan *plan;
};

static int make_room(plans *p) {
    size_t capacity = p->capacity ? 2 * p->capacity : 64;
    plan_entry *entries;
    if (p->count < p->capacity) {
        return 1;
    }
    entries = realloc(p->entries, capacity * sizeof *entries);
    if (entries) {
        p->entries = entries;
        p->capacity = capacity;
    }
    return entries != NULL;
}

static int grow_workspace(plans *p, uint64_t bytes, reason *why) {
    void *memory;
    if (bytes <= p->workspace_bytes) {
        return 1;
    }
    memory = machine_alloc(p->on, bytes, why);
    if (memory && machine_wait(p->on, why)) { /* a run may still use the old one */
        machine_free(p->on, p->workspace);
        p->workspace = memory;
        p->workspace_bytes = bytes;
        p->moves++;
        return 1;
    }
    return 0;
}

const opreg_plan *plans_get(plans *p, opreg_op op, const void *problem, reason *why) {
    size_t bytes = opreg_problem_size(op);
    plan_entry *entry;
    for (size_t i = 0; i < p->count; i++) {
        entry = &p->entries[i];
        if (entry->op == op && memcmp(&entry->problem, problem, bytes) == 0) {
            return entry->plan;
        }
    }
    if (!make_room(p)) {
        refuse(why, "no memory for a plan");
        return NULL;
    }
    entry = &p->entries[p->count];
    memset(entry, 0, sizeof *entry);
    entry->op = op;
    memcpy(&entry->problem, problem, bytes);
    if (opreg_plan_create(p->on->registry, &p->on->device, op, problem, &entry->plan) != OPREG_OK) {
        refuse(why, "%s: %s", opreg_op_name(op), opreg_last_error());
        return NULL;
    }
    p->count++;
    return grow_workspace(p, opreg_plan_workspace(entry->plan), why) ? entry->plan : NULL;
}

int plans_run(plans *p, opreg_op op, const void *problem, const opreg_buf *bufs, uint32_t num_bufs,
              const opreg_weight *const *weights, uint32_t num_weights, reason *why) {
    const opreg_plan *plan = plans_get(p, op, problem, why);
    opreg_args args = {.struct_size = sizeof args,
                       .num_bufs = num_bufs,
                       .bufs = bufs,
                       .weights = weights,
                       .num_weights = num_weights,
                       .workspace = {p->workspace, p->workspace_bytes},
                       .stream = p->on->stream};
    if (!plan) {
        return 0;
    }
    if (opreg_plan_run(plan, &args) != OPREG_OK) {
        return refuse(why, "%s: %s", opreg_plan_kernel(plan), opreg_last_error());
    }
    return 1;
}

const char *plans_kernel(const plans *p, size_t index) {
    return index < p->count ? opreg_plan_kernel(p->entries[index].plan) : NULL;
}

void plans_close(plans *p) {
    for (size_t i = 0; i < p->count; i++) {
        opreg_plan_destroy(p->entries[i].plan);
    }
    free(p->entries);
    memset(p, 0, sizeof *p);
}
