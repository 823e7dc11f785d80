/* SPDX-License-Identifier: MIT
 * slices.cuh - every integer-dot format 32 weights at a time, by byte dots.
 *
 * NAME_slice<byte_dots>(block, j, a, s, side, n) adds slice j of the block to n, which then holds what
 * NAME_sums of formats/NAME.h gives once all slices of the unit were added: integer sums have no order.
 *   block  stored bytes in global memory, at any address
 *   a      the slice's 32 activation codes, four to a word
 *   s      the sums of its two runs of 16 codes
 * A unit of 256 weights has slices 0..7; where a unit is 32 weights, j is its index in the block.
 *
 * NAME_slice<level_capture> computes no dot: it leaves the slice's 32 levels in a and, in n, by what
 * the dots and sums of its two halves are to be multiplied. */
#ifndef OPREG_PLUGINS_SLICES_CUH
#define OPREG_PLUGINS_SLICES_CUH

#include "device.h"

#include "formats/tables/iq1s_grid.h"
#include "formats/tables/iq2s_grid.h"
#include "formats/tables/iq2xs_grid.h"
#include "formats/tables/iq2xxs_grid.h"
#include "formats/tables/iq3s_grid.h"
#include "formats/tables/iq3xxs_grid.h"

#define SLICE(name)                                                                                \
    template <class D>                                                                             \
    DEVICE void name##_slice(const uint8_t *block, int j, typename D::codes a,                     \
                             const typename D::value *s, const opreg_side *side,                   \
                             typename D::value *n)
#define SLICE_UNUSED(x) (void)(x)

/* ---- words of bytes ----------------------------------------------------------------------------- */

struct byte_dots {
    typedef const uint32_t *codes;
    typedef int32_t value;
};

/* What the dots of the low and the high 16 levels, and the sums of their activations, count. */
struct slice_factors {
    int32_t low, high, sum_low, sum_high;
};

DEVICE slice_factors operator*(int32_t by, slice_factors f) {
    return {by * f.low, by * f.high, by * f.sum_low, by * f.sum_high};
}
DEVICE slice_factors operator+(slice_factors f, slice_factors g) {
    return {f.low + g.low, f.high + g.high, f.sum_low + g.sum_low, f.sum_high + g.sum_high};
}
DEVICE slice_factors operator-(slice_factors f) { return -1 * f; }
DEVICE void operator+=(slice_factors &f, slice_factors g) { f = f + g; }

/* Where levels from `at` on, four to a word, are left. */
struct level_words {
    uint32_t *q;
    int at;
};

DEVICE level_words operator+(level_words a, int words) { return {a.q, a.at + words}; }

struct level_capture {
    typedef level_words codes;
    typedef slice_factors value;
};

template <int words> DEVICE int32_t dot_words(const uint32_t *q, const uint32_t *a) {
    int32_t sum = 0;
    for (int i = 0; i < words; i++) {
        sum = dot4(q[i], a[i], sum);
    }
    return sum;
}

template <int words> DEVICE slice_factors dot_words(const uint32_t *q, level_words a) {
    for (int i = 0; i < words; i++) {
        a.q[a.at + i] = q[i];
    }
    return {a.at < 4, a.at + words > 4, 0, 0};
}

/* The dot of levels q - zero, 0 <= q < 64; sum is that of the activations. */
template <int words, int zero>
DEVICE int32_t dot_above(const uint32_t *q, const uint32_t *a, int32_t sum) {
    return dot_words<words>(q, a) - zero * sum;
}

template <int words, int zero>
DEVICE slice_factors dot_above(const uint32_t *q, level_words a, slice_factors) {
    uint32_t levels[words];
    for (int i = 0; i < words; i++) {
        levels[i] = ((q[i] | 0x80808080u) - zero * 0x01010101u) ^ 0x80808080u;
    }
    return dot_words<words>(levels, a);
}

/* Bit i of the low four to byte i. */
DEVICE uint32_t spread_bits(uint32_t bits) { return bits * 0x00204081u & 0x01010101u; }

/* Two bits each of the low eight to a byte each. */
DEVICE uint32_t spread_pairs(uint32_t byte) {
    uint32_t x = (byte | byte << 12) & 0x000f000fu;
    return (x | x << 6) & 0x03030303u;
}

/* Three bits each of the low twelve. */
DEVICE uint32_t spread_threes(uint32_t bits) {
    uint32_t x = (bits & 0x3fu) | (bits & 0xfc0u) << 10;
    return (x & 0x00070007u) | (x & 0x00380038u) << 5;
}

