/* SPDX-License-Identifier: MIT
 * cuda.c - the stand-in under the names of the CUDA driver. */
#include "stand_in.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define API       __attribute__((visibility("default")))
#define MOST_DEEP 8

typedef unsigned long long address;

/* As cuda_driver.c declares CUlaunchConfig, from the driver's documentation. */
typedef struct launch_config {
    unsigned int sizes[7];
    void *stream;
    const void *attributes;
    unsigned int num_attributes;
} launch_config;

static struct {
    stand_in_object *context;
    int references;
} primary[STAND_IN_DEVICES];

static _Thread_local struct {
    stand_in_object *stack[MOST_DEEP];
    int depth;
} current;

/* The device whose context is current on this thread; -1: none. */
static int here(void) {
    return current.depth > 0 ? current.stack[current.depth - 1]->device : -1;
}

static int enter(const char *name) {
    return here() >= 0 ? 0 : stand_in_misuse(E_CONTEXT, name, "no context is current");
}

/* One call inside the current context. */
#define INSIDE(name, body)                                                                         \
    do {                                                                                           \
        int error;                                                                                 \
        stand_in_lock();                                                                           \
        error = enter(name);                                                                       \
        if (error == 0) {                                                                          \
            error = (body);                                                                        \
        }                                                                                          \
        stand_in_unlock();                                                                         \
        return error;                                                                              \
    } while (0)

#define ANYWHERE(body)                                                                             \
    do {                                                                                           \
        int error;                                                                                 \
        stand_in_lock();                                                                           \
        error = (body);                                                                            \
        stand_in_unlock();                                                                         \
        return error;                                                                              \
    } while (0)

API int cuGetErrorName(int error, const char **name);
API int cuGetErrorString(int error, const char **text);
API int cuInit(unsigned int flags);
API int cuDriverGetVersion(int *version);
API int cuDeviceGetCount(int *count);
API int cuDeviceGet(int *device, int ordinal);
API int cuDeviceGetName(char *name, int bytes, int device);
API int cuDeviceTotalMem_v2(size_t *bytes, int device);
API int cuDeviceGetAttribute(int *value, int which, int device);
API int cuDevicePrimaryCtxRetain(void **context, int device);
API int cuDevicePrimaryCtxRelease_v2(int device);
API int cuCtxPushCurrent_v2(void *context);
API int cuCtxPopCurrent_v2(void **context);
API int cuCtxGetCurrent(void **context);
API int cuModuleLoadData(void **module, const void *image);
API int cuModuleUnload(void *module);
API int cuModuleGetFunction(void **function, void *module, const char *name);
API int cuFuncGetAttribute(int *value, int which, void *function);
API int cuFuncSetAttribute(void *function, int which, int value);
API int cuFuncLoad(void *function);
API int cuLaunchKernel(void *function, unsigned int gx, unsigned int gy, unsigned int gz,
                       unsigned int bx, unsigned int by, unsigned int bz, unsigned int shared,
                       void *stream, void **parameters, void **extra);
API int cuLaunchKernelEx(const launch_config *config, void *function, void **parameters,
                         void **extra);
API int cuMemAlloc_v2(address *out, size_t bytes);
API int cuMemFree_v2(address pointer);
API int cuMemcpyHtoDAsync_v2(address dst, const void *src, size_t bytes, void *stream);
API int cuMemcpyDtoHAsync_v2(void *dst, address src, size_t bytes, void *stream);
API int cuMemcpyDtoDAsync_v2(address dst, address src, size_t bytes, void *stream);
API int cuMemsetD8Async(address dst, unsigned char byte, size_t bytes, void *stream);
API int cuStreamCreate(void **stream, unsigned int flags);
API int cuStreamDestroy_v2(void *stream);
API int cuStreamSynchronize(void *stream);
API int cuStreamIsCapturing(void *stream, int *state);
API int cuStreamBeginCapture_v2(void *stream, int mode);
API int cuStreamEndCapture(void *stream, void **graph);
API int cuGraphInstantiateWithFlags(void **exec, void *graph, unsigned long long flags);
API int cuGraphLaunch(void *exec, void *stream);
API int cuGraphExecDestroy(void *exec);
API int cuGraphDestroy(void *graph);
API int cuEventCreate(void **event, unsigned int flags);
API int cuEventDestroy_v2(void *event);
API int cuEventRecord(void *event, void *stream);
API int cuEventSynchronize(void *event);
API int cuEventElapsedTime(float *ms, void *from, void *to);

