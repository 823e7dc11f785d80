/* SPDX-License-Identifier: MIT
 * quantize.cuh - one wave quantizes 256 activations by the rules of formats/act.h, eight neighbouring
 * values a lane. */
#ifndef OPREG_PLUGINS_QUANTIZE_CUH
#define OPREG_PLUGINS_QUANTIZE_CUH

#include "device.h"

#include "canonical.h"

DEVICE uint32_t magnitude_of(float v) { return bits_of(v) & 0x7fffffffu; }

/* What one lane holds after quantization: eight codes in two words, its block's scale, and the sum
 * of its eight codes. */
struct quantized8 {
    uint32_t low, high;
    float scale;
    int32_t sum;
};

DEVICE uint32_t pack4(int a, int b, int c, int d) {
    return ((uint32_t)a & 255u) | ((uint32_t)b & 255u) << 8 | ((uint32_t)c & 255u) << 16 |
           (uint32_t)d << 24;
}

DEVICE void pack_codes(const int *code, quantized8 *out) {
    out->low = pack4(code[0], code[1], code[2], code[3]);
    out->high = pack4(code[4], code[5], code[6], code[7]);
    out->sum = code[0] + code[1] + code[2] + code[3] + code[4] + code[5] + code[6] + code[7];
}

/* Blocks of 32: four lanes each. */
DEVICE quantized8 quantize_q8_0(const float *v) {
    quantized8 out;
    int code[8];
    uint32_t largest = 0, other;
    float scale, inverse;
#pragma unroll
    for (int i = 0; i < 8; i++) {
        uint32_t m = magnitude_of(v[i]);
        largest = m > largest ? m : largest;
    }
    for (int s = 1; s < 4; s <<= 1) {
        other = wave_xor(largest, s);
        largest = other > largest ? other : largest;
    }
    scale = CANONICAL_DIV(float_of(largest), 127.0f);
    inverse = CANONICAL_DIV(1.0f, scale);
#pragma unroll
    for (int i = 0; i < 8; i++) {
        float product = v[i] * inverse;
        float m = float_of(magnitude_of(product));
        int whole = (int)m;
        whole += m - (float)whole >= 0.5f;
        code[i] = product < 0.0f ? -whole : whole;
    }
    out.scale = f16_to_f32(f32_to_f16(scale));
    if (largest >= 0x7f800000u || bits_of(inverse) == 0x7f800000u) {
#pragma unroll
        for (int i = 0; i < 8; i++) {
            code[i] = 0;
        }
        out.scale = largest >= 0x7f800000u ? float_of(0x7fc00000u) : 0.0f;
    }
    pack_codes(code, &out);
    return out;
}

/* One block of 256: the whole wave. */
DEVICE quantized8 quantize_q8_k(const float *v) {
    quantized8 out;
    int code[8];
    uint32_t largest = 0, mine, other, winners;
    float first = 0.0f, max, inverse;
#pragma unroll
    for (int i = 0; i < 8; i++) {
        uint32_t m = magnitude_of(v[i]);
        if (m > largest) {
            largest = m;
            first = v[i];
        }
    }
    mine = largest;
    for (int s = 1; s < 32; s <<= 1) {
        other = wave_xor(largest, s);
        largest = other > largest ? other : largest;
    }
    winners = wave_ballot(mine == largest);
    max = wave_read(first, first_bit(winners));
    inverse = CANONICAL_DIV(-127.0f, max);
#pragma unroll
    for (int i = 0; i < 8; i++) {
        code[i] = (int)((v[i] * inverse + 0x1.8p23f) - 0x1.8p23f);
        code[i] = code[i] > 127 ? 127 : code[i];
    }
    out.scale = CANONICAL_DIV(1.0f, inverse);
    if (largest >= 0x7f800000u || magnitude_of(inverse) >= 0x7f800000u) {
#pragma unroll
        for (int i = 0; i < 8; i++) {
            code[i] = 0;
        }
        out.scale = largest >= 0x7f800000u ? float_of(0x7fc00000u) : 0.0f;
    }
    pack_codes(code, &out);
    return out;
}

#endif /* OPREG_PLUGINS_QUANTIZE_CUH */
