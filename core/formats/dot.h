/* SPDX-License-Identifier: MIT
 * dot.h - pieces of the integer dots that several formats share. */
#ifndef OPREG_FORMAT_DOT_H
#define OPREG_FORMAT_DOT_H

#include "formats/format.h"

/* 0 for Inf and NaN. */
OPREG_FN int f16_finite(uint32_t h) {
    return (h & 0x7c00u) != 0x7c00u;
}

/* Nibble i of 32 in the split order: 0..15 are the low nibbles of the bytes, 16..31 the high. */
OPREG_FN int nibble_at(const uint8_t *p, int i) {
    return p[i & 15] >> (i & 16 ? 4 : 0) & 15;
}

/* Sum of 32 nibbles in the split order times codes. */
OPREG_FN int32_t nibble_dot(const uint8_t *p, const int8_t *q) {
    int32_t dot = 0;
    for (int i = 0; i < 16; i++) {
        dot += (p[i] & 15) * q[i] + (p[i] >> 4) * q[i + 16];
    }
    return dot;
}

/* Sum of levels[nibble] times codes, 32 of them in the split order. */
OPREG_FN int32_t level_dot(const int8_t *levels, const uint8_t *p, const int8_t *q) {
    int32_t dot = 0;
    for (int i = 0; i < 16; i++) {
        dot += levels[p[i] & 15] * q[i] + levels[p[i] >> 4] * q[i + 16];
    }
    return dot;
}

/* Sum of the codes whose bit is set, lowest bit first. */
OPREG_FN int32_t bit_dot(uint32_t bits, const int8_t *q) {
    int32_t dot = 0;
    for (int i = 0; i < 32; i++) {
        dot += (int32_t)(bits >> i & 1u) * q[i];
    }
    return dot;
}

#endif /* OPREG_FORMAT_DOT_H */
