/* SPDX-License-Identifier: MIT
 * q2_k.h - 256 weights in 84 bytes: 16 (scale, min) nibble pairs, 2-bit codes, f16 d, f16 dmin;
 * w = d * scale * q - dmin * min. */
#ifndef OPREG_FORMAT_Q2_K_H
#define OPREG_FORMAT_Q2_K_H

#include "formats/dot.h"

OPREG_FN float q2_k_value(const uint8_t *block, int i, const opreg_side *side) {
    int pair = block[i >> 4];
    int code = block[16 + 32 * (i >> 7) + (i & 31)] >> 2 * (i >> 5 & 3) & 3;
    float scaled = f16_to_f32(load_u16(block + 80)) * (float)(pair & 15) * (float)code;
    (void)side;
    return scaled - f16_to_f32(load_u16(block + 82)) * (float)(pair >> 4);
}

OPREG_FN void q2_k_sums(const uint8_t *block, int part, const int8_t *q, const int16_t *q_sums,
                        const opreg_side *side, int32_t n[2]) {
    int32_t scaled = 0, shifted = 0;
    (void)part;
    (void)side;
    for (int j = 0; j < 16; j++) {
        const uint8_t *codes = block + 16 + 32 * (j >> 3) + 16 * (j & 1);
        int shift = 2 * (j >> 1 & 3);
        int32_t dot = 0;
        for (int l = 0; l < 16; l++) {
            dot += (codes[l] >> shift & 3) * q[16 * j + l];
        }
        scaled += (block[j] & 15) * dot;
        shifted += (block[j] >> 4) * q_sums[j];
    }
    n[0] = scaled;
    n[1] = shifted;
}

OPREG_FN float q2_k_term(const uint8_t *block, int part, const int32_t n[2], float yd,
                         const opreg_side *side) {
    float scaled = f16_to_f32(load_u16(block + 80)) * yd * (float)n[0];
    float shifted = f16_to_f32(load_u16(block + 82)) * yd * (float)n[1];
    (void)part;
    (void)side;
    return scaled - shifted;
}

#if !OPREG_ON_DEVICE
OPREG_FN const char *q2_k_invalid(const uint8_t *block, const opreg_side *side) {
    (void)side;
    if (!f16_finite(load_u16(block + 80))) {
        return "scale d is Inf or NaN";
    }
    if (!f16_finite(load_u16(block + 82))) {
        return "min scale dmin is Inf or NaN";
    }
    return NULL;
}
#endif

#endif /* OPREG_FORMAT_Q2_K_H */
