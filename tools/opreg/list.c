/* SPDX-License-Identifier: MIT
 * list.c - opreg list: plugins, variants and flags, each with its state and the reason. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "commands.h"
#include "opreg/opreg_plugin.h"
#include "output.h"
#include "registry.h"

static const char *source_name(uint32_t source) {
    static const char *const names[] = {"default", "environment", "api", "level"};
    return source < 4 ? names[source] : "?";
}

static void list_flags(opreg_registry *reg, int json) {
    size_t count;
    opreg_flag_row *rows = registry_flags(reg, &count);
    if (!json) {
        printf("%-42s %-7s %-11s %-20s %s\n", "VARIABLE", "VALUE", "SOURCE", "VALUES", "MEANING");
    }
    for (size_t i = 0; i < count; i++) {
        const opreg_flag_row *r = &rows[i];
        if (json) {
            print_json(json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:s}", "kind", "flag", "flag",
                                 r->flag, "variable", r->variable, "value", r->value, "source",
                                 source_name(r->source), "values", r->values, "summary",
                                 r->summary));
        } else {
            printf("%-42s %-7s %-11s %-20s %s\n", r->variable, r->value, source_name(r->source),
                   r->values, r->summary);
        }
    }
    free(rows);
}

static void list_plugins(opreg_registry *reg, int json) {
    size_t count;
    opreg_plugin_row *rows = registry_plugins(reg, &count);
    if (!json) {
        printf("%-14s %-9s %-8s %-24s %s\n", "PLUGIN", "STATE", "VERSION", "ARCHS", "FROM");
    }
    for (size_t i = 0; i < count; i++) {
        const opreg_plugin_row *r = &rows[i];
        if (json) {
            print_json(json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s}", "kind", "plugin",
                                 "plugin", r->name, "state", plugin_state_name(r->state), "version",
                                 r->version, "built_with", r->built_with, "archs", r->archs,
                                 "reason", r->reason, "path", r->path));
        } else {
            printf("%-14s %-9s %-8s %-24s %s\n", r->name, plugin_state_name(r->state), r->version,
                   r->archs, r->path);
            if (r->reason[0]) {
                printf("%-14s   %s\n", "", r->reason);
            }
        }
    }
    free(rows);
}

static void list_devices(opreg_registry *reg, int json) {
    size_t count;
    opreg_device *rows = registry_devices(reg, &count);
    char name[96];
    if (!json) {
        printf("\n%-24s %6s %10s  %s\n", "DEVICE", "UNITS", "MEMORY", "NAME");
    }
    for (size_t i = 0; i < count; i++) {
        const opreg_device *r = &rows[i];
        if (json) {
            print_json(json_pack("{s:s, s:s, s:i, s:o, s:s, s:s}", "kind", "device", "device",
                                 device_name(r, name), "units", (int)r->units, "memory_bytes",
                                 json_bytes(r->memory_bytes), "arch", r->arch, "name", r->name));
        } else {
            printf("%-24s %6u %8.1f G  %s\n", device_name(r, name), r->units,
                   (double)r->memory_bytes / 1073741824.0, r->name);
        }
    }
    free(rows);
}

static void list_kernels(opreg_registry *reg, int json, const char *plugin) {
    size_t count;
    opreg_kernel_row *rows = registry_kernels(reg, &count);
    if (!json) {
        printf("\n%-38s %-3s %-9s %-18s %8s  %s\n", "VARIANT", "ON", "LEVEL", "OPERATOR",
               "PRIORITY", "SUMMARY");
    }
    for (size_t i = 0; i < count; i++) {
        const opreg_kernel_row *r = &rows[i];
        const char *op = opreg_op_name((opreg_op)r->op);
        int baseline = (r->kernel_flags & OPREG_KF_BASELINE) != 0;
        if (plugin && strcmp(plugin, r->plugin) != 0) {
            continue;
        }
        if (json) {
            print_json(json_pack(
                "{s:s, s:s, s:s, s:s, s:s, s:s, s:b, s:b, s:b, s:b, s:b, s:i, s:s, s:s, s:f}", "kind",
                "variant", "plugin", r->plugin, "kernel", r->kernel, "op", op, "level",
                level_name(r->level), "variable", r->variable, "enabled", (int)r->enabled,
                "baseline", baseline, "graph_safe", (r->kernel_flags & OPREG_KF_GRAPH_SAFE) != 0,
                "deterministic", (r->kernel_flags & OPREG_KF_DETERMINISTIC) != 0, "width_invariant",
                (r->kernel_flags & OPREG_KF_WIDTH_INVARIANT) != 0, "priority", (int)r->priority,
                "formats", r->formats, "summary", r->summary, "band", r->band));
        } else {
            char name[100];
            snprintf(name, sizeof name, "%s/%s", r->plugin, r->kernel);
            printf("%-38s %-3s %-9s %-18s %8d  %s", name, r->enabled ? "on" : "off",
                   level_name(r->level), op, r->priority, r->summary);
            if (r->band > 0) {
                printf(", NMSE up to %.0e", r->band);
            }
            printf("\n");
        }
    }
    free(rows);
}

/* -1 when there is such a plugin, also one that is off. */
static int check_plugin(const command *self, opreg_registry *reg, const char *plugin) {
    size_t count, i = 0;
    opreg_plugin_row *rows = registry_plugins(reg, &count);
    const char **names = calloc(count + 1, sizeof *names), *near = NULL;
    int status = -1;
    while (i < count && strcmp(rows[i].name, plugin) != 0) {
        i++;
    }
    if (i == count) {
        for (i = 0; names && i < count; i++) {
            names[i] = rows[i].name;
        }
        near = names ? nearest_name(plugin, names, sizeof *names, count) : NULL;
        status =
            near ? complain(self, "no plugin '%s'; did you mean %s?", plugin, near)
                 : complain(self, "no plugin '%s'; opreg list prints those that are there", plugin);
    }
    free(names);
    free(rows);
    return status;
}

static int run_list(const command *self, int argc, char **argv) {
    int env = 0, json = 0, status;
    const char *plugin = NULL;
    size_t others;
    opreg_registry *reg;
    const option table[] = {
        {"--env", NULL, OPTION_SWITCH, &env,
         "the flags: variable, value in force, where it is from"},
        {"--plugin", "NAME", OPTION_TEXT, &plugin, "variants of this plugin only"},
        {"--json", NULL, OPTION_SWITCH, &json, "one object a line (docs/command.md has the keys)"},
        {NULL, NULL, OPTION_SWITCH, NULL, NULL}};
    status = options_read(self, table, argc, argv, NULL, 0, &others);
    if (status >= 0) {
        return status;
    }
    reg = registry_open(self, 1);
    if (!reg) {
        return EXIT_FAILED;
    }
    status = plugin ? check_plugin(self, reg, plugin) : -1;
    if (status >= 0) {
        opreg_destroy(reg);
        return status;
    }
    if (env) {
        list_flags(reg, json);
    } else {
        list_plugins(reg, json);
        list_devices(reg, json);
        list_kernels(reg, json, plugin);
    }
    opreg_destroy(reg);
    return EXIT_HELD;
}

const command command_list = {
    "list", "[--env] [--plugin NAME] [--json]", "plugins, devices, variants and flags",
    "Prints every plugin that a manifest announces with its state and the reason, the devices of\n"
    "those that are open, and every variant with its level and whether a plan may take it.\n",
    run_list};
