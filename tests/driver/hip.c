/* SPDX-License-Identifier: MIT
 * hip.c - the stand-in under the names of the HIP runtime. */
#include "stand_in.h"

#include <stdio.h>
#include <string.h>

#define API __attribute__((visibility("default")))

/* hipDeviceProp_tR0600 and where its gcnArchName is. */
#define PROPERTIES_BYTES 1472
#define ARCH_OFFSET      1160

static _Thread_local int current; /* the device that hipSetDevice set                              */

#define LOCKED(body)                                                                               \
    do {                                                                                           \
        int error;                                                                                 \
        stand_in_lock();                                                                           \
        error = (body);                                                                            \
        stand_in_unlock();                                                                         \
        return error;                                                                              \
    } while (0)

API const char *hipGetErrorName(int error);
API const char *hipGetErrorString(int error);
API int hipInit(unsigned int flags);
API int hipDriverGetVersion(int *version);
API int hipGetDeviceCount(int *count);
API int hipGetDevice(int *ordinal);
API int hipSetDevice(int ordinal);
API int hipDeviceGetName(char *name, int bytes, int device);
API int hipDeviceTotalMem(size_t *bytes, int device);
API int hipDeviceGetAttribute(int *value, int which, int device);
API int hipGetDevicePropertiesR0600(void *properties, int device);
API int hipModuleLoadData(void **module, const void *image);
API int hipModuleUnload(void *module);
API int hipModuleGetFunction(void **function, void *module, const char *name);
API int hipFuncGetAttribute(int *value, int which, void *function);
API int hipModuleLaunchKernel(void *function, unsigned int gx, unsigned int gy, unsigned int gz,
                              unsigned int bx, unsigned int by, unsigned int bz,
                              unsigned int shared, void *stream, void **parameters, void **extra);
API int hipMalloc(void **out, size_t bytes);
API int hipFree(void *pointer);
API int hipMemcpyHtoDAsync(void *dst, void *src, size_t bytes, void *stream);
API int hipMemcpyDtoHAsync(void *dst, void *src, size_t bytes, void *stream);
API int hipMemcpyDtoDAsync(void *dst, void *src, size_t bytes, void *stream);
API int hipMemsetAsync(void *dst, int byte, size_t bytes, void *stream);
API int hipStreamCreateWithFlags(void **stream, unsigned int flags);
API int hipStreamDestroy(void *stream);
API int hipStreamSynchronize(void *stream);
API int hipStreamIsCapturing(void *stream, int *state);
API int hipStreamBeginCapture(void *stream, int mode);
API int hipStreamEndCapture(void *stream, void **graph);
API int hipGraphInstantiateWithFlags(void **exec, void *graph, unsigned long long flags);
API int hipGraphLaunch(void *exec, void *stream);
API int hipGraphExecDestroy(void *exec);
API int hipGraphDestroy(void *graph);
API int hipEventCreateWithFlags(void **event, unsigned int flags);
API int hipEventDestroy(void *event);
API int hipEventRecord(void *event, void *stream);
API int hipEventSynchronize(void *event);
API int hipEventElapsedTime(float *ms, void *from, void *to);

/* ---- errors, which never fail ------------------------------------------------------------------- */

static const struct {
    int code;
    const char *name, *text;
} errors[] = {
    {E_VALUE, "hipErrorInvalidValue", "invalid argument"},
    {E_MEMORY, "hipErrorOutOfMemory", "out of memory"},
    {E_NO_DEVICE, "hipErrorNoDevice", "no ROCm-capable device is detected"},
    {E_DEVICE, "hipErrorInvalidDevice", "invalid device ordinal"},
    {E_IMAGE, "hipErrorInvalidImage", "device kernel image is invalid"},
    {E_HANDLE, "hipErrorInvalidHandle", "invalid resource handle"},
    {E_NOT_FOUND, "hipErrorNotFound", "named symbol not found"},
    {700, "hipErrorIllegalAddress", "an illegal memory access was encountered"},
    {E_CAPTURE, "hipErrorStreamCaptureUnsupported", "not permitted when stream is capturing"},
    {999, "hipErrorUnknown", "unknown error"},
};

