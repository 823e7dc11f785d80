/* SPDX-License-Identifier: MIT
 * rocmfp8.h - 32 weights in 33 bytes: signed bytes, one scale. */
#ifndef OPREG_FORMAT_ROCMFP8_H
#define OPREG_FORMAT_ROCMFP8_H

#include "formats/rocmfp.h"

OPREG_FN int rocmfp8_level(const uint8_t *block, int i) {
    return (int)(int8_t)block[i];
}

OPREG_FN float rocmfp8_value(const uint8_t *block, int i, const opreg_side *side) {
    (void)side;
    return (float)rocmfp8_level(block, i) * ue4m3_half(block[32]);
}

OPREG_FN void rocmfp8_sums(const uint8_t *block, int part, const int8_t *q, const int16_t *q_sums,
                           const opreg_side *side, int32_t n[2]) {
    int32_t dot = 0;
    (void)part;
    (void)q_sums;
    (void)side;
    for (int i = 0; i < 32; i++) {
        dot += rocmfp8_level(block, i) * q[i];
    }
    n[0] = dot;
    n[1] = 0;
}

OPREG_FN float rocmfp8_term(const uint8_t *block, int part, const int32_t n[2], float yd,
                            const opreg_side *side) {
    (void)part;
    (void)side;
    return ue4m3_half(block[32]) * yd * (float)n[0];
}

#if !OPREG_ON_DEVICE
OPREG_FN const char *rocmfp8_invalid(const uint8_t *block, const opreg_side *side) {
    (void)side;
    return rocmfp_scales_invalid(block[32], 0u);
}
#endif

#endif /* OPREG_FORMAT_ROCMFP8_H */
