/* SPDX-License-Identifier: MIT
 * registry.c - makes and ends registries, finds plugins, opens and closes them. */
#define _GNU_SOURCE
#include "registry.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "error.h"
#include "loader.h"

/* ---- complaints ----------------------------------------------------------------------------- */

/* A warning that strict mode turns into an error of creation. */
static void complain(void *user, const char *line) {
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

/* ---- plugins -------------------------------------------------------------------------------- */

plugin_entry *registry_plugin(opreg_registry *reg, const char *name) {
    for (size_t i = 0; i < reg->num_plugins; i++) {
        if (strcmp(reg->plugins[i]->name, name) == 0) {
            return reg->plugins[i];
        }
    }
    return NULL;
}

static void free_entry(plugin_entry *entry) {
    if (entry != NULL) {
        free(entry->format_rows);
        free(entry->about);
        free(entry);
    }
}

static plugin_entry *new_entry(opreg_registry *reg, plugin_origin origin) {
    plugin_entry *entry = calloc(1, sizeof *entry);
    if (entry != NULL) {
        entry->reg = reg;
        entry->origin = origin;
        host_init(entry);
    }
    return entry;
}

static opreg_status append_entry(opreg_registry *reg, plugin_entry *entry) {
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
        snprintf(flag, sizeof flag, "%s/%s", entry->name, entry->kernels[i].name);
        status = flags_define(&reg->flags, flag, FLAG_VARIANT, "off", entry->kernels[i].summary,
                              &entry->kernel_flags[i]);
        if (status != OPREG_OK) {
            return status;
        }
        reg->flags.rows[entry->kernel_flags[i]].implied = 1;
    }
    return OPREG_OK;
}

