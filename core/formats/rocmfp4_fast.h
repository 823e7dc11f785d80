/* SPDX-License-Identifier: MIT
 * rocmfp4_fast.h - 32 weights in 17 bytes: nibbles into 16 levels, one scale. */
#ifndef OPREG_FORMAT_ROCMFP4_FAST_H
#define OPREG_FORMAT_ROCMFP4_FAST_H

#include "formats/rocmfp4.h"

OPREG_FN float rocmfp4_fast_value(const uint8_t *block, int i, const opreg_side *side) {
    return (float)rocmfp4_codebook[nibble_at(block, i)] * rocmfp4_scale(block[16], side);
}

OPREG_FN void rocmfp4_fast_sums(const uint8_t *block, int part, const int8_t *q,
                                const int16_t *q_sums, const opreg_side *side, int32_t n[2]) {
    (void)part;
    (void)q_sums;
    (void)side;
    n[0] = level_dot(rocmfp4_codebook, block, q);
    n[1] = 0;
}

OPREG_FN float rocmfp4_fast_term(const uint8_t *block, int part, const int32_t n[2], float yd,
                                 const opreg_side *side) {
    (void)part;
    return rocmfp4_scale(block[16], side) * yd * (float)n[0];
}

#if !OPREG_ON_DEVICE
OPREG_FN const char *rocmfp4_fast_invalid(const uint8_t *block, const opreg_side *side) {
    if (side->dialect == OPREG_DIALECT_ROCMFP4_HIP) {
        return NULL;
    }
    return rocmfp_scales_invalid(block[16], 0u);
}
#endif

#endif /* OPREG_FORMAT_ROCMFP4_FAST_H */
