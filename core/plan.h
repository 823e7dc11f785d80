/* SPDX-License-Identifier: MIT
 * plan.h - what a plan and a weight remember, so that a run compares numbers only. */
#ifndef OPREG_PLAN_H
#define OPREG_PLAN_H

#include "select.h"

/* A device buffer of side records that a stored weight and its prepared copies share. */
typedef struct shared_side {
    atomic_uint users; /* weights; the records keep the plugin alive, too                           */
    plugin_entry *entry;
    const opreg_device *dev;
    void *records; /* device memory                                                                */
    void *wire;    /* host copy of the description's side data; null when it had none               */
    uint64_t wire_bytes;
    float tensor_scale; /* of the description                                                       */
    uint32_t reserved;
} shared_side;

struct opreg_weight {
    opreg_registry *reg;
    plugin_entry *entry;     /* whose io and, where prepared, whose layout                          */
    const opreg_device *dev; /* the entry's row                                                     */
    shared_side *side;
    opreg_weight_view view;
    int64_t packed_bytes;    /* of the stored form                                                  */
};

typedef struct buffer_need {
    uint64_t bytes, mask; /* mask: alignment - 1                                                    */
    uint32_t use;         /* buffer_use                                                             */
    uint32_t reserved;
} buffer_need;

typedef struct weight_need {
    uint32_t format, dialect, layout, reserved; /* dialect and layout resolved                      */
    int64_t experts, n, k;
} weight_need;

struct opreg_plan {
    /* what a run reads */
    opreg_status (*run)(void *state, const void *problem, const opreg_call *call);
    void *state;
    const opreg_host *host;
    opreg_registry *reg;
    plugin_entry *entry;
    uint32_t num_bufs, num_weights;
    uint32_t kind;       /* opreg_device_kind                                                       */
    int32_t ordinal;
    int empty;           /* nothing to write: the kernel is not called                              */
    opreg_op op;
    uint64_t workspace;
    buffer_need bufs[PROBLEM_MAX_BUFS];
    weight_need weights[PROBLEM_MAX_WEIGHTS];
    problem_any problem; /* layouts resolved                                                        */
    struct watch *watch; /* null unless trace, shadow or guard was on when the plan was made        */
    /* what queries read */
    const opreg_kernel *kernel;
    const opreg_device *dev;
    uint64_t layout_bytes;
    char name[128];
};

/* Calls the kernel of a checked call, with the float unit in the standard state on the CPU. */
opreg_status plan_run_kernel(const opreg_plan *plan, const opreg_call *call);

/* A plan's trace lines; text may be null. */
void trace_plan(opreg_registry *reg, const opreg_plan *plan, const candidate *rows, size_t count);
void trace_refusal(opreg_registry *reg, const opreg_device *dev, opreg_op op,
                   const problem_any *problem, opreg_status status);
void trace_run(const opreg_plan *plan, opreg_status status);

/* Bytes of a weight in a layout of the plugin (or stored, packed); 0 when it has no such form. */
uint64_t weight_layout_bytes(const plugin_entry *entry, const opreg_device *dev,
                             const weight_need *need, const problem_formats *extra);

#endif /* OPREG_PLAN_H */
