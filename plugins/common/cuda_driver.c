/* SPDX-License-Identifier: MIT
 * cuda_driver.c - driver.h over libcuda.so.1, opened at run time.  The part of the CUDA driver API
 * that opreg calls is declared here, so that no SDK is needed to build.  Names and values are the
 * driver's own. */
#include "driver.h"

#include "opreg/opreg.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    CUDA_OUT_OF_MEMORY = 2,
    CUDA_NO_DEVICE = 100,
    CUDA_NOT_SUPPORTED = 801,
    ATTRIBUTE_MULTIPROCESSORS = 16,
    ATTRIBUTE_MAJOR = 75,
    ATTRIBUTE_MINOR = 76,
    FUNCTION_MAX_THREADS = 0,
    FUNCTION_SHARED_BYTES = 1,
    FUNCTION_LOCAL_BYTES = 3,
    FUNCTION_REGISTERS = 4,
    FUNCTION_MAX_DYNAMIC_SHARED = 8,
    STREAM_NON_BLOCKING = 1,
    CAPTURE_THREAD_LOCAL = 1,
    LAUNCH_CLUSTER_DIMENSION = 4,
    LAUNCH_PROGRAMMATIC_STREAM_SERIALIZATION = 6
};

/* Dynamic shared memory that a kernel may have without asking. */
#define SHARED_BYTES_GIVEN (48u * 1024u)

typedef unsigned long long cuda_address;

/* CUlaunchAttribute: the value is a union of 64 bytes. */
typedef struct cuda_attribute {
    int id;
    char pad[4];
    union {
        char bytes[64];
        int enabled;
        unsigned int cluster[3];
    } value;
} cuda_attribute;

/* CUlaunchConfig. */
typedef struct cuda_launch {
    unsigned int grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes;
    void *stream;
    cuda_attribute *attributes;
    unsigned int num_attributes;
} cuda_launch;

/* FUNCTION(name in the library, member, arguments); REQUIRED or OPTIONAL. */
#define CUDA_FUNCTIONS(REQUIRED, OPTIONAL)                                                         \
    REQUIRED("cuInit", init, (unsigned int flags))                                                 \
    REQUIRED("cuDriverGetVersion", version, (int *version))                                 \
    REQUIRED("cuGetErrorName", error_name, (int error, const char **name))                         \
    REQUIRED("cuGetErrorString", error_string, (int error, const char **text))                     \
    REQUIRED("cuDeviceGetCount", device_count, (int *count))                                       \
    REQUIRED("cuDeviceGet", device_get, (int *device, int ordinal))                                \
    REQUIRED("cuDeviceGetName", device_name, (char *name, int bytes, int device))                  \
    REQUIRED("cuDeviceTotalMem_v2", device_memory, (size_t *bytes, int device))                    \
    REQUIRED("cuDeviceGetAttribute", device_attribute, (int *value, int which, int device))        \
    REQUIRED("cuDevicePrimaryCtxRetain", context_retain, (void **context, int device))             \
    REQUIRED("cuDevicePrimaryCtxRelease_v2", context_release, (int device))                        \
    REQUIRED("cuCtxPushCurrent_v2", context_push, (void *context))                                 \
    REQUIRED("cuCtxPopCurrent_v2", context_pop, (void **context))                                  \
    REQUIRED("cuModuleLoadData", module_load, (void **module, const void *image))                  \
    REQUIRED("cuModuleUnload", module_unload, (void *module))                                      \
    REQUIRED("cuModuleGetFunction", module_function,                                               \
             (void **function, void *module, const char *name))                                    \
    REQUIRED("cuFuncGetAttribute", function_attribute, (int *value, int which, void *function))    \
    REQUIRED("cuFuncSetAttribute", function_set, (void *function, int which, int value))           \
    OPTIONAL("cuFuncLoad", function_load, (void *function))                                        \
    REQUIRED("cuLaunchKernel", launch,                                                             \
             (void *function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z,       \
              unsigned int block_x, unsigned int block_y, unsigned int block_z,                    \
              unsigned int shared_bytes, void *stream, void **parameters, void **extra))           \
    OPTIONAL("cuLaunchKernelEx", launch_with,                                                      \
             (const cuda_launch *config, void *function, void **parameters, void **extra))         \
    REQUIRED("cuMemAlloc_v2", alloc, (cuda_address *out, size_t bytes))                            \
    REQUIRED("cuMemFree_v2", free_memory, (cuda_address pointer))                                  \
    REQUIRED("cuMemcpyHtoDAsync_v2", to_device,                                                    \
             (cuda_address dst, const void *src, size_t bytes, void *stream))                      \
    REQUIRED("cuMemcpyDtoHAsync_v2", to_host,                                                      \
             (void *dst, cuda_address src, size_t bytes, void *stream))                            \
    REQUIRED("cuMemcpyDtoDAsync_v2", copy,                                                         \
             (cuda_address dst, cuda_address src, size_t bytes, void *stream))                     \
    REQUIRED("cuMemsetD8Async", fill,                                                              \
             (cuda_address dst, unsigned char byte, size_t bytes, void *stream))                   \
    REQUIRED("cuStreamCreate", stream_create, (void **stream, unsigned int flags))                 \
    REQUIRED("cuStreamDestroy_v2", stream_destroy, (void *stream))                                 \
    REQUIRED("cuStreamSynchronize", stream_sync, (void *stream))                                   \
    REQUIRED("cuStreamIsCapturing", capturing, (void *stream, int *state))                         \
    REQUIRED("cuStreamBeginCapture_v2", capture_begin, (void *stream, int mode))                   \
    REQUIRED("cuStreamEndCapture", capture_end, (void *stream, void **graph))                      \
    REQUIRED("cuGraphInstantiateWithFlags", graph_instantiate,                                     \
             (void **exec, void *graph, unsigned long long flags))                                 \
    REQUIRED("cuGraphLaunch", graph_launch, (void *exec, void *stream))                            \
    REQUIRED("cuGraphExecDestroy", graph_exec_destroy, (void *exec))                               \
    REQUIRED("cuGraphDestroy", graph_destroy, (void *graph))                                       \
    REQUIRED("cuEventCreate", event_create, (void **event, unsigned int flags))                    \
    REQUIRED("cuEventDestroy_v2", event_destroy, (void *event))                                    \
    REQUIRED("cuEventRecord", event_record, (void *event, void *stream))                           \
    REQUIRED("cuEventSynchronize", event_sync, (void *event))                                      \
    REQUIRED("cuEventElapsedTime", event_elapsed, (float *ms, void *from, void *to))

