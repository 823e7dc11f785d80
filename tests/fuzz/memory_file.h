/* SPDX-License-Identifier: MIT
 * memory_file.h - the bytes of an input as a file, for readers that take a path, and a quiet stderr. */
#ifndef OPREG_FUZZ_MEMORY_FILE_H
#define OPREG_FUZZ_MEMORY_FILE_H

#include <sys/mman.h>
#include <unistd.h>

#include "fuzz.h"

/* A file with the bytes, and its path; close(2) ends it. */
static inline int memory_file(const uint8_t *data, size_t size, char path[64]) {
    int file = memfd_create("fuzz", MFD_CLOEXEC);
    FUZZ_CHECK(file >= 0);
    for (size_t at = 0; at < size;) {
        ssize_t wrote = write(file, data + at, size - at);
        FUZZ_CHECK(wrote > 0);
        at += (size_t)wrote;
    }
    FUZZ_CHECK(lseek(file, 0, SEEK_SET) == 0);
    snprintf(path, 64, "/proc/self/fd/%d", file);
    return file;
}

#endif /* OPREG_FUZZ_MEMORY_FILE_H */
