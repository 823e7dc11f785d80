/* SPDX-License-Identifier: MIT
 * rocmfp4.h - 32 weights in 18 bytes: nibbles into 16 levels, a scale for each 16 weights. */
#ifndef OPREG_FORMAT_ROCMFP4_H
#define OPREG_FORMAT_ROCMFP4_H

#include "formats/rocmfp.h"
#include "formats/tables/rocmfp4_codebook.h"

/* OPREG_DIALECT_ROCMFP4_HIP ignores bit 7 and takes 0x7F as 240; otherwise such bytes are refused.
 */
OPREG_FN float rocmfp4_scale(uint32_t byte, const opreg_side *side) {
    return side->dialect == OPREG_DIALECT_ROCMFP4_HIP ? ue4m3_half_7bit(byte) : ue4m3_half(byte);
}

OPREG_FN float rocmfp4_value(const uint8_t *block, int i, const opreg_side *side) {
    return (float)rocmfp4_codebook[nibble_at(block, i)] * rocmfp4_scale(block[16 + (i >> 4)], side);
}

/* n[h] is the dot of the 16 weights that share a scale. */
OPREG_FN void rocmfp4_sums(const uint8_t *block, int part, const int8_t *q, const int16_t *q_sums,
                           const opreg_side *side, int32_t n[2]) {
    int32_t low = 0, high = 0;
    (void)part;
    (void)q_sums;
    (void)side;
    for (int i = 0; i < 16; i++) {
        low += rocmfp4_codebook[block[i] & 15] * q[i];
        high += rocmfp4_codebook[block[i] >> 4] * q[i + 16];
    }
    n[0] = low;
    n[1] = high;
}

OPREG_FN float rocmfp4_term(const uint8_t *block, int part, const int32_t n[2], float yd,
                            const opreg_side *side) {
    (void)part;
    return two_scale_term(rocmfp4_scale(block[16], side), rocmfp4_scale(block[17], side), n, yd);
}

#if !OPREG_ON_DEVICE
OPREG_FN const char *rocmfp4_invalid(const uint8_t *block, const opreg_side *side) {
    if (side->dialect == OPREG_DIALECT_ROCMFP4_HIP) {
        return NULL;
    }
    return rocmfp_scales_invalid(block[16], block[17]);
}
#endif

#endif /* OPREG_FORMAT_ROCMFP4_H */
