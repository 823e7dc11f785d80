/* SPDX-License-Identifier: MIT
 * plugins.c - the plugins of a registry: their flags, opening and closing them, adding and unloading. */
#include "plugins.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"
#include "loader.h"

plugin_entry *registry_plugin(opreg_registry *reg, const char *name) {
    if (flags_find(&reg->flags, name) == FLAG_NONE) {
        return NULL; /* every plugin has a flag, and those are found without a search */
    }
    for (size_t i = 0; i < reg->num_plugins; i++) {
        if (strcmp(reg->plugins[i]->name, name) == 0) {
            return reg->plugins[i];
        }
    }
    return NULL;
}

void entry_free(plugin_entry *entry) {
    if (entry != NULL) {
        free(entry->format_rows);
        free(entry->about);
        free(entry);
    }
}

plugin_entry *entry_new(opreg_registry *reg, plugin_origin origin) {
    plugin_entry *entry = calloc(1, sizeof *entry);
    if (entry != NULL) {
        entry->reg = reg;
        entry->origin = origin;
        host_init(entry);
    }
    return entry;
}

opreg_status entry_append(opreg_registry *reg, plugin_entry *entry) {
    plugin_entry **rows = realloc(reg->plugins, (reg->num_plugins + 1) * sizeof *rows);
    if (rows == NULL) {
        return fail(OPREG_E_NOMEM, "no memory for plugin %s", entry->name);
    }
    reg->plugins = rows;
    rows[reg->num_plugins++] = entry;
    return OPREG_OK;
}

problem_formats registry_formats(const opreg_registry *reg) {
    return (problem_formats){reg->formats, reg->num_formats};
}

/* The list of plugins' formats, made anew after an open or a close. */
static opreg_status collect_formats(opreg_registry *reg) {
    size_t count = 0;
    const opreg_plugin_format **rows;
    for (size_t i = 0; i < reg->num_plugins; i++) {
        count += reg->plugins[i]->table.num_formats;
    }
    rows = calloc(count + 1, sizeof *rows);
    if (rows == NULL) {
        return fail(OPREG_E_NOMEM, "no memory for the formats of plugins");
    }
    count = 0;
    for (size_t i = 0; i < reg->num_plugins; i++) {
        for (uint32_t f = 0; f < reg->plugins[i]->table.num_formats; f++) {
            rows[count++] = &reg->plugins[i]->formats[f];
        }
    }
    free((void *)reg->formats);
    reg->formats = rows;
    reg->num_formats = count;
    return OPREG_OK;
}

static opreg_status define_kernel_flags(plugin_entry *entry) {
    opreg_registry *reg = entry->reg;
    char flag[128];
    for (uint32_t i = 0; i < entry->table.num_kernels; i++) {
        opreg_status status;
        int is_reference = entry->origin == ORIGIN_BUILT_IN &&
                           (entry->kernels[i].flags & OPREG_KF_BASELINE) != 0;
        snprintf(flag, sizeof flag, "%s/%s", entry->name, entry->kernels[i].name);
        status = flags_define(&reg->flags, flag, is_reference ? FLAG_REFERENCE : FLAG_VARIANT,
                              is_reference ? "on" : "off", entry->kernels[i].summary,
                              &entry->kernel_flags[i]);
        if (status != OPREG_OK) {
            return status;
        }
        reg->flags.rows[entry->kernel_flags[i]].implied = 1;
    }
    return OPREG_OK;
}

opreg_status entry_define_flag(plugin_entry *entry, const char *standard) {
    opreg_registry *reg = entry->reg;
    char summary[128];
    snprintf(summary, sizeof summary, "plugin %s", entry->name);
    return flags_define(&reg->flags, entry->name,
                        entry->origin == ORIGIN_BUILT_IN ? FLAG_CPU_LEVEL : FLAG_LEVEL, standard,
                        summary, &entry->flag);
}

int plugin_is_on(const plugin_entry *entry) {
    return entry->state == OPREG_PLUGIN_READY && flags_on(&entry->reg->flags, entry->flag);
}

int kernel_is_on(const plugin_entry *entry, size_t kernel) {
    const flags *store = &entry->reg->flags;
    const opreg_kernel *k = &entry->kernels[kernel];
    const char *level = flags_word(store, entry->flag, NULL), *word;
    uint32_t source;
    if (strcmp(level, "off") == 0) {
        return 0;
    }
    word = flags_word(store, entry->kernel_flags[kernel], &source);
    if (source != OPREG_SOURCE_DEFAULT) {
        return strcmp(word, "on") == 0;
    }
    return (k->flags & OPREG_KF_BASELINE) != 0 || strcmp(level, "fast") == 0 ||
           (strcmp(level, "exact") == 0 && k->level == OPREG_LEVEL_CANONICAL);
}

static void close_plugin(plugin_entry *entry, opreg_plugin_state state) {
    loader_close(entry);
    entry->state = state;
    collect_formats(entry->reg);
}

