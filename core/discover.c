/* SPDX-License-Identifier: MIT
 * discover.c - reads manifests ("key = value" lines) and finds the directories that hold them. */
#define _GNU_SOURCE
#include "discover.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "error.h"

#define MANIFEST_MAX_BYTES 65536
#define SUFFIX ".manifest"

int name_is_valid(const char *name, char joint) {
    char before = joint;
    if (name[0] < 'a' || name[0] > 'z') {
        return 0;
    }
    for (; *name != '\0'; before = *name++) {
        int plain = (*name >= 'a' && *name <= 'z') || (*name >= '0' && *name <= '9');
        if (!plain && (*name != joint || before == joint)) {
            return 0;
        }
    }
    return before != joint;
}

int next_word(const char **list, char *out, size_t cap) {
    size_t length;
    *list += strspn(*list, " \t");
    length = strcspn(*list, " \t");
    if (length == 0 || length >= cap) {
        return 0;
    }
    memcpy(out, *list, length);
    out[length] = '\0';
    *list += length;
    return 1;
}

/* ---- one manifest --------------------------------------------------------------------------- */

typedef struct key_row {
    const char *key;
    size_t offset, cap;
    int required;
} key_row;

#define KEY(key, member, required)                                                                 \
    { key, offsetof(manifest, member), sizeof(((manifest *)0)->member), required }
static const key_row keys[] = {
    KEY("name", name, 1),       KEY("library", file, 1),         KEY("archs", archs, 1),
    KEY("kernels", kernels, 1), KEY("built_with", built_with, 0), KEY("switches", switches, 0),
    KEY("removed", removed, 0),
};
#define KEYS (sizeof keys / sizeof keys[0])

typedef struct reading {
    const char *path;
    manifest *out;
    int line, version, has_abi, has_device;
} reading;

static opreg_status read_abi(reading *r, const char *value) {
    char *end;
    unsigned long major, minor;
    errno = 0;
    major = strtoul(value, &end, 10);
    if (end != value && *end == '.' && end[1] >= '0' && end[1] <= '9') {
        minor = strtoul(end + 1, &end, 10);
        if (*end == '\0' && errno == 0 && major <= UINT32_MAX && minor <= UINT32_MAX) {
            r->out->abi_major = (uint32_t)major;
            r->out->abi_minor = (uint32_t)minor;
            r->has_abi = 1;
            return OPREG_OK;
        }
    }
    return fail(OPREG_E_LOAD, "%s:%d: abi is \"%s\", it must be MAJOR.MINOR", r->path, r->line,
                value);
}

static opreg_status read_device(reading *r, const char *value) {
    static const char *const kinds[] = {"cpu", "cuda", "hip"};
    for (uint32_t i = 0; i < 3; i++) {
        if (strcmp(kinds[i], value) == 0) {
            r->out->device = i + 1; /* OPREG_CPU, OPREG_CUDA, OPREG_HIP */
            r->has_device = 1;
            return OPREG_OK;
        }
    }
    return fail(OPREG_E_LOAD, "%s:%d: device is \"%s\", it must be cpu, cuda or hip", r->path,
                r->line, value);
}

static opreg_status read_pair(reading *r, const char *key, const char *value) {
    if (strcmp(key, "manifest") == 0) {
        r->version = strcmp(value, "1") == 0;
        return r->version ? OPREG_OK
                          : fail(OPREG_E_LOAD, "%s:%d: manifest is \"%s\", this opreg reads 1",
                                 r->path, r->line, value);
    }
    if (strcmp(key, "abi") == 0) {
        return read_abi(r, value);
    }
    if (strcmp(key, "device") == 0) {
        return read_device(r, value);
    }
    for (size_t i = 0; i < KEYS; i++) {
        char *at = (char *)r->out + keys[i].offset;
        if (strcmp(keys[i].key, key) != 0) {
            continue;
        }
        if (at[0] != '\0') {
            return fail(OPREG_E_LOAD, "%s:%d: %s is there twice", r->path, r->line, key);
        }
        if (strlen(value) >= keys[i].cap) {
            return fail(OPREG_E_LOAD, "%s:%d: %s is longer than %zu", r->path, r->line, key,
                        keys[i].cap - 1);
        }
        memcpy(at, value, strlen(value) + 1);
        return OPREG_OK;
    }
    return OPREG_OK; /* a key of a later version */
}

/* Cuts the spaces around a text, in place. */
static char *trim(char *text) {
    size_t length;
    text += strspn(text, " \t\r");
    length = strlen(text);
    while (length > 0 && strchr(" \t\r", text[length - 1]) != NULL) {
        text[--length] = '\0';
    }
    return text;
}

/* The first character that a terminal would act on; 0 where there is none. */
static unsigned control_in(const char *line) {
    for (; *line != '\0'; line++) {
        unsigned char c = (unsigned char)*line;
        if ((c < ' ' && c != '\t') || c == 0x7f) {
            return c;
        }
    }
    return 0;
}

