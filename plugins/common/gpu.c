/* SPDX-License-Identifier: MIT
 * gpu.c - gpu.h over driver.h: devices, code objects, launches. */
#include "gpu_device.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_DEVICES 16u

/* What is open, shared by every registry of the process.  Written under the lock by gpu_open and
 * gpu_close only. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
    gpu_device devices[MAX_DEVICES];
    uint32_t num_devices, users;
} state;

opreg_status gpu_fail(const opreg_host *host, int error, const char *what) {
    char text[192];
    if (error == 0) {
        return OPREG_OK;
    }
    driver_describe(error, text, sizeof text);
    host->error(host->ctx, "%s failed: %s", what, text);
    return error == driver_out_of_memory ? OPREG_E_NOMEM
           : error == driver_unsupported ? OPREG_E_UNSUPPORTED
                                         : OPREG_E_DEVICE;
}

opreg_status gpu_enter(const opreg_host *host, const gpu_device *device, int *previous) {
    return gpu_fail(host, driver_enter(&device->place, previous), "making the device current");
}

const gpu_device *gpu_device_find(int32_t ordinal) {
    for (uint32_t i = 0; i < state.num_devices; i++) {
        if (state.devices[i].place.ordinal == ordinal) {
            return &state.devices[i];
        }
    }
    return NULL;
}

uint32_t gpu_units(const gpu_device *device) { return device->units; }

static void close_device(gpu_device *device) {
    int previous, entered = device->modules != NULL && driver_enter(&device->place, &previous) == 0;
    for (uint32_t i = 0; device->modules != NULL && i < device->program->num_images; i++) {
        if (device->modules[i] != NULL) {
            (void)driver_module_unload(device->modules[i]);
        }
    }
    if (entered) {
        driver_leave(previous);
    }
    driver_close(&device->place);
    free(device->modules);
    free(device->kernels);
    memset(device, 0, sizeof *device);
}

/* Loads every image and looks up every kernel now, so that the first run may be captured and a code
 * object that lacks one is found before it can be selected. */
static opreg_status load_program(const opreg_host *host, gpu_device *device,
                                 const gpu_image *images) {
    const gpu_program *program = device->program;
    opreg_status status;
    char what[160], version[32];
    int previous;
    device->modules = calloc(program->num_images, sizeof(void *));
    device->kernels = calloc(program->num_symbols, sizeof(void *));
    if (device->modules == NULL || device->kernels == NULL) {
        host->error(host->ctx, "no memory for %u kernels", program->num_symbols);
        return OPREG_E_NOMEM;
    }
    status = gpu_enter(host, device, &previous);
    if (status != OPREG_OK) {
        return status;
    }
    driver_version(version, sizeof version);
    for (uint32_t i = 0; i < program->num_images && status == OPREG_OK; i++) {
        snprintf(what, sizeof what, "loading the %s image %s, built with %s, into the driver of %s",
                 program->arch, images[i].name, OPREG_PLUGIN_BUILT_WITH, version);
        status = gpu_fail(host, driver_module_load(&device->modules[i], images[i].data), what);
    }
    for (uint32_t i = 0; i < program->num_symbols && status == OPREG_OK; i++) {
        const gpu_symbol *symbol = &program->symbols[i];
        snprintf(what, sizeof what, "looking up the kernel %s in the %s image %s", symbol->name,
                 program->arch, images[symbol->image].name);
        status = gpu_fail(host,
                          driver_kernel(&device->kernels[i], device->modules[symbol->image],
                                        symbol->name, symbol->shared_bytes),
                          what);
    }
    driver_leave(previous);
    return status;
}

/* The images for a device of that architecture; null, with a line in the log, where there are none. */
static const gpu_image *images_for(const opreg_host *host, const gpu_program *program, int ordinal,
                                   const char *arch) {
    int asked = host->switch_on != NULL && host->switch_on(host->ctx, "jit") != 0;
    char line[192];
    if (strcmp(arch, program->arch) == 0) {
        return program->images;
    }
    if (asked && program->jit_images != NULL && driver_compiles(program->arch, arch)) {
        return program->jit_images;
    }
    snprintf(line, sizeof line, "device %d is %s; this plugin has code for %s%s", ordinal, arch,
             program->arch, asked ? ", and none that the driver could compile for another" : "");
    host->log(host->ctx, OPREG_LOG_INFO, line);
    return NULL;
}