opreg_status entry_open(plugin_entry *entry) {
    opreg_status status;
    if (entry->conflict[0] != '\0') {
        status = fail(OPREG_E_LOAD, "%s", entry->conflict);
    } else {
        registry_log(entry->reg, OPREG_LOG_DEBUG, "opening plugin %s from %s", entry->name,
                     entry->path);
        status = loader_open(entry);
    }
    if (status == OPREG_OK) {
        entry->state = entry->num_devices > 0 ? OPREG_PLUGIN_READY : OPREG_PLUGIN_NO_DEVICE;
        status = define_kernel_flags(entry);
        if (status == OPREG_OK) {
            status = collect_formats(entry->reg);
        }
        if (status != OPREG_OK) {
            close_plugin(entry, OPREG_PLUGIN_FAILED);
        }
    }
    if (status != OPREG_OK) {
        entry->state = OPREG_PLUGIN_FAILED;
        snprintf(entry->reason, sizeof entry->reason, "%s", opreg_last_error());
    } else if (entry->state == OPREG_PLUGIN_NO_DEVICE) {
        snprintf(entry->reason, sizeof entry->reason, "no device of this machine is for it (%s)",
                 entry->table.archs);
        registry_log(entry->reg, OPREG_LOG_INFO, "plugin %s is open, but %s", entry->name,
                     entry->reason);
    } else {
        entry->reason[0] = '\0';
    }
    return status;
}

opreg_status entry_add(opreg_registry *reg, opreg_entry_fn entry_fn) {
    plugin_entry *entry = entry_new(reg, ORIGIN_ADDED), *old;
    opreg_status status;
    if (entry == NULL) {
        return fail(OPREG_E_NOMEM, "no memory for a plugin");
    }
    entry->entry = entry_fn;
    snprintf(entry->path, sizeof entry->path, "(added)");
    status = loader_open(entry); /* its name is not known before */
    if (status != OPREG_OK) {
        entry_free(entry);
        return status;
    }
    snprintf(entry->name, sizeof entry->name, "%s", entry->table.name);
    old = registry_plugin(reg, entry->name);
    if (old != NULL) {
        loader_close(entry);
        if (old->origin == ORIGIN_ADDED &&
            (old->state == OPREG_PLUGIN_UNLOADED || old->state == OPREG_PLUGIN_FAILED)) {
            entry_free(entry);
            old->entry = entry_fn;
            return entry_open(old);
        }
        status = fail(OPREG_E_ARG, "a plugin named %s is there already: %s", old->name, old->path);
        entry_free(entry);
        return status;
    }
    status = entry_define_flag(entry, "on");
    if (status == OPREG_OK) {
        entry->state = entry->num_devices > 0 ? OPREG_PLUGIN_READY : OPREG_PLUGIN_NO_DEVICE;
        status = define_kernel_flags(entry);
    }
    if (status == OPREG_OK) {
        status = entry_append(reg, entry);
    }
    if (status == OPREG_OK) {
        status = collect_formats(reg);
        reg->num_plugins -= status != OPREG_OK;
    }
    if (status != OPREG_OK) {
        loader_close(entry);
        entry_free(entry);
    }
    return status;
}

opreg_status opreg_add(opreg_registry *reg, opreg_entry_fn entry) {
    opreg_status status;
    if (reg == NULL || entry == NULL) {
        return fail(OPREG_E_ARG, "the %s is null", reg == NULL ? "registry" : "entry function");
    }
    status = registry_lock(reg);
    if (status == OPREG_OK) {
        status = entry_add(reg, entry);
        registry_unlock(reg);
    }
    return status;
}

static opreg_status unload(opreg_registry *reg, const char *name) {
    plugin_entry *entry = registry_plugin(reg, name);
    unsigned live;
    if (entry == NULL) {
        return fail(OPREG_E_ARG, "there is no plugin named \"%s\"", name);
    }
    if (entry->origin == ORIGIN_BUILT_IN) {
        return fail(OPREG_E_ARG, "the built-in backend cannot be unloaded");
    }
    if (entry->state != OPREG_PLUGIN_READY && entry->state != OPREG_PLUGIN_NO_DEVICE) {
        return fail(OPREG_E_ARG, "plugin %s is not open", name);
    }
    live = atomic_load(&entry->live);
    if (live > 0) {
        return fail(OPREG_E_BUSY, "plugin %s has %u live plans and weights: destroy them first",
                    name, live);
    }
    if (atomic_load(&entry->sides) > 0) {
        return fail(OPREG_E_BUSY, "plugin %s holds side data of live weights: destroy them first", name);
    }
    close_plugin(entry, OPREG_PLUGIN_UNLOADED);
    snprintf(entry->reason, sizeof entry->reason, "taken out by opreg_unload");
    return OPREG_OK;
}

opreg_status opreg_unload(opreg_registry *reg, const char *plugin) {
    opreg_status status;
    if (reg == NULL || plugin == NULL) {
        return fail(OPREG_E_ARG, "the %s is null", reg == NULL ? "registry" : "plugin name");
    }
    status = registry_lock(reg);
    if (status == OPREG_OK) {
        status = unload(reg, plugin);
        registry_unlock(reg);
    }
    return status;
}
