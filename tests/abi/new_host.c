/* SPDX-License-Identifier: MIT
 * new_host.c - a host of a later minor: longer structs, a wider range.  It asks a plugin's library
 * for its table without a registry, and checks that the plugin fills what it knows, leaves the rest
 * alone, and refuses each host that it cannot serve.
 *
 *   new_host LIBRARY */
#include <dlfcn.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "opreg/opreg_plugin.h"

/* The structs with fields that no plugin of today knows. */
typedef struct later_host {
    opreg_host now;
    uint64_t added[4];
} later_host;

typedef struct later_plugin {
    opreg_plugin now;
    uint64_t added[8];
} later_plugin;

typedef opreg_status (*entry_fn)(const opreg_host *host, opreg_plugin *out);

static void quiet_log(void *user, opreg_log_level level, const char *line) {
    (void)user;
    (void)level;
    (void)line;
}

static void quiet_error(void *user, const char *format, ...) {
    (void)user;
    (void)format;
}

static void run_inline(void *user, int64_t count, void (*task)(void *arg, int64_t i), void *arg) {
    (void)user;
    for (int64_t i = 0; i < count; i++) {
        task(arg, i);
    }
}

static int all_off(void *user, const char *name) {
    (void)user;
    (void)name;
    return 0;
}

static later_host a_host(void) {
    later_host host;
    memset(&host, 0, sizeof host);
    host.now.struct_size = sizeof host;
    host.now.abi_major = OPREG_ABI_MAJOR;
    host.now.abi_minor_min = 0;
    host.now.abi_minor_max = OPREG_ABI_MINOR + 7;
    host.now.log = quiet_log;
    host.now.error = quiet_error;
    host.now.parallel_for = run_inline;
    host.now.switch_on = all_off;
    return host;
}

static int expect(int right, const char *what) {
    if (!right) {
        fprintf(stderr, "new_host: %s\n", what);
    }
    return right ? 0 : 1;
}

static int later_minor(entry_fn entry) {
    later_host host = a_host();
    later_plugin out;
    int bad = 0, untouched = 1;
    memset(&out, 0xa5, sizeof out);
    out.now.struct_size = sizeof out;
    if (expect(entry(&host.now, &out.now) == OPREG_OK, "a host of a later minor is refused")) {
        return 1;
    }
    for (size_t i = 0; i < sizeof out.added; i++) {
        untouched &= ((const unsigned char *)out.added)[i] == 0xa5;
    }
    bad += expect(untouched, "bytes after the table that the plugin knows were written");
    bad += expect(out.now.struct_size <= sizeof out.now, "the table claims fields it cannot have");
    bad += expect(out.now.abi_major == OPREG_ABI_MAJOR, "the major is not the one both share");
    bad += expect(out.now.abi_minor <= OPREG_ABI_MINOR, "the minor is later than its headers");
    bad += expect(out.now.name != NULL && out.now.probe != NULL && out.now.io != NULL &&
                      out.now.kernels != NULL && out.now.num_kernels > 0,
                  "a required row is null");
    if (out.now.shutdown != NULL) {
        out.now.shutdown(&host.now);
    }
    return bad;
}

/* Refused or cut off: either way nothing after the bytes that the host has is written. */
static int short_table(entry_fn entry) {
    later_host host = a_host();
    later_plugin out;
    uint32_t known = (uint32_t)offsetof(opreg_plugin, name);
    opreg_status status;
    int untouched = 1;
    memset(&out, 0xa5, sizeof out);
    out.now.struct_size = known;
    status = entry(&host.now, &out.now);
    for (size_t i = known; i < sizeof out; i++) {
        untouched &= ((const unsigned char *)&out)[i] == 0xa5;
    }
    return expect(status == OPREG_OK || status == OPREG_E_ABI, "a short table is another error") +
           expect(untouched, "bytes after a short table were written");
}

static int refuses(entry_fn entry, later_host host, const char *what) {
    later_plugin out, before;
    memset(&out, 0, sizeof out);
    out.now.struct_size = sizeof out;
    before = out;
    return expect(entry(&host.now, &out.now) == OPREG_E_ABI, what) +
           expect(memcmp(&out, &before, sizeof out) == 0, "a refused host's table was written");
}

int main(int argc, char **argv) {
    void *library = argc == 2 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;
    later_host other_major = a_host(), only_later = a_host();
    entry_fn entry = NULL;
    void *symbol;
    if (library == NULL) {
        fprintf(stderr, "new_host: %s\n", argc == 2 ? dlerror() : "usage: new_host LIBRARY");
        return 2;
    }
    symbol = dlsym(library, "opreg_plugin_entry");
    memcpy(&entry, &symbol, sizeof entry);
    if (entry == NULL) {
        fprintf(stderr, "new_host: no opreg_plugin_entry\n");
        return 2;
    }
    other_major.now.abi_major = OPREG_ABI_MAJOR + 1;
    only_later.now.abi_minor_min = OPREG_ABI_MINOR + 1;
    return later_minor(entry) +
           refuses(entry, other_major, "a host of another major is served") +
           refuses(entry, only_later, "a host that needs a later minor is served") +
           short_table(entry);
}
