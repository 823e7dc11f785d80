/* SPDX-License-Identifier: MIT
 * opreg.h - operator registry for LLM inference engines: what an engine includes.
 *
 * C11, also valid C++11.  Meaning of every operator, flag and level: docs/contracts.md.
 * Plugins include opreg_plugin.h, authors of plugins link the kit of opreg_test.h.
 *
 * Every struct starts with struct_size, which the caller sets to sizeof.  A shorter struct (an
 * older caller) is read as if the missing fields were zero; a longer one (a newer caller) is
 * accepted while the bytes that this library does not know are zero.  reserved fields are zero.
 *
 * Threads: one registry may be used from many threads at once.  opreg_plan_run takes no lock;
 * everything else may take the registry's.  One plan may run on many threads at once when each
 * call has its own workspace, outputs and stream.  A function that returns opreg_status sets its
 * outputs on OPREG_OK only, and on any other status opreg_last_error() on that thread says why.
 * After fork() a child may run plans of the CPU (on its one thread) and destroy its copy; a call that
 * needs a lock which another thread held at the fork answers E_BUSY (a listing: 0 rows). */
#ifndef OPREG_OPREG_H
#define OPREG_OPREG_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#ifndef OPREG_API
#if defined(__GNUC__)
#define OPREG_API __attribute__((visibility("default")))
#else
#define OPREG_API
#endif
#endif

/* ---- versions and statuses ------------------------------------------------------------------ */

#define OPREG_ABI_MAJOR 1u /* a layout break: the other side refuses to load                      */
#define OPREG_ABI_MINOR 1u /* appended fields only: both sides may differ                         */
#define OPREG_VERSION "0.1.0"

/* Values are frozen; new ones are appended. */
typedef enum opreg_status {
    OPREG_OK = 0,
    OPREG_E_ARG = 1,         /* the call is wrong: null, bad enum, bad struct_size, short buffer   */
    OPREG_E_SHAPE = 2,       /* the problem contradicts itself                                     */
    OPREG_E_UNSUPPORTED = 3, /* a valid problem that no variant on this device takes               */
    OPREG_E_DISABLED = 4,    /* a variant takes it, but its flag is off: the text names the flag   */
    OPREG_E_WORKSPACE = 5,   /* the caller's workspace is null, short or misaligned                */
    OPREG_E_ABI = 6,         /* version negotiation failed                                         */
    OPREG_E_LOAD = 7,        /* dlopen or dlsym failed, or a manifest is unusable                  */
    OPREG_E_DEVICE = 8,      /* driver or launch error: the driver's own code and name in the text */
    OPREG_E_NOMEM = 9,
    OPREG_E_BUSY = 10,   /* the plugin or registry still has live plans or weights                 */
    OPREG_E_STRICT = 11, /* strict mode: the text carries the reason of every refusal              */
    OPREG_E_CHECK = 12   /* guard or shadow found a fault in what a run wrote                      */
} opreg_status;

/* "OPREG_E_SHAPE" and the like; "unknown status" otherwise.  Static text, any thread. */
OPREG_API const char *opreg_status_name(opreg_status status);

/* Text of this thread's last failure, "" when there was none.  Valid until this thread's next call
 * that fails. */
OPREG_API const char *opreg_last_error(void);

/* "0.1.0".  Static text, any thread. */
OPREG_API const char *opreg_version(void);

/* ---- operators, levels, types --------------------------------------------------------------- */

typedef enum opreg_op {
    OPREG_OP_QUANTIZE_ACT = 1,
    OPREG_OP_MATMUL_BT_QUANT = 2,
    OPREG_OP_MOE_ROUTE = 3,
    OPREG_OP_MOE_MATMUL = 4,
    OPREG_OP_MOE_GLU = 5,
    OPREG_OP_MOE_DOWN = 6,
    OPREG_OP_MOE_COMBINE = 7,
    OPREG_OP_MOE_FFN = 8,
    OPREG_OP_PAGED_ATTN_DECODE = 9
} opreg_op;
#define OPREG_OP_COUNT 9u

/* What a variant promises about its result, weakest first (docs/contracts.md, "Promises
 * of a variant"). */
typedef enum opreg_level {
    OPREG_LEVEL_ANY = 0,      /* in a problem only: every variant is a candidate                  */
    OPREG_LEVEL_BAND = 1,     /* error within the band                                            */
    OPREG_LEVEL_INT = 2,      /* the same integer sums per unit, another float order              */
    OPREG_LEVEL_CANONICAL = 3 /* the bits of the CPU reference                                    */
} opreg_level;