#define CUDA_MEMBER(symbol, member, arguments) int(*member) arguments;
typedef struct cuda_functions {
    void *library;
    CUDA_FUNCTIONS(CUDA_MEMBER, CUDA_MEMBER)
} cuda_functions;

/* Written by driver_load only, which gpu.c calls under its lock. */
static cuda_functions cuda;

const uint32_t driver_kind = OPREG_CUDA;
const int driver_no_device = CUDA_NO_DEVICE;
const int driver_out_of_memory = CUDA_OUT_OF_MEMORY;
const int driver_unsupported = CUDA_NOT_SUPPORTED;

/* POSIX promises that a function fits in a void pointer; ISO C has no cast for it. */
static int resolve(const char *name, void *member) {
    void *symbol = dlsym(cuda.library, name);
    memcpy(member, &symbol, sizeof symbol);
    return symbol != NULL;
}

int driver_load(char *text, size_t text_bytes) {
    if (cuda.library != NULL) {
        return 0;
    }
    cuda.library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (cuda.library == NULL) {
        const char *reason = dlerror();
        snprintf(text, text_bytes, "no CUDA driver: %s", reason != NULL ? reason : "libcuda.so.1");
        return -1;
    }
#define RESOLVE_REQUIRED(symbol, member, arguments)                                                \
    if (!resolve(symbol, &cuda.member)) {                                                          \
        snprintf(text, text_bytes,                                                                 \
                 "the CUDA driver libcuda.so.1 has no %s; it is older than CUDA 11.4", symbol);    \
        dlclose(cuda.library);                                                                     \
        memset(&cuda, 0, sizeof cuda);                                                             \
        return -1;                                                                                 \
    }
#define RESOLVE_OPTIONAL(symbol, member, arguments) (void)resolve(symbol, &cuda.member);
    CUDA_FUNCTIONS(RESOLVE_REQUIRED, RESOLVE_OPTIONAL)
    return 0;
}

