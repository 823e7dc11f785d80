/* SPDX-License-Identifier: MIT
 * rows32_fragments.cuh - weights of one row as they lie in the layout rows32 to what a lane holds of
 * them as an operand of a tensor core: words t and t + 4 of 32 weights, which are 32j .. 32j + 31 of a
 * superblock or a unit of its own.
 *
 * Where decode() makes those two words from word t of each 16-byte piece, by the same rule for every t,
 * the lane hands it word t in the place of word 0 and takes words 0 and 4.  Other formats have a rule
 * of their own here. */
#ifndef OPREG_SM90_ROWS32_FRAGMENTS_CUH
#define OPREG_SM90_ROWS32_FRAGMENTS_CUH

#include "rows32_load.cuh"

/* ---- units of 256 --------------------------------------------------------------------------------- */

/* group: row 0's; table: the lane's copy of the format's, null where it has none. */
template <class F> struct superblock_words {
    static const bool in_place = false;
    MEMBER void get(const uint8_t *group, uint32_t row, uint32_t t, int j, const uint32_t *table,
                    uint32_t *low, uint32_t *high) {
        uint32_t w[ROWS32_WORDS(F) + 3] = {}, q[8];
        (void)table;
#pragma unroll
        for (int c = 0; c < F::bytes / 16; c++) {
            w[4 * c] = *(const uint32_t *)(group + c * 512 + row * 16u + t * 4u);
        }
        F::decode(w, j, q, 0);
        *low = q[0];
        *high = q[4];
    }
};

/* in_place: weights 32j .. of odd j can be had as the upper nibbles of words where they lie, unsigned and
 * sixteen times what they are. */
template <> struct superblock_words<rows_q4_k> {
    static const bool in_place = true;
    MEMBER void get_in_place(const uint8_t *group, uint32_t row, uint32_t t, int j, uint32_t *low,
                             uint32_t *high) {
        const uint8_t *word = group + (1 + j / 2 * 2) * 512 + row * 16u + t * 4u;
        uint32_t mask = j & 1 ? 0xf0f0f0f0u : 0x0f0f0f0fu;
        *low = *(const uint32_t *)word & mask;
        *high = *(const uint32_t *)(word + 512) & mask;
    }
    MEMBER void get(const uint8_t *group, uint32_t row, uint32_t t, int j, const uint32_t *,
                    uint32_t *low, uint32_t *high) {
        get_in_place(group, row, t, j, low, high);
        *low = j & 1 ? *low >> 4 : *low;
        *high = j & 1 ? *high >> 4 : *high;
    }
};

/* Words i and i + 1 of a row, which lie in one piece of 16 bytes; i is even. */
MEMBER uint2 two_words(const uint8_t *group, uint32_t row, int i) {
    return *(const uint2 *)(group + i / 4 * 512 + row * 16u + i % 4 * 4);
}
/* Word i of a row, in a piece of 16 bytes or in that of 8. */
template <class F> MEMBER uint32_t one_word(const uint8_t *group, uint32_t row, int i) {
    constexpr int at8 = F::bytes / 16 * 4;
    const uint8_t *word = i < at8 ? group + i / 4 * 512 + row * 16u + i % 4 * 4
                                  : group + at8 * 128 + row * 8u + (i - at8) * 4;
    return *(const uint32_t *)word;
}

/* Four of a grid row's bytes by their index and four sign bits, and the second half of eight. */
template <class F> MEMBER uint32_t grid_half(const uint32_t *table, uint32_t index, uint32_t half) {
    return table[2 * F::copies * index + half];
}
MEMBER uint32_t with_signs(uint32_t bytes, uint32_t signs, uint32_t half) {
    return negate_bytes(bytes, sign_bytes(signs >> 4u * half & 15u));
}

template <> struct superblock_words<rows_iq2_xxs> {
    static const bool in_place = false;
    MEMBER void get(const uint8_t *group, uint32_t row, uint32_t t, int j, const uint32_t *table,
                    uint32_t *low, uint32_t *high) {
        typedef rows_iq2_xxs F;
        uint2 v = two_words(group, row, 2 * j);
        uint32_t entry = t >> 1, half = t & 1u;
        uint32_t index = v.x >> 8u * entry, signs = v.y >> 7u * entry;
        *low = with_signs(grid_half<F>(table, index & 255u, half), even_signs(signs & 127u), half);
        *high = with_signs(grid_half<F>(table, index >> 16 & 255u, half),
                           even_signs(signs >> 14 & 127u), half);
    }
};

template <> struct superblock_words<rows_iq2_xs> {
    static const bool in_place = false;
    MEMBER void get(const uint8_t *group, uint32_t row, uint32_t t, int j, const uint32_t *table,
                    uint32_t *low, uint32_t *high) {
        typedef rows_iq2_xs F;
        uint2 v = two_words(group, row, 2 * j);
        uint32_t half = t & 1u, first = v.x >> 16u * (t >> 1), second = v.y >> 16u * (t >> 1);
        *low = with_signs(grid_half<F>(table, first & 511u, half), even_signs(first >> 9 & 127u),
                          half);
        *high = with_signs(grid_half<F>(table, second & 511u, half), even_signs(second >> 9 & 127u),
                           half);
    }
};

