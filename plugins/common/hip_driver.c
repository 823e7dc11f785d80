/* SPDX-License-Identifier: MIT
 * hip_driver.c - driver.h over libamdhip64, opened at run time.  The part of the HIP API that opreg
 * calls is declared here, so that no SDK is needed to build.  Names and values are HIP's own. */
#include "driver.h"

#include "opreg/opreg.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

enum {
    HIP_NO_DEVICE = 100,
    HIP_NOT_SUPPORTED = 801,
    HIP_OUT_OF_MEMORY = 2,
    HIP_MULTIPROCESSORS = 63, /* hipDeviceAttributeMultiprocessorCount                             */
    HIP_STREAM_NON_BLOCKING = 1,
    HIP_CAPTURE_THREAD_LOCAL = 1
};

/* hipDeviceProp_t grew in ROCm 6, whose libraries have both forms under two names. */
#define PROPERTIES_BYTES 4096u
#define ARCH_OFFSET_R0600 1160u /* gcnArchName of hipGetDevicePropertiesR0600                      */
#define ARCH_OFFSET_OLD 396u    /* gcnArchName of ROCm 5's hipGetDeviceProperties                  */

/* FUNCTION(name in the library, member, arguments); REQUIRED or OPTIONAL. */
#define HIP_FUNCTIONS(REQUIRED, OPTIONAL)                                                          \
    REQUIRED("hipInit", init, (unsigned int flags))                                                \
    REQUIRED("hipDriverGetVersion", version, (int *version))                                       \
    REQUIRED("hipGetDeviceCount", device_count, (int *count))                                      \
    REQUIRED("hipGetDevice", get_device, (int *ordinal))                                           \
    REQUIRED("hipSetDevice", set_device, (int ordinal))                                            \
    REQUIRED("hipDeviceGetName", device_name, (char *name, int bytes, int device))                 \
    REQUIRED("hipDeviceTotalMem", device_memory, (size_t *bytes, int device))                      \
    REQUIRED("hipDeviceGetAttribute", device_attribute, (int *value, int which, int device))       \
    OPTIONAL("hipGetDevicePropertiesR0600", properties, (void *properties, int device))            \
    OPTIONAL("hipGetDeviceProperties", properties_old, (void *properties, int device))             \
    REQUIRED("hipModuleLoadData", module_load, (void **module, const void *image))                 \
    REQUIRED("hipModuleUnload", module_unload, (void *module))                                     \
    REQUIRED("hipModuleGetFunction", module_function,                                              \
             (void **function, void *module, const char *name))                                    \
    REQUIRED("hipFuncGetAttribute", function_attribute, (int *value, int which, void *function))   \
    REQUIRED("hipModuleLaunchKernel", launch,                                                      \
             (void *function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z,       \
              unsigned int block_x, unsigned int block_y, unsigned int block_z,                    \
              unsigned int shared_bytes, void *stream, void **parameters, void **extra))           \
    REQUIRED("hipMalloc", alloc, (void **out, size_t bytes))                                       \
    REQUIRED("hipFree", free_memory, (void *pointer))                                              \
    REQUIRED("hipMemcpyHtoDAsync", to_device,                                                      \
             (void *dst, void *src, size_t bytes, void *stream))                                   \
    REQUIRED("hipMemcpyDtoHAsync", to_host, (void *dst, void *src, size_t bytes, void *stream))    \
    REQUIRED("hipMemcpyDtoDAsync", copy, (void *dst, void *src, size_t bytes, void *stream))       \
    REQUIRED("hipMemsetAsync", fill, (void *dst, int byte, size_t bytes, void *stream))            \
    REQUIRED("hipStreamCreateWithFlags", stream_create, (void **stream, unsigned int flags))       \
    REQUIRED("hipStreamDestroy", stream_destroy, (void *stream))                                   \
    REQUIRED("hipStreamSynchronize", stream_sync, (void *stream))                                  \
    OPTIONAL("hipStreamIsCapturing", capturing, (void *stream, int *state))                        \
    OPTIONAL("hipStreamBeginCapture", capture_begin, (void *stream, int mode))                     \
    OPTIONAL("hipStreamEndCapture", capture_end, (void *stream, void **graph))                     \
    OPTIONAL("hipGraphInstantiateWithFlags", graph_instantiate,                                    \
             (void **exec, void *graph, unsigned long long flags))                                 \
    OPTIONAL("hipGraphLaunch", graph_launch, (void *exec, void *stream))                           \
    OPTIONAL("hipGraphExecDestroy", graph_exec_destroy, (void *exec))                              \
    OPTIONAL("hipGraphDestroy", graph_destroy, (void *graph))                                      \
    REQUIRED("hipEventCreateWithFlags", event_create, (void **event, unsigned int flags))          \
    REQUIRED("hipEventDestroy", event_destroy, (void *event))                                      \
    REQUIRED("hipEventRecord", event_record, (void *event, void *stream))                          \
    REQUIRED("hipEventSynchronize", event_sync, (void *event))                                     \
    REQUIRED("hipEventElapsedTime", event_elapsed, (float *ms, void *from, void *to))