/* Six bits each of the low 24. */
DEVICE uint32_t spread_sixes(uint32_t bits) {
    uint32_t x = (bits & 0xfffu) | (bits & 0xfff000u) << 4;
    return (x & 0x003f003fu) | (x & 0x0fc00fc0u) << 2;
}

/* Bytes 0..127, negated where the byte of `negative` is 1; the others are 0. */
DEVICE uint32_t negate_where(uint32_t v, uint32_t negative) {
    uint32_t mask = negative * 255u;
    return (v & ~mask) | (((0x80808080u - v) ^ 0x80808080u) & mask);
}

/* `width` bits from `at` on of a run of words, and maybe more above them. */
template <int at, int width> DEVICE uint32_t bits_from(const uint32_t *w) {
    const int word = at >> 5, shift = at & 31, next = shift + width <= 32 ? word : word + 1;
    return next == word ? w[word] >> shift
                        : (uint32_t)(((uint64_t)w[next] << 32 | w[word]) >> shift);
}

/* Sixteen levels by codes 0..15, one a byte. */
struct levels16 {
    uint32_t word[4];
};

DEVICE uint32_t look_up(const levels16 &t, uint32_t codes) {
    uint32_t low = pick_bytes(t.word[0], t.word[1], codes & 0x07070707u);
    uint32_t high = pick_bytes(t.word[2], t.word[3], codes & 0x07070707u);
    return pick_bytes(low, high, 0x03020100u | (codes & 0x08080808u) >> 1);
}

#define LEVELS_IQ4NL {{0xbfad9881u, 0xf6eaddcfu, 0x26190d01u, 0x71594535u}}
#define LEVELS_FP4 {{0x03020100u, 0x0c080604u, 0xfdfeff00u, 0xf4f8fafcu}}
#define LEVELS_ROCMFP4 {{0x03020100u, 0x0a080604u, 0xfdfeff00u, 0xf6f8fafcu}}

/* Nibbles of 16 bytes in the split order: words 0..3 are the low ones, 4..7 the high ones. */
DEVICE void split_nibbles(const uint32_t *w, uint32_t *q) {
    for (int i = 0; i < 4; i++) {
        q[i] = w[i] & 0x0f0f0f0fu;
        q[4 + i] = w[i] >> 4 & 0x0f0f0f0fu;
    }
}

DEVICE void split_levels(const uint8_t *p, const levels16 &levels, uint32_t *q) {
    uint32_t w[4];
    load_words<4>(p, w);
    split_nibbles(w, q);
    for (int i = 0; i < 8; i++) {
        q[i] = look_up(levels, q[i]);
    }
}

/* ---- units of 32 --------------------------------------------------------------------------------- */

SLICE(q4_0) {
    uint32_t w[4], q[8];
    SLICE_UNUSED(j), SLICE_UNUSED(side);
    load_words<4>(block + 2, w);
    split_nibbles(w, q);
    n[0] += dot_above<8, 8>(q, a, s[0] + s[1]);
}

SLICE(q4_1) {
    uint32_t w[4], q[8];
    SLICE_UNUSED(j), SLICE_UNUSED(side);
    load_words<4>(block + 4, w);
    split_nibbles(w, q);
    n[0] += dot_words<8>(q, a);
    n[1] += s[0] + s[1];
}

/* Nibbles with a fifth bit of each from `high`. */
DEVICE void five_bits(const uint8_t *nibbles, const uint8_t *bits, uint32_t *q) {
    uint32_t w[4], high;
    load_words<1>(bits, &high);
    load_words<4>(nibbles, w);
    split_nibbles(w, q);
    for (int i = 0; i < 8; i++) {
        q[i] |= spread_bits(high >> 4 * i & 15u) << 4;
    }
}

SLICE(q5_0) {
    uint32_t q[8];
    SLICE_UNUSED(j), SLICE_UNUSED(side);
    five_bits(block + 6, block + 2, q);
    n[0] += dot_above<8, 16>(q, a, s[0] + s[1]);
}

SLICE(q5_1) {
    uint32_t q[8];
    SLICE_UNUSED(j), SLICE_UNUSED(side);
    five_bits(block + 8, block + 4, q);
    n[0] += dot_words<8>(q, a);
    n[1] += s[0] + s[1];
}

