/* SPDX-License-Identifier: MIT
 * manifests.c - plugins that are found in directories: their flags, and opening those that are on. */
#include "plugins.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "error.h"

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
    entry = entry_new(reg, ORIGIN_MANIFEST);
    if (entry != NULL) {
        entry->about = malloc(sizeof *entry->about);
    }
    if (entry == NULL || entry->about == NULL) {
        entry_free(entry);
        return fail(OPREG_E_NOMEM, "no memory for %s", m->path);
    }
    *entry->about = *m;
    snprintf(entry->name, sizeof entry->name, "%s", m->name);
    snprintf(entry->path, sizeof entry->path, "%s", m->path);
    status = entry_append(reg, entry);
    if (status != OPREG_OK) {
        entry_free(entry);
        return status;
    }
    entry->flag = FLAG_NONE;
    status = entry_define_flag(entry, "off");
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
        if (entry->flag == FLAG_NONE || status == OPREG_E_NOMEM) {
            /* without a flag it cannot be switched on; without memory it may be found again */
            reg->num_plugins--;
            entry_free(entry);
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
        registry_complain(s->reg, opreg_last_error());
        if (s->status == OPREG_OK) {
            s->status = status;
            snprintf(s->text, sizeof s->text, "%s", opreg_last_error());
        }
    }
    free(m);
}

/* Reads every manifest it can; the status is that of the first it cannot. */
opreg_status manifests_read(opreg_registry *reg, const char *dir) {
    search s = {.reg = reg};
    struct stat about;
    opreg_status status;
    if (stat(dir, &about) == 0 && (about.st_mode & S_IWOTH) != 0) {
        char line[700];
        snprintf(line, sizeof line, "every user may write into the plugin directory %s%s", dir,
                 reg->flags.elevated ? ": it is not used" : "");
        registry_complain(reg, line);
        if (reg->flags.elevated) {
            return fail(OPREG_E_LOAD, "%s", line);
        }
    }
    status = discover_directory(dir, found_manifest, &s);
    if (status == OPREG_OK && s.status != OPREG_OK) {
        status = fail(s.status, "%s", s.text);
    }
    return status;
}

/* Opens what is switched on and not open yet; a failure is a complaint. */
void manifests_open_enabled(opreg_registry *reg) {
    for (size_t i = 0; i < reg->num_plugins; i++) {
        plugin_entry *entry = reg->plugins[i];
        if (entry->state != OPREG_PLUGIN_OFF || !flags_on(&reg->flags, entry->flag)) {
            continue;
        }
        if (entry_open(entry) != OPREG_OK) {
            registry_complain(reg, entry->reason);
        }
    }
}

/* A variant that is switched on in a plugin that stays closed. */
void manifests_warn_closed(opreg_registry *reg) {
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
        status = manifests_read(reg, absolute_dir);
        manifests_open_enabled(reg);
        registry_unlock(reg);
    }
    return status;
}
