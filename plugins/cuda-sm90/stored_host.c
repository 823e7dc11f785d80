/* SPDX-License-Identifier: MIT
 * stored_host.c - variants over stored weights, for engines that keep no second copy: one column by dot
 * products, more by integer tensor cores. */
#include "kernels.h"
#include "rows32_team_args.h"
#include "stored_args.h"
#include "stored_host.h"

#include <stdio.h>

#define STORED_SHARED (226u * 1024u)

/* ---- formats ------------------------------------------------------------------------------------ */

#define STORED_PLACE(NAME, method) STORED_##NAME##_##method,
#define STORED_PLACES_ROWS(NAME)                                                                   \
    STORED_PLACE(NAME, ONE_W8) STORED_PLACE(NAME, ONE_W4) STORED_PLACE(NAME, EIGHT)
#define STORED_PLACES_WORDS(NAME) STORED_PLACES_ROWS(NAME) STORED_PLACE(NAME, TEAM)
#define ROWS32_UNIT32(NAME, name, image, values, min_sub, words, by)  STORED_PLACES_##by(NAME)
#define ROWS32_UNIT256(NAME, name, image, values, min_sub, words, by) STORED_PLACES_##by(NAME)
enum stored_order {
#include "rows32_list.inc"
    STORED_ORDER_END
};
#undef ROWS32_UNIT32
#undef ROWS32_UNIT256