SLICE(q8_0) {
    uint32_t w[8];
    SLICE_UNUSED(j), SLICE_UNUSED(side), SLICE_UNUSED(s);
    load_words<8>(block + 2, w);
    n[0] += dot_words<8>(w, a);
}

SLICE(q1_0) {
    uint32_t bits, q[8];
    SLICE_UNUSED(side);
    load_words<1>(block + 2 + 4 * j, &bits);
    for (int i = 0; i < 8; i++) {
        q[i] = spread_bits(bits >> 4 * i & 15u);
    }
    n[0] += 2 * dot_words<8>(q, a) + -(s[0] + s[1]);
}

SLICE(q2_0) {
    uint32_t w[2], q[8];
    SLICE_UNUSED(side);
    load_words<2>(block + 2 + 8 * j, w);
    for (int i = 0; i < 8; i++) {
        q[i] = spread_pairs(w[i >> 2] >> 8 * (i & 3) & 255u);
    }
    n[0] += dot_above<8, 1>(q, a, s[0] + s[1]);
}

SLICE(iq4_nl) {
    const levels16 levels = LEVELS_IQ4NL;
    uint32_t q[8];
    SLICE_UNUSED(j), SLICE_UNUSED(side), SLICE_UNUSED(s);
    split_levels(block + 2, levels, q);
    n[0] += dot_words<8>(q, a);
}

SLICE(mxfp4) {
    const levels16 levels = LEVELS_FP4;
    uint32_t q[8];
    SLICE_UNUSED(j), SLICE_UNUSED(side), SLICE_UNUSED(s);
    split_levels(block + 1, levels, q);
    n[0] += dot_words<8>(q, a);
}

SLICE(nvfp4) {
    const levels16 levels = LEVELS_FP4;
    uint32_t w[4];
    SLICE_UNUSED(side), SLICE_UNUSED(s);
    load_words<4>(block + 4 + 16 * j, w);
    for (int h = 0; h < 2; h++) { /* eight bytes a scale: the low nibbles first */
        uint32_t q[4];
        for (int i = 0; i < 2; i++) {
            q[i] = look_up(levels, w[2 * h + i] & 0x0f0f0f0fu);
            q[2 + i] = look_up(levels, w[2 * h + i] >> 4 & 0x0f0f0f0fu);
        }
        n[h] += dot_words<4>(q, a + 4 * h);
    }
}

SLICE(rocmfp4) {
    const levels16 levels = LEVELS_ROCMFP4;
    uint32_t q[8];
    SLICE_UNUSED(j), SLICE_UNUSED(side), SLICE_UNUSED(s);
    split_levels(block, levels, q);
    n[0] += dot_words<4>(q, a);
    n[1] += dot_words<4>(q + 4, a + 4);
}

SLICE(rocmfp4_fast) {
    const levels16 levels = LEVELS_ROCMFP4;
    uint32_t q[8];
    SLICE_UNUSED(j), SLICE_UNUSED(side), SLICE_UNUSED(s);
    split_levels(block, levels, q);
    n[0] += dot_words<8>(q, a);
}

SLICE(rocmfp8) {
    uint32_t w[8];
    SLICE_UNUSED(j), SLICE_UNUSED(side), SLICE_UNUSED(s);
    load_words<8>(block, w);
    n[0] += dot_words<8>(w, a);
}

/* Sign and magnitude codes of six bits. */
DEVICE uint32_t six_bit_levels(uint32_t bits) {
    uint32_t codes = spread_sixes(bits);
    return negate_where(codes & 0x1f1f1f1fu, codes >> 5 & 0x01010101u);
}

SLICE(rocmfp6) {
    uint32_t w[6], q[8];
    SLICE_UNUSED(j), SLICE_UNUSED(side), SLICE_UNUSED(s);
    load_words<6>(block, w);
    q[0] = six_bit_levels(bits_from<0, 24>(w));
    q[1] = six_bit_levels(bits_from<24, 24>(w));
    q[2] = six_bit_levels(bits_from<48, 24>(w));
    q[3] = six_bit_levels(bits_from<72, 24>(w));
    q[4] = six_bit_levels(bits_from<96, 24>(w));
    q[5] = six_bit_levels(bits_from<120, 24>(w));
    q[6] = six_bit_levels(bits_from<144, 24>(w));
    q[7] = six_bit_levels(bits_from<168, 24>(w));
    n[0] += dot_words<4>(q, a);
    n[1] += dot_words<4>(q + 4, a + 4);
}

