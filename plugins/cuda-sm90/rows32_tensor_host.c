/* SPDX-License-Identifier: MIT
 * rows32_tensor_host.c - launches of rows32_team, rows32_wide and rows32_tiled, which read x as records;
 * the variant rows32_tiled. */
#include "kernels.h"
#include "records_args.h"
#include "rows32_host.h"
#include "rows32_team_args.h"
#include "rows32_tiled_args.h"
#include "rows32_wide_args.h"

#include <stdio.h>

/* ---- records --------------------------------------------------------------------------------------- */

static uint32_t record_bytes(const rows32_format *f) {
    return f->unit == 256u ? RECORD256_BYTES : RECORD32_BYTES;
}

uint64_t rows32_records_bytes(const rows32_format *f, int64_t rows, int64_t k) {
    return (uint64_t)(rows * rows32_groups(f, k)) * record_bytes(f);
}

/* The kernel that reads them may start meanwhile: it is chained to this launch, whatever the plan says,
 * and this one to the launch ahead where the plan says so. */
opreg_status rows32_records_run(const opreg_call *call, const gpu_plan *plan,
                                const rows32_format *f, const matmul_args *x, int64_t rows,
                                int64_t padded, uint32_t blocks) {
    records_args args = {.x = x->x,
                         .scales = x->scales,
                         .sums = x->sums,
                         .records = call->workspace.ptr,
                         .m = rows,
                         .padded = padded,
                         .k = x->k,
                         .x_stride = x->x_stride,
                         .x_dtype = x->x_dtype,
                         .unit = f->unit,
                         .blocks = blocks};
    int64_t runs = (rows32_groups(f, x->k) * f->values + 255) / 256, each = RECORDS_THREADS / 32;
    gpu_launch l = {SM90_RECORDS,    (uint32_t)((runs + each - 1) / each), 1, 1,
                    RECORDS_THREADS, 0,                                    plan->chained};
    l.grid_y = (uint32_t)(padded < 65535 ? padded : 65535);
    return gpu_run(call->host, plan->device, &l, &args, call->stream);
}

/* Rows of records as blocks: whole sets of columns. */
static int64_t whole_sets(int64_t m) {
    return (m + TILED_COLUMNS - 1) / TILED_COLUMNS * TILED_COLUMNS;
}

static uint32_t block_bytes(const rows32_format *f) {
    return f->unit == 256u ? BLOCK256_BYTES : BLOCK32_BYTES;
}

uint64_t rows32_blocks_bytes(const rows32_format *f, int64_t m, int64_t k) {
    return (uint64_t)(whole_sets(m) / 8 * rows32_groups(f, k)) * block_bytes(f);
}

/* ---- up to eight columns --------------------------------------------------------------------------- */

uint32_t rows32_column_bytes(const rows32_format *f, int64_t k) {
    uint32_t bytes = (uint32_t)rows32_groups(f, k) * record_bytes(f);
    return bytes / 16u % 2u ? bytes : bytes + 16u;
}

static uint32_t group_bytes(const rows32_format *f) {
    return 32u * (uint32_t)(f->values / gpu_format_find(f->id)->values) *
           (uint32_t)gpu_format_find(f->id)->bytes;
}

static uint32_t team_shared(const rows32_format *f, int64_t k, uint32_t depth) {
    return 8u * rows32_column_bytes(f, k) + TEAMS * TEAM_WAVES * depth * group_bytes(f) +
           TEAMS * TEAM_SUMS_BYTES;
}

int rows32_team_fits(const rows32_format *f, int64_t k) {
    return k > 0 && k < 1 << 20 && team_shared(f, k, 1) <= ROWS32_TENSOR_SHARED;
}

