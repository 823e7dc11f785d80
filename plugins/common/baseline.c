/* SPDX-License-Identifier: MIT
 * baseline.c - host side of the baseline kernels: what they take, their workspace, their launches. */
#include "baseline.h"
#include "slot4.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_GRID_Y 65535

static uint64_t align256(uint64_t bytes) { return (bytes + 255u) & ~(uint64_t)255u; }

static uint32_t blocks_of(int64_t items, int64_t each) {
    return (uint32_t)((items + each - 1) / each);
}

static uint32_t rows_of(int64_t rows) {
    return (uint32_t)(rows < MAX_GRID_Y ? rows : MAX_GRID_Y);
}

/* ---- plans -------------------------------------------------------------------------------------- */

opreg_status gpu_plan_prepare(const opreg_host *host, const opreg_device *dev, const void *problem,
                              void **state) {
    gpu_plan *plan = calloc(1, sizeof *plan);
    (void)problem;
    if (plan == NULL) {
        host->error(host->ctx, "no memory for a plan");
        return OPREG_E_NOMEM;
    }
    plan->device = gpu_device_find(dev->ordinal);
    plan->chained = host->switch_on != NULL && host->switch_on(host->ctx, "chain") != 0;
    if (plan->device == NULL) {
        free(plan);
        host->error(host->ctx, "device %d is not open in this plugin", dev->ordinal);
        return OPREG_E_ARG;
    }
    *state = plan;
    return OPREG_OK;
}

void gpu_plan_release(void *state) { free(state); }

/* ---- activations ---------------------------------------------------------------------------------- */

plane_offsets planes_at(uint64_t start, int64_t rows, int64_t k, uint32_t act_block) {
    plane_offsets at;
    at.codes = start;
    at.scales = align256(at.codes + (uint64_t)(rows * k));
    at.sums = align256(at.scales + (uint64_t)(rows * (k / act_block)) * 4u);
    at.end = align256(at.sums + (uint64_t)(rows * (k / 16)) * 2u);
    return at;
}

static opreg_status run_quantize(const opreg_host *host, const gpu_plan *plan,
                                 const quantize_args *args, void *stream) {
    gpu_launch launch = {BASE_QUANTIZE, 1, 1, 1, BASELINE_THREADS, 0, 0};
    if (args->m == 0 || args->k == 0) {
        return OPREG_OK;
    }
    launch.chained = plan->chained;
    launch.grid_x = blocks_of((args->k + 255) / 256, BASELINE_THREADS / 32);
    launch.grid_y = rows_of(args->m);
    return gpu_run(host, plan->device, &launch, args, stream);
}

opreg_status launch_quantize(const opreg_call *call, const gpu_plan *plan, const void *x,
                             uint32_t x_dtype, int64_t m, int64_t k, int64_t x_stride,
                             uint32_t act_block, plane_offsets at, matmul_args *args) {
    uint8_t *workspace = call->workspace.ptr;
    quantize_args quantize = {.x = x,
                              .codes = (int8_t *)(workspace + at.codes),
                              .scales = (float *)(void *)(workspace + at.scales),
                              .sums = (int16_t *)(void *)(workspace + at.sums),
                              .m = m,
                              .k = k,
                              .x_stride = x_stride,
                              .x_dtype = x_dtype,
                              .block = act_block};
    args->x = quantize.codes;
    args->scales = quantize.scales;
    args->sums = quantize.sums;
    return run_quantize(call->host, plan, &quantize, call->stream);
}

opreg_status base_quantize_supports(const opreg_device *dev, const void *problem,
                                    char reason[128]) {
    (void)dev;
    (void)problem;
    (void)reason;
    return OPREG_OK;
}

GPU_NO_WORKSPACE(base_quantize)

opreg_status base_quantize_run(void *state, const void *problem, const opreg_call *call) {
    const opreg_quantize_act *p = problem;
    quantize_args args = {.x = call->bufs[OPREG_QUANTIZE_X].ptr,
                          .codes = call->bufs[OPREG_QUANTIZE_CODES].ptr,
                          .scales = call->bufs[OPREG_QUANTIZE_SCALES].ptr,
                          .sums = call->bufs[OPREG_QUANTIZE_SUMS].ptr,
                          .m = p->m,
                          .k = p->k,
                          .x_stride = p->x_stride,
                          .x_dtype = p->x_dtype,
                          .block = p->q_dtype == OPREG_Q8_K ? 256u : 32u};
    return run_quantize(call->host, state, &args, call->stream);
}