/* Levels 0, 1, 2, 4 and their negatives. */
DEVICE uint32_t three_bit_levels(uint32_t bits) {
    return pick_bytes(0x04020100u, 0xfcfeff00u, spread_threes(bits));
}

SLICE(rocmfp3) {
    uint32_t w[3], q[8];
    SLICE_UNUSED(j), SLICE_UNUSED(side), SLICE_UNUSED(s);
    load_words<3>(block, w);
    q[0] = three_bit_levels(bits_from<0, 12>(w));
    q[1] = three_bit_levels(bits_from<12, 12>(w));
    q[2] = three_bit_levels(bits_from<24, 12>(w));
    q[3] = three_bit_levels(bits_from<36, 12>(w));
    q[4] = three_bit_levels(bits_from<48, 12>(w));
    q[5] = three_bit_levels(bits_from<60, 12>(w));
    q[6] = three_bit_levels(bits_from<72, 12>(w));
    q[7] = three_bit_levels(bits_from<84, 12>(w));
    n[0] += dot_words<4>(q, a);
    n[1] += dot_words<4>(q + 4, a + 4);
}

SLICE(rocmfp2) {
    uint32_t w[2], q[8], levels = 0x020100ffu; /* -1, 0, 1, 2 */
    SLICE_UNUSED(j);
    if (side->dialect == OPREG_DIALECT_ROCMFP2_AFFINE) {
        levels = 0x03020100u;
    } else if (side->dialect == OPREG_DIALECT_ROCMFP2_S40) {
        levels = 0x0401fffcu; /* -4, -1, 1, 4 */
    }
    load_words<2>(block, w);
    for (int i = 0; i < 8; i++) {
        q[i] = pick_bytes(levels, 0u, spread_pairs(w[i >> 2] >> 8 * (i & 3) & 255u));
    }
    n[0] += dot_words<4>(q, a);
    if (side->dialect == OPREG_DIALECT_ROCMFP2_AFFINE) {
        n[0] += dot_words<4>(q + 4, a + 4);
        n[1] += s[0] + s[1];
    } else {
        n[1] += dot_words<4>(q + 4, a + 4);
    }
}

/* ---- units of 256 -------------------------------------------------------------------------------- */

SLICE(q2_k) {
    uint32_t w[8], scales = load_half(block + 2 * j);
    SLICE_UNUSED(side);
    load_words<8>(block + 16 + 32 * (j >> 2), w);
    for (int i = 0; i < 8; i++) {
        w[i] = w[i] >> 2 * (j & 3) & 0x03030303u;
    }
    n[0] += (int32_t)(scales & 15u) * dot_words<4>(w, a) +
            (int32_t)(scales >> 8 & 15u) * dot_words<4>(w + 4, a + 4);
    n[1] += (int32_t)(scales >> 4 & 15u) * s[0] + (int32_t)(scales >> 12) * s[1];
}

/* Scale of 16 weights, -32..31. */
DEVICE int32_t q3_k_slice_scale(const uint8_t *block, int i) {
    uint32_t low = load_byte(block + 96 + (i & 7)) >> 4 * (i >> 3) & 15u;
    uint32_t high = load_byte(block + 104 + (i & 3)) >> 2 * (i >> 2) & 3u;
    return (int32_t)(low | high << 4) - 32;
}

SLICE(q3_k) {
    uint32_t w[8], h[8];
    SLICE_UNUSED(side);
    load_words<8>(block + 32 + 32 * (j >> 2), w);
    load_words<8>(block, h);
    for (int i = 0; i < 8; i++) {
        w[i] = (w[i] >> 2 * (j & 3) & 0x03030303u) | (h[i] >> j & 0x01010101u) << 2;
    }
    n[0] += q3_k_slice_scale(block, 2 * j) * dot_above<4, 4>(w, a, s[0]) +
            q3_k_slice_scale(block, 2 * j + 1) * dot_above<4, 4>(w + 4, a + 4, s[1]);
}

/* Scale and min of sub-block j of Q4_K and Q5_K, each 0..63. */
DEVICE void six_bit_pair(const uint8_t *block, int j, int32_t *scale, int32_t *min) {
    uint32_t w[3];
    int shift = 8 * (j & 3);
    load_words<3>(block + 4, w);
    if (j < 4) {
        *scale = (int32_t)(w[0] >> shift & 63u);
        *min = (int32_t)(w[1] >> shift & 63u);
    } else {
        *scale = (int32_t)((w[2] >> shift & 15u) | (w[0] >> (shift + 2) & 48u));
        *min = (int32_t)((w[2] >> (shift + 4) & 15u) | (w[1] >> (shift + 2) & 48u));
    }
}

