/* SPDX-License-Identifier: MIT
 * iq1_m.h - 256 weights in 56 bytes: an 11-bit grid index and the sign of an eighth per 8 weights,
 * a scale per 16, f16 d spread over the scale words. */
#ifndef OPREG_FORMAT_IQ1_M_H
#define OPREG_FORMAT_IQ1_M_H

#include "formats/iq1.h"

/* The f16 bits of d: four bits from the top of each scale word. */
OPREG_FN uint32_t iq1_m_d(const uint8_t *block) {
    return load_u16(block + 48) >> 12 | (load_u16(block + 50) >> 12) << 4 |
           (load_u16(block + 52) >> 12) << 8 | (load_u16(block + 54) >> 12) << 12;
}

/* Group k: three index bits, then the sign of its eighth. */
OPREG_FN uint32_t iq1_m_high(const uint8_t *block, int k) {
    return (uint32_t)block[32 + (k >> 1)] >> 4 * (k & 1) & 15u;
}

OPREG_FN uint32_t iq1_m_index(const uint8_t *block, int k) {
    return block[k] | (iq1_m_high(block, k) & 7u) << 8;
}

/* Sub-scale of group k, odd, 1 to 15. */
OPREG_FN int iq1_m_scale(const uint8_t *block, int k) {
    uint32_t word = load_u16(block + 48 + 2 * (k >> 3));
    return 2 * (int)(word >> 3 * (k >> 1 & 3) & 7u) + 1;
}

OPREG_FN float iq1_m_value(const uint8_t *block, int i, const opreg_side *side) {
    int k = i >> 3;
    float delta = iq1_m_high(block, k) & 8u ? -0.125f : 0.125f;
    (void)side;
    return f16_to_f32(iq1_m_d(block)) * (float)iq1_m_scale(block, k) *
           ((float)iq1_level(iq1_m_index(block, k), i & 7) + delta);
}

OPREG_FN void iq1_m_sums(const uint8_t *block, int part, const int8_t *q, const int16_t *q_sums,
                         const opreg_side *side, int32_t n[2]) {
    int32_t levels = 0, deltas = 0;
    (void)part;
    (void)q_sums;
    (void)side;
    for (int k = 0; k < 32; k++) {
        int32_t scale = iq1_m_scale(block, k), sum = 0;
        for (int j = 0; j < 8; j++) {
            sum += q[8 * k + j];
        }
        levels += scale * iq1_dot(iq1_m_index(block, k), q + 8 * k);
        deltas += scale * (iq1_m_high(block, k) & 8u ? -sum : sum);
    }
    n[0] = levels;
    n[1] = deltas;
}

OPREG_FN float iq1_m_term(const uint8_t *block, int part, const int32_t n[2], float yd,
                          const opreg_side *side) {
    (void)part;
    (void)side;
    return iq1_term(f16_to_f32(iq1_m_d(block)), n, yd);
}

#if !OPREG_ON_DEVICE
OPREG_FN const char *iq1_m_invalid(const uint8_t *block, const opreg_side *side) {
    (void)side;
    return f16_finite(iq1_m_d(block)) ? NULL : "scale d is Inf or NaN";
}
#endif

#endif /* OPREG_FORMAT_IQ1_M_H */
