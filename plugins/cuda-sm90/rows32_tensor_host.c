/* SPDX-License-Identifier: MIT
 * rows32_tensor_host.c - launches of rows32_team, rows32_wide and of tiles, which read x as records; the
 * variants rows32_tiled and rows32_tiled_int. */
#include "kernels.h"
#include "records_args.h"
#include "rows32_dealt_args.h"
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

/* Groups of a row that one block of a cluster has, at the most. */
static uint32_t dealt_groups(const rows32_format *f, int64_t k) {
    return (uint32_t)(rows32_groups(f, k) + DEALT_PARTS - 1) / DEALT_PARTS;
}

static uint32_t dealt_column_bytes(const rows32_format *f, int64_t k) {
    uint32_t bytes = dealt_groups(f, k) * record_bytes(f);
    return bytes / 16u % 2u ? bytes : bytes + 16u;
}

static uint32_t dealt_table_bytes(const rows32_format *f) {
    return f->id == OPREG_IQ2_XXS ? DEALT_TABLE_IQ2_XXS
           : f->id == OPREG_IQ3_S ? DEALT_TABLE_IQ3_S
                                  : (uint32_t)f->table_words * 4u;
}

/* What a block of so many teams shares; 0 where it does not fit. */
static uint32_t dealt_teams(const rows32_format *f, uint32_t weights, uint32_t teams,
                            dealt_args *args) {
    uint32_t parts = weights * teams * (uint32_t)DEALT_PART_BYTES(f->unit), left;
    uint32_t sums = teams * args->waves * (uint32_t)DEALT_SUM_BYTES(f->unit);
    uint32_t slot = teams * group_bytes(f);
    uint32_t fixed = 8u * args->apart + parts + dealt_table_bytes(f) + sums;
    uint32_t step = args->waves % 2u == 0u ? args->waves / 2u : args->waves;
    if (fixed + args->waves * slot > ROWS32_TENSOR_SHARED) {
        return 0;
    }
    /* two slots a wave, then two buffers of sums, then what slots there is room for */
    left = ROWS32_TENSOR_SHARED - fixed;
    args->teams = teams;
    args->slots = left / slot / step * step;
    args->slots = args->slots < 2u * args->waves ? args->slots : 2u * args->waves;
    args->buffers = left >= sums + args->slots * slot ? 2u : 1u;
    left = (left - (args->buffers - 1u) * sums) / slot;
    left = left < DEALT_SLOTS / teams ? left : DEALT_SLOTS / teams;
    args->slots = left / step * step;
    args->shift = args->slots % args->waves;
    args->sums = 8u * args->apart + args->slots * slot;
    args->parts = args->sums + args->buffers * sums;
    args->tables = args->parts + parts;
    return args->tables + dealt_table_bytes(f);
}

/* Everything of a call but its pointers; 0 where it does not fit.  One team less where otherwise no
 * weights are on their way while others are used, if they are then. */
static uint32_t dealt_shape(const rows32_format *f, int64_t k, uint32_t weights, dealt_args *args) {
    uint32_t most = DEALT_LISTS(f->unit), groups = dealt_groups(f, k), shared;
    uint32_t waves = groups < most ? groups : most;
    uint32_t teams = DEALT_WORKERS / waves < DEALT_FINISHERS ? DEALT_WORKERS / waves
                                                             : DEALT_FINISHERS;
    args->waves = waves;
    args->team_of = 65536u / waves + 1u;
    args->span = (groups + most - 1u) / most * most;
    args->groups = (uint32_t)rows32_groups(f, k);
    args->apart = dealt_column_bytes(f, k);
    shared = dealt_teams(f, weights, teams, args);
    if (teams > 1u && (shared == 0u || args->slots == waves)) {
        uint32_t fewer = dealt_teams(f, weights, teams - 1u, args);
        return shared == 0u || args->slots > waves ? fewer : dealt_teams(f, weights, teams, args);
    }
    return shared;
}