/* Element types and weight formats.  Values are frozen; new ones are appended. */
typedef enum opreg_dtype {
    OPREG_F32 = 1,
    OPREG_F16 = 2,
    OPREG_BF16 = 3,
    OPREG_F8_E4M3 = 4, /* KV caches only: finite e4m3, no infinities                               */
    OPREG_Q8_K = 5,    /* quantized activations only: planes, see opreg_matmul_bt_quant             */
    /* block formats, byte for byte in docs/formats.md */
    OPREG_Q8_0 = 32, /* also the other kind of quantized activations                               */
    OPREG_Q4_0 = 33,
    OPREG_Q4_1 = 34,
    OPREG_Q5_0 = 35,
    OPREG_Q5_1 = 36,
    OPREG_Q2_K = 37,
    OPREG_Q3_K = 38,
    OPREG_Q4_K = 39,
    OPREG_Q5_K = 40,
    OPREG_Q6_K = 41,
    OPREG_IQ4_NL = 42,
    OPREG_IQ4_XS = 43,
    OPREG_Q2_0 = 44,
    OPREG_Q1_0 = 45,
    OPREG_MXFP4 = 46,
    OPREG_NVFP4 = 47,
    OPREG_IQ1_S = 48,
    OPREG_IQ1_M = 49,
    OPREG_IQ2_XXS = 50,
    OPREG_IQ2_XS = 51,
    OPREG_IQ2_S = 52,
    OPREG_IQ3_XXS = 53,
    OPREG_IQ3_S = 54,
    OPREG_ROCMFP4 = 55,
    OPREG_ROCMFP4_FAST = 56,
    OPREG_ROCMFP6 = 57,
    OPREG_ROCMFP8 = 58,
    OPREG_ROCMFP3 = 59,
    OPREG_ROCMFP2 = 60,
    OPREG_ROCMFP3_MIX = 61,
    OPREG_ROCMFP2_MIX = 62,
    OPREG_GQH3 = 63,
    OPREG_GQH2_H = 64,
    OPREG_GQH2_C = 65,
    OPREG_GQH4 = 66,
    OPREG_DTYPE_PLUGIN = 0x1000 /* and up: formats that a plugin brings                            */
} opreg_dtype;

/* Readings of a format whose bytes are claimed by more than one project.  Nothing in the bytes
 * tells them apart, so the caller says which one the model was made with.  0 is the default. */
typedef enum opreg_dialect {
    OPREG_DIALECT_DEFAULT = 0,
    OPREG_DIALECT_ROCMFP2_PLAIN = 1,   /* id 107: levels -1 0 1 2, bit 7 of a scale is refused     */
    OPREG_DIALECT_ROCMFP2_SIGNBIT = 2, /* id 107: bit 7 of a scale negates that half (default)     */
    OPREG_DIALECT_ROCMFP2_AFFINE = 3,  /* id 107: code * scale - minimum                            */
    OPREG_DIALECT_ROCMFP2_S40 = 4,     /* id 107: levels -4 -1 1 4                                  */
    OPREG_DIALECT_NVFP4_HOST = 5,      /* id 40: bit 7 of a scale ignored, 0xFF is 240 (default)    */
    OPREG_DIALECT_NVFP4_SIGNED = 6,    /* id 40: scale bytes as signed fp8, 0x7F and 0xFF are 0     */
    OPREG_DIALECT_ROCMFP4_HIP = 7      /* ids 100, 101: bit 7 ignored, 0x7F is 240, nothing refused */
} opreg_dialect;

typedef enum opreg_device_kind { OPREG_CPU = 1, OPREG_CUDA = 2, OPREG_HIP = 3 } opreg_device_kind;

/* Gated linear units: y = act(gate) * up (docs/numerics.md has the sequence of roundings). */
typedef enum opreg_glu {
    OPREG_GLU_NONE = 0,
    OPREG_GLU_SILU = 1,
    OPREG_GLU_SILU_CLAMPED = 2, /* gate clamped above at glu_limit, up on both sides               */
    OPREG_GLU_GELU_TANH = 3,
    OPREG_GLU_SWIGLU_OAI = 4 /* glu_alpha and glu_limit                                             */
} opreg_glu;

/* A pointer and the number of bytes that belong to it.  Device memory for a GPU plan, host memory
 * for the CPU.  {NULL, 0} where an argument is absent. */
typedef struct opreg_buf {
    void *ptr;
    uint64_t bytes;
} opreg_buf;

/* One row per device instance and driver. */
typedef struct opreg_device {
    uint32_t struct_size;
    uint32_t kind;         /* opreg_device_kind                                                    */
    int32_t ordinal;       /* index in the vendor's driver                                         */
    uint32_t units;        /* multiprocessors, compute units or threads                            */
    uint64_t memory_bytes; /* total                                                                */
    char arch[32];         /* "sm_60", "gfx1201", "x86_64"                                         */
    char name[64];
} opreg_device;

/* ---- weights: encoded blocks and their side data on one device ------------------------------- */

typedef struct opreg_weight opreg_weight;

#define OPREG_LAYOUT_STORED 0u       /* bytes as in the model file                                 */
#define OPREG_LAYOUT_ANY 0xffffffffu /* in a problem: the plan chooses, opreg_plan_layout tells     */

