/* SPDX-License-Identifier: MIT
 * hostile_route.c - routes that moe_route would not write, and what any route means to a reader
 * (docs/contracts.md, the MoE stages). */
#include <string.h>

#include "cases.h"
#include "moe.h"

static uint32_t *words(uint8_t *bytes, uint64_t at) { return (uint32_t *)(void *)(bytes + at); }

static uint32_t draw_beyond(random_state *random, uint32_t limit) {
    const uint32_t beyond[] = {limit, 0xffffffffu, 0x7fffffffu, 0x80000000u};
    return beyond[random_below(random, 4)];
}

/* Counts far over the capacities: what lies there are empty groups. */
static void raise_counts(const opreg_route_layout *layout, uint8_t *route) {
    uint32_t groups = *words(route, 0), entries = *words(route, 4);
    for (uint32_t g = groups; g < layout->cap_groups; g++) {
        words(route, layout->group_expert)[g] = 0xffffffffu;
        words(route, layout->group_start)[g + 1] = entries;
    }
    *words(route, 0) = layout->cap_groups + 1000u;
    *words(route, 4) = layout->cap_entries + 1000u;
    *words(route, 8) = 0xffffffffu;
    *words(route, 12) = 0xffffffffu;
}

/* One start of a group, or the end of the last one, is wrong: negative, beyond the entries or out of
 * order. */
static void spoil_start(random_state *random, const opreg_route_layout *layout, uint8_t *route) {
    uint32_t groups = *words(route, 0), entries = *words(route, 4);
    uint32_t *start = &words(route, layout->group_start)[random_below(random, groups + 1)];
    *start = random_below(random, 3) ? draw_beyond(random, entries + 1)
                                     : random_below(random, entries + 1);
}

void moe_route_spoil(random_state *random, uint32_t routing, const opreg_route_layout *layout,
                     int64_t tokens, int32_t experts, uint8_t *route) {
    uint32_t groups = *words(route, 0), entries = *words(route, 4);
    uint32_t *dst = words(route, layout->entry_dst), *token = words(route, layout->entry_token);
    if (routing == ROUTING_COUNTS) {
        raise_counts(layout, route);
    } else if (routing == ROUTING_BAD_START) {
        spoil_start(random, layout, route);
    } else if (routing == ROUTING_FEWER && entries > 0) {
        *words(route, 4) = entries - 1u - random_below(random, entries);
        *words(route, 0) = groups - random_below(random, 2);
    }
    for (uint32_t g = 0; routing == ROUTING_BAD_EXPERT && g < groups; g++) {
        if (random_below(random, 3) == 0) {
            words(route, layout->group_expert)[g] = draw_beyond(random, (uint32_t)experts);
        }
    }
    for (uint32_t e = 0; e < entries; e++) {
        uint32_t hit = random_below(random, 4) == 0;
        if (routing == ROUTING_BAD_DST && hit) {
            dst[e] = draw_beyond(random, layout->cap_entries);
        } else if (routing == ROUTING_BAD_TOKEN && hit) {
            token[e] = draw_beyond(random, (uint32_t)tokens);
        } else if (routing == ROUTING_SAME_DST && hit) {
            dst[e] = dst[random_below(random, entries)];
        }
    }
}

static int64_t clamp(int64_t value, int64_t high) {
    return value < 0 ? 0 : value < high ? value : high;
}

void moe_notes_read(const opreg_route_layout *layout, uint8_t *route, int64_t tokens,
                    int32_t experts, int by_token, moe_notes *notes) {
    int64_t groups = clamp(*words(route, 0), layout->cap_groups);
    int64_t entries = clamp(*words(route, 4), layout->cap_entries);
    const int32_t *expert = (const int32_t *)words(route, layout->group_expert);
    const int32_t *start = (const int32_t *)words(route, layout->group_start);
    const int32_t *token = (const int32_t *)words(route, layout->entry_token);
    const int32_t *dst = (const int32_t *)words(route, layout->entry_dst);
    for (int64_t r = 0; r < notes->rows; r++) {
        notes->x_of[r] = notes->expert_of[r] = MOE_UNNAMED;
    }
    for (int64_t g = 0; g < groups; g++) {
        for (int64_t e = clamp(start[g], entries); e < clamp(start[g + 1], entries); e++) {
            int64_t row = dst[e];
            int live = expert[g] >= 0 && expert[g] < experts && token[e] >= 0 && token[e] < tokens;
            if (row < 0 || row >= notes->rows) {
                continue;
            }
            int once = notes->x_of[row] == MOE_UNNAMED;
            notes->x_of[row] = !once ? MOE_TWICE : !live ? MOE_ZERO : by_token ? token[e] : row;
            notes->expert_of[row] = !once ? MOE_TWICE : !live ? MOE_ZERO : expert[g];
        }
    }
}
