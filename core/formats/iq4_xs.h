/* SPDX-License-Identifier: MIT
 * iq4_xs.h - 256 weights in 136 bytes: f16 d, eight scales of 6 bits, nibbles into the levels of
 * IQ4_NL; w = d * (scale - 32) * level. */
#ifndef OPREG_FORMAT_IQ4_XS_H
#define OPREG_FORMAT_IQ4_XS_H

#include "formats/dot.h"
#include "formats/tables/kvalues_iq4nl.h"

/* Scale of sub-block g of 32 weights, -32..31. */
OPREG_FN int iq4_xs_scale(const uint8_t *block, int g) {
    int low = block[4 + (g >> 1)] >> 4 * (g & 1) & 15;
    int high = (int)(load_u16(block + 2) >> 2 * g & 3u);
    return (low | high << 4) - 32;
}

OPREG_FN float iq4_xs_value(const uint8_t *block, int i, const opreg_side *side) {
    int g = i >> 5;
    float scale = f16_to_f32(load_u16(block)) * (float)iq4_xs_scale(block, g);
    (void)side;
    return scale * (float)kvalues_iq4nl[nibble_at(block + 8 + 16 * g, i & 31)];
}

OPREG_FN void iq4_xs_sums(const uint8_t *block, int part, const int8_t *q, const int16_t *q_sums,
                          const opreg_side *side, int32_t n[2]) {
    int32_t sum = 0;
    (void)part;
    (void)q_sums;
    (void)side;
    for (int g = 0; g < 8; g++) {
        sum += iq4_xs_scale(block, g) * level_dot(kvalues_iq4nl, block + 8 + 16 * g, q + 32 * g);
    }
    n[0] = sum;
    n[1] = 0;
}

OPREG_FN float iq4_xs_term(const uint8_t *block, int part, const int32_t n[2], float yd,
                           const opreg_side *side) {
    (void)part;
    (void)side;
    return f16_to_f32(load_u16(block)) * yd * (float)n[0];
}

#if !OPREG_ON_DEVICE
OPREG_FN const char *iq4_xs_invalid(const uint8_t *block, const opreg_side *side) {
    (void)side;
    return f16_finite(load_u16(block)) ? NULL : "scale d is Inf or NaN";
}
#endif

#endif /* OPREG_FORMAT_IQ4_XS_H */