typedef struct opreg_weight_desc {
    uint32_t struct_size;
    uint32_t format;  /* opreg_dtype                                                                */
    uint32_t dialect; /* opreg_dialect                                                              */
    uint32_t layout;  /* OPREG_LAYOUT_STORED; a prepared weight comes from opreg_weight_prepare     */
    int64_t experts;  /* 1 when dense                                                               */
    int64_t n, k;     /* rows and row length; k is whole blocks                                     */
    int64_t expert_stride; /* bytes from one expert to the next; 0: packed                          */
    opreg_buf data;   /* borrowed until the weight is destroyed; on the weight's device             */
    uint64_t slack_before, slack_after; /* bytes that may be read outside data                      */
    /* Host memory, copied: the tensor's side data, as its entry of the wire in the model file has it
     * (docs/formats.md).  Little-endian, no padding; null and 0 bytes where the format has none.
     * GQH: f32 tensor_scale, u8 grid_code: 5 bytes, for all experts.  MIX, K levels a book (8 or 4),
     * E experts: E mode bytes, then E * 2 * K bf16, book 0 first: E * 33 or E * 17 bytes; 8 levels
     * also as E * 34 bytes, with E bytes of 0 after the modes; or one codebook for all experts: u8
     * mode, 3 unread bytes, 2 * K bf16: 36 or 20 bytes. */
    const void *side;
    uint64_t side_bytes;
    float tensor_scale; /* NVFP4: the result is multiplied by it.  0 means 1                        */
    uint32_t reserved;
} opreg_weight_desc;

/* ---- the MoE route -------------------------------------------------------------------------- */

/* One device buffer, its size and places from opreg_route_layout_get, every array at the next multiple of 16:
 * header, i32 group_expert[cap_groups], i32 group_start[cap_groups + 1], i32 entry_token[cap_entries],
 * i32 entry_dst[cap_entries], f32 entry_weight[cap_entries].
 * The capacities follow from the problem, never from the header: cap_entries = tokens * top_k,
 * cap_groups = min(experts, cap_entries) + 1.  Who reads a route clamps its counts to them, group_start to
 * [0, entries] (a group whose start is not below its end is empty), and skips a destination that is no
 * row.  A row that no entry names is not written; one that several name may hold anything. */
typedef struct opreg_route_header {
    uint32_t groups, entries, cap_groups, cap_entries;
} opreg_route_header;

/* Where the arrays are, in bytes from the start of the buffer. */
typedef struct opreg_route_layout {
    uint32_t struct_size;
    uint32_t cap_groups, cap_entries, reserved;
    uint64_t group_expert, group_start, entry_token, entry_dst, entry_weight;
    uint64_t bytes; /* of the whole buffer                                                          */
} opreg_route_layout;

/* Layout for tokens >= 0, top_k >= 1, experts >= 1.  E_SHAPE where the sizes overflow int32. */
OPREG_API opreg_status opreg_route_layout_get(int64_t tokens, int32_t top_k, int32_t experts,
                                              opreg_route_layout *out);

/* ---- problems: everything selection may depend on, no pointers ------------------------------- */

/* flags of a problem */
#define OPREG_PF_DETERMINISTIC 0x1u /* ask for: the same bits for the same inputs, every run        */
#define OPREG_PF_GRAPH_SAFE 0x2u    /* ask for: a run may be captured in a graph                    */
#define OPREG_PF_WIDTH_INVARIANT 0x4u /* ask for: row i of an m-row call has a 1-row call's bits    */
#define OPREG_PF_BIAS 0x10u         /* matmul_bt_quant: the bias buffer is used                     */
#define OPREG_PF_CSR 0x20u          /* attention: CSR page table instead of the dense one           */
#define OPREG_PF_Q_INDPTR 0x40u     /* attention: q_indptr is used; without it one token a request  */
#define OPREG_PF_SINKS 0x80u        /* attention: sinks are used                                    */
#define OPREG_PF_LSE 0x100u         /* attention: lse is written                                    */

/* Quantizes activations once for all matrices that share them.
 * Planes, each 16-byte aligned: i8 codes [M,K]; f32 scales [M,K/32] (Q8_0) or [M,K/256] (Q8_K);
 * i16 sums of 16 codes [M,K/16]. */
typedef struct opreg_quantize_act {
    uint32_t struct_size;
    uint32_t x_dtype; /* F32 F16 BF16                                                               */
    uint32_t q_dtype; /* OPREG_Q8_0 or OPREG_Q8_K                                                   */
    uint32_t level;
    int64_t m, k;     /* k is whole blocks of q_dtype; m may be 0                                   */
    int64_t x_stride; /* elements between rows of x, >= k                                           */
    uint32_t flags, reserved;
} opreg_quantize_act;

/* y[m,n] = sum over k of x[m,k] * W[n,k] (+ bias[n]); or the pair form, with weights gate and up:
 * y[m,n] = glu(x*gate^T)[m,n] * (x*up^T)[m,n]. */
