/* SPDX-License-Identifier: MIT
 * q3_k.h - 256 weights in 110 bytes: high-bit plane, 2-bit plane, 16 scales of 6 bits, f16 d;
 * w = d * (scale - 32) * (q - 4). */
#ifndef OPREG_FORMAT_Q3_K_H
#define OPREG_FORMAT_Q3_K_H

#include "formats/dot.h"

/* Scale of sub-block j of 16 weights, -32..31. */
OPREG_FN int q3_k_scale(const uint8_t *block, int j) {
    int low = block[96 + (j & 7)] >> 4 * (j >> 3) & 15;
    int high = block[104 + (j & 3)] >> 2 * (j >> 2) & 3;
    return (low | high << 4) - 32;
}

OPREG_FN float q3_k_value(const uint8_t *block, int i, const opreg_side *side) {
    int low = block[32 + 32 * (i >> 7) + (i & 31)] >> 2 * (i >> 5 & 3) & 3;
    int high = block[i & 31] >> (i >> 5) & 1;
    float scale = f16_to_f32(load_u16(block + 108)) * (float)q3_k_scale(block, i >> 4);
    (void)side;
    return scale * (float)((low | high << 2) - 4);
}

OPREG_FN void q3_k_sums(const uint8_t *block, int part, const int8_t *q, const int16_t *q_sums,
                        const opreg_side *side, int32_t n[2]) {
    int32_t sum = 0;
    (void)part;
    (void)side;
    for (int j = 0; j < 16; j++) {
        const uint8_t *low = block + 32 + 32 * (j >> 3) + 16 * (j & 1);
        const uint8_t *high = block + 16 * (j & 1);
        int low_shift = 2 * (j >> 1 & 3), high_shift = j >> 1;
        int32_t dot = 0;
        for (int l = 0; l < 16; l++) {
            int code = (low[l] >> low_shift & 3) | (high[l] >> high_shift & 1) << 2;
            dot += code * q[16 * j + l];
        }
        sum += q3_k_scale(block, j) * (dot - 4 * q_sums[j]);
    }
    n[0] = sum;
    n[1] = 0;
}

OPREG_FN float q3_k_term(const uint8_t *block, int part, const int32_t n[2], float yd,
                         const opreg_side *side) {
    (void)part;
    (void)side;
    return f16_to_f32(load_u16(block + 108)) * yd * (float)n[0];
}

#if !OPREG_ON_DEVICE
OPREG_FN const char *q3_k_invalid(const uint8_t *block, const opreg_side *side) {
    (void)side;
    return f16_finite(load_u16(block + 108)) ? NULL : "scale d is Inf or NaN";
}
#endif

#endif /* OPREG_FORMAT_Q3_K_H */
