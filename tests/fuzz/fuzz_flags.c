/* SPDX-License-Identifier: MIT
 * fuzz_flags.c - any environment and any calls leave a store whose every word is one that it takes.
 * The input is lines: NAME=value is a variable, "+flag" defines, "-flag" removes, "flag word" sets. */
#include "fuzz.h"

#include "flags.h"

#define MAX_LINES 64

static void check_line(void *user, const char *line) {
    size_t *count = user;
    FUZZ_CHECK(line[0] != '\0');
    (*count)++;
}

static void do_line(flags *store, char *line) {
    char *space = strchr(line, ' ');
    size_t index;
    if (line[0] == '+') {
        size_t kind = strlen(line) % (FLAG_DIR + 1);
        if (flags_define(store, line + 1, (flag_kind)kind, "off", "a summary", &index) == OPREG_OK) {
            FUZZ_CHECK(flags_find(store, line + 1) == index && index < store->count);
        }
    } else if (line[0] == '-') {
        FUZZ_CHECK(flags_define_removed(store, line + 1, strchr(line, ':') != NULL ? "new" : "") ==
                   OPREG_OK);
    } else if (space != NULL) {
        *space = '\0';
        if (flags_set(store, line, space + 1, &index) == OPREG_OK) {
            uint32_t source;
            FUZZ_CHECK(flags_word(store, index, &source)[0] != '\0');
            FUZZ_CHECK(source == OPREG_SOURCE_API);
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char *const core[] = {"trace", "strict", "shadow", "guard", "plugin-dir", "cpu",
                                       "cpu/reference_matmul"};
    static const flag_kind kinds[] = {FLAG_TRACE, FLAG_SWITCH, FLAG_SHADOW,
                                      FLAG_SWITCH, FLAG_DIR,  FLAG_CPU_LEVEL, FLAG_REFERENCE};
    fuzz_input in = {data, size};
    char *text = fuzz_text(&in), *lines[MAX_LINES + 1] = {NULL};
    const char *env[MAX_LINES + 1] = {NULL};
    size_t count = 0, variables = 0, complaints = 0, index;
    flags store;
    for (char *line = strtok(text, "\n"); line != NULL && count < MAX_LINES;
         line = strtok(NULL, "\n")) {
        lines[count++] = line;
        if (strchr(line, '=') != NULL) {
            env[variables++] = line;
        }
    }
    FUZZ_CHECK(flags_init_from(&store, env, 0, check_line, &complaints) == OPREG_OK);
    for (size_t i = 0; i < sizeof core / sizeof core[0]; i++) {
        FUZZ_CHECK(flags_define(&store, core[i], kinds[i], kinds[i] == FLAG_DIR ? "" : "off", "",
                                &index) == OPREG_OK);
    }
    for (size_t i = 0; i < count; i++) {
        if (strchr(lines[i], '=') == NULL) {
            do_line(&store, lines[i]);
        }
    }
    flags_check_unknown(&store);
    for (size_t i = 0; i < store.count; i++) {
        FUZZ_CHECK(strlen(store.rows[i].flag) < sizeof store.rows[i].flag);
        FUZZ_CHECK(strlen(store.rows[i].variable) < sizeof store.rows[i].variable);
        FUZZ_CHECK(flags_find(&store, store.rows[i].flag) == i);
        for (size_t j = 0; j < i; j++) {
            FUZZ_CHECK(strcmp(store.rows[i].variable, store.rows[j].variable) != 0);
        }
    }
    flags_free(&store);
    free(text);
    return 0;
}
