/* SPDX-License-Identifier: MIT
 * iq1_s.h - 256 weights in 50 bytes: f16 d, an 11-bit grid index per 8 weights, a scale and the
 * sign of an eighth per 32. */
#ifndef OPREG_FORMAT_IQ1_S_H
#define OPREG_FORMAT_IQ1_S_H

#include "formats/iq1.h"

/* The u16 of 32 weights: four 3-bit index parts, 3-bit scale, sign of the eighth. */
OPREG_FN uint32_t iq1_s_word(const uint8_t *block, int k) {
    return load_u16(block + 34 + 2 * (k >> 2));
}

OPREG_FN uint32_t iq1_s_index(const uint8_t *block, int k) {
    return block[2 + k] | (iq1_s_word(block, k) >> 3 * (k & 3) & 7u) << 8;
}

/* Sub-scale of group k, odd, 1 to 15. */
OPREG_FN int iq1_s_scale(const uint8_t *block, int k) {
    return 2 * (int)(iq1_s_word(block, k) >> 12 & 7u) + 1;
}

OPREG_FN float iq1_s_value(const uint8_t *block, int i, const opreg_side *side) {
    int k = i >> 3;
    float delta = iq1_s_word(block, k) >> 15 ? -0.125f : 0.125f;
    (void)side;
    return f16_to_f32(load_u16(block)) * (float)iq1_s_scale(block, k) *
           ((float)iq1_level(iq1_s_index(block, k), i & 7) + delta);
}

OPREG_FN void iq1_s_sums(const uint8_t *block, int part, const int8_t *q, const int16_t *q_sums,
                         const opreg_side *side, int32_t n[2]) {
    int32_t levels = 0, deltas = 0;
    (void)part;
    (void)side;
    for (int k = 0; k < 32; k++) {
        levels += iq1_s_scale(block, k) * iq1_dot(iq1_s_index(block, k), q + 8 * k);
    }
    for (int g = 0; g < 8; g++) {
        int32_t sum = iq1_s_scale(block, 4 * g) * (q_sums[2 * g] + q_sums[2 * g + 1]);
        deltas += iq1_s_word(block, 4 * g) >> 15 ? -sum : sum;
    }
    n[0] = levels;
    n[1] = deltas;
}

OPREG_FN float iq1_s_term(const uint8_t *block, int part, const int32_t n[2], float yd,
                          const opreg_side *side) {
    (void)part;
    (void)side;
    return iq1_term(f16_to_f32(load_u16(block)), n, yd);
}

#if !OPREG_ON_DEVICE
OPREG_FN const char *iq1_s_invalid(const uint8_t *block, const opreg_side *side) {
    (void)side;
    return f16_finite(load_u16(block)) ? NULL : "scale d is Inf or NaN";
}
#endif

#endif /* OPREG_FORMAT_IQ1_S_H */
