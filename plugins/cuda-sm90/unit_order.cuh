/* SPDX-License-Identifier: MIT
 * unit_order.cuh - the order in which one thread can visit the units of a row and form the canonical
 * sum with few partial sums: the 32 accumulators in bit-reversed order, the units of each ascending.
 *
 * Accumulators are numbered by visit among 2^levels, the fewest that hold all; a tree over those
 * numbers adds neighbours first.  Accumulators without units are +0; the others, which begin at +0, are
 * never -0, so adding those changes nothing. */
#ifndef OPREG_SM90_UNIT_ORDER_CUH
#define OPREG_SM90_UNIT_ORDER_CUH

#include "device.h"

DEVICE uint32_t accumulator_of(uint32_t visit, uint32_t levels) {
    return levels == 0u ? 0u : __brev(visit) >> (32u - levels);
}

/* How many units are visited before this one; the whole wave asks. */
DEVICE uint32_t visits_before(uint32_t unit, uint32_t units) {
    uint32_t more = wave_ballot(accumulator_of(lane_index(), 5u) < units % 32u);
    uint32_t visit = accumulator_of(unit % 32u, 5u);
    return units / 32u * visit + (uint32_t)count_bits(more & ((1u << visit) - 1u)) + unit / 32u;
}

/* One unit in the order. */
struct unit_visit {
    uint32_t unit, visit, next; /* numbers of its accumulator and of the next one; 1 << levels ends */
    bool ends;                  /* its accumulator                                                 */
};

/* As write_visits packs it: unit in 20 bits, visit in 5, next in 6, ends. */
DEVICE uint32_t visited_unit(uint32_t packed) { return packed & 0xfffffu; }

DEVICE unit_visit unpack_visit(uint32_t packed) {
    return {visited_unit(packed), packed >> 20 & 31u, packed >> 25 & 63u, (packed >> 31) != 0u};
}

/* All units of a row in order; the whole block, a multiple of a wave. */
DEVICE void write_visits(uint32_t units, uint32_t levels, uint32_t *visits) {
    for (uint32_t first = 0; first < units; first += thread_count()) {
        uint32_t unit = first + thread_index(), at = visits_before(unit, units);
        if (unit < units) {
            uint32_t visit = accumulator_of(unit % 32u, levels), next = visit + 1u;
            while (next < 1u << levels && accumulator_of(next, levels) >= units) {
                next++;
            }
            visits[at] = unit | visit << 20 | next << 25 | (unit + 32u >= units ? 1u << 31 : 0u);
        }
    }
}

#endif /* OPREG_SM90_UNIT_ORDER_CUH */
