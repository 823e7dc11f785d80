/* SPDX-License-Identifier: MIT
 * grouped.c - walks a route group by group, the rows of a weight in parallel. */
#include "cpu/grouped.h"

#define TILE_N 16

typedef struct group_job {
    const grouped *all;
    uint32_t group, first, last;
} group_job;

static float element(const grouped *job, int64_t expert, int64_t row, int64_t n) {
    const opreg_weight_view *gate = job->weights[0], *up = job->weights[1];
    float y = activations_dot(&job->x, row, job->format, weight_row(gate, expert, n),
                              &gate->side[expert]);
    if (job->glu == OPREG_GLU_NONE) {
        return y;
    }
    return canonical_glu(
        job->glu, y,
        activations_dot(&job->x, row, job->format, weight_row(up, expert, n), &up->side[expert]),
        job->glu_alpha, job->glu_limit);
}

static void multiply_tile(void *arg, int64_t tile) {
    const group_job *group = arg;
    const grouped *job = group->all;
    const route *r = &job->route;
    int64_t expert = r->group_expert[group->group];
    for (int64_t n = tile * TILE_N; n < job->n && n < (tile + 1) * TILE_N; n++) {
        for (uint32_t entry = group->first; entry < group->last; entry++) {
            int64_t dst = r->entry_dst[entry];
            int64_t row = job->x_rows == OPREG_X_BY_TOKEN ? r->entry_token[entry] : dst;
            if (!route_has_row(r, entry)) {
                continue;
            }
            canonical_store(job->y, dst * job->y_stride + n, job->y_dtype,
                            route_is_live(r, group->group, entry) ? element(job, expert, row, n)
                                                                  : 0.0f);
        }
    }
}

void grouped_run(const grouped *job) {
    for (uint32_t group = 0; group < job->route.groups; group++) {
        group_job one = {.all = job, .group = group};
        route_group(&job->route, group, &one.first, &one.last);
        if (one.first < one.last) {
            job->host->parallel_for(job->host->ctx, (job->n + TILE_N - 1) / TILE_N, multiply_tile,
                                    &one);
        }
    }
}
