/* SPDX-License-Identifier: MIT
 * gqh_lanes_host.c - variants over GQH formats: dense ones of stored weights, grouped ones of the layout
 * rows32. */
#include "gqh_lanes_args.h"
#include "kernels.h"

#include <stdio.h>

/* ---- what a call takes ---------------------------------------------------------------------------- */

typedef struct gqh_width {
    uint32_t columns, quads, ahead, waves;
} gqh_width;

#define GQH_WIDTH(name, columns, quads, ahead, waves) {columns, quads, ahead, waves},
static const gqh_width widths[GQH_WIDTH_COUNT] = {GQH_WIDTHS(any)};
#undef GQH_WIDTH

static int64_t quads_of(int64_t n) { return (n + 3) / 4; }

static int64_t parts_of(int64_t all, int64_t part) { return (all + part - 1) / part; }

/* Quads of a task. */
static int64_t each_of(const gqh_width *w, uint32_t glu) {
    return glu != OPREG_GLU_NONE ? w->quads / 2 : w->quads;
}

static opreg_status gqh_supports(uint32_t format, int64_t n, int64_t k, int64_t experts,
                                 char reason[128]) {
    if (format != OPREG_GQH4 && format != OPREG_GQH3 && format != OPREG_GQH2_H &&
        format != OPREG_GQH2_C) {
        snprintf(reason, 128, "weight format %u is not gqh4, gqh3, gqh2_h or gqh2_c", format);
    } else if (k < 256 || k % 256 != 0 || k > 1 << 30) {
        snprintf(reason, 128, "k %lld is not a multiple of 256 up to 2^30", (long long)k);
    } else if (parts_of(n, 32) * 32 * (k / 256) > UINT32_MAX / 137) {
        snprintf(reason, 128, "n %lld, k %lld: a weight may be above 4 GiB", (long long)n,
                 (long long)k);
    } else {
        return gpu_sizes_fit(experts, n, k, reason);
    }
    return OPREG_E_UNSUPPORTED;
}

/* ---- launches --------------------------------------------------------------------------------------- */

static uint32_t format_index(uint32_t format) {
    uint32_t i = 0;
    while (gqh_formats[i] != format) {
        i++;
    }
    return i;
}

/* Superblocks of x that shared memory takes at a time: all of them, or two sets of so many; and what the
 * tables and they take. */
static uint32_t chunk_of(const gqh_width *w, uint32_t superblocks, uint32_t *shared) {
    uint32_t most = GQH_X_MOST / (w->columns * GQH_X_BYTES);
    uint32_t chunk = superblocks <= most ? superblocks : most / 2u / w->ahead * w->ahead;
    *shared = GQH_X - GQH_RESERVED +
              w->columns * chunk * GQH_X_BYTES * (chunk < superblocks ? 2u : 1u);
    return chunk;
}

static opreg_status launch(const opreg_call *call, const gpu_plan *plan, const gqh_width *w,
                           gpu_launch *l, gqh_lanes_args *args) {
    uint32_t each = args->base.pair ? w->quads / 2u : w->quads;
    int64_t tasks = parts_of(parts_of(quads_of(args->base.n), l->grid_x), each);
    args->superblocks = (uint32_t)(args->base.k / 256);
    args->waves = (uint32_t)parts_of(tasks, parts_of(tasks, w->waves));
    args->chained = plan->chained;
    args->chunk = chunk_of(w, args->superblocks, &l->shared);
    l->block = 32u * w->waves;
    l->chained = plan->chained;
    return gpu_run(call->host, plan->device, l, args, call->stream);
}

/* ---- dense ------------------------------------------------------------------------------------------ */

/* As many rows of x at a time as leave few behind for the last pass. */
static uint32_t width_of(const opreg_matmul_bt_quant *p, uint32_t units) {
    int64_t columns = p->m <= GQH_MOST ? p->m : parts_of(p->m, parts_of(p->m, GQH_MOST));
    int64_t quads = parts_of(quads_of(p->n), units); /* of a block                                   */
    uint32_t i = 0;
    while (i + 1u < GQH_WIDTH_COUNT && widths[i].columns < columns) {
        i++;
    }
    while (i + 1u < GQH_WIDTH_COUNT && widths[i + 1u].columns == widths[i].columns &&
           (parts_of(quads, widths[i].quads) > widths[i].waves ||
            (p->glu != OPREG_GLU_NONE && widths[i].quads % 2u != 0u))) {
        i++;
    }
    return i;
}

