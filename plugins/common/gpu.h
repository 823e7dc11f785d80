/* SPDX-License-Identifier: MIT
 * gpu.h - one vendor driver behind one small interface: what a GPU plugin's host code needs.
 *
 * cuda_driver.c implements it over libcuda.so.1, hip_driver.c over libamdhip64; a plugin links one
 * of them.  Nothing here needs an SDK.  A plugin describes its code objects and kernels in one
 * gpu_program; opening it finds the devices, loads the code into each device's primary context and
 * proves that every kernel is there. */
#ifndef OPREG_PLUGINS_GPU_H
#define OPREG_PLUGINS_GPU_H

#include "opreg/opreg_plugin.h"

/* One code object inside the plugin's library. */
typedef struct gpu_image {
    const char *name; /* for messages: "baseline_sums"                                           */
    const void *data;
    uint64_t bytes;
} gpu_image;

/* One kernel.  Its index in gpu_program.symbols is how it is launched. */
typedef struct gpu_symbol {
    const char *name;      /* as in the code object                                              */
    uint32_t image;        /* index in gpu_program.images                                        */
    uint32_t shared_bytes; /* most dynamic shared memory a launch asks for                       */
} gpu_symbol;

typedef struct gpu_program {
    const char *arch; /* "sm_90": the devices it runs on report it                               */
    const gpu_image *images;
    const gpu_image *jit_images; /* null, or the same images as text that the driver compiles for a
                                  * newer device while the plugin's switch "jit" is on (CUDA)    */
    uint32_t num_images;
    const gpu_symbol *symbols;
    uint32_t num_symbols;
} gpu_program;

/* Opens the driver and every device that the program runs on; fills rows as probe does.  No driver
 * or no such device is OPREG_OK with *count 0 and a line in the log that says why.  May be called
 * once per registry; the last gpu_close undoes it. */
opreg_status gpu_open(const opreg_host *host, const gpu_program *program, opreg_device *rows,
                      size_t cap, size_t *count);
void gpu_close(const opreg_host *host);

/* One open device; valid until gpu_close.  Null when the ordinal is not open. */
typedef struct gpu_device gpu_device;
const gpu_device *gpu_device_find(int32_t ordinal);

/* One launch.  shared is dynamic shared memory in bytes. */
typedef struct gpu_launch {
    uint32_t symbol;
    uint32_t grid_x, grid_y, grid_z, block;
    uint32_t shared;
    uint32_t chained; /* 1: may start before the launch ahead of it has ended; the kernel waits   */
} gpu_launch;

/* Enqueues a kernel with one by-value parameter struct on the stream.  Makes the device's context
 * current for the call and restores the caller's. */
opreg_status gpu_run(const opreg_host *host, const gpu_device *device, const gpu_launch *launch,
                     const void *parameters, void *stream);

/* The same, every `cluster` blocks along z together as a cluster, where the device has those. */
opreg_status gpu_run_clusters(const opreg_host *host, const gpu_device *device,
                              const gpu_launch *launch, uint32_t cluster, const void *parameters,
                              void *stream);

/* Enqueues a fill of device memory. */
opreg_status gpu_fill(const opreg_host *host, const gpu_device *device, void *dst, uint8_t byte,
                      uint64_t bytes, void *stream);

/* Registers, local and static shared bytes of a kernel as the driver reports them. */
typedef struct gpu_resources {
    int32_t registers, local_bytes, shared_bytes, max_threads;
} gpu_resources;
opreg_status gpu_kernel_resources(const opreg_host *host, const gpu_device *device, uint32_t symbol,
                                  gpu_resources *out);

/* Multiprocessors of the device. */
uint32_t gpu_units(const gpu_device *device);

/* Memory, streams, graphs and events for the core and the kit. */
extern const opreg_device_io gpu_io;

#endif /* OPREG_PLUGINS_GPU_H */