typedef struct opreg_matmul_bt_quant {
    uint32_t struct_size;
    uint32_t x_dtype;   /* F32 F16 BF16, or OPREG_Q8_0/OPREG_Q8_K: three planes of quantize_act      */
    uint32_t b_dtype;   /* weight format                                                             */
    uint32_t b_dialect; /* opreg_dialect                                                             */
    uint32_t y_dtype;   /* F32 F16 BF16                                                              */
    uint32_t glu;       /* opreg_glu; not NONE makes the pair form                                   */
    int64_t m, n, k;    /* k is whole blocks; m and n may be 0                                       */
    int64_t x_stride;   /* elements between rows of x, >= k; k where x is planes                     */
    int64_t y_stride;   /* elements between rows of y, >= n                                          */
    uint32_t layout;    /* weight layout: stored, a layout id, or ANY                                */
    uint32_t level;     /* least opreg_level admitted                                                */
    float glu_alpha, glu_limit; /* 0 where the glu kind has none                                     */
    uint32_t flags, reserved;
} opreg_matmul_bt_quant;

/* Builds the route from router ids.  Groups are ordered by first routed entry, the order inside a
 * group is kept; entries whose id is outside [0, experts) form a last group of expert -1. */
typedef struct opreg_moe_route {
    uint32_t struct_size;
    uint32_t form; /* OPREG_ROUTE_TOPK or OPREG_ROUTE_PAIRS                                          */
    int64_t tokens;
    int32_t top_k, experts;
    int64_t ids_stride;     /* i32 elements between the ids of two tokens, >= top_k                  */
    int64_t weights_stride; /* f32 elements between the weights of two tokens, >= top_k              */
    uint32_t level, flags;
} opreg_moe_route;
#define OPREG_ROUTE_TOPK 1u  /* ids [tokens, top_k], weights [tokens, top_k]: dst = t * top_k + slot */
#define OPREG_ROUTE_PAIRS 2u /* expert_ids [tokens * top_k] and row_map (token of each pair), packed */

/* moe_matmul: y[dst(e)] = x[row(e)] * W[expert(e)]^T
 * moe_glu:    y[dst(e)] = glu(x[row(e)] * gate[expert(e)]^T) * (x[row(e)] * up[expert(e)]^T)
 * moe_down:   as moe_matmul, x is h [tokens * top_k, K] by destination. */
typedef struct opreg_moe_matmul {
    uint32_t struct_size;
    uint32_t x_dtype, b_dtype, b_dialect, y_dtype; /* as in opreg_matmul_bt_quant                    */
    uint32_t glu;   /* moe_glu: not NONE; else NONE                                                  */
    int64_t tokens, n, k;
    int32_t experts, top_k;
    int64_t x_stride, y_stride;
    uint32_t x_rows; /* OPREG_X_BY_TOKEN or OPREG_X_BY_DST; moe_down: BY_DST                         */
    uint32_t layout, level;
    float glu_alpha, glu_limit;
    uint32_t flags;
} opreg_moe_matmul;
#define OPREG_X_BY_TOKEN 1u
#define OPREG_X_BY_DST 2u

/* y[t] = sum over slots, ascending, of weights[t,slot] * rows[t * top_k + slot]. */
typedef struct opreg_moe_combine {
    uint32_t struct_size;
    uint32_t x_dtype, y_dtype; /* of rows and of y: F32 F16 BF16                                     */
    int32_t top_k;
    int64_t tokens, n;
    int64_t x_stride, y_stride; /* elements between rows                                             */
    int64_t weights_stride;     /* f32 elements between the weights of two tokens                    */
    uint32_t level, flags;
} opreg_moe_combine;

/* moe_glu, moe_down and moe_combine in one, h in f32.  Weights: gate, up, down.  The route is what
 * moe_route wrote for the same tokens, top_k and experts.  The buffer of weights is the router's, the
 * one that moe_route got; the sum over a token's experts takes them from there, not from the route. */
typedef struct opreg_moe_ffn {
    uint32_t struct_size;
    uint32_t x_dtype, y_dtype;
    uint32_t b_dtype, b_dialect;       /* gate and up                                                */
    uint32_t down_dtype, down_dialect; /* down                                                       */
    uint32_t glu;
    int64_t tokens, hidden, inter; /* x and y are [tokens, hidden]; gate and up [inter, hidden]       */
    int32_t experts, top_k;
    int64_t x_stride, y_stride, weights_stride;
    uint32_t layout, down_layout, level;
    float glu_alpha, glu_limit;
    uint32_t flags;
} opreg_moe_ffn;

/* Attention of one or a few query tokens per request over a paged KV cache (docs/contracts.md,
 * "paged_attn_decode"). */
