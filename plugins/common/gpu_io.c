/* SPDX-License-Identifier: MIT
 * gpu_io.c - memory, streams, graphs and events of a GPU plugin's devices for the core and the kit. */
#include "gpu_device.h"

static opreg_status enter(const opreg_host *host, const opreg_device *dev, int *previous) {
    const gpu_device *device = gpu_device_find(dev->ordinal);
    if (device == NULL) {
        host->error(host->ctx, "device %d is not open in this plugin", dev->ordinal);
        return OPREG_E_ARG;
    }
    return gpu_enter(host, device, previous);
}

/* One driver call with the device current. */
#define ON_DEVICE(what, call)                                                                      \
    do {                                                                                           \
        int previous;                                                                              \
        opreg_status status = enter(host, dev, &previous);                                         \
        if (status == OPREG_OK) {                                                                  \
            status = gpu_fail(host, call, what);                                                   \
            driver_leave(previous);                                                                \
        }                                                                                          \
        return status;                                                                             \
    } while (0)

/* A release, which has nobody to tell of a failure; tried even where the device cannot be made
 * current, as not every driver needs that. */
#define RELEASE(call)                                                                              \
    do {                                                                                           \
        int previous, entered;                                                                     \
        if (gpu_device_find(dev->ordinal) != NULL) {                                               \
            entered = enter(host, dev, &previous) == OPREG_OK;                                     \
            (void)call;                                                                            \
            if (entered) {                                                                         \
                driver_leave(previous);                                                            \
            }                                                                                      \
        }                                                                                          \
    } while (0)

static opreg_status io_alloc(const opreg_host *host, const opreg_device *dev, uint64_t bytes,
                             void **out) {
    ON_DEVICE("allocating device memory", driver_alloc(out, bytes != 0 ? (size_t)bytes : 1));
}

static void io_free(const opreg_host *host, const opreg_device *dev, void *ptr) {
    if (ptr != NULL) {
        RELEASE(driver_free(ptr));
    }
}

static opreg_status io_to_device(const opreg_host *host, const opreg_device *dev, void *dst,
                                 const void *src, uint64_t bytes, void *stream) {
    ON_DEVICE("copying to the device", driver_to_device(dst, src, (size_t)bytes, stream));
}

static opreg_status io_to_host(const opreg_host *host, const opreg_device *dev, void *dst,
                               const void *src, uint64_t bytes, void *stream) {
    ON_DEVICE("copying to the host", driver_to_host(dst, src, (size_t)bytes, stream));
}

static opreg_status io_copy(const opreg_host *host, const opreg_device *dev, void *dst,
                            const void *src, uint64_t bytes, void *stream) {
    ON_DEVICE("copying on the device", driver_copy(dst, src, (size_t)bytes, stream));
}

static opreg_status io_fill(const opreg_host *host, const opreg_device *dev, void *dst,
                            uint8_t byte, uint64_t bytes, void *stream) {
    ON_DEVICE("filling device memory", driver_fill(dst, byte, (size_t)bytes, stream));
}

static opreg_status io_stream_create(const opreg_host *host, const opreg_device *dev,
                                     void **stream) {
    ON_DEVICE("creating a stream", driver_stream_create(stream));
}

static void io_stream_destroy(const opreg_host *host, const opreg_device *dev, void *stream) {
    if (stream != NULL) {
        RELEASE(driver_stream_destroy(stream));
    }
}

static opreg_status io_stream_sync(const opreg_host *host, const opreg_device *dev, void *stream) {
    ON_DEVICE("waiting for a stream", driver_stream_sync(stream));
}

static opreg_status io_capturing(const opreg_host *host, const opreg_device *dev, void *stream,
                                 int *yes) {
    ON_DEVICE("asking whether a stream is being captured", driver_capturing(stream, yes));
}

static opreg_status io_capture_begin(const opreg_host *host, const opreg_device *dev,
                                     void *stream) {
    ON_DEVICE("beginning a capture", driver_capture_begin(stream));
}

static opreg_status io_capture_end(const opreg_host *host, const opreg_device *dev, void *stream,
                                   void **graph) {
    ON_DEVICE("ending a capture", driver_capture_end(stream, graph));
}

static opreg_status io_graph_launch(const opreg_host *host, const opreg_device *dev, void *graph,
                                    void *stream) {
    ON_DEVICE("launching a graph", driver_graph_launch(graph, stream));
}

static void io_graph_destroy(const opreg_host *host, const opreg_device *dev, void *graph) {
    if (graph != NULL) {
        RELEASE(driver_graph_destroy(graph));
    }
}

static opreg_status io_event_create(const opreg_host *host, const opreg_device *dev,
                                    void **event) {
    ON_DEVICE("creating an event", driver_event_create(event));
}

static void io_event_destroy(const opreg_host *host, const opreg_device *dev, void *event) {
    if (event != NULL) {
        RELEASE(driver_event_destroy(event));
    }
}

static opreg_status io_event_record(const opreg_host *host, const opreg_device *dev, void *event,
                                    void *stream) {
    ON_DEVICE("recording an event", driver_event_record(event, stream));
}

static opreg_status io_event_elapsed(const opreg_host *host, const opreg_device *dev, void *from,
                                     void *to, double *us) {
    ON_DEVICE("reading an event's time", driver_event_elapsed(from, to, us));
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
    .capturing = io_capturing,
};
