/* SPDX-License-Identifier: MIT
 * gqh2_c.h - 256 weights in 66 bytes: f16 d, per 32 weights four codebook indices and a word of
 * signs and ratio. */
#ifndef OPREG_FORMAT_GQH2_C_H
#define OPREG_FORMAT_GQH2_C_H

#include "formats/iq.h"
#include "formats/tables/gqh2c_codebook.h"
#include "formats/tables/gqh2c_signs.h"
#include "formats/tables/gqh_ratio.h"

OPREG_FN uint32_t gqh2_c_word(const uint8_t *block, int k) {
    return load_u32(block + 6 + 8 * (k >> 2));
}

OPREG_FN uint32_t gqh2_c_signs(const uint8_t *block, int k) {
    return gqh2c_signs[gqh2_c_word(block, k) >> 7 * (k & 3) & 127u];
}

/* Level of weight j of group k: sixty-fourths, signed. */
OPREG_FN float gqh2_c_level(const uint8_t *block, int k, int j) {
    uint64_t row = gqh2c_codebook[block[2 + 8 * (k >> 2) + (k & 3)]];
    return grid_value(0x1p-6f, grid8_at(row, j), gqh2_c_signs(block, k) >> j & 1u);
}

OPREG_FN float gqh2_c_scale(const uint8_t *block, int k) {
    return f16_to_f32(load_u16(block)) * gqh_ratio[gqh2_c_word(block, k) >> 28];
}

OPREG_FN float gqh2_c_value(const uint8_t *block, int i, const opreg_side *side) {
    int k = i >> 3;
    (void)side;
    return gqh2_c_level(block, k, i & 7) * gqh2_c_scale(block, k);
}

OPREG_FN float gqh2_c_fold(const uint8_t *block, int part, const float *x, int count, float acc,
                           const opreg_side *side) {
    float sum = 0.0f;
    (void)side;
    for (int j = 0; j < count; j++) {
        sum = fma_f32(gqh2_c_level(block, part, j), x[j], sum);
    }
    return fma_f32(gqh2_c_scale(block, part), sum, acc);
}

#if !OPREG_ON_DEVICE
OPREG_FN const char *gqh2_c_invalid(const uint8_t *block, const opreg_side *side) {
    (void)side;
    return f16_finite(load_u16(block)) ? NULL : "scale d is Inf or NaN";
}
#endif

#endif /* OPREG_FORMAT_GQH2_C_H */
