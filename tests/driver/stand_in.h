/* SPDX-License-Identifier: MIT
 * stand_in.h - a vendor's driver for tests: devices whose memory is the host's and whose kernels do
 * nothing.  cuda.c and hip.c give it the names of the two drivers; built with their sonames and opened
 * before a plugin is, they are what the plugin's dlopen finds.
 *
 * It checks what a real driver would forgive or punish later: handles that do not live, copies
 * outside an allocation, a launch on another device, a wait or an allocation inside a capture.  Each
 * such thing is an error to the caller and a line in `misuse`. */
#ifndef OPREG_TESTS_STAND_IN_H
#define OPREG_TESTS_STAND_IN_H

#include <stddef.h>
#include <stdint.h>

#define STAND_IN_DEVICES 4

typedef struct stand_in_state {
    /* set by the test */
    int num_devices;
    char arch[STAND_IN_DEVICES][32]; /* "sm_90", "gfx1201"                                          */
    int version;                     /* as the driver's own function reports it                    */
    int refuses_images;              /* 1: no code object loads, as in a driver that is too old    */
    long fail_at;                    /* this call fails, counted from 1; 0: none                   */
    int fail_code;
    long lose_at; /* from this call on, every call on its device fails; 0: never                   */
    int lose_code;
    /* told to the test */
    long calls;            /* calls that may fail                                                  */
    int fired, lost;       /* fired: fail_at was reached; lost: bit i is device i                  */
    char failed_call[64];  /* the call that failed_at or lose_at hit                               */
    long live;             /* modules, memory, streams, events, graphs and contexts that exist     */
    long launches, chained, waits, allocations, loads, copies;
    int misused;
    char misuse[256]; /* the first one                                                             */
} stand_in_state;

/* Exported by the stand-in; the same in both. */
typedef stand_in_state *(*stand_in_fn)(void);

/* ---- for cuda.c and hip.c -------------------------------------------------------------------- */

enum stand_in_error {
    E_VALUE = 1,
    E_MEMORY = 2,
    E_NO_DEVICE = 100,
    E_DEVICE = 101,
    E_IMAGE = 200,
    E_CONTEXT = 201,
    E_HANDLE = 400,
    E_NOT_FOUND = 500,
    E_CAPTURE = 900
};

typedef enum stand_in_kind {
    KIND_CONTEXT = 1,
    KIND_MODULE,
    KIND_KERNEL,
    KIND_MEMORY,
    KIND_STREAM,
    KIND_EVENT,
    KIND_GRAPH,
    KIND_EXEC
} stand_in_kind;

typedef struct stand_in_object {
    struct stand_in_object *next;
    stand_in_kind kind;
    int device;
    struct stand_in_object *owner; /* a kernel's module                                            */
    void *bytes;                   /* of memory                                                    */
    size_t num_bytes;
    int flag; /* a stream: 1 while it captures; an event: 1 once recorded; a kernel: shared bytes   */
} stand_in_object;

stand_in_state *stand_in(void);
void stand_in_lock(void);
void stand_in_unlock(void);

/* Counts a call on a device (-1: none); 0, or the code it must fail with. */
int stand_in_call(const char *name, int device);
int stand_in_misuse(int code, const char *name, const char *what);

/* Bodies of the functions that both drivers have.  Locked by the caller. */
stand_in_object *stand_in_new(stand_in_kind kind, int device);
stand_in_object *stand_in_find(stand_in_kind kind, const void *handle); /* null: none lives        */
int stand_in_drop(const char *name, stand_in_kind kind, void *handle, int device);
void stand_in_drop_all(int device); /* but its context                                              */
int stand_in_alloc(const char *name, int device, void **out, size_t bytes);
int stand_in_free(const char *name, int device, void *pointer);
int stand_in_kernel(const char *name, void **out, void *module, const char *kernel);
int stand_in_launch(const char *name, int device, void *kernel, const unsigned int sizes[7],
                    void *stream, void **parameters);
/* Null dst or src addresses are the host's; the other lies in one allocation. */
int stand_in_copy(const char *name, int device, void *dst, int dst_on_device, const void *src,
                  int src_on_device, size_t bytes, void *stream);
int stand_in_fill(const char *name, int device, void *dst, int byte, size_t bytes, void *stream);
int stand_in_wait(const char *name, int device, void *stream);
int stand_in_capturing(const char *name, void *stream, int *state);
int stand_in_capture_begin(const char *name, int device, void *stream);
int stand_in_capture_end(const char *name, int device, void *stream, void **graph);
int stand_in_graph_launch(const char *name, int device, void *graph, void *stream);
int stand_in_event_record(const char *name, int device, void *event, void *stream);
int stand_in_event_elapsed(const char *name, int device, float *ms, void *from, void *to);

#endif /* OPREG_TESTS_STAND_IN_H */
