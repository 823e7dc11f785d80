/* SPDX-License-Identifier: MIT
 * options.c - reads command lines by the tables of options.h. */
#include "options.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LONGEST_WORD 63

/* Set while options_visit runs a command, whose table only options_read sees. */
static struct {
    option_visit visit;
    void *user;
} visitor;

void options_visit(const command *self, option_visit visit, void *user) {
    char name[] = "opreg", *argv[] = {name, NULL};
    visitor.visit = visit;
    visitor.user = user;
    self->run(self, 1, argv);
    visitor.visit = NULL;
}

int complain(const command *self, const char *format, ...) {
    va_list list;
    fprintf(stderr, "opreg %s: ", self->name);
    va_start(list, format);
    vfprintf(stderr, format, list);
    va_end(list);
    fputc('\n', stderr);
    return EXIT_BAD_INPUT;
}

/* Insertions, deletions and replacements that make one word the other. */
static size_t distance(const char *a, const char *b) {
    size_t row[LONGEST_WORD + 1], a_length = strlen(a), b_length = strlen(b);
    if (a_length > LONGEST_WORD || b_length > LONGEST_WORD) {
        return LONGEST_WORD;
    }
    for (size_t j = 0; j <= b_length; j++) {
        row[j] = j;
    }
    for (size_t i = 1; i <= a_length; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= b_length; j++) {
            size_t replaced = diagonal + (a[i - 1] != b[j - 1]);
            size_t shorter = row[j] < row[j - 1] ? row[j] : row[j - 1];
            diagonal = row[j];
            row[j] = replaced < shorter + 1 ? replaced : shorter + 1;
        }
    }
    return row[b_length];
}

const char *nearest_name(const char *word, const char *const *first, size_t stride, size_t count) {
    const char *best = NULL;
    size_t least = strlen(word) / 3 + 2; /* farther than that is another word */
    for (size_t i = 0; i < count; i++) {
        const char *name;
        memcpy(&name, (const char *)first + i * stride, sizeof name);
        size_t apart = distance(word, name);
        if (apart < least) {
            least = apart;
            best = name;
        }
    }
    return best;
}

static void print_help(const command *self, const option *table) {
    printf("usage: opreg %s %s\n\n%s\n", self->name, self->usage, self->text);
    puts("options");
    for (const option *o = table;; o++) {
        char left[48];
        const char *help = o->name ? o->help : "this text";
        snprintf(left, sizeof left, "%s%s%s", o->name ? o->name : "--help",
                 o->name && o->argument ? " " : "", o->name && o->argument ? o->argument : "");
        printf("  %-22s ", left);
        for (; *help; help++) {
            putchar(*help);
            if (*help == '\n') {
                printf("%25s", "");
            }
        }
        putchar('\n');
        if (!o->name) {
            return;
        }
    }
}

static int read_value(const command *self, const option *o, const char *text) {
    char *end;
    long long number;
    option_list *list;
    switch (o->kind) {
    case OPTION_SWITCH:
        *(int *)o->value = 1;
        return -1;
    case OPTION_TEXT:
    case OPTION_FILE:
        *(const char **)o->value = text;
        return -1;
    case OPTION_LIST:
        list = o->value;
        if (list->count == OPTION_LIST_MAX) {
            return complain(self, "%s is given more than %d times", o->name, OPTION_LIST_MAX);
        }
        list->items[list->count++] = text;
        return -1;
    case OPTION_INTEGER:
        errno = 0;
        number = strtoll(text, &end, 10);
        if (errno != 0 || end == text || *end != '\0' || number < 0) {
            return complain(self, "%s takes a number from 0, not '%s'", o->name, text);
        }
        *(int64_t *)o->value = number;
        return -1;
    }
    return -1;
}

int options_read(const command *self, const option *table, int argc, char **argv,
                 const char **others, size_t cap, size_t *count) {
    size_t rows = 0;
    int only_others = 0, status;
    *count = 0;
    while (table[rows].name) {
        if (visitor.visit) {
            visitor.visit(visitor.user, &table[rows]);
        }
        rows++;
    }
    if (visitor.visit) {
        return EXIT_HELD;
    }
    for (int i = 1; i < argc; i++) {
        const char *word = argv[i], *equals = strchr(word, '='), *value = NULL;
        const option *found = NULL;
        if (only_others || word[0] != '-' || word[1] == '\0') {
            if (*count == cap) {
                return complain(self, "'%s' is one argument too many; usage: opreg %s %s", word,
                                self->name, self->usage);
            }
            others[(*count)++] = word;
            continue;
        }
        if (strcmp(word, "--") == 0) {
            only_others = 1;
            continue;
        }
        if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0) {
            print_help(self, table);
            return EXIT_HELD;
        }
        for (size_t r = 0; r < rows && !found; r++) {
            size_t length = strlen(table[r].name);
            if (strncmp(word, table[r].name, length) == 0 &&
                (word[length] == '\0' || word[length] == '=')) {
                found = &table[r];
            }
        }
        if (!found) {
            char bare[LONGEST_WORD + 1];
            int length = equals ? (int)(equals - word) : (int)strlen(word);
            snprintf(bare, sizeof bare, "%.*s", length, word);
            const char *near = nearest_name(bare, &table[0].name, sizeof table[0], rows);
            return near ? complain(self, "unknown option '%s'; did you mean %s?", word, near)
                        : complain(self, "unknown option '%s'; see opreg %s --help", word,
                                   self->name);
        }
        if (found->kind == OPTION_SWITCH) {
            if (equals) {
                return complain(self, "%s takes no value", found->name);
            }
        } else if (equals) {
            value = equals + 1;
        } else if (i + 1 < argc) {
            value = argv[++i];
        } else {
            return complain(self, "%s needs its %s", found->name, found->argument);
        }
        status = read_value(self, found, value);
        if (status >= 0) {
            return status;
        }
    }
    return -1;
}
