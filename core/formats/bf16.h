/* SPDX-License-Identifier: MIT
 * bf16.h - plain bf16 weights. */
#ifndef OPREG_FORMAT_BF16_H
#define OPREG_FORMAT_BF16_H

#include "formats/format.h"

/* Weight i of a run of weights. */
OPREG_FN float bf16_value(const uint8_t *block, int i, const opreg_side *side) {
    const uint8_t *p = block + 2 * i;
    (void)side;
    return bf16_to_f32(load_u16(p));
}

OPREG_FN float bf16_fold(const uint8_t *block, int part, const float *x, int count, float acc,
                         const opreg_side *side) {
    (void)part;
    for (int i = 0; i < count; i++) {
        acc = fma_f32(bf16_value(block, i, side), x[i], acc);
    }
    return acc;
}

#if !OPREG_ON_DEVICE
OPREG_FN const char *bf16_invalid(const uint8_t *block, const opreg_side *side) {
    (void)side;
    return (load_u16(block) & 0x7f80u) == 0x7f80u ? "weight is Inf or NaN" : NULL;
}
#endif

#endif /* OPREG_FORMAT_BF16_H */
