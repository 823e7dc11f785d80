/* SPDX-License-Identifier: MIT
 * rows32_parts_host.c - calls that rows32_parts and rows32_parts_long take: few rows of x, each
 * against weights that are on their way to shared memory before it is there. */
#include "rows32_parts_host.h"

#define PARTS_FORMAT(NAME, name) OPREG_##NAME,
static const uint32_t parts_formats[] = {ROWS32_PARTS_FORMATS(PARTS_FORMAT)};
#define PARTS_COUNT (sizeof parts_formats / sizeof parts_formats[0])

uint32_t rows32_parts_symbol(const rows32_format *f) {
    for (uint32_t i = 0; i < PARTS_COUNT; i++) {
        if (parts_formats[i] == f->id) {
            return SM90_FIRST_PARTS + PARTS_METHODS * i;
        }
    }
    return 0;
}

/* Slots in half of a multiprocessor's shared memory, so that a block of the next launch fits beside
 * this one: not more than there are stages for, beside so many bytes. */
static uint32_t slots_for(uint32_t stage, uint32_t beside, int64_t stages) {
    int64_t slots = ((int64_t)PARTS_SHARED - beside) / stage;
    slots = slots > PARTS_SLOTS ? PARTS_SLOTS : slots;
    return (uint32_t)(slots > stages ? stages : slots);
}

/* A block's share is computed in 32 bits. */
static int fits(int64_t tiles, uint32_t units) {
    return tiles * (units + 1) < (int64_t)1 << 32;
}

static uint32_t blocks_for(const gpu_plan *plan, int64_t tiles) {
    int64_t units = gpu_units(plan->device);
    return (uint32_t)(tiles < units ? tiles : units);
}

/* Bytes of a group of 32 rows. */
static uint32_t group_bytes(const rows32_format *f) {
    const gpu_format *format = gpu_format_find(f->id);
    return 32u * (uint32_t)(f->values / format->values * format->bytes);
}

static opreg_status run(const opreg_call *call, const gpu_plan *plan, parts_args *args,
                        uint32_t symbol, uint32_t threads, uint32_t blocks, uint32_t shared) {
    gpu_launch l = {symbol, blocks, 1, 1, threads, shared, plan->chained};
    args->tiles = (uint32_t)((args->base.n + 31) / 32);
    args->chained = plan->chained;
    return gpu_run(call->host, plan->device, &l, args, call->stream);
}

/* ---- grouped --------------------------------------------------------------------------------- */

int rows32_parts_takes(const rows32_format *f, const opreg_moe_matmul *p, uint32_t units) {
    int64_t entries = p->tokens * p->top_k, tiles = (p->n + 31) / 32;
    return rows32_parts_symbol(f) != 0 && p->glu == OPREG_GLU_NONE && entries <= PARTS_ENTRIES &&
           entries <= p->experts && entries <= (int64_t)units &&
           entries * tiles >= (int64_t)units && fits(entries * tiles, units) &&
           rows32_groups(f, p->k) <= PARTS_GROUPS;
}

opreg_status rows32_parts_run(const opreg_call *call, const gpu_plan *plan, const rows32_format *f,
                              const matmul_args *base, int route_first) {
    parts_args args = {.base = *base, .early = route_first != 0};
    int64_t tiles = (int64_t)base->route.cap_entries * ((base->n + 31) / 32);
    uint32_t blocks = blocks_for(plan, tiles), rows;
    args.groups = (uint32_t)rows32_groups(f, base->k);
    rows = 2u * PARTS_X(args.groups);
    args.slots = slots_for(args.groups * group_bytes(f), rows, (tiles + blocks - 1) / blocks);
    return run(call, plan, &args, rows32_parts_symbol(f) + PARTS_GROUPED, PARTS_THREADS, blocks,
               args.slots * args.groups * group_bytes(f) + rows);
}

/* ---- dense ----------------------------------------------------------------------------------- */

/* Where it was faster: no more rows a block than rows32_spread takes, and no block idle for long
 * because it has a tile less than others.  Long rows of a format that has it stream faster. */
int rows32_parts_takes_row(const rows32_format *f, const opreg_matmul_bt_quant *p, uint32_t units) {
    int64_t tiles = (p->n + 31) / 32, most = (tiles + units - 1) / units;
    int64_t busy = f->id == OPREG_Q2_0 ? 70 : 80; /* percent of the time */
    return rows32_parts_symbol(f) != 0 && p->glu == OPREG_GLU_NONE && p->m == 1 &&
           (f->stages == 0 || p->k < 2048) && 100 * tiles >= 95 * (int64_t)units &&
           32 * most <= ROWS32_SPREAD_ROWS && p->k <= 1 << 14 &&
           100 * tiles >= busy * most * (int64_t)units;
}

opreg_status rows32_parts_run_row(const opreg_call *call, const gpu_plan *plan,
                                  const rows32_format *f, const matmul_args *base) {
    parts_args args = {.base = *base};
    int64_t tiles = (base->n + 31) / 32;
    /* one a multiprocessor, some without a tile: else two of the next launch would meet on one */
    uint32_t blocks = gpu_units(plan->device), groups = (uint32_t)rows32_groups(f, base->k);
    int is_long = groups > PARTS_GROUPS || (groups == PARTS_GROUPS && f->id != OPREG_Q2_0);
    uint32_t stage = (is_long ? PARTS_GROUPS : groups) * group_bytes(f);
    uint32_t row = (is_long ? 1u : 2u) * PARTS_X(groups), steps = is_long ? (groups + 7u) / 8u : 1u;
    args.groups = groups;
    args.slots = slots_for(stage, row + (is_long ? PARTS_LONG_SUMS : 0u),
                           (tiles + blocks - 1) / blocks * steps);
    return run(call, plan, &args, rows32_parts_symbol(f) + (is_long ? PARTS_LONG : PARTS_ROW),
               is_long ? PARTS_LONG_THREADS : PARTS_THREADS, blocks, args.slots * stage + row);
}
