/* SPDX-License-Identifier: MIT
 * emulated_gpu.c - gpu.h over the emulator: one device whose memory is the host's. */
#include "emulator.h"
#include "program.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct gpu_device {
    int32_t ordinal;
};
static const gpu_device device = {0};

const gpu_program sm60_program = {.arch = "sm_60"};

opreg_status gpu_open(const opreg_host *host, const gpu_program *program, opreg_device *rows,
                      size_t cap, size_t *count) {
    (void)host;
    *count = 1;
    if (cap > 0) {
        memset(rows, 0, sizeof *rows);
        rows->struct_size = sizeof *rows;
        rows->kind = OPREG_CUDA;
        rows->units = 2;
        rows->memory_bytes = (uint64_t)1 << 30;
        snprintf(rows->arch, sizeof rows->arch, "%s", program->arch);
        snprintf(rows->name, sizeof rows->name, "emulated");
    }
    return OPREG_OK;
}

void gpu_close(const opreg_host *host) {
    (void)host;
}

const gpu_device *gpu_device_find(int32_t ordinal) {
    return ordinal == 0 ? &device : NULL;
}

uint32_t gpu_units(const gpu_device *of) {
    (void)of;
    return 2; /* few blocks, so that each walks several tiles */
}

opreg_status gpu_run(const opreg_host *host, const gpu_device *on, const gpu_launch *launch,
                     const void *parameters, void *stream) {
    const uint32_t grid[3] = {launch->grid_x, launch->grid_y, launch->grid_z};
    emulated_kernel *kernel = emulated_symbol(launch->symbol);
    (void)on;
    (void)stream;
    if (kernel == NULL ||
        emulated_launch(kernel, parameters, grid, launch->block, launch->shared) != 0) {
        host->error(host->ctx, "kernel %u is not emulated", launch->symbol);
        return OPREG_E_UNSUPPORTED;
    }
    return OPREG_OK;
}

opreg_status gpu_fill(const opreg_host *host, const gpu_device *on, void *dst, uint8_t byte,
                      uint64_t bytes, void *stream) {
    (void)host;
    (void)on;
    (void)stream;
    memset(dst, byte, (size_t)bytes);
    return OPREG_OK;
}

/* ---- memory
 * ---------------------------------------------------------------------------------------- */

static opreg_status io_alloc(const opreg_host *host, const opreg_device *dev, uint64_t bytes,
                             void **out) {
    (void)host;
    (void)dev;
    *out = aligned_alloc(256, (size_t)((bytes + 511u) / 256u * 256u));
    return *out == NULL ? OPREG_E_NOMEM : OPREG_OK;
}

static void io_free(const opreg_host *host, const opreg_device *dev, void *ptr) {
    (void)host;
    (void)dev;
    free(ptr);
}

static opreg_status io_copy(const opreg_host *host, const opreg_device *dev, void *dst,
                            const void *src, uint64_t bytes, void *stream) {
    (void)host;
    (void)dev;
    (void)stream;
    memmove(dst, src, (size_t)bytes);
    return OPREG_OK;
}

static opreg_status io_fill(const opreg_host *host, const opreg_device *dev, void *dst,
                            uint8_t byte, uint64_t bytes, void *stream) {
    (void)dev;
    return gpu_fill(host, NULL, dst, byte, bytes, stream);
}

static opreg_status io_stream(const opreg_host *host, const opreg_device *dev, void **stream) {
    (void)host;
    (void)dev;
    *stream = NULL;
    return OPREG_OK;
}

static void io_drop(const opreg_host *host, const opreg_device *dev, void *stream) {
    (void)host;
    (void)dev;
    (void)stream;
}

static opreg_status io_sync(const opreg_host *host, const opreg_device *dev, void *stream) {
    io_drop(host, dev, stream);
    return OPREG_OK;
}

const opreg_device_io gpu_io = {.struct_size = sizeof(opreg_device_io),
                                .alloc = io_alloc,
                                .free = io_free,
                                .to_device = io_copy,
                                .to_host = io_copy,
                                .copy = io_copy,
                                .fill = io_fill,
                                .stream_create = io_stream,
                                .stream_destroy = io_drop,
                                .stream_sync = io_sync};