/* ---- matrices --------------------------------------------------------------------------------------- */

static int is_planes(uint32_t dtype) { return dtype == OPREG_Q8_0 || dtype == OPREG_Q8_K; }

static opreg_status check_format(uint32_t format, char reason[128]) {
    if (gpu_format_find(format) == NULL) {
        snprintf(reason, 128, "weight format %u is not one that this plugin knows", format);
        return OPREG_E_UNSUPPORTED;
    }
    return OPREG_OK;
}

/* The layouts are checked by the core against the plugin's; one more id cannot be read. */
static opreg_status check_layout(uint32_t layout, char reason[128]) {
    if (layout != OPREG_LAYOUT_STORED && layout != OPREG_LAYOUT_ANY &&
        layout != PREPARED_ROWS32 && layout != PREPARED_SLOT4) {
        snprintf(reason, 128, "weight layout %u is not one of 0 %u %u", layout, PREPARED_ROWS32,
                 PREPARED_SLOT4);
        return OPREG_E_UNSUPPORTED;
    }
    return OPREG_OK;
}

opreg_status gpu_sizes_fit(int64_t experts, int64_t n, int64_t k, char reason[128]) {
    int64_t padded = n < INT32_MAX ? (n + 31) / 32 * 32 : n;
    if (n > INT32_MAX || k > INT32_MAX) {
        snprintf(reason, 128, "n %lld, k %lld: one is above 2147483647", (long long)n, (long long)k);
        return OPREG_E_UNSUPPORTED;
    }
    if (padded > 0 && experts > ((int64_t)1 << 60) / (padded * k)) {
        snprintf(reason, 128, "%lld experts of %lld rows of %lld are more than 2^60 weights",
                 (long long)experts, (long long)n, (long long)k);
        return OPREG_E_UNSUPPORTED;
    }
    return OPREG_OK;
}

/* Bytes of planes for rows of x, 0 where the kernel reads x as it is. */
static uint64_t planes_bytes(uint32_t format, uint32_t x_dtype, int64_t rows, int64_t k) {
    const gpu_format *f = gpu_format_find(format);
    return f == NULL || f->act_block == 0 || is_planes(x_dtype)
               ? 0
               : planes_at(0, rows, k, f->act_block).end;
}

void matmul_args_weight(matmul_args *args, int which, const opreg_weight_view *view,
                        const gpu_format *format) {
    int32_t group_values;
    args->data[which] = view->data;
    args->side[which] = view->side;
    args->expert_stride[which] = view->expert_stride;
    args->row_bytes = (args->k / format->values) * format->bytes;
    if (format->values == 1) {
        args->row_bytes = args->k * format->bytes;
    }
    args->scaled = format->scaled;
    if (view->layout == PREPARED_SLOT4) { /* rows of blocks, as stored weights */
        args->row_bytes = args->k / SLOT4_VALUES * SLOT4_BYTES;
        args->expert_stride[which] = view->n * args->row_bytes;
        return;
    }
    args->prepared = view->layout != OPREG_LAYOUT_STORED;
    if (args->prepared) {
        args->layout = *prepared_shape_find(view->format, &group_values);
        args->row_bytes = prepared_groups(view->format, args->k) *
                          (int64_t)(args->layout.block_bytes * args->layout.blocks);
        args->expert_stride[which] = (view->n + 31) / 32 * 32 * args->row_bytes;
    }
}

static matmul_shape baseline_shape(uint32_t format, uint32_t layout) {
    uint32_t symbol = layout == PREPARED_SLOT4 ? slot4_symbol(format, SLOT4_BASELINE)
                                               : gpu_format_find(format)->symbol;
    return (matmul_shape){.symbol = symbol,
                          .outputs = BASELINE_THREADS / 32,
                          .threads = BASELINE_THREADS,
                          .rows = 1};
}

