/* SPDX-License-Identifier: MIT
 * plan.c - a variant chosen for a problem, and the run that checks numbers and calls it. */
#include "plan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"
#include "formats/side.h"
#include "watch.h"

#define WORKSPACE_ALIGN 256u

/* ---- making a plan -------------------------------------------------------------------------- */

static void fill_needs(opreg_plan *plan, const problem_formats *extra) {
    problem_buffer buffers[PROBLEM_MAX_BUFS];
    problem_weight weights[PROBLEM_MAX_WEIGHTS];
    plan->num_bufs = problem_buffers(plan->op, &plan->problem, buffers);
    for (uint32_t i = 0; i < plan->num_bufs; i++) {
        plan->bufs[i].bytes = buffers[i].bytes;
        plan->bufs[i].mask = buffers[i].align - 1u;
        plan->bufs[i].use = buffers[i].use;
    }
    plan->num_weights = problem_weights(plan->op, &plan->problem, weights);
    for (uint32_t i = 0; i < plan->num_weights; i++) {
        weight_need *need = &plan->weights[i];
        uint64_t bytes;
        int known;
        need->format = weights[i].format;
        need->dialect = side_dialect(weights[i].format, weights[i].dialect, &known);
        need->layout = weights[i].layout;
        need->experts = weights[i].experts;
        need->n = weights[i].n;
        need->k = weights[i].k;
        bytes = weight_layout_bytes(plan->entry, plan->dev, need, extra);
        plan->layout_bytes = bytes > plan->layout_bytes ? bytes : plan->layout_bytes;
    }
    plan->empty = problem_is_empty(plan->op, &plan->problem);
}

static opreg_plan *new_plan(opreg_registry *reg, const candidate *row, opreg_op op,
                            const problem_any *problem) {
    const problem_formats extra = registry_formats(reg);
    opreg_plan *plan = calloc(1, sizeof *plan);
    if (plan == NULL) {
        fail(OPREG_E_NOMEM, "no memory for a plan");
        return NULL;
    }
    plan->reg = reg;
    plan->entry = row->entry;
    plan->host = &row->entry->host;
    plan->kernel = &row->entry->kernels[row->kernel];
    plan->run = plan->kernel->run;
    plan->dev = row->dev;
    plan->kind = row->dev->kind;
    plan->ordinal = row->dev->ordinal;
    plan->op = op;
    plan->problem = *problem;
    select_set_layouts(op, &plan->problem, row->layouts);
    plan->workspace = row->workspace;
    candidate_name(row, plan->name, sizeof plan->name);
    fill_needs(plan, &extra);
    return plan;
}

/* The variant "plugin/kernel", asked for by name; its flag may be off. */
static opreg_status find_named(opreg_registry *reg, const opreg_device *dev, opreg_op op,
                               const problem_any *problem, const char *name, candidate *out) {
    const char *slash = strchr(name, '/');
    char plugin[64], device[64];
    plugin_entry *entry;
    const opreg_device *row;
    if (slash == NULL || (size_t)(slash - name) >= sizeof plugin) {
        return fail(OPREG_E_ARG, "\"%s\" is not PLUGIN/KERNEL", name);
    }
    snprintf(plugin, sizeof plugin, "%.*s", (int)(slash - name), name);
    entry = registry_plugin(reg, plugin);
    if (entry == NULL) {
        return fail(OPREG_E_ARG, "there is no plugin named \"%s\"", plugin);
    }
    if (entry->table.name == NULL) {
        return entry->state == OPREG_PLUGIN_OFF
                   ? fail(OPREG_E_DISABLED, "plugin %s is not open: set %s=on", plugin,
                          reg->flags.rows[entry->flag].variable)
                   : fail(OPREG_E_UNSUPPORTED, "plugin %s is not open: %s", plugin, entry->reason);
    }
    row = plugin_device(entry, dev);
    if (row == NULL) {
        device_text(dev, device, sizeof device);
        return fail(OPREG_E_UNSUPPORTED, "plugin %s does not drive device %s", plugin, device);
    }
    for (size_t i = 0; i < entry->table.num_kernels; i++) {
        if (strcmp(entry->kernels[i].name, slash + 1) != 0) {
            continue;
        }
        if (entry->kernels[i].op != (uint32_t)op) {
            return fail(OPREG_E_UNSUPPORTED, "%s is a %s, not a %s", name,
                        opreg_op_name((opreg_op)entry->kernels[i].op), opreg_op_name(op));
        }
        return select_judge(entry, i, row, op, problem, out) == OPREG_OK
                   ? OPREG_OK
                   : fail(OPREG_E_UNSUPPORTED, "%s: %s", name, out->reason);
    }
    return fail(OPREG_E_ARG, "plugin %s has no kernel \"%s\"", plugin, slash + 1);
}

