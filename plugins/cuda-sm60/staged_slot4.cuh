/* SPDX-License-Identifier: MIT
 * staged_slot4.cuh - the staged kernels' formats over the layout slot4.
 *
 * IQ3_S's codes are linear in the level, 2 c - 15, and are multiplied as Q4_K's are, by masks
 * alone. For the others a byte permute looks up 64 plus the levels of four weights, bytes below
 * 128, which are multiplied as bytes.  IQ2_S has six levels, one permute.  IQ3_XXS has sixteen, and
 * bit 3 of a selector is the sign: where it is set, a permute gives the sign of the byte it would
 * have picked, which is 0.  So one permute has the positive magnitudes, the same with bit 3 flipped
 * the others. */
#ifndef OPREG_SM60_STAGED_SLOT4_CUH
#define OPREG_SM60_STAGED_SLOT4_CUH

#include "staged_formats.cuh"

#include "slot4.h"

/* What all three share.  final: the final factor. */
struct staged_slot4 {
    static const int values = SLOT4_VALUES, bytes = SLOT4_BYTES, unit = 256, table_bytes = 0;
    static const bool pairs = true;
    static const int blocks = 4;
    static const int words = 20, live = words;
    DEVICE_MEMBER void expand(const uint32_t *in, uint32_t *out) { copy_words<words>(in, out); }
    DEVICE_MEMBER uint32_t offset(uint32_t part) { return (uint32_t)bytes * (part / 8u); }
    DEVICE_MEMBER void fill(uint8_t *) {}
    DEVICE_MEMBER void codes(const uint8_t *block, uint32_t part, uint32_t *w) {
        const uint4 v = *(const uint4 *)(block + 16u * (part % 8u));
        w[0] = v.x;
        w[1] = v.y;
        w[2] = v.z;
        w[3] = v.w;
    }
    /* Of 16 weights in the low half of a byte, of the next 16 in the high one. */
    DEVICE_MEMBER uint32_t scales(const uint8_t *block, uint32_t part) {
        return block[SLOT4_SCALES + part % 8u];
    }
    DEVICE_MEMBER float term(const uint8_t *block, int32_t n, float yd, const int16_t *) {
        return half_at(block + SLOT4_D) * yd * (float)n;
    }
};

/* Words of a fragment: four for each word of codes, then 15 times the sum of x. */
struct staged_slot4_iq3_s_format : staged_slot4 {
    DEVICE_MEMBER float last(float sum) { return sum; }
    DEVICE_MEMBER void load(const activation_row &x, uint32_t part, uint32_t *out) {
        uint32_t codes[8];
        codes_at(x, part, codes);
#pragma unroll
        for (uint32_t j = 0; j < 4u; j++) {
#pragma unroll
            for (uint32_t field = 0; field < 4u; field++) {
                const uint32_t w = codes[2u * j + field / 2u], at = field % 2u * 2u;
                const int32_t scale = field == 0u ? 256 : field == 1u ? 16 : 1;
                out[4u * j + field] = pair_of(scale * code_at(w, at), scale * code_at(w, at + 1u));
            }
        }
        out[16] = (uint32_t)(15 * (x.sums[2u * part] + x.sums[2u * part + 1u]));
    }
    DEVICE_MEMBER uint32_t part(const uint8_t *block, uint32_t part, const uint32_t *f,
                                const uint8_t *) {
        uint32_t w[4];
        int32_t sum = 0;
        codes(block, part, w);
#pragma unroll
        for (uint32_t j = 0; j < 4u; j++) {
            sum = halves2(w[j] & 0x000f000fu, f[4u * j], sum);
            sum = halves2(w[j] & 0x00f000f0u, f[4u * j + 1u], sum);
            sum = halves2(w[j] & 0x0f000f00u, f[4u * j + 2u], sum);
            sum = halves2(w[j] >> 4 & 0x0f000f00u, f[4u * j + 3u], sum);
        }
        return (uint32_t)(((sum >> 7) - (int32_t)f[16]) *
                          (int32_t)(1u + 2u * (scales(block, part) & 15u)));
    }
};

/* Words of a fragment: pairs for the four weights of each half of a word of codes, then 64 times
 * the sums of 16 of x. */
template <uint32_t LOW, uint32_t HIGH, bool SIGNS> struct staged_slot4_levels : staged_slot4 {
    DEVICE_MEMBER void load(const activation_row &x, uint32_t part, uint32_t *out) {
        uint32_t codes[8];
        codes_at(x, part, codes);
#pragma unroll
        for (uint32_t i = 0; i < 8u; i++) {
            const uint32_t *w = codes + (i & ~1u), h = i & 1u;
            int32_t q0 = code_at(w[0], h), q1 = code_at(w[0], 2u + h);
            int32_t q2 = code_at(w[1], h), q3 = code_at(w[1], 2u + h);
            out[2u * i] = pair_of(256 * q0 - q1, 256 * q2 - q3);
            out[2u * i + 1u] = pair_of(q1, q3);
        }
        out[16] = (uint32_t)(64 * x.sums[2u * part]);
        out[17] = (uint32_t)(64 * x.sums[2u * part + 1u]);
    }
    DEVICE_MEMBER int32_t four(uint32_t selector, const uint32_t *f, uint32_t i, int32_t sum) {
        uint32_t bytes = permute(LOW, HIGH, selector);
        if (SIGNS) {
            bytes = bytes - permute(LOW, HIGH, selector ^ 0x8888u) + 0x40404040u;
        }
        return bytes4(bytes, f, i, sum);
    }
    DEVICE_MEMBER int32_t sixteen(const uint32_t *w, const uint32_t *f, uint32_t i) {
        int32_t sum = four(w[0], f, 4u * i, 0);
        sum = four(w[0] >> 16, f, 4u * i + 1u, sum);
        sum = four(w[1], f, 4u * i + 2u, sum);
        sum = four(w[1] >> 16, f, 4u * i + 3u, sum);
        return (sum >> 8) - (int32_t)f[16u + i];
    }
    DEVICE_MEMBER uint32_t part(const uint8_t *block, uint32_t part, const uint32_t *f,
                                const uint8_t *) {
        const uint32_t s = scales(block, part);
        uint32_t w[4];
        codes(block, part, w);
        return (uint32_t)(sixteen(w, f, 0) * (int32_t)(1u + 2u * (s & 15u)) +
                          sixteen(w + 2, f, 1) * (int32_t)(1u + 2u * (s >> 4)));
    }
};

struct staged_slot4_iq3_xxs_format : staged_slot4_levels<0x1c140c04u, 0x3e342c24u, true> {
    DEVICE_MEMBER float last(float sum) { return sum * 0.25f; }
};

struct staged_slot4_iq2_s_format : staged_slot4_levels<0x48382715u, 0x6b59u, false> {
    DEVICE_MEMBER float last(float sum) { return sum * 0.125f; }
};

#endif /* OPREG_SM60_STAGED_SLOT4_CUH */
