/* SPDX-License-Identifier: MIT
 * cuda_gpu.h - what cuda_gpu.c and cuda_io.c share: the open driver and its devices. */
#ifndef OPREG_PLUGINS_CUDA_GPU_H
#define OPREG_PLUGINS_CUDA_GPU_H

#include "cuda_driver.h"
#include "gpu.h"

#define CUDA_MAX_DEVICES 16u

struct gpu_device {
    int32_t ordinal;
    uint32_t units;
    CUdevice device;
    CUcontext context; /* the primary one, retained                                               */
    const char *arch;
    uint32_t num_modules, num_functions;
    CUmodule *modules;
    CUfunction *functions;
};

typedef struct cuda_state {
    cuda_driver driver;
    gpu_device devices[CUDA_MAX_DEVICES];
    uint32_t num_devices, users;
} cuda_state;

const cuda_driver *cuda_gpu_driver(void);

/* OPREG_OK for error 0; else OPREG_E_DEVICE with "what failed: NAME (code): text". */
opreg_status cuda_gpu_fail(const opreg_host *host, CUresult error, const char *what);

/* Makes the device's context current until cuda_gpu_leave. */
opreg_status cuda_gpu_enter(const opreg_host *host, const gpu_device *device);
void cuda_gpu_leave(void);

#endif /* OPREG_PLUGINS_CUDA_GPU_H */
