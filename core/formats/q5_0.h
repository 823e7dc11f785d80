/* SPDX-License-Identifier: MIT
 * q5_0.h - 32 weights in 22 bytes: f16 d, 32 high bits, nibbles; w = (n - 16) * d. */
#ifndef OPREG_FORMAT_Q5_0_H
#define OPREG_FORMAT_Q5_0_H

#include "formats/dot.h"

OPREG_FN float q5_0_value(const uint8_t *block, int i, const opreg_side *side) {
    int high = (int)(load_u32(block + 2) >> i & 1u) << 4;
    (void)side;
    return (float)((nibble_at(block + 6, i) | high) - 16) * f16_to_f32(load_u16(block));
}

OPREG_FN void q5_0_sums(const uint8_t *block, int part, const int8_t *q, const int16_t *q_sums,
                        const opreg_side *side, int32_t n[2]) {
    (void)part;
    (void)side;
    n[0] = nibble_dot(block + 6, q) + 16 * bit_dot(load_u32(block + 2), q) -
           16 * (q_sums[0] + q_sums[1]);
    n[1] = 0;
}

OPREG_FN float q5_0_term(const uint8_t *block, int part, const int32_t n[2], float yd,
                         const opreg_side *side) {
    (void)part;
    (void)side;
    return f16_to_f32(load_u16(block)) * yd * (float)n[0];
}

#if !OPREG_ON_DEVICE
OPREG_FN const char *q5_0_invalid(const uint8_t *block, const opreg_side *side) {
    (void)side;
    return f16_finite(load_u16(block)) ? NULL : "scale d is Inf or NaN";
}
#endif

#endif /* OPREG_FORMAT_Q5_0_H */
