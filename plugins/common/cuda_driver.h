/* SPDX-License-Identifier: MIT
 * cuda_driver.h - the part of the CUDA driver API that opreg calls, declared here so that no SDK is
 * needed to build.  Names and values are the driver's own. */
#ifndef OPREG_PLUGINS_CUDA_DRIVER_H
#define OPREG_PLUGINS_CUDA_DRIVER_H

#include <stddef.h>
#include <stdint.h>

typedef int CUresult; /* 0 is success                                                              */
typedef int CUdevice;
typedef struct CUctx_st *CUcontext;
typedef struct CUmod_st *CUmodule;
typedef struct CUfunc_st *CUfunction;
typedef struct CUstream_st *CUstream;
typedef struct CUevent_st *CUevent;
typedef struct CUgraph_st *CUgraph;
typedef struct CUgraphExec_st *CUgraphExec;
typedef unsigned long long CUdeviceptr;

enum {
    CU_NO_DEVICE = 100,
    CU_ATTRIBUTE_MULTIPROCESSORS = 16,
    CU_ATTRIBUTE_MAJOR = 75,
    CU_ATTRIBUTE_MINOR = 76,
    CU_FUNCTION_MAX_THREADS = 0,
    CU_FUNCTION_SHARED_BYTES = 1,
    CU_FUNCTION_LOCAL_BYTES = 3,
    CU_FUNCTION_REGISTERS = 4,
    CU_FUNCTION_MAX_DYNAMIC_SHARED = 8,
    CU_STREAM_NON_BLOCKING = 1,
    CU_CAPTURE_THREAD_LOCAL = 1,
    CU_LAUNCH_PROGRAMMATIC_STREAM_SERIALIZATION = 6
};

/* CUlaunchAttribute: the value is a union of 64 bytes, an int here. */
typedef struct CUlaunchAttribute {
    int id;
    char pad[4];
    union {
        char bytes[64];
        int enabled;
    } value;
} CUlaunchAttribute;

typedef struct CUlaunchConfig {
    unsigned int grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes;
    CUstream stream;
    CUlaunchAttribute *attributes;
    unsigned int num_attributes;
} CUlaunchConfig;

