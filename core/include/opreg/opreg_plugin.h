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
    /* At level BAND: the NMSE that this variant admits, up to 2e-3, where that is another than its
     * operator's and formats' (docs/numerics.md); 0: theirs. */
    double band;
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
 * shadow and guard need to work without a vendor SDK, and an engine that has none.  alloc and free are the
 * driver's, slow and waiting: memory that is taken once, not an allocator.
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
    /* ABI 1.1.  optional: if null, nobody can tell.  *yes: 1 while the stream is being captured. */
    opreg_status (*capturing)(const opreg_host *host, const opreg_device *dev, void *stream, int *yes);
} opreg_device_io;

/* ---- steps: what a model does between operators (ABI 1.1) --------------------------------------- */

/* Small work on f32 activations, so that they stay on the device from the token's id to the logits.
 * One order of operations each, written once in "steps.h": the same bits on every device.
 *
 * Pointers are memory of the device, but for the argument struct and a table's view.  Rows are packed.
 * Numbers of the host are checked: E_ARG.  Numbers on the device are not trusted: what is out of range
 * reads nothing and writes nothing but zeros.  A struct never grows: a step that needs more is a new
 * step.  Ordered on the stream; may be captured; no allocation, no wait. */

/* y[r] = row ids[r] of the table, times scale; zeros where there is no such row. */
typedef struct opreg_step_gather {
    uint32_t struct_size;
    float scale;
    const opreg_weight_view *table; /* of the device; stored layout, one expert, a format of the core   */
    const int32_t *ids;             /* [rows]                                                           */
    float *y;                       /* [rows, table->k]                                                 */
    int64_t rows;
} opreg_step_gather;

/* x[r] += delta[r], where delta is given; that is normed before where delta_weight is given.  Then
 * y[r] = norm(x[index[r]]), where weight is given; index null: of row r.  norm(v) is v times the inverse
 * of its root mean square, times the weight. */
typedef struct opreg_step_norm {
    uint32_t struct_size;
    float epsilon;
    int64_t rows, n;
    float *x;                  /* [x_rows, n]                                                         */
    int64_t x_rows;            /* rows where index is null                                            */
    const float *delta;        /* [rows, n] or null; then index is null                               */
    const float *delta_weight; /* [n] or null                                                         */
    const float *weight;       /* [n] or null                                                         */
    const int32_t *index;      /* [rows] or null                                                      */
    float *y;                  /* [rows, n], may be x where index is null; null where weight is       */
} opreg_step_norm;

/* What is done to the heads of new tokens: q and k are normed head by head where a weight is given, and
 * rotated by the angles of the token's position; then k and v go to the caches at the token's place. */
typedef struct opreg_step_heads {
    uint32_t struct_size;
    uint32_t kv_dtype; /* F32 F16 BF16                                                               */
    int64_t tokens;
    int32_t q_heads, kv_heads, head_dim;
    int32_t pairs;       /* rotated of a head: elements (i, i + pairs), or (2i, 2i + 1)              */
    int32_t halves;      /* 1: the first                                                             */
    int32_t positions_most; /* a token beyond is neither rotated nor stored                          */
    float epsilon;
    uint32_t reserved;
    float *q, *k;         /* [tokens, heads, head_dim], in place                                     */
    const float *v;
    const float *q_weight, *k_weight; /* [head_dim] or null                                          */
    const float *cosines, *sines;     /* [positions_most, pairs]                                     */
    const int32_t *positions;         /* [tokens]                                                    */
    const int64_t *places;            /* [tokens]: element of the caches where its first head goes;
                                       * not stored where that does not fit                          */
    void *k_cache, *v_cache;
    int64_t cache_elements; /* of each                                                               */
    int64_t head_stride;    /* elements from one head of a token to the next in a cache              */
} opreg_step_heads;

/* Softmax of each token's router logits, which are destroyed, and the top_k most probable experts, of
 * equal ones the lower; weights are their probabilities over the sum of those taken, at least 2^-14. */
typedef struct opreg_step_experts {
    uint32_t struct_size, reserved;
    int64_t tokens;
    int32_t experts, top_k;
    float *logits;  /* [tokens, experts]                                                             */
    int32_t *ids;   /* [tokens, top_k]                                                               */
    float *weights; /* [tokens, top_k]                                                               */
} opreg_step_experts;