typedef struct opreg_paged_attn_decode {
    uint32_t struct_size;
    uint32_t q_dtype, out_dtype; /* F32 F16 BF16                                                     */
    uint32_t kv_dtype;           /* F32 F16 BF16 F8_E4M3, of both caches                             */
    int32_t seqs;                /* requests; may be 0                                               */
    int32_t tokens;              /* query tokens in all; seqs without OPREG_PF_Q_INDPTR              */
    int32_t max_q;               /* most query tokens of one request, 1..8                           */
    int32_t q_heads, kv_heads;   /* q_heads a multiple of kv_heads                                   */
    int32_t head_dim;            /* 64..512                                                          */
    int32_t block_size;          /* positions a page                                                 */
    int32_t num_blocks;          /* pages in the cache                                               */
    int32_t table_stride;        /* dense: entries between two requests' rows, and entries in a row;
                                  * CSR: entries in indices                                          */
    int32_t max_seq_len;         /* a bound known on the host; a longer seq_len is clamped           */
    int32_t window;              /* 0: full; w: the last w positions                                 */
    float scale;                 /* > 0                                                              */
    float softcap;               /* 0: off                                                           */
    uint32_t level;
    int64_t q_stride, out_stride; /* elements between tokens, >= q_heads * head_dim                  */
    int64_t k_block_stride, k_slot_stride, k_head_stride; /* elements; NHD or HND                    */
    int64_t v_block_stride, v_slot_stride, v_head_stride;
    uint32_t flags, reserved;
} opreg_paged_attn_decode;

/* ---- arguments: pointers only ---------------------------------------------------------------- */

/* Index of each buffer in opreg_args.bufs.  Absent optional buffers are {NULL, 0}; trailing ones may
 * be left out of num_bufs.  Shapes are row-major, f32 or i32 unless the problem says otherwise.
 * An output (Y, OUT, LSE, the route, planes that are written) overlaps no input, no other output, no
 * weight and not the workspace: y in place of x is wrong.  A run finds an overlap with the workspace
 * only. */
enum { OPREG_QUANTIZE_CODES, OPREG_QUANTIZE_SCALES, OPREG_QUANTIZE_SUMS, OPREG_QUANTIZE_X,
       OPREG_QUANTIZE_BUFS };
enum { OPREG_MATMUL_Y,
       OPREG_MATMUL_X,        /* or the i8 codes                                                     */
       OPREG_MATMUL_BIAS,     /* f32 [N], with OPREG_PF_BIAS                                         */
       OPREG_MATMUL_X_SCALES, /* planes only                                                         */
       OPREG_MATMUL_X_SUMS,   /* planes only                                                         */
       OPREG_MATMUL_BUFS };
enum { OPREG_ROUTE_ROUTE, OPREG_ROUTE_IDS,
       OPREG_ROUTE_WEIGHTS, /* TOPK: f32 [tokens, top_k]; PAIRS: f32 [pairs], or absent: 1            */
       OPREG_ROUTE_ROW_MAP, /* PAIRS only: i32 [pairs]                                               */
       OPREG_ROUTE_BUFS };
enum { OPREG_MOE_Y, OPREG_MOE_X, OPREG_MOE_ROUTE_BUF,
       OPREG_MOE_X_SCALES, OPREG_MOE_X_SUMS, /* planes only                                          */
       OPREG_MOE_BUFS };
enum { OPREG_COMBINE_Y, OPREG_COMBINE_ROWS,
       OPREG_COMBINE_WEIGHTS, /* f32 [tokens, top_k], tokens weights_stride apart                     */
       OPREG_COMBINE_BUFS };
enum { OPREG_FFN_Y, OPREG_FFN_X, OPREG_FFN_ROUTE,
       OPREG_FFN_WEIGHTS, /* f32 [tokens, top_k], tokens weights_stride apart                         */
       OPREG_FFN_BUFS };
enum { OPREG_ATTN_OUT, OPREG_ATTN_Q, OPREG_ATTN_K, OPREG_ATTN_V,
       OPREG_ATTN_TABLE,    /* dense block_table [seqs, table_stride], or CSR indices                */
       OPREG_ATTN_LENS,     /* dense seq_lens [seqs], or CSR last_page_len [seqs]                    */
       OPREG_ATTN_INDPTR,   /* CSR only: [seqs + 1], clamped to [0, table_stride]                     */
       OPREG_ATTN_Q_INDPTR, /* [seqs + 1], clamped to [0, tokens], with OPREG_PF_Q_INDPTR; a token    *
                             * belongs to the first request that claims it, or is a zero row         */
       OPREG_ATTN_SINKS,    /* f32 [q_heads], with OPREG_PF_SINKS                                    */
       OPREG_ATTN_K_SCALE,  /* f32 [kv_heads], fp8 caches                                            */
       OPREG_ATTN_V_SCALE,  /* f32 [kv_heads], fp8 caches                                            */
       OPREG_ATTN_LSE,      /* f32 [tokens, q_heads], with OPREG_PF_LSE                              */
       OPREG_ATTN_BUFS };

typedef struct opreg_args {
    uint32_t struct_size, num_bufs;
    const opreg_buf *bufs;              /* in the order above                                        */
    const opreg_weight *const *weights; /* W; gate and up; gate, up and down                         */
    uint32_t num_weights, reserved;
    opreg_buf workspace; /* at least opreg_plan_workspace bytes, 256-byte aligned, aliases nothing    */
    void *stream;        /* CUstream or hipStream_t of the plan's device; ignored on the CPU          */
} opreg_args;

