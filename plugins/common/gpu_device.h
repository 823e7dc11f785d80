/* SPDX-License-Identifier: MIT
 * gpu_device.h - what gpu.c and gpu_io.c share: an open device. */
#ifndef OPREG_PLUGINS_GPU_DEVICE_H
#define OPREG_PLUGINS_GPU_DEVICE_H

#include "driver.h"
#include "gpu.h"

struct gpu_device {
    driver_place place;
    uint32_t units;
    uint64_t memory;
    char name[DRIVER_NAME_BYTES];
    const gpu_program *program;
    void **modules; /* one an image                                                               */
    void **kernels; /* one a symbol                                                               */
};

/* OPREG_OK for error 0; else a status and the text "what failed: NAME (code): text". */
opreg_status gpu_fail(const opreg_host *host, int error, const char *what);

/* Makes the device current until driver_leave(*previous). */
opreg_status gpu_enter(const opreg_host *host, const gpu_device *device, int *previous);

#endif /* OPREG_PLUGINS_GPU_DEVICE_H */
