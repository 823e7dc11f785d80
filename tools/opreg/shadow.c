/* SPDX-License-Identifier: MIT
 * shadow.c - opreg shadow replay: runs the call of a replay file again, with the library's own
 * comparison beside it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "commands.h"
#include "device.h"
#include "error.h"
#include "output.h"
#include "problem.h"
#include "registry.h"
#include "replay.h"

/* Everything of the call that lives on the device. */
typedef struct call {
    device where;
    opreg_plan *plan;
    opreg_buf bufs[PROBLEM_MAX_BUFS], workspace;
    opreg_buf data[PROBLEM_MAX_WEIGHTS], laid_out[PROBLEM_MAX_WEIGHTS];
    opreg_weight *stored[PROBLEM_MAX_WEIGHTS], *weights[PROBLEM_MAX_WEIGHTS];
    uint32_t num_bufs, num_weights;
} call;

static void call_close(call *c) {
    for (uint32_t i = 0; i < PROBLEM_MAX_WEIGHTS; i++) {
        opreg_weight_destroy(c->weights[i]);
        opreg_weight_destroy(c->stored[i]);
        if (c->where.io) {
            device_free(&c->where, &c->data[i]);
            device_free(&c->where, &c->laid_out[i]);
        }
    }
    for (uint32_t i = 0; i < PROBLEM_MAX_BUFS && c->where.io; i++) {
        device_free(&c->where, &c->bufs[i]);
    }
    if (c->where.io) {
        device_free(&c->where, &c->workspace);
    }
    opreg_plan_destroy(c->plan);
    device_close(&c->where);
}

static int put_weight(call *c, replay *r, const replay_input *in, void *host) {
    unsigned char *side = malloc(in->side_bytes > 0 ? (size_t)in->side_bytes : 1);
    opreg_weight_desc desc = {.struct_size = sizeof desc, .format = in->format,
                              .dialect = in->dialect, .experts = in->experts, .n = in->n,
                              .k = in->k, .side = in->side_bytes > 0 ? side : NULL,
                              .side_bytes = in->side_bytes,
                              .tensor_scale = (float)in->tensor_scale};
    uint64_t bytes = opreg_plan_layout_bytes(c->plan);
    int done = 0;
    if (side && replay_read(r, side, in->side_bytes)) {
        c->data[in->index] = device_alloc(&c->where, in->bytes);
        c->laid_out[in->index] = device_alloc(&c->where, bytes);
        desc.data = (opreg_buf){c->data[in->index].ptr, in->bytes};
        done = desc.data.ptr && c->laid_out[in->index].ptr &&
               device_upload(&c->where, c->data[in->index], host, in->bytes) &&
               device_sync(&c->where) &&
               opreg_weight_create(c->where.reg, &c->where.row, &desc, &c->stored[in->index]) ==
                   OPREG_OK &&
               opreg_weight_prepare(c->plan, c->stored[in->index], c->laid_out[in->index],
                                    c->where.stream, &c->weights[in->index]) == OPREG_OK;
        c->num_weights += (uint32_t)done;
    }
    free(side);
    return done;
}

static int put_input(call *c, replay *r, const replay_input *in) {
    void *host = malloc(in->bytes > 0 ? (size_t)in->bytes : 1);
    int done = 0;
    if (host && replay_read(r, host, in->bytes)) {
        if (in->is_weight) {
            done = put_weight(c, r, in, host);
        } else {
            c->bufs[in->index] = device_alloc(&c->where, in->bytes);
            done = c->bufs[in->index].ptr &&
                   device_upload(&c->where, c->bufs[in->index], host, in->bytes) &&
                   device_sync(&c->where);
        }
    }
    free(host);
    return done;
}

static int put_outputs(call *c, const replay *r) {
    problem_buffer buffers[PROBLEM_MAX_BUFS];
    problem_any problem;
    if (problem_load(r->op, r->problem, &problem) != OPREG_OK) {
        return 0;
    }
    c->num_bufs = problem_buffers(r->op, &problem, buffers);
    for (uint32_t i = 0; i < c->num_bufs; i++) {
        if (buffers[i].output && buffers[i].bytes > 0) {
            c->bufs[i] = device_alloc(&c->where, buffers[i].bytes);
            if (!c->bufs[i].ptr || !device_fill(&c->where, c->bufs[i], 0xff)) {
                return 0;
            }
        }
    }
    c->workspace = device_alloc(&c->where, opreg_plan_workspace(c->plan));
    return c->workspace.ptr != NULL;
}

/* Whatever fails here leaves a text in opreg_last_error. */
static int call_open(call *c, opreg_registry *reg, const opreg_device *row, replay *r,
                     const char *kernel) {
    if (!replay_accounts_for_call(r, reg) || !device_open(reg, row, &c->where) ||
        opreg_plan_create_named(reg, row, r->op, r->problem, kernel, &c->plan) != OPREG_OK ||
        !put_outputs(c, r)) {
        return 0;
    }
    for (uint32_t i = 0; i < r->count; i++) {
        if (!put_input(c, r, &r->inputs[i])) {
            return 0;
        }
    }
    return 1;
}

