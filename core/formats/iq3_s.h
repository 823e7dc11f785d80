/* SPDX-License-Identifier: MIT
 * iq3_s.h - 256 weights in 110 bytes: f16 d, a 9-bit grid index per 4 weights, a sign mask per 8,
 * a scale per 32. */
#ifndef OPREG_FORMAT_IQ3_S_H
#define OPREG_FORMAT_IQ3_S_H

#include "formats/iq.h"
#include "formats/tables/iq3s_grid.h"

/* Group k: its grid row, its sign mask, and the 4-bit scale of its 32 weights. */
OPREG_FN uint64_t iq3_s_row(const uint8_t *block, int k) {
    uint32_t high = (uint32_t)block[66 + (k >> 2)] >> 2 * (k & 3);
    return grid_pair(iq3s_grid[block[2 + 2 * k] | (high & 1u) << 8],
                     iq3s_grid[block[3 + 2 * k] | (high & 2u) << 7]);
}

OPREG_FN uint32_t iq3_s_signs(const uint8_t *block, int k) {
    return block[74 + k];
}

OPREG_FN int iq3_s_scale(const uint8_t *block, int k) {
    return block[106 + (k >> 3)] >> 4 * (k >> 2 & 1) & 15;
}

OPREG_FN float iq3_s_value(const uint8_t *block, int i, const opreg_side *side) {
    int k = i >> 3;
    float d = f16_to_f32(load_u16(block));
    (void)side;
    return grid_value(d * (float)(1 + 2 * iq3_s_scale(block, k)),
                      grid8_at(iq3_s_row(block, k), i & 7), iq3_s_signs(block, k) >> (i & 7) & 1u);
}

OPREG_FN void iq3_s_sums(const uint8_t *block, int part, const int8_t *q, const int16_t *q_sums,
                         const opreg_side *side, int32_t n[2]) {
    int32_t n0 = 0;
    (void)part;
    (void)q_sums;
    (void)side;
    for (int k = 0; k < 32; k++) {
        int ls = 2 * iq3_s_scale(block, k) + 1;
        n0 += ls * grid_dot(iq3_s_row(block, k), iq3_s_signs(block, k), q + 8 * k);
    }
    n[0] = n0;
    n[1] = 0;
}

OPREG_FN float iq3_s_term(const uint8_t *block, int part, const int32_t n[2], float yd,
                          const opreg_side *side) {
    (void)part;
    (void)side;
    return f16_to_f32(load_u16(block)) * yd * (float)n[0];
}

#if !OPREG_ON_DEVICE
OPREG_FN const char *iq3_s_invalid(const uint8_t *block, const opreg_side *side) {
    (void)side;
    return f16_finite(load_u16(block)) ? NULL : "scale d is Inf or NaN";
}
#endif

#endif /* OPREG_FORMAT_IQ3_S_H */