opreg_status rows32_team_run(const opreg_call *call, const gpu_plan *plan, const rows32_format *f,
                             const matmul_args *args, int64_t rows, uint32_t groups) {
    uint32_t units = gpu_units(plan->device), tiles = (uint32_t)((args->n + 31) / 32), most, depth;
    team_args team = {.base = *args,
                      .records = call->workspace.ptr,
                      .groups = (uint32_t)rows32_groups(f, args->k),
                      .apart = rows32_column_bytes(f, args->k),
                      .chained = 1};
    gpu_launch l = {f->team, 1, groups, 1, TEAM_THREADS, 0, 1};
    opreg_status status = rows32_records_run(call, plan, f, args, rows, rows, 0);
    for (depth = TEAM_DEPTH; team_shared(f, args->k, depth) > ROWS32_TENSOR_SHARED; depth--) {
    }
    team.depth = depth;
    l.shared = team_shared(f, args->k, depth);
    if (groups == 0) {
        l.grid_y = (uint32_t)((rows + 7) / 8);
        most = units;
    } else { /* a block brings its group's x once, for several tiles */
        most = (8u * units + groups - 1u) / groups;
        most = most < (tiles + 1u) / 2u ? most : (tiles + 1u) / 2u;
    }
    l.grid_x = tiles < most ? tiles : most;
    return status != OPREG_OK ? status
                              : gpu_run(call->host, plan->device, &l, &team, call->stream);
}

/* ---- 16 and 32 columns ----------------------------------------------------------------------------- */

static uint32_t wide_columns(int64_t rows) { return rows <= 16 ? 16u : 32u; }

/* Tiles that a block takes one after another, one block a multiprocessor. */
static int64_t wide_tiles(int64_t n, int64_t rows, uint32_t units) {
    int64_t sets = (rows + wide_columns(rows) - 1) / wide_columns(rows), tiles = (n + 31) / 32;
    return (tiles * sets + units - 1) / units;
}

int rows32_wide_wins(int64_t n, int64_t rows, uint32_t units) {
    int64_t blocks = (n + TILED_ROWS - 1) / TILED_ROWS * (whole_sets(rows) / TILED_COLUMNS);
    int64_t rounds = (blocks + units - 1) / units;
    return wide_tiles(n, rows, units) <= 6 * rounds;
}

opreg_status rows32_wide_run(const opreg_call *call, const gpu_plan *plan, const rows32_format *f,
                             const matmul_args *args, int64_t rows) {
    uint32_t columns = wide_columns(rows), nt = columns / 8u;
    uint32_t stage = group_bytes(f) + nt * block_bytes(f);
    uint32_t rest = WIDE_SUMS_BYTES(nt) + (uint32_t)f->table_words * 4u;
    int64_t sets = (rows + columns - 1) / columns, tiles = (args->n + 31) / 32;
    int64_t each = wide_tiles(args->n, rows, gpu_units(plan->device));
    wide_args wide = {.base = *args,
                      .records = call->workspace.ptr,
                      .groups = (uint32_t)rows32_groups(f, args->k),
                      .depth = (ROWS32_TENSOR_SHARED - rest) / (WIDE_WAVES * stage),
                      .chained = 1};
    gpu_launch l = {f->more + (nt == 2u ? ROWS32_WIDE16 : ROWS32_WIDE32),
                    (uint32_t)((tiles + each - 1) / each),
                    (uint32_t)sets,
                    1,
                    WIDE_THREADS,
                    0,
                    1};
    opreg_status status =
        rows32_records_run(call, plan, f, args, rows, sets * columns, 1);
    wide.depth = wide.depth < WIDE_DEPTH ? wide.depth : WIDE_DEPTH;
    l.shared = wide.depth * WIDE_WAVES * stage + rest;
    return status != OPREG_OK ? status
                              : gpu_run(call->host, plan->device, &l, &wide, call->stream);
}

/* ---- tiles of 128 rows by 64 columns --------------------------------------------------------------- */

static uint32_t stage_bytes(const rows32_format *f) {
    return TILED_ROWS / 32 * group_bytes(f) + TILED_COLUMNS / 8 * block_bytes(f);
}