static opreg_status read_lines(reading *r, char *text) {
    while (text != NULL) {
        char *end = strchr(text, '\n'), *equals, *line;
        opreg_status status;
        if (end != NULL) {
            *end++ = '\0';
        }
        r->line++;
        line = trim(text);
        text = end;
        if (control_in(line) != 0) {
            return fail(OPREG_E_LOAD, "%s:%d: the character 0x%02x, this is not a text", r->path,
                        r->line, control_in(line));
        }
        if (line[0] == '\0' || line[0] == '#') {
            continue;
        }
        equals = strchr(line, '=');
        if (equals == NULL) {
            return fail(OPREG_E_LOAD, "%s:%d: \"%.60s\" is not key = value", r->path, r->line, line);
        }
        *equals = '\0';
        status = read_pair(r, trim(line), trim(equals + 1));
        if (status != OPREG_OK) {
            return status;
        }
    }
    return OPREG_OK;
}

static opreg_status check_words(const reading *r, const char *what, const char *list) {
    char word[64];
    while (next_word(&list, word, sizeof word)) {
        if (!name_is_valid(word, '_')) {
            return fail(OPREG_E_LOAD,
                        "%s: %s \"%s\" is not at most 63 lower-case letters, digits and _",
                        r->path, what, word);
        }
    }
    return *list == '\0' ? OPREG_OK
                         : fail(OPREG_E_LOAD,
                                "%s: %s \"%.80s\" is not at most 63 lower-case letters, digits and _",
                                r->path, what, list);
}

static opreg_status check_manifest(const reading *r) {
    const manifest *m = r->out;
    const char *list;
    char word[256];
    if (!r->version || !r->has_abi || !r->has_device) {
        return fail(OPREG_E_LOAD, "%s: the key %s is missing", r->path,
                    !r->version   ? "manifest"
                    : !r->has_abi ? "abi"
                                  : "device");
    }
    for (size_t i = 0; i < KEYS; i++) {
        if (keys[i].required && ((const char *)m + keys[i].offset)[0] == '\0') {
            return fail(OPREG_E_LOAD, "%s: the key %s is missing", r->path, keys[i].key);
        }
    }
    if (!name_is_valid(m->name, '-')) {
        return fail(OPREG_E_LOAD, "%s: name \"%s\" is not lower-case words joined by hyphens",
                    r->path, m->name);
    }
    if (strchr(m->file, '/') != NULL) {
        return fail(OPREG_E_LOAD,
                    "%s: library \"%s\" has a slash: it must be the name of a file beside it",
                    r->path, m->file);
    }
    if (check_words(r, "kernel", m->kernels) != OPREG_OK ||
        check_words(r, "switch", m->switches) != OPREG_OK) {
        return OPREG_E_LOAD;
    }
    list = m->removed;
    while (next_word(&list, word, sizeof word)) {
    }
    return *list == '\0' ? OPREG_OK
                         : fail(OPREG_E_LOAD, "%s: a word of removed is longer than %zu", r->path,
                                sizeof word - 1);
}

opreg_status manifest_parse(const char *path, const char *text, manifest *out) {
    reading r = {.path = path, .out = out};
    char *copy = malloc(strlen(text) + 1);
    opreg_status status;
    if (copy == NULL) {
        return fail(OPREG_E_NOMEM, "no memory for %s", path);
    }
    memcpy(copy, text, strlen(text) + 1);
    memset(out, 0, sizeof *out);
    status = read_lines(&r, copy);
    free(copy);
    if (status == OPREG_OK) {
        status = check_manifest(&r);
    }
    if (status == OPREG_OK && (size_t)snprintf(out->path, sizeof out->path, "%s", path) >=
                                  sizeof out->path) {
        status = fail(OPREG_E_LOAD, "%s: the path is longer than %zu", path, sizeof out->path - 1);
    }
    return status;
}

opreg_status manifest_read(const char *path, manifest *out) {
    struct stat about;
    char *text = NULL;
    FILE *file = NULL;
    size_t got;
    opreg_status status = OPREG_E_LOAD;
    if (lstat(path, &about) != 0 || !S_ISREG(about.st_mode)) {
        return fail(OPREG_E_LOAD, "%s: not a regular file", path);
    }
    if (about.st_size > MANIFEST_MAX_BYTES) {
        return fail(OPREG_E_LOAD, "%s: a manifest has at most %d bytes, this has %lld", path,
                    MANIFEST_MAX_BYTES, (long long)about.st_size);
    }
    text = malloc(MANIFEST_MAX_BYTES + 1);
    file = fopen(path, "rbe");
    if (text == NULL || file == NULL) {
        status = text == NULL ? fail(OPREG_E_NOMEM, "no memory for %s", path)
                              : fail(OPREG_E_LOAD, "%s: %s", path, strerror(errno));
        goto out;
    }
    got = fread(text, 1, MANIFEST_MAX_BYTES, file);
    text[got] = '\0';
    if (strlen(text) != got) {
        fail(OPREG_E_LOAD, "%s: a zero byte at %zu, this is not a text", path, strlen(text));
        goto out;
    }
    status = manifest_parse(path, text, out);
out:
    if (file != NULL) {
        fclose(file);
    }
    free(text);
    return status;
}

