/* SPDX-License-Identifier: MIT
 * discover.h - manifests: what is known of a plugin that is never opened while its flag is off. */
#ifndef OPREG_DISCOVER_H
#define OPREG_DISCOVER_H

#include "opreg/opreg.h"

#define MANIFEST_LIST_BYTES 4096

typedef struct manifest {
    char path[512];    /* of the manifest                                                           */
    char library[512]; /* path of the library, "" until manifest_library has checked it             */
    char file[128];    /* its name, without a slash                                                 */
    char name[32], built_with[64], archs[64];
    uint32_t abi_major, abi_minor; /* the lowest minor it needs                                     */
    uint32_t device;               /* opreg_device_kind                                             */
    char kernels[MANIFEST_LIST_BYTES]; /* space separated, as the two below                         */
    char switches[512];
    char removed[1024]; /* old:new words                                                            */
} manifest;

/* Reads one file.  E_LOAD names the file, the line or the missing key. */
opreg_status manifest_read(const char *path, manifest *out);

/* The same from text, for tests; path is for messages. */
opreg_status manifest_parse(const char *path, const char *text, manifest *out);

/* Checks the library beside the manifest and writes its path: a regular file, or a symbolic link to
 * one in the same directory.  E_LOAD. */
opreg_status manifest_library(manifest *m);

/* 1 for lower-case words with digits, joined by single hyphens (plugins) or underscores (kernels). */
int name_is_valid(const char *name, char joint);

/* Copies the next space-separated word of *list into out and moves past it; 0 at the end or when the
 * word is too long. */
int next_word(const char **list, char *out, size_t cap);

/* Calls back with the path of every NAME.manifest of a directory, in order of name.
 * E_LOAD when the directory cannot be read. */
opreg_status discover_directory(const char *dir,
                                void (*found)(void *user, const char *manifest_path), void *user);

/* The directory of installed plugins: beside this library, so that a moved prefix works, else where
 * the build installed it.  0 when there is none. */
int discover_installed(char *out, size_t cap);

#endif /* OPREG_DISCOVER_H */