SLICE(q4_k) {
    uint32_t w[8];
    int32_t scale, min;
    SLICE_UNUSED(side);
    load_words<8>(block + 16 + 32 * (j >> 1), w);
    six_bit_pair(block, j, &scale, &min);
    for (int i = 0; i < 8; i++) {
        w[i] = w[i] >> 4 * (j & 1) & 0x0f0f0f0fu;
    }
    n[0] += scale * dot_words<8>(w, a);
    n[1] += min * (s[0] + s[1]);
}

SLICE(q5_k) {
    uint32_t w[8], h[8];
    int32_t scale, min;
    SLICE_UNUSED(side);
    load_words<8>(block + 48 + 32 * (j >> 1), w);
    load_words<8>(block + 16, h);
    six_bit_pair(block, j, &scale, &min);
    for (int i = 0; i < 8; i++) {
        w[i] = (w[i] >> 4 * (j & 1) & 0x0f0f0f0fu) | (h[i] >> j & 0x01010101u) << 4;
    }
    n[0] += scale * dot_words<8>(w, a);
    n[1] += min * (s[0] + s[1]);
}

SLICE(q6_k) {
    uint32_t w[8], h[8], scales = load_half(block + 192 + 2 * j);
    SLICE_UNUSED(side);
    load_words<8>(block + 64 * (j >> 2) + 32 * (j & 1), w);
    load_words<8>(block + 128 + 32 * (j >> 2), h);
    for (int i = 0; i < 8; i++) {
        w[i] = (w[i] >> 4 * (j >> 1 & 1) & 0x0f0f0f0fu) | (h[i] >> 2 * (j & 3) & 0x03030303u) << 4;
    }
    n[0] += (int32_t)(int8_t)scales * dot_above<4, 32>(w, a, s[0]) +
            (int32_t)(int8_t)(scales >> 8) * dot_above<4, 32>(w + 4, a + 4, s[1]);
}

SLICE(iq4_xs) {
    const levels16 levels = LEVELS_IQ4NL;
    uint32_t q[8], low = load_byte(block + 4 + (j >> 1)) >> 4 * (j & 1) & 15u;
    uint32_t high = load_half(block + 2) >> 2 * j & 3u;
    SLICE_UNUSED(side), SLICE_UNUSED(s);
    split_levels(block + 8 + 16 * j, levels, q);
    n[0] += ((int32_t)(low | high << 4) - 32) * dot_words<8>(q, a);
}

/* Seven sign bits and the eighth that makes their number even. */
DEVICE uint32_t even_signs(uint32_t bits) { return bits | ((uint32_t)count_bits(bits) & 1u) << 7; }

/* Eight grid levels with their signs, to two words. */
DEVICE void signed_row(uint64_t row, uint32_t signs, uint32_t *q) {
    q[0] = negate_where((uint32_t)row, spread_bits(signs & 15u));
    q[1] = negate_where((uint32_t)(row >> 32), spread_bits(signs >> 4 & 15u));
}

SLICE(iq2_xxs) {
    uint32_t w[2], q[8];
    SLICE_UNUSED(side), SLICE_UNUSED(s);
    load_words<2>(block + 2 + 8 * j, w);
    for (int l = 0; l < 4; l++) {
        signed_row(iq2xxs_grid[w[0] >> 8 * l & 255u], even_signs(w[1] >> 7 * l & 127u), q + 2 * l);
    }
    n[0] += (int32_t)(2u * (w[1] >> 28) + 1u) * dot_words<8>(q, a);
}

/* Two halves of 16, each with an odd scale from a nibble. */
template <class A> DEVICE auto odd_scaled(uint32_t nibbles, const uint32_t *q, A a) {
    return (int32_t)(2u * (nibbles & 15u) + 1u) * dot_words<4>(q, a) +
           (int32_t)(2u * (nibbles >> 4) + 1u) * dot_words<4>(q + 4, a + 4);
}

SLICE(iq2_xs) {
    uint32_t w[2], q[8];
    SLICE_UNUSED(side), SLICE_UNUSED(s);
    load_words<2>(block + 2 + 8 * j, w);
    for (int l = 0; l < 4; l++) {
        uint32_t v = w[l >> 1] >> 16 * (l & 1) & 0xffffu;
        signed_row(iq2xs_grid[v & 511u], even_signs(v >> 9), q + 2 * l);
    }
    n[0] += odd_scaled(load_byte(block + 66 + j), q, a);
}

