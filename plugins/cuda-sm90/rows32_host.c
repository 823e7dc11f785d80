/* SPDX-License-Identifier: MIT
 * rows32_host.c - variants over the layout rows32: one column by dot products, more by integer tensor
 * cores; dense and grouped. */
#include "rows32_host.h"

#include "kernels.h"
#include "rows32_parts_host.h"
#include "rows32_short_args.h"

#include <stdio.h>

/* ---- formats ------------------------------------------------------------------------------------ */

#define ROWS32_UNIT32(NAME, name, image, values, min_sub, words, by)                               \
    ROWS32_START_##NAME,                                                                           \
        ROWS32_END_##NAME = ROWS32_START_##NAME + 1 + (ROWS32_SPREAD_WAVES_##name > 0) +            \
                            (ROWS32_STREAM_STAGES_##name > 0),
#define ROWS32_UNIT256(NAME, name, image, values, min_sub, words, by)                              \
    ROWS32_START_##NAME,                                                                           \
        ROWS32_END_##NAME = ROWS32_START_##NAME + 3 + (ROWS32_SPREAD_WAVES_##name > 0) +            \
                            (ROWS32_STREAM_STAGES_##name > 0),
enum rows32_order {
#include "rows32_list.inc"
    ROWS32_ORDER_END
};
#undef ROWS32_UNIT32
#undef ROWS32_UNIT256

#define ROWS32_UNIT32(NAME, name, image, values, min_sub, words, by)                               \
    ROWS32_MORE_##NAME, ROWS32_LAST_##NAME = ROWS32_MORE_##NAME + ROWS32_INT128,
#define ROWS32_UNIT256(NAME, name, image, values, min_sub, words, by)                              \
    ROWS32_MORE_##NAME, ROWS32_LAST_##NAME = ROWS32_MORE_##NAME + ROWS32_TILED,
#define ROWS32_TEAM_ROWS(NAME)
#define ROWS32_TEAM_WORDS(NAME) ROWS32_TEAM_##NAME,
enum rows32_more_order {
#include "rows32_list.inc"
#undef ROWS32_UNIT32
#undef ROWS32_UNIT256
#define ROWS32_UNIT32(NAME, name, image, values, min_sub, words, by)  ROWS32_TEAM_##by(NAME)
#define ROWS32_UNIT256(NAME, name, image, values, min_sub, words, by) ROWS32_TEAM_##by(NAME)
#include "rows32_list.inc"
#undef ROWS32_UNIT32
#undef ROWS32_UNIT256
#define ROWS32_DEALT(NAME, name) ROWS32_DEALT_##NAME,
#include "rows32_dealt_list.inc"
#undef ROWS32_DEALT
    ROWS32_MORE_END
};
#undef ROWS32_UNIT32
#undef ROWS32_UNIT256

#define ROWS32_TEAM_SYMBOL_ROWS(NAME)  0
#define ROWS32_TEAM_SYMBOL_WORDS(NAME) SM90_FIRST_MORE + ROWS32_TEAM_##NAME
#define ROWS32_FORMAT(NAME, unit, waves, stages, values, min_sub, words, by)                       \
    {OPREG_##NAME,                                                                                 \
     unit,                                                                                         \
     SM90_FIRST_ROWS32 + ROWS32_START_##NAME,                                                      \
     SM90_FIRST_MORE + ROWS32_MORE_##NAME,                                                         \
     ROWS32_TEAM_SYMBOL_##by(NAME),                                                                \
     values,                                                                                       \
     min_sub,                                                                                      \
     words,                                                                                        \
     waves,                                                                                        \
     stages},
#define ROWS32_UNIT32(NAME, name, image, values, min_sub, words, by)                               \
    ROWS32_FORMAT(NAME, 32, ROWS32_SPREAD_WAVES_##name, ROWS32_STREAM_STAGES_##name, values,       \
                  min_sub, words, by)
#define ROWS32_UNIT256(NAME, name, image, values, min_sub, words, by)                              \
    ROWS32_FORMAT(NAME, 256, ROWS32_SPREAD_WAVES_##name, ROWS32_STREAM_STAGES_##name, values,      \
                  min_sub, words, by)
static const rows32_format formats[] = {
#include "rows32_list.inc"
};
#undef ROWS32_UNIT32
#undef ROWS32_UNIT256

#define ROWS32_UNIT32(NAME, name, image, values, min_sub, words, by)  OPREG_##NAME,
#define ROWS32_UNIT256(NAME, name, image, values, min_sub, words, by) OPREG_##NAME,
const uint32_t rows32_formats[] = {
#include "rows32_list.inc"
    0};
#undef ROWS32_UNIT32
#undef ROWS32_UNIT256

#define ROWS32_UNIT32(...)
#define ROWS32_UNIT256(NAME, name, image, values, min_sub, words, by) OPREG_##NAME,
const uint32_t rows32_tiled_formats[] = {
#include "rows32_list.inc"
    0};
#undef ROWS32_UNIT32
#undef ROWS32_UNIT256

uint32_t rows32_dealt_symbol(const rows32_format *f) {
#define ROWS32_DEALT(NAME, name)                                                                   \
    if (f->id == OPREG_##NAME) {                                                                   \
        return SM90_FIRST_MORE + ROWS32_DEALT_##NAME;                                              \
    }
#include "rows32_dealt_list.inc"
#undef ROWS32_DEALT
    return 0;
}

const rows32_format *rows32_format_find(uint32_t id) {
    for (size_t i = 0; i < sizeof formats / sizeof formats[0]; i++) {
        if (formats[i].id == id) {
            return &formats[i];
        }
    }
    return NULL;
}

/* ---- what a call takes ---------------------------------------------------------------------------- */

static uint32_t align16(uint32_t bytes) { return (bytes + 15u) & ~15u; }

static uint32_t stored_values(const rows32_format *f, uint32_t waves) {
    return f->unit == 256u ? waves : 32u;
}

/* As x_records lays it out. */
static uint32_t shared_x(const rows32_format *f, int64_t short_k) {
    int64_t k = rows32_groups(f, short_k) * f->values;
    uint32_t bytes = align16((uint32_t)k + (uint32_t)(k / f->unit) * 4u);
    return align16(bytes + (f->min_sub != 0 ? (uint32_t)(k / f->min_sub) * 2u : 0u));
}

/* As rows32_one lays it out. */
static uint32_t shared_one(const rows32_format *f, int64_t k, uint32_t waves) {
    return shared_x(f, k) + (uint32_t)f->table_words * 4u + stored_values(f, waves) * 32u * 4u;
}

uint32_t rows32_spread_table(const rows32_format *f) {
    switch (f->id) {
    case OPREG_IQ2_XXS:
    case OPREG_IQ3_XXS: return ROWS32_SPREAD_TABLE(256, 128);
    case OPREG_IQ2_XS: return ROWS32_SPREAD_TABLE(512, 128);
    case OPREG_IQ2_S:
    case OPREG_IQ3_S: return ROWS32_SPREAD_TABLE(512, 256);
    default: return (uint32_t)f->table_words * 4u;
    }
}

/* Sixteen rows of a group in shared memory: chunks of them are apart so that lanes do not meet in a
 * bank. */
static uint32_t ring_item(const rows32_format *f) {
    uint32_t bytes = (uint32_t)gpu_format_find(f->id)->bytes;
    uint32_t pad = f->id == OPREG_Q2_K ? 16 : f->id == OPREG_IQ2_S ? 64 : 32;
    return ROWS32_RING_TAIL(bytes, pad) + bytes % 16u * 16u;
}

static uint32_t shared_eight(const rows32_format *f, uint32_t waves) {
    uint32_t reduction = stored_values(f, waves) * 256u * 4u, decoded = waves * 2u * 32u * 48u;
    return (uint32_t)f->table_words * 4u + (reduction > decoded ? reduction : decoded);
}

static opreg_status refuse(char reason[128], const char *what, long long value, long long right) {
    snprintf(reason, 128, "%s %lld, it must be %lld", what, value, right);
    return OPREG_E_UNSUPPORTED;
}

static opreg_status weight_supports(uint32_t format, uint32_t layout, int64_t experts, int64_t n,
                                    int64_t k, char reason[128]) {
    const rows32_format *f = rows32_format_find(format);
    if (f == NULL) {
        snprintf(reason, 128, "weight format %u has no kernel over rows32", format);
        return OPREG_E_UNSUPPORTED;
    }
    if (layout != OPREG_LAYOUT_ANY && layout != PREPARED_ROWS32) {
        return refuse(reason, "weight layout", layout, PREPARED_ROWS32);
    }
    if (k % gpu_format_find(format)->values != 0) {
        snprintf(reason, 128, "k %lld is not a multiple of %d", (long long)k,
                 gpu_format_find(format)->values);
        return OPREG_E_UNSUPPORTED;
    }
    if (k > 1 << 30 || shared_one(f, k, 16) > ROWS32_MOST_SHARED) {
        snprintf(reason, 128, "k %lld: a row of x does not fit in shared memory", (long long)k);
        return OPREG_E_UNSUPPORTED;
    }
    return gpu_sizes_fit(experts, n, k, reason);
}

static int is_planes(uint32_t dtype) { return dtype == OPREG_Q8_0 || dtype == OPREG_Q8_K; }

/* Few tiles want many waves each; very many want few, so that more tiles are in flight. */
static uint32_t waves_for(const gpu_plan *plan, const rows32_format *f, int64_t tiles, int64_t k) {
    int64_t units = gpu_units(plan->device), groups = k / f->values;
    if (f->unit != 256u) {
        return 8;
    }
    if (tiles >= 12 * units) {
        return 4;
    }
    return tiles <= units && groups >= 16 ? 16 : 8;
}

static opreg_status launch(const opreg_call *call, const gpu_plan *plan, const rows32_format *f,
                           rows32_args *args, int eight, int64_t grid_y) {
    int64_t tiles = (args->base.n + 31) / 32;
    uint32_t waves = waves_for(plan, f, tiles * grid_y, args->base.k);
    gpu_launch l = {f->symbol, (uint32_t)tiles, (uint32_t)grid_y, 1, 0, 0, plan->chained};
    args->groups = (uint32_t)rows32_groups(f, args->base.k);
    args->values = args->groups * (uint32_t)f->values;
    args->chained = plan->chained;
    if (eight) {
        waves = 8;
        l.symbol += ROWS32_EIGHT_W8;
        l.shared = shared_eight(f, waves);
    } else {
        l.symbol += waves == 16 ? ROWS32_ONE_W16 : waves == 4 ? ROWS32_ONE_W4 : ROWS32_ONE_W8;
        l.shared = shared_one(f, args->base.k, waves);
    }
    l.block = waves * 32u;
    return gpu_run(call->host, plan->device, &l, args, call->stream);
}

static uint32_t ring_table(const rows32_format *f) {
    switch (f->id) {
    case OPREG_IQ2_XXS: return ROWS32_RING_TABLE_iq2_xxs;
    case OPREG_IQ2_XS: return ROWS32_RING_TABLE_iq2_xs;
    case OPREG_IQ2_S: return ROWS32_RING_TABLE_iq2_s;
    case OPREG_IQ3_XXS: return ROWS32_RING_TABLE_iq3_xxs;
    case OPREG_IQ3_S: return ROWS32_RING_TABLE_iq3_s;
    default: return ROWS32_RING_TABLE_q2_k;
    }
}

/* A block a multiprocessor, of whole sets of waves, where what it has fits. */
static int rings(const rows32_format *f, const matmul_args *args, int64_t multiprocessors,
                 gpu_launch *l) {
    int64_t parts = (args->n + 15) / 16, blocks = parts < multiprocessors ? parts : multiprocessors;
    int64_t rows = (parts + blocks - 1) / blocks * 16, units = args->k / f->values;
    int64_t turns = units > 32 ? 0 : (units + 15) / 16;
    int64_t per = turns == 0 ? ROWS32_RING_WAVES : (units + turns - 1) / turns;
    int64_t waves = ROWS32_RING_WAVES / per * per;
    int64_t shared = (int64_t)ring_table(f) + shared_x(f, args->k) + rows * (units | 1) * 4 +
                     waves * 2 * ring_item(f);
    if (units == 0 || rows > ROWS32_SPREAD_ROWS || shared > ROWS32_TENSOR_SHARED) {
        return 0;
    }
    l->symbol = f->symbol + ROWS32_ONE_W16 + 1u;
    l->grid_x = (uint32_t)blocks;
    l->block = (uint32_t)waves * 32u;
    l->shared = (uint32_t)shared;
    return 1;
}

/* Two blocks a multiprocessor that go from tile to tile, where there is work for the second and every wave
 * has a group; with very many tiles four waves each have more of them on their way. */
static int streams(const rows32_format *f, const matmul_args *args, int64_t multiprocessors,
                   gpu_launch *l) {
    const gpu_format *format = gpu_format_find(f->id);
    int64_t tiles = (args->n + 31) / 32, blocks = ROWS32_STREAM_BLOCKS * multiprocessors;
    int64_t group = 32 * (int64_t)(f->values / format->values * format->bytes) + 8;
    int64_t shared = ROWS32_STREAM_WAVES * f->stages * group + shared_x(f, args->k) +
                     stored_values(f, ROWS32_STREAM_WAVES) * 32 * 4;
    if (f->stages == 0 || tiles <= multiprocessors || tiles >= 12 * multiprocessors ||
        args->k < ROWS32_STREAM_WAVES * f->values ||
        shared > ROWS32_TENSOR_SHARED / ROWS32_STREAM_BLOCKS) {
        return 0;
    }
    l->symbol = f->symbol + (f->unit == 256u ? ROWS32_ONE_W16 + 1u : ROWS32_EIGHT_W8 + 1u) +
                (f->spread_waves != 0);
    l->grid_x = (uint32_t)(tiles < blocks ? tiles : blocks);
    l->block = ROWS32_STREAM_WAVES * 32u;
    l->shared = (uint32_t)shared;
    return 1;
}

/* A block a multiprocessor, where its rows of sums and the rest fit in its shared memory. */
static int spreads(const gpu_plan *plan, const rows32_format *f, const matmul_args *args,
                   gpu_launch *l) {
    int64_t parts = (args->n + 7) / 8, units = gpu_units(plan->device);
    int64_t blocks = parts < units ? parts : units, rows = (parts + blocks - 1) / blocks * 8;
    int64_t shared = (int64_t)rows32_spread_table(f) + shared_x(f, args->k) +
                     rows * ROWS32_SPREAD_APART * 4;
    if (!args->pair && streams(f, args, units, l)) {
        return 1;
    }
    if (f->spread_waves == 0 || args->pair) {
        return 0;
    }
    if (f->spread_waves == ROWS32_RING_WAVES) {
        return rings(f, args, units, l);
    }
    if (rows > ROWS32_SPREAD_ROWS || shared > ROWS32_MOST_SHARED) {
        return 0;
    }
    l->symbol = f->symbol + (f->unit == 256u ? ROWS32_ONE_W16 + 1u : ROWS32_EIGHT_W8 + 1u);
    l->grid_x = (uint32_t)blocks;
    l->block = f->spread_waves * 32u;
    l->shared = (uint32_t)shared;
    return 1;
}

/* As rows32_short lays it out. */
static uint32_t shared_short(const rows32_format *f, int64_t k) {
    const gpu_format *format = gpu_format_find(f->id);
    uint32_t row = (uint32_t)(rows32_groups(f, k) * (f->values / format->values) * format->bytes);
    return SHORT_TILES * 32u * row + shared_x(f, k) + (uint32_t)f->table_words * 4u;
}

static opreg_status launch_short(const opreg_call *call, const gpu_plan *plan,
                                 const rows32_format *f, rows32_args *args, uint32_t groups) {
    int64_t tiles = (args->base.n + 31) / 32;
    gpu_launch l = {f->more + ROWS32_SHORT,
                    (uint32_t)((tiles + SHORT_TILES - 1) / SHORT_TILES),
                    groups,
                    1,
                    SHORT_THREADS,
                    shared_short(f, args->base.k),
                    plan->chained};
    args->groups = (uint32_t)rows32_groups(f, args->base.k);
    args->values = args->groups * (uint32_t)f->values;
    args->chained = plan->chained;
    return gpu_run(call->host, plan->device, &l, args, call->stream);
}

/* ---- matmul_bt_quant ------------------------------------------------------------------------------ */

void rows32_dense_args(const opreg_matmul_bt_quant *p, const opreg_call *call, matmul_args *args) {
    matmul_args filled = {.x = call->bufs[OPREG_MATMUL_X].ptr,
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
    *args = filled;
    for (uint32_t i = 0; i < call->num_weights && i < 2; i++) {
        matmul_args_weight(args, (int)i, call->weights[i], gpu_format_find(p->b_dtype));
    }
}

opreg_status rows32_one_supports(const opreg_device *dev, const void *problem, char reason[128]) {
    const opreg_matmul_bt_quant *p = problem;
    (void)dev;
    return p->m > 1 ? refuse(reason, "m is", p->m, 1)
                    : weight_supports(p->b_dtype, p->layout, 1, p->n, p->k, reason);
}

GPU_NO_WORKSPACE(rows32_one)

opreg_status rows32_one_run(void *state, const void *problem, const opreg_call *call) {
    const opreg_matmul_bt_quant *p = problem;
    rows32_args args = {.groups = 0};
    const rows32_format *f = rows32_format_find(p->b_dtype);
    const gpu_plan *plan = state;
    gpu_launch l = {0, 1, 1, 1, 0, 0, plan->chained};
    rows32_dense_args(p, call, &args.base);
    if (rows32_parts_takes_row(f, p, gpu_units(plan->device))) {
        return rows32_parts_run_row(call, plan, f, &args.base);
    }
    if (p->n == 0 || !spreads(plan, f, &args.base, &l)) {
        return launch(call, plan, f, &args, 0, 1);
    }
    args.groups = (uint32_t)rows32_groups(f, p->k);
    args.values = args.groups * (uint32_t)f->values;
    args.chained = plan->chained;
    return gpu_run(call->host, plan->device, &l, &args, call->stream);
}

/* ---- eight columns at a time ------------------------------------------------------------------------ */

/* Formats that go by words have rows32_team where x fits in shared memory; others cross it. */
static int has_team(const rows32_format *f, int64_t k) {
    return f->team != 0 && rows32_team_fits(f, k);
}

static uint64_t columns_workspace(uint32_t format, uint32_t x_dtype, int64_t rows, int64_t k) {
    const rows32_format *f = rows32_format_find(format);
    if (has_team(f, k)) {
        return rows32_records_bytes(f, rows, k);
    }
    return is_planes(x_dtype) ? 0
                              : planes_at(0, rows, k, gpu_format_find(format)->act_block).end;
}

/* args: x as the caller gave it; groups: of the route, 0 for a dense call.  The second launch is
 * chained to the first, whatever the plan says. */
static opreg_status columns_run(const opreg_call *call, const gpu_plan *plan,
                                const rows32_format *f, rows32_args *args, int64_t rows,
                                uint32_t groups) {
    matmul_args *base = &args->base;
    gpu_plan second = {plan->device, 1};
    uint32_t block = gpu_format_find(f->id)->act_block;
    opreg_status status;
    if (has_team(f, base->k)) {
        return rows32_team_run(call, plan, f, base, rows, groups);
    }
    groups = groups != 0 ? groups : (uint32_t)((rows + 7) / 8);
    if (is_planes(base->x_dtype)) {
        return launch(call, plan, f, args, 1, groups);
    }
    status = launch_quantize(call, plan, base->x, base->x_dtype, rows, base->k, base->x_stride,
                             block, planes_at(0, rows, base->k, block), base);
    return status != OPREG_OK ? status : launch(call, &second, f, args, 1, groups);
}

opreg_status rows32_eight_supports(const opreg_device *dev, const void *problem,
                                   char reason[128]) {
    const opreg_matmul_bt_quant *p = problem;
    const rows32_format *f = rows32_format_find(p->b_dtype);
    int64_t most = f != NULL && f->unit == 256u ? ROWS32_EIGHT_MOST : 16 * 65535;
    (void)dev;
    if (p->m > most) {
        snprintf(reason, 128, "m %lld is above %lld", (long long)p->m, (long long)most);
        return OPREG_E_UNSUPPORTED;
    }
    return weight_supports(p->b_dtype, p->layout, 1, p->n, p->k, reason);
}

uint64_t rows32_eight_workspace(const opreg_device *dev, const void *problem) {
    const opreg_matmul_bt_quant *p = problem;
    const rows32_format *f = rows32_format_find(p->b_dtype);
    if (p->m > ROWS32_WIDE_MOST && f->unit == 256u) {
        return rows32_tiled_workspace(dev, problem);
    }
    return rows32_blocks_bytes(f, p->m, p->k); /* records and planes of up to eight rows take less   */
}

/* Up to eight rows go at a time, others sixteen or thirty-two; but a team is one of two in a block, and
 * with few tiles the second has none. */
static int wants_wide(const rows32_format *f, const opreg_matmul_bt_quant *p, uint32_t units) {
    return p->m > 8 ||
           (f->team != 0 && (!rows32_team_fits(f, p->k) || (p->n + 31) / 32 <= (int64_t)units));
}

/* Few tiles: sixteen columns a pass or a block a tile are as fast but for IQ2_XXS, whose lookups are dearest
 * there. */
static int wants_dealt(const rows32_format *f, const opreg_matmul_bt_quant *p, uint32_t units) {
    int few = (p->n + 31) / 32 <= (int64_t)units && f->id != OPREG_IQ2_XXS;
    return p->m <= 8 && !few &&
           rows32_deals(f, p->n, p->k, p->glu != OPREG_GLU_NONE ? 2u : 1u);
}

opreg_status rows32_eight_run(void *state, const void *problem, const opreg_call *call) {
    const opreg_matmul_bt_quant *p = problem;
    const rows32_format *f = rows32_format_find(p->b_dtype);
    const gpu_plan *plan = state;
    uint32_t units = gpu_units(plan->device);
    rows32_args args = {.groups = 0};
    char reason[128];
    if (p->m == 0 || p->n == 0) {
        return OPREG_OK;
    }
    if (f->unit == 256u && !rows32_wide_wins(p->n, p->m, units) &&
        rows32_tiled_supports(NULL, problem, reason) == OPREG_OK) {
        return rows32_tiled_run(state, problem, call);
    }
    rows32_dense_args(p, call, &args.base);
    if (wants_dealt(f, p, units)) {
        return rows32_dealt_run(call, plan, f, &args.base);
    }
    return wants_wide(f, p, units)
               ? rows32_wide_run(call, plan, f, &args.base, p->m)
               : columns_run(call, plan, f, &args, p->m, 0);
}

/* ---- grouped ------------------------------------------------------------------------------------------ */

static int64_t x_rows_of(const opreg_moe_matmul *p) {
    return p->x_rows == OPREG_X_BY_TOKEN ? p->tokens : p->tokens * p->top_k;
}

/* One weight, and rows so short that rows32_one has waves without work, two blocks a multiprocessor. */
static int is_short(const opreg_moe_matmul *p) {
    const rows32_format *f = rows32_format_find(p->b_dtype);
    return p->glu == OPREG_GLU_NONE && rows32_groups(f, p->k) <= SHORT_MOST &&
           shared_short(f, p->k) <= ROWS32_TENSOR_SHARED / 2u - 3072u;
}

/* Fewer tiles do not fill the device: rows32_one has more waves for each. */
static int wants_short(const opreg_moe_matmul *p, uint32_t units) {
    return is_short(p) && p->tokens * p->top_k * ((p->n + 31) / 32) >= 16 * (int64_t)units;
}

/* Entries that rarely share an expert go one by one; from two and a half of a group on average, short
 * rows from three, they go eight at a time. */
static int wants_eight(const opreg_moe_matmul *p) {
    return 2 * p->tokens * p->top_k >= (is_short(p) ? 6 : 5) * (int64_t)p->experts;
}

static opreg_status grouped_supports(const void *problem, char reason[128]) {
    const opreg_moe_matmul *p = problem;
    if ((int64_t)p->tokens * p->top_k + 1 > 65535 && p->experts + 1 > 65535) {
        snprintf(reason, 128, "%d experts are more than a grid can hold", p->experts);
        return OPREG_E_UNSUPPORTED;
    }
    return weight_supports(p->b_dtype, p->layout, p->experts, p->n, p->k, reason);
}

/* Also of calls that go one by one: a larger problem never needs less. */
static uint64_t grouped_workspace(const void *problem) {
    const opreg_moe_matmul *p = problem;
    return columns_workspace(p->b_dtype, p->x_dtype, x_rows_of(p), p->k);
}

void rows32_moe_args(const opreg_moe_matmul *p, const opreg_call *call, matmul_args *args) {
    matmul_args filled = {.x = call->bufs[OPREG_MOE_X].ptr,
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
                          .top_k = p->top_k};
    *args = filled;
    args->route = route_view_of(call->bufs[OPREG_MOE_ROUTE_BUF].ptr, p->tokens, p->top_k,
                                p->experts);
    for (uint32_t i = 0; i < call->num_weights && i < 2; i++) {
        matmul_args_weight(args, (int)i, call->weights[i], gpu_format_find(p->b_dtype));
    }
}

uint32_t rows32_moe_groups(const matmul_args *args) {
    uint32_t groups = args->route.cap_groups, entries = args->route.cap_entries;
    return groups < entries ? groups : entries;
}

/* route_first: the call ahead made x by the route, so it did not write that. */
static opreg_status grouped_run(void *state, const void *problem, const opreg_call *call,
                                int route_first) {
    const opreg_moe_matmul *p = problem;
    uint32_t units = gpu_units(((const gpu_plan *)state)->device);
    const rows32_format *f = rows32_format_find(p->b_dtype);
    rows32_args args = {.groups = 0};
    rows32_moe_args(p, call, &args.base);
    if (wants_eight(p)) {
        return columns_run(call, state, f, &args, x_rows_of(p), args.base.route.cap_groups);
    }
    if (rows32_parts_takes(f, p, units)) {
        return rows32_parts_run(call, state, f, &args.base, route_first);
    }
    return wants_short(p, units)
               ? launch_short(call, state, f, &args, args.base.route.cap_groups)
               : launch(call, state, f, &args, 0, args.base.route.cap_groups);
}

#define ROWS32_STAGE(name, route_first)                                                            \
    opreg_status name##_supports(const opreg_device *dev, const void *problem, char reason[128]) { \
        (void)dev;                                                                                 \
        return grouped_supports(problem, reason);                                                      \
    }                                                                                              \
    uint64_t name##_workspace(const opreg_device *dev, const void *problem) {                      \
        (void)dev;                                                                                 \
        return grouped_workspace(problem);                                                             \
    }                                                                                              \
    opreg_status name##_run(void *state, const void *problem, const opreg_call *call) {            \
        return grouped_run(state, problem, call, route_first);                                     \
    }
ROWS32_STAGE(rows32_moe_matmul, 0)
ROWS32_STAGE(rows32_moe_glu, 0)
ROWS32_STAGE(rows32_moe_down, 1)
