/* SPDX-License-Identifier: MIT
 * q4_1.h - 32 weights in 20 bytes: f16 d, f16 m, nibbles; w = n * d + m. */
#ifndef OPREG_FORMAT_Q4_1_H
#define OPREG_FORMAT_Q4_1_H

#include "formats/dot.h"

OPREG_FN float q4_1_value(const uint8_t *block, int i, const opreg_side *side) {
    float scaled = (float)nibble_at(block + 4, i) * f16_to_f32(load_u16(block));
    (void)side;
    return scaled + f16_to_f32(load_u16(block + 2));
}

OPREG_FN void q4_1_sums(const uint8_t *block, int part, const int8_t *q, const int16_t *q_sums,
                        const opreg_side *side, int32_t n[2]) {
    (void)part;
    (void)side;
    n[0] = nibble_dot(block + 4, q);
    n[1] = q_sums[0] + q_sums[1];
}

OPREG_FN float q4_1_term(const uint8_t *block, int part, const int32_t n[2], float yd,
                         const opreg_side *side) {
    float scaled = f16_to_f32(load_u16(block)) * yd * (float)n[0];
    float shifted = f16_to_f32(load_u16(block + 2)) * yd * (float)n[1];
    (void)part;
    (void)side;
    return scaled + shifted;
}

#if !OPREG_ON_DEVICE
OPREG_FN const char *q4_1_invalid(const uint8_t *block, const opreg_side *side) {
    (void)side;
    if (!f16_finite(load_u16(block))) {
        return "scale d is Inf or NaN";
    }
    if (!f16_finite(load_u16(block + 2))) {
        return "offset m is Inf or NaN";
    }
    return NULL;
}
#endif

#endif /* OPREG_FORMAT_Q4_1_H */
