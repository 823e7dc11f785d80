/* SPDX-License-Identifier: MIT
 * cuda_gpu.c - gpu.h over the CUDA driver: devices, code objects, launches. */
#include "gpu.h"

#include "cuda_driver.h"
#include "cuda_gpu.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What is open, shared by every registry of the process: a driver has one primary context per
 * device, and so has this.  Written under the lock by gpu_open and gpu_close only. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static cuda_state state;

const cuda_driver *cuda_gpu_driver(void) { return &state.driver; }

opreg_status cuda_gpu_fail(const opreg_host *host, CUresult error, const char *what) {
    char text[192];
    if (error == 0) {
        return OPREG_OK;
    }
    cuda_driver_describe(&state.driver, error, text, sizeof text);
    host->error(host->ctx, "%s failed: %s", what, text);
    return OPREG_E_DEVICE;
}

opreg_status cuda_gpu_enter(const opreg_host *host, const gpu_device *device) {
    return cuda_gpu_fail(host, state.driver.context_push(device->context), "cuCtxPushCurrent");
}

void cuda_gpu_leave(void) {
    CUcontext popped;
    (void)state.driver.context_pop(&popped);
}

const gpu_device *gpu_device_find(int32_t ordinal) {
    for (uint32_t i = 0; i < state.num_devices; i++) {
        if (state.devices[i].ordinal == ordinal) {
            return &state.devices[i];
        }
    }
    return NULL;
}

uint32_t gpu_units(const gpu_device *device) { return device->units; }

/* Looks up one kernel and makes the driver load it now, so that the first run may be captured. */
static opreg_status load_kernel(const opreg_host *host, gpu_device *device,
                                const gpu_symbol *symbol, CUfunction *out) {
    const cuda_driver *driver = &state.driver;
    char what[128];
    int registers = 0;
    CUresult error = driver->module_function(out, device->modules[symbol->image], symbol->name);
    snprintf(what, sizeof what, "looking up the kernel %s in the %s image", symbol->name,
             device->arch);
    if (error == 0 && driver->function_load != NULL) {
        error = driver->function_load(*out);
    }
    if (error == 0) {
        error = driver->function_attribute(&registers, CU_FUNCTION_REGISTERS, *out);
    }
    if (error == 0 && symbol->shared_bytes > 48u * 1024u) {
        snprintf(what, sizeof what, "giving the kernel %s %u bytes of shared memory", symbol->name,
                 symbol->shared_bytes);
        error = driver->function_set(*out, CU_FUNCTION_MAX_DYNAMIC_SHARED,
                                     (int)symbol->shared_bytes);
    }
    return cuda_gpu_fail(host, error, what);
}

static void close_device(gpu_device *device) {
    if (device->context != NULL) {
        if (state.driver.context_push(device->context) == 0) {
            for (uint32_t i = 0; i < device->num_modules; i++) {
                if (device->modules[i] != NULL) {
                    (void)state.driver.module_unload(device->modules[i]);
                }
            }
            cuda_gpu_leave();
        }
        (void)state.driver.context_release(device->device);
    }
    free(device->modules);
    free(device->functions);
    memset(device, 0, sizeof *device);
}

static opreg_status load_program(const opreg_host *host, const gpu_program *program,
                                 const gpu_image *images, gpu_device *device) {
    opreg_status status = OPREG_OK;
    device->modules = calloc(program->num_images, sizeof(CUmodule));
    device->functions = calloc(program->num_symbols, sizeof(CUfunction));
    if (device->modules == NULL || device->functions == NULL) {
        host->error(host->ctx, "no memory for %u kernels", program->num_symbols);
        return OPREG_E_NOMEM;
    }
    device->num_modules = program->num_images;
    device->num_functions = program->num_symbols;
    status = cuda_gpu_enter(host, device);
    if (status != OPREG_OK) {
        return status;
    }
    for (uint32_t i = 0; i < program->num_images && status == OPREG_OK; i++) {
        char what[96];
        snprintf(what, sizeof what, "loading the %s image %s", program->arch, images[i].name);
        status = cuda_gpu_fail(
            host, state.driver.module_load(&device->modules[i], images[i].data), what);
    }
    for (uint32_t i = 0; i < program->num_symbols && status == OPREG_OK; i++) {
        status = load_kernel(host, device, &program->symbols[i], &device->functions[i]);
    }
    cuda_gpu_leave();
    return status;
}