/* ---- registry -------------------------------------------------------------------------------- */

struct opreg_host;
struct opreg_plugin;
typedef struct opreg_registry opreg_registry;
typedef struct opreg_plan opreg_plan;

typedef enum opreg_log_level {
    OPREG_LOG_ERROR = 1,
    OPREG_LOG_WARN = 2,
    OPREG_LOG_INFO = 3,
    OPREG_LOG_DEBUG = 4
} opreg_log_level;

/* One line without a newline.  May be called from any thread that uses the registry, and may call
 * back into opreg: no lock is held. */
typedef void (*opreg_log_fn)(void *user, opreg_log_level level, const char *line);

/* Runs task(arg, i) for every i in [0, count), on any threads in any order, and returns when all
 * are done.  May be called from several threads at once. */
typedef void (*opreg_parallel_fn)(void *user, int64_t count, void (*task)(void *arg, int64_t i),
                                  void *arg);

#define OPREG_CF_STRICT 0x1u /* as OPREG_STRICT=on                                                   */
#define OPREG_CF_NO_ENV 0x2u /* do not read the environment                                          */
#define OPREG_CF_NO_INSTALLED 0x4u /* do not look into the installed plugin directory                */

typedef opreg_status (*opreg_entry_fn)(const struct opreg_host *host, struct opreg_plugin *out);

typedef struct opreg_config {
    uint32_t struct_size;
    uint32_t flags;   /* OPREG_CF_*                                                                  */
    opreg_log_fn log; /* null: warnings and errors go to stderr, and trace lines when asked for      */
    void *log_user;
    opreg_parallel_fn parallel_for; /* null: a small built-in pool                                   */
    void *parallel_user;
    uint32_t threads; /* of the built-in pool; 0: one per processor this process may use             */
    uint32_t reserved;
    /* Plugins that are linked into the process, added as opreg_add does, but before creation judges
     * the environment: their variables are known then.  Read during opreg_create only; null with 0. */
    const opreg_entry_fn *entries;
    uint32_t num_entries, reserved2;
} opreg_config;

/* Creates a registry: reads the environment and the manifests once, opens the plugins that are on.
 * cfg may be null (all defaults).  The built-in CPU backend is always there.  What is wrong with a
 * variable, a manifest or a plugin is a warning, or E_STRICT in strict mode. */
OPREG_API opreg_status opreg_create(const opreg_config *cfg, opreg_registry **out);

/* E_BUSY while plans or weights are alive; nothing is freed then.  Null is OK. */
OPREG_API opreg_status opreg_destroy(opreg_registry *reg);

/* Sets a flag: "cuda-sm90" to off, on, exact or fast; "cuda-sm90/q4_k_gemv" to on or off; "trace",
 * "strict", "shadow", "guard" as in the environment.  Beats the environment.  Opens the plugin when
 * needed.  Plans that exist keep their variant.  E_ARG: no such flag or word; E_LOAD, E_ABI,
 * E_DEVICE: the plugin does not open, and the flag keeps its old word.  trace, shadow and guard hold for
 * plans that are made afterwards (trace run: for all plans); "shadow-dir" takes an absolute directory
 * for replay files, or "". */
OPREG_API opreg_status opreg_enable(opreg_registry *reg, const char *flag, const char *word);

/* Reads the manifests of one more directory (absolute path) and opens the plugins that are on.  Every
 * manifest that can be taken is; the status is that of the first that cannot. */
OPREG_API opreg_status opreg_discover(opreg_registry *reg, const char *absolute_dir);

/* Adds a plugin that is linked into the process.  It is on at level "on" unless a flag says else. */
OPREG_API opreg_status opreg_add(opreg_registry *reg, opreg_entry_fn entry);

/* Takes a plugin out; its library stays mapped.  E_BUSY while it has live plans or weights. */
OPREG_API opreg_status opreg_unload(opreg_registry *reg, const char *plugin);

/* Each of the four listings below fills at most cap rows and returns how many there are; rows may be
 * null when cap is 0. A row's struct_size is set by the library, which never writes more than
 * row_bytes a row: pass sizeof(*rows). */

OPREG_API size_t opreg_devices(opreg_registry *reg, opreg_device *rows, size_t row_bytes, size_t cap);

typedef enum opreg_plugin_state {
    OPREG_PLUGIN_OFF = 0,   /* its flag is off; not opened unless it was on before                   */
    OPREG_PLUGIN_READY = 1, /* open, with at least one device                                        */
    OPREG_PLUGIN_NO_DEVICE = 2,
    OPREG_PLUGIN_FAILED = 3, /* reason says why                                                      */
    OPREG_PLUGIN_UNLOADED = 4
} opreg_plugin_state;