/* FUNCTION(result name in the library, member, arguments); REQUIRED or OPTIONAL. */
#define CUDA_DRIVER_FUNCTIONS(REQUIRED, OPTIONAL)                                                  \
    REQUIRED("cuInit", init, (unsigned int flags))                                                 \
    REQUIRED("cuDriverGetVersion", driver_version, (int *version))                                 \
    REQUIRED("cuGetErrorName", error_name, (CUresult error, const char **name))                    \
    REQUIRED("cuGetErrorString", error_string, (CUresult error, const char **text))                \
    REQUIRED("cuDeviceGetCount", device_count, (int *count))                                       \
    REQUIRED("cuDeviceGet", device_get, (CUdevice * device, int ordinal))                          \
    REQUIRED("cuDeviceGetName", device_name, (char *name, int bytes, CUdevice device))             \
    REQUIRED("cuDeviceTotalMem_v2", device_memory, (size_t *bytes, CUdevice device))               \
    REQUIRED("cuDeviceGetAttribute", device_attribute, (int *value, int which, CUdevice device))   \
    REQUIRED("cuDevicePrimaryCtxRetain", context_retain, (CUcontext *context, CUdevice device))    \
    REQUIRED("cuDevicePrimaryCtxRelease_v2", context_release, (CUdevice device))                   \
    REQUIRED("cuCtxPushCurrent_v2", context_push, (CUcontext context))                             \
    REQUIRED("cuCtxPopCurrent_v2", context_pop, (CUcontext *context))                              \
    REQUIRED("cuModuleLoadData", module_load, (CUmodule *module, const void *image))               \
    REQUIRED("cuModuleUnload", module_unload, (CUmodule module))                                   \
    REQUIRED("cuModuleGetFunction", module_function,                                               \
             (CUfunction *function, CUmodule module, const char *name))                            \
    REQUIRED("cuFuncGetAttribute", function_attribute, (int *value, int which, CUfunction function)) \
    REQUIRED("cuFuncSetAttribute", function_set, (CUfunction function, int which, int value))      \
    OPTIONAL("cuFuncLoad", function_load, (CUfunction function))                                   \
    REQUIRED("cuLaunchKernel", launch,                                                             \
             (CUfunction function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z,  \
              unsigned int block_x, unsigned int block_y, unsigned int block_z,                    \
              unsigned int shared_bytes, CUstream stream, void **parameters, void **extra))        \
    OPTIONAL("cuLaunchKernelEx", launch_with,                                                      \
             (const CUlaunchConfig *config, CUfunction function, void **parameters, void **extra)) \
    REQUIRED("cuMemAlloc_v2", alloc, (CUdeviceptr * out, size_t bytes))                            \
    REQUIRED("cuMemFree_v2", free_memory, (CUdeviceptr pointer))                                   \
    REQUIRED("cuMemcpyHtoDAsync_v2", to_device,                                                    \
             (CUdeviceptr dst, const void *src, size_t bytes, CUstream stream))                    \
    REQUIRED("cuMemcpyDtoHAsync_v2", to_host,                                                      \
             (void *dst, CUdeviceptr src, size_t bytes, CUstream stream))                          \
    REQUIRED("cuMemcpyDtoDAsync_v2", copy,                                                         \
             (CUdeviceptr dst, CUdeviceptr src, size_t bytes, CUstream stream))                    \
    REQUIRED("cuMemsetD8Async", fill,                                                              \
             (CUdeviceptr dst, unsigned char byte, size_t bytes, CUstream stream))                 \
    REQUIRED("cuStreamCreate", stream_create, (CUstream * stream, unsigned int flags))             \
    REQUIRED("cuStreamDestroy_v2", stream_destroy, (CUstream stream))                              \
    REQUIRED("cuStreamSynchronize", stream_sync, (CUstream stream))                                \
    REQUIRED("cuStreamBeginCapture_v2", capture_begin, (CUstream stream, int mode))                \
    REQUIRED("cuStreamEndCapture", capture_end, (CUstream stream, CUgraph *graph))                 \
    REQUIRED("cuGraphInstantiateWithFlags", graph_instantiate,                                     \
             (CUgraphExec *exec, CUgraph graph, unsigned long long flags))                         \
    REQUIRED("cuGraphLaunch", graph_launch, (CUgraphExec exec, CUstream stream))                   \
    REQUIRED("cuGraphExecDestroy", graph_exec_destroy, (CUgraphExec exec))                         \
    REQUIRED("cuGraphDestroy", graph_destroy, (CUgraph graph))                                     \
    REQUIRED("cuEventCreate", event_create, (CUevent * event, unsigned int flags))                 \
    REQUIRED("cuEventDestroy_v2", event_destroy, (CUevent event))                                  \
    REQUIRED("cuEventRecord", event_record, (CUevent event, CUstream stream))                      \
    REQUIRED("cuEventSynchronize", event_sync, (CUevent event))                                    \
    REQUIRED("cuEventElapsedTime", event_elapsed, (float *ms, CUevent from, CUevent to))

#define CUDA_DRIVER_MEMBER(symbol, member, arguments) CUresult(*member) arguments;
typedef struct cuda_driver {
    void *library;
    CUDA_DRIVER_FUNCTIONS(CUDA_DRIVER_MEMBER, CUDA_DRIVER_MEMBER)
} cuda_driver;

/* Opens the driver's library (null name: libcuda.so.1) and resolves every function.  0, or -1 with
 * the reason in text. */
int cuda_driver_load(cuda_driver *driver, const char *library, char *text, size_t text_bytes);
void cuda_driver_unload(cuda_driver *driver);

/* "CUDA_ERROR_INVALID_VALUE (1): invalid argument". */
void cuda_driver_describe(const cuda_driver *driver, CUresult error, char *text, size_t text_bytes);

#endif /* OPREG_PLUGINS_CUDA_DRIVER_H */
