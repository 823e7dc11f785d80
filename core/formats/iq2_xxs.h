/* SPDX-License-Identifier: MIT
 * iq2_xxs.h - 256 weights in 66 bytes: f16 d, per 32 weights four grid indices and a word of signs
 * and scale. */
#ifndef OPREG_FORMAT_IQ2_XXS_H
#define OPREG_FORMAT_IQ2_XXS_H

#include "formats/iq.h"
#include "formats/tables/iq2xxs_grid.h"
#include "formats/tables/ksigns_iq2xs.h"

/* Group k: its grid row, its sign mask, and the 4-bit scale of its 32 weights. */
OPREG_FN uint64_t iq2_xxs_row(const uint8_t *block, int k) {
    return iq2xxs_grid[block[2 + 8 * (k >> 2) + (k & 3)]];
}

OPREG_FN uint32_t iq2_xxs_signs(const uint8_t *block, int k) {
    return ksigns_iq2xs[load_u32(block + 6 + 8 * (k >> 2)) >> 7 * (k & 3) & 127u];
}

OPREG_FN int iq2_xxs_scale(const uint8_t *block, int k) {
    return (int)(load_u32(block + 6 + 8 * (k >> 2)) >> 28);
}

OPREG_FN float iq2_xxs_value(const uint8_t *block, int i, const opreg_side *side) {
    int k = i >> 3;
    float d = f16_to_f32(load_u16(block));
    (void)side;
    return grid_value(d * (0.5f + (float)iq2_xxs_scale(block, k)) * 0.25f,
                      grid8_at(iq2_xxs_row(block, k), i & 7),
                      iq2_xxs_signs(block, k) >> (i & 7) & 1u);
}

OPREG_FN void iq2_xxs_sums(const uint8_t *block, int part, const int8_t *q, const int16_t *q_sums,
                           const opreg_side *side, int32_t n[2]) {
    int32_t n0 = 0;
    (void)part;
    (void)q_sums;
    (void)side;
    for (int k = 0; k < 32; k++) {
        int ls = 2 * iq2_xxs_scale(block, k) + 1;
        n0 += ls * grid_dot(iq2_xxs_row(block, k), iq2_xxs_signs(block, k), q + 8 * k);
    }
    n[0] = n0;
    n[1] = 0;
}

OPREG_FN float iq2_xxs_term(const uint8_t *block, int part, const int32_t n[2], float yd,
                            const opreg_side *side) {
    (void)part;
    (void)side;
    return f16_to_f32(load_u16(block)) * yd * (float)n[0];
}

#if !OPREG_ON_DEVICE
OPREG_FN const char *iq2_xxs_invalid(const uint8_t *block, const opreg_side *side) {
    (void)side;
    return f16_finite(load_u16(block)) ? NULL : "scale d is Inf or NaN";
}
#endif

#endif /* OPREG_FORMAT_IQ2_XXS_H */
