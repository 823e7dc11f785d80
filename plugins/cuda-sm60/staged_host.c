/* SPDX-License-Identifier: MIT
 * staged_host.c - host side of the staged kernels: what they take, tile sizes, launches. */
#include "kernels.h"
#include "program.h"
#include "slot4.h"
#include "staged_args.h"

#include <stdio.h>
#include <string.h>

/* ---- formats
 * ------------------------------------------------------------------------------------- */

#define STAGED_LAYOUT_STORED OPREG_LAYOUT_STORED
#define STAGED_LAYOUT_SLOT4  PREPARED_SLOT4

typedef struct staged_format {
    uint32_t id, symbol, layout, pairs, unit, words, table_bytes;
} staged_format;

#define STAGED_FORMAT(NAME, name, layout, pairs, unit, words, table_bytes)                         \
    {OPREG_##NAME, SM60_STAGED_##name, STAGED_LAYOUT_##layout, pairs, unit, words, table_bytes},
static const staged_format formats[] = {
#include "staged_list.inc"
};
#undef STAGED_FORMAT

const uint32_t down_ws_formats[] = {OPREG_IQ4_NL, OPREG_Q2_0, 0};
const uint32_t glu_ws_formats[] = {OPREG_IQ3_S, OPREG_IQ2_S, OPREG_IQ3_XXS, OPREG_Q4_K, 0};
const uint32_t gemv_ws_formats[] = {OPREG_Q4_K, OPREG_Q6_K, OPREG_Q8_0, OPREG_IQ4_NL, 0};

/* The kernel for a format that the variant lists; null where there is none. */
static const staged_format *find_format(const uint32_t *list, uint32_t id, uint32_t layout,
                                        uint32_t matrices) {
    while (*list != 0 && *list != id) {
        list++;
    }
    for (size_t i = 0; *list != 0 && i < sizeof formats / sizeof formats[0]; i++) {
        const staged_format *f = &formats[i];
        if (f->id == id && f->layout == layout &&
            (f->pairs == 1 || f->pairs == 2u * (matrices - 1u))) {
            return f;
        }
    }
    return NULL;
}

/* ---- tiles
 * ----------------------------------------------------------------------------------------- */

#define MOST_ROWS      (1 << 30)
#define MOST_TILE_ROWS 64u

/* Shared memory that lets four, three, two blocks or one lie on a multiprocessor of 64 KB, less
 * what the kernels have besides, and what so many are worth: fewer hide less of a load. */
#define STATIC_SHARED 32u
static const struct {
    uint32_t bytes, worth;
} budgets[] = {{16384u - STATIC_SHARED, 100},
               {21760u - STATIC_SHARED, 90},
               {32768u - STATIC_SHARED, 75},
               {49152u - STATIC_SHARED, 50}};

/* Rows that a tile computes in a time of 1000, about: a pass over its rows takes 100 and what a
 * tile costs besides 60 (README.md counts them). */
static uint32_t pace(uint32_t rows, uint32_t lanes) {
    return rows * 1000u / ((rows + lanes - 1u) / lanes * 100u + 60u);
}

/* Sizes of tiles for rows of k weights; 0 when no tile fits, else the bytes of shared memory. */
static uint32_t size_tiles(const staged_format *f, int64_t k, uint32_t matrices,
                           staged_args *args) {
    const gpu_format *format = gpu_format_find(f->id);
    uint32_t passes, fixed, row, step = 1, best = 0;
    uint64_t row_bytes;
    if (k < format->values || k > 1 << 20) {
        return 0;
    }
    row_bytes = f->layout == PREPARED_SLOT4
                    ? (uint64_t)(k / SLOT4_VALUES) * SLOT4_BYTES
                    : (uint64_t)(k / format->values) * (uint64_t)format->bytes;
    args->parts = (uint32_t)(k / 32);
    passes = (args->parts + STAGED_THREADS - 1u) / STAGED_THREADS;
    args->width = (args->parts + passes - 1u) / passes;
    args->lanes = STAGED_THREADS / args->width;
    args->result_stride = args->parts | 1u;
    args->matrices = matrices;
    while (step * row_bytes % 16u != 0) {
        step *= 2u;
    }
    fixed = f->table_bytes + args->parts * f->words * 4u;
    row = matrices * (uint32_t)(row_bytes + args->result_stride * 4u);
    for (size_t i = 0; i < sizeof budgets / sizeof budgets[0]; i++) {
        uint32_t most = budgets[i].bytes > fixed ? (budgets[i].bytes - fixed) / row : 0;
        most = most < MOST_TILE_ROWS ? most : MOST_TILE_ROWS;
        for (uint32_t rows = step; rows <= most; rows += step) {
            uint32_t worth = pace(rows * matrices, args->lanes) * budgets[i].worth;
            if (worth > best) {
                best = worth;
                args->rows = rows;
            }
        }
    }
    args->matrix_bytes = best != 0 ? args->rows * (uint32_t)row_bytes : 0;
    return best != 0 ? fixed + args->rows * row : 0;
}

static opreg_status supports(const uint32_t *list, uint32_t format, uint32_t reads, uint32_t layout,
                             int64_t n, int64_t k, uint32_t matrices, char reason[128]) {
    const staged_format *f = find_format(list, format, reads, matrices);
    staged_args args;
    if (n > MOST_ROWS) {
        snprintf(reason, 128, "n %lld is above %d", (long long)n, MOST_ROWS);
        return OPREG_E_UNSUPPORTED;
    }
    if (f == NULL) {
        snprintf(reason, 128, "weight format %u has no staged kernel for this operator", format);
        return OPREG_E_UNSUPPORTED;
    }
    if (layout != reads && layout != OPREG_LAYOUT_ANY) {
        snprintf(reason, 128, "weight layout %u is not %u", layout, reads);
        return OPREG_E_UNSUPPORTED;
    }
    if (size_tiles(f, k, matrices, &args) == 0) {
        snprintf(reason, 128, "k %lld: no tile of its rows fits in 48 KB of shared memory",
                 (long long)k);
        return OPREG_E_UNSUPPORTED;
    }
    return OPREG_OK;
}

static int is_planes(uint32_t dtype) {
    return dtype == OPREG_Q8_0 || dtype == OPREG_Q8_K;
}

static uint64_t workspace(uint32_t format, uint32_t x_dtype, int64_t rows, int64_t k) {
    return is_planes(x_dtype) ? 0 : planes_at(0, rows, k, gpu_format_find(format)->act_block).end;
}

/* What a thread and a block add to come to their next row and tile. */
static void set_steps(staged_args *args, uint32_t grid) {
    args->row_step = args->lanes * (uint32_t)args->base.row_bytes;
    args->result_step = args->lanes * args->result_stride;
    args->full_tiles = (uint32_t)args->base.n / args->rows;
    args->grid_bytes = grid * args->matrix_bytes;
    if (args->matrices == 1 && args->matrix_bytes <= 16u * STAGED_LOADS * STAGED_THREADS) {
        args->pieces = args->matrix_bytes / 16u;
    }
}

/* Quantizes x where it is not, then multiplies.  groups: blocks of the grid's second axis. */
static opreg_status launch(const opreg_call *call, const gpu_plan *plan, const staged_format *f,
                           staged_args *args, int64_t x_rows, uint32_t groups) {
    const gpu_format *format = gpu_format_find(f->id);
    gpu_launch l = {f->symbol, 1, groups, 1, STAGED_THREADS, 0, 0};
    opreg_status status = OPREG_OK;
    uint32_t resident = gpu_units(plan->device) * 4u, most;
    if (!is_planes(args->base.x_dtype)) {
        status = launch_quantize(
            call, plan, args->base.x, args->base.x_dtype, x_rows, args->base.k, args->base.x_stride,
            format->act_block, planes_at(0, x_rows, args->base.k, format->act_block), &args->base);
    }
    if (status != OPREG_OK) {
        return status;
    }
    l.shared = size_tiles(f, args->base.k, args->base.pair ? 2u : 1u, args);
    args->tiles = (uint32_t)((args->base.n + args->rows - 1) / args->rows);
    /* about as many blocks as lie on the device at once; each walks its tiles */
    most = (resident + groups - 1u) / groups;
    l.grid_x = args->tiles < most ? args->tiles : most;
    set_steps(args, l.grid_x);
    return gpu_run(call->host, plan->device, &l, args, call->stream);
}

/* ---- dense
 * ---------------------------------------------------------------------------------------- */

#define GEMV_WS_MOST_M 8

static uint32_t matrices_of(uint32_t glu) {
    return glu == OPREG_GLU_NONE ? 1u : 2u;
}

opreg_status gemv_ws_supports(const opreg_device *dev, const void *problem, char reason[128]) {
    const opreg_matmul_bt_quant *p = problem;
    (void)dev;
    if (p->m > GEMV_WS_MOST_M) {
        snprintf(reason, 128, "m %lld is above %d", (long long)p->m, GEMV_WS_MOST_M);
        return OPREG_E_UNSUPPORTED;
    }
    return supports(gemv_ws_formats, p->b_dtype, OPREG_LAYOUT_STORED, p->layout, p->n, p->k,
                    matrices_of(p->glu), reason);
}

uint64_t gemv_ws_workspace(const opreg_device *dev, const void *problem) {
    const opreg_matmul_bt_quant *p = problem;
    (void)dev;
    return workspace(p->b_dtype, p->x_dtype, p->m, p->k);
}

opreg_status gemv_ws_run(void *state, const void *problem, const opreg_call *call) {
    const opreg_matmul_bt_quant *p = problem;
    staged_args args = {.base = {.x = call->bufs[OPREG_MATMUL_X].ptr,
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
                                 .glu_limit = p->glu_limit}};
    if (p->m == 0 || p->n == 0) {
        return OPREG_OK;
    }
    for (uint32_t i = 0; i < matrices_of(p->glu); i++) {
        matmul_args_weight(&args.base, (int)i, call->weights[i], gpu_format_find(p->b_dtype));
    }
    return launch(
        call, state,
        find_format(gemv_ws_formats, p->b_dtype, OPREG_LAYOUT_STORED, matrices_of(p->glu)), &args,
        p->m, 1);
}

/* ---- grouped
 * ---------------------------------------------------------------------------------------- */

static int64_t x_rows_of(const opreg_moe_matmul *p) {
    return p->x_rows == OPREG_X_BY_TOKEN ? p->tokens : p->tokens * p->top_k;
}

#define MOST_GROUPS 65535

static opreg_status grouped_supports(const uint32_t *list, uint32_t reads,
                                     const opreg_moe_matmul *p, uint32_t matrices,
                                     char reason[128]) {
    int64_t entries = p->tokens * p->top_k, groups = entries < p->experts ? entries : p->experts;
    if (groups + 1 > MOST_GROUPS) {
        snprintf(reason, 128, "%lld groups, at most %d", (long long)groups + 1, MOST_GROUPS);
        return OPREG_E_UNSUPPORTED;
    }
    return supports(list, p->b_dtype, reads, p->layout, p->n, p->k, matrices, reason);
}

static uint64_t grouped_workspace(const opreg_moe_matmul *p) {
    return workspace(p->b_dtype, p->x_dtype, x_rows_of(p), p->k);
}

static opreg_status run_grouped(const uint32_t *list, uint32_t reads, void *state,
                                const opreg_moe_matmul *p, const opreg_call *call) {
    staged_args args = {.base = {.x = call->bufs[OPREG_MOE_X].ptr,
                                 .scales = call->bufs[OPREG_MOE_X_SCALES].ptr,
                                 .sums = call->bufs[OPREG_MOE_X_SUMS].ptr,
                                 .y = call->bufs[OPREG_MOE_Y].ptr,
                                 .n = p->n,
                                 .k = p->k,
                                 .x_stride = p->x_stride,
                                 .y_stride = p->y_stride,
                                 .x_dtype = p->x_dtype,
                                 .y_dtype = p->y_dtype,
                                 .pair = p->glu != OPREG_GLU_NONE,
                                 .glu = p->glu,
                                 .glu_alpha = p->glu_alpha,
                                 .glu_limit = p->glu_limit,
                                 .by_dst = p->x_rows == OPREG_X_BY_DST,
                                 .experts = p->experts,
                                 .tokens = (int32_t)p->tokens,
                                 .top_k = p->top_k}};
    if (p->tokens == 0 || p->n == 0) {
        return OPREG_OK;
    }
    args.base.route =
        route_view_of(call->bufs[OPREG_MOE_ROUTE_BUF].ptr, p->tokens, p->top_k, p->experts);
    for (uint32_t i = 0; i < call->num_weights && i < 2; i++) {
        matmul_args_weight(&args.base, (int)i, call->weights[i], gpu_format_find(p->b_dtype));
    }
    return launch(call, state, find_format(list, p->b_dtype, reads, matrices_of(p->glu)), &args,
                  x_rows_of(p), args.base.route.cap_groups);
}

#define STAGED_STAGE(name, formats, reads, matrices)                                               \
    opreg_status name##_supports(const opreg_device *dev, const void *problem, char reason[128]) { \
        (void)dev;                                                                                 \
        return grouped_supports(formats, reads, problem, matrices, reason);                        \
    }                                                                                              \
    uint64_t name##_workspace(const opreg_device *dev, const void *problem) {                      \
        (void)dev;                                                                                 \
        return grouped_workspace(problem);                                                         \
    }                                                                                              \
    opreg_status name##_run(void *state, const void *problem, const opreg_call *call) {            \
        return run_grouped(formats, reads, state, problem, call);                                  \
    }
STAGED_STAGE(down_ws, down_ws_formats, OPREG_LAYOUT_STORED, 1u)
STAGED_STAGE(glu_ws, glu_ws_formats, OPREG_LAYOUT_STORED, 2u)
STAGED_STAGE(glu_slot4, slot4_formats, PREPARED_SLOT4, 2u)
