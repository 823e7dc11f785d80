/* SPDX-License-Identifier: MIT
 * q1_0.h - 128 weights in 18 bytes: f16 d, one bit a weight; w = bit ? d : -d. */
#ifndef OPREG_FORMAT_Q1_0_H
#define OPREG_FORMAT_Q1_0_H

#include "formats/dot.h"

OPREG_FN float q1_0_value(const uint8_t *block, int i, const opreg_side *side) {
    float d = f16_to_f32(load_u16(block));
    (void)side;
    return block[2 + (i >> 3)] >> (i & 7) & 1 ? d : -d;
}

OPREG_FN void q1_0_sums(const uint8_t *block, int part, const int8_t *q, const int16_t *q_sums,
                        const opreg_side *side, int32_t n[2]) {
    (void)side;
    n[0] = 2 * bit_dot(load_u32(block + 2 + 4 * part), q) - (q_sums[0] + q_sums[1]);
    n[1] = 0;
}

OPREG_FN float q1_0_term(const uint8_t *block, int part, const int32_t n[2], float yd,
                         const opreg_side *side) {
    (void)part;
    (void)side;
    return f16_to_f32(load_u16(block)) * yd * (float)n[0];
}

#if !OPREG_ON_DEVICE
OPREG_FN const char *q1_0_invalid(const uint8_t *block, const opreg_side *side) {
    (void)side;
    return f16_finite(load_u16(block)) ? NULL : "scale d is Inf or NaN";
}
#endif

#endif /* OPREG_FORMAT_Q1_0_H */