#define STORED_TEAM_ROWS(NAME)  UINT32_MAX
#define STORED_TEAM_WORDS(NAME) SM90_FIRST_STORED + STORED_##NAME##_TEAM
#define ROWS32_UNIT32(NAME, name, image, values, min_sub, words, by)                               \
    {OPREG_##NAME,                                                                                 \
     {SM90_FIRST_STORED + STORED_##NAME##_ONE_W8, SM90_FIRST_STORED + STORED_##NAME##_ONE_W4,      \
      SM90_FIRST_STORED + STORED_##NAME##_EIGHT, STORED_TEAM_##by(NAME)}},
#define ROWS32_UNIT256(NAME, name, image, values, min_sub, words, by)                              \
    ROWS32_UNIT32(NAME, name, image, values, min_sub, words, by)
static const struct {
    uint32_t id, symbols[4];
} formats[] = {
#include "rows32_list.inc"
};
#undef ROWS32_UNIT32
#undef ROWS32_UNIT256

uint32_t stored_symbol(uint32_t format, enum stored_method method) {
    for (size_t i = 0; i < sizeof formats / sizeof formats[0]; i++) {
        if (formats[i].id == format) {
            return formats[i].symbols[method];
        }
    }
    return UINT32_MAX;
}

static uint32_t group_bytes(const rows32_format *f) {
    const gpu_format *stored = gpu_format_find(f->id);
    return (uint32_t)(f->values / stored->values * stored->bytes);
}

/* ---- what a call takes ---------------------------------------------------------------------------- */

static uint32_t align16(int64_t bytes) { return (uint32_t)(bytes + 15) & ~15u; }

static int64_t groups_of(const rows32_format *f, int64_t k) {
    return (k + f->values - 1) / f->values;
}

/* As x_records lays it out. */
static uint32_t shared_x(const rows32_format *f, int64_t row) {
    int64_t k = groups_of(f, row) * f->values;
    uint32_t bytes = align16(k + k / (int64_t)f->unit * 4);
    return align16(bytes + (f->min_sub != 0 ? k / f->min_sub * 2 : 0));
}

/* How a call goes: the kernel; its most threads; waves of a team; bytes of shared memory of the block,
 * of a team beside its stages and of a stage; stages beside those on their way. */
typedef struct stored_way {
    enum stored_method method;
    uint32_t threads, waves, shared, own, stage, more;
} stored_way;

static uint32_t team_bytes(const stored_way *w, uint32_t ahead) {
    return w->own + (ahead + w->more) * w->stage;
}

static uint32_t most_teams(const stored_way *w, uint32_t ahead) {
    uint32_t left = w->shared < STORED_SHARED ? STORED_SHARED - w->shared : 0u;
    uint32_t fit = left / team_bytes(w, ahead);
    uint32_t most = w->threads / (32u * w->waves);
    return fit < most ? fit : most;
}

static stored_way one_way(const rows32_format *f, int64_t k, uint32_t waves) {
    uint32_t groups = f->unit == 256u ? waves : 8u;
    stored_way w = {STORED_ONE_W8, STORED_THREADS, waves, 0, 0, 0, 1};
    w.method = waves == 4u ? STORED_ONE_W4 : STORED_ONE_W8;
    w.shared = shared_x(f, k) + rows32_spread_table(f);
    w.own = (f->unit == 256u ? waves : 32u) * 32u * 4u;
    w.stage = (uint32_t)STORED_STAGE(group_bytes(f), groups);
    return w;
}

/* Teams of four waves are faster where there are tiles and room for four of them; large groups go by
 * eight waves, unless many of those are idle at the end of a row. */
static stored_way best_one_way(const rows32_format *f, int64_t n, int64_t k, uint32_t units) {
    stored_way four = one_way(f, k, 4), eight = one_way(f, k, 8);
    int64_t groups = k / f->values, idle4 = (groups + 3) / 4 * 4, idle8 = (groups + 7) / 8 * 8;
    int wins = (n + 31) / 32 > 2 * (int64_t)units && most_teams(&four, 1) >= 4 &&
               (group_bytes(f) < 160u || idle8 * 9 > idle4 * 10);
    return wins ? four : eight;
}

/* Each wave has a stage of its own. */
static stored_way eight_way(const rows32_format *f) {
    uint32_t threads = stored_symbol(f->id, STORED_TEAM) == UINT32_MAX ? STORED_EIGHT_THREADS_ROWS
                                                                       : STORED_EIGHT_THREADS_WORDS;
    stored_way w = {STORED_EIGHT, threads, 8, (uint32_t)f->table_words * 4u, STORED_EIGHT_OWN, 0, 0};
    w.stage = 8u * (uint32_t)STORED_STAGE(group_bytes(f), 1);
    return w;
}

static stored_way team_way(const rows32_format *f, int64_t k) {
    stored_way w = {STORED_TEAM, STORED_THREADS, TEAM_WAVES, 8u * rows32_column_bytes(f, k), 0, 0, 0};
    w.own = TEAM_WAVES * 32u * group_bytes(f) + TEAM_SUMS_BYTES;
    w.stage = TEAM_WAVES * (uint32_t)STORED_STAGE(group_bytes(f), 1);
    return w;
}

/* Rows of whole groups go eight columns at a time: by words where the format does and a team has room. */
static stored_way way_of(const opreg_matmul_bt_quant *p, uint32_t units) {
    const rows32_format *f = rows32_format_find(p->b_dtype);
    stored_way team;
    if (p->m <= 1 || p->k % f->values != 0) {
        return best_one_way(f, p->n, p->k, units);
    }
    team = team_way(f, p->k);
    return stored_symbol(f->id, STORED_TEAM) != UINT32_MAX && most_teams(&team, 1) != 0
               ? team
               : eight_way(f);
}

/* ---- launches --------------------------------------------------------------------------------------- */

/* Whether a row or the weight begins where whole words of a group cannot be read. */
static uint32_t is_loose(const rows32_format *f, const matmul_args *a) {
    uintptr_t places = (uintptr_t)a->data[0] | (uintptr_t)a->row_bytes;
    if (a->pair) {
        places |= (uintptr_t)a->data[1];
    }
    return places % STORED_ALIGN(group_bytes(f)) != 0;
}

/* A block a multiprocessor at the most, with as many teams as its tiles and its shared memory allow. */
static opreg_status launch(const opreg_call *call, const gpu_plan *plan, const rows32_format *f,
                           const stored_way *w, const matmul_args *base, uint32_t chained) {
    uint32_t units = gpu_units(plan->device), tiles = (uint32_t)((base->n + 31) / 32);
    uint32_t teams = (tiles + units - 1u) / units, most = most_teams(w, 1);
    stored_args args = {.base = *base,
                        .groups = (uint32_t)groups_of(f, base->k),
                        .units = (uint32_t)(base->k / f->unit),
                        .ahead = 1,
                        .chained = chained,
                        .loose = is_loose(f, base),
                        .tiles = tiles,
                        .apart = rows32_column_bytes(f, base->k),
                        .records = call->workspace.ptr};
    gpu_launch l = {stored_symbol(f->id, w->method), 1, 1, 1, 0, 0, chained};
    teams = teams > 1u ? teams : 2u; /* waves without a tile help with x */
    teams = teams < most ? teams : most;
    /* a few teams want more on their way; with many the first would wait for all */
    while (args.ahead * teams < STORED_AHEAD && most_teams(w, args.ahead + 1u) >= teams) {
        args.ahead++;
    }
    args.depth = args.ahead + w->more;
    l.grid_x = tiles < units ? tiles : units;
    l.grid_y = (uint32_t)(w->method == STORED_EIGHT || w->method == STORED_TEAM ? (base->m + 7) / 8
                                                                               : base->m);
    args.streams = l.grid_x * teams;
    l.block = teams * w->waves * 32u;
    l.shared = w->shared + teams * team_bytes(w, args.ahead);
    return gpu_run(call->host, plan->device, &l, &args, call->stream);
}

/* ---- the variant ------------------------------------------------------------------------------------ */

opreg_status stored_rows_supports(const opreg_device *dev, const void *problem, char reason[128]) {
    const opreg_matmul_bt_quant *p = problem;
    (void)dev;
    if (rows32_format_find(p->b_dtype) == NULL) {
        snprintf(reason, 128, "weight format %u has no kernel over stored weights", p->b_dtype);
    } else if (p->layout != OPREG_LAYOUT_ANY && p->layout != OPREG_LAYOUT_STORED) {
        snprintf(reason, 128, "weight layout %u is not the stored one", p->layout);
    } else if (p->k <= 0 || p->k > 1 << 20) {
        snprintf(reason, 128, "k %lld is not in 1 .. %d", (long long)p->k, 1 << 20);
    } else if (p->m > 65535) {
        snprintf(reason, 128, "m %lld is more than a grid can hold", (long long)p->m);
    } else {
        stored_way w = way_of(p, 1);
        if (most_teams(&w, 1) != 0) {
            return gpu_sizes_fit(1, p->n, p->k, reason);
        }
        snprintf(reason, 128, "k %lld: a row of x does not fit in shared memory", (long long)p->k);
    }
    return OPREG_E_UNSUPPORTED;
}

static int is_planes(uint32_t dtype) { return dtype == OPREG_Q8_0 || dtype == OPREG_Q8_K; }

uint64_t stored_rows_workspace(const opreg_device *dev, const void *problem) {
    const opreg_matmul_bt_quant *p = problem;
    const rows32_format *f = rows32_format_find(p->b_dtype);
    stored_way w = way_of(p, 1);
    (void)dev;
    return w.method == STORED_TEAM ? rows32_records_bytes(f, p->m, p->k)
           : w.method != STORED_EIGHT || is_planes(p->x_dtype)
               ? 0
               : planes_at(0, p->m, p->k, gpu_format_find(p->b_dtype)->act_block).end;
}

/* The launch behind one that quantizes x is chained to it, whatever the plan says. */
opreg_status stored_rows_run(void *state, const void *problem, const opreg_call *call) {
    const opreg_matmul_bt_quant *p = problem;
    const gpu_plan *plan = state;
    const rows32_format *f = rows32_format_find(p->b_dtype);
    stored_way w = way_of(p, gpu_units(plan->device));
    uint32_t block = gpu_format_find(p->b_dtype)->act_block, chained = plan->chained;
    opreg_status status = OPREG_OK;
    matmul_args args;
    rows32_dense_args(p, call, &args);
    if (w.method == STORED_TEAM) {
        status = rows32_records_run(call, plan, f, &args, p->m, p->m, 0);
        chained = 1;
    } else if (w.method == STORED_EIGHT && !is_planes(p->x_dtype)) {
        status = launch_quantize(call, plan, args.x, p->x_dtype, p->m, p->k, p->x_stride, block,
                                 planes_at(0, p->m, p->k, block), &args);
        chained = 1;
    }
    return status != OPREG_OK ? status : launch(call, plan, f, &w, &args, chained);
}