/* Opens device `ordinal` when the program runs on it.  Not its architecture: OPREG_OK, not open. */
static opreg_status open_device(const opreg_host *host, const gpu_program *program, int ordinal) {
    gpu_device *device = &state.devices[state.num_devices];
    const gpu_image *images;
    char arch[DRIVER_NAME_BYTES];
    opreg_status status =
        gpu_fail(host, driver_device(ordinal, arch, device->name, &device->units, &device->memory),
                 "asking for the device's architecture");
    if (status != OPREG_OK) {
        return status;
    }
    images = images_for(host, program, ordinal, arch);
    if (images == NULL) {
        return OPREG_OK;
    }
    device->program = program;
    status = gpu_fail(host, driver_open(ordinal, &device->place), "opening the device");
    if (status == OPREG_OK) {
        status = load_program(host, device, images);
    }
    if (status != OPREG_OK) {
        close_device(device);
        return status;
    }
    state.num_devices++;
    return OPREG_OK;
}

static void close_all(void) {
    for (uint32_t i = 0; i < state.num_devices; i++) {
        close_device(&state.devices[i]);
    }
    memset(&state, 0, sizeof state);
    /* the driver's library stays mapped: it has threads of its own */
}

static opreg_status open_all(const opreg_host *host, const gpu_program *program) {
    char text[256];
    int count = 0, error;
    opreg_status status = OPREG_OK;
    if (driver_load(text, sizeof text) != 0) {
        host->log(host->ctx, OPREG_LOG_INFO, text);
        return OPREG_OK;
    }
    error = driver_count(&count);
    if (error == driver_no_device) {
        host->log(host->ctx, OPREG_LOG_INFO, "the driver sees no device");
        return OPREG_OK;
    }
    if (error != 0) {
        return gpu_fail(host, error, "starting the driver");
    }
    for (int i = 0; i < count && state.num_devices < MAX_DEVICES && status == OPREG_OK; i++) {
        status = open_device(host, program, i);
    }
    return status;
}

static void fill_row(const gpu_device *device, opreg_device *row) {
    memset(row, 0, sizeof *row);
    row->struct_size = sizeof *row;
    row->kind = driver_kind;
    row->ordinal = device->place.ordinal;
    row->units = device->units;
    row->memory_bytes = device->memory;
    snprintf(row->arch, sizeof row->arch, "%s", device->program->arch);
    snprintf(row->name, sizeof row->name, "%s", device->name);
}

opreg_status gpu_open(const opreg_host *host, const gpu_program *program, opreg_device *rows,
                      size_t cap, size_t *count) {
    opreg_status status = OPREG_OK;
    pthread_mutex_lock(&lock);
    if (state.users == 0) {
        status = open_all(host, program);
    }
    if (status == OPREG_OK) {
        state.users++;
        *count = state.num_devices;
        for (uint32_t i = 0; i < state.num_devices && i < cap; i++) {
            fill_row(&state.devices[i], &rows[i]);
        }
    } else {
        close_all();
    }
    pthread_mutex_unlock(&lock);
    return status;
}

void gpu_close(const opreg_host *host) {
    (void)host;
    pthread_mutex_lock(&lock);
    if (state.users > 0 && --state.users == 0) {
        close_all();
    }
    pthread_mutex_unlock(&lock);
}

opreg_status gpu_run(const opreg_host *host, const gpu_device *device, const gpu_launch *launch,
                     const void *parameters, void *stream) {
    return gpu_run_clusters(host, device, launch, 1, parameters, stream);
}

opreg_status gpu_run_clusters(const opreg_host *host, const gpu_device *device,
                              const gpu_launch *launch, uint32_t cluster, const void *parameters,
                              void *stream) {
    const driver_grid grid = {launch->grid_x, launch->grid_y,  launch->grid_z, launch->block,
                              launch->shared, launch->chained, cluster};
    int previous, error;
    opreg_status status = gpu_enter(host, device, &previous);
    if (status != OPREG_OK) {
        return status;
    }
    error = driver_launch(device->kernels[launch->symbol], &grid, parameters, stream);
    if (error != 0) {
        char what[192];
        snprintf(what, sizeof what, "launching %s (grid %u,%u,%u block %u shared %u)",
                 device->program->symbols[launch->symbol].name, grid.x, grid.y, grid.z,
                 grid.threads, grid.shared_bytes);
        status = gpu_fail(host, error, what);
    }
    driver_leave(previous);
    return status;
}

opreg_status gpu_fill(const opreg_host *host, const gpu_device *device, void *dst, uint8_t byte,
                      uint64_t bytes, void *stream) {
    int previous;
    opreg_status status = gpu_enter(host, device, &previous);
    if (status == OPREG_OK) {
        status = gpu_fail(host, driver_fill(dst, byte, (size_t)bytes, stream),
                          "filling device memory");
        driver_leave(previous);
    }
    return status;
}

opreg_status gpu_kernel_resources(const opreg_host *host, const gpu_device *device, uint32_t symbol,
                                  gpu_resources *out) {
    int32_t values[4] = {0};
    opreg_status status =
        gpu_fail(host, driver_kernel_resources(device->kernels[symbol], values),
                 "asking for a kernel's registers");
    *out = (gpu_resources){values[0], values[1], values[2], values[3]};
    return status;
}
