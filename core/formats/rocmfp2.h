/* SPDX-License-Identifier: MIT
 * rocmfp2.h - 32 weights in 10 bytes: 2-bit codes and two scale bytes, in the four readings that
 * projects have of them. */
#ifndef OPREG_FORMAT_ROCMFP2_H
#define OPREG_FORMAT_ROCMFP2_H

#include "formats/rocmfp.h"

OPREG_FN int rocmfp2_code(const uint8_t *block, int i) {
    return block[i >> 2] >> 2 * (i & 3) & 3;
}

/* Level of a code; the affine reading keeps the code. */
OPREG_FN int rocmfp2_level(int code, uint32_t dialect) {
    if (dialect == OPREG_DIALECT_ROCMFP2_AFFINE) {
        return code;
    }
    if (dialect == OPREG_DIALECT_ROCMFP2_S40) {
        return (code & 1) == (code >> 1) ? 8 * (code & 1) - 4 : 2 * (code >> 1) - 1;
    }
    return code - 1;
}

/* In the default reading bit 7 of a scale byte negates its half. */
OPREG_FN float rocmfp2_scale(uint32_t byte, uint32_t dialect) {
    if (dialect == OPREG_DIALECT_DEFAULT || dialect == OPREG_DIALECT_ROCMFP2_SIGNBIT) {
        float scale = ue4m3_half(byte & 127u);
        return byte & 128u ? -scale : scale;
    }
    return ue4m3_half(byte);
}

OPREG_FN float rocmfp2_value(const uint8_t *block, int i, const opreg_side *side) {
    uint32_t dialect = side->dialect;
    float level = (float)rocmfp2_level(rocmfp2_code(block, i), dialect);
    if (dialect == OPREG_DIALECT_ROCMFP2_AFFINE) {
        return level * ue4m3_half(block[8]) - ue4m3_half(block[9]);
    }
    return level * rocmfp2_scale(block[8 + (i >> 4)], dialect);
}

/* n[h] is the dot of half h; in the affine reading n[0] is the dot of all codes and n[1] the sum of
 * the activations. */
OPREG_FN void rocmfp2_sums(const uint8_t *block, int part, const int8_t *q, const int16_t *q_sums,
                           const opreg_side *side, int32_t n[2]) {
    int32_t low = 0, high = 0;
    (void)part;
    for (int i = 0; i < 16; i++) {
        low += rocmfp2_level(rocmfp2_code(block, i), side->dialect) * q[i];
        high += rocmfp2_level(rocmfp2_code(block, i + 16), side->dialect) * q[i + 16];
    }
    if (side->dialect == OPREG_DIALECT_ROCMFP2_AFFINE) {
        low += high;
        high = q_sums[0] + q_sums[1];
    }
    n[0] = low;
    n[1] = high;
}

OPREG_FN float rocmfp2_term(const uint8_t *block, int part, const int32_t n[2], float yd,
                            const opreg_side *side) {
    uint32_t dialect = side->dialect;
    (void)part;
    if (dialect == OPREG_DIALECT_ROCMFP2_AFFINE) {
        return ue4m3_half(block[8]) * yd * (float)n[0] - ue4m3_half(block[9]) * yd * (float)n[1];
    }
    return two_scale_term(rocmfp2_scale(block[8], dialect), rocmfp2_scale(block[9], dialect), n,
                          yd);
}

#if !OPREG_ON_DEVICE
OPREG_FN const char *rocmfp2_invalid(const uint8_t *block, const opreg_side *side) {
    uint32_t first = block[8], second = block[9];
    if (side->dialect == OPREG_DIALECT_DEFAULT || side->dialect == OPREG_DIALECT_ROCMFP2_SIGNBIT) {
        first &= 127u;
        second &= 127u;
    }
    return rocmfp_scales_invalid(first, second);
}
#endif

#endif /* OPREG_FORMAT_ROCMFP2_H */
