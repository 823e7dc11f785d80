/* SPDX-License-Identifier: MIT
 * route.h - a MoE route as a reader sees it: counts clamped, entries checked. */
#ifndef OPREG_CPU_ROUTE_H
#define OPREG_CPU_ROUTE_H

#include "cpu/cpu.h"

typedef struct route {
    int64_t tokens;
    int32_t experts;
    uint32_t groups, entries; /* clamped to the problem's capacities */
    int64_t rows;             /* tokens * top_k: destinations        */
    const int32_t *group_expert, *group_start, *entry_token, *entry_dst;
} route;

route route_read(const void *buffer, int64_t tokens, int32_t top_k, int32_t experts);

/* Entries [*first, *last) of a group, inside [0, entries). */
void route_group(const route *r, uint32_t group, uint32_t *first, uint32_t *last);

/* 1 when the entry's destination is inside the output. */
static inline int route_has_row(const route *r, uint32_t entry) {
    return r->entry_dst[entry] >= 0 && r->entry_dst[entry] < r->rows;
}

/* 1 when the entry is computed, 0 when its row is zero. */
static inline int route_is_live(const route *r, uint32_t group, uint32_t entry) {
    int32_t expert = r->group_expert[group], token = r->entry_token[entry];
    return expert >= 0 && expert < r->experts && token >= 0 && token < r->tokens;
}

#endif /* OPREG_CPU_ROUTE_H */
