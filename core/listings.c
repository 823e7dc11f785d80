/* SPDX-License-Identifier: MIT
 * listings.c - devices, plugins, kernels and flags as rows for callers, and the tools' io tables. */
#include <stdio.h>
#include <string.h>

#include "error.h"
#include "select.h"

/* Where the next row goes; rows past cap are counted only. */
typedef struct listing {
    unsigned char *rows;
    size_t row_bytes, cap, count;
} listing;

static void put(listing *out, const void *row, size_t known) {
    if (out->rows != NULL && out->count < out->cap) {
        struct_store(out->rows + out->count * out->row_bytes, out->row_bytes, row, known);
    }
    out->count++;
}

/* Runs one listing under the lock; 0 rows when there is no registry or no lock to be had. */
static size_t list(opreg_registry *reg, void (*fill)(opreg_registry *reg, listing *out), void *rows,
                   size_t row_bytes, size_t cap) {
    listing out = {rows, row_bytes, cap, 0};
    if (reg == NULL || registry_lock(reg) != OPREG_OK) {
        return 0;
    }
    fill(reg, &out);
    registry_unlock(reg);
    return out.count;
}

static void copy_text(char *out, size_t cap, const char *text) {
    snprintf(out, cap, "%.*s", (int)cap - 1, text != NULL ? text : "");
}

static void fill_devices(opreg_registry *reg, listing *out) {
    for (size_t i = 0; i < reg->num_plugins; i++) {
        const plugin_entry *entry = reg->plugins[i];
        for (size_t d = 0; plugin_is_on(entry) && d < entry->num_devices; d++) {
            opreg_device row = entry->devices[d];
            int seen = 0;
            for (size_t j = 0; j < i && !seen; j++) {
                seen = plugin_is_on(reg->plugins[j]) && plugin_device(reg->plugins[j], &row) != NULL;
            }
            if (!seen) {
                put(out, &row, sizeof row);
            }
        }
    }
}

size_t opreg_devices(opreg_registry *reg, opreg_device *rows, size_t row_bytes, size_t cap) {
    return list(reg, fill_devices, rows, row_bytes, cap);
}

static void fill_plugins(opreg_registry *reg, listing *out) {
    for (size_t i = 0; i < reg->num_plugins; i++) {
        const plugin_entry *entry = reg->plugins[i];
        opreg_plugin_row row = {0};
        int open = entry->table.name != NULL;
        row.state = entry->state;
        if (open && !flags_on(&reg->flags, entry->flag)) {
            row.state = OPREG_PLUGIN_OFF;
        }
        copy_text(row.name, sizeof row.name, entry->name);
        copy_text(row.version, sizeof row.version, open ? entry->table.version : "");
        copy_text(row.built_with, sizeof row.built_with,
                  open                   ? entry->table.built_with
                  : entry->about != NULL ? entry->about->built_with
                                         : "");
        copy_text(row.archs, sizeof row.archs,
                  open                   ? entry->table.archs
                  : entry->about != NULL ? entry->about->archs
                                         : "");
        copy_text(row.path, sizeof row.path, entry->path);
        if (row.state == OPREG_PLUGIN_OFF && entry->conflict[0] == '\0') {
            snprintf(row.reason, sizeof row.reason, "set %s=on",
                     reg->flags.rows[entry->flag].variable);
        } else {
            copy_text(row.reason, sizeof row.reason,
                      entry->conflict[0] != '\0' ? entry->conflict : entry->reason);
        }
        put(out, &row, sizeof row);
    }
}

size_t opreg_plugins(opreg_registry *reg, opreg_plugin_row *rows, size_t row_bytes, size_t cap) {
    return list(reg, fill_plugins, rows, row_bytes, cap);
}

static void join_formats(const opreg_registry *reg, const uint32_t *formats, char *out,
                         size_t cap) {
    size_t at = 0;
    out[0] = '\0';
    for (; formats != NULL && *formats != 0 && at < cap; formats++) {
        const char *name = opreg_dtype_name(*formats);
        int wrote;
        for (size_t i = 0; i < reg->num_formats; i++) {
            name = reg->formats[i]->id == *formats ? reg->formats[i]->name : name;
        }
        wrote = snprintf(out + at, cap - at, "%s%s", at > 0 ? " " : "", name);
        if (wrote < 0 || (size_t)wrote >= cap - at) {
            if (at + 4 < cap) { /* never half a name */
                memcpy(out + at, " ...", 5);
            } else {
                out[at] = '\0';
            }
            return;
        }
        at += (size_t)wrote;
    }
}

static void fill_kernel(const plugin_entry *entry, size_t k, listing *out) {
    const opreg_kernel *kernel = &entry->kernels[k];
    const flag_setting *flag = &entry->reg->flags.rows[entry->kernel_flags[k]];
    opreg_kernel_row row = {.op = kernel->op,
                            .level = kernel->level,
                            .kernel_flags = kernel->flags,
                            .priority = kernel->priority,
                            .enabled = (uint32_t)kernel_is_on(entry, k),
                            .band = kernel->band};
    copy_text(row.plugin, sizeof row.plugin, entry->name);
    copy_text(row.kernel, sizeof row.kernel, kernel->name);
    copy_text(row.flag, sizeof row.flag, flag->flag);
    copy_text(row.variable, sizeof row.variable, flag->variable);
    join_formats(entry->reg, kernel->formats, row.formats, sizeof row.formats);
    copy_text(row.summary, sizeof row.summary, kernel->summary);
    put(out, &row, sizeof row);
}