/* The directory of a path, "." never: paths here are absolute. */
static int directory_of(const char *path, char *out, size_t cap) {
    const char *slash = strrchr(path, '/');
    size_t length = slash != NULL ? (size_t)(slash - path) : 0;
    if (slash == NULL || length >= cap) {
        return 0;
    }
    memcpy(out, path, length);
    out[length] = '\0';
    return 1;
}

opreg_status manifest_library(manifest *m) {
    char dir[512], real_dir[PATH_MAX], real[PATH_MAX], joined[700];
    struct stat about;
    if (!directory_of(m->path, dir, sizeof dir) || realpath(dir[0] != '\0' ? dir : "/", real_dir) == NULL) {
        return fail(OPREG_E_LOAD, "%s: its directory cannot be found", m->path);
    }
    snprintf(joined, sizeof joined, "%s/%s", dir, m->file);
    if (realpath(joined, real) == NULL) {
        return fail(OPREG_E_LOAD, "%s: its library %s: %s", m->path, joined, strerror(errno));
    }
    if (stat(real, &about) != 0 || !S_ISREG(about.st_mode)) {
        return fail(OPREG_E_LOAD, "%s: its library %s is not a regular file", m->path, joined);
    }
    if (strncmp(real, real_dir, strlen(real_dir)) != 0 || real[strlen(real_dir)] != '/' ||
        strchr(real + strlen(real_dir) + 1, '/') != NULL) {
        return fail(OPREG_E_LOAD, "%s: its library is a link that leaves the directory, to %s",
                    m->path, real);
    }
    if (strlen(real) >= sizeof m->library) {
        return fail(OPREG_E_LOAD, "%s: the path of its library is longer than %zu", m->path,
                    sizeof m->library - 1);
    }
    memcpy(m->library, real, strlen(real) + 1);
    return OPREG_OK;
}

/* ---- directories ---------------------------------------------------------------------------- */

static int is_manifest(const struct dirent *entry) {
    size_t length = strlen(entry->d_name), suffix = strlen(SUFFIX);
    return length > suffix && strcmp(entry->d_name + length - suffix, SUFFIX) == 0;
}

/* Not alphasort: the order must not follow the locale. */
static int by_name(const struct dirent **a, const struct dirent **b) {
    return strcmp((*a)->d_name, (*b)->d_name);
}

opreg_status discover_directory(const char *dir,
                                void (*found)(void *user, const char *manifest_path), void *user) {
    struct dirent **names = NULL;
    char path[1024];
    int count = scandir(dir, &names, is_manifest, by_name);
    if (count < 0) {
        return fail(errno == ENOMEM ? OPREG_E_NOMEM : OPREG_E_LOAD, "the plugin directory %s: %s", dir,
                    strerror(errno));
    }
    for (int i = 0; i < count; i++) {
        if ((size_t)snprintf(path, sizeof path, "%s/%s", dir, names[i]->d_name) < sizeof path) {
            found(user, path);
        }
        free(names[i]);
    }
    free(names);
    return OPREG_OK;
}

static int is_directory(const char *path) {
    struct stat about;
    return stat(path, &about) == 0 && S_ISDIR(about.st_mode);
}

int discover_installed(char *out, size_t cap) {
    /* The library is in LIBDIR; a program that links it statically is in PREFIX/bin. */
    static const char *const places[] = {"opreg", OPREG_LIB_FROM_BIN "/opreg"};
    char dir[PATH_MAX], real[PATH_MAX], joined[PATH_MAX + 32];
    Dl_info info;
    const char *file = dladdr(keys, &info) != 0 ? info.dli_fname : NULL;
    if (file != NULL && strchr(file, '/') == NULL) {
        file = "/proc/self/exe"; /* a static program that was found through PATH */
    }
    if (file != NULL && realpath(file, real) != NULL && directory_of(real, dir, sizeof dir)) {
        for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
            snprintf(joined, sizeof joined, "%s/%s", dir, places[i]);
            if (is_directory(joined) && realpath(joined, real) != NULL && strlen(real) < cap) {
                memcpy(out, real, strlen(real) + 1);
                return 1;
            }
        }
    }
#ifdef OPREG_INSTALLED_PLUGINS
    if (is_directory(OPREG_INSTALLED_PLUGINS) && strlen(OPREG_INSTALLED_PLUGINS) < cap) {
        memcpy(out, OPREG_INSTALLED_PLUGINS, strlen(OPREG_INSTALLED_PLUGINS) + 1);
        return 1;
    }
#endif
    return 0;
}
