/* SPDX-License-Identifier: MIT
 * report.c - the events of a run and the cells that count it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kit.h"

#define NAME_BYTES 64

/* ---- events -------------------------------------------------------------------------------------- */

opreg_kit_event kit_event(const kit *k, opreg_kit_kind kind) {
    opreg_kit_event event;
    memset(&event, 0, sizeof event);
    event.struct_size = sizeof event;
    event.kind = (uint32_t)kind;
    event.seed = k->report.seed;
    event.plugin = event.kernel = event.device = event.format = event.dtypes = "";
    event.check = event.data = event.problem = event.detail = "";
    return event;
}

void kit_send(const kit *k, const opreg_kit_event *event) {
    if (k->options.event != NULL) {
        k->options.event(k->options.user, event);
    }
}

void kit_skip(kit *k, const char *plugin, const char *detail) {
    opreg_kit_event event = kit_event(k, OPREG_KIT_SKIP);
    event.plugin = plugin;
    event.detail = detail;
    k->report.skipped++;
    kit_send(k, &event);
}

static void device_name(const opreg_device *device, char text[NAME_BYTES]) {
    static const char *const kinds[] = {"?", "cpu", "cuda", "hip"};
    snprintf(text, NAME_BYTES, "%s:%d/%s", kinds[device->kind < 4 ? device->kind : 0],
             (int)device->ordinal, device->arch);
}

void kit_send_case(kit *k, const variant *v, const case_key *key, const job *of,
                      const finding *f) {
    opreg_kit_event event = kit_event(k, OPREG_KIT_CASE);
    char device[NAME_BYTES], problem[1024] = "";
    event.verdict = f->check == NULL ? OPREG_KIT_PASSED : OPREG_KIT_FAILED;
    k->report.passed += f->check == NULL;
    k->report.failed += f->check != NULL;
    if (k->options.event == NULL) {
        return;
    }
    device_name(&v->where->device, device);
    opreg_problem_print(of->op, &of->problem, problem, sizeof problem);
    event.op = (uint32_t)of->op;
    event.cases = key->index;
    event.seed = key->seed;
    event.plugin = v->row.plugin;
    event.kernel = v->row.kernel;
    event.device = device;
    event.format = of->format;
    event.dtypes = of->dtypes;
    event.check = f->check != NULL ? f->check : "";
    event.data = data_names[of->data];
    event.problem = problem;
    event.detail = f->detail;
    kit_send(k, &event);
}

void kit_progress(kit *k) {
    opreg_kit_event event = kit_event(k, OPREG_KIT_PROGRESS);
    k->done++;
    event.cases = k->done;
    event.refused = k->total;
    kit_send(k, &event);
}

/* ---- cells --------------------------------------------------------------------------------------- */

cell *kit_cell(kit *k, size_t variant_index, opreg_op op, const char *format,
                       const char *dtypes) {
    cell *fresh;
    for (size_t i = 0; i < k->num_cells; i++) {
        cell *c = &k->cells[i];
        if (c->variant == variant_index && strcmp(c->format, format) == 0 &&
            strcmp(c->dtypes, dtypes) == 0) {
            return c;
        }
    }
    if (k->num_cells == k->cap_cells) {
        size_t cap = k->cap_cells * 2 + 256;
        cell *more = realloc(k->cells, cap * sizeof *more);
        if (more == NULL) {
            return NULL;
        }
        k->cells = more;
        k->cap_cells = cap;
    }
    fresh = &k->cells[k->num_cells++];
    memset(fresh, 0, sizeof *fresh);
    fresh->variant = variant_index;
    fresh->op = (uint32_t)op;
    snprintf(fresh->format, sizeof fresh->format, "%s", format);
    snprintf(fresh->dtypes, sizeof fresh->dtypes, "%s", dtypes);
    return fresh;
}

uint64_t kit_executed(const kit *k, size_t variant_index, const char *format, int far) {
    uint64_t sum = 0;
    for (size_t i = 0; i < k->num_cells; i++) {
        if (k->cells[i].variant == variant_index && strcmp(k->cells[i].format, format) == 0) {
            sum += far ? k->cells[i].far : k->cells[i].cases;
        }
    }
    return sum;
}

void kit_send_cells(kit *k) {
    for (size_t i = 0; i < k->num_cells; i++) {
        const cell *c = &k->cells[i];
        const variant *v = &k->variants[c->variant];
        opreg_kit_event event = kit_event(k, OPREG_KIT_CELL);
        char device[NAME_BYTES];
        /* a dtype combination that supports always refuses is not declared; a format is */
        if (c->cases == 0 && c->dtypes[0] != '\0') {
            continue;
        }
        device_name(&v->where->device, device);
        event.verdict = c->cases == 0 ? OPREG_KIT_NEVER_RUN : OPREG_KIT_PASSED;
        k->report.never_run += c->cases == 0;
        event.op = c->op;
        event.plugin = v->row.plugin;
        event.kernel = v->row.kernel;
        event.device = device;
        event.format = c->format;
        event.dtypes = c->dtypes;
        event.cases = c->cases;
        event.refused = c->refused;
        kit_send(k, &event);
    }
}