/* ---- errors, which never fail ------------------------------------------------------------------- */

static const struct {
    int code;
    const char *name, *text;
} errors[] = {
    {E_VALUE, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {E_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {E_NO_DEVICE, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {E_DEVICE, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {E_IMAGE, "CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid"},
    {E_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {E_HANDLE, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    {E_NOT_FOUND, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    {700, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"},
    {E_CAPTURE, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", "not permitted when stream is capturing"},
    {999, "CUDA_ERROR_UNKNOWN", "unknown error"},
};

int cuGetErrorName(int error, const char **name) {
    for (size_t i = 0; i < sizeof errors / sizeof errors[0]; i++) {
        if (errors[i].code == error) {
            *name = errors[i].name;
            return 0;
        }
    }
    return E_VALUE;
}

int cuGetErrorString(int error, const char **text) {
    for (size_t i = 0; i < sizeof errors / sizeof errors[0]; i++) {
        if (errors[i].code == error) {
            *text = errors[i].text;
            return 0;
        }
    }
    return E_VALUE;
}

/* ---- devices ------------------------------------------------------------------------------------ */

static int is_device(int device) { return device >= 0 && device < stand_in()->num_devices; }

int cuInit(unsigned int flags) {
    (void)flags;
    ANYWHERE(stand_in()->num_devices == 0 ? E_NO_DEVICE : stand_in_call("cuInit", -1));
}

int cuDriverGetVersion(int *version) {
    *version = stand_in()->version;
    return 0;
}

int cuDeviceGetCount(int *count) {
    *count = stand_in()->num_devices;
    ANYWHERE(stand_in_call("cuDeviceGetCount", -1));
}

int cuDeviceGet(int *device, int ordinal) {
    *device = ordinal;
    ANYWHERE(is_device(ordinal) ? stand_in_call("cuDeviceGet", -1) : E_DEVICE);
}

int cuDeviceGetName(char *name, int bytes, int device) {
    snprintf(name, (size_t)bytes, "stand-in %d", device);
    ANYWHERE(is_device(device) ? stand_in_call("cuDeviceGetName", -1) : E_DEVICE);
}

int cuDeviceTotalMem_v2(size_t *bytes, int device) {
    *bytes = (size_t)1 << 30;
    ANYWHERE(is_device(device) ? stand_in_call("cuDeviceTotalMem", -1) : E_DEVICE);
}

int cuDeviceGetAttribute(int *value, int which, int device) {
    long capability = 0;
    if (is_device(device)) {
        capability = strtol(stand_in()->arch[device] + 3, NULL, 10);
    }
    *value = which == 75 ? (int)(capability / 10) : which == 76 ? (int)(capability % 10) : 4;
    ANYWHERE(is_device(device) ? stand_in_call("cuDeviceGetAttribute", -1) : E_DEVICE);
}

static int retain(void **context, int device) {
    int error = is_device(device) ? stand_in_call("cuDevicePrimaryCtxRetain", device) : E_DEVICE;
    if (error != 0) {
        return error;
    }
    if (primary[device].references++ == 0) {
        primary[device].context = stand_in_new(KIND_CONTEXT, device);
    }
    *context = primary[device].context;
    return 0;
}

int cuDevicePrimaryCtxRetain(void **context, int device) { ANYWHERE(retain(context, device)); }

static int release(int device) {
    if (!is_device(device) || primary[device].references == 0) {
        return stand_in_misuse(E_CONTEXT, "cuDevicePrimaryCtxRelease", "it was not retained");
    }
    if (--primary[device].references > 0) {
        return stand_in_call("cuDevicePrimaryCtxRelease", device);
    }
    stand_in_drop_all(device); /* a context takes everything in it with it */
    return stand_in_drop("cuDevicePrimaryCtxRelease", KIND_CONTEXT, primary[device].context, device);
}

int cuDevicePrimaryCtxRelease_v2(int device) { ANYWHERE(release(device)); }

static int push(void *context) {
    stand_in_object *object = stand_in_find(KIND_CONTEXT, context);
    int error;
    if (object == NULL || current.depth == MOST_DEEP) {
        return stand_in_misuse(E_CONTEXT, "cuCtxPushCurrent", "no such context, or too many");
    }
    error = stand_in_call("cuCtxPushCurrent", object->device);
    if (error == 0) {
        current.stack[current.depth++] = object;
    }
    return error;
}

int cuCtxPushCurrent_v2(void *context) { ANYWHERE(push(context)); }

static int pop(void **context) {
    int error;
    if (current.depth == 0) {
        return stand_in_misuse(E_CONTEXT, "cuCtxPopCurrent", "no context is current");
    }
    error = stand_in_call("cuCtxPopCurrent", -1);
    *context = current.stack[--current.depth];
    return error;
}

int cuCtxPopCurrent_v2(void **context) { ANYWHERE(pop(context)); }

int cuCtxGetCurrent(void **context) {
    *context = current.depth > 0 ? current.stack[current.depth - 1] : NULL;
    return 0;
}

/* ---- code --------------------------------------------------------------------------------------- */

static int load(void **module, const void *image) {
    int error = stand_in_call("cuModuleLoadData", here());
    stand_in()->loads++;
    if (error == 0 && (image == NULL || stand_in()->refuses_images)) {
        error = E_IMAGE;
    }
    if (error == 0) {
        *module = stand_in_new(KIND_MODULE, here());
    }
    return error;
}

int cuModuleLoadData(void **module, const void *image) {
    INSIDE("cuModuleLoadData", load(module, image));
}

int cuModuleUnload(void *module) {
    INSIDE("cuModuleUnload", stand_in_drop("cuModuleUnload", KIND_MODULE, module, here()));
}

int cuModuleGetFunction(void **function, void *module, const char *name) {
    INSIDE("cuModuleGetFunction", stand_in_kernel("cuModuleGetFunction", function, module, name));
}

static int with_kernel(const char *name, void *function) {
    stand_in_object *kernel = stand_in_find(KIND_KERNEL, function);
    return kernel != NULL ? stand_in_call(name, kernel->device)
                          : stand_in_misuse(E_HANDLE, name, "the kernel does not live");
}

int cuFuncGetAttribute(int *value, int which, void *function) {
    *value = which == 0 ? 1024 : 32;
    ANYWHERE(with_kernel("cuFuncGetAttribute", function));
}

static int set_attribute(void *function, int which, int value) {
    int error = with_kernel("cuFuncSetAttribute", function);
    if (error == 0 && (which != 8 || value < 0 || value > 227 * 1024)) {
        error = E_VALUE;
    }
    if (error == 0) {
        stand_in_find(KIND_KERNEL, function)->flag = value;
    }
    return error;
}

int cuFuncSetAttribute(void *function, int which, int value) {
    ANYWHERE(set_attribute(function, which, value));
}

int cuFuncLoad(void *function) { ANYWHERE(with_kernel("cuFuncLoad", function)); }

int cuLaunchKernel(void *function, unsigned int gx, unsigned int gy, unsigned int gz,
                   unsigned int bx, unsigned int by, unsigned int bz, unsigned int shared,
                   void *stream, void **parameters, void **extra) {
    const unsigned int sizes[7] = {gx, gy, gz, bx, by, bz, shared};
    (void)extra;
    INSIDE("cuLaunchKernel",
           stand_in_launch("cuLaunchKernel", here(), function, sizes, stream, parameters));
}

int cuLaunchKernelEx(const launch_config *config, void *function, void **parameters,
                     void **extra) {
    const int *attribute = config->attributes; /* its id, then 4 bytes, then its value */
    (void)extra;
    if (config->num_attributes == 1 && attribute[0] == 6 && attribute[2] == 1) {
        stand_in()->chained++;
    }
    INSIDE("cuLaunchKernelEx", stand_in_launch("cuLaunchKernelEx", here(), function, config->sizes,
                                               config->stream, parameters));
}

/* ---- memory ------------------------------------------------------------------------------------- */

static void *pointer_of(address value) { return (void *)(uintptr_t)value; }

static int allocate(address *out, size_t bytes) {
    void *pointer = NULL;
    int error = stand_in_alloc("cuMemAlloc", here(), &pointer, bytes);
    if (error == 0) {
        *out = (address)(uintptr_t)pointer;
    }
    return error;
}

int cuMemAlloc_v2(address *out, size_t bytes) { INSIDE("cuMemAlloc", allocate(out, bytes)); }

int cuMemFree_v2(address pointer) {
    INSIDE("cuMemFree", stand_in_free("cuMemFree", here(), pointer_of(pointer)));
}

int cuMemcpyHtoDAsync_v2(address dst, const void *src, size_t bytes, void *stream) {
    INSIDE("cuMemcpyHtoDAsync", stand_in_copy("cuMemcpyHtoDAsync", here(), pointer_of(dst), 1, src,
                                              0, bytes, stream));
}

int cuMemcpyDtoHAsync_v2(void *dst, address src, size_t bytes, void *stream) {
    INSIDE("cuMemcpyDtoHAsync", stand_in_copy("cuMemcpyDtoHAsync", here(), dst, 0, pointer_of(src),
                                              1, bytes, stream));
}

int cuMemcpyDtoDAsync_v2(address dst, address src, size_t bytes, void *stream) {
    INSIDE("cuMemcpyDtoDAsync", stand_in_copy("cuMemcpyDtoDAsync", here(), pointer_of(dst), 1,
                                              pointer_of(src), 1, bytes, stream));
}

int cuMemsetD8Async(address dst, unsigned char byte, size_t bytes, void *stream) {
    INSIDE("cuMemsetD8Async",
           stand_in_fill("cuMemsetD8Async", here(), pointer_of(dst), byte, bytes, stream));
}

/* ---- streams, graphs, events ---------------------------------------------------------------------- */

static int create(const char *name, stand_in_kind kind, void **out) {
    int error = stand_in_call(name, here());
    if (error == 0) {
        *out = stand_in_new(kind, here());
    }
    return error;
}

int cuStreamCreate(void **stream, unsigned int flags) {
    (void)flags;
    INSIDE("cuStreamCreate", create("cuStreamCreate", KIND_STREAM, stream));
}

int cuStreamDestroy_v2(void *stream) {
    INSIDE("cuStreamDestroy", stand_in_drop("cuStreamDestroy", KIND_STREAM, stream, here()));
}

int cuStreamSynchronize(void *stream) {
    INSIDE("cuStreamSynchronize", stand_in_wait("cuStreamSynchronize", here(), stream));
}

int cuStreamIsCapturing(void *stream, int *state) {
    INSIDE("cuStreamIsCapturing", stand_in_capturing("cuStreamIsCapturing", stream, state));
}

int cuStreamBeginCapture_v2(void *stream, int mode) {
    (void)mode;
    INSIDE("cuStreamBeginCapture",
           stand_in_capture_begin("cuStreamBeginCapture", here(), stream));
}

int cuStreamEndCapture(void *stream, void **graph) {
    INSIDE("cuStreamEndCapture", stand_in_capture_end("cuStreamEndCapture", here(), stream, graph));
}

int cuGraphInstantiateWithFlags(void **exec, void *graph, unsigned long long flags) {
    (void)graph;
    (void)flags;
    INSIDE("cuGraphInstantiate", create("cuGraphInstantiate", KIND_EXEC, exec));
}

int cuGraphLaunch(void *exec, void *stream) {
    INSIDE("cuGraphLaunch", stand_in_graph_launch("cuGraphLaunch", here(), exec, stream));
}

int cuGraphExecDestroy(void *exec) {
    INSIDE("cuGraphExecDestroy", stand_in_drop("cuGraphExecDestroy", KIND_EXEC, exec, here()));
}

int cuGraphDestroy(void *graph) {
    INSIDE("cuGraphDestroy", stand_in_drop("cuGraphDestroy", KIND_GRAPH, graph, here()));
}

int cuEventCreate(void **event, unsigned int flags) {
    (void)flags;
    INSIDE("cuEventCreate", create("cuEventCreate", KIND_EVENT, event));
}

int cuEventDestroy_v2(void *event) {
    INSIDE("cuEventDestroy", stand_in_drop("cuEventDestroy", KIND_EVENT, event, here()));
}

int cuEventRecord(void *event, void *stream) {
    INSIDE("cuEventRecord", stand_in_event_record("cuEventRecord", here(), event, stream));
}

int cuEventSynchronize(void *event) {
    (void)event;
    INSIDE("cuEventSynchronize", stand_in_call("cuEventSynchronize", here()));
}

int cuEventElapsedTime(float *ms, void *from, void *to) {
    INSIDE("cuEventElapsedTime", stand_in_event_elapsed("cuEventElapsedTime", here(), ms, from, to));
}