static opreg_status run_matmul(const opreg_host *host, const gpu_plan *plan,
                               const matmul_shape *shape, const matmul_args *args,
                               void *stream) {
    gpu_launch launch = {shape->symbol, 1, 1, 1, shape->threads, shape->shared, 0};
    int64_t rows = args->route.header != NULL ? args->route.cap_groups
                                              : (args->m + shape->rows - 1) / shape->rows;
    if (rows == 0 || args->n == 0) {
        return OPREG_OK;
    }
    launch.grid_x = blocks_of(args->n, shape->outputs);
    launch.grid_y = rows_of(rows);
    return gpu_run(host, plan->device, &launch, args, stream);
}

opreg_status base_matmul_supports(const opreg_device *dev, const void *problem, char reason[128]) {
    const opreg_matmul_bt_quant *p = problem;
    opreg_status status = check_format(p->b_dtype, reason);
    (void)dev;
    if (status == OPREG_OK) {
        status = gpu_sizes_fit(1, p->n, p->k, reason);
    }
    return status != OPREG_OK ? status : check_layout(p->layout, reason);
}

uint64_t base_matmul_workspace(const opreg_device *dev, const void *problem) {
    const opreg_matmul_bt_quant *p = problem;
    (void)dev;
    return planes_bytes(p->b_dtype, p->x_dtype, p->m, p->k);
}

opreg_status gpu_matmul_run(void *state, const void *problem, const opreg_call *call,
                        const matmul_shape *shape) {
    const opreg_matmul_bt_quant *p = problem;
    const gpu_plan *plan = state;
    const gpu_format *format = gpu_format_find(p->b_dtype);
    opreg_status status = OPREG_OK;
    matmul_args args = {.x = call->bufs[OPREG_MATMUL_X].ptr,
                        .scales = call->bufs[OPREG_MATMUL_X_SCALES].ptr,
                        .sums = call->bufs[OPREG_MATMUL_X_SUMS].ptr,
                        .bias = call->bufs[OPREG_MATMUL_BIAS].ptr,
                        .y = call->bufs[OPREG_MATMUL_Y].ptr,
                        .m = p->m,
                        .n = p->n,
                        .k = p->k,
                        .x_stride = p->x_stride,
                        .y_stride = p->y_stride,
                        .x_dtype = p->x_dtype,
                        .y_dtype = p->y_dtype,
                        .pair = p->glu != OPREG_GLU_NONE,
                        .glu = p->glu,
                        .glu_alpha = p->glu_alpha,
                        .glu_limit = p->glu_limit};
    if (p->m == 0 || p->n == 0) {
        return OPREG_OK;
    }
    for (uint32_t i = 0; i < call->num_weights && i < 2; i++) {
        matmul_args_weight(&args, (int)i, call->weights[i], format);
    }
    if (format->act_block != 0 && !is_planes(p->x_dtype) && !shape->takes_x) {
        status = launch_quantize(call, plan, args.x, p->x_dtype, p->m, p->k, p->x_stride,
                                 format->act_block,
                                 planes_at(0, p->m, p->k, format->act_block), &args);
    }
    return status != OPREG_OK ? status
                              : run_matmul(call->host, plan, shape, &args, call->stream);
}

opreg_status base_matmul_run(void *state, const void *problem, const opreg_call *call) {
    const opreg_matmul_bt_quant *p = problem;
    matmul_shape shape = baseline_shape(p->b_dtype, p->layout);
    return gpu_matmul_run(state, problem, call, &shape);
}

/* ---- grouped matrices -------------------------------------------------------------------------------- */

route_view route_view_of(void *buffer, int64_t tokens, int32_t top_k, int32_t experts) {
    route_view view;
    uint64_t entries = (uint64_t)tokens * (uint64_t)top_k, at = sizeof(opreg_route_header);
    uint8_t *bytes = buffer;
    memset(&view, 0, sizeof view);
    view.cap_entries = (uint32_t)entries;
    view.cap_groups =
        (uint32_t)((uint64_t)experts < entries ? (uint64_t)experts : entries) + 1u;
    view.header = buffer;
    view.group_expert = (const int32_t *)(const void *)(bytes + at);
    at = (at + view.cap_groups * 4u + 15u) & ~(uint64_t)15u;
    view.group_start = (const int32_t *)(const void *)(bytes + at);
    at = (at + (view.cap_groups + 1u) * 4u + 15u) & ~(uint64_t)15u;
    view.entry_token = (const int32_t *)(const void *)(bytes + at);
    at = (at + entries * 4u + 15u) & ~(uint64_t)15u;
    view.entry_dst = (const int32_t *)(const void *)(bytes + at);
    return view;
}