opreg_status stored_gqh_supports(const opreg_device *dev, const void *problem, char reason[128]) {
    const opreg_matmul_bt_quant *p = problem;
    (void)dev;
    if (p->m > (int64_t)GQH_MOST * 65535) {
        snprintf(reason, 128, "m %lld is more than a grid can hold", (long long)p->m);
    } else if (p->n < 4) {
        snprintf(reason, 128, "n %lld is less than four rows", (long long)p->n);
    } else if (p->layout != OPREG_LAYOUT_ANY && p->layout != OPREG_LAYOUT_STORED) {
        snprintf(reason, 128, "weight layout %u is not the stored one", p->layout);
    } else {
        return gqh_supports(p->b_dtype, p->n, p->k, 1, reason);
    }
    return OPREG_E_UNSUPPORTED;
}

opreg_status stored_gqh_run(void *state, const void *problem, const opreg_call *call) {
    const opreg_matmul_bt_quant *p = problem;
    const gpu_plan *plan = state;
    uint32_t units = gpu_units(plan->device), width = width_of(p, units);
    gqh_lanes_args args = {.chunk = 0};
    gpu_launch l = {SM90_FIRST_GQH_STORED + GQH_WIDTH_COUNT * format_index(p->b_dtype) + width,
                    1, 1, 1, 0, 0, 0};
    l.grid_x = quads_of(p->n) < units ? (uint32_t)quads_of(p->n) : units;
    l.grid_y = (uint32_t)parts_of(p->m, widths[width].columns);
    rows32_dense_args(p, call, &args.base);
    return launch(call, plan, &widths[width], &l, &args);
}

GPU_NO_WORKSPACE(stored_gqh)

/* ---- grouped ---------------------------------------------------------------------------------------- */

/* Each group has an entry; with fewer groups than multiprocessors several blocks share a group's rows. */
static opreg_status grouped_run(void *state, const void *problem, const opreg_call *call) {
    static const gqh_width w = {GQH_MOST, 2, GQH_MOE_AHEAD, GQH_MOE_WAVES};
    const opreg_moe_matmul *p = problem;
    const gpu_plan *plan = state;
    gqh_lanes_args args = {.chunk = 0};
    gpu_launch l = {SM90_FIRST_GQH_MOE + format_index(p->b_dtype), 1, 1, 1, 0, 0, 0};
    uint32_t groups, units = gpu_units(plan->device);
    int64_t blocks, most = parts_of(quads_of(p->n), each_of(&w, p->glu));
    rows32_moe_args(p, call, &args.base);
    groups = args.base.route.cap_entries < (uint32_t)p->experts ? args.base.route.cap_entries
                                                                : (uint32_t)p->experts;
    blocks = groups < units ? units / groups : 1;
    l.grid_x = (uint32_t)(blocks < most ? blocks : most);
    l.grid_y = groups < 65535u ? groups : 65535u;
    return launch(call, plan, &w, &l, &args);
}

static opreg_status grouped_supports(const void *problem, char reason[128]) {
    const opreg_moe_matmul *p = problem;
    if (p->layout != OPREG_LAYOUT_ANY && p->layout != PREPARED_ROWS32) {
        snprintf(reason, 128, "weight layout %u is not rows32, %u", p->layout, PREPARED_ROWS32);
        return OPREG_E_UNSUPPORTED;
    }
    return gqh_supports(p->b_dtype, p->n, p->k, p->experts, reason);
}

#define GQH_STAGE(name)                                                                            \
    GPU_NO_WORKSPACE(name)                                                                         \
    opreg_status name##_supports(const opreg_device *dev, const void *problem, char reason[128]) { \
        (void)dev;                                                                                 \
        return grouped_supports(problem, reason);                                                  \
    }                                                                                              \
    opreg_status name##_run(void *state, const void *problem, const opreg_call *call) {            \
        return grouped_run(state, problem, call);                                                  \
    }
GQH_STAGE(gqh_moe_matmul)
GQH_STAGE(gqh_moe_glu)
GQH_STAGE(gqh_moe_down)