void driver_describe(int error, char *text, size_t text_bytes) {
    const char *name = NULL, *string = NULL;
    (void)cuda.error_name(error, &name);
    (void)cuda.error_string(error, &string);
    snprintf(text, text_bytes, "%s (%d): %s", name != NULL ? name : "unknown CUDA error", error,
             string != NULL ? string : "no text");
}

void driver_version(char *text, size_t text_bytes) {
    int version = 0;
    (void)cuda.version(&version);
    snprintf(text, text_bytes, "CUDA %d.%d", version / 1000, version % 1000 / 10);
}

/* ---- devices ------------------------------------------------------------------------------------ */

int driver_count(int *count) {
    int error = cuda.init(0);
    return error != 0 ? error : cuda.device_count(count);
}

int driver_device(int ordinal, char arch[DRIVER_NAME_BYTES], char name[DRIVER_NAME_BYTES],
                  uint32_t *units, uint64_t *memory_bytes) {
    int device = 0, major = 0, minor = 0, processors = 0;
    size_t memory = 0;
    int error = cuda.device_get(&device, ordinal);
    if (error == 0) {
        error = cuda.device_attribute(&major, ATTRIBUTE_MAJOR, device);
    }
    if (error == 0) {
        error = cuda.device_attribute(&minor, ATTRIBUTE_MINOR, device);
    }
    if (error == 0) {
        error = cuda.device_attribute(&processors, ATTRIBUTE_MULTIPROCESSORS, device);
    }
    if (error == 0) {
        error = cuda.device_memory(&memory, device);
    }
    if (error == 0) {
        error = cuda.device_name(name, DRIVER_NAME_BYTES, device);
    }
    snprintf(arch, DRIVER_NAME_BYTES, "sm_%d%d", major, minor);
    *units = (uint32_t)processors;
    *memory_bytes = memory;
    return error;
}

static long capability_of(const char *arch) {
    return strncmp(arch, "sm_", 3) == 0 ? strtol(arch + 3, NULL, 10) : 0;
}

int driver_compiles(const char *written, const char *arch) {
    return capability_of(arch) > capability_of(written);
}

int driver_open(int ordinal, driver_place *place) {
    int device = 0;
    int error = cuda.device_get(&device, ordinal);
    place->ordinal = ordinal;
    place->context = NULL;
    return error != 0 ? error : cuda.context_retain(&place->context, device);
}

void driver_close(driver_place *place) {
    int device = 0;
    if (place->context != NULL && cuda.device_get(&device, place->ordinal) == 0) {
        (void)cuda.context_release(device);
    }
    memset(place, 0, sizeof *place);
}

int driver_enter(const driver_place *place, int *previous) {
    *previous = 0; /* the driver keeps the contexts of a thread in a stack */
    return cuda.context_push(place->context);
}

void driver_leave(int previous) {
    void *popped;
    (void)previous;
    (void)cuda.context_pop(&popped);
}

/* ---- code --------------------------------------------------------------------------------------- */

int driver_module_load(void **module, const void *image) { return cuda.module_load(module, image); }

int driver_module_unload(void *module) { return cuda.module_unload(module); }

int driver_kernel(void **kernel, void *module, const char *name, uint32_t shared_bytes) {
    int registers = 0;
    int error = cuda.module_function(kernel, module, name);
    if (error == 0 && cuda.function_load != NULL) {
        error = cuda.function_load(*kernel);
    }
    if (error == 0) {
        error = cuda.function_attribute(&registers, FUNCTION_REGISTERS, *kernel);
    }
    if (error == 0 && shared_bytes > SHARED_BYTES_GIVEN) {
        error = cuda.function_set(*kernel, FUNCTION_MAX_DYNAMIC_SHARED, (int)shared_bytes);
    }
    return error;
}

int driver_kernel_resources(void *kernel, int32_t out[4]) {
    static const int which[4] = {FUNCTION_REGISTERS, FUNCTION_LOCAL_BYTES, FUNCTION_SHARED_BYTES,
                                 FUNCTION_MAX_THREADS};
    for (int i = 0; i < 4; i++) {
        int error = cuda.function_attribute(&out[i], which[i], kernel);
        if (error != 0) {
            return error;
        }
    }
    return 0;
}

