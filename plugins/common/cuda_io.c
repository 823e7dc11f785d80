/* SPDX-License-Identifier: MIT
 * cuda_io.c - memory, streams, graphs and events of CUDA devices for the core and the kit. */
#include "cuda_gpu.h"

#include <stdlib.h>

static CUdeviceptr address(const void *pointer) { return (CUdeviceptr)(uintptr_t)pointer; }

static opreg_status enter(const opreg_host *host, const opreg_device *dev) {
    const gpu_device *device = gpu_device_find(dev->ordinal);
    if (device == NULL) {
        host->error(host->ctx, "CUDA device %d is not open in this plugin", dev->ordinal);
        return OPREG_E_ARG;
    }
    return cuda_gpu_enter(host, device);
}

/* One driver call inside the device's context. */
#define IN_CONTEXT(what, call)                                                                     \
    do {                                                                                           \
        const cuda_driver *driver = cuda_gpu_driver();                                             \
        opreg_status status = enter(host, dev);                                                    \
        if (status == OPREG_OK) {                                                                  \
            status = cuda_gpu_fail(host, driver->call, what);                                      \
            cuda_gpu_leave();                                                                      \
        }                                                                                          \
        return status;                                                                             \
    } while (0)

#define IN_CONTEXT_QUIET(call)                                                                     \
    do {                                                                                           \
        if (enter(host, dev) == OPREG_OK) {                                                        \
            (void)cuda_gpu_driver()->call;                                                         \
            cuda_gpu_leave();                                                                      \
        }                                                                                          \
    } while (0)

static opreg_status io_alloc(const opreg_host *host, const opreg_device *dev, uint64_t bytes,
                             void **out) {
    CUdeviceptr pointer = 0;
    CUresult error;
    opreg_status status = enter(host, dev);
    if (status != OPREG_OK) {
        return status;
    }
    error = cuda_gpu_driver()->alloc(&pointer, bytes != 0 ? (size_t)bytes : 1);
    status = cuda_gpu_fail(host, error, "cuMemAlloc");
    if (status == OPREG_OK) {
        *out = (void *)(uintptr_t)pointer;
    } else if (error == 2) { /* CUDA_ERROR_OUT_OF_MEMORY */
        status = OPREG_E_NOMEM;
    }
    cuda_gpu_leave();
    return status;
}

static void io_free(const opreg_host *host, const opreg_device *dev, void *ptr) {
    if (ptr != NULL) {
        IN_CONTEXT_QUIET(free_memory(address(ptr)));
    }
}

static opreg_status io_to_device(const opreg_host *host, const opreg_device *dev, void *dst,
                                 const void *src, uint64_t bytes, void *stream) {
    IN_CONTEXT("cuMemcpyHtoDAsync",
               to_device(address(dst), src, (size_t)bytes, (CUstream)stream));
}

static opreg_status io_to_host(const opreg_host *host, const opreg_device *dev, void *dst,
                               const void *src, uint64_t bytes, void *stream) {
    const cuda_driver *driver = cuda_gpu_driver();
    opreg_status status = enter(host, dev);
    if (status == OPREG_OK) {
        status = cuda_gpu_fail(
            host, driver->to_host(dst, address(src), (size_t)bytes, (CUstream)stream),
            "cuMemcpyDtoHAsync");
        if (status == OPREG_OK) {
            status = cuda_gpu_fail(host, driver->stream_sync((CUstream)stream),
                                   "cuStreamSynchronize");
        }
        cuda_gpu_leave();
    }
    return status;
}

static opreg_status io_copy(const opreg_host *host, const opreg_device *dev, void *dst,
                            const void *src, uint64_t bytes, void *stream) {
    IN_CONTEXT("cuMemcpyDtoDAsync",
               copy(address(dst), address(src), (size_t)bytes, (CUstream)stream));
}

static opreg_status io_fill(const opreg_host *host, const opreg_device *dev, void *dst,
                            uint8_t byte, uint64_t bytes, void *stream) {
    IN_CONTEXT("cuMemsetD8Async", fill(address(dst), byte, (size_t)bytes, (CUstream)stream));
}