template <> struct superblock_words<rows_iq2_s> {
    static const bool in_place = false;
    MEMBER void get(const uint8_t *group, uint32_t row, uint32_t t, int j, const uint32_t *table,
                    uint32_t *low, uint32_t *high) {
        typedef rows_iq2_s F;
        uint32_t entry = t >> 1, half = t & 1u;
        uint32_t index = one_word<F>(group, row, j) >> 8u * entry;
        uint32_t signs = one_word<F>(group, row, 8 + j) >> 8u * entry;
        uint32_t more = one_word<F>(group, row, 16 + j / 4) >> 8 * (j & 3) >> 2u * entry;
        *low = with_signs(grid_half<F>(table, (index & 255u) | (more & 3u) << 8, half), signs, half);
        *high = with_signs(grid_half<F>(table, (index >> 16 & 255u) | (more >> 4 & 3u) << 8, half),
                           signs >> 16, half);
    }
};

template <> struct superblock_words<rows_iq3_xxs> {
    static const bool in_place = false;
    MEMBER void get(const uint8_t *group, uint32_t row, uint32_t t, int j, const uint32_t *table,
                    uint32_t *low, uint32_t *high) {
        constexpr int copies = rows_iq3_xxs::copies;
        uint2 v = two_words(group, row, 2 * j);
        uint32_t signs = one_word<rows_iq3_xxs>(group, row, 16 + j) >> 7u * (t >> 1), half = t & 1u;
        *low = with_signs(table[copies * (v.x >> 8u * t & 255u)], even_signs(signs & 127u), half);
        *high = with_signs(table[copies * (v.y >> 8u * t & 255u)], even_signs(signs >> 14 & 127u),
                           half);
    }
};

template <> struct superblock_words<rows_iq3_s> {
    static const bool in_place = false;
    MEMBER void get(const uint8_t *group, uint32_t row, uint32_t t, int j, const uint32_t *table,
                    uint32_t *low, uint32_t *high) {
        constexpr int copies = rows_iq3_s::copies;
        uint2 v = two_words(group, row, 2 * j);
        uint32_t more = one_word<rows_iq3_s>(group, row, 16 + j / 4) >> 8 * (j & 3) >> t;
        uint32_t signs = one_word<rows_iq3_s>(group, row, 18 + j) >> 4u * t;
        *low = with_signs(table[copies * ((v.x >> 8u * t & 255u) | (more & 1u) << 8)], signs, 0u);
        *high = with_signs(table[copies * ((v.y >> 8u * t & 255u) | (more >> 4 & 1u) << 8)],
                           signs >> 16, 0u);
    }
};

/* One word of `eighths`. */
MEMBER uint32_t eighths_half(uint32_t row, uint32_t negative, uint32_t half) {
    return minus_bytes((half ? row >> 1 : row << 3) & 0x18181818u,
                       negative ? 0x09090909u : 0x07070707u);
}

template <> struct superblock_words<rows_iq1_s> {
    static const bool in_place = false;
    MEMBER void get(const uint8_t *group, uint32_t row, uint32_t t, int j, const uint32_t *table,
                    uint32_t *low, uint32_t *high) {
        constexpr int copies = rows_iq1_s::copies;
        uint32_t entry = t >> 1, half = t & 1u;
        uint32_t v = one_word<rows_iq1_s>(group, row, 8 + j / 2) >> 16 * (j & 1);
        uint32_t index = one_word<rows_iq1_s>(group, row, j) >> 8u * entry;
        uint32_t more = (v & 0xfffu) >> 3u * entry;
        uint32_t negative = v & 0x8000u;
        *low = eighths_half(table[copies * ((index & 255u) | (more & 7u) << 8)], negative, half);
        *high = eighths_half(table[copies * ((index >> 16 & 255u) | (more >> 6 & 7u) << 8)],
                             negative, half);
    }
};

template <> struct superblock_words<rows_iq1_m> {
    static const bool in_place = false;
    MEMBER void get(const uint8_t *group, uint32_t row, uint32_t t, int j, const uint32_t *table,
                    uint32_t *low, uint32_t *high) {
        constexpr int copies = rows_iq1_m::copies;
        uint32_t entry = t >> 1, half = t & 1u;
        uint32_t index = one_word<rows_iq1_m>(group, row, j) >> 8u * entry;
        uint32_t more = one_word<rows_iq1_m>(group, row, 8 + j / 2) >> 16 * (j & 1) >> 4u * entry;
        *low = eighths_half(table[copies * ((index & 255u) | (more & 7u) << 8)], more & 8u, half);
        *high = eighths_half(table[copies * ((index >> 16 & 255u) | (more >> 8 & 7u) << 8)],
                             more & 0x800u, half);
    }
};

/* ---- units of 32 ----------------------------------------------------------------------------------- */

