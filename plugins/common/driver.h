/* SPDX-License-Identifier: MIT
 * driver.h - what gpu.c and gpu_io.c need of a vendor's driver.  cuda_driver.c implements it over
 * libcuda, hip_driver.c over libamdhip64; a plugin links one of them.
 *
 * Functions that return int return the driver's own code, 0 for success; driver_describe names it.
 * Pointers to modules, kernels, streams, events and graphs are the driver's handles. */
#ifndef OPREG_PLUGINS_DRIVER_H
#define OPREG_PLUGINS_DRIVER_H

#include <stddef.h>
#include <stdint.h>

#define DRIVER_NAME_BYTES 64

extern const uint32_t driver_kind;      /* OPREG_CUDA or OPREG_HIP, of the device rows             */
extern const int driver_no_device;      /* the code for "no device"                                */
extern const int driver_out_of_memory;  /* the code for it                                         */
extern const int driver_unsupported;    /* what functions return that this library does not have   */

/* Opens the driver's library and resolves its functions.  0, or -1 with the reason in text. */
int driver_load(char *text, size_t text_bytes);

/* "hipErrorInvalidValue (1): invalid argument". */
void driver_describe(int error, char *text, size_t text_bytes);

/* "CUDA 12.2": the newest interface that the open driver has. */
void driver_version(char *text, size_t text_bytes);

/* Starts the driver. */
int driver_count(int *count);

/* arch: "sm_90" or "gfx1100", as code objects name it. */
int driver_device(int ordinal, char arch[DRIVER_NAME_BYTES], char name[DRIVER_NAME_BYTES],
                  uint32_t *units, uint64_t *memory_bytes);

/* 1: this driver can compile text written for the architecture `written` for `arch`. */
int driver_compiles(const char *written, const char *arch);

/* A device to make current: the caller owns it between driver_open and driver_close. */
typedef struct driver_place {
    int ordinal;
    void *context; /* CUDA's primary context, retained; null elsewhere                             */
} driver_place;
int driver_open(int ordinal, driver_place *place);
void driver_close(driver_place *place);

/* Makes a device current on this thread; previous is what driver_leave needs to undo it. */
int driver_enter(const driver_place *place, int *previous);
void driver_leave(int previous);

int driver_module_load(void **module, const void *image);
int driver_module_unload(void *module);
/* The kernel is loaded when it returns, so that its first launch may be captured.  shared_bytes: the
 * most dynamic shared memory that a launch will ask for. */
int driver_kernel(void **kernel, void *module, const char *name, uint32_t shared_bytes);
/* Registers, local bytes, shared bytes, most threads. */
int driver_kernel_resources(void *kernel, int32_t out[4]);

typedef struct driver_grid {
    uint32_t x, y, z, threads, shared_bytes;
    uint32_t chained; /* 1: may start before the launch ahead of it has ended, where that exists   */
    uint32_t cluster; /* blocks along z that are one cluster; 1: none.  CUDA alone                  */
} driver_grid;
int driver_launch(void *kernel, const driver_grid *grid, const void *parameters, void *stream);

int driver_alloc(void **out, size_t bytes);
int driver_free(void *pointer);
/* src may be reused when it returns. */
int driver_to_device(void *dst, const void *src, size_t bytes, void *stream);
/* The bytes are there when it returns. */
int driver_to_host(void *dst, const void *src, size_t bytes, void *stream);
int driver_copy(void *dst, const void *src, size_t bytes, void *stream);
int driver_fill(void *dst, uint8_t byte, size_t bytes, void *stream);

int driver_stream_create(void **stream);
int driver_stream_destroy(void *stream);
int driver_stream_sync(void *stream);
int driver_capturing(void *stream, int *yes);
int driver_capture_begin(void *stream);
int driver_capture_end(void *stream, void **graph); /* an executable graph                          */
int driver_graph_launch(void *graph, void *stream);
int driver_graph_destroy(void *graph);
int driver_event_create(void **event);
int driver_event_destroy(void *event);
int driver_event_record(void *event, void *stream);
int driver_event_elapsed(void *from, void *to, double *us); /* waits for `to`                       */

#endif /* OPREG_PLUGINS_DRIVER_H */