static opreg_status io_stream_create(const opreg_host *host, const opreg_device *dev,
                                     void **stream) {
    IN_CONTEXT("cuStreamCreate", stream_create((CUstream *)stream, CU_STREAM_NON_BLOCKING));
}

static void io_stream_destroy(const opreg_host *host, const opreg_device *dev, void *stream) {
    if (stream != NULL) {
        IN_CONTEXT_QUIET(stream_destroy((CUstream)stream));
    }
}

static opreg_status io_stream_sync(const opreg_host *host, const opreg_device *dev, void *stream) {
    IN_CONTEXT("cuStreamSynchronize", stream_sync((CUstream)stream));
}

static opreg_status io_capture_begin(const opreg_host *host, const opreg_device *dev,
                                     void *stream) {
    IN_CONTEXT("cuStreamBeginCapture", capture_begin((CUstream)stream, CU_CAPTURE_THREAD_LOCAL));
}

static opreg_status io_capture_end(const opreg_host *host, const opreg_device *dev, void *stream,
                                   void **graph) {
    const cuda_driver *driver = cuda_gpu_driver();
    CUgraph captured = NULL;
    CUgraphExec exec = NULL;
    opreg_status status = enter(host, dev);
    if (status != OPREG_OK) {
        return status;
    }
    status = cuda_gpu_fail(host, driver->capture_end((CUstream)stream, &captured),
                           "cuStreamEndCapture");
    if (status == OPREG_OK) {
        status = cuda_gpu_fail(host, driver->graph_instantiate(&exec, captured, 0),
                               "cuGraphInstantiate");
        (void)driver->graph_destroy(captured);
    }
    if (status == OPREG_OK) {
        *graph = exec;
    }
    cuda_gpu_leave();
    return status;
}

static opreg_status io_graph_launch(const opreg_host *host, const opreg_device *dev, void *graph,
                                    void *stream) {
    IN_CONTEXT("cuGraphLaunch", graph_launch((CUgraphExec)graph, (CUstream)stream));
}

static void io_graph_destroy(const opreg_host *host, const opreg_device *dev, void *graph) {
    if (graph != NULL) {
        IN_CONTEXT_QUIET(graph_exec_destroy((CUgraphExec)graph));
    }
}

static opreg_status io_event_create(const opreg_host *host, const opreg_device *dev,
                                    void **event) {
    IN_CONTEXT("cuEventCreate", event_create((CUevent *)event, 0));
}

static void io_event_destroy(const opreg_host *host, const opreg_device *dev, void *event) {
    if (event != NULL) {
        IN_CONTEXT_QUIET(event_destroy((CUevent)event));
    }
}

static opreg_status io_event_record(const opreg_host *host, const opreg_device *dev, void *event,
                                    void *stream) {
    IN_CONTEXT("cuEventRecord", event_record((CUevent)event, (CUstream)stream));
}

static opreg_status io_event_elapsed(const opreg_host *host, const opreg_device *dev, void *from,
                                     void *to, double *us) {
    const cuda_driver *driver = cuda_gpu_driver();
    float ms = 0.0f;
    opreg_status status = enter(host, dev);
    if (status != OPREG_OK) {
        return status;
    }
    status = cuda_gpu_fail(host, driver->event_sync((CUevent)to), "cuEventSynchronize");
    if (status == OPREG_OK) {
        status = cuda_gpu_fail(host, driver->event_elapsed(&ms, (CUevent)from, (CUevent)to),
                               "cuEventElapsedTime");
        *us = (double)ms * 1000.0;
    }
    cuda_gpu_leave();
    return status;
}

const opreg_device_io gpu_io = {
    .struct_size = sizeof(opreg_device_io),
    .alloc = io_alloc,
    .free = io_free,
    .to_device = io_to_device,
    .to_host = io_to_host,
    .copy = io_copy,
    .fill = io_fill,
    .stream_create = io_stream_create,
    .stream_destroy = io_stream_destroy,
    .stream_sync = io_stream_sync,
    .capture_begin = io_capture_begin,
    .capture_end = io_capture_end,
    .graph_launch = io_graph_launch,
    .graph_destroy = io_graph_destroy,
    .event_create = io_event_create,
    .event_destroy = io_event_destroy,
    .event_record = io_event_record,
    .event_elapsed_us = io_event_elapsed,
};