int driver_launch(void *kernel, const driver_grid *grid, const void *parameters, void *stream) {
    void *list[1];
    memcpy(list, &parameters, sizeof list);
    if (cuda.launch_with != NULL && (grid->chained || grid->cluster > 1)) {
        cuda_attribute attributes[2] = {{.id = 0}};
        cuda_launch launch = {grid->x, grid->y, grid->z, grid->threads, 1, 1, grid->shared_bytes,
                              stream,  attributes, 0};
        if (grid->chained) {
            cuda_attribute *chained = &attributes[launch.num_attributes++];
            chained->id = LAUNCH_PROGRAMMATIC_STREAM_SERIALIZATION;
            chained->value.enabled = 1;
        }
        if (grid->cluster > 1) {
            cuda_attribute *cluster = &attributes[launch.num_attributes++];
            cluster->id = LAUNCH_CLUSTER_DIMENSION;
            cluster->value.cluster[0] = 1;
            cluster->value.cluster[1] = 1;
            cluster->value.cluster[2] = grid->cluster;
        }
        return cuda.launch_with(&launch, kernel, list, NULL);
    }
    if (grid->cluster > 1) {
        return CUDA_NOT_SUPPORTED;
    }
    return cuda.launch(kernel, grid->x, grid->y, grid->z, grid->threads, 1, 1, grid->shared_bytes,
                       stream, list, NULL);
}

/* ---- memory -------------------------------------------------------------------------------------- */

static cuda_address address(const void *pointer) { return (cuda_address)(uintptr_t)pointer; }

int driver_alloc(void **out, size_t bytes) {
    cuda_address pointer = 0;
    int error = cuda.alloc(&pointer, bytes);
    *out = (void *)(uintptr_t)pointer;
    return error;
}

int driver_free(void *pointer) { return cuda.free_memory(address(pointer)); }

int driver_to_device(void *dst, const void *src, size_t bytes, void *stream) {
    int error = cuda.to_device(address(dst), src, bytes, stream);
    return error != 0 ? error : cuda.stream_sync(stream); /* page-locked memory is read later */
}

int driver_to_host(void *dst, const void *src, size_t bytes, void *stream) {
    int error = cuda.to_host(dst, address(src), bytes, stream);
    return error != 0 ? error : cuda.stream_sync(stream);
}

int driver_copy(void *dst, const void *src, size_t bytes, void *stream) {
    return cuda.copy(address(dst), address(src), bytes, stream);
}

int driver_fill(void *dst, uint8_t byte, size_t bytes, void *stream) {
    return cuda.fill(address(dst), byte, bytes, stream);
}

/* ---- streams, graphs, events ---------------------------------------------------------------------- */

int driver_stream_create(void **stream) { return cuda.stream_create(stream, STREAM_NON_BLOCKING); }

int driver_stream_destroy(void *stream) { return cuda.stream_destroy(stream); }

int driver_stream_sync(void *stream) { return cuda.stream_sync(stream); }

int driver_capturing(void *stream, int *yes) {
    int state = 0, error = cuda.capturing(stream, &state);
    *yes = state != 0; /* active, or broken already */
    return error;
}

int driver_capture_begin(void *stream) { return cuda.capture_begin(stream, CAPTURE_THREAD_LOCAL); }

int driver_capture_end(void *stream, void **graph) {
    void *captured = NULL;
    int error = cuda.capture_end(stream, &captured);
    if (error == 0) {
        error = cuda.graph_instantiate(graph, captured, 0);
        (void)cuda.graph_destroy(captured);
    }
    return error;
}

int driver_graph_launch(void *graph, void *stream) { return cuda.graph_launch(graph, stream); }

int driver_graph_destroy(void *graph) { return cuda.graph_exec_destroy(graph); }

int driver_event_create(void **event) { return cuda.event_create(event, 0); }

int driver_event_destroy(void *event) { return cuda.event_destroy(event); }

int driver_event_record(void *event, void *stream) { return cuda.event_record(event, stream); }

int driver_event_elapsed(void *from, void *to, double *us) {
    float ms = 0.0f;
    int error = cuda.event_sync(to);
    if (error == 0) {
        error = cuda.event_elapsed(&ms, from, to);
        *us = (double)ms * 1000.0;
    }
    return error;
}