int rows32_deals(const rows32_format *f, int64_t n, int64_t k, uint32_t weights) {
    dealt_args args;
    int64_t tile = (int64_t)rows32_groups(f, k) * group_bytes(f);
    return rows32_dealt_symbol(f) != 0u && k > 0 && k < 1 << 20 &&
           (n + 31) / 32 <= (INT64_C(1) << 36) / tile - 1 &&
           dealt_shape(f, k, weights, &args) != 0u;
}

opreg_status rows32_dealt_run(const opreg_call *call, const gpu_plan *plan, const rows32_format *f,
                              const matmul_args *args) {
    uint32_t most = gpu_units(plan->device) / DEALT_PARTS, tiles = (uint32_t)((args->n + 31) / 32);
    dealt_args dealt = {.base = *args, .chained = plan->chained};
    gpu_launch l = {rows32_dealt_symbol(f), 1, 1, DEALT_PARTS, DEALT_THREADS, 0, plan->chained};
    l.shared = dealt_shape(f, args->k, args->pair ? 2u : 1u, &dealt);
    most = most != 0u ? most : 1u;
    l.grid_x = tiles < most ? tiles : most;
    dealt.more = tiles % l.grid_x;
    dealt.tiles_each = tiles / l.grid_x / dealt.teams;
    dealt.teams_more = tiles / l.grid_x % dealt.teams;
    dealt.tile_step = dealt.teams * l.grid_x * (uint32_t)(args->row_bytes * 32 / 16);
    dealt.column_bits = args->m > 4 ? 3u : args->m > 2 ? 2u : args->m > 1 ? 1u : 0u;
    return gpu_run_clusters(call->host, plan->device, &l, DEALT_PARTS, &dealt, call->stream);
}

