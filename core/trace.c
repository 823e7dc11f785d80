/* SPDX-License-Identifier: MIT
 * trace.c - one line a plan, a skipped variant, a refusal or a run; the problem in a line is what
 * opreg_problem_parse and `opreg explain` read. */
#include <stdio.h>
#include <string.h>

#include "error.h"
#include "plan.h"

static int is_baseline(const opreg_kernel *kernel) {
    return (kernel->flags & OPREG_KF_BASELINE) != 0;
}

static void trace_skip(opreg_registry *reg, const candidate *row) {
    char name[128], line[512];
    candidate_name(row, name, sizeof name);
    snprintf(line, sizeof line, "v1 skip %s \"%s\"", name, row->reason);
    registry_trace(reg, line);
}

static void count_refusal(opreg_registry *reg, const candidate *row) {
    char name[128];
    candidate_name(row, name, sizeof name);
    summary_refused(&reg->summary, name, row->reason);
}

void trace_plan(opreg_registry *reg, const opreg_plan *plan, const candidate *rows, size_t count) {
    char problem[PROBLEM_TEXT_BYTES], device[64], line[PROBLEM_TEXT_BYTES + 512];
    int skipped = 0;
    for (size_t i = 1; i < count; i++) {
        const candidate *row = &rows[i];
        int refused = row->verdict == OPREG_E_UNSUPPORTED && row->on && row->lists &&
                      row->kernel != NO_KERNEL;
        if (refused || row->verdict == OPREG_E_DISABLED) {
            trace_skip(reg, row);
            count_refusal(reg, row);
        }
        skipped += refused && !is_baseline(&row->entry->kernels[row->kernel]);
    }
    device_text(plan->dev, device, sizeof device);
    problem_text(plan->op, &plan->problem, 1, problem, sizeof problem);
    snprintf(line, sizeof line, "v1 plan %s dev=%s %s -> %s ws=%llu%s", opreg_op_name(plan->op),
             device, problem, plan->name, (unsigned long long)plan->workspace,
             is_baseline(plan->kernel) && skipped > 0 ? " \"no switched-on variant takes it\"" : "");
    registry_trace(reg, line);
}

void trace_refusal(opreg_registry *reg, const opreg_device *dev, opreg_op op,
                   const problem_any *problem, opreg_status status) {
    char text[PROBLEM_TEXT_BYTES], device[64], line[PROBLEM_TEXT_BYTES + ERROR_TEXT_BYTES];
    device_text(dev, device, sizeof device);
    problem_text(op, problem, 1, text, sizeof text);
    snprintf(line, sizeof line, "v1 fail %s dev=%s %s -> %s \"%.3000s\"", opreg_op_name(op), device,
             text, opreg_status_name(status), opreg_last_error());
    registry_trace(reg, line);
}

void trace_run(const opreg_plan *plan, opreg_status status) {
    char text[PROBLEM_TEXT_BYTES], device[64], line[PROBLEM_TEXT_BYTES + 512];
    device_text(plan->dev, device, sizeof device);
    problem_text(plan->op, &plan->problem, 1, text, sizeof text);
    snprintf(line, sizeof line, "v1 run %s dev=%s %s -> %s %s", opreg_op_name(plan->op), device,
             text, plan->name,
             status != OPREG_OK ? opreg_status_name(status)
             : plan->empty      ? "empty"
                                : "OPREG_OK");
    registry_trace(plan->reg, line);
}
