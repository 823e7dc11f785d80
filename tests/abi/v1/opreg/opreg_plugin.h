/* SPDX-License-Identifier: MIT
 * opreg_plugin.h - what a plugin implements.  One exported symbol: opreg_plugin_entry.
 *
 * A plugin is a table that the registry reads; it is never asked to call back, except through the
 * opreg_host it was given.  Everything in a table must stay valid until shutdown returns. */
#ifndef OPREG_OPREG_PLUGIN_H
#define OPREG_OPREG_PLUGIN_H

#include "opreg.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- the registry, as a plugin sees it --------------------------------------------------------- */

/* Valid from entry until shutdown returns.  Any thread. */
typedef struct opreg_host {
    uint32_t struct_size, abi_major, abi_minor_min, abi_minor_max;
    void *ctx; /* first argument of every function here                                              */
    void (*log)(void *ctx, opreg_log_level level, const char *line);
    /* Sets the text that opreg_last_error returns on this thread. printf format. */
    void (*error)(void *ctx, const char *format, ...);
    /* Runs task(arg, i) for i in [0, count) on the caller's or the built-in threads. */
    void (*parallel_for)(void *ctx, int64_t count, void (*task)(void *arg, int64_t i), void *arg);
    /* State of one of the plugin's own switches ("jit"): 1 on, 0 off or not declared. */
    int (*switch_on)(void *ctx, const char *name);
} opreg_host;

/* ---- weights, as a kernel sees them -------------------------------------------------------------- */

/* Decoded side data of one expert; dense weights have one record.  On the weight's device. */
typedef struct opreg_side {
    float tensor_scale; /* NVFP4 and GQH; 1 elsewhere                                                 */
    uint32_t mode;      /* MIX: 0 fixed levels, 1 two codebooks; else 0                               */
    uint32_t dialect;   /* opreg_dialect                                                              */
    uint32_t reserved;
    float levels[16];   /* MIX: book 0, then book 1 (8 or 4 levels each; mode 0: the fixed levels in
                         * both); GQH: the level grid of the tensor's grid code                       */
} opreg_side;

typedef struct opreg_weight_view {
    uint32_t struct_size;
    uint32_t format, dialect, layout;
    int64_t experts, n, k;
    int64_t row_bytes;     /* stored layout: k / block * bytes                                        */
    int64_t expert_stride; /* bytes; prepared: the layout's bytes shared equally by the experts     */
    const void *data;
    uint64_t bytes, slack_before, slack_after;
    const opreg_side *side; /* [experts], device memory of the weight's device                        */
} opreg_weight_view;

/* What a kernel's run gets.  The registry has checked every buffer's bytes and alignment (that of its
 * elements; 16 for planes and routes), the weights' format, shape and layout, and that there is
 * something to write: m, n, tokens are not 0, but for moe_route, which writes a route of no tokens. */
typedef struct opreg_call {
    uint32_t struct_size, num_bufs, num_weights, reserved;
    const opreg_host *host;
    const opreg_buf *bufs; /* all the operator's buffers; absent ones are {NULL, 0}                   */
    const opreg_weight_view *const *weights;
    opreg_buf workspace;
    void *stream;
} opreg_call;

/* ---- tables ---------------------------------------------------------------------------------------- */

#define OPREG_KF_BASELINE 0x1u    /* on with the plugin; every other variant has its own flag          */
#define OPREG_KF_GRAPH_SAFE 0x2u
#define OPREG_KF_DETERMINISTIC 0x4u
#define OPREG_KF_WIDTH_INVARIANT 0x8u /* row i of an m-row call has the bits of a 1-row call           */

/* One variant of one operator. */
typedef struct opreg_kernel {
    uint32_t struct_size;
    uint32_t op;       /* opreg_op                                                                     */
    uint32_t flags;    /* OPREG_KF_*                                                                   */
    int32_t priority;  /* higher first; ties by name.  A baseline's is below every other's             */
    uint32_t level;    /* opreg_level: BAND, INT or CANONICAL                                          */
    uint32_t layout;   /* the weight layout it reads; OPREG_LAYOUT_ANY: all of the plugin's            */
    const char *name;    /* "q4_k_gemv": the flag is PLUGIN/NAME                                       */
    const char *summary; /* one line for opreg list                                                    */
    const uint32_t *formats; /* weight formats it is for, 0 ends; null where the op has no weight       */
    /* OPREG_OK, or OPREG_E_UNSUPPORTED with a reason.  Correctness only, never speed.  Pure: no driver
     * call, any thread.  The problem has been checked and has full size; here, in workspace, prepare
     * and run its layouts are never ANY, its formats are among this row's, and its level and flags are
     * ones that this row keeps. */
    opreg_status (*supports)(const opreg_device *dev, const void *problem, char reason[128]);
    /* Bytes of scratch a run needs; pure.  optional: if null, 0 */
    uint64_t (*workspace)(const opreg_device *dev, const void *problem);
    /* Whatever a plan needs to run; *state starts as null.  optional: if null, state is null */
    opreg_status (*prepare)(const opreg_host *host, const opreg_device *dev, const void *problem,
                            void **state);
    opreg_status (*run)(void *state, const void *problem, const opreg_call *call);
    void (*release)(void *state); /* optional: if null, state needs no release                         */
} opreg_kernel;

