/* SPDX-License-Identifier: MIT
 * host_memory.c - the io table of a device whose memory is the host's: what tests and tools use. */
#include "example.h"

#include <stdlib.h>
#include <string.h>

static opreg_status allocate(const opreg_host *host, const opreg_device *dev, uint64_t bytes,
                             void **out) {
    uint64_t rounded = (bytes + 255u) / 256u * 256u;
    (void)dev;
    *out = rounded >= bytes ? aligned_alloc(256, rounded > 0 ? rounded : 256) : NULL;
    if (*out == NULL) {
        host->error(host->ctx, "no host memory for %llu bytes", (unsigned long long)bytes);
        return OPREG_E_NOMEM;
    }
    return OPREG_OK;
}

static void release(const opreg_host *host, const opreg_device *dev, void *ptr) {
    (void)host;
    (void)dev;
    free(ptr);
}

static opreg_status copy_bytes(const opreg_host *host, const opreg_device *dev, void *dst,
                               const void *src, uint64_t bytes, void *stream) {
    (void)host;
    (void)dev;
    (void)stream;
    if (bytes > 0) {
        memmove(dst, src, bytes);
    }
    return OPREG_OK;
}

static opreg_status fill_bytes(const opreg_host *host, const opreg_device *dev, void *dst,
                               uint8_t byte, uint64_t bytes, void *stream) {
    (void)host;
    (void)dev;
    (void)stream;
    if (bytes > 0) {
        memset(dst, byte, bytes);
    }
    return OPREG_OK;
}

/* Runs are over when they return: there is only the null stream. */
static opreg_status create_stream(const opreg_host *host, const opreg_device *dev, void **stream) {
    (void)host;
    (void)dev;
    *stream = NULL;
    return OPREG_OK;
}

static void destroy_stream(const opreg_host *host, const opreg_device *dev, void *stream) {
    (void)host;
    (void)dev;
    (void)stream;
}

static opreg_status sync_stream(const opreg_host *host, const opreg_device *dev, void *stream) {
    (void)host;
    (void)dev;
    (void)stream;
    return OPREG_OK;
}

const opreg_device_io host_memory = {
    .struct_size = sizeof(opreg_device_io),
    .alloc = allocate,
    .free = release,
    .to_device = copy_bytes,
    .to_host = copy_bytes,
    .copy = copy_bytes,
    .fill = fill_bytes,
    .stream_create = create_stream,
    .stream_destroy = destroy_stream,
    .stream_sync = sync_stream,
};
