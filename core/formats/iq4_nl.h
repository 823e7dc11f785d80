/* SPDX-License-Identifier: MIT
 * iq4_nl.h - 32 weights in 18 bytes: f16 d, nibbles into 16 uneven levels; w = d * level. */
#ifndef OPREG_FORMAT_IQ4_NL_H
#define OPREG_FORMAT_IQ4_NL_H

#include "formats/dot.h"
#include "formats/tables/kvalues_iq4nl.h"

OPREG_FN float iq4_nl_value(const uint8_t *block, int i, const opreg_side *side) {
    (void)side;
    return f16_to_f32(load_u16(block)) * (float)kvalues_iq4nl[nibble_at(block + 2, i)];
}

OPREG_FN void iq4_nl_sums(const uint8_t *block, int part, const int8_t *q, const int16_t *q_sums,
                          const opreg_side *side, int32_t n[2]) {
    (void)part;
    (void)q_sums;
    (void)side;
    n[0] = level_dot(kvalues_iq4nl, block + 2, q);
    n[1] = 0;
}

OPREG_FN float iq4_nl_term(const uint8_t *block, int part, const int32_t n[2], float yd,
                           const opreg_side *side) {
    (void)part;
    (void)side;
    return f16_to_f32(load_u16(block)) * yd * (float)n[0];
}

#if !OPREG_ON_DEVICE
OPREG_FN const char *iq4_nl_invalid(const uint8_t *block, const opreg_side *side) {
    (void)side;
    return f16_finite(load_u16(block)) ? NULL : "scale d is Inf or NaN";
}
#endif

#endif /* OPREG_FORMAT_IQ4_NL_H */