typedef struct opreg_plugin_row {
    uint32_t struct_size;
    uint32_t state; /* opreg_plugin_state                                                            */
    char name[32], version[32], built_with[64], archs[64];
    char reason[256];
    char path[512]; /* manifest or library; "(built in)" or "(added)"                                */
} opreg_plugin_row;
OPREG_API size_t opreg_plugins(opreg_registry *reg, opreg_plugin_row *rows, size_t row_bytes,
                               size_t cap);

typedef struct opreg_kernel_row {
    uint32_t struct_size;
    uint32_t op, level;
    uint32_t kernel_flags; /* OPREG_KF_* of opreg_plugin.h                                           */
    int32_t priority;
    uint32_t enabled;      /* 1 when a plan may take it                                              */
    char plugin[32], kernel[64], flag[96], variable[128];
    char formats[512];     /* names, space separated; "" where the operator has no weight            */
    char summary[128];
    double band; /* at level BAND: the NMSE it declares; 0: that of its operator and formats         */
} opreg_kernel_row;
OPREG_API size_t opreg_kernels(opreg_registry *reg, opreg_kernel_row *rows, size_t row_bytes,
                               size_t cap);

typedef struct opreg_flag_row {
    uint32_t struct_size;
    uint32_t source; /* OPREG_SOURCE_*                                                               */
    char flag[96], variable[128];
    char value[32];  /* the word in force                                                            */
    char values[64]; /* the words it takes                                                           */
    char summary[128];
} opreg_flag_row;
#define OPREG_SOURCE_DEFAULT 0u
#define OPREG_SOURCE_ENV 1u
#define OPREG_SOURCE_API 2u
#define OPREG_SOURCE_LEVEL 3u /* a variant's state that follows from its plugin's level              */
OPREG_API size_t opreg_flags(opreg_registry *reg, opreg_flag_row *rows, size_t row_bytes, size_t cap);

/* ---- selection ------------------------------------------------------------------------------- */

typedef struct opreg_candidate {
    uint32_t struct_size;
    int32_t verdict; /* OPREG_OK, OPREG_E_UNSUPPORTED or OPREG_E_DISABLED                            */
    int32_t rank;    /* 0 is the one a plan takes; -1: not eligible                                  */
    uint32_t level;
    uint32_t kernel_flags; /* OPREG_KF_*                                                             */
    uint32_t layout;       /* weight layout it would read                                            */
    uint64_t workspace;
    char plugin[32], kernel[64], flag[96], reason[128];
} opreg_candidate;

/* Every variant of the operator on the device, best first, each with its verdict.  *count is set to
 * how many there are; at most cap are filled.  E_SHAPE and E_ARG as opreg_plan_create. */
OPREG_API opreg_status opreg_explain(opreg_registry *reg, const opreg_device *dev, opreg_op op,
                                     const void *problem, opreg_candidate *rows, size_t row_bytes,
                                     size_t cap, size_t *count);

/* Chooses the variant for a problem on a device.  The problem is copied.  The plan holds its plugin.
 * E_SHAPE: the problem contradicts itself; E_UNSUPPORTED, E_DISABLED, E_STRICT as above. */
OPREG_API opreg_status opreg_plan_create(opreg_registry *reg, const opreg_device *dev, opreg_op op,
                                         const void *problem, opreg_plan **out);

/* As opreg_plan_create, but takes the variant "plugin/kernel" or fails with its reason.  Its flag may
 * be off: naming it is asking for it. */
OPREG_API opreg_status opreg_plan_create_named(opreg_registry *reg, const opreg_device *dev,
                                               opreg_op op, const void *problem,
                                               const char *plugin_kernel, opreg_plan **out);
OPREG_API void opreg_plan_destroy(opreg_plan *plan); /* null is fine; no run may be in flight         */

/* Constant over a plan's life; any thread.  Of null: 0, "", ANY, STORED, 0. */
OPREG_API uint64_t opreg_plan_workspace(const opreg_plan *plan);     /* bytes, 0 when none            */
OPREG_API const char *opreg_plan_kernel(const opreg_plan *plan);     /* "cuda-sm60/q4_k_gemv"         */
OPREG_API opreg_level opreg_plan_level(const opreg_plan *plan);
OPREG_API uint32_t opreg_plan_layout(const opreg_plan *plan);        /* never OPREG_LAYOUT_ANY        */
OPREG_API uint64_t opreg_plan_layout_bytes(const opreg_plan *plan);  /* for prepare's dst: of the
                                                                      * largest of its weights        */

/* Runs a plan: enqueues on args->stream (GPU), or computes before it returns (CPU: with up to 512 KiB of
 * stack, also of the threads of opreg_config.parallel_for).  No allocation, no lock, no environment, no
 * synchronisation.  Nothing is launched where the problem is empty.
 * E_ARG: a buffer is null, short or misaligned, or a weight does not fit; E_WORKSPACE; E_DEVICE.
 * E_CHECK: what guard found (the outputs stay as they were) or, in strict mode, shadow; both wait for the
 * stream.  In a captured run shadow compares on the device, and what it found is said when the plan is
 * destroyed, which is after its graphs; guard leaves captured runs alone (docs/environment.md). */