/* A plugin that is not open: its manifest knows the names of its kernels, and no more. */
static void fill_closed_kernels(const plugin_entry *entry, listing *out) {
    const char *words = entry->about != NULL ? entry->about->kernels : "";
    char word[256];
    while (next_word(&words, word, sizeof word)) {
        opreg_kernel_row row = {0};
        copy_text(row.plugin, sizeof row.plugin, entry->name);
        copy_text(row.kernel, sizeof row.kernel, word);
        snprintf(row.flag, sizeof row.flag, "%.31s/%.63s", entry->name, word);
        flags_variable(row.flag, row.variable, sizeof row.variable);
        put(out, &row, sizeof row);
    }
}

static void fill_kernels(opreg_registry *reg, listing *out) {
    for (size_t i = 0; i < reg->num_plugins; i++) {
        const plugin_entry *entry = reg->plugins[i];
        if (entry->table.name == NULL) {
            fill_closed_kernels(entry, out);
        }
        for (size_t k = 0; k < entry->table.num_kernels; k++) {
            fill_kernel(entry, k, out);
        }
    }
}

size_t opreg_kernels(opreg_registry *reg, opreg_kernel_row *rows, size_t row_bytes, size_t cap) {
    return list(reg, fill_kernels, rows, row_bytes, cap);
}

/* The word that follows from the plugin's level for a variant without a word of its own. */
static int implied_word(opreg_registry *reg, const flag_setting *flag, const char **word) {
    const char *slash = strchr(flag->flag, '/');
    char name[96];
    const plugin_entry *entry;
    if (!flag->implied || slash == NULL) {
        return 0;
    }
    snprintf(name, sizeof name, "%.*s", (int)(slash - flag->flag), flag->flag);
    entry = registry_plugin(reg, name);
    for (size_t k = 0; entry != NULL && k < entry->table.num_kernels; k++) {
        if (strcmp(entry->kernels[k].name, slash + 1) == 0) {
            *word = kernel_is_on(entry, k) ? "on" : "off";
            return 1;
        }
    }
    return 0;
}

static void fill_flags(opreg_registry *reg, listing *out) {
    for (size_t i = 0; i < reg->flags.count; i++) {
        const flag_setting *flag = &reg->flags.rows[i];
        opreg_flag_row row = {0};
        const char *word = flags_word(&reg->flags, i, &row.source);
        if (i == reg->flag_strict && reg->strict && row.source == OPREG_SOURCE_DEFAULT) {
            word = "on"; /* OPREG_CF_STRICT */
            row.source = OPREG_SOURCE_API;
        }
        if (i == reg->flag_shadow_dir && strncmp(reg->shadow_dir, word, sizeof row.value - 1) != 0) {
            word = reg->shadow_dir;
            row.source = OPREG_SOURCE_API;
        }
        if (row.source == OPREG_SOURCE_DEFAULT && implied_word(reg, flag, &word)) {
            row.source = OPREG_SOURCE_LEVEL;
        }
        copy_text(row.flag, sizeof row.flag, flag->flag);
        copy_text(row.variable, sizeof row.variable, flag->variable);
        copy_text(row.value, sizeof row.value, word);
        copy_text(row.values, sizeof row.values, flags_words((flag_kind)flag->kind));
        copy_text(row.summary, sizeof row.summary, flag->summary);
        put(out, &row, sizeof row);
    }
}

size_t opreg_flags(opreg_registry *reg, opreg_flag_row *rows, size_t row_bytes, size_t cap) {
    return list(reg, fill_flags, rows, row_bytes, cap);
}

/* The open plugin that has the device; null with the reason. */
static plugin_entry *entry_of(opreg_registry *reg, const opreg_device *dev, opreg_status *status) {
    plugin_entry *entry = NULL;
    opreg_device device;
    char text[64];
    *status = device_load(dev, &device);
    if (*status == OPREG_OK) {
        *status = registry_lock(reg);
    }
    if (*status != OPREG_OK) {
        return NULL;
    }
    for (size_t i = 0; i < reg->num_plugins && entry == NULL; i++) {
        entry = plugin_device(reg->plugins[i], &device) != NULL ? reg->plugins[i] : NULL;
    }
    registry_unlock(reg);
    if (entry == NULL) {
        device_text(&device, text, sizeof text);
        *status = fail(OPREG_E_UNSUPPORTED, "no open plugin has the device %s", text);
    }
    return entry;
}

opreg_status opreg_device_io_get(opreg_registry *reg, const opreg_device *dev,
                                 const opreg_device_io **io, const opreg_host **host) {
    const plugin_entry *entry;
    opreg_status status;
    if (reg == NULL || io == NULL || host == NULL) {
        return fail(OPREG_E_ARG, "the registry, io or host pointer is null");
    }
    entry = entry_of(reg, dev, &status);
    if (entry != NULL) {
        *io = &entry->io;
        *host = &entry->host;
    }
    return status;
}

opreg_status opreg_device_steps_get(opreg_registry *reg, const opreg_device *dev,
                                    const opreg_device_steps **steps, const opreg_host **host) {
    const plugin_entry *entry;
    opreg_status status;
    if (reg == NULL || steps == NULL || host == NULL) {
        return fail(OPREG_E_ARG, "the registry, steps or host pointer is null");
    }
    entry = entry_of(reg, dev, &status);
    if (entry == NULL) {
        return status;
    }
    if (entry->table.steps == NULL) {
        return fail(OPREG_E_UNSUPPORTED, "plugin %s has no steps", entry->name);
    }
    *steps = &entry->steps;
    *host = &entry->host;
    return OPREG_OK;
}
