/* SPDX-License-Identifier: MIT
 * rows32_route.cuh - what a block of a grouped call reads of the route.
 *
 * Of chained launches, rows32_parts reads the route of moe_down before it waits.  So what may have made
 * its x, any other grouped launch, lets the next one start only when it has waited itself: whatever
 * wrote the route is done by then. */
#ifndef OPREG_SM90_ROWS32_ROUTE_CUH
#define OPREG_SM90_ROWS32_ROUTE_CUH

#include "device.h"

#include "rows32_args.h"

/* The range of entries of the block's group, which is below cap_groups; false where there is nothing
 * to do.  What the block may need is asked for at once, whether there is such a group or not. */
DEVICE bool group_range(const matmul_args &a, uint32_t g, int32_t *expert, int32_t *begin,
                        int32_t *end) {
    uint32_t groups = a.route.header->groups, entries = a.route.header->entries;
    *expert = a.route.group_expert[g];
    *begin = a.route.group_start[g];
    *end = a.route.group_start[g + 1];
    groups = groups < a.route.cap_groups ? groups : a.route.cap_groups;
    entries = entries < a.route.cap_entries ? entries : a.route.cap_entries;
    if (g >= groups) {
        return false;
    }
    *begin = *begin < 0 ? 0 : *begin;
    *end = *end > (int32_t)entries ? (int32_t)entries : *end;
    return *begin < *end;
}

DEVICE bool entry_lives(const matmul_args &a, int32_t expert, int32_t token) {
    return expert >= 0 && expert < a.experts && token >= 0 && token < a.tokens;
}

struct group_entry {
    int32_t token, dst;
};

/* Entry e of the route; of none, where there is no such entry. */
DEVICE group_entry entry_at(const matmul_args &a, int32_t e) {
    group_entry none = {-1, -1};
    if (e >= (int32_t)a.route.cap_entries) {
        return none;
    }
    return {a.route.entry_token[e], a.route.entry_dst[e]};
}

#define ROWS32_COLUMNS 8

/* The columns of a call: rows of the x planes and of y.  Missing columns repeat the first. */
struct columns {
    int32_t x[ROWS32_COLUMNS], y[ROWS32_COLUMNS]; /* y: -1 where nothing is stored                  */
    int32_t dead; /* bit c: column c is stored as zero                                             */
};

/* Entries first .. first + 7 of a group that ends at `end`; one thread. */
DEVICE void gather_columns(const matmul_args &a, int32_t expert, int32_t first, int32_t end,
                           columns *cols) {
    int32_t some = 0, dead = 0;
    for (int32_t c = 0; c < ROWS32_COLUMNS; c++) {
        int32_t e = first + c, dst = e < end ? a.route.entry_dst[e] : -1;
        int32_t token = e < end ? a.route.entry_token[e] : -1;
        bool stored = dst >= 0 && dst < (int32_t)a.route.cap_entries;
        bool lives = stored && entry_lives(a, expert, token);
        cols->y[c] = stored ? dst : -1;
        cols->x[c] = lives ? (a.by_dst ? dst : token) : some;
        some = lives ? cols->x[c] : some;
        dead |= stored && !lives ? 1 << c : 0;
    }
    cols->dead = dead;
}

#endif /* OPREG_SM90_ROWS32_ROUTE_CUH */
