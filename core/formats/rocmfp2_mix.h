/* SPDX-License-Identifier: MIT
 * rocmfp2_mix.h - 32 weights in 10 bytes: 2-bit codes into codebooks of the side data, a meta byte
 * for each 16 weights. */
#ifndef OPREG_FORMAT_ROCMFP2_MIX_H
#define OPREG_FORMAT_ROCMFP2_MIX_H

#include "formats/mix.h"

OPREG_FN uint32_t rocmfp2_mix_code(const uint8_t *block, int i) {
    return (uint32_t)block[i >> 2] >> 2 * (i & 3) & 3u;
}

/* Level of weight i: mode 1 has a codebook for each half, chosen by bit 7 of its meta byte. */
OPREG_FN float rocmfp2_mix_level(const uint8_t *block, int i, const opreg_side *side) {
    return side->levels[mix_book(block[8 + (i >> 4)], side) * 4u + rocmfp2_mix_code(block, i)];
}

OPREG_FN float rocmfp2_mix_value(const uint8_t *block, int i, const opreg_side *side) {
    return mix_scale(block[8 + (i >> 4)], side) * rocmfp2_mix_level(block, i, side);
}

OPREG_FN float rocmfp2_mix_fold(const uint8_t *block, int part, const float *x, int count,
                                float acc, const opreg_side *side) {
    (void)part;
    (void)count;
    for (int half = 0; half < 2; half++) {
        float sum = 0.0f;
        for (int i = 16 * half; i < 16 * half + 16; i++) {
            sum = fma_f32(rocmfp2_mix_level(block, i, side), x[i], sum);
        }
        acc = fma_f32(mix_scale(block[8 + half], side), sum, acc);
    }
    return acc;
}

#if !OPREG_ON_DEVICE
OPREG_FN const char *rocmfp2_mix_invalid(const uint8_t *block, const opreg_side *side) {
    return mix_invalid(block[8], block[9], side);
}
#endif

#endif /* OPREG_FORMAT_ROCMFP2_MIX_H */
