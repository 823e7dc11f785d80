/* SPDX-License-Identifier: MIT
 * bench_ceiling.c - what a device can do at best: its last cache, its stream, its driver. */
#define _GNU_SOURCE /* _SC_LEVEL3_CACHE_SIZE */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench.h"
#include "parallel.h"

#define GPU_CACHE (UINT64_C(64) << 20)  /* no driver call tells; the largest today is below     */
#define CPU_CACHE (UINT64_C(128) << 20) /* a virtual machine sees the cache of the whole host   */

uint64_t bench_cache_bytes(const device *d) {
    long bytes;
    if (d->row.kind != OPREG_CPU) {
        return GPU_CACHE;
    }
    bytes = sysconf(_SC_LEVEL3_CACHE_SIZE);
    return bytes <= 0 || (uint64_t)bytes > CPU_CACHE ? CPU_CACHE : (uint64_t)bytes;
}

typedef struct reading {
    const uint64_t *words;
    int64_t words_a_task;
    uint64_t sums[256];
} reading;

static void read_some(void *arg, int64_t task) {
    reading *r = arg;
    const uint64_t *p = r->words + task * r->words_a_task;
    uint64_t sums[8] = {0};
    for (int64_t i = 0; i + 8 <= r->words_a_task; i += 8) {
        for (int j = 0; j < 8; j++) {
            sums[j] += p[i + j];
        }
    }
    for (int j = 1; j < 8; j++) {
        sums[0] += sums[j];
    }
    r->sums[task & 255] = sums[0];
}

static double cpu_bandwidth(unsigned threads, uint64_t cache) {
    uint64_t bytes = 4 * cache < (UINT64_C(256) << 20) ? UINT64_C(256) << 20 : 4 * cache;
    int64_t tasks = (int64_t)threads;
    reading r = {.words_a_task = (int64_t)(bytes / 8) / tasks};
    uint64_t *words = malloc((size_t)bytes);
    double best = 0;
    if (!words) {
        return 0;
    }
    memset(words, 1, (size_t)bytes);
    r.words = words;
    for (int i = 0; i < 4; i++) {
        double start = seconds_now(), took;
        parallel_run(threads, tasks, read_some, &r);
        took = seconds_now() - start;
        best = (double)(tasks * r.words_a_task * 8) / took > best
                   ? (double)(tasks * r.words_a_task * 8) / took
                   : best;
    }
    free(words);
    return best;
}

/* Device-to-device copy: what it reads and writes. */
static double gpu_bandwidth(const device *d) {
    uint64_t bytes = UINT64_C(512) << 20;
    opreg_buf from = device_alloc(d, bytes), to = device_alloc(d, bytes);
    void *start = NULL, *end = NULL;
    double best = 0, us = 0;
    if (from.ptr && to.ptr && d->io->event_create && device_fill(d, from, 1) &&
        d->io->event_create(d->host, &d->row, &start) == OPREG_OK &&
        d->io->event_create(d->host, &d->row, &end) == OPREG_OK) {
        for (int i = 0; i < 10; i++) {
            if (d->io->event_record(d->host, &d->row, start, d->stream) != OPREG_OK ||
                d->io->copy(d->host, &d->row, to.ptr, from.ptr, bytes, d->stream) != OPREG_OK ||
                d->io->event_record(d->host, &d->row, end, d->stream) != OPREG_OK ||
                d->io->event_elapsed_us(d->host, &d->row, start, end, &us) != OPREG_OK) {
                break;
            }
            best = 2e6 * (double)bytes / us > best ? 2e6 * (double)bytes / us : best;
        }
    }
    if (start) {
        d->io->event_destroy(d->host, &d->row, start);
    }
    if (end) {
        d->io->event_destroy(d->host, &d->row, end);
    }
    device_free(d, &from);
    device_free(d, &to);
    return best;
}

double bench_bandwidth(const device *d, unsigned threads) {
    return d->row.kind == OPREG_CPU ? cpu_bandwidth(threads, bench_cache_bytes(d))
                                    : gpu_bandwidth(d);
}

/* ---- the driver ---- */

/* The first word that starts with a digit. */
static int version_in(const char *path, char text[64]) {
    FILE *f = fopen(path, "r");
    char word[64];
    int found = 0;
    while (f && !found && fscanf(f, "%63s", word) == 1) {
        if (word[0] >= '0' && word[0] <= '9') {
            memcpy(text, word, sizeof word);
            found = 1;
        }
    }
    if (f) {
        fclose(f);
    }
    return found;
}

/* POSIX promises that a function fits in a void pointer; ISO C has no cast for it. */
static int resolve(void *library, const char *name, void *member) {
    void *symbol = dlsym(library, name);
    memcpy(member, &symbol, sizeof symbol);
    return symbol != NULL;
}

/* The vendors' management libraries number the driver as their users do. */
static int nvidia_version(char text[64]) {
    void *library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    int (*init)(void), (*version)(char *out, unsigned bytes), (*stop)(void);
    int found = 0;
    if (library && resolve(library, "nvmlInit_v2", &init) &&
        resolve(library, "nvmlSystemGetDriverVersion", &version) &&
        resolve(library, "nvmlShutdown", &stop) && init() == 0) {
        found = version(text, 64) == 0;
        stop();
    }
    if (library) {
        dlclose(library);
    }
    return found || version_in("/sys/module/nvidia/version", text) ||
           version_in("/proc/driver/nvidia/version", text);
}

/* The numbers of the API that a driver has, where the driver's own are not told. */
static int api_version(const char *const *names, const char *function, const char *prefix,
                       int major, int minor, char text[64]) {
    int (*get)(int *version), version = 0, found = 0;
    void *library = NULL;
    for (; *names && !library; names++) {
        library = dlopen(*names, RTLD_NOW | RTLD_LOCAL);
    }
    if (library && resolve(library, function, &get) && get(&version) == 0) {
        snprintf(text, 64, "%s %d.%d", prefix, version / major, version % major / minor);
        found = 1;
    }
    if (library) {
        dlclose(library);
    }
    return found;
}

int bench_driver_version(uint32_t kind, char text[64]) {
    static const char *const cuda[] = {"libcuda.so.1", NULL};
    static const char *const hip[] = {"libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5",
                                      NULL};
    switch (kind) {
    case OPREG_CUDA:
        return nvidia_version(text) ||
               api_version(cuda, "cuDriverGetVersion", "CUDA", 1000, 10, text);
    case OPREG_HIP:
        return version_in("/sys/module/amdgpu/version", text) ||
               api_version(hip, "hipDriverGetVersion", "HIP", 10000000, 100000, text);
    default:
        return 0;
    }
}
