/* SPDX-License-Identifier: MIT
 * baseline.h - host side of the baseline kernels, for every GPU plugin.
 *
 * A plugin lists the baselines in its kernels.inc, puts BASELINE_SYMBOLS first in its gpu_program
 * and its layouts from here. */
#ifndef OPREG_PLUGINS_BASELINE_H
#define OPREG_PLUGINS_BASELINE_H

#include "baseline_args.h"
#include "gpu.h"

/* Index of each baseline kernel among the program's symbols; formats follow in the order of
 * formats.inc. */
enum baseline_symbol {
    BASE_QUANTIZE,
    BASE_ROUTE,
    BASE_COMBINE,
    BASE_ATTENTION,
    BASE_PACK,
    BASE_FIRST_FORMAT
};

/* Images that hold them. */
enum baseline_image { BASELINE_IMAGE_OPS, BASELINE_IMAGE_SUMS, BASELINE_IMAGE_FOLD, BASELINE_IMAGES };

/* Most dynamic shared memory of base_attention: 8 strands and 15 levels of the segment tree. */
#define BASELINE_ATTENTION_SHARED ((8u + 15u) * 516u * 4u)

/* Rows of a gpu_symbol table, in the order of the enum. */
#define BASELINE_OPS_SYMBOLS                                                                       \
    {"base_quantize", BASELINE_IMAGE_OPS, 0}, {"base_route", BASELINE_IMAGE_OPS, 0},               \
        {"base_combine", BASELINE_IMAGE_OPS, 0},                                                   \
        {"base_attention", BASELINE_IMAGE_OPS, BASELINE_ATTENTION_SHARED},                         \
        {"base_pack", BASELINE_IMAGE_OPS, 0},

/* What the format tables say, on the host. */
typedef struct gpu_format {
    uint32_t id, symbol; /* symbol: of its baseline matrix kernel                                  */
    const char *name;
    int32_t values, bytes, unit;
    uint32_t act;       /* OPREG_F32, OPREG_Q8_0 or OPREG_Q8_K                                     */
    uint32_t act_block; /* 32, 256; 0 for f32                                                      */
    uint32_t scaled;    /* 1: the result is multiplied by side->tensor_scale                       */
} gpu_format;
const gpu_format *gpu_format_find(uint32_t id); /* null for an unknown one                          */

/* The rows32 layout of a format; null when it has none. */
const prepared_shape *prepared_shape_find(uint32_t format, int32_t *group_values);
/* Groups of a row of k values; the last one may be short of blocks. */
int64_t prepared_groups(uint32_t format, int64_t k);
extern const opreg_layout prepared_rows32;
extern const uint32_t prepared_formats[]; /* 0 ends                                                 */

/* The slot4 layout, for plugins that offer it: slot4.c, and symbols of its kernels after the formats',
 * SLOT4_KERNELS for each one of slot4_formats.inc. */
extern const opreg_layout prepared_slot4;
extern const uint32_t slot4_formats[]; /* 0 ends                                                    */

/* The symbol of a slot4 kernel; UINT32_MAX where the layout does not take the format. */
uint32_t slot4_symbol(uint32_t format, uint32_t kernel);

/* Every format of formats.inc, 0 ends. */
extern const uint32_t every_format[];

/* OPREG_OK when experts * n * k weights can be counted by a grid and, padded to whole groups of a
 * layout, by 64 bits; else what is too large. */
opreg_status gpu_sizes_fit(int64_t experts, int64_t n, int64_t k, char reason[128]);

/* Planes of quantized activations inside a workspace. */
typedef struct plane_offsets {
    uint64_t codes, scales, sums, end;
} plane_offsets;
plane_offsets planes_at(uint64_t start, int64_t rows, int64_t k, uint32_t act_block);

/* A plan's state: the device, and whether launches may overlap. */
typedef struct gpu_plan {
    const gpu_device *device;
    uint32_t chained;
} gpu_plan;

/* The opreg_kernel functions that all variants share. */
opreg_status gpu_plan_prepare(const opreg_host *host, const opreg_device *dev, const void *problem,
                              void **state);
void gpu_plan_release(void *state);

/* Fills what dense and grouped calls have in common. */
void matmul_args_weight(matmul_args *args, int which, const opreg_weight_view *view,
                        const gpu_format *format);
route_view route_view_of(void *buffer, int64_t tokens, int32_t top_k, int32_t experts);

/* Quantizes m rows of x to planes in the workspace; codes, scales and sums of *args point there. */
opreg_status launch_quantize(const opreg_call *call, const gpu_plan *plan, const void *x,
                             uint32_t x_dtype, int64_t m, int64_t k, int64_t x_stride,
                             uint32_t act_block, plane_offsets at, matmul_args *args);

/* How a matrix kernel with matmul_args is launched: grid (n / outputs, m / rows or groups). */
typedef struct matmul_shape {
    uint32_t symbol;
    uint32_t outputs, threads, rows; /* of a block; rows: of x                                     */
    uint32_t shared;                 /* dynamic shared memory                                      */
    uint32_t takes_x;                /* dense calls: the kernel quantizes x itself                 */
} matmul_shape;
/* Run a dense or a grouped problem: x is quantized into the workspace where the format asks for it. */
opreg_status gpu_matmul_run(void *state, const void *problem, const opreg_call *call,
                        const matmul_shape *shape);
opreg_status gpu_moe_run(void *state, const void *problem, const opreg_call *call,
                     const matmul_shape *shape);

/* moe_ffn as moe_glu into h and moe_down from h into rows, h and rows in f32, packed. */
typedef struct ffn_stages {
    opreg_moe_matmul glu, down;
} ffn_stages;
ffn_stages ffn_stages_of(const opreg_moe_ffn *p);

void attention_args_fill(attention_args *args, const opreg_paged_attn_decode *p,
                         const opreg_call *call);

#define BASELINE_DECLARE(name)                                                                     \
    opreg_status name##_supports(const opreg_device *dev, const void *problem, char reason[128]);  \
    uint64_t name##_workspace(const opreg_device *dev, const void *problem);                       \
    opreg_status name##_run(void *state, const void *problem, const opreg_call *call);
/* The workspace function of a variant that needs none. */
#define GPU_NO_WORKSPACE(name)                                                                     \
    uint64_t name##_workspace(const opreg_device *dev, const void *problem) {                      \
        (void)dev;                                                                                 \
        (void)problem;                                                                             \
        return 0;                                                                                  \
    }
BASELINE_DECLARE(base_quantize)
BASELINE_DECLARE(base_matmul)
BASELINE_DECLARE(base_route)
BASELINE_DECLARE(base_moe_matmul)
BASELINE_DECLARE(base_moe_glu)
BASELINE_DECLARE(base_moe_down)
BASELINE_DECLARE(base_combine)
BASELINE_DECLARE(base_ffn)
BASELINE_DECLARE(base_attention)

#endif /* OPREG_PLUGINS_BASELINE_H */