/* Opens device `ordinal` when the program runs on it.  Not its architecture: OPREG_OK, not open. */
static opreg_status open_device(const opreg_host *host, const gpu_program *program, int ordinal) {
    const cuda_driver *driver = &state.driver;
    gpu_device *device = &state.devices[state.num_devices];
    const gpu_image *images = program->images;
    int major = 0, minor = 0, units = 0;
    opreg_status status = OPREG_OK;
    CUresult error = driver->device_get(&device->device, ordinal);
    if (error == 0) {
        error = driver->device_attribute(&major, CU_ATTRIBUTE_MAJOR, device->device);
    }
    if (error == 0) {
        error = driver->device_attribute(&minor, CU_ATTRIBUTE_MINOR, device->device);
    }
    if (error == 0) {
        error = driver->device_attribute(&units, CU_ATTRIBUTE_MULTIPROCESSORS, device->device);
    }
    if (error != 0) {
        return cuda_gpu_fail(host, error, "asking for the device's architecture");
    }
    if (major != program->major || minor != program->minor) {
        char line[192];
        int newer = major * 10 + minor > program->major * 10 + program->minor;
        int asked = host->switch_on != NULL && host->switch_on(host->ctx, "jit") != 0;
        if (asked && newer && program->jit_images != NULL) {
            images = program->jit_images;
        } else {
            snprintf(line, sizeof line,
                     "CUDA device %d has compute capability %d.%d; this plugin has code for %s%s",
                     ordinal, major, minor, program->arch,
                     asked ? ", and none that the driver could compile for another" : "");
            host->log(host->ctx, OPREG_LOG_INFO, line);
            return OPREG_OK;
        }
    }
    device->ordinal = ordinal;
    device->units = (uint32_t)units;
    device->arch = program->arch;
    error = driver->context_retain(&device->context, device->device);
    if (error != 0) {
        return cuda_gpu_fail(host, error, "cuDevicePrimaryCtxRetain");
    }
    status = load_program(host, program, images, device);
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
    state.num_devices = 0;
    state.users = 0;
    /* the driver's library stays mapped: it has threads of its own */
}

static opreg_status open_all(const opreg_host *host, const gpu_program *program) {
    char text[256];
    int count = 0;
    opreg_status status = OPREG_OK;
    CUresult error;
    if (state.driver.library == NULL &&
        cuda_driver_load(&state.driver, NULL, text, sizeof text) != 0) {
        host->log(host->ctx, OPREG_LOG_INFO, text);
        return OPREG_OK;
    }
    error = state.driver.init(0);
    if (error == CU_NO_DEVICE) {
        host->log(host->ctx, OPREG_LOG_INFO, "the CUDA driver sees no device");
        return OPREG_OK;
    }
    if (error == 0) {
        error = state.driver.device_count(&count);
    }
    if (error != 0) {
        return cuda_gpu_fail(host, error, "cuInit");
    }
    for (int i = 0; i < count && state.num_devices < CUDA_MAX_DEVICES && status == OPREG_OK; i++) {
        status = open_device(host, program, i);
    }
    return status;
}

static void fill_row(const gpu_device *device, opreg_device *row) {
    size_t memory = 0;
    memset(row, 0, sizeof *row);
    row->struct_size = sizeof *row;
    row->kind = OPREG_CUDA;
    row->ordinal = device->ordinal;
    row->units = device->units;
    (void)state.driver.device_memory(&memory, device->device);
    row->memory_bytes = memory;
    snprintf(row->arch, sizeof row->arch, "%s", device->arch);
    (void)state.driver.device_name(row->name, (int)sizeof row->name, device->device);
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
    CUfunction function = device->functions[launch->symbol];
    void *list[1];
    CUresult error;
    opreg_status status = cuda_gpu_enter(host, device);
    if (status != OPREG_OK) {
        return status;
    }
    memcpy(list, &(const void *){parameters}, sizeof list);
    if (launch->chained && state.driver.launch_with != NULL) {
        CUlaunchAttribute attribute = {.id = CU_LAUNCH_PROGRAMMATIC_STREAM_SERIALIZATION};
        CUlaunchConfig config = {launch->grid_x, launch->grid_y,   launch->grid_z,
                                 launch->block,  1,                1,
                                 launch->shared, (CUstream)stream, &attribute,
                                 1};
        attribute.value.enabled = 1;
        error = state.driver.launch_with(&config, function, list, NULL);
    } else {
        error = state.driver.launch(function, launch->grid_x, launch->grid_y, launch->grid_z,
                                    launch->block, 1, 1, launch->shared, (CUstream)stream, list,
                                    NULL);
    }
    if (error != 0) {
        char what[160];
        snprintf(what, sizeof what, "launching kernel %u (grid %u,%u,%u block %u shared %u)",
                 launch->symbol, launch->grid_x, launch->grid_y, launch->grid_z, launch->block,
                 launch->shared);
        status = cuda_gpu_fail(host, error, what);
    }
    cuda_gpu_leave();
    return status;
}

opreg_status gpu_fill(const opreg_host *host, const gpu_device *device, void *dst, uint8_t byte,
                      uint64_t bytes, void *stream) {
    opreg_status status = cuda_gpu_enter(host, device);
    if (status == OPREG_OK) {
        status = cuda_gpu_fail(host,
                               state.driver.fill((CUdeviceptr)(uintptr_t)dst, byte, (size_t)bytes,
                                                 (CUstream)stream),
                               "cuMemsetD8Async");
        cuda_gpu_leave();
    }
    return status;
}

opreg_status gpu_kernel_resources(const opreg_host *host, const gpu_device *device, uint32_t symbol,
                                  gpu_resources *out) {
    CUfunction function = device->functions[symbol];
    int values[4] = {0};
    static const int which[4] = {CU_FUNCTION_REGISTERS, CU_FUNCTION_LOCAL_BYTES,
                                 CU_FUNCTION_SHARED_BYTES, CU_FUNCTION_MAX_THREADS};
    for (int i = 0; i < 4; i++) {
        CUresult error = state.driver.function_attribute(&values[i], which[i], function);
        if (error != 0) {
            return cuda_gpu_fail(host, error, "cuFuncGetAttribute");
        }
    }
    *out = (gpu_resources){values[0], values[1], values[2], values[3]};
    return OPREG_OK;
}