/* Under the lock: chooses, and holds the plugin so that it cannot be unloaded. */
static opreg_status choose(opreg_registry *reg, const opreg_device *dev, opreg_op op,
                           const problem_any *problem, const char *name, opreg_plan **out) {
    const problem_formats extra = registry_formats(reg);
    candidate named, *rows = NULL;
    size_t count = 0;
    opreg_plan *plan = NULL;
    opreg_status status = problem_check(op, problem, &extra);
    if (status == OPREG_OK && name != NULL) {
        status = find_named(reg, dev, op, problem, name, &named);
    } else if (status == OPREG_OK) {
        status = select_rank(reg, dev, op, problem, &rows, &count);
        if (status == OPREG_OK && (count == 0 || rows[0].verdict != OPREG_OK)) {
            status = select_refusal(dev, op, rows, count);
        }
        if (status == OPREG_OK && reg->strict) {
            status = select_strict(op, rows, count);
        }
    }
    if (status == OPREG_OK) {
        plan = new_plan(reg, name != NULL ? &named : &rows[0], op, problem);
        status = plan != NULL ? OPREG_OK : OPREG_E_NOMEM;
    }
    if (atomic_load(&reg->trace) > 0) {
        if (status == OPREG_OK) {
            trace_plan(reg, plan, rows, count);
        } else {
            trace_refusal(reg, dev, op, problem, status);
        }
    }
    free(rows);
    if (status == OPREG_OK) {
        if (plan->kind == OPREG_CPU && reg->workers != NULL) {
            pool_start(reg->workers);
        }
        atomic_fetch_add(&plan->entry->live, 1);
        *out = plan;
    }
    return status;
}

static opreg_status create(opreg_registry *reg, const opreg_device *dev, opreg_op op,
                           const void *problem, const char *name, opreg_plan **out) {
    problem_any full;
    opreg_device device;
    opreg_plan *plan = NULL;
    uint32_t mark;
    opreg_status status;
    if (reg == NULL || out == NULL) {
        return fail(OPREG_E_ARG, "the %s is null", reg == NULL ? "registry" : "plan pointer");
    }
    status = device_load(dev, &device);
    if (status == OPREG_OK) {
        status = problem_load(op, problem, &full);
    }
    if (status == OPREG_OK) {
        status = registry_lock(reg);
    }
    if (status != OPREG_OK) {
        return status;
    }
    status = choose(reg, &device, op, &full, name, &plan);
    registry_unlock(reg);
    if (status != OPREG_OK) {
        return status;
    }
    mark = error_mark();
    if (plan->kernel->prepare != NULL) { /* may be long, and may call the engine's threads */
        status = plan->kernel->prepare(plan->host, plan->dev, &plan->problem, &plan->state);
    }
    if (status != OPREG_OK) {
        if (error_since(mark)[0] == '\0') {
            fail(status, "%s could not be prepared: %s", plan->name, opreg_status_name(status));
        }
    } else {
        status = watch_open(plan);
    }
    if (status != OPREG_OK) {
        opreg_plan_destroy(plan);
        return status;
    }
    *out = plan;
    return OPREG_OK;
}

opreg_status opreg_plan_create(opreg_registry *reg, const opreg_device *dev, opreg_op op,
                               const void *problem, opreg_plan **out) {
    return create(reg, dev, op, problem, NULL, out);
}

opreg_status opreg_plan_create_named(opreg_registry *reg, const opreg_device *dev, opreg_op op,
                                     const void *problem, const char *plugin_kernel,
                                     opreg_plan **out) {
    return plugin_kernel == NULL ? fail(OPREG_E_ARG, "the name of the variant is null")
                                 : create(reg, dev, op, problem, plugin_kernel, out);
}

void opreg_plan_destroy(opreg_plan *plan) {
    if (plan == NULL) {
        return;
    }
    watch_close(plan);
    if (plan->kernel->release != NULL && plan->state != NULL) {
        plan->kernel->release(plan->state);
    }
    atomic_fetch_sub(&plan->entry->live, 1);
    free(plan);
}

uint64_t opreg_plan_workspace(const opreg_plan *plan) { return plan != NULL ? plan->workspace : 0; }

const char *opreg_plan_kernel(const opreg_plan *plan) { return plan != NULL ? plan->name : ""; }

opreg_level opreg_plan_level(const opreg_plan *plan) {
    return plan != NULL ? (opreg_level)plan->kernel->level : OPREG_LEVEL_ANY;
}

uint32_t opreg_plan_layout(const opreg_plan *plan) {
    return plan != NULL && plan->num_weights > 0 ? plan->weights[0].layout : OPREG_LAYOUT_STORED;
}

