/* SPDX-License-Identifier: MIT
 * flags.c - the one parser of switches, and the only file that reads the environment. */
#define _GNU_SOURCE
#include "flags.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#include "error.h"

#define PREFIX "OPREG_"

void flags_variable(const char *flag, char *out, size_t cap) {
    size_t at = (size_t)snprintf(out, cap, "%s", PREFIX);
    for (; *flag != '\0' && at + 1 < cap; flag++) {
        char c = *flag;
        out[at++] = c >= 'a' && c <= 'z' ? (char)(c - 'a' + 'A') : c == '-' || c == '/' ? '_' : c;
    }
    out[at < cap ? at : cap - 1] = '\0';
}

/* ---- words ---------------------------------------------------------------------------------- */

const char *flags_words(flag_kind kind) {
    switch (kind) {
    case FLAG_LEVEL:
        return "off on exact fast";
    case FLAG_CPU_LEVEL:
        return "on exact fast";
    case FLAG_REFERENCE:
        return "on";
    case FLAG_TRACE:
        return "off plan run";
    case FLAG_SHADOW:
        return "off 1/n";
    case FLAG_DIR:
        return "an absolute directory";
    case FLAG_VARIANT:
    case FLAG_SWITCH:
        break;
    }
    return "off on";
}

static int is_one_of(const char *word, const char *const *words) {
    for (; *words != NULL; words++) {
        if (strcmp(word, *words) == 0) {
            return 1;
        }
    }
    return 0;
}

static int can_be_off(flag_kind kind) { return kind != FLAG_CPU_LEVEL && kind != FLAG_REFERENCE; }

/* A word in its first spelling ("yes" is "on"), or null when the kind does not take it. */
static const char *accept_word(flag_kind kind, const char *word) {
    static const char *const yes[] = {"1", "on", "true", "yes", NULL};
    static const char *const no[] = {"0", "off", "false", "no", NULL};
    static const char *const levels[] = {"exact", "fast", NULL};
    static const char *const traces[] = {"plan", "run", NULL};
    char *end;
    switch (kind) {
    case FLAG_LEVEL:
    case FLAG_CPU_LEVEL:
        if (is_one_of(word, levels)) {
            return word;
        }
        break;
    case FLAG_TRACE:
        return is_one_of(word, traces) ? word : is_one_of(word, no) ? "off" : NULL;
    case FLAG_SHADOW:
        if (strncmp(word, "1/", 2) == 0 && word[2] >= '1' && word[2] <= '9' && strlen(word) < 12) {
            return strtol(word + 2, &end, 10) > 0 && *end == '\0' ? word : NULL;
        }
        return is_one_of(word, no) ? "off" : NULL;
    case FLAG_DIR:
        return NULL; /* only the environment sets it */
    case FLAG_REFERENCE:
    case FLAG_VARIANT:
    case FLAG_SWITCH:
        break;
    }
    if (is_one_of(word, yes)) {
        return "on";
    }
    return is_one_of(word, no) && can_be_off(kind) ? "off" : NULL;
}

/* Edits (insert, delete, replace, swap of neighbours) between two names, at most 127 long. */
static size_t distance(const char *a, const char *b) {
    size_t rows[3][128] = {{0}};
    size_t *before = rows[0], *above = rows[1], *row = rows[2];
    size_t n = strlen(a), m = strlen(b);
    if (n > 127 || m > 127) {
        return 255;
    }
    for (size_t j = 0; j <= m; j++) {
        above[j] = j;
    }
    for (size_t i = 1; i <= n; i++) {
        size_t *free_row = before;
        row[0] = i;
        for (size_t j = 1; j <= m; j++) {
            size_t best = above[j - 1] + (a[i - 1] != b[j - 1]);
            best = above[j] + 1 < best ? above[j] + 1 : best;
            best = row[j - 1] + 1 < best ? row[j - 1] + 1 : best;
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
                before[j - 2] + 1 < best) {
                best = before[j - 2] + 1;
            }
            row[j] = best;
        }
        before = above;
        above = row;
        row = free_row;
    }
    return above[m];
}

