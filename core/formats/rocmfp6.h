/* SPDX-License-Identifier: MIT
 * rocmfp6.h - 32 weights in 26 bytes: 6-bit sign and magnitude, a scale for each 16 weights. */
#ifndef OPREG_FORMAT_ROCMFP6_H
#define OPREG_FORMAT_ROCMFP6_H

#include "formats/rocmfp.h"

/* Level of weight i: 5 bits of magnitude, then the sign; code 32 is 0. */
OPREG_FN int rocmfp6_at(const uint8_t *block, int i) {
    uint32_t code = code_at(block, i, 6);
    int magnitude = (int)(code & 31u);
    return code & 32u ? -magnitude : magnitude;
}

OPREG_FN float rocmfp6_value(const uint8_t *block, int i, const opreg_side *side) {
    (void)side;
    return (float)rocmfp6_at(block, i) * ue4m3_half(block[24 + (i >> 4)]);
}

/* n[h] is the dot of the 16 weights that share a scale. */
OPREG_FN void rocmfp6_sums(const uint8_t *block, int part, const int8_t *q, const int16_t *q_sums,
                           const opreg_side *side, int32_t n[2]) {
    int32_t low = 0, high = 0;
    (void)part;
    (void)q_sums;
    (void)side;
    for (int i = 0; i < 16; i++) {
        low += rocmfp6_at(block, i) * q[i];
        high += rocmfp6_at(block, i + 16) * q[i + 16];
    }
    n[0] = low;
    n[1] = high;
}

OPREG_FN float rocmfp6_term(const uint8_t *block, int part, const int32_t n[2], float yd,
                            const opreg_side *side) {
    (void)part;
    (void)side;
    return two_scale_term(ue4m3_half(block[24]), ue4m3_half(block[25]), n, yd);
}

#if !OPREG_ON_DEVICE
OPREG_FN const char *rocmfp6_invalid(const uint8_t *block, const opreg_side *side) {
    (void)side;
    return rocmfp_scales_invalid(block[24], block[25]);
}
#endif

#endif /* OPREG_FORMAT_ROCMFP6_H */
