/* SPDX-License-Identifier: MIT
 * rocmfp3.h - 32 weights in 14 bytes: 3-bit codes for 0, 1, 2, 4 and their negatives, a scale for
 * each 16 weights. */
#ifndef OPREG_FORMAT_ROCMFP3_H
#define OPREG_FORMAT_ROCMFP3_H

#include "formats/rocmfp.h"

/* Level of weight i. */
OPREG_FN int rocmfp3_at(const uint8_t *block, int i) {
    return rocmfp3_level(code_at(block, i, 3));
}

OPREG_FN float rocmfp3_value(const uint8_t *block, int i, const opreg_side *side) {
    (void)side;
    return (float)rocmfp3_at(block, i) * ue4m3_half(block[12 + (i >> 4)]);
}

/* n[h] is the dot of the 16 weights that share a scale. */
OPREG_FN void rocmfp3_sums(const uint8_t *block, int part, const int8_t *q, const int16_t *q_sums,
                           const opreg_side *side, int32_t n[2]) {
    int32_t low = 0, high = 0;
    (void)part;
    (void)q_sums;
    (void)side;
    for (int i = 0; i < 16; i++) {
        low += rocmfp3_at(block, i) * q[i];
        high += rocmfp3_at(block, i + 16) * q[i + 16];
    }
    n[0] = low;
    n[1] = high;
}

OPREG_FN float rocmfp3_term(const uint8_t *block, int part, const int32_t n[2], float yd,
                            const opreg_side *side) {
    (void)part;
    (void)side;
    return two_scale_term(ue4m3_half(block[12]), ue4m3_half(block[13]), n, yd);
}

#if !OPREG_ON_DEVICE
OPREG_FN const char *rocmfp3_invalid(const uint8_t *block, const opreg_side *side) {
    (void)side;
    return rocmfp_scales_invalid(block[12], block[13]);
}
#endif

#endif /* OPREG_FORMAT_ROCMFP3_H */