static opreg_status moe_supports(const void *problem, char reason[128]) {
    const opreg_moe_matmul *p = problem;
    opreg_status status = check_format(p->b_dtype, reason);
    if (status == OPREG_OK) {
        status = gpu_sizes_fit(p->experts, p->n, p->k, reason);
    }
    return status != OPREG_OK ? status : check_layout(p->layout, reason);
}

static int64_t moe_x_rows(const opreg_moe_matmul *p) {
    return p->x_rows == OPREG_X_BY_TOKEN ? p->tokens : p->tokens * p->top_k;
}

static uint64_t moe_workspace(const void *problem) {
    const opreg_moe_matmul *p = problem;
    return planes_bytes(p->b_dtype, p->x_dtype, moe_x_rows(p), p->k);
}

/* One grouped stage.  x, scales and sums of *args are set; planes is where x is quantized to. */
static opreg_status run_stage(const opreg_call *call, const gpu_plan *plan,
                              const matmul_shape *shape, const opreg_moe_matmul *p, void *route,
                              const opreg_weight_view *const *weights, uint64_t planes,
                              matmul_args *args) {
    const gpu_format *format = gpu_format_find(p->b_dtype);
    opreg_status status = OPREG_OK;
    args->n = p->n;
    args->k = p->k;
    args->x_stride = p->x_stride;
    args->y_stride = p->y_stride;
    args->x_dtype = p->x_dtype;
    args->y_dtype = p->y_dtype;
    args->pair = p->glu != OPREG_GLU_NONE;
    args->glu = p->glu;
    args->glu_alpha = p->glu_alpha;
    args->glu_limit = p->glu_limit;
    args->by_dst = p->x_rows == OPREG_X_BY_DST;
    args->experts = p->experts;
    args->tokens = (int32_t)p->tokens;
    args->top_k = p->top_k;
    args->route = route_view_of(route, p->tokens, p->top_k, p->experts);
    if (p->tokens == 0 || p->n == 0) {
        return OPREG_OK;
    }
    for (int i = 0; i < (args->pair ? 2 : 1); i++) {
        matmul_args_weight(args, i, weights[i], format);
    }
    if (format->act_block != 0 && !is_planes(p->x_dtype)) {
        int64_t rows = moe_x_rows(p);
        status = launch_quantize(call, plan, args->x, p->x_dtype, rows, p->k, p->x_stride,
                                 format->act_block,
                                 planes_at(planes, rows, p->k, format->act_block), args);
    }
    return status != OPREG_OK ? status
                              : run_matmul(call->host, plan, shape, args, call->stream);
}

opreg_status gpu_moe_run(void *state, const void *problem, const opreg_call *call,
                     const matmul_shape *shape) {
    matmul_args args = {.x = call->bufs[OPREG_MOE_X].ptr,
                        .scales = call->bufs[OPREG_MOE_X_SCALES].ptr,
                        .sums = call->bufs[OPREG_MOE_X_SUMS].ptr,
                        .y = call->bufs[OPREG_MOE_Y].ptr};
    return run_stage(call, state, shape, problem, call->bufs[OPREG_MOE_ROUTE_BUF].ptr,
                     call->weights, 0, &args);
}

#define MOE_STAGE(name)                                                                            \
    opreg_status name##_supports(const opreg_device *dev, const void *problem, char reason[128]) { \
        (void)dev;                                                                                 \
        return moe_supports(problem, reason);                                                      \
    }                                                                                              \
    uint64_t name##_workspace(const opreg_device *dev, const void *problem) {                      \
        (void)dev;                                                                                 \
        return moe_workspace(problem);                                                             \
    }                                                                                              \
    opreg_status name##_run(void *state, const void *problem, const opreg_call *call) {            \
        const opreg_moe_matmul *p = problem;                                                       \
        matmul_shape shape = baseline_shape(p->b_dtype, p->layout);                                \
        return gpu_moe_run(state, problem, call, &shape);                                          \
    }
MOE_STAGE(base_moe_matmul)
MOE_STAGE(base_moe_glu)
MOE_STAGE(base_moe_down)

/* ---- route and combine --------------------------------------------------------------------------------- */