/* Everything of a call but its pointers; 0 where it does not fit. */
static int tiled_shape(const rows32_format *f, int64_t k, tiled_args *args, uint32_t *shared) {
    uint32_t other, most;
    args->units = (uint32_t)(k / f->unit);
    args->levels = 0;
    while (args->levels < 5u && 1u << args->levels < args->units) {
        args->levels++;
    }
    args->kept = args->levels > 1u ? args->levels - 1u : 0u;
    if (args->units > TILED_MOST_UNITS) {
        return 0;
    }
    other = args->kept * TILED_KEPT_BYTES + (uint32_t)f->table_words * 4u + args->units * 4u;
    if (other + 2u * stage_bytes(f) > ROWS32_TENSOR_SHARED) {
        return 0;
    }
    most = (ROWS32_TENSOR_SHARED - other) / stage_bytes(f);
    args->stages = most < TILED_STAGES ? most : TILED_STAGES;
    *shared = args->stages * stage_bytes(f) + other;
    return 1;
}

opreg_status rows32_tiled_supports(const opreg_device *dev, const void *problem,
                                   char reason[128]) {
    const opreg_matmul_bt_quant *p = problem;
    const rows32_format *f = rows32_format_find(p->b_dtype);
    tiled_args args;
    uint32_t shared;
    (void)dev;
    if (f == NULL || f->unit != 256u) {
        snprintf(reason, 128, "weight format %u has no units of 256 over rows32", p->b_dtype);
    } else if (p->layout != OPREG_LAYOUT_ANY && p->layout != PREPARED_ROWS32) {
        snprintf(reason, 128, "weight layout %u is not rows32, %u", p->layout, PREPARED_ROWS32);
    } else if (p->k <= 0 || p->k % f->values != 0 || p->k > 1 << 30) {
        snprintf(reason, 128, "k %lld is not a multiple of %d", (long long)p->k, f->values);
    } else if (p->n > (int64_t)TILED_ROWS * 65535) {
        snprintf(reason, 128, "n %lld is more than a grid can hold", (long long)p->n);
    } else if (!tiled_shape(f, p->k, &args, &shared)) {
        snprintf(reason, 128, "k %lld: partial sums do not fit in shared memory", (long long)p->k);
    } else {
        return gpu_sizes_fit(1, p->n, p->k, reason);
    }
    return OPREG_E_UNSUPPORTED;
}

uint64_t rows32_tiled_workspace(const opreg_device *dev, const void *problem) {
    const opreg_matmul_bt_quant *p = problem;
    const rows32_format *f = rows32_format_find(p->b_dtype);
    uint64_t bytes = rows32_blocks_bytes(f, p->m, p->k);
    (void)dev;
    if (p->glu != OPREG_GLU_NONE) {
        bytes += (uint64_t)(whole_sets(p->m) * ((p->n + TILED_ROWS - 1) / TILED_ROWS)) *
                 TILED_ROWS * 4u;
    }
    return bytes;
}

opreg_status rows32_tiled_run(void *state, const void *problem, const opreg_call *call) {
    const opreg_matmul_bt_quant *p = problem;
    const gpu_plan *plan = state;
    const rows32_format *f = rows32_format_find(p->b_dtype);
    tiled_args args = {.records = call->workspace.ptr, .chained = 1};
    gpu_launch l = {f->more + ROWS32_TILED, 1, 1, 1, TILED_THREADS, 0, 1};
    opreg_status status;
    rows32_dense_args(p, call, &args.base);
    tiled_shape(f, p->k, &args, &l.shared);
    args.gates = (void *)((uint8_t *)call->workspace.ptr + rows32_blocks_bytes(f, p->m, p->k));
    l.grid_x = (uint32_t)((p->m + TILED_COLUMNS - 1) / TILED_COLUMNS);
    l.grid_y = (uint32_t)((p->n + TILED_ROWS - 1) / TILED_ROWS);
    status = rows32_records_run(call, plan, f, &args.base, p->m, whole_sets(p->m), 1);
    return status != OPREG_OK ? status
                              : gpu_run(call->host, plan->device, &l, &args, call->stream);
}
