/* SPDX-License-Identifier: MIT
 * mxfp4.h - 32 weights in 17 bytes: E8M0 scale e, nibbles; w = level * 2^(e - 128). */
#ifndef OPREG_FORMAT_MXFP4_H
#define OPREG_FORMAT_MXFP4_H

#include "formats/dot.h"
#include "formats/scales.h"
#include "formats/tables/kvalues_fp4.h"

OPREG_FN float mxfp4_value(const uint8_t *block, int i, const opreg_side *side) {
    (void)side;
    return (float)kvalues_fp4[nibble_at(block + 1, i)] * e8m0_half(block[0]);
}

OPREG_FN void mxfp4_sums(const uint8_t *block, int part, const int8_t *q, const int16_t *q_sums,
                         const opreg_side *side, int32_t n[2]) {
    (void)part;
    (void)q_sums;
    (void)side;
    n[0] = level_dot(kvalues_fp4, block + 1, q);
    n[1] = 0;
}

OPREG_FN float mxfp4_term(const uint8_t *block, int part, const int32_t n[2], float yd,
                          const opreg_side *side) {
    (void)part;
    (void)side;
    return e8m0_half(block[0]) * yd * (float)n[0];
}

#if !OPREG_ON_DEVICE
OPREG_FN const char *mxfp4_invalid(const uint8_t *block, const opreg_side *side) {
    (void)side;
    return block[0] == 0xff ? "scale byte is 0xff, which E8M0 reserves for NaN" : NULL;
}
#endif

#endif /* OPREG_FORMAT_MXFP4_H */