#define HIP_MEMBER(symbol, member, arguments) int(*member) arguments;
typedef struct hip_functions {
    void *library;
    const char *(*error_name)(int error);
    const char *(*error_string)(int error);
    HIP_FUNCTIONS(HIP_MEMBER, HIP_MEMBER)
} hip_functions;

/* Written by driver_load only, which gpu.c calls under its lock. */
static hip_functions hip;

const uint32_t driver_kind = OPREG_HIP;
const int driver_no_device = HIP_NO_DEVICE;
const int driver_out_of_memory = HIP_OUT_OF_MEMORY;
const int driver_unsupported = HIP_NOT_SUPPORTED;

/* POSIX promises that a function fits in a void pointer; ISO C has no cast for it. */
static int resolve(const char *name, void *member) {
    void *symbol = dlsym(hip.library, name);
    memcpy(member, &symbol, sizeof symbol);
    return symbol != NULL;
}

static int refuse(const char *name, char *text, size_t text_bytes) {
    snprintf(text, text_bytes, "the HIP runtime has no %s; it is older than ROCm 5", name);
    dlclose(hip.library);
    memset(&hip, 0, sizeof hip);
    return -1;
}

int driver_load(char *text, size_t text_bytes) {
    static const char *const names[] = {"libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5"};
    if (hip.library != NULL) {
        return 0;
    }
    for (size_t i = 0; i < sizeof names / sizeof names[0] && hip.library == NULL; i++) {
        hip.library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    }
    if (hip.library == NULL) {
        const char *reason = dlerror();
        snprintf(text, text_bytes, "no HIP runtime (libamdhip64.so.7, .6 or .5): %s",
                 reason != NULL ? reason : "not found");
        return -1;
    }
#define RESOLVE_REQUIRED(symbol, member, arguments)                                                \
    if (!resolve(symbol, &hip.member)) {                                                           \
        return refuse(symbol, text, text_bytes);                                                   \
    }
#define RESOLVE_OPTIONAL(symbol, member, arguments) (void)resolve(symbol, &hip.member);
    HIP_FUNCTIONS(RESOLVE_REQUIRED, RESOLVE_OPTIONAL)
    RESOLVE_REQUIRED("hipGetErrorName", error_name, )
    RESOLVE_REQUIRED("hipGetErrorString", error_string, )
    if (hip.properties == NULL && hip.properties_old == NULL) {
        return refuse("hipGetDeviceProperties", text, text_bytes);
    }
    return 0;
}

void driver_describe(int error, char *text, size_t text_bytes) {
    const char *name = hip.error_name != NULL ? hip.error_name(error) : NULL;
    const char *string = hip.error_string != NULL ? hip.error_string(error) : NULL;
    snprintf(text, text_bytes, "%s (%d): %s", name != NULL ? name : "unknown HIP error", error,
             string != NULL ? string : "no text");
}

void driver_version(char *text, size_t text_bytes) {
    int version = 0;
    (void)hip.version(&version);
    snprintf(text, text_bytes, "HIP %d.%d", version / 10000000, version / 100000 % 100);
}

/* ---- devices ------------------------------------------------------------------------------------ */

int driver_count(int *count) {
    int error = hip.init(0);
    return error != 0 ? error : hip.device_count(count);
}

int driver_device(int ordinal, char arch[DRIVER_NAME_BYTES], char name[DRIVER_NAME_BYTES],
                  uint32_t *units, uint64_t *memory_bytes) {
    char properties[PROPERTIES_BYTES];
    size_t memory = 0, length = 0;
    int processors = 0, error;
    const char *full;
    memset(properties, 0, sizeof properties);
    error = hip.properties != NULL ? hip.properties(properties, ordinal)
                                   : hip.properties_old(properties, ordinal);
    if (error == 0) {
        error = hip.device_name(name, DRIVER_NAME_BYTES, ordinal);
    }
    if (error == 0) {
        error = hip.device_memory(&memory, ordinal);
    }
    if (error == 0) {
        error = hip.device_attribute(&processors, HIP_MULTIPROCESSORS, ordinal);
    }
    if (error != 0) {
        return error;
    }
    /* "gfx90a:sramecc+:xnack-": the features after the target do not concern these code objects */
    full = properties + (hip.properties != NULL ? ARCH_OFFSET_R0600 : ARCH_OFFSET_OLD);
    while (length + 1 < DRIVER_NAME_BYTES && full[length] != '\0' && full[length] != ':') {
        arch[length] = full[length];
        length++;
    }
    arch[length] = '\0';
    *units = (uint32_t)processors;
    *memory_bytes = memory;
    return 0;
}

int driver_compiles(const char *written, const char *arch) {
    (void)written;
    (void)arch;
    return 0;
}