const char *hipGetErrorName(int error) {
    for (size_t i = 0; i < sizeof errors / sizeof errors[0]; i++) {
        if (errors[i].code == error) {
            return errors[i].name;
        }
    }
    return NULL;
}

const char *hipGetErrorString(int error) {
    for (size_t i = 0; i < sizeof errors / sizeof errors[0]; i++) {
        if (errors[i].code == error) {
            return errors[i].text;
        }
    }
    return NULL;
}

/* ---- devices ------------------------------------------------------------------------------------ */

static int is_device(int device) { return device >= 0 && device < stand_in()->num_devices; }

int hipInit(unsigned int flags) {
    (void)flags;
    LOCKED(stand_in()->num_devices == 0 ? E_NO_DEVICE : stand_in_call("hipInit", -1));
}

int hipDriverGetVersion(int *version) {
    *version = stand_in()->version;
    return 0;
}

int hipGetDeviceCount(int *count) {
    *count = stand_in()->num_devices;
    LOCKED(stand_in_call("hipGetDeviceCount", -1));
}

int hipGetDevice(int *ordinal) {
    *ordinal = current;
    LOCKED(stand_in_call("hipGetDevice", -1));
}

static int set_device(int ordinal) {
    int error = is_device(ordinal) ? stand_in_call("hipSetDevice", ordinal) : E_DEVICE;
    if (error == 0) {
        current = ordinal;
    }
    return error;
}

int hipSetDevice(int ordinal) { LOCKED(set_device(ordinal)); }

int hipDeviceGetName(char *name, int bytes, int device) {
    snprintf(name, (size_t)bytes, "stand-in %d", device);
    LOCKED(is_device(device) ? stand_in_call("hipDeviceGetName", -1) : E_DEVICE);
}

int hipDeviceTotalMem(size_t *bytes, int device) {
    *bytes = (size_t)1 << 30;
    LOCKED(is_device(device) ? stand_in_call("hipDeviceTotalMem", -1) : E_DEVICE);
}

int hipDeviceGetAttribute(int *value, int which, int device) {
    (void)which;
    *value = 4;
    LOCKED(is_device(device) ? stand_in_call("hipDeviceGetAttribute", -1) : E_DEVICE);
}

int hipGetDevicePropertiesR0600(void *properties, int device) {
    memset(properties, 0, PROPERTIES_BYTES);
    if (is_device(device)) {
        snprintf((char *)properties + ARCH_OFFSET, 256, "%s", stand_in()->arch[device]);
    }
    LOCKED(is_device(device) ? stand_in_call("hipGetDeviceProperties", -1) : E_DEVICE);
}

/* ---- code --------------------------------------------------------------------------------------- */

static int load(void **module, const void *image) {
    int error = stand_in_call("hipModuleLoadData", current);
    stand_in()->loads++;
    if (error == 0 && (image == NULL || stand_in()->refuses_images)) {
        error = E_IMAGE;
    }
    if (error == 0) {
        *module = stand_in_new(KIND_MODULE, current);
    }
    return error;
}

int hipModuleLoadData(void **module, const void *image) { LOCKED(load(module, image)); }

int hipModuleUnload(void *module) {
    LOCKED(stand_in_drop("hipModuleUnload", KIND_MODULE, module, current));
}

int hipModuleGetFunction(void **function, void *module, const char *name) {
    LOCKED(stand_in_kernel("hipModuleGetFunction", function, module, name));
}

int hipFuncGetAttribute(int *value, int which, void *function) {
    *value = which == 0 ? 1024 : 32;
    LOCKED(stand_in_find(KIND_KERNEL, function) != NULL
               ? stand_in_call("hipFuncGetAttribute", -1)
               : stand_in_misuse(E_HANDLE, "hipFuncGetAttribute", "the kernel does not live"));
}

