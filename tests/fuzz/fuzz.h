/* SPDX-License-Identifier: MIT
 * fuzz.h - what the fuzz targets share: values cut from the input, exact copies, one registry.
 *
 * A target is a function of bytes.  Built with libFuzzer (OPREG_FUZZ) it is a fuzzer, else replay.c
 * gives it the files of its seed corpus. */
#ifndef OPREG_FUZZ_H
#define OPREG_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "opreg/opreg.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Ends the process with the reason: what the target promises does not hold. */
#define FUZZ_CHECK(condition)                                                                      \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: %s does not hold (%s)\n", __FILE__, __LINE__, #condition,      \
                    opreg_last_error());                                                           \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

/* The rest of the input. */
typedef struct fuzz_input {
    const uint8_t *at;
    size_t left;
} fuzz_input;

/* Fills out with the next bytes, and with zeros past the end. */
static inline void fuzz_take(fuzz_input *in, void *out, size_t bytes) {
    size_t have = bytes < in->left ? bytes : in->left;
    memset(out, 0, bytes);
    if (have > 0) {
        memcpy(out, in->at, have);
        in->at += have;
        in->left -= have;
    }
}

static inline uint8_t fuzz_u8(fuzz_input *in) {
    uint8_t value;
    fuzz_take(in, &value, sizeof value);
    return value;
}

/* A value in [low, high]. */
static inline int32_t fuzz_range(fuzz_input *in, int32_t low, int32_t high) {
    uint16_t value;
    fuzz_take(in, &value, sizeof value);
    return low + (int32_t)(value % (uint32_t)(high - low + 1));
}

/* An allocation of exactly this size at a multiple of 256, so that a sanitizer sees what is touched
 * outside. */
static inline void *fuzz_exact(size_t bytes) {
    void *memory = NULL;
    FUZZ_CHECK(posix_memalign(&memory, 256, bytes > 0 ? bytes : 1) == 0);
    return memory;
}

/* The next bytes in an allocation of their exact size. */
static inline void *fuzz_bytes(fuzz_input *in, size_t bytes) {
    void *memory = fuzz_exact(bytes);
    fuzz_take(in, memory, bytes);
    return memory;
}

/* The rest of the input as a text. */
static inline char *fuzz_text(fuzz_input *in) {
    size_t bytes = in->left;
    char *text = malloc(bytes + 1);
    FUZZ_CHECK(text != NULL);
    fuzz_take(in, text, bytes);
    text[bytes] = '\0';
    return text;
}

static inline void fuzz_silence(void *user, opreg_log_level level, const char *line) {
    (void)user;
    (void)level;
    (void)line;
}

/* Runs on the calling thread. */
static inline void fuzz_serial(void *user, int64_t count, void (*task)(void *arg, int64_t i),
                               void *arg) {
    (void)user;
    for (int64_t i = 0; i < count; i++) {
        task(arg, i);
    }
}

/* A registry of the CPU backend alone with every variant on, and its device. */
static inline opreg_registry *fuzz_registry(opreg_device *dev) {
    static opreg_registry *reg;
    static opreg_device cpu;
    if (reg == NULL) {
        opreg_config config = {.struct_size = sizeof config,
                               .flags = OPREG_CF_NO_ENV | OPREG_CF_NO_INSTALLED,
                               .log = fuzz_silence,
                               .parallel_for = fuzz_serial};
        FUZZ_CHECK(opreg_create(&config, &reg) == OPREG_OK);
        FUZZ_CHECK(opreg_enable(reg, "cpu", "fast") == OPREG_OK);
        FUZZ_CHECK(opreg_devices(reg, &cpu, sizeof cpu, 1) == 1);
    }
    *dev = cpu;
    return reg;
}

#endif /* OPREG_FUZZ_H */