int driver_open(int ordinal, driver_place *place) {
    *place = (driver_place){ordinal, NULL};
    return 0;
}

void driver_close(driver_place *place) { memset(place, 0, sizeof *place); }

int driver_enter(const driver_place *place, int *previous) {
    int error = hip.get_device(previous);
    return error != 0 || *previous == place->ordinal ? error : hip.set_device(place->ordinal);
}

void driver_leave(int previous) {
    int current = previous;
    if (hip.get_device(&current) != 0 || current != previous) {
        (void)hip.set_device(previous);
    }
}

/* ---- code --------------------------------------------------------------------------------------- */

int driver_module_load(void **module, const void *image) { return hip.module_load(module, image); }

int driver_module_unload(void *module) { return hip.module_unload(module); }

int driver_kernel(void **kernel, void *module, const char *name, uint32_t shared_bytes) {
    (void)shared_bytes; /* LDS needs no leave */
    return hip.module_function(kernel, module, name);
}

int driver_kernel_resources(void *kernel, int32_t out[4]) {
    static const int which[4] = {4, 3, 1, 0}; /* registers, local, shared, threads */
    for (int i = 0; i < 4; i++) {
        int error = hip.function_attribute(&out[i], which[i], kernel);
        if (error != 0) {
            return error;
        }
    }
    return 0;
}

int driver_launch(void *kernel, const driver_grid *grid, const void *parameters, void *stream) {
    void *list[1];
    memcpy(list, &parameters, sizeof list);
    return hip.launch(kernel, grid->x, grid->y, grid->z, grid->threads, 1, 1, grid->shared_bytes,
                      stream, list, NULL);
}

/* ---- memory -------------------------------------------------------------------------------------- */

int driver_alloc(void **out, size_t bytes) { return hip.alloc(out, bytes); }

int driver_free(void *pointer) { return hip.free_memory(pointer); }

int driver_to_device(void *dst, const void *src, size_t bytes, void *stream) {
    int error = hip.to_device(dst, (void *)(uintptr_t)src, bytes, stream);
    return error != 0 ? error : hip.stream_sync(stream); /* pageable memory may be read later */
}

int driver_to_host(void *dst, const void *src, size_t bytes, void *stream) {
    int error = hip.to_host(dst, (void *)(uintptr_t)src, bytes, stream);
    return error != 0 ? error : hip.stream_sync(stream);
}

int driver_copy(void *dst, const void *src, size_t bytes, void *stream) {
    return hip.copy(dst, (void *)(uintptr_t)src, bytes, stream);
}

int driver_fill(void *dst, uint8_t byte, size_t bytes, void *stream) {
    return hip.fill(dst, byte, bytes, stream);
}

/* ---- streams, graphs, events ---------------------------------------------------------------------- */

int driver_stream_create(void **stream) {
    return hip.stream_create(stream, HIP_STREAM_NON_BLOCKING);
}

int driver_stream_destroy(void *stream) { return hip.stream_destroy(stream); }

int driver_stream_sync(void *stream) { return hip.stream_sync(stream); }

static int has_graphs(void) {
    return hip.capture_begin != NULL && hip.capture_end != NULL && hip.graph_instantiate != NULL &&
           hip.graph_launch != NULL && hip.graph_exec_destroy != NULL && hip.graph_destroy != NULL;
}

int driver_capturing(void *stream, int *yes) {
    int state = 0, error = hip.capturing != NULL ? hip.capturing(stream, &state) : 0;
    *yes = state != 0;
    return error;
}

int driver_capture_begin(void *stream) {
    return has_graphs() ? hip.capture_begin(stream, HIP_CAPTURE_THREAD_LOCAL) : HIP_NOT_SUPPORTED;
}

int driver_capture_end(void *stream, void **graph) {
    void *captured = NULL;
    int error = has_graphs() ? hip.capture_end(stream, &captured) : HIP_NOT_SUPPORTED;
    if (error == 0) {
        error = hip.graph_instantiate(graph, captured, 0);
        (void)hip.graph_destroy(captured);
    }
    return error;
}

int driver_graph_launch(void *graph, void *stream) {
    return has_graphs() ? hip.graph_launch(graph, stream) : HIP_NOT_SUPPORTED;
}

int driver_graph_destroy(void *graph) {
    return has_graphs() ? hip.graph_exec_destroy(graph) : HIP_NOT_SUPPORTED;
}

int driver_event_create(void **event) { return hip.event_create(event, 0); }

int driver_event_destroy(void *event) { return hip.event_destroy(event); }

int driver_event_record(void *event, void *stream) { return hip.event_record(event, stream); }

int driver_event_elapsed(void *from, void *to, double *us) {
    float ms = 0.0f;
    int error = hip.event_sync(to);
    if (error == 0) {
        error = hip.event_elapsed(&ms, from, to);
        *us = (double)ms * 1000.0;
    }
    return error;
}