uint64_t opreg_plan_layout_bytes(const opreg_plan *plan) {
    return plan != NULL ? plan->layout_bytes : 0;
}

/* ---- running it ----------------------------------------------------------------------------- */

/* Only on the way out: the fast path compares numbers and finds nothing to say. */
static opreg_status refuse_buffer(const opreg_plan *plan, uint32_t i, const opreg_buf *buf) {
    problem_buffer buffers[PROBLEM_MAX_BUFS];
    problem_buffers(plan->op, &plan->problem, buffers);
    if (buffers[i].use == BUFFER_UNUSED) {
        return fail(OPREG_E_ARG, "%s: buffer %u is given, but the problem does not use it",
                    plan->name, i);
    }
    if (buf->ptr == NULL) {
        return fail(OPREG_E_ARG, "%s: buffer %u (%s) is null, it must have %llu bytes", plan->name,
                    i, buffers[i].name, (unsigned long long)buffers[i].bytes);
    }
    if (buf->bytes < buffers[i].bytes) {
        return fail(OPREG_E_ARG, "%s: buffer %u (%s) has %llu bytes, it must have %llu", plan->name,
                    i, buffers[i].name, (unsigned long long)buf->bytes,
                    (unsigned long long)buffers[i].bytes);
    }
    return fail(OPREG_E_ARG, "%s: buffer %u (%s) at %p is not aligned to %u bytes", plan->name, i,
                buffers[i].name, buf->ptr, buffers[i].align);
}

static opreg_status refuse_weight(const opreg_plan *plan, uint32_t i, const opreg_weight *weight) {
    problem_weight weights[PROBLEM_MAX_WEIGHTS];
    const weight_need *need = &plan->weights[i];
    const opreg_weight_view *v;
    problem_weights(plan->op, &plan->problem, weights);
    if (weight == NULL) {
        return fail(OPREG_E_ARG, "%s: weight %u (%s) is null", plan->name, i, weights[i].name);
    }
    v = &weight->view;
    if (weight->reg != plan->reg) {
        return fail(OPREG_E_ARG, "%s: weight %u (%s) belongs to another registry", plan->name, i,
                    weights[i].name);
    }
    if (weight->dev->kind != plan->kind || weight->dev->ordinal != plan->ordinal) {
        char have[64], want[64];
        device_text(weight->dev, have, sizeof have);
        device_text(plan->dev, want, sizeof want);
        return fail(OPREG_E_ARG, "%s: weight %u (%s) is on %s, the plan is on %s", plan->name, i,
                    weights[i].name, have, want);
    }
    if (need->layout != v->layout ||
        (v->layout != OPREG_LAYOUT_STORED && weight->entry != plan->entry)) {
        return fail(OPREG_E_ARG, "%s: weight %u (%s) is in layout %u of %s, the plan reads layout %u of %s",
                    plan->name, i, weights[i].name, v->layout, weight->entry->name, need->layout,
                    plan->entry->name);
    }
    return fail(OPREG_E_ARG,
                "%s: weight %u (%s) is %s dialect %u [%lld, %lld, %lld], the plan needs %s dialect "
                "%u [%lld, %lld, %lld]",
                plan->name, i, weights[i].name, opreg_dtype_name(v->format), v->dialect,
                (long long)v->experts, (long long)v->n, (long long)v->k,
                opreg_dtype_name(need->format), need->dialect, (long long)need->experts,
                (long long)need->n, (long long)need->k);
}

static int weight_fits(const opreg_plan *plan, const weight_need *need, const opreg_weight *w) {
    return w != NULL && w->reg == plan->reg && w->view.format == need->format &&
           w->view.dialect == need->dialect && w->view.layout == need->layout &&
           w->view.experts == need->experts && w->view.n == need->n && w->view.k == need->k &&
           w->dev->kind == plan->kind && w->dev->ordinal == plan->ordinal &&
           (need->layout == OPREG_LAYOUT_STORED || w->entry == plan->entry);
}

static opreg_status check_workspace(const opreg_plan *plan, const opreg_args *args) {
    uintptr_t from = (uintptr_t)args->workspace.ptr;
    if (args->workspace.ptr == NULL || args->workspace.bytes < plan->workspace ||
        from % WORKSPACE_ALIGN != 0) {
        return fail(OPREG_E_WORKSPACE,
                    "%s needs a workspace of %llu bytes, aligned to %u; got %llu bytes at %p",
                    plan->name, (unsigned long long)plan->workspace, WORKSPACE_ALIGN,
                    (unsigned long long)args->workspace.bytes, args->workspace.ptr);
    }
    for (uint32_t i = 0; i < args->num_bufs; i++) {
        uintptr_t buf = (uintptr_t)args->bufs[i].ptr;
        if (buf != 0 && plan->bufs[i].bytes > 0 && buf < from + plan->workspace &&
            from < buf + plan->bufs[i].bytes) {
            return fail(OPREG_E_WORKSPACE, "%s: the workspace overlaps buffer %u", plan->name, i);
        }
    }
    return OPREG_OK;
}

