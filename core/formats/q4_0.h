/* SPDX-License-Identifier: MIT
 * q4_0.h - 32 weights in 18 bytes: f16 d, nibbles; w = (n - 8) * d. */
#ifndef OPREG_FORMAT_Q4_0_H
#define OPREG_FORMAT_Q4_0_H

#include "formats/dot.h"

OPREG_FN float q4_0_value(const uint8_t *block, int i, const opreg_side *side) {
    (void)side;
    return (float)(nibble_at(block + 2, i) - 8) * f16_to_f32(load_u16(block));
}

OPREG_FN void q4_0_sums(const uint8_t *block, int part, const int8_t *q, const int16_t *q_sums,
                        const opreg_side *side, int32_t n[2]) {
    (void)part;
    (void)side;
    n[0] = nibble_dot(block + 2, q) - 8 * (q_sums[0] + q_sums[1]);
    n[1] = 0;
}

OPREG_FN float q4_0_term(const uint8_t *block, int part, const int32_t n[2], float yd,
                         const opreg_side *side) {
    (void)part;
    (void)side;
    return f16_to_f32(load_u16(block)) * yd * (float)n[0];
}

#if !OPREG_ON_DEVICE
OPREG_FN const char *q4_0_invalid(const uint8_t *block, const opreg_side *side) {
    (void)side;
    return f16_finite(load_u16(block)) ? NULL : "scale d is Inf or NaN";
}
#endif

#endif /* OPREG_FORMAT_Q4_0_H */
