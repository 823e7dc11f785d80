/* SPDX-License-Identifier: MIT
 * f32.h - plain f32 weights. */
#ifndef OPREG_FORMAT_F32_H
#define OPREG_FORMAT_F32_H

#include "formats/format.h"

/* Weight i of a run of weights. */
OPREG_FN float f32_value(const uint8_t *block, int i, const opreg_side *side) {
    const uint8_t *p = block + 4 * i;
    (void)side;
    return float_of(load_u32(p));
}

OPREG_FN float f32_fold(const uint8_t *block, int part, const float *x, int count, float acc,
                        const opreg_side *side) {
    (void)part;
    for (int i = 0; i < count; i++) {
        acc = fma_f32(f32_value(block, i, side), x[i], acc);
    }
    return acc;
}

#if !OPREG_ON_DEVICE
OPREG_FN const char *f32_invalid(const uint8_t *block, const opreg_side *side) {
    (void)side;
    return (load_u32(block) & 0x7f800000u) == 0x7f800000u ? "weight is Inf or NaN" : NULL;
}
#endif

#endif /* OPREG_FORMAT_F32_H */