OPREG_API opreg_status opreg_plan_run(const opreg_plan *plan, const opreg_args *args);

/* ---- weights ---------------------------------------------------------------------------------- */

/* Wraps stored bytes that are on dev already; side data is checked, decoded and copied.
 * E_SHAPE: sizes contradict; E_ARG: bad side data, with the reason. */
OPREG_API opreg_status opreg_weight_create(opreg_registry *reg, const opreg_device *dev,
                                           const opreg_weight_desc *desc, opreg_weight **out);

/* Writes the layout that the plan wants into dst (opreg_plan_layout_bytes, 256-byte aligned, the
 * plan's device) on the stream, and wraps it.  For a plan of stored weights that is a packed copy.
 * stored may be destroyed after the stream is done; dst is borrowed until *out is. */
OPREG_API opreg_status opreg_weight_prepare(const opreg_plan *plan, const opreg_weight *stored,
                                            opreg_buf dst, void *stream, opreg_weight **out);

/* As opreg_weight_prepare, for the weight with this index in opreg_args.weights: what tells gate, up
 * and down of a plan of moe_ffn apart where they are alike.  E_ARG also: no such index. */
OPREG_API opreg_status opreg_weight_prepare_at(const opreg_plan *plan, uint32_t index,
                                               const opreg_weight *stored, opreg_buf dst,
                                               void *stream, opreg_weight **out);

/* Gives the stored bytes back, exactly. dst: the packed size of the stored weight. */
OPREG_API opreg_status opreg_weight_restore(const opreg_weight *prepared, opreg_buf dst,
                                            void *stream);
OPREG_API void opreg_weight_destroy(opreg_weight *weight); /* null is fine; no run may be in flight    */

/* Checks host bytes against a format's rules: OPREG_OK, or OPREG_E_ARG with the first bad block and
 * the reason.  The description is that of opreg_weight_create, with data in host memory. */
OPREG_API opreg_status opreg_weight_validate(const opreg_weight_desc *desc);

/* ---- formats and text -------------------------------------------------------------------------- */

typedef struct opreg_format_row {
    uint32_t struct_size;
    uint32_t format;     /* opreg_dtype                                                              */
    int32_t ggml_type;   /* id in GGUF files, -1 when none                                           */
    uint32_t block_values, block_bytes;
    uint32_t act_dtype;  /* what activations are quantized to: OPREG_Q8_0, OPREG_Q8_K or OPREG_F32    */
    char name[32];       /* "q4_k"                                                                   */
} opreg_format_row;

/* By id, by name or by GGUF type id; E_ARG when there is none. */
OPREG_API opreg_status opreg_format_by_id(uint32_t format, opreg_format_row *out);
OPREG_API opreg_status opreg_format_by_name(const char *name, opreg_format_row *out);
OPREG_API opreg_status opreg_format_by_ggml_type(int32_t type, opreg_format_row *out);

/* "f32", "q4_k", ...; "?" for an unknown id.  Static text. */
OPREG_API const char *opreg_dtype_name(uint32_t dtype);
OPREG_API const char *opreg_op_name(opreg_op op); /* "matmul_bt_quant"; "?" for an unknown one         */
OPREG_API opreg_op opreg_op_by_name(const char *name); /* 0 for an unknown one                        */

/* sizeof of an operator's problem struct, 0 for an unknown operator. */
OPREG_API size_t opreg_problem_size(opreg_op op);

/* Checks a problem by itself, without a registry: OPREG_OK, E_ARG or E_SHAPE.  A format that a plugin
 * brings is known to its registry alone. */
OPREG_API opreg_status opreg_problem_check(opreg_op op, const void *problem);

/* The problem as "key=value key=value ...", every field; what opreg_problem_parse reads back.
 * Returns the length without the end mark, as snprintf does; text may be null, which counts only. */
OPREG_API size_t opreg_problem_print(opreg_op op, const void *problem, char *text, size_t cap);

/* Reads "m=1 n=4096 k=4096 b=q4_k x=f32 y=f32".  Fields that are not named get their defaults: one row,
 * token or request; f32, and f16 for a KV cache; strides packed (NHD), level any, layout any; docs/
 * contracts.md lists the keys.  problem has opreg_problem_size(op) bytes.  E_ARG names the key or value
 * that is wrong; the result is not checked as opreg_problem_check does. */
OPREG_API opreg_status opreg_problem_parse(opreg_op op, const char *text, void *problem);

/* Bytes that a buffer of the problem must have at least, by index; 0 when the problem does not use
 * it.  E_ARG for a bad index, and what opreg_problem_check answers. */
OPREG_API opreg_status opreg_problem_buffer(opreg_op op, const void *problem, uint32_t index,
                                            uint64_t *bytes);

#ifdef __cplusplus
}
#endif
#endif /* OPREG_OPREG_H */