/* One prepared weight layout. Ids start at 1 and are unique inside the plugin. */
typedef struct opreg_layout {
    uint32_t struct_size, id;
    const char *name, *summary;
    const uint32_t *formats; /* 0 ends                                                                 */
    /* Bytes for a weight of this format and shape; 0 when it cannot be laid out so. */
    uint64_t (*bytes)(const opreg_device *dev, uint32_t format, int64_t experts, int64_t n, int64_t k);
    /* stored -> prepared and back, on the stream.  The view given is the source. */
    opreg_status (*pack)(const opreg_host *host, const opreg_device *dev,
                         const opreg_weight_view *stored, void *dst, void *stream);
    opreg_status (*unpack)(const opreg_host *host, const opreg_device *dev,
                           const opreg_weight_view *prepared, void *dst, void *stream);
} opreg_layout;

/* A weight format that the core does not know. */
typedef struct opreg_plugin_format {
    uint32_t struct_size, id; /* id >= OPREG_DTYPE_PLUGIN                                              */
    uint32_t block_values, block_bytes;
    const char *name;
    /* Host decode of whole blocks, for the kit's float64 check; side is one expert's record. */
    void (*to_f32)(const void *blocks, const opreg_side *side, int64_t values, float *out);
} opreg_plugin_format;

/* Memory, streams and graphs of the plugin's devices: what weights' side data, the kit, the bench,
 * shadow and guard need to work without a vendor SDK.  Not an allocator for engines.
 * The CPU's memory is host memory; its streams are null and its graphs are absent. */
typedef struct opreg_device_io {
    uint32_t struct_size, reserved;
    opreg_status (*alloc)(const opreg_host *host, const opreg_device *dev, uint64_t bytes, void **out);
    void (*free)(const opreg_host *host, const opreg_device *dev, void *ptr);
    /* Ordered on the stream; host memory may be pageable.  to_host returns when the bytes are there,
     * to_device when src may be reused. */
    opreg_status (*to_device)(const opreg_host *host, const opreg_device *dev, void *dst,
                              const void *src, uint64_t bytes, void *stream);
    opreg_status (*to_host)(const opreg_host *host, const opreg_device *dev, void *dst,
                            const void *src, uint64_t bytes, void *stream);
    opreg_status (*copy)(const opreg_host *host, const opreg_device *dev, void *dst, const void *src,
                         uint64_t bytes, void *stream);
    opreg_status (*fill)(const opreg_host *host, const opreg_device *dev, void *dst, uint8_t byte,
                         uint64_t bytes, void *stream);
    opreg_status (*stream_create)(const opreg_host *host, const opreg_device *dev, void **stream);
    void (*stream_destroy)(const opreg_host *host, const opreg_device *dev, void *stream);
    opreg_status (*stream_sync)(const opreg_host *host, const opreg_device *dev, void *stream);
    /* optional, all or none: null where the device has no graphs */
    opreg_status (*capture_begin)(const opreg_host *host, const opreg_device *dev, void *stream);
    opreg_status (*capture_end)(const opreg_host *host, const opreg_device *dev, void *stream,
                                void **graph);
    opreg_status (*graph_launch)(const opreg_host *host, const opreg_device *dev, void *graph,
                                 void *stream);
    void (*graph_destroy)(const opreg_host *host, const opreg_device *dev, void *graph);
    /* optional, all or none: null where host clocks around a synchronised stream are the only way */
    opreg_status (*event_create)(const opreg_host *host, const opreg_device *dev, void **event);
    void (*event_destroy)(const opreg_host *host, const opreg_device *dev, void *event);
    opreg_status (*event_record)(const opreg_host *host, const opreg_device *dev, void *event,
                                 void *stream);
    opreg_status (*event_elapsed_us)(const opreg_host *host, const opreg_device *dev, void *from,
                                     void *to, double *us); /* waits for `to` */
} opreg_device_io;

typedef struct opreg_plugin {
    uint32_t struct_size, abi_major, abi_minor;
    uint32_t num_kernels, num_formats, num_layouts;
    const char *name;       /* "cuda-sm60"                                                             */
    const char *version;    /* "0.1.0"                                                                 */
    const char *built_with; /* "CUDA 12.9"                                                             */
    const char *archs;      /* device code really inside, space separated: "sm_60"                     */
    const opreg_kernel *const *kernels;
    const opreg_plugin_format *const *formats; /* optional: null when num_formats is 0                 */
    const opreg_layout *const *layouts;        /* optional: null when num_layouts is 0                 */
    const opreg_device_io *io;
    /* Fills at most cap rows with the devices this plugin can drive; *count is how many there are.
     * No device is OPREG_OK with 0.  Called right after entry, once more when cap was too small.  A
     * library may be entered and probed in a forked child first, where a crash costs nothing. */
    opreg_status (*probe)(const opreg_host *host, opreg_device *rows, size_t cap, size_t *count);
    void (*shutdown)(const opreg_host *host); /* optional; once, after the last plan                   */
} opreg_plugin;

/* Fills *out, whose struct_size says how much the host knows, up to the minor both sides share;
 * OPREG_E_ABI when there is none.  May be called again after shutdown. */
OPREG_API opreg_status opreg_plugin_entry(const opreg_host *host, opreg_plugin *out);

/* For tools: the io table and host of the plugin that owns a device.  Valid while the plugin is
 * loaded.  E_UNSUPPORTED when no loaded plugin has the device. */
OPREG_API opreg_status opreg_device_io_get(opreg_registry *reg, const opreg_device *dev,
                                           const opreg_device_io **io, const opreg_host **host);

/* For tools: the view inside a weight. Valid until the weight is destroyed. */
OPREG_API const opreg_weight_view *opreg_weight_view_get(const opreg_weight *weight);

#ifdef __cplusplus
}
#endif
#endif /* OPREG_OPREG_PLUGIN_H */
