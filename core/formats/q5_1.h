/* SPDX-License-Identifier: MIT
 * q5_1.h - 32 weights in 24 bytes: f16 d, f16 m, 32 high bits, nibbles; w = n * d + m. */
#ifndef OPREG_FORMAT_Q5_1_H
#define OPREG_FORMAT_Q5_1_H

#include "formats/dot.h"

OPREG_FN float q5_1_value(const uint8_t *block, int i, const opreg_side *side) {
    int high = (int)(load_u32(block + 4) >> i & 1u) << 4;
    float scaled = (float)(nibble_at(block + 8, i) | high) * f16_to_f32(load_u16(block));
    (void)side;
    return scaled + f16_to_f32(load_u16(block + 2));
}

OPREG_FN void q5_1_sums(const uint8_t *block, int part, const int8_t *q, const int16_t *q_sums,
                        const opreg_side *side, int32_t n[2]) {
    (void)part;
    (void)side;
    n[0] = nibble_dot(block + 8, q) + 16 * bit_dot(load_u32(block + 4), q);
    n[1] = q_sums[0] + q_sums[1];
}

OPREG_FN float q5_1_term(const uint8_t *block, int part, const int32_t n[2], float yd,
                         const opreg_side *side) {
    float scaled = f16_to_f32(load_u16(block)) * yd * (float)n[0];
    float shifted = f16_to_f32(load_u16(block + 2)) * yd * (float)n[1];
    (void)part;
    (void)side;
    return scaled + shifted;
}

#if !OPREG_ON_DEVICE
OPREG_FN const char *q5_1_invalid(const uint8_t *block, const opreg_side *side) {
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

#endif /* OPREG_FORMAT_Q5_1_H */
