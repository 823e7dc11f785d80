/* SPDX-License-Identifier: MIT
 * new_plugin.c - opreg new-plugin: a copy of plugins/example under another name, ready to build. */
#define _POSIX_C_SOURCE 200809L
#include "new_plugin.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include "commands.h"
#include "registry.h"

#define NAME_MAX_LENGTH 30 /* with its end it fits the name of a plugin's row */

/* Lower-case words joined by hyphens, as opreg_add_plugin() wants it. */
static int is_name(const char *name) {
    size_t length = strlen(name);
    int after_hyphen = 1;
    for (const char *at = name; *at != '\0'; at++) {
        if (*at == '-') {
            if (after_hyphen) {
                return 0;
            }
            after_hyphen = 1;
        } else if ((*at >= 'a' && *at <= 'z') || (*at >= '0' && *at <= '9' && at != name)) {
            after_hyphen = 0;
        } else {
            return 0;
        }
    }
    return length > 0 && length <= NAME_MAX_LENGTH && !after_hyphen;
}

/* What of the library itself has that flag or variable already, into taken; "" when nothing.
 * -1 after a line on stderr. */
static int find_taken(const command *self, const char *name, char taken[128]) {
    opreg_registry *reg = NULL;
    opreg_config config = {.struct_size = sizeof config,
                           .flags = OPREG_CF_NO_ENV | OPREG_CF_NO_INSTALLED,
                           .threads = 1};
    opreg_flag_row *rows;
    size_t count;
    char variable[64];
    int length = snprintf(variable, sizeof variable, "OPREG_%s", name);
    for (int i = 0; i < length; i++) {
        variable[i] = variable[i] == '-' ? '_' : (char)toupper((unsigned char)variable[i]);
    }
    taken[0] = '\0';
    if (opreg_create(&config, &reg) != OPREG_OK) {
        complain(self, "%s", opreg_last_error());
        return -1;
    }
    rows = registry_flags(reg, &count);
    for (size_t i = 0; i < count; i++) {
        if (strcmp(rows[i].variable, variable) == 0) {
            snprintf(taken, 128, "%s", rows[i].variable);
        }
    }
    free(rows);
    opreg_destroy(reg);
    return 0;
}

/* Where this opreg is installed, for CMake to find; the documentation's place when it is run from
 * a build. */
static void find_prefix(char *prefix, size_t cap) {
    char program[512], probe[600];
    ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
    snprintf(prefix, cap, "$HOME/opreg");
    if (length <= 0) {
        return;
    }
    program[length] = '\0';
    for (int up = 0; up < 2; up++) {
        char *slash = strrchr(program, '/');
        if (slash == NULL) {
            return;
        }
        *slash = '\0';
    }
    snprintf(probe, sizeof probe, "%s/include/opreg/opreg_plugin.h", program);
    if (program[0] != '\0' && access(probe, R_OK) == 0) {
        snprintf(prefix, cap, "%s", program);
    }
}

static void print_next(const char *folder, const char *name) {
    char prefix[512];
    const char *here = folder[0] == '/' ? "" : "$PWD/";
    find_prefix(prefix, sizeof prefix);
    printf("%s: %zu files. Next:\n"
           "  cmake -S \"%s\" -B \"%s/build\" -DCMAKE_PREFIX_PATH=\"%s\"\n"
           "  cmake --build \"%s/build\"\n"
           "  OPREG_PLUGIN_DIR=\"%s%s/build\" opreg test --plugin %s\n",
           folder, example_file_count, folder, folder, prefix, folder, here, folder, name);
}

/* NAME in the spelling of what is replaced: "example" in a file name or an #include, and any other
 * "example", and "EXAMPLE". */
static void put_name(FILE *out, const char *name, const char *found, int in_file_name) {
    for (; *name != '\0'; name++) {
        int is_upper = isupper((unsigned char)found[0]) != 0;
        char plain = *name == '-' && (is_upper || in_file_name) ? '_' : *name;
        putc(is_upper ? toupper((unsigned char)plain) : plain, out);
    }
}

static int is_word(const char *text, const char *at) {
    return (strncmp(at, "example", 7) == 0 || strncmp(at, "EXAMPLE", 7) == 0) &&
           (at == text || !islower((unsigned char)at[-1])) && !islower((unsigned char)at[7]);
}

static void put_text(FILE *out, const char *name, const char *text) {
    for (const char *at = text; *at != '\0';) {
        if (is_word(text, at)) {
            put_name(out, name, at, strncmp(at + 7, ".h", 2) == 0);
            at += 7;
        } else {
            putc(*at++, out);
        }
    }
}

static int write_file(const command *self, const char *folder, const char *name,
                      const example_file *file) {
    char path[1024];
    int is_header = strcmp(file->name, "example.h") == 0, length, bad;
    FILE *out;
    length = snprintf(path, sizeof path, "%s/%s", folder, is_header ? "" : file->name);
    if (is_header && length > 0 && (size_t)length + strlen(name) + 3 < sizeof path) {
        for (const char *at = name; *at != '\0'; at++) {
            path[length++] = *at == '-' ? '_' : *at;
        }
        strcpy(path + length, ".h");
    }
    if (length < 0 || (size_t)length >= sizeof path) {
        return complain(self, "%s: the path is too long", folder);
    }
    out = fopen(path, "wx");
    if (out == NULL) {
        return complain(self, "%s: %s", path, strerror(errno));
    }
    put_text(out, name, file->text);
    bad = ferror(out) != 0;
    bad |= fclose(out) != 0;
    return bad ? complain(self, "%s could not be written: %s", path, strerror(errno)) : 0;
}

static int run_new_plugin(const command *self, int argc, char **argv) {
    static const option table[] = {{NULL, NULL, OPTION_SWITCH, NULL, NULL}};
    const char *words[2] = {NULL, NULL}, *folder;
    char taken[128];
    size_t count = 0;
    int status = options_read(self, table, argc, argv, words, 2, &count);
    if (status >= 0) {
        return status;
    }
    if (count < 1) {
        return complain(self, "a NAME is missing; see opreg new-plugin --help");
    }
    if (!is_name(words[0])) {
        return complain(self,
                        "'%s' is not a plugin's name: lower-case words and digits joined by "
                        "hyphens, at most %d characters",
                        words[0], NAME_MAX_LENGTH);
    }
    if (find_taken(self, words[0], taken) != 0) {
        return EXIT_FAILED;
    }
    if (taken[0] != '\0') {
        return complain(self,
                        "a plugin cannot be called '%s': its variable would be %s, which the "
                        "library has already",
                        words[0], taken);
    }
    folder = words[1] != NULL ? words[1] : words[0];
    if (mkdir(folder, 0777) != 0) {
        return complain(self, "%s: %s", folder, strerror(errno));
    }
    for (size_t i = 0; i < example_file_count; i++) {
        status = write_file(self, folder, words[0], &example_files[i]);
        if (status != 0) {
            return status;
        }
    }
    print_next(folder, words[0]);
    return EXIT_HELD;
}

const command command_new_plugin = {
    "new-plugin", "NAME [FOLDER]", "starts a plugin from the smallest one",
    "Copies the example plugin into a new folder (NAME, unless FOLDER says another) and renames "
    "it.\n"
    "It builds as it is against an installed opreg, and passes the kit.\n",
    run_new_plugin};
