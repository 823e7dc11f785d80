/* SPDX-License-Identifier: MIT
 * q5_k.h - 256 weights in 176 bytes: the head of Q4_K, a high-bit plane, nibbles;
 * w = d * scale * q - dmin * min. */
#ifndef OPREG_FORMAT_Q5_K_H
#define OPREG_FORMAT_Q5_K_H

#include "formats/q4_k.h"

OPREG_FN float q5_k_value(const uint8_t *block, int i, const opreg_side *side) {
    int j = i >> 5;
    int low = block[48 + 32 * (j >> 1) + (i & 31)] >> 4 * (j & 1) & 15;
    int code = low | (block[16 + (i & 31)] >> j & 1) << 4;
    float scaled = f16_to_f32(load_u16(block)) * (float)q4_k_scale(block, j) * (float)code;
    (void)side;
    return scaled - f16_to_f32(load_u16(block + 2)) * (float)q4_k_min(block, j);
}

OPREG_FN void q5_k_sums(const uint8_t *block, int part, const int8_t *q, const int16_t *q_sums,
                        const opreg_side *side, int32_t n[2]) {
    const uint8_t *high = block + 16;
    int32_t scaled = 0, shifted = 0;
    (void)part;
    (void)side;
    for (int j = 0; j < 8; j++) {
        const uint8_t *low = block + 48 + 32 * (j >> 1);
        int shift = 4 * (j & 1);
        int32_t dot = 0;
        for (int l = 0; l < 32; l++) {
            int code = (low[l] >> shift & 15) | (high[l] >> j & 1) << 4;
            dot += code * q[32 * j + l];
        }
        scaled += q4_k_scale(block, j) * dot;
        shifted += q4_k_min(block, j) * (q_sums[2 * j] + q_sums[2 * j + 1]);
    }
    n[0] = scaled;
    n[1] = shifted;
}

OPREG_FN float q5_k_term(const uint8_t *block, int part, const int32_t n[2], float yd,
                         const opreg_side *side) {
    return q4_k_term(block, part, n, yd, side);
}

#if !OPREG_ON_DEVICE
OPREG_FN const char *q5_k_invalid(const uint8_t *block, const opreg_side *side) {
    return q4_k_invalid(block, side);
}
#endif

#endif /* OPREG_FORMAT_Q5_K_H */
