/* SPDX-License-Identifier: MIT
 * registry.c - makes and ends registries, and sets their flags. */
#define _GNU_SOURCE
#include "registry.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "error.h"
#include "loader.h"
#include "plugins.h"

/* ---- complaints ----------------------------------------------------------------------------- */

/* A warning that strict mode turns into an error of creation. */
void registry_complain(void *user, const char *line) {
    opreg_registry *reg = user;
    size_t old = reg->complaints != NULL ? strlen(reg->complaints) : 0, more = strlen(line);
    char *all;
    registry_log(reg, OPREG_LOG_WARN, "%s", line);
    if (!reg->creating) {
        return;
    }
    all = realloc(reg->complaints, old + more + 3);
    if (all != NULL) {
        snprintf(all + old, more + 3, "%s%s", old > 0 ? "; " : "", line);
        reg->complaints = all;
    }
}

/* ---- creation ------------------------------------------------------------------------------- */

static opreg_status define_core_flags(opreg_registry *reg) {
    const struct {
        const char *flag, *summary;
        flag_kind kind;
        size_t *index;
    } rows[] = {
        {"trace", "lines about plans, or about plans and runs", FLAG_TRACE, &reg->flag_trace},
        {"strict", "a baseline taken in place of a switched-on variant is an error", FLAG_SWITCH,
         &reg->flag_strict},
        {"shadow", "every n-th run also runs the reference variant and compares", FLAG_SHADOW,
         &reg->flag_shadow},
        {"guard", "outputs and workspace get guard bands and fill patterns", FLAG_SWITCH,
         &reg->flag_guard},
        {"shadow-dir", "where shadow leaves a file that reproduces a difference", FLAG_DIR,
         &reg->flag_shadow_dir},
        {"plugin-dir", "one more directory with manifests", FLAG_DIR, &reg->flag_dir},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        opreg_status status = flags_define(&reg->flags, rows[i].flag, rows[i].kind,
                                           rows[i].kind == FLAG_DIR ? "" : "off", rows[i].summary,
                                           rows[i].index);
        if (status != OPREG_OK) {
            return status;
        }
    }
    return OPREG_OK;
}

/* What follows from the words of trace, strict, shadow and guard. */
static void apply_core_flags(opreg_registry *reg) {
    const char *trace = flags_word(&reg->flags, reg->flag_trace, NULL);
    uint32_t source;
    atomic_store(&reg->trace, strcmp(trace, "run") == 0 ? 2 : strcmp(trace, "plan") == 0);
    reg->strict = flags_on(&reg->flags, reg->flag_strict);
    flags_word(&reg->flags, reg->flag_strict, &source);
    if (source != OPREG_SOURCE_API && (reg->config.flags & OPREG_CF_STRICT) != 0) {
        reg->strict = 1;
    }
    reg->shadow_every = flags_on(&reg->flags, reg->flag_shadow)
                            ? strtoull(flags_word(&reg->flags, reg->flag_shadow, NULL) + 2, NULL, 10)
                            : 0;
    reg->guard_on = flags_on(&reg->flags, reg->flag_guard);
    atomic_store(&reg->watching,
                 atomic_load(&reg->trace) > 0 || reg->shadow_every > 0 || reg->guard_on);
}

static opreg_status add_built_in(opreg_registry *reg) {
    plugin_entry *entry = entry_new(reg, ORIGIN_BUILT_IN);
    opreg_status status;
    if (entry == NULL) {
        return fail(OPREG_E_NOMEM, "no memory for the built-in backend");
    }
    snprintf(entry->name, sizeof entry->name, "cpu");
    snprintf(entry->path, sizeof entry->path, "(built in)");
    entry->entry = opreg_cpu_entry;
    status = entry_append(reg, entry);
    if (status != OPREG_OK) {
        entry_free(entry);
        return status;
    }
    status = entry_define_flag(entry, "on");
    return status == OPREG_OK ? entry_open(entry) : status;
}