int hipModuleLaunchKernel(void *function, unsigned int gx, unsigned int gy, unsigned int gz,
                          unsigned int bx, unsigned int by, unsigned int bz, unsigned int shared,
                          void *stream, void **parameters, void **extra) {
    const unsigned int sizes[7] = {gx, gy, gz, bx, by, bz, shared};
    (void)extra;
    LOCKED(stand_in_launch("hipModuleLaunchKernel", current, function, sizes, stream, parameters));
}

/* ---- memory ------------------------------------------------------------------------------------- */

int hipMalloc(void **out, size_t bytes) { LOCKED(stand_in_alloc("hipMalloc", current, out, bytes)); }

int hipFree(void *pointer) { LOCKED(stand_in_free("hipFree", current, pointer)); }

int hipMemcpyHtoDAsync(void *dst, void *src, size_t bytes, void *stream) {
    LOCKED(stand_in_copy("hipMemcpyHtoDAsync", current, dst, 1, src, 0, bytes, stream));
}

int hipMemcpyDtoHAsync(void *dst, void *src, size_t bytes, void *stream) {
    LOCKED(stand_in_copy("hipMemcpyDtoHAsync", current, dst, 0, src, 1, bytes, stream));
}

int hipMemcpyDtoDAsync(void *dst, void *src, size_t bytes, void *stream) {
    LOCKED(stand_in_copy("hipMemcpyDtoDAsync", current, dst, 1, src, 1, bytes, stream));
}

int hipMemsetAsync(void *dst, int byte, size_t bytes, void *stream) {
    LOCKED(stand_in_fill("hipMemsetAsync", current, dst, byte, bytes, stream));
}

/* ---- streams, graphs, events ---------------------------------------------------------------------- */

static int create(const char *name, stand_in_kind kind, void **out) {
    int error = stand_in_call(name, current);
    if (error == 0) {
        *out = stand_in_new(kind, current);
    }
    return error;
}

int hipStreamCreateWithFlags(void **stream, unsigned int flags) {
    (void)flags;
    LOCKED(create("hipStreamCreate", KIND_STREAM, stream));
}

int hipStreamDestroy(void *stream) {
    LOCKED(stand_in_drop("hipStreamDestroy", KIND_STREAM, stream, current));
}

int hipStreamSynchronize(void *stream) {
    LOCKED(stand_in_wait("hipStreamSynchronize", current, stream));
}

int hipStreamIsCapturing(void *stream, int *state) {
    LOCKED(stand_in_capturing("hipStreamIsCapturing", stream, state));
}

int hipStreamBeginCapture(void *stream, int mode) {
    (void)mode;
    LOCKED(stand_in_capture_begin("hipStreamBeginCapture", current, stream));
}

int hipStreamEndCapture(void *stream, void **graph) {
    LOCKED(stand_in_capture_end("hipStreamEndCapture", current, stream, graph));
}

int hipGraphInstantiateWithFlags(void **exec, void *graph, unsigned long long flags) {
    (void)graph;
    (void)flags;
    LOCKED(create("hipGraphInstantiate", KIND_EXEC, exec));
}

int hipGraphLaunch(void *exec, void *stream) {
    LOCKED(stand_in_graph_launch("hipGraphLaunch", current, exec, stream));
}

int hipGraphExecDestroy(void *exec) {
    LOCKED(stand_in_drop("hipGraphExecDestroy", KIND_EXEC, exec, current));
}

int hipGraphDestroy(void *graph) {
    LOCKED(stand_in_drop("hipGraphDestroy", KIND_GRAPH, graph, current));
}

int hipEventCreateWithFlags(void **event, unsigned int flags) {
    (void)flags;
    LOCKED(create("hipEventCreate", KIND_EVENT, event));
}

int hipEventDestroy(void *event) {
    LOCKED(stand_in_drop("hipEventDestroy", KIND_EVENT, event, current));
}

int hipEventRecord(void *event, void *stream) {
    LOCKED(stand_in_event_record("hipEventRecord", current, event, stream));
}

int hipEventSynchronize(void *event) {
    (void)event;
    LOCKED(stand_in_call("hipEventSynchronize", current));
}

int hipEventElapsedTime(float *ms, void *from, void *to) {
    LOCKED(stand_in_event_elapsed("hipEventElapsedTime", current, ms, from, to));
}