static opreg_status call_run(call *c) {
    opreg_args args = {.struct_size = sizeof args,
                       .num_bufs = c->num_bufs,
                       .bufs = c->bufs,
                       .weights = (const opreg_weight *const *)c->weights,
                       .num_weights = c->num_weights,
                       .workspace = c->workspace,
                       .stream = c->where.stream};
    if (opreg_plan_workspace(c->plan) == 0) {
        args.workspace = (opreg_buf){NULL, 0};
    }
    return opreg_plan_run(c->plan, &args);
}

static int print_outcome(const command *self, const replay *r, const char *kernel, const char *on,
                         opreg_status status, int json) {
    const char *text = status == OPREG_OK ? "" : opreg_last_error();
    int same = status == OPREG_E_CHECK && strstr(text, r->difference) != NULL;
    const char *verdict = status == OPREG_OK ? "no difference"
                          : same             ? "the same difference"
                                             : "another difference";
    if (status != OPREG_OK && status != OPREG_E_CHECK) {
        return complain(self, "%s: %s", opreg_status_name(status), text);
    }
    if (json) {
        print_json(json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s}", "op", opreg_op_name(r->op),
                             "problem", r->text, "kernel", kernel, "reference", r->reference,
                             "device", on, "recorded", r->difference, "now", text, "verdict",
                             verdict));
    } else {
        printf("problem    %s %s\nkernel     %s\nreference  %s\ndevice     %s\nrecorded   %s\n"
               "now        %s\n%s\n",
               opreg_op_name(r->op), r->text, kernel, r->reference, on, r->difference,
               text[0] != '\0' ? text : "-", verdict);
    }
    return status == OPREG_OK ? EXIT_HELD : EXIT_FAILED;
}

/* The kernel's plugin is switched on: the file asks for it. */
static int switch_on(opreg_registry *reg, const char *kernel, int guard) {
    char plugin[128];
    snprintf(plugin, sizeof plugin, "%.*s", (int)strcspn(kernel, "/"), kernel);
    return opreg_enable(reg, plugin, "on") == OPREG_OK &&
           opreg_enable(reg, "strict", "on") == OPREG_OK &&
           opreg_enable(reg, "guard", guard ? "on" : "off") == OPREG_OK &&
           opreg_enable(reg, "shadow-dir", "") == OPREG_OK &&
           opreg_enable(reg, "shadow", "1/1") == OPREG_OK;
}

static int replay_on(const command *self, opreg_registry *reg, replay *r, const char *kernel,
                     const char *wanted, int json) {
    size_t devices;
    opreg_device *rows = registry_devices(reg, &devices);
    const opreg_device *row = device_called(rows, devices, wanted);
    char on[96];
    call c;
    int status;
    memset(&c, 0, sizeof c);
    if (!row) {
        status = complain(self, "no device '%s'; --device names another", wanted);
    } else if (!call_open(&c, reg, row, r, kernel)) {
        status = complain(self, "%s", opreg_last_error());
    } else {
        status = print_outcome(self, r, kernel, device_name(row, on), call_run(&c), json);
    }
    call_close(&c);
    free(rows);
    return status;
}

/* The difference is printed on stdout; totals of one run say nothing. */
static void show_warnings(void *user, opreg_log_level level, const char *line) {
    (void)user;
    if (level <= OPREG_LOG_WARN && strncmp(line, "shadow: ", 8) != 0) {
        fprintf(stderr, "opreg: %s\n", line);
    }
}

static int run_shadow(const command *self, int argc, char **argv) {
    int json = 0, guard = 0, status;
    const char *on = NULL, *kernel = NULL, *words[3];
    size_t count;
    opreg_registry *reg = NULL;
    const opreg_config config = {.struct_size = sizeof config, .log = show_warnings};
    replay r;
    const option table[] = {
        {"--kernel", "P/K", OPTION_TEXT, &kernel, "this variant instead of the recorded one"},
        {"--device", "NAME", OPTION_TEXT, &on, "this device instead of the recorded one"},
        {"--guard", NULL, OPTION_SWITCH, &guard, "with guard bands, too"},
        {"--json", NULL, OPTION_SWITCH, &json, "one object (docs/command.md has the keys)"},
        {NULL, NULL, OPTION_SWITCH, NULL, NULL}};
    status = options_read(self, table, argc, argv, words, 3, &count);
    if (status >= 0) {
        return status;
    }
    if (count != 2 || strcmp(words[0], "replay") != 0) {
        return complain(self, "usage: opreg shadow %s", self->usage);
    }
    if (!replay_open(self, words[1], &r)) {
        return EXIT_BAD_INPUT;
    }
    status = EXIT_BAD_INPUT;
    kernel = kernel ? kernel : r.kernel;
    if (opreg_create(&config, &reg) != OPREG_OK) {
        complain(self, "%s", opreg_last_error());
    } else {
        status = switch_on(reg, kernel, guard)
                     ? replay_on(self, reg, &r, kernel, on ? on : r.device, json)
                     : complain(self, "%s", opreg_last_error());
        opreg_destroy(reg);
    }
    replay_close(&r);
    return status;
}

const command command_shadow = {
    "shadow", "replay FILE [--kernel P/K] [--device NAME] [--guard] [--json]",
    "runs a call again that shadow found to be wrong",
    "Reads a file that OPREG_SHADOW_DIR got, runs its call on the device and compares the variant with\n"
    "the baseline of its plugin, as OPREG_SHADOW does.  Exit 1 where they differ, 0 where they do not.\n"
    "Example:\n  opreg shadow replay opreg-shadow-4711-0.replay --guard\n",
    run_shadow};