/* The flag (or its variable) nearest to a wrong name; null when none is near. */
static const char *nearest(const flags *store, const char *name, int as_variable) {
    size_t limit = strlen(name) / 3 > 2 ? strlen(name) / 3 : 2;
    const char *best = NULL;
    size_t best_distance = limit + 1;
    for (size_t i = 0; i < store->count; i++) {
        const char *other = as_variable ? store->rows[i].variable : store->rows[i].flag;
        size_t d = distance(name, other);
        if (d < best_distance) {
            best_distance = d;
            best = other;
        }
    }
    return best;
}

/* ---- the store ------------------------------------------------------------------------------ */

__attribute__((format(printf, 2, 3))) static void complain(const flags *store, const char *format,
                                                           ...) {
    char line[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    if (store->complain != NULL) {
        store->complain(store->user, line);
    }
}

static char *copy_bytes(const char *from, size_t length) {
    char *out = malloc(length + 1);
    if (out != NULL) {
        memcpy(out, from, length);
        out[length] = '\0';
    }
    return out;
}

opreg_status flags_init_from(flags *store, const char *const *env, int elevated,
                             flags_complain complain_fn, void *user) {
    size_t count = 0;
    memset(store, 0, sizeof *store);
    store->elevated = elevated;
    store->complain = complain_fn;
    store->user = user;
    if (elevated || env == NULL) {
        return OPREG_OK;
    }
    for (size_t i = 0; env[i] != NULL; i++) {
        count += strncmp(env[i], PREFIX, strlen(PREFIX)) == 0;
    }
    store->env = calloc(count + 1, sizeof *store->env);
    if (store->env == NULL) {
        return fail(OPREG_E_NOMEM, "no memory for %zu variables", count);
    }
    for (size_t i = 0; env[i] != NULL && store->num_env < count; i++) {
        const char *equals = strchr(env[i], '=');
        flag_env *row = &store->env[store->num_env];
        if (strncmp(env[i], PREFIX, strlen(PREFIX)) != 0 || equals == NULL) {
            continue;
        }
        row->variable = copy_bytes(env[i], (size_t)(equals - env[i]));
        row->value = copy_bytes(equals + 1, strlen(equals + 1));
        store->num_env++;
        if (row->variable == NULL || row->value == NULL) {
            flags_free(store);
            return fail(OPREG_E_NOMEM, "no memory for the variables");
        }
    }
    return OPREG_OK;
}

opreg_status flags_init(flags *store, int read_env, flags_complain complain_fn, void *user) {
    const char *const *env = (const char *const *)environ;
    return flags_init_from(store, read_env ? env : NULL, getauxval(AT_SECURE) != 0, complain_fn,
                           user);
}

void flags_free(flags *store) {
    for (size_t i = 0; i < store->num_env; i++) {
        free(store->env[i].variable);
        free(store->env[i].value);
    }
    free(store->env);
    free(store->rows);
    free(store->by_flag);
    free(store->by_variable);
    free(store->removed);
    memset(store, 0, sizeof *store);
}

/* Whether the environment's directory may be used: absolute and there. */
static void read_directory(flags *store, flag_setting *row, const char *value) {
    if (value[0] != '/') {
        complain(store, "%s=\"%s\" is not an absolute path: it is not used", row->variable, value);
    } else if (access(value, R_OK | X_OK) != 0) {
        complain(store, "%s=\"%s\" is not a directory that can be read: it is not used",
                 row->variable, value);
    } else {
        row->text = value;
        snprintf(row->env, sizeof row->env, "%s", value);
    }
}

static void read_variable(flags *store, flag_setting *row) {
    for (size_t i = 0; i < store->num_env; i++) {
        const char *value = store->env[i].value, *word;
        if (strcmp(store->env[i].variable, row->variable) != 0) {
            continue;
        }
        store->env[i].known = 1;
        if (row->kind == FLAG_DIR) {
            read_directory(store, row, value);
            continue;
        }
        row->text = value;
        word = accept_word((flag_kind)row->kind, value);
        if (word == NULL) {
            word = can_be_off((flag_kind)row->kind) ? "off" : "on";
            complain(store, "%s=\"%s\" counts as %s: it takes %s", row->variable, value, word,
                     flags_words((flag_kind)row->kind));
        }
        snprintf(row->env, sizeof row->env, "%s", word);
    }
}

/* ---- look-up: a process may find thousands of plugins, with dozens of flags each ------------- */

static const char *name_of(const flags *store, const size_t *table, size_t row) {
    return table == store->by_flag ? store->rows[row].flag : store->rows[row].variable;
}

/* The place of a name in one of the tables, or the free place where it would go. */
static size_t place_of(const flags *store, const size_t *table, const char *name) {
    size_t places = store->cap * 2, hash = 5381, at;
    for (const char *c = name; *c != '\0'; c++) {
        hash = hash * 33 + (unsigned char)*c;
    }
    for (at = hash % places; table[at] != 0; at = (at + 1) % places) {
        if (strcmp(name_of(store, table, table[at] - 1), name) == 0) {
            break;
        }
    }
    return at;
}

static void enter_row(flags *store, size_t row) {
    store->by_flag[place_of(store, store->by_flag, store->rows[row].flag)] = row + 1;
    store->by_variable[place_of(store, store->by_variable, store->rows[row].variable)] = row + 1;
}

static opreg_status grow(flags *store, const char *flag) {
    size_t cap = store->cap > 0 ? store->cap * 2 : 32;
    flag_setting *rows = realloc(store->rows, cap * sizeof *rows);
    size_t *by_flag = NULL, *by_variable = NULL;
    if (rows != NULL) {
        store->rows = rows;
        by_flag = calloc(cap * 2, sizeof *by_flag);
        by_variable = calloc(cap * 2, sizeof *by_variable);
    }
    if (by_flag == NULL || by_variable == NULL) {
        free(by_flag);
        free(by_variable);
        return fail(OPREG_E_NOMEM, "no memory for the flag %s", flag);
    }
    free(store->by_flag);
    free(store->by_variable);
    store->by_flag = by_flag;
    store->by_variable = by_variable;
    store->cap = cap;
    for (size_t i = 0; i < store->count; i++) {
        enter_row(store, i);
    }
    return OPREG_OK;
}

size_t flags_find(const flags *store, const char *flag) {
    size_t row = store->cap > 0 ? store->by_flag[place_of(store, store->by_flag, flag)] : 0;
    return row != 0 ? row - 1 : FLAG_NONE;
}

opreg_status flags_define(flags *store, const char *flag, flag_kind kind, const char *standard,
                          const char *summary, size_t *index) {
    flag_setting *row;
    char variable[128];
    size_t found = flags_find(store, flag), other;
    if (found != FLAG_NONE && store->rows[found].kind != kind) {
        return fail(OPREG_E_ARG, "the flag %s is another one's already: \"%s\"", flag,
                    store->rows[found].summary);
    }
    if (found != FLAG_NONE) {
        if (summary[0] != '\0') {
            snprintf(store->rows[found].summary, sizeof store->rows[found].summary, "%s", summary);
        }
        *index = found;
        return OPREG_OK;
    }
    if (strlen(flag) >= sizeof row->flag) {
        return fail(OPREG_E_ARG, "the flag \"%s\" is longer than %zu", flag, sizeof row->flag - 1);
    }
    flags_variable(flag, variable, sizeof variable);
    if (store->count == store->cap && grow(store, flag) != OPREG_OK) {
        return OPREG_E_NOMEM;
    }
    other = store->by_variable[place_of(store, store->by_variable, variable)];
    if (other != 0) {
        return fail(OPREG_E_ARG, "the flags %s and %s would share the variable %s",
                    store->rows[other - 1].flag, flag, variable);
    }
    row = &store->rows[store->count];
    memset(row, 0, sizeof *row);
    row->kind = kind;
    snprintf(row->flag, sizeof row->flag, "%s", flag);
    snprintf(row->variable, sizeof row->variable, "%s", variable);
    snprintf(row->standard, sizeof row->standard, "%s", standard);
    snprintf(row->summary, sizeof row->summary, "%s", summary);
    *index = store->count++;
    enter_row(store, *index);
    read_variable(store, row);
    return OPREG_OK;
}

opreg_status flags_define_removed(flags *store, const char *flag, const char *instead) {
    flag_removed *rows = realloc(store->removed, (store->num_removed + 1) * sizeof *rows);
    if (rows == NULL) {
        return fail(OPREG_E_NOMEM, "no memory for the removed flag %s", flag);
    }
    store->removed = rows;
    flags_variable(flag, rows[store->num_removed].variable, sizeof rows->variable);
    rows[store->num_removed].instead[0] = '\0';
    if (instead[0] != '\0') {
        flags_variable(instead, rows[store->num_removed].instead, sizeof rows->instead);
    }
    store->num_removed++;
    return OPREG_OK;
}

void flags_check_unknown(flags *store) {
    for (size_t i = 0; i < store->num_env; i++) {
        const char *name = store->env[i].variable, *near;
        const flag_removed *gone = NULL;
        if (store->env[i].known) {
            continue;
        }
        store->env[i].known = 1;
        for (size_t j = 0; j < store->num_removed; j++) {
            gone = strcmp(store->removed[j].variable, name) == 0 ? &store->removed[j] : gone;
        }
        near = nearest(store, name, 1);
        if (gone != NULL && gone->instead[0] != '\0') {
            complain(store, "%s is gone: use %s", name, gone->instead);
        } else if (gone != NULL) {
            complain(store, "%s is gone, and nothing takes its place", name);
        } else if (near != NULL) {
            complain(store, "%s is not a variable of opreg: did you mean %s?", name, near);
        } else {
            complain(store, "%s is not a variable of opreg: `opreg list --env` lists them", name);
        }
    }
}

opreg_status flags_set(flags *store, const char *flag, const char *word, size_t *index) {
    const char *accepted;
    size_t found;
    if (flag == NULL || word == NULL) {
        return fail(OPREG_E_ARG, "the %s is null", flag == NULL ? "flag" : "word");
    }
    found = flags_find(store, flag);
    if (found == FLAG_NONE) {
        const char *near = nearest(store, flag, 0);
        return near != NULL ? fail(OPREG_E_ARG, "\"%s\" is not a flag: did you mean %s?", flag, near)
                            : fail(OPREG_E_ARG, "\"%s\" is not a flag of this registry", flag);
    }
    accepted = accept_word((flag_kind)store->rows[found].kind, word);
    if (accepted == NULL) {
        return fail(OPREG_E_ARG, "%s does not take \"%s\", it takes: %s", flag, word,
                    flags_words((flag_kind)store->rows[found].kind));
    }
    snprintf(store->rows[found].api, sizeof store->rows[found].api, "%s", accepted);
    *index = found;
    return OPREG_OK;
}

const char *flags_word(const flags *store, size_t index, uint32_t *source) {
    const flag_setting *row = &store->rows[index];
    const char *word = row->api[0] != '\0' ? row->api : row->env[0] != '\0' ? row->env : NULL;
    if (source != NULL) {
        *source = row->api[0] != '\0'   ? OPREG_SOURCE_API
                  : row->env[0] != '\0' ? OPREG_SOURCE_ENV
                                        : OPREG_SOURCE_DEFAULT;
    }
    return word != NULL ? word : row->standard;
}

int flags_on(const flags *store, size_t index) {
    return strcmp(flags_word(store, index, NULL), "off") != 0;
}

const char *flags_text(const flags *store, size_t index) { return store->rows[index].text; }