static opreg_status define_plugin_flag(plugin_entry *entry, const char *standard) {
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

static opreg_status open_plugin(plugin_entry *entry) {
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

/* ---- discovery ------------------------------------------------------------------------------ */

static opreg_status define_words(plugin_entry *entry, const char *list, flag_kind kind) {
    char word[256], flag[300];
    while (next_word(&list, word, sizeof word)) {
        size_t index;
        opreg_status status;
        snprintf(flag, sizeof flag, "%s/%s", entry->name, word);
        status = flags_define(&entry->reg->flags, flag, kind, "off", "", &index);
        if (status != OPREG_OK) {
            return status;
        }
        if (entry->reg->flags.rows[index].kind != (uint32_t)kind) {
            return fail(OPREG_E_LOAD, "%s: %s is a kernel and a switch", entry->path, word);
        }
        entry->reg->flags.rows[index].implied = kind == FLAG_VARIANT;
    }
    return OPREG_OK;
}

static opreg_status define_removed(plugin_entry *entry) {
    const char *list = entry->about->removed;
    char word[256], old[300], instead[300];
    while (next_word(&list, word, sizeof word)) {
        char *colon = strchr(word, ':');
        opreg_status status;
        if (colon != NULL) {
            *colon = '\0';
        }
        snprintf(old, sizeof old, "%s/%s", entry->name, word);
        snprintf(instead, sizeof instead, "%s/%s", entry->name, colon != NULL ? colon + 1 : "");
        status = flags_define_removed(&entry->reg->flags, old,
                                      colon != NULL && colon[1] != '\0' ? instead : "");
        if (status != OPREG_OK) {
            return status;
        }
    }
    return OPREG_OK;
}

static int same_file(const char *a, const char *b) {
    struct stat left, right;
    return stat(a, &left) == 0 && stat(b, &right) == 0 && left.st_dev == right.st_dev &&
           left.st_ino == right.st_ino;
}

/* A second manifest of one name: calm when it means the same file, else an error that names both. */
static opreg_status meet_again(plugin_entry *old, const manifest *m) {
    if (old->origin == ORIGIN_MANIFEST) {
        manifest copy = *m;
        if (same_file(old->about->path, m->path) ||
            (manifest_library(&copy) == OPREG_OK && manifest_library(old->about) == OPREG_OK &&
             same_file(old->about->library, copy.library))) {
            return OPREG_OK;
        }
    }
    fail(OPREG_E_LOAD, "two plugins are named %s: %s and %s; remove one", old->name, old->path,
         m->path);
    if (old->origin == ORIGIN_MANIFEST && old->library == NULL) {
        snprintf(old->conflict, sizeof old->conflict, "%s", opreg_last_error());
    }
    return OPREG_E_LOAD;
}

static opreg_status take_manifest(opreg_registry *reg, const manifest *m) {
    plugin_entry *entry = registry_plugin(reg, m->name);
    opreg_status status;
    if (entry != NULL) {
        return meet_again(entry, m);
    }
    entry = new_entry(reg, ORIGIN_MANIFEST);
    if (entry != NULL) {
        entry->about = malloc(sizeof *entry->about);
    }
    if (entry == NULL || entry->about == NULL) {
        free_entry(entry);
        return fail(OPREG_E_NOMEM, "no memory for %s", m->path);
    }
    *entry->about = *m;
    snprintf(entry->name, sizeof entry->name, "%s", m->name);
    snprintf(entry->path, sizeof entry->path, "%s", m->path);
    status = append_entry(reg, entry);
    if (status != OPREG_OK) {
        free_entry(entry);
        return status;
    }
    entry->flag = FLAG_NONE;
    status = define_plugin_flag(entry, "off");
    if (status == OPREG_OK) {
        status = define_words(entry, m->kernels, FLAG_VARIANT);
    }
    if (status == OPREG_OK) {
        status = define_words(entry, m->switches, FLAG_SWITCH);
    }
    if (status == OPREG_OK) {
        status = define_removed(entry);
    }
    if (status != OPREG_OK) {
        if (entry->flag == FLAG_NONE) { /* it has no flag of its own: it cannot be switched on */
            reg->num_plugins--;
            free_entry(entry);
        } else {
            snprintf(entry->conflict, sizeof entry->conflict, "%s", opreg_last_error());
            snprintf(entry->reason, sizeof entry->reason, "%s", opreg_last_error());
            entry->state = OPREG_PLUGIN_FAILED;
        }
    }
    return status;
}

typedef struct search {
    opreg_registry *reg;
    opreg_status status; /* of the first manifest that could not be taken                           */
    char text[ERROR_TEXT_BYTES];
} search;

static void found_manifest(void *user, const char *path) {
    search *s = user;
    manifest *m = malloc(sizeof *m);
    opreg_status status =
        m == NULL ? fail(OPREG_E_NOMEM, "no memory for %s", path) : manifest_read(path, m);
    if (status == OPREG_OK) {
        status = take_manifest(s->reg, m);
    }
    if (status != OPREG_OK) {
        complain(s->reg, opreg_last_error());
        if (s->status == OPREG_OK) {
            s->status = status;
            snprintf(s->text, sizeof s->text, "%s", opreg_last_error());
        }
    }
    free(m);
}

/* Reads every manifest it can; the status is that of the first it cannot. */
static opreg_status read_directory(opreg_registry *reg, const char *dir) {
    search s = {.reg = reg};
    opreg_status status = discover_directory(dir, found_manifest, &s);
    if (status == OPREG_OK && s.status != OPREG_OK) {
        status = fail(s.status, "%s", s.text);
    }
    return status;
}

/* Opens what is switched on and not open yet; a failure is a complaint. */
static void open_enabled(opreg_registry *reg) {
    for (size_t i = 0; i < reg->num_plugins; i++) {
        plugin_entry *entry = reg->plugins[i];
        if (entry->state != OPREG_PLUGIN_OFF || !flags_on(&reg->flags, entry->flag)) {
            continue;
        }
        if (open_plugin(entry) != OPREG_OK) {
            complain(reg, entry->reason);
        }
    }
}

/* A variant that is switched on in a plugin that stays closed. */
static void warn_closed(opreg_registry *reg) {
    for (size_t i = 0; i < reg->flags.count; i++) {
        const flag_setting *row = &reg->flags.rows[i];
        const char *slash = strchr(row->flag, '/');
        char name[96];
        plugin_entry *entry;
        if (slash == NULL || strcmp(row->env, "on") != 0) {
            continue;
        }
        snprintf(name, sizeof name, "%.*s", (int)(slash - row->flag), row->flag);
        entry = registry_plugin(reg, name);
        if (entry != NULL && entry->flag != FLAG_NONE && !flags_on(&reg->flags, entry->flag)) {
            registry_log(reg, OPREG_LOG_WARN, "%s is on, but plugin %s is off and stays closed: set %s=on",
                         row->variable, name, reg->flags.rows[entry->flag].variable);
        }
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
    plugin_entry *entry = new_entry(reg, ORIGIN_BUILT_IN);
    opreg_status status;
    if (entry == NULL) {
        return fail(OPREG_E_NOMEM, "no memory for the built-in backend");
    }
    snprintf(entry->name, sizeof entry->name, "cpu");
    snprintf(entry->path, sizeof entry->path, "(built in)");
    entry->entry = opreg_cpu_entry;
    status = append_entry(reg, entry);
    if (status != OPREG_OK) {
        free_entry(entry);
        return status;
    }
    status = define_plugin_flag(entry, "on");
    return status == OPREG_OK ? open_plugin(entry) : status;
}

static void discover_all(opreg_registry *reg) {
    char installed[512];
    const char *more = flags_text(&reg->flags, reg->flag_dir);
    if ((reg->config.flags & OPREG_CF_NO_INSTALLED) == 0 &&
        discover_installed(installed, sizeof installed)) {
        read_directory(reg, installed);
    }
    if (more != NULL && read_directory(reg, more) != OPREG_OK) {
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
        free_entry(reg->plugins[i]);
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
        &reg->flags, (reg->config.flags & OPREG_CF_NO_ENV) == 0, complain, reg);
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
    flags_check_unknown(&reg->flags);
    open_enabled(reg);
    warn_closed(reg);
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
    if ((config.flags & ~known) != 0 || config.reserved != 0) {
        return fail(OPREG_E_ARG, "opreg_config has unknown flags 0x%x or a reserved field that is "
                                 "not 0",
                    config.flags & ~known);
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
        return open_plugin(entry);
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

opreg_status opreg_discover(opreg_registry *reg, const char *absolute_dir) {
    opreg_status status;
    if (reg == NULL || absolute_dir == NULL) {
        return fail(OPREG_E_ARG, "the %s is null", reg == NULL ? "registry" : "directory");
    }
    if (absolute_dir[0] != '/') {
        return fail(OPREG_E_ARG, "the plugin directory \"%s\" is not an absolute path",
                    absolute_dir);
    }
    if (reg->flags.elevated) {
        return fail(OPREG_E_ARG, "this process has raised rights: only installed plugins are found");
    }
    status = registry_lock(reg);
    if (status == OPREG_OK) {
        status = read_directory(reg, absolute_dir);
        open_enabled(reg);
        registry_unlock(reg);
    }
    return status;
}

static opreg_status add(opreg_registry *reg, opreg_entry_fn entry_fn) {
    plugin_entry *entry = new_entry(reg, ORIGIN_ADDED), *old;
    opreg_status status;
    if (entry == NULL) {
        return fail(OPREG_E_NOMEM, "no memory for a plugin");
    }
    entry->entry = entry_fn;
    snprintf(entry->path, sizeof entry->path, "(added)");
    status = loader_open(entry); /* its name is not known before */
    if (status != OPREG_OK) {
        free_entry(entry);
        return status;
    }
    snprintf(entry->name, sizeof entry->name, "%s", entry->table.name);
    old = registry_plugin(reg, entry->name);
    if (old != NULL) {
        loader_close(entry);
        if (old->origin == ORIGIN_ADDED && old->state == OPREG_PLUGIN_UNLOADED) {
            free_entry(entry);
            old->entry = entry_fn;
            return open_plugin(old);
        }
        status = fail(OPREG_E_ARG, "a plugin named %s is there already: %s", old->name, old->path);
        free_entry(entry);
        return status;
    }
    status = define_plugin_flag(entry, "on");
    if (status == OPREG_OK) {
        entry->state = entry->num_devices > 0 ? OPREG_PLUGIN_READY : OPREG_PLUGIN_NO_DEVICE;
        status = define_kernel_flags(entry);
    }
    if (status == OPREG_OK) {
        status = append_entry(reg, entry);
    }
    if (status != OPREG_OK) {
        loader_close(entry);
        free_entry(entry);
        return status;
    }
    return collect_formats(reg);
}

opreg_status opreg_add(opreg_registry *reg, opreg_entry_fn entry) {
    opreg_status status;
    if (reg == NULL || entry == NULL) {
        return fail(OPREG_E_ARG, "the %s is null", reg == NULL ? "registry" : "entry function");
    }
    status = registry_lock(reg);
    if (status == OPREG_OK) {
        status = add(reg, entry);
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