/* y = glu(gate) * up, for pairs that one product cannot make; y may be gate or up. */
typedef struct opreg_step_glu {
    uint32_t struct_size, glu; /* opreg_glu, not NONE                                                */
    float glu_alpha, glu_limit;
    int64_t count;
    const float *gate, *up;
    float *y;
} opreg_step_glu;

/* x = cap * tanh(x / cap). */
typedef struct opreg_step_cap {
    uint32_t struct_size;
    float cap; /* above 0 */
    int64_t count;
    float *x;
} opreg_step_cap;

/* ids[r] = index of the largest of row r, of equal ones the lowest; NaN is below everything. */
typedef struct opreg_step_argmax {
    uint32_t struct_size, reserved;
    int64_t rows, n;
    const float *x;
    int32_t *ids;
} opreg_step_argmax;

/* What two results have in common.  Zeros to begin with. */
typedef struct opreg_difference {
    uint64_t checked, wrong; /* elements; wrong: other bits, where any NaN is any NaN                */
    uint32_t output;         /* the first wrong element: whose                                       */
    uint32_t got, want;      /* its bits                                                             */
    uint32_t reserved;
    int64_t row, column;
    double largest;             /* absolute error; infinite where only one is a number               */
    double error, energy, store; /* sums of squares: of got - want, of want, of half an ulp of the store */
} opreg_difference;

#define OPREG_DIFFERENCE_PARTS 64u

/* Adds the difference of two results to parts, each part's share to it; the sum is the caller's. */
typedef struct opreg_step_compare {
    uint32_t struct_size;
    uint32_t dtype;   /* F32 F16 BF16; 0: integers                                                   */
    uint32_t element; /* bytes: 1, 2 or 4                                                            */
    uint32_t output;  /* a number for the record                                                     */
    int64_t rows, length, stride; /* elements                                                        */
    const void *got, *want;
    opreg_difference *parts; /* [OPREG_DIFFERENCE_PARTS]                                             */
} opreg_step_compare;

typedef struct opreg_device_steps {
    uint32_t struct_size, reserved;
    opreg_status (*gather)(const opreg_host *host, const opreg_device *dev,
                           const opreg_step_gather *args, void *stream);
    opreg_status (*norm)(const opreg_host *host, const opreg_device *dev,
                         const opreg_step_norm *args, void *stream);
    opreg_status (*heads)(const opreg_host *host, const opreg_device *dev,
                          const opreg_step_heads *args, void *stream);
    opreg_status (*experts)(const opreg_host *host, const opreg_device *dev,
                            const opreg_step_experts *args, void *stream);
    opreg_status (*glu)(const opreg_host *host, const opreg_device *dev,
                        const opreg_step_glu *args, void *stream);
    opreg_status (*cap)(const opreg_host *host, const opreg_device *dev,
                        const opreg_step_cap *args, void *stream);
    opreg_status (*argmax)(const opreg_host *host, const opreg_device *dev,
                           const opreg_step_argmax *args, void *stream);
    opreg_status (*compare)(const opreg_host *host, const opreg_device *dev,
                            const opreg_step_compare *args, void *stream);
} opreg_device_steps;

/* ---- the plugin ------------------------------------------------------------------------------- */

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
    const opreg_device_steps *steps; /* ABI 1.1.  optional: if null, engines need steps of their own   */
} opreg_plugin;

/* Fills *out, whose struct_size says how much the host knows, up to the minor both sides share;
 * OPREG_E_ABI when there is none.  May be called again after shutdown. */
OPREG_API opreg_status opreg_plugin_entry(const opreg_host *host, opreg_plugin *out);

/* The io table and host of the plugin that owns a device, for tools and for engines that have no other
 * way to its memory and streams.  Valid while the plugin is loaded.  E_UNSUPPORTED when no loaded plugin
 * has the device. */
OPREG_API opreg_status opreg_device_io_get(opreg_registry *reg, const opreg_device *dev,
                                           const opreg_device_io **io, const opreg_host **host);

/* Its steps, called with the same host.  E_UNSUPPORTED also when the plugin has none. */
OPREG_API opreg_status opreg_device_steps_get(opreg_registry *reg, const opreg_device *dev,
                                              const opreg_device_steps **steps,
                                              const opreg_host **host);

/* The view inside a weight. Valid until the weight is destroyed. */
OPREG_API const opreg_weight_view *opreg_weight_view_get(const opreg_weight *weight);

#ifdef __cplusplus
}
#endif
#endif /* OPREG_OPREG_PLUGIN_H */