static void discover_all(opreg_registry *reg) {
    char installed[512];
    const char *more = flags_text(&reg->flags, reg->flag_dir);
    if ((reg->config.flags & OPREG_CF_NO_INSTALLED) == 0 &&
        discover_installed(installed, sizeof installed)) {
        manifests_read(reg, installed);
    }
    if (more != NULL && manifests_read(reg, more) != OPREG_OK) {
        registry_log(reg, OPREG_LOG_DEBUG, "%s", opreg_last_error());
    }
}

static void free_registry(opreg_registry *reg) {
    for (size_t i = reg->num_plugins; i > 0; i--) {
        plugin_entry *entry = reg->plugins[i - 1];
        if (entry->state == OPREG_PLUGIN_READY || entry->state == OPREG_PLUGIN_NO_DEVICE) {
            loader_close(entry);
        }
    }
    pool_destroy(reg->workers);
    for (size_t i = 0; i < reg->num_plugins; i++) {
        entry_free(reg->plugins[i]);
    }
    free(reg->plugins);
    free((void *)reg->formats);
    free(reg->complaints);
    flags_free(&reg->flags);
    summary_close(&reg->summary);
    pthread_mutex_destroy(&reg->mutex);
    free(reg);
}

static opreg_status set_up(opreg_registry *reg) {
    opreg_status status = flags_init(
        &reg->flags, (reg->config.flags & OPREG_CF_NO_ENV) == 0, registry_complain, reg);
    if (status != OPREG_OK) {
        return status;
    }
    if (reg->flags.elevated) {
        registry_log(reg, OPREG_LOG_WARN, "this process has raised rights: no OPREG_* variable is "
                                          "read, and only installed plugins are found");
    }
    status = define_core_flags(reg);
    if (status == OPREG_OK) {
        const char *dir = flags_text(&reg->flags, reg->flag_shadow_dir);
        snprintf(reg->shadow_dir, sizeof reg->shadow_dir, "%s", dir != NULL ? dir : "");
        apply_core_flags(reg);
    }
    if (status == OPREG_OK && reg->config.parallel_for == NULL) {
        status = pool_create(reg->config.threads, &reg->workers);
    }
    if (status == OPREG_OK) {
        status = add_built_in(reg);
    }
    if (status != OPREG_OK) {
        return status;
    }
    discover_all(reg);
    for (uint32_t i = 0; i < reg->config.num_entries; i++) {
        if (entry_add(reg, reg->config.entries[i]) != OPREG_OK) {
            registry_complain(reg, opreg_last_error());
        }
    }
    flags_check_unknown(&reg->flags);
    manifests_open_enabled(reg);
    manifests_warn_closed(reg);
    if (reg->strict && reg->complaints != NULL) {
        return fail(OPREG_E_STRICT, "strict: %s", reg->complaints);
    }
    return OPREG_OK;
}

opreg_status opreg_create(const opreg_config *cfg, opreg_registry **out) {
    opreg_config config = {.struct_size = sizeof config};
    const uint32_t known = OPREG_CF_STRICT | OPREG_CF_NO_ENV | OPREG_CF_NO_INSTALLED;
    opreg_registry *reg;
    opreg_status status = OPREG_OK;
    if (out == NULL) {
        return fail(OPREG_E_ARG, "the registry pointer is null");
    }
    if (cfg != NULL) {
        status = struct_load(&config, sizeof config, cfg, "opreg_config");
    }
    if (status != OPREG_OK) {
        return status;
    }
    if ((config.flags & ~known) != 0) {
        return fail(OPREG_E_ARG, "opreg_config has unknown flags 0x%x", config.flags & ~known);
    }
    if (config.reserved != 0 || config.reserved2 != 0) {
        return fail(OPREG_E_ARG, "opreg_config has a reserved field that is not 0");
    }
    for (uint32_t i = 0; i < config.num_entries; i++) {
        if (config.entries == NULL || config.entries[i] == NULL) {
            return fail(OPREG_E_ARG, "opreg_config counts %u entries, and %s null", config.num_entries,
                        config.entries == NULL ? "they are" : "one is");
        }
    }
    reg = calloc(1, sizeof *reg);
    if (reg == NULL) {
        return fail(OPREG_E_NOMEM, "no memory for a registry");
    }
    pthread_mutex_init(&reg->mutex, NULL);
    summary_open(&reg->summary);
    reg->pid = getpid();
    reg->lines_end = &reg->lines;
    reg->config = config;
    reg->creating = 1;
    registry_lock(reg);
    status = set_up(reg);
    reg->creating = 0;
    registry_unlock(reg);
    if (status != OPREG_OK) {
        free_registry(reg);
        return status;
    }
    *out = reg;
    return OPREG_OK;
}

