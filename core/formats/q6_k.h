/* SPDX-License-Identifier: MIT
 * q6_k.h - 256 weights in 210 bytes: low nibbles, high 2 bits, sixteen i8 scales, f16 d;
 * w = d * scale * (q - 32). */
#ifndef OPREG_FORMAT_Q6_K_H
#define OPREG_FORMAT_Q6_K_H

#include "formats/dot.h"

OPREG_FN float q6_k_value(const uint8_t *block, int i, const opreg_side *side) {
    int half = i >> 7, r = i & 127;
    int low = block[64 * half + (r & 63)] >> 4 * (r >> 6) & 15;
    int high = block[128 + 32 * half + (r & 31)] >> 2 * (r >> 5) & 3;
    float scale = f16_to_f32(load_u16(block + 208)) * (float)(int8_t)block[192 + (i >> 4)];
    (void)side;
    return scale * (float)((low | high << 4) - 32);
}

OPREG_FN void q6_k_sums(const uint8_t *block, int part, const int8_t *q, const int16_t *q_sums,
                        const opreg_side *side, int32_t n[2]) {
    int32_t sum = 0;
    (void)part;
    (void)side;
    for (int j = 0; j < 16; j++) {
        const uint8_t *low = block + 64 * (j >> 3) + 16 * (j & 3);
        const uint8_t *high = block + 128 + 32 * (j >> 3) + 16 * (j & 1);
        int low_shift = 4 * (j >> 2 & 1), high_shift = 2 * (j >> 1 & 3);
        int32_t dot = 0;
        for (int l = 0; l < 16; l++) {
            int code = (low[l] >> low_shift & 15) | (high[l] >> high_shift & 3) << 4;
            dot += code * q[16 * j + l];
        }
        sum += (int8_t)block[192 + j] * (dot - 32 * q_sums[j]);
    }
    n[0] = sum;
    n[1] = 0;
}

OPREG_FN float q6_k_term(const uint8_t *block, int part, const int32_t n[2], float yd,
                         const opreg_side *side) {
    (void)part;
    (void)side;
    return f16_to_f32(load_u16(block + 208)) * yd * (float)n[0];
}

#if !OPREG_ON_DEVICE
OPREG_FN const char *q6_k_invalid(const uint8_t *block, const opreg_side *side) {
    (void)side;
    return f16_finite(load_u16(block + 208)) ? NULL : "scale d is Inf or NaN";
}
#endif

#endif /* OPREG_FORMAT_Q6_K_H */
