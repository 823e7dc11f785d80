/* SPDX-License-Identifier: MIT
 * rows32_gqh_host.c - the variant rows32_gqh: matmul_bt_quant over the GQH formats. */
#include "kernels.h"
#include "rows32_gqh_args.h"

#include <stdio.h>

const uint32_t gqh_formats[] = {OPREG_GQH4, OPREG_GQH3, OPREG_GQH2_H, OPREG_GQH2_C, 0};

typedef struct gqh_width {
    uint32_t columns, parts, ahead, waves;
} gqh_width;

#define ROWS32_GQH_WIDTH(name, columns, parts, ahead, waves) {columns, parts, ahead, waves},
static const gqh_width widths[ROWS32_GQH_COUNT] = {ROWS32_GQH_WIDTHS(any)};
#undef ROWS32_GQH_WIDTH

/* Waves that so many parts of a block would take at once. */
static int64_t waves_for(const gqh_width *w, int64_t parts) {
    return GQH_TEAM * ((parts + w->parts - 1) / w->parts);
}

static uint32_t width_of(int64_t m, int64_t parts) {
    uint32_t i = 0;
    while (i + 1u < ROWS32_GQH_COUNT && widths[i].columns < m) {
        i++;
    }
    if (i + 1u < ROWS32_GQH_COUNT && widths[i + 1u].columns == widths[i].columns &&
        waves_for(&widths[i], parts) > widths[i].waves) {
        i++;
    }
    return i;
}

/* How a call is spread over the device. */
typedef struct gqh_shape {
    uint32_t width, blocks, waves, threads; /* waves: that take tasks                              */
    uint32_t gates, front;                  /* floats of gates; bytes                              */
} gqh_shape;

static gqh_shape shape_of(const opreg_matmul_bt_quant *p, uint32_t units) {
    int64_t parts = (p->n + 7) / 8, blocks = parts < (int64_t)units ? parts : (int64_t)units;
    int64_t most, waves, rounds;
    gqh_shape s = {.blocks = 1};
    const gqh_width *w;
    s.blocks = blocks > 0 ? (uint32_t)blocks : 1u;
    most = (parts + s.blocks - 1) / s.blocks; /* parts of a block                                   */
    s.width = width_of(p->m, most);
    w = &widths[s.width];
    waves = waves_for(w, most);
    rounds = waves > 0 ? (waves + w->waves - 1) / w->waves : 1;
    s.waves = GQH_TEAM * (uint32_t)((waves / GQH_TEAM + rounds - 1) / rounds);
    s.threads = 32u * w->waves;
    if (p->glu != OPREG_GLU_NONE && most <= (int64_t)(GQH_FRONT / 32u / w->columns)) {
        s.gates = (uint32_t)most * 8u * w->columns;
    }
    s.front = (GQH_GATES + s.gates + s.waves / GQH_TEAM * w->columns * w->parts * GQH_TEAM_SUMS) * 4u;
    return s;
}

opreg_status rows32_gqh_supports(const opreg_device *dev, const void *problem, char reason[128]) {
    const opreg_matmul_bt_quant *p = problem;
    gqh_shape s = shape_of(p, dev->units);
    if (p->b_dtype != OPREG_GQH4 && p->b_dtype != OPREG_GQH3 && p->b_dtype != OPREG_GQH2_H &&
        p->b_dtype != OPREG_GQH2_C) {
        snprintf(reason, 128, "weight format %u is not gqh4, gqh3, gqh2_h or gqh2_c", p->b_dtype);
    } else if (p->layout != OPREG_LAYOUT_ANY && p->layout != PREPARED_ROWS32) {
        snprintf(reason, 128, "weight layout %u is not rows32, %u", p->layout, PREPARED_ROWS32);
    } else if (p->k < 256 || p->k % 256 != 0 || p->k > 1 << 30) {
        snprintf(reason, 128, "k %lld is not a multiple of 256", (long long)p->k);
    } else if (prepared_rows32.bytes(dev, p->b_dtype, 1, p->n, p->k) > UINT32_MAX) {
        snprintf(reason, 128, "n %lld, k %lld: a weight above 4 GiB", (long long)p->n,
                 (long long)p->k);
    } else if (p->m > (int64_t)ROWS32_GQH_MOST * 65535) {
        snprintf(reason, 128, "m %lld is more than a grid can hold", (long long)p->m);
    } else if (p->glu != OPREG_GLU_NONE && (s.gates == 0 || s.front > GQH_FRONT)) {
        snprintf(reason, 128, "n %lld: gates do not fit in shared memory", (long long)p->n);
    } else {
        return gpu_sizes_fit(1, p->n, p->k, reason);
    }
    return OPREG_E_UNSUPPORTED;
}

GPU_NO_WORKSPACE(rows32_gqh)

/* Superblocks of x that shared memory takes at a time: all of them, or two sets of so many. */
static uint32_t chunk_of(const gqh_width *w, uint32_t superblocks) {
    uint32_t most = GQH_X_MOST / (w->columns * GQH_X_FLOATS * 4u);
    return superblocks <= most ? superblocks : most / 2u / w->ahead * w->ahead;
}

opreg_status rows32_gqh_run(void *state, const void *problem, const opreg_call *call) {
    const opreg_matmul_bt_quant *p = problem;
    const gpu_plan *plan = state;
    gqh_shape s = shape_of(p, gpu_units(plan->device));
    const gqh_width *w = &widths[s.width];
    gqh_args args = {.superblocks = (uint32_t)(p->k / 256),
                     .gates = s.gates,
                     .waves = s.waves,
                     .chained = plan->chained};
    gpu_launch l = {SM90_FIRST_GQH + s.width, s.blocks, 1, 1, s.threads, 0, plan->chained};
    if (p->m == 0 || p->n == 0) {
        return OPREG_OK;
    }
    for (uint32_t i = 0; gqh_formats[i] != p->b_dtype; i++) {
        l.symbol += ROWS32_GQH_COUNT;
    }
    l.grid_y = (uint32_t)((p->m + w->columns - 1) / w->columns);
    args.chunk = chunk_of(w, args.superblocks);
    l.shared = GQH_X - GQH_RESERVED + w->columns * args.chunk * GQH_X_FLOATS * 4u *
                                          (args.chunk < args.superblocks ? 2u : 1u);
    rows32_dense_args(p, call, &args.base);
    return gpu_run(call->host, plan->device, &l, &args, call->stream);
}