SLICE(iq2_s) {
    uint32_t low, signs, q[8], high = load_byte(block + 66 + j);
    SLICE_UNUSED(side), SLICE_UNUSED(s);
    load_words<1>(block + 2 + 4 * j, &low);
    load_words<1>(block + 34 + 4 * j, &signs);
    for (int l = 0; l < 4; l++) {
        uint32_t index = (low >> 8 * l & 255u) | (high >> 2 * l & 3u) << 8;
        signed_row(iq2s_grid[index], signs >> 8 * l & 255u, q + 2 * l);
    }
    n[0] += odd_scaled(load_byte(block + 74 + j), q, a);
}

SLICE(iq3_xxs) {
    uint32_t w[2], v, q[8];
    SLICE_UNUSED(side), SLICE_UNUSED(s);
    load_words<2>(block + 2 + 8 * j, w);
    load_words<1>(block + 66 + 4 * j, &v);
    for (int l = 0; l < 4; l++) {
        uint32_t pair = w[l >> 1] >> 16 * (l & 1), signs = even_signs(v >> 7 * l & 127u);
        q[2 * l] = negate_where(iq3xxs_grid[pair & 255u], spread_bits(signs & 15u));
        q[2 * l + 1] = negate_where(iq3xxs_grid[pair >> 8 & 255u], spread_bits(signs >> 4));
    }
    n[0] += (int32_t)(2u * (v >> 28) + 1u) * dot_words<8>(q, a);
}

SLICE(iq3_s) {
    uint32_t w[2], signs, q[8], high = load_byte(block + 66 + j);
    uint32_t scale = load_byte(block + 106 + (j >> 1)) >> 4 * (j & 1) & 15u;
    SLICE_UNUSED(side), SLICE_UNUSED(s);
    load_words<2>(block + 2 + 8 * j, w);
    load_words<1>(block + 74 + 4 * j, &signs);
    for (int t = 0; t < 8; t++) {
        uint32_t index = (w[t >> 2] >> 8 * (t & 3) & 255u) | (high >> t & 1u) << 8;
        q[t] = negate_where(iq3s_grid[index], spread_bits(signs >> 4 * t & 15u));
    }
    n[0] += (int32_t)(2u * scale + 1u) * dot_words<8>(q, a);
}

/* Levels 0, 1, 2 of a row's eight nibbles: they stand for -1, 0, 1. */
DEVICE void nibble_row(uint32_t row, uint32_t *q) {
    q[0] = row & 0x0f0f0f0fu;
    q[1] = row >> 4 & 0x0f0f0f0fu;
}

SLICE(iq1_s) {
    uint32_t low, q[8], v = load_half(block + 34 + 2 * j);
    int32_t scale = (int32_t)(2u * (v >> 12 & 7u) + 1u);
    SLICE_UNUSED(side);
    load_words<1>(block + 2 + 4 * j, &low);
    for (int l = 0; l < 4; l++) {
        nibble_row(iq1s_grid[(low >> 8 * l & 255u) | (v >> 3 * l & 7u) << 8], q + 2 * l);
    }
    n[0] += scale * dot_above<8, 1>(q, a, s[0] + s[1]);
    n[1] += (v >> 15 ? -scale : scale) * (s[0] + s[1]);
}

SLICE(iq1_m) {
    uint32_t low, v = load_half(block + 32 + 2 * j);
    uint32_t scales = load_half(block + 48 + 2 * (j >> 1)) >> 6 * (j & 1);
    SLICE_UNUSED(side), SLICE_UNUSED(s);
    load_words<1>(block + 4 * j, &low);
    for (int l = 0; l < 4; l++) {
        uint32_t high = v >> 4 * l & 15u, q[2];
        int32_t sum = dot4(a[2 * l], 0x01010101u, dot4(a[2 * l + 1], 0x01010101u, 0));
        int32_t scale = (int32_t)(2u * (scales >> 3 * (l >> 1) & 7u) + 1u);
        nibble_row(iq1s_grid[(low >> 8 * l & 255u) | (high & 7u) << 8], q);
        n[0] += scale * (dot_words<2>(q, a + 2 * l) - sum);
        n[1] += scale * (high & 8u ? -sum : sum);
    }
}

#undef SLICE
#undef SLICE_UNUSED

#endif /* OPREG_PLUGINS_SLICES_CUH */
