/* SPDX-License-Identifier: MIT
 * gqh4.h - 256 weights in 137 bytes: 4-bit codes into the level grid of the tensor, a ratio for
 * each 16 weights. */
#ifndef OPREG_FORMAT_GQH4_H
#define OPREG_FORMAT_GQH4_H

#include "formats/gqh.h"

OPREG_FN int gqh4_code(const uint8_t *block, int j) {
    return block[9 + (j >> 1)] >> 4 * (j & 1) & 15;
}

OPREG_FN float gqh4_value(const uint8_t *block, int i, const opreg_side *side) {
    return side->levels[gqh4_code(block, i)] * gqh_scale(block, i >> 4, side);
}

OPREG_FN float gqh4_fold(const uint8_t *block, int part, const float *x, int count, float acc,
                         const opreg_side *side) {
    float sum = 0.0f;
    for (int i = 0; i < count; i++) {
        sum = fma_f32(side->levels[gqh4_code(block, 8 * part + i)], x[i], sum);
    }
    return fma_f32(gqh_scale(block, part >> 1, side), sum, acc);
}

#if !OPREG_ON_DEVICE
OPREG_FN const char *gqh4_invalid(const uint8_t *block, const opreg_side *side) {
    (void)side;
    return gqh_invalid(block);
}
#endif

#endif /* OPREG_FORMAT_GQH4_H */
