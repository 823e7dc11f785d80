/* SPDX-License-Identifier: MIT
 * q8_0.h - 32 weights in 34 bytes: f16 d, i8 codes; w = q * d. */
#ifndef OPREG_FORMAT_Q8_0_H
#define OPREG_FORMAT_Q8_0_H

#include "formats/dot.h"

OPREG_FN float q8_0_value(const uint8_t *block, int i, const opreg_side *side) {
    (void)side;
    return (float)(int8_t)block[2 + i] * f16_to_f32(load_u16(block));
}

OPREG_FN void q8_0_sums(const uint8_t *block, int part, const int8_t *q, const int16_t *q_sums,
                        const opreg_side *side, int32_t n[2]) {
    int32_t dot = 0;
    (void)part;
    (void)q_sums;
    (void)side;
    for (int i = 0; i < 32; i++) {
        dot += (int8_t)block[2 + i] * q[i];
    }
    n[0] = dot;
    n[1] = 0;
}

OPREG_FN float q8_0_term(const uint8_t *block, int part, const int32_t n[2], float yd,
                         const opreg_side *side) {
    (void)part;
    (void)side;
    return f16_to_f32(load_u16(block)) * yd * (float)n[0];
}

#if !OPREG_ON_DEVICE
OPREG_FN const char *q8_0_invalid(const uint8_t *block, const opreg_side *side) {
    (void)side;
    return f16_finite(load_u16(block)) ? NULL : "scale d is Inf or NaN";
}
#endif

#endif /* OPREG_FORMAT_Q8_0_H */