opreg_status base_route_supports(const opreg_device *dev, const void *problem, char reason[128]) {
    return base_quantize_supports(dev, problem, reason);
}

uint64_t base_route_workspace(const opreg_device *dev, const void *problem) {
    const opreg_moe_route *p = problem;
    (void)dev;
    return align256(((uint64_t)p->experts + 1u) * 3u * 4u);
}

opreg_status base_route_run(void *state, const void *problem, const opreg_call *call) {
    const opreg_moe_route *p = problem;
    const gpu_plan *plan = state;
    gpu_launch launch = {BASE_ROUTE, 1, 1, 1, BASELINE_ROUTE_THREADS, 0, 0};
    route_view view =
        route_view_of(call->bufs[OPREG_ROUTE_ROUTE].ptr, p->tokens, p->top_k, p->experts);
    route_args args = {.ids = call->bufs[OPREG_ROUTE_IDS].ptr,
                       .row_map = call->bufs[OPREG_ROUTE_ROW_MAP].ptr,
                       .weights = call->bufs[OPREG_ROUTE_WEIGHTS].ptr,
                       .scratch = call->workspace.ptr,
                       .ids_stride = p->ids_stride,
                       .weights_stride = p->weights_stride,
                       .cap_groups = view.cap_groups,
                       .cap_entries = view.cap_entries,
                       .pairs = p->form == OPREG_ROUTE_PAIRS,
                       .top_k = p->top_k,
                       .experts = p->experts};
    args.header = (opreg_route_header *)(uintptr_t)view.header;
    args.group_expert = (int32_t *)(uintptr_t)view.group_expert;
    args.group_start = (int32_t *)(uintptr_t)view.group_start;
    args.entry_token = (int32_t *)(uintptr_t)view.entry_token;
    args.entry_dst = (int32_t *)(uintptr_t)view.entry_dst;
    args.entry_weight = (float *)(uintptr_t)(view.entry_dst +
                                             ((view.cap_entries + 3u) & ~(uint32_t)3u));
    args.words = (uint32_t)((uintptr_t)args.entry_weight - (uintptr_t)args.header) / 4u +
                 ((view.cap_entries + 3u) & ~(uint32_t)3u);
    return gpu_run(call->host, plan->device, &launch, &args, call->stream);
}

static opreg_status run_combine(const opreg_host *host, const gpu_plan *plan,
                                const combine_args *args, void *stream) {
    gpu_launch launch = {BASE_COMBINE, 1, 1, 1, BASELINE_THREADS, 0, 0};
    if (args->tokens == 0 || args->n == 0) {
        return OPREG_OK;
    }
    launch.grid_x = blocks_of(args->n, BASELINE_THREADS);
    launch.grid_y = rows_of(args->tokens);
    return gpu_run(host, plan->device, &launch, args, stream);
}

opreg_status base_combine_supports(const opreg_device *dev, const void *problem,
                                   char reason[128]) {
    const opreg_moe_combine *p = problem;
    (void)dev;
    return gpu_sizes_fit(1, p->n, 1, reason);
}

uint64_t base_combine_workspace(const opreg_device *dev, const void *problem) {
    return base_quantize_workspace(dev, problem);
}

opreg_status base_combine_run(void *state, const void *problem, const opreg_call *call) {
    const opreg_moe_combine *p = problem;
    combine_args args = {.rows = call->bufs[OPREG_COMBINE_ROWS].ptr,
                         .weights = call->bufs[OPREG_COMBINE_WEIGHTS].ptr,
                         .y = call->bufs[OPREG_COMBINE_Y].ptr,
                         .tokens = p->tokens,
                         .n = p->n,
                         .x_stride = p->x_stride,
                         .y_stride = p->y_stride,
                         .weights_stride = p->weights_stride,
                         .x_dtype = p->x_dtype,
                         .y_dtype = p->y_dtype,
                         .top_k = p->top_k};
    return run_combine(call->host, state, &args, call->stream);
}

/* ---- moe_ffn: the composition of its stages ------------------------------------------------------------- */

typedef struct ffn_offsets {
    uint64_t x, h, h_planes, rows, end;
} ffn_offsets;

