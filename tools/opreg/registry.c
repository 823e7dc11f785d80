/* SPDX-License-Identifier: MIT
 * registry.c - opens registries and copies their listings. */
#include "registry.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "output.h"

opreg_registry *registry_open(const command *self, int64_t threads) {
    opreg_registry *reg = NULL;
    opreg_config config = {.struct_size = sizeof config};
    config.threads = threads > 4096 ? 4096u : (uint32_t)threads;
    if (opreg_create(&config, &reg) != OPREG_OK) {
        complain(self, "%s", opreg_last_error());
        return NULL;
    }
    return reg;
}

/* The four listings have one form: ask for the count, then for the rows. */
#define LISTING(type, name, function)                                                              \
    type *name(opreg_registry *reg, size_t *count) {                                               \
        size_t cap = function(reg, NULL, sizeof(type), 0), got;                                    \
        type *rows = calloc(cap ? cap : 1, sizeof(type));                                          \
        got = rows ? function(reg, rows, sizeof(type), cap) : 0;                                   \
        *count = got < cap ? got : cap;                                                            \
        return rows;                                                                               \
    }
LISTING(opreg_device, registry_devices, opreg_devices)
LISTING(opreg_plugin_row, registry_plugins, opreg_plugins)
LISTING(opreg_kernel_row, registry_kernels, opreg_kernels)
LISTING(opreg_flag_row, registry_flags, opreg_flags)

opreg_candidate *registry_explain(const command *self, opreg_registry *reg,
                                  const opreg_device *device, opreg_op op, const void *problem,
                                  size_t *count) {
    size_t cap = 0, got = 0;
    opreg_candidate *rows;
    if (opreg_explain(reg, device, op, problem, NULL, sizeof *rows, 0, &cap) != OPREG_OK) {
        complain(self, "%s", opreg_last_error());
        return NULL;
    }
    rows = calloc(cap ? cap : 1, sizeof *rows);
    if (!rows ||
        opreg_explain(reg, device, op, problem, rows, sizeof *rows, cap, &got) != OPREG_OK) {
        complain(self, "%s", rows ? opreg_last_error() : "no memory");
        free(rows);
        return NULL;
    }
    *count = got < cap ? got : cap;
    return rows;
}

const opreg_device *device_called(const opreg_device *rows, size_t count, const char *text) {
    char name[96];
    for (size_t i = 0; i < count; i++) {
        size_t length = strlen(text);
        device_name(&rows[i], name);
        if (strncmp(name, text, length) == 0 &&
            (name[length] == '\0' || name[length] == '/' || name[length] == ':')) {
            return &rows[i];
        }
    }
    return NULL;
}
