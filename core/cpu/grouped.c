/* SPDX-License-Identifier: MIT
 * grouped.c - walks a route group by group, the rows of a weight in parallel. */
#include "cpu/grouped.h"

typedef struct group_job {
    const grouped *all;
    uint32_t group, first, last;
} group_job;

static void store_row(const grouped *job, int64_t dst, int64_t tile, const float *row) {
    for (int r = 0; r < product_rows(&job->product, tile); r++) {
        canonical_store(job->y, dst * job->y_stride + tile * PRODUCT_N + r, job->y_dtype,
                        row != NULL ? row[r] : 0.0f);
    }
}

static void multiply_tile(void *arg, int64_t tile) {
    const group_job *group = arg;
    const grouped *job = group->all;
    const route *r = &job->route;
    float out[PRODUCT_M][PRODUCT_N];
    int64_t rows[PRODUCT_M], dsts[PRODUCT_M];
    int count = 0;
    for (uint32_t entry = group->first; entry < group->last; entry++) {
        int64_t dst = r->entry_dst[entry];
        if (route_has_row(r, entry) && route_is_live(r, group->group, entry)) {
            rows[count] = job->x_rows == OPREG_X_BY_TOKEN ? r->entry_token[entry] : dst;
            dsts[count++] = dst;
        } else if (route_has_row(r, entry)) {
            store_row(job, dst, tile, NULL);
        }
        if (count == PRODUCT_M || (count > 0 && entry + 1 == group->last)) {
            product_tile(&job->product, r->group_expert[group->group], tile, rows, count, out);
            for (int c = 0; c < count; c++) {
                store_row(job, dsts[c], tile, out[c]);
            }
            count = 0;
        }
    }
}

void grouped_run(const grouped *job) {
    for (uint32_t group = 0; group < job->route.groups; group++) {
        group_job one = {.all = job, .group = group};
        route_group(&job->route, group, &one.first, &one.last);
        if (one.first < one.last) {
            job->host->parallel_for(job->host->ctx, product_tiles(job->product.n), multiply_tile,
                                    &one);
        }
    }
}