static ffn_offsets ffn_layout(const opreg_moe_ffn *p) {
    ffn_offsets at;
    int64_t entries = p->tokens * p->top_k;
    at.x = 0;
    at.h = at.x + planes_bytes(p->b_dtype, p->x_dtype, p->tokens, p->hidden);
    at.h_planes = align256(at.h + (uint64_t)(entries * p->inter) * 4u);
    at.rows = at.h_planes + planes_bytes(p->down_dtype, OPREG_F32, entries, p->inter);
    at.end = align256(at.rows + (uint64_t)(entries * p->hidden) * 4u);
    return at;
}

opreg_status base_ffn_supports(const opreg_device *dev, const void *problem, char reason[128]) {
    const opreg_moe_ffn *p = problem;
    opreg_status status = check_format(p->b_dtype, reason);
    (void)dev;
    if (status == OPREG_OK) {
        status = check_format(p->down_dtype, reason);
    }
    if (status == OPREG_OK) {
        status = gpu_sizes_fit(p->experts, p->inter, p->hidden, reason);
    }
    if (status == OPREG_OK) {
        status = gpu_sizes_fit(p->experts, p->hidden, p->inter, reason);
    }
    if (status == OPREG_OK) {
        status = check_layout(p->layout, reason);
    }
    return status != OPREG_OK ? status : check_layout(p->down_layout, reason);
}

ffn_stages ffn_stages_of(const opreg_moe_ffn *p) {
    ffn_stages s = {.glu = {.struct_size = sizeof s.glu,
                            .x_dtype = p->x_dtype,
                            .b_dtype = p->b_dtype,
                            .b_dialect = p->b_dialect,
                            .y_dtype = OPREG_F32,
                            .glu = p->glu,
                            .tokens = p->tokens,
                            .n = p->inter,
                            .k = p->hidden,
                            .experts = p->experts,
                            .top_k = p->top_k,
                            .x_stride = p->x_stride,
                            .y_stride = p->inter,
                            .x_rows = OPREG_X_BY_TOKEN,
                            .layout = p->layout,
                            .glu_alpha = p->glu_alpha,
                            .glu_limit = p->glu_limit}};
    s.down = s.glu;
    s.down.x_dtype = OPREG_F32;
    s.down.b_dtype = p->down_dtype;
    s.down.b_dialect = p->down_dialect;
    s.down.glu = OPREG_GLU_NONE;
    s.down.n = p->hidden;
    s.down.k = p->inter;
    s.down.x_stride = p->inter;
    s.down.y_stride = p->hidden;
    s.down.x_rows = OPREG_X_BY_DST;
    s.down.layout = p->down_layout;
    return s;
}

uint64_t base_ffn_workspace(const opreg_device *dev, const void *problem) {
    (void)dev;
    return ffn_layout(problem).end;
}

opreg_status base_ffn_run(void *state, const void *problem, const opreg_call *call) {
    const opreg_moe_ffn *p = problem;
    const gpu_plan *plan = state;
    ffn_offsets at = ffn_layout(p);
    matmul_shape glu_shape = baseline_shape(p->b_dtype, p->layout);
    matmul_shape down_shape = baseline_shape(p->down_dtype, p->down_layout);
    uint8_t *workspace = call->workspace.ptr;
    void *route = call->bufs[OPREG_FFN_ROUTE].ptr;
    float *h = (float *)(void *)(workspace + at.h);
    float *rows = (float *)(void *)(workspace + at.rows);
    ffn_stages stages = ffn_stages_of(p);
    matmul_args glu_args = {.x = call->bufs[OPREG_FFN_X].ptr, .y = h};
    matmul_args down_args = {.x = h, .y = rows};
    combine_args combine = {.rows = rows,
                            .weights = call->bufs[OPREG_FFN_WEIGHTS].ptr,
                            .y = call->bufs[OPREG_FFN_Y].ptr,
                            .tokens = p->tokens,
                            .n = p->hidden,
                            .x_stride = p->hidden,
                            .y_stride = p->y_stride,
                            .weights_stride = p->weights_stride,
                            .x_dtype = OPREG_F32,
                            .y_dtype = p->y_dtype,
                            .top_k = p->top_k};
    opreg_status status;
    /* a route that is not moe_route's may leave rows out: they count as zero */
    status = gpu_fill(call->host, plan->device, h, 0, (at.h_planes - at.h), call->stream);
    if (status == OPREG_OK) {
        status = gpu_fill(call->host, plan->device, rows, 0, at.end - at.rows, call->stream);
    }
    if (status != OPREG_OK) {
        return status;
    }
    status = run_stage(call, state, &glu_shape, &stages.glu, route, call->weights, at.x, &glu_args);
    if (status == OPREG_OK) {
        status = run_stage(call, state, &down_shape, &stages.down, route, call->weights + 2,
                           at.h_planes, &down_args);
    }
    return status != OPREG_OK ? status : run_combine(call->host, state, &combine, call->stream);
}