static unsigned live_in(const opreg_registry *reg) {
    unsigned live = 0;
    for (size_t i = 0; i < reg->num_plugins; i++) {
        live += atomic_load(&reg->plugins[i]->live);
    }
    return live;
}

static void print_summary(void *reg, const char *text) { registry_trace(reg, text); }

opreg_status opreg_destroy(opreg_registry *reg) {
    unsigned live;
    opreg_status status;
    if (reg == NULL) {
        return OPREG_OK;
    }
    status = registry_lock(reg);
    if (status != OPREG_OK) {
        return status;
    }
    live = live_in(reg);
    registry_unlock(reg);
    if (live > 0) {
        return fail(OPREG_E_BUSY, "the registry has %u live plans and weights: destroy them first",
                    live);
    }
    summary_print(&reg->summary, print_summary, reg);
    free_registry(reg);
    return OPREG_OK;
}

/* ---- changes -------------------------------------------------------------------------------- */

/* A plugin was switched on: open it, or put the word back as it was. */
static opreg_status enable_plugin(opreg_registry *reg, size_t index) {
    for (size_t i = 0; i < reg->num_plugins; i++) {
        plugin_entry *entry = reg->plugins[i];
        if (entry->flag != index || !flags_on(&reg->flags, index)) {
            continue;
        }
        if (entry->state == OPREG_PLUGIN_READY || entry->state == OPREG_PLUGIN_NO_DEVICE) {
            return OPREG_OK;
        }
        return entry_open(entry);
    }
    return OPREG_OK;
}

/* The only directory that a call may set: "" takes it back. */
static opreg_status set_shadow_dir(opreg_registry *reg, const char *dir) {
    if (dir[0] != '\0' && (dir[0] != '/' || strlen(dir) >= sizeof reg->shadow_dir)) {
        return fail(OPREG_E_ARG, "shadow-dir \"%.80s\" is not an absolute path shorter than %zu", dir,
                    sizeof reg->shadow_dir);
    }
    if (dir[0] != '\0' && access(dir, W_OK | X_OK) != 0) {
        return fail(OPREG_E_ARG, "shadow-dir \"%s\": it cannot be written", dir);
    }
    snprintf(reg->shadow_dir, sizeof reg->shadow_dir, "%s", dir);
    return OPREG_OK;
}

static opreg_status enable(opreg_registry *reg, const char *flag, const char *word) {
    size_t index = flag != NULL ? flags_find(&reg->flags, flag) : FLAG_NONE;
    char before[32] = "";
    opreg_status status;
    if (index != FLAG_NONE && index == reg->flag_shadow_dir && word != NULL) {
        return set_shadow_dir(reg, word);
    }
    if (index != FLAG_NONE) {
        snprintf(before, sizeof before, "%s", reg->flags.rows[index].api);
    }
    status = flags_set(&reg->flags, flag, word, &index);
    if (status != OPREG_OK) {
        return status;
    }
    apply_core_flags(reg);
    status = enable_plugin(reg, index);
    if (status != OPREG_OK) {
        snprintf(reg->flags.rows[index].api, sizeof before, "%s", before);
    }
    return status;
}

opreg_status opreg_enable(opreg_registry *reg, const char *flag, const char *word) {
    opreg_status status;
    if (reg == NULL) {
        return fail(OPREG_E_ARG, "the registry is null");
    }
    status = registry_lock(reg);
    if (status == OPREG_OK) {
        status = enable(reg, flag, word);
        registry_unlock(reg);
    }
    return status;
}
