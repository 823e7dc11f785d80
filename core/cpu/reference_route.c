/* SPDX-License-Identifier: MIT
 * reference_route.c - moe_route: groups the routed entries by expert, and reads a route back. */
#include "cpu/route.h"
#include "cpu/kernels.h"

static opreg_route_layout layout_of(int64_t tokens, int32_t top_k, int32_t experts) {
    opreg_route_layout layout = {.struct_size = sizeof layout};
    opreg_route_layout_get(tokens, top_k, experts, &layout);
    return layout;
}

route route_read(const void *buffer, int64_t tokens, int32_t top_k, int32_t experts) {
    const opreg_route_layout layout = layout_of(tokens, top_k, experts);
    const opreg_route_header *header = buffer;
    const uint8_t *base = buffer;
    route r = {
        .tokens = tokens,
        .experts = experts,
        .groups = header->groups < layout.cap_groups ? header->groups : layout.cap_groups,
        .entries = header->entries < layout.cap_entries ? header->entries : layout.cap_entries,
        .rows = tokens * top_k,
        .group_expert = (const void *)(base + layout.group_expert),
        .group_start = (const void *)(base + layout.group_start),
        .entry_token = (const void *)(base + layout.entry_token),
        .entry_dst = (const void *)(base + layout.entry_dst),
    };
    return r;
}

static uint32_t clamp_entry(const route *r, int32_t entry) {
    return entry < 0 ? 0 : (uint32_t)entry < r->entries ? (uint32_t)entry : r->entries;
}

void route_group(const route *r, uint32_t group, uint32_t *first, uint32_t *last) {
    *first = clamp_entry(r, r->group_start[group]);
    *last = clamp_entry(r, r->group_start[group + 1]);
}

opreg_status reference_route_supports(const opreg_device *dev, const void *problem,
                                      char reason[128]) {
    (void)dev;
    (void)problem;
    (void)reason;
    return OPREG_OK;
}

uint64_t reference_route_workspace(const opreg_device *dev, const void *problem) {
    const opreg_moe_route *p = problem;
    (void)dev;
    return (uint64_t)p->experts * sizeof(int32_t);
}

/* Entry e as the router gave it; the expert is -1 where the id is no expert. */
static int32_t expert_of(const opreg_moe_route *p, const opreg_call *call, int64_t entry) {
    const int32_t *ids = call->bufs[OPREG_ROUTE_IDS].ptr;
    int32_t id = ids[entry / p->top_k * p->ids_stride + entry % p->top_k];
    return id >= 0 && id < p->experts ? id : -1;
}

static int32_t token_of(const opreg_moe_route *p, const opreg_call *call, int64_t entry) {
    const int32_t *row_map = call->bufs[OPREG_ROUTE_ROW_MAP].ptr;
    return p->form == OPREG_ROUTE_PAIRS ? row_map[entry] : (int32_t)(entry / p->top_k);
}

static float weight_of(const opreg_moe_route *p, const opreg_call *call, int64_t entry) {
    const float *weights = call->bufs[OPREG_ROUTE_WEIGHTS].ptr;
    return weights == NULL ? 1.0f
                           : weights[entry / p->top_k * p->weights_stride + entry % p->top_k];
}

/* Numbers the groups by first routed entry and counts their entries into group_start[group + 1];
 * returns how many have an expert.  group_of: -1 for an expert without entries. */
static int32_t number_groups(const opreg_moe_route *p, const opreg_call *call, int64_t entries,
                             int32_t *group_of, int32_t *group_expert, int32_t *group_start) {
    int32_t groups = 0;
    for (int32_t expert = 0; expert < p->experts; expert++) {
        group_of[expert] = -1;
    }
    for (int64_t entry = 0; entry < entries; entry++) {
        int32_t expert = expert_of(p, call, entry);
        if (expert < 0) {
            continue;
        }
        if (group_of[expert] < 0) {
            group_of[expert] = groups;
            group_expert[groups++] = expert;
        }
        group_start[group_of[expert] + 1]++;
    }
    return groups;
}

opreg_status reference_route_run(void *state, const void *problem, const opreg_call *call) {
    const opreg_moe_route *p = problem;
    const opreg_route_layout layout = layout_of(p->tokens, p->top_k, p->experts);
    uint8_t *base = call->bufs[OPREG_ROUTE_ROUTE].ptr;
    opreg_route_header *header = (void *)base;
    int32_t *group_expert = (void *)(base + layout.group_expert);
    int32_t *group_start = (void *)(base + layout.group_start);
    int32_t *entry_token = (void *)(base + layout.entry_token);
    int32_t *entry_dst = (void *)(base + layout.entry_dst);
    float *entry_weight = (void *)(base + layout.entry_weight);
    int32_t *group_of = call->workspace.ptr;
    int32_t groups, valid = 0, entries = (int32_t)layout.cap_entries;
    (void)state;
    memset(base, 0, (size_t)layout.bytes); /* padding and unused capacity are zero too */
    groups = number_groups(p, call, entries, group_of, group_expert, group_start);
    for (int32_t group = 0; group < groups; group++) {
        valid += group_start[group + 1];
    }
    if (valid < entries) {
        group_expert[groups] = -1;
        group_start[groups + 1] = entries - valid;
        groups++;
    }
    /* counts to starts: while entries are placed, group_start[g + 1] is where g's next one goes */
    for (int32_t group = 0, start = 0; group < groups; group++) {
        int32_t count = group_start[group + 1];
        group_start[group + 1] = start;
        start += count;
    }
    for (int32_t entry = 0; entry < entries; entry++) {
        int32_t expert = expert_of(p, call, entry);
        int32_t at = group_start[(expert < 0 ? groups - 1 : group_of[expert]) + 1]++;
        entry_token[at] = token_of(p, call, entry);
        entry_dst[at] = entry;
        entry_weight[at] = expert < 0 ? 0.0f : weight_of(p, call, entry);
    }
    header->groups = (uint32_t)groups;
    header->entries = (uint32_t)entries;
    header->cap_groups = layout.cap_groups;
    header->cap_entries = layout.cap_entries;
    return OPREG_OK;
}
