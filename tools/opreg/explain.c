/* SPDX-License-Identifier: MIT
 * explain.c - opreg explain: what a plan would take for a problem, and why not the others. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "commands.h"
#include "opreg/opreg_plugin.h"
#include "output.h"
#include "registry.h"

#define MAX_WORDS 64

static const char *verdict_name(int32_t verdict) {
    return verdict == OPREG_OK              ? "ok"
           : verdict == OPREG_E_DISABLED    ? "off"
           : verdict == OPREG_E_UNSUPPORTED ? "refused"
                                            : opreg_status_name((opreg_status)verdict);
}

static void print_candidate(const opreg_candidate *c, const char *device, int json) {
    char name[100], rank[12] = "-";
    snprintf(name, sizeof name, "%s/%s", c->plugin, c->kernel);
    if (json) {
        print_json(json_pack("{s:s, s:s, s:s, s:i, s:s, s:s, s:b, s:i, s:o, s:s}", "device", device,
                             "kernel", name, "verdict", verdict_name(c->verdict), "rank",
                             (int)c->rank, "level", level_name(c->level), "reason", c->reason,
                             "baseline", (c->kernel_flags & OPREG_KF_BASELINE) != 0, "layout",
                             (int)c->layout, "workspace", json_bytes(c->workspace), "flag",
                             c->flag));
        return;
    }
    if (c->rank >= 0) {
        snprintf(rank, sizeof rank, "%d", c->rank);
    }
    printf("%4s  %-38s %-9s %-8s %s\n", rank, name, level_name(c->level), verdict_name(c->verdict),
           c->reason);
}

/* All known operators, for the nearest name. */
static int unknown_operator(const command *self, const char *word) {
    const char *names[OPREG_OP_COUNT];
    const char *near;
    for (uint32_t i = 0; i < OPREG_OP_COUNT; i++) {
        names[i] = opreg_op_name((opreg_op)(i + 1));
    }
    near = nearest_name(word, names, sizeof *names, OPREG_OP_COUNT);
    return complain(self, "unknown operator '%s'; did you mean %s?", word,
                    near ? near : "matmul_bt_quant");
}

static int explain_on(const command *self, opreg_registry *reg, const opreg_device *device,
                      opreg_op op, const void *problem, int json) {
    char name[96];
    size_t count;
    opreg_candidate *rows = registry_explain(self, reg, device, op, problem, &count);
    if (!rows) {
        return EXIT_BAD_INPUT;
    }
    device_name(device, name);
    if (!json) {
        printf("\n%s  %s\nRANK  %-38s %-9s %-8s %s\n", name, device->name, "VARIANT", "LEVEL",
               "VERDICT", "REASON");
    }
    for (size_t i = 0; i < count; i++) {
        print_candidate(&rows[i], name, json);
    }
    free(rows);
    return EXIT_HELD;
}

static int run_explain(const command *self, int argc, char **argv) {
    int json = 0, status;
    const char *device = NULL, *words[MAX_WORDS];
    size_t count, devices, used = 0;
    const opreg_device *only = NULL;
    opreg_registry *reg = NULL;
    opreg_device *rows = NULL;
    opreg_op op;
    char text[4096] = "";
    void *problem = NULL;
    const option table[] = {
        {"--device", "NAME", OPTION_TEXT, &device, "this device only: cpu, cuda:0, ..."},
        {"--json", NULL, OPTION_SWITCH, &json, "one object a line (docs/command.md has the keys)"},
        {NULL, NULL, OPTION_SWITCH, NULL, NULL}};
    status = options_read(self, table, argc, argv, words, MAX_WORDS, &count);
    if (status >= 0) {
        return status;
    }
    if (count == 0) {
        return complain(self, "which operator?  usage: opreg explain %s", self->usage);
    }
    op = opreg_op_by_name(words[0]);
    if (opreg_problem_size(op) == 0) {
        return unknown_operator(self, words[0]);
    }
    for (size_t i = 1; i < count; i++) {
        int wrote = snprintf(text + used, sizeof text - used, "%s%s", i > 1 ? " " : "", words[i]);
        if (wrote < 0 || (size_t)wrote >= sizeof text - used) {
            return complain(self, "the problem is longer than %zu characters", sizeof text - 1);
        }
        used += (size_t)wrote;
    }
    problem = calloc(1, opreg_problem_size(op));
    if (!problem || opreg_problem_parse(op, text, problem) != OPREG_OK ||
        opreg_problem_check(op, problem) != OPREG_OK) {
        status = complain(self, "%s", problem ? opreg_last_error() : "no memory");
        goto out;
    }
    status = EXIT_FAILED;
    reg = registry_open(self, 1);
    if (!reg) {
        goto out;
    }
    rows = registry_devices(reg, &devices);
    if (device) {
        only = device_called(rows, devices, device);
        if (!only) {
            status =
                complain(self, "no device '%s'; opreg list prints those that are open", device);
            goto out;
        }
    }
    if (!json) {
        char full[1024];
        opreg_problem_print(op, problem, full, sizeof full);
        printf("%s %s\n", opreg_op_name(op), full);
    }
    status = EXIT_HELD;
    for (size_t i = 0; i < devices && status == EXIT_HELD; i++) {
        if (!only || only == &rows[i]) {
            status = explain_on(self, reg, &rows[i], op, problem, json);
        }
    }
out:
    free(rows);
    free(problem);
    opreg_destroy(reg);
    return status;
}

const command command_explain = {
    "explain", "OP key=value... [--device NAME] [--json]",
    "which variant a plan takes, and why not the others",
    "Names each variant of the operator on each device with its verdict, best first.  Rank 0 is "
    "what\n"
    "a plan takes.  Keys that are left out have their defaults.  Example:\n"
    "  opreg explain matmul_bt_quant m=1 n=4096 k=4096 b=q4_k x=f32 y=f32\n",
    run_explain};