/* ---- attention ------------------------------------------------------------------------------------------- */

static uint32_t tree_levels(int32_t max_seq_len) {
    uint32_t levels = 1;
    for (int64_t segments = ((int64_t)max_seq_len + 255) / 256; segments > 1; segments >>= 1) {
        levels++;
    }
    return levels;
}

opreg_status base_attention_supports(const opreg_device *dev, const void *problem,
                                     char reason[128]) {
    const opreg_paged_attn_decode *p = problem;
    (void)dev;
    if (tree_levels(p->max_seq_len) > 15u) {
        snprintf(reason, 128, "max_seq_len %d is above %d", p->max_seq_len, 256 << 14);
        return OPREG_E_UNSUPPORTED;
    }
    return OPREG_OK;
}

uint64_t base_attention_workspace(const opreg_device *dev, const void *problem) {
    return base_quantize_workspace(dev, problem);
}

opreg_status base_attention_run(void *state, const void *problem, const opreg_call *call) {
    const opreg_paged_attn_decode *p = problem;
    const gpu_plan *plan = state;
    gpu_launch launch = {BASE_ATTENTION, 1, 1, 1, BASELINE_ATTENTION_THREADS, 0, 0};
    attention_args args;
    if (p->tokens == 0) {
        return OPREG_OK;
    }
    attention_args_fill(&args, p, call);
    args.levels = tree_levels(p->max_seq_len);
    launch.grid_x = (uint32_t)p->q_heads;
    launch.grid_y = rows_of(p->tokens);
    launch.shared = (8u + args.levels) * 516u * 4u;
    return gpu_run(call->host, plan->device, &launch, &args, call->stream);
}

void attention_args_fill(attention_args *args, const opreg_paged_attn_decode *p,
                         const opreg_call *call) {
    attention_args filled = {.q = call->bufs[OPREG_ATTN_Q].ptr,
                             .k = call->bufs[OPREG_ATTN_K].ptr,
                             .v = call->bufs[OPREG_ATTN_V].ptr,
                             .table = call->bufs[OPREG_ATTN_TABLE].ptr,
                             .lens = call->bufs[OPREG_ATTN_LENS].ptr,
                             .indptr = call->bufs[OPREG_ATTN_INDPTR].ptr,
                             .q_indptr = call->bufs[OPREG_ATTN_Q_INDPTR].ptr,
                             .sinks = call->bufs[OPREG_ATTN_SINKS].ptr,
                             .k_scale = call->bufs[OPREG_ATTN_K_SCALE].ptr,
                             .v_scale = call->bufs[OPREG_ATTN_V_SCALE].ptr,
                             .out = call->bufs[OPREG_ATTN_OUT].ptr,
                             .lse = call->bufs[OPREG_ATTN_LSE].ptr,
                             .q_stride = p->q_stride,
                             .out_stride = p->out_stride,
                             .k_block_stride = p->k_block_stride,
                             .k_slot_stride = p->k_slot_stride,
                             .k_head_stride = p->k_head_stride,
                             .v_block_stride = p->v_block_stride,
                             .v_slot_stride = p->v_slot_stride,
                             .v_head_stride = p->v_head_stride,
                             .q_dtype = p->q_dtype,
                             .out_dtype = p->out_dtype,
                             .kv_dtype = p->kv_dtype,
                             .seqs = p->seqs,
                             .tokens = p->tokens,
                             .max_q = p->max_q,
                             .q_heads = p->q_heads,
                             .kv_heads = p->kv_heads,
                             .head_dim = p->head_dim,
                             .block_size = p->block_size,
                             .num_blocks = p->num_blocks,
                             .table_stride = p->table_stride,
                             .max_seq_len = p->max_seq_len,
                             .window = p->window,
                             .scale = p->scale,
                             .softcap = p->softcap};
    *args = filled;
}
