/* SPDX-License-Identifier: MIT
 * q4_k.h - 256 weights in 144 bytes: f16 d, f16 dmin, eight (scale, min) pairs of 6 bits, nibbles;
 * w = d * scale * q - dmin * min.  Q5_K shares the head. */
#ifndef OPREG_FORMAT_Q4_K_H
#define OPREG_FORMAT_Q4_K_H

#include "formats/dot.h"

/* Scale of sub-block j of 32 weights, 0..63. */
OPREG_FN int q4_k_scale(const uint8_t *block, int j) {
    const uint8_t *a = block + 4;
    return j < 4 ? a[j] & 63 : (a[j + 4] & 15) | a[j - 4] >> 6 << 4;
}

/* Its min, 0..63. */
OPREG_FN int q4_k_min(const uint8_t *block, int j) {
    const uint8_t *a = block + 4;
    return j < 4 ? a[j + 4] & 63 : a[j + 4] >> 4 | a[j] >> 6 << 4;
}

OPREG_FN float q4_k_value(const uint8_t *block, int i, const opreg_side *side) {
    int j = i >> 5;
    int code = block[16 + 32 * (j >> 1) + (i & 31)] >> 4 * (j & 1) & 15;
    float scaled = f16_to_f32(load_u16(block)) * (float)q4_k_scale(block, j) * (float)code;
    (void)side;
    return scaled - f16_to_f32(load_u16(block + 2)) * (float)q4_k_min(block, j);
}

OPREG_FN void q4_k_sums(const uint8_t *block, int part, const int8_t *q, const int16_t *q_sums,
                        const opreg_side *side, int32_t n[2]) {
    int32_t scaled = 0, shifted = 0;
    (void)part;
    (void)side;
    for (int j = 0; j < 8; j++) {
        const uint8_t *codes = block + 16 + 32 * (j >> 1);
        int shift = 4 * (j & 1);
        int32_t dot = 0;
        for (int l = 0; l < 32; l++) {
            dot += (codes[l] >> shift & 15) * q[32 * j + l];
        }
        scaled += q4_k_scale(block, j) * dot;
        shifted += q4_k_min(block, j) * (q_sums[2 * j] + q_sums[2 * j + 1]);
    }
    n[0] = scaled;
    n[1] = shifted;
}

OPREG_FN float q4_k_term(const uint8_t *block, int part, const int32_t n[2], float yd,
                         const opreg_side *side) {
    float scaled = f16_to_f32(load_u16(block)) * yd * (float)n[0];
    float shifted = f16_to_f32(load_u16(block + 2)) * yd * (float)n[1];
    (void)part;
    (void)side;
    return scaled - shifted;
}

#if !OPREG_ON_DEVICE
OPREG_FN const char *q4_k_invalid(const uint8_t *block, const opreg_side *side) {
    (void)side;
    if (!f16_finite(load_u16(block))) {
        return "scale d is Inf or NaN";
    }
    if (!f16_finite(load_u16(block + 2))) {
        return "min scale dmin is Inf or NaN";
    }
    return NULL;
}
#endif

#endif /* OPREG_FORMAT_Q4_K_H */