/* Four units of a row: `pieces` of 16 bytes of codes, from piece first_piece(unit) on a unit's; the
 * rest of the group behind them.  rest: of row 0; codes: row 0's first piece of the unit; unit: of the
 * four. */
template <class F> struct unit_words {
    static const int pieces = F::bytes / 64 * 4, each = F::bytes / 64;
    static __device__ __host__ constexpr uint32_t first_piece(uint32_t unit) { return unit * each; }
    MEMBER void get(const uint8_t *codes, const uint8_t *rest, uint32_t row, uint32_t t,
                    uint32_t unit, uint32_t *low, uint32_t *high) {
        uint32_t w[4 * ROWS32_WORDS(F)] = {}, q[8];
        (void)rest;
        (void)unit;
#pragma unroll
        for (int c = 0; c < each; c++) {
            w[4 * c] = *(const uint32_t *)(codes + c * 512 + row * 16u + t * 4u);
        }
        F::decode(w, 0, q, 0);
        *low = q[0];
        *high = q[4];
    }
    /* Scale and min to where scale() and min() of unit 0 read them. */
    MEMBER void scales(const uint8_t *rest, uint32_t row, uint32_t unit, uint32_t *w) {
        constexpr uint32_t bytes = F::bytes / 4 - 16 * each;
        const uint8_t *mine = rest + row * (4u * bytes) + unit * bytes;
        w[16 * each] = bytes == 4   ? *(const uint32_t *)mine
                       : bytes == 2 ? *(const uint16_t *)mine
                                    : *mine;
    }
};

/* Bits 4t .. 4t + 3 and 16 further on of the unit's fifth bits. */
MEMBER uint32_t fifth_bits(const uint8_t *rest, uint32_t row, uint32_t t, uint32_t unit) {
    return *(const uint32_t *)(rest + row * 16u + unit * 4u) >> 4u * t;
}

template <> struct unit_words<rows_q5_0> {
    static const int pieces = 4, each = 1;
    static __device__ __host__ constexpr uint32_t first_piece(uint32_t unit) { return unit; }
    MEMBER void get(const uint8_t *codes, const uint8_t *rest, uint32_t row, uint32_t t,
                    uint32_t unit, uint32_t *low, uint32_t *high) {
        uint32_t h = ~fifth_bits(rest, row, t, unit);
        uint32_t v = *(const uint32_t *)(codes + row * 16u + t * 4u);
        *low = (v << 3 & 0x78787878u) | ((h & 15u) * 0x10204080u & 0x80808080u);
        *high = (v >> 1 & 0x78787878u) | ((h >> 16 & 15u) * 0x10204080u & 0x80808080u);
    }
    MEMBER void scales(const uint8_t *rest, uint32_t row, uint32_t unit, uint32_t *w) {
        w[20] = *(const uint16_t *)(rest + 512 + row * 8u + unit * 2u);
    }
};

template <> struct unit_words<rows_q5_1> {
    static const int pieces = 4, each = 1;
    static __device__ __host__ constexpr uint32_t first_piece(uint32_t unit) { return unit; }
    MEMBER void get(const uint8_t *codes, const uint8_t *rest, uint32_t row, uint32_t t,
                    uint32_t unit, uint32_t *low, uint32_t *high) {
        uint32_t h = fifth_bits(rest, row, t, unit);
        uint32_t v = *(const uint32_t *)(codes + row * 16u + t * 4u);
        *low = (v & 0x0f0f0f0fu) | ((h & 15u) * 0x02040810u & 0x10101010u);
        *high = (v >> 4 & 0x0f0f0f0fu) | ((h >> 16 & 15u) * 0x02040810u & 0x10101010u);
    }
    MEMBER void scales(const uint8_t *rest, uint32_t row, uint32_t unit, uint32_t *w) {
        w[20] = *(const uint32_t *)(rest + 512 + row * 16u + unit * 4u);
    }
};

/* Two units share a piece, and two a scale. */
template <> struct unit_words<rows_q2_0> {
    static const int pieces = 2, each = 1;
    static __device__ __host__ constexpr uint32_t first_piece(uint32_t unit) { return unit / 2u; }
    /* four codes of a byte to the levels -1, 0, 1, 2 */
    MEMBER uint32_t levels(uint32_t codes) {
        codes = (codes | codes << 4) & 0x0f0fu;
        codes = (codes | codes << 2) & 0x3333u;
        return permute(0x020100ffu, 0u, codes);
    }
    MEMBER void get(const uint8_t *codes, const uint8_t *rest, uint32_t row, uint32_t t,
                    uint32_t unit, uint32_t *low, uint32_t *high) {
        uint2 v = *(const uint2 *)(codes + row * 16u + unit % 2u * 8u);
        (void)rest;
        *low = levels(v.x >> 8u * t & 255u);
        *high = levels(v.y >> 8u * t & 255u);
    }
    MEMBER void scales(const uint8_t *rest, uint32_t row, uint32_t unit, uint32_t *w) {
        w[8] = *(const uint16_t *)(rest + row * 4u + unit / 2u * 2u);
    }
};

#endif /* OPREG_SM90_ROWS32_FRAGMENTS_CUH */
