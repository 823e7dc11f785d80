/* SPDX-License-Identifier: MIT
 * q2_0.h - 64 weights in 18 bytes: f16 d, 2-bit codes; w = (c - 1) * d. */
#ifndef OPREG_FORMAT_Q2_0_H
#define OPREG_FORMAT_Q2_0_H

#include "formats/dot.h"

OPREG_FN float q2_0_value(const uint8_t *block, int i, const opreg_side *side) {
    (void)side;
    return (float)((block[2 + (i >> 2)] >> 2 * (i & 3) & 3) - 1) * f16_to_f32(load_u16(block));
}

OPREG_FN void q2_0_sums(const uint8_t *block, int part, const int8_t *q, const int16_t *q_sums,
                        const opreg_side *side, int32_t n[2]) {
    const uint8_t *codes = block + 2 + 8 * part;
    int32_t dot = 0;
    (void)side;
    for (int i = 0; i < 32; i++) {
        dot += (codes[i >> 2] >> 2 * (i & 3) & 3) * q[i];
    }
    n[0] = dot - (q_sums[0] + q_sums[1]);
    n[1] = 0;
}

OPREG_FN float q2_0_term(const uint8_t *block, int part, const int32_t n[2], float yd,
                         const opreg_side *side) {
    (void)part;
    (void)side;
    return f16_to_f32(load_u16(block)) * yd * (float)n[0];
}

#if !OPREG_ON_DEVICE
OPREG_FN const char *q2_0_invalid(const uint8_t *block, const opreg_side *side) {
    (void)side;
    return f16_finite(load_u16(block)) ? NULL : "scale d is Inf or NaN";
}
#endif

#endif /* OPREG_FORMAT_Q2_0_H */
