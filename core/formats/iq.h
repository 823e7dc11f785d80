/* SPDX-License-Identifier: MIT
 * iq.h - the grids and signs that the IQ formats share: 32 groups of 8 weights in a block. */
#ifndef OPREG_FORMAT_IQ_H
#define OPREG_FORMAT_IQ_H

#include "formats/dot.h"

/* Element j of a grid row of eight or four bytes. */
OPREG_FN int grid8_at(uint64_t row, int j) {
    return (int)(row >> 8 * j & 255u);
}

OPREG_FN int grid4_at(uint32_t row, int j) {
    return (int)(row >> 8 * j & 255u);
}

/* Two rows of four as one of eight. */
OPREG_FN uint64_t grid_pair(uint32_t low, uint32_t high) {
    return (uint64_t)high << 32 | low;
}

/* Sum over a group of a row's elements times codes, negated where the sign mask has a bit. */
OPREG_FN int32_t grid_dot(uint64_t row, uint32_t signs, const int8_t *q) {
    int32_t dot = 0;
    for (int j = 0; j < 8; j++) {
        int level = grid8_at(row, j);
        dot += (signs >> j & 1u ? -level : level) * q[j];
    }
    return dot;
}

/* The decoded weight: the product is rounded before its sign is set. */
OPREG_FN float grid_value(float scale, int level, uint32_t negative) {
    float magnitude = scale * (float)level;
    return negative ? -magnitude : magnitude;
}

#endif /* OPREG_FORMAT_IQ_H */
