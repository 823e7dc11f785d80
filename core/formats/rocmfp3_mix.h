/* SPDX-License-Identifier: MIT
 * rocmfp3_mix.h - 32 weights in 14 bytes: 3-bit codes into codebooks of the side data, a meta byte
 * for each 16 weights. */
#ifndef OPREG_FORMAT_ROCMFP3_MIX_H
#define OPREG_FORMAT_ROCMFP3_MIX_H

#include "formats/mix.h"

OPREG_FN uint32_t rocmfp3_mix_code(const uint8_t *block, int i) {
    return code_at(block, i, 3);
}

/* Level of weight i: mode 1 has a codebook for each half, chosen by bit 7 of its meta byte. */
OPREG_FN float rocmfp3_mix_level(const uint8_t *block, int i, const opreg_side *side) {
    return side->levels[mix_book(block[12 + (i >> 4)], side) * 8u + rocmfp3_mix_code(block, i)];
}

OPREG_FN float rocmfp3_mix_value(const uint8_t *block, int i, const opreg_side *side) {
    return mix_scale(block[12 + (i >> 4)], side) * rocmfp3_mix_level(block, i, side);
}

OPREG_FN float rocmfp3_mix_fold(const uint8_t *block, int part, const float *x, int count,
                                float acc, const opreg_side *side) {
    (void)part;
    (void)count;
    for (int half = 0; half < 2; half++) {
        float sum = 0.0f;
        for (int i = 16 * half; i < 16 * half + 16; i++) {
            sum = fma_f32(rocmfp3_mix_level(block, i, side), x[i], sum);
        }
        acc = fma_f32(mix_scale(block[12 + half], side), sum, acc);
    }
    return acc;
}

#if !OPREG_ON_DEVICE
OPREG_FN const char *rocmfp3_mix_invalid(const uint8_t *block, const opreg_side *side) {
    return mix_invalid(block[12], block[13], side);
}
#endif

#endif /* OPREG_FORMAT_ROCMFP3_MIX_H */
