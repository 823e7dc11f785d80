/* SPDX-License-Identifier: MIT
 * memory.c - the CPU's device memory, which is host memory; its streams are null. */
#include "cpu/cpu.h"

#include <stdlib.h>

#define ALIGN 256u

static opreg_status host_alloc(const opreg_host *host, const opreg_device *dev, uint64_t bytes,
                               void **out) {
    void *memory = NULL;
    (void)dev;
    if (bytes <= SIZE_MAX - ALIGN) {
        memory = aligned_alloc(ALIGN, ((size_t)bytes + ALIGN) / ALIGN * ALIGN);
    }
    if (memory == NULL) {
        host->error(host->ctx, "no host memory for %llu bytes", (unsigned long long)bytes);
        return OPREG_E_NOMEM;
    }
    *out = memory;
    return OPREG_OK;
}

static void host_free(const opreg_host *host, const opreg_device *dev, void *memory) {
    (void)host;
    (void)dev;
    free(memory);
}

static opreg_status host_copy(const opreg_host *host, const opreg_device *dev, void *dst,
                              const void *src, uint64_t bytes, void *stream) {
    (void)host;
    (void)dev;
    (void)stream;
    if (bytes != 0) {
        memmove(dst, src, (size_t)bytes);
    }
    return OPREG_OK;
}

static opreg_status host_fill(const opreg_host *host, const opreg_device *dev, void *dst,
                              uint8_t byte, uint64_t bytes, void *stream) {
    (void)host;
    (void)dev;
    (void)stream;
    if (bytes != 0) {
        memset(dst, byte, (size_t)bytes);
    }
    return OPREG_OK;
}

static opreg_status stream_create(const opreg_host *host, const opreg_device *dev, void **stream) {
    (void)host;
    (void)dev;
    *stream = NULL;
    return OPREG_OK;
}

static void stream_destroy(const opreg_host *host, const opreg_device *dev, void *stream) {
    (void)host;
    (void)dev;
    (void)stream;
}

static opreg_status stream_sync(const opreg_host *host, const opreg_device *dev, void *stream) {
    (void)host;
    (void)dev;
    (void)stream;
    return OPREG_OK;
}

const opreg_device_io cpu_io = {
    .struct_size = sizeof(opreg_device_io),
    .alloc = host_alloc,
    .free = host_free,
    .to_device = host_copy,
    .to_host = host_copy,
    .copy = host_copy,
    .fill = host_fill,
    .stream_create = stream_create,
    .stream_destroy = stream_destroy,
    .stream_sync = stream_sync,
};