static opreg_status check_args(const opreg_plan *plan, const opreg_args *args, opreg_buf *bufs,
                               const opreg_weight_view **views) {
    if (args->num_bufs > plan->num_bufs || (args->bufs == NULL && args->num_bufs > 0)) {
        return fail(OPREG_E_ARG, "%s: %u buffers are given%s, %s has %u", plan->name,
                    args->num_bufs, args->bufs == NULL ? " by a null pointer" : "",
                    opreg_op_name(plan->op), plan->num_bufs);
    }
    for (uint32_t i = 0; i < plan->num_bufs; i++) {
        const buffer_need *need = &plan->bufs[i];
        if (i < args->num_bufs) {
            bufs[i] = args->bufs[i];
        } else {
            bufs[i] = (opreg_buf){NULL, 0};
        }
        if (bufs[i].ptr == NULL) {
            if (need->use == BUFFER_REQUIRED && need->bytes > 0) {
                return refuse_buffer(plan, i, &bufs[i]);
            }
            bufs[i].bytes = 0;
        } else if (need->use == BUFFER_UNUSED || bufs[i].bytes < need->bytes ||
                   ((uintptr_t)bufs[i].ptr & need->mask) != 0) {
            return refuse_buffer(plan, i, &bufs[i]);
        }
    }
    if (args->num_weights != plan->num_weights || (args->weights == NULL && plan->num_weights > 0)) {
        return fail(OPREG_E_ARG, "%s: %u weights are given, it needs %u", plan->name,
                    args->weights == NULL ? 0 : args->num_weights, plan->num_weights);
    }
    for (uint32_t i = 0; i < plan->num_weights; i++) {
        if (!weight_fits(plan, &plan->weights[i], args->weights[i])) {
            return refuse_weight(plan, i, args->weights[i]);
        }
        views[i] = &args->weights[i]->view;
    }
    return plan->workspace > 0 ? check_workspace(plan, args) : OPREG_OK;
}

opreg_status plan_run_kernel(const opreg_plan *plan, const opreg_call *call) {
    uint32_t before = 0, mark = error_mark();
    opreg_status status;
    if (plan->kind == OPREG_CPU) {
        before = float_enter();
    }
    status = plan->run(plan->state, &plan->problem, call);
    if (plan->kind == OPREG_CPU) {
        float_leave(before);
    }
    if (status != OPREG_OK && error_since(mark)[0] == '\0') {
        fail(status, "%s: %s, and the plugin says no more", plan->name, opreg_status_name(status));
    }
    return status;
}

static opreg_status run(const opreg_plan *plan, const opreg_args *args) {
    opreg_buf bufs[PROBLEM_MAX_BUFS];
    const opreg_weight_view *views[PROBLEM_MAX_WEIGHTS];
    opreg_call call;
    opreg_status status;
    if (plan->empty) {
        return OPREG_OK;
    }
    status = check_args(plan, args, bufs, views);
    if (status != OPREG_OK) {
        return status;
    }
    call.struct_size = sizeof call;
    call.num_bufs = plan->num_bufs;
    call.num_weights = plan->num_weights;
    call.reserved = 0;
    call.host = plan->host;
    call.bufs = bufs;
    call.weights = views;
    call.workspace = args->workspace;
    call.stream = args->stream;
    return plan->watch == NULL ? plan_run_kernel(plan, &call) : watch_run(plan, args, &call);
}

opreg_status opreg_plan_run(const opreg_plan *plan, const opreg_args *args) {
    opreg_args full;
    opreg_status status;
    if (plan == NULL || args == NULL) {
        return fail(OPREG_E_ARG, "the %s is null", plan == NULL ? "plan" : "opreg_args");
    }
    if (args->struct_size != sizeof full) {
        status = struct_load(&full, sizeof full, args, "opreg_args");
        if (status != OPREG_OK) {
            return status;
        }
        args = &full;
    }
    status = args->reserved == 0 ? run(plan, args)
                                 : fail(OPREG_E_ARG, "opreg_args: reserved is %u, it must be 0",
                                        args->reserved);
    if (atomic_load_explicit(&plan->reg->trace, memory_order_relaxed) > 1) {
        trace_run(plan, status);
    }
    return status;
}