opreg_status rows32_team_run(const opreg_call *call, const gpu_plan *plan, const rows32_format *f,
                             const matmul_args *args, int64_t rows, uint32_t groups) {
    uint32_t units = gpu_units(plan->device), tiles = (uint32_t)((args->n + 31) / 32), most, depth;
    opreg_status status;
    team_args team = {.base = *args,
                      .records = call->workspace.ptr,
                      .groups = (uint32_t)rows32_groups(f, args->k),
                      .apart = rows32_column_bytes(f, args->k),
                      .chained = 1};
    gpu_launch l = {f->team, 1, groups, 1, TEAM_THREADS, 0, 1};
    status = rows32_records_run(call, plan, f, args, rows, rows, 0);
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

static uint32_t stage_bytes(const rows32_format *f, uint32_t sets) {
    return TILED_ROWS / 32 * group_bytes(f) + sets * (TILED_COLUMNS / 8) * block_bytes(f);
}

/* Stages that fit beside `other` bytes; 0 where two do not. */
static uint32_t stages_that_fit(const rows32_format *f, uint32_t sets, uint32_t other,
                                uint32_t *shared) {
    uint32_t each = stage_bytes(f, sets), most;
    if (other > ROWS32_TENSOR_SHARED || ROWS32_TENSOR_SHARED - other < 2u * each) {
        return 0;
    }
    most = (ROWS32_TENSOR_SHARED - other) / each;
    most = most < TILED_STAGES ? most : TILED_STAGES;
    *shared = most * each + other;
    return most;
}

/* Everything of a call but its pointers; 0 where it does not fit. */
static int tiled_shape(const rows32_format *f, int64_t k, tiled_args *args, uint32_t *shared) {
    args->units = (uint32_t)(k / f->unit);
    args->levels = 0;
    while (args->levels < 5u && 1u << args->levels < args->units) {
        args->levels++;
    }
    args->kept = args->levels > 1u ? args->levels - 1u : 0u;
    if (args->units > TILED_MOST_UNITS) {
        return 0;
    }
    args->stages = stages_that_fit(
        f, 1, args->kept * TILED_KEPT_BYTES + (uint32_t)f->table_words * 4u + args->units * 4u,
        shared);
    return args->stages != 0;
}

/* What both variants ask of a call. */
static opreg_status tiles_support(const opreg_matmul_bt_quant *p, char reason[128]) {
    const rows32_format *f = rows32_format_find(p->b_dtype);
    if (f == NULL) {
        snprintf(reason, 128, "weight format %u has no kernel over rows32", p->b_dtype);
    } else if (p->layout != OPREG_LAYOUT_ANY && p->layout != PREPARED_ROWS32) {
        snprintf(reason, 128, "weight layout %u is not rows32, %u", p->layout, PREPARED_ROWS32);
    } else if (p->k <= 0 || p->k % gpu_format_find(f->id)->values != 0 || p->k > 1 << 30) {
        snprintf(reason, 128, "k %lld is not a multiple of %d", (long long)p->k,
                 gpu_format_find(f->id)->values);
    } else if (p->n > (int64_t)TILED_ROWS * 65535) {
        snprintf(reason, 128, "n %lld is more than a grid can hold", (long long)p->n);
    } else {
        return gpu_sizes_fit(1, p->n, p->k, reason);
    }
    return OPREG_E_UNSUPPORTED;
}

opreg_status rows32_tiled_supports(const opreg_device *dev, const void *problem,
                                   char reason[128]) {
    const opreg_matmul_bt_quant *p = problem;
    const rows32_format *f = rows32_format_find(p->b_dtype);
    tiled_args args;
    uint32_t shared;
    (void)dev;
    if (f != NULL && f->unit != 256u) {
        snprintf(reason, 128, "weight format %u has no units of 256", p->b_dtype);
        return OPREG_E_UNSUPPORTED;
    }
    if (f != NULL && p->k > 0 && p->k <= 1 << 30 && !tiled_shape(f, p->k, &args, &shared)) {
        snprintf(reason, 128, "k %lld: partial sums do not fit in shared memory", (long long)p->k);
        return OPREG_E_UNSUPPORTED;
    }
    return tiles_support(p, reason);
}

/* x as blocks and, where there are two weights, the sums of the first. */
static uint64_t tiles_workspace(const opreg_matmul_bt_quant *p, int64_t columns) {
    const rows32_format *f = rows32_format_find(p->b_dtype);
    uint64_t bytes = rows32_blocks_bytes(f, p->m, p->k);
    if (p->glu != OPREG_GLU_NONE) {
        bytes += (uint64_t)((p->m + columns - 1) / columns * columns *
                            ((p->n + TILED_ROWS - 1) / TILED_ROWS)) *
                 TILED_ROWS * 4u;
    }
    return bytes;
}

uint64_t rows32_tiled_workspace(const opreg_device *dev, const void *problem) {
    (void)dev;
    return tiles_workspace(problem, TILED_COLUMNS);
}

/* x, then the tiles of a call whose arguments have all but pointers. */
static opreg_status launch_tiles(const opreg_call *call, const gpu_plan *plan,
                                 const rows32_format *f, const opreg_matmul_bt_quant *p,
                                 tiled_args *args, gpu_launch *l, int64_t columns) {
    opreg_status status;
    rows32_dense_args(p, call, &args->base);
    args->records = call->workspace.ptr;
    args->chained = 1;
    args->gates = (void *)((uint8_t *)call->workspace.ptr + rows32_blocks_bytes(f, p->m, p->k));
    l->block = TILED_THREADS;
    l->chained = 1;
    l->grid_x = (uint32_t)((p->m + columns - 1) / columns);
    l->grid_y = (uint32_t)((p->n + TILED_ROWS - 1) / TILED_ROWS);
    status = rows32_records_run(call, plan, f, &args->base, p->m, whole_sets(p->m), 1);
    return status != OPREG_OK
               ? status
               : gpu_run_clusters(call->host, plan->device, l, l->grid_z, args, call->stream);
}

opreg_status rows32_tiled_run(void *state, const void *problem, const opreg_call *call) {
    const opreg_matmul_bt_quant *p = problem;
    const rows32_format *f = rows32_format_find(p->b_dtype);
    tiled_args args = {.reserved = 0};
    gpu_launch l = {.symbol = f->more + ROWS32_TILED, .grid_z = 1};
    tiled_shape(f, p->k, &args, &l.shared);
    return launch_tiles(call, state, f, p, &args, &l, TILED_COLUMNS);
}

/* ---- 128 rows by 64 or 128 columns, in any order ---------------------------------------------------- */

opreg_status rows32_tiled_int_supports(const opreg_device *dev, const void *problem,
                                       char reason[128]) {
    (void)dev;
    return tiles_support(problem, reason);
}

uint64_t rows32_tiled_int_workspace(const opreg_device *dev, const void *problem) {
    (void)dev;
    return tiles_workspace(problem, 2 * TILED_COLUMNS);
}

/* Nanoseconds by the rows of bench/baselines/h200.tsv: of a group for a tile of 64 and of 128 columns and
 * for one of rows32_wide; of a round of blocks; of a cluster. */
enum int_cost { INT_ROUND = 1000, INT_CLUSTER = 3500 };
typedef struct int_costs {
    int64_t columns64, columns128, wide;
} int_costs;
static const int_costs costs256 = {1440, 2750, 356}, costs32 = {1140, 2170, 231};

/* Blocks run in rounds, one a multiprocessor. */
rows32_cut rows32_int_cut(const rows32_format *f, const opreg_matmul_bt_quant *p, uint32_t units) {
    const int_costs *costs = f->unit == 256u ? &costs256 : &costs32;
    rows32_cut best = {0, 1};
    int64_t groups = rows32_groups(f, p->k);
    int64_t least = wide_tiles(p->n, p->m, units) * groups * costs->wide + INT_ROUND;
    int64_t most = p->glu != OPREG_GLU_NONE || groups < 2 ? 1 : 2;
    for (uint32_t sets = 1; sets <= 2u; sets++) {
        for (int64_t parts = 1; parts <= most; parts++) {
            int64_t columns = (int64_t)sets * TILED_COLUMNS;
            int64_t blocks = (p->n + TILED_ROWS - 1) / TILED_ROWS *
                             ((p->m + columns - 1) / columns) * parts;
            int64_t each = (groups + parts - 1) / parts *
                           (sets == 1u ? costs->columns64 : costs->columns128);
            int64_t cost = (blocks + units - 1) / units * (each + INT_ROUND) +
                           (parts > 1 ? INT_CLUSTER : 0);
            if (cost < least) {
                least = cost;
                best = (rows32_cut){sets, (uint32_t)parts};
            }
        }
    }
    return best;
}

opreg_status rows32_tiled_int_run(void *state, const void *problem, const opreg_call *call) {
    const opreg_matmul_bt_quant *p = problem;
    const gpu_plan *plan = state;
    const rows32_format *f = rows32_format_find(p->b_dtype);
    rows32_cut cut = rows32_int_cut(f, p, gpu_units(plan->device));
    tiled_args args = {.units = (uint32_t)rows32_groups(f, p->k)};
    gpu_launch l = {.symbol = f->more + (cut.sets == 2u ? ROWS32_INT128 : ROWS32_INT64),
                    .grid_z = cut.parts};
    if (cut.sets == 0) {
        rows32_dense_args(p, call, &args.base);
        return rows32_wide_run(call, plan, f, &args.base, p->m);
    }
    args.stages = stages_that_fit(f, cut.sets, (uint32_t)f->table_words * 4u, &l.shared);
    return launch_tiles(call, plan, f, p, &args, &l, (int64_t)cut.sets * TILED_COLUMNS);
}
