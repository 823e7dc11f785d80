/* SPDX-License-Identifier: MIT
 * act.h - one block of f32 activations to Q8_0 or Q8_K planes: codes, scale, sums of 16 codes.
 *
 * A block that holds Inf or NaN gets scale NaN and zero codes, so that all dots with it are NaN.
 * A block too small for its reciprocal scale to be finite is all zero.  Division must be correctly
 * rounded on devices too.  Shared by host and devices like the format headers. */
#ifndef OPREG_FORMAT_ACT_H
#define OPREG_FORMAT_ACT_H

#include "formats/format.h"

/* The scale of a block of count values that has no codes, which are written with their sums. */
OPREG_FN float act_no_codes(int count, float scale, int8_t *q, int16_t *q_sums) {
    for (int i = 0; i < count; i++) {
        q[i] = 0;
    }
    for (int j = 0; j < count / 16; j++) {
        q_sums[j] = 0;
    }
    return scale;
}

OPREG_FN void act_sums(int count, const int8_t *q, int16_t *q_sums) {
    for (int j = 0; j < count / 16; j++) {
        int sum = 0;
        for (int i = 0; i < 16; i++) {
            sum += q[16 * j + i];
        }
        q_sums[j] = (int16_t)sum;
    }
}

/* x[32] to q[32] and q_sums[2]; returns the scale, already rounded to f16.  The codes come from
 * the unrounded scale, halves away from zero. */
OPREG_FN float act_q8_0(const float *x, int8_t *q, int16_t *q_sums) {
    uint32_t largest = 0;
    float scale, inverse;
    for (int i = 0; i < 32; i++) {
        uint32_t magnitude = bits_of(x[i]) & 0x7fffffffu;
        largest = magnitude > largest ? magnitude : largest;
    }
    if (largest >= 0x7f800000u) {
        return act_no_codes(32, float_of(0x7fc00000u), q, q_sums);
    }
    scale = float_of(largest) / 127.0f;
    inverse = 1.0f / scale;
    if (bits_of(inverse) == 0x7f800000u) {
        return act_no_codes(32, 0.0f, q, q_sums);
    }
    for (int i = 0; i < 32; i++) {
        float v = x[i] * inverse;
        float magnitude = float_of(bits_of(v) & 0x7fffffffu);
        int whole = (int)magnitude;
        whole += magnitude - (float)whole >= 0.5f;
        q[i] = (int8_t)(v < 0.0f ? -whole : whole);
    }
    act_sums(32, q, q_sums);
    return f16_to_f32(f32_to_f16(scale));
}

/* x[256] to q[256] and q_sums[16]; returns the f32 scale.  The first element of the largest
 * magnitude becomes -127; halves go to even. */
OPREG_FN float act_q8_k(const float *x, int8_t *q, int16_t *q_sums) {
    uint32_t largest = 0;
    float max = 0.0f, inverse;
    for (int i = 0; i < 256; i++) {
        uint32_t magnitude = bits_of(x[i]) & 0x7fffffffu;
        if (magnitude > largest) {
            largest = magnitude;
            max = x[i];
        }
    }
    if (largest >= 0x7f800000u) {
        return act_no_codes(256, float_of(0x7fc00000u), q, q_sums);
    }
    inverse = -127.0f / max;
    if ((bits_of(inverse) & 0x7fffffffu) >= 0x7f800000u) {
        return act_no_codes(256, 0.0f, q, q_sums);
    }
    for (int i = 0; i < 256; i++) {
        /* adding 1.5 * 2^23 rounds to an integer, halves to even; none is beyond 127, as two
         * roundings take the product at most to 127 * (1 + 2^-22) */
        q[i] = (int8_t)(int)(x[i] * inverse + 0x1.8p23f - 0x1.8p23f);
    }
    act_sums(256, q, q_sums);
    return 1.0f / inverse;
}

#endif /* OPREG_FORMAT_ACT_H */
