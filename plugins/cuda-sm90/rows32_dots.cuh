/* SPDX-License-Identifier: MIT
 * rows32_dots.cuh - 32 weights of a lane's row times 32 activations in shared memory, in integers.
 *
 * A dot D of a format has
 *   crossed       the activations lie as cross_by4() puts them, else in order
 *   table_bytes, fill(base), make(base)
 *                 its tables in shared memory, and how a lane reads them
 *   sums(w, j, a, b, t, start, s0, s1)
 *                 *s1: start plus the dot of weights 32j .. 32j+31 of the group in w with codes a, b;
 *                 where F::sub is 16: *s0 and *s1, of the halves
 *
 * decode_dot is for any kernel; spread_dot may spend a multiprocessor's shared memory on tables. */
#ifndef OPREG_SM90_ROWS32_DOTS_CUH
#define OPREG_SM90_ROWS32_DOTS_CUH

#include "rows32_load.cuh"

struct dot_table {
    const uint32_t *words; /* of decode_dot: the lane's copy */
    uint32_t own, half; /* of spread_dot: shared addresses of the lane's copies among 32 and 16 */
    uint32_t levels[4];
};

/* A value that all lanes share, in an ordinary register for good: constants and values that the
 * compiler knows to be one a wave are made anew, or copied from uniform registers, at each use. */
MEMBER uint32_t kept(uint32_t value) {
    uint32_t odd = lane_index() & 1u, other = wave_xor(odd ? value : odd, 1);
    return odd ? value : other;
}

/* Bytes of b:a by the nibbles of the selector's low half; bit 3 of a nibble asks for the sign of
 * the byte, eight times. */
MEMBER uint32_t permute_signs(uint32_t a, uint32_t b, uint32_t selector) {
    uint32_t result;
    asm("prmt.b32 %0, %1, %2, %3;" : "=r"(result) : "r"(a), "r"(b), "r"(selector));
    return result;
}

/* ---- by the bytes that decode() makes ------------------------------------------------------- */

template <class F> struct decode_dot {
    static const bool crossed = false;
    static const int table_bytes = F::table_words * 4;
    MEMBER void fill(uint8_t *base) { fill_table<F>((uint32_t *)base); }
    MEMBER dot_table make(const uint8_t *base) {
        return {(const uint32_t *)base + F::entry_words * (lane_index() % F::copies), 0, 0, {}};
    }
    MEMBER void sums(const uint32_t *w, int j, const uint4 &a, const uint4 &b, const dot_table &t,
                     int32_t start, int32_t *s0, int32_t *s1) {
        uint32_t q[8];
        F::decode(w, j, q, t.words);
        *s0 = dot4(q[0], a.x, start);
        *s0 = dot4(q[1], a.y, *s0);
        *s0 = dot4(q[2], a.z, *s0);
        *s0 = dot4(q[3], a.w, *s0);
        *s1 = dot4(q[4], b.x, F::sub == 16 ? start : *s0);
        *s1 = dot4(q[5], b.y, *s1);
        *s1 = dot4(q[6], b.z, *s1);
        *s1 = dot4(q[7], b.w, *s1);
    }
};

/* ---- sixteen levels by nibble --------------------------------------------------------------- */

/* A nibble selects in two tables of eight: with its bit 3 set, the first gives the sign of an
 * entry, and without it the second does.  Each table makes up for the other's sign, so the sum of
 * both dots is the levels' and nothing is combined.  low and high: the levels of codes 0..7
 * and 8..15, changed so. */
template <uint32_t low0, uint32_t low1, uint32_t high0, uint32_t high1> struct levels_dot {
    static const bool crossed = true;
    static const int table_bytes = 0;
    MEMBER void fill(uint8_t *) {}
    MEMBER dot_table make(const uint8_t *base) {
        return {(const uint32_t *)base, 0, 0, {kept(low0), kept(low1), kept(high0), kept(high1)}};
    }
    MEMBER int32_t word(uint32_t w, uint32_t x0, uint32_t x1, const uint32_t *t, int32_t sum) {
        uint32_t other = w ^ 0x88888888u;
        sum = dot4(permute_signs(t[0], t[1], w), x0, sum);
        sum = dot4(permute_signs(t[2], t[3], other), x0, sum);
        sum = dot4(permute_signs(t[0], t[1], w >> 16), x1, sum);
        return dot4(permute_signs(t[2], t[3], other >> 16), x1, sum);
    }
    MEMBER void sums(const uint32_t *w, int j, const uint4 &a, const uint4 &b, const dot_table &t,
                     int32_t start, int32_t *s0, int32_t *s1) {
        *s0 = word(w[4 * j], a.x, a.y, t.levels, start);
        *s0 = word(w[4 * j + 1], a.z, a.w, t.levels, *s0);
        *s1 = word(w[4 * j + 2], b.x, b.y, t.levels, *s0);
        *s1 = word(w[4 * j + 3], b.z, b.w, t.levels, *s1);
    }
};

/* -127 .. -10 and 1 .. 113 plus 1: the first table's sign is -1, the second's 0 */
struct levels_iq4nl : levels_dot<0xbfad9881u, 0xf6eaddcfu, 0x271a0e02u, 0x725a4636u> {};
template <> struct decode_dot<rows_iq4_nl> : levels_iq4nl {};
template <> struct decode_dot<rows_iq4_xs> : levels_iq4nl {};
/* 0, then 1 .. 12 or 1 .. 10 plus 1, and their negatives: 0 has the sign 0, the others of the
 * second table -1 */
template <>
struct decode_dot<rows_mxfp4> : levels_dot<0x04030200u, 0x0d090705u, 0xfdfeff00u, 0xf4f8fafcu> {};
template <>
struct decode_dot<rows_rocmfp4_fast>
    : levels_dot<0x04030200u, 0x0b090705u, 0xfdfeff00u, 0xf6f8fafcu> {};

/* ---- grids ---------------------------------------------------------------------------------- */

template <class F> struct spread_dot : decode_dot<F> {};

/* Fills the `chunks` times 16 bytes of an entry with copies of two words; lanes begin at different
 * places, so that they do not meet in a bank: i is the entry's number. */
template <uint32_t chunks> DEVICE void put_copies(uint8_t *at, uint32_t i, uint32_t x, uint32_t y) {
    uint32_t first = chunks == 8u ? i : i / 2u;
#pragma unroll
    for (uint32_t k = 0; k < chunks; k++) {
        ((uint4 *)at)[(first + k) % chunks] = make_uint4(x, y, x, y);
    }
}
template <uint32_t chunks> DEVICE void put_entry(uint8_t *base, uint32_t i, uint32_t x, uint32_t y) {
    put_copies<chunks>(base + i * chunks * 16u, i, x, y);
}

/* Words T::entry(0 .. entries - 1), `copies` times each, from base on; the whole block. */
template <class T, int entries, int copies> DEVICE void fill_words(uint8_t *base) {
#pragma unroll 2
    for (uint32_t i = thread_index(); i < entries; i += thread_count()) {
        uint32_t word = T::entry(i);
        put_entry<copies / 4>(base, i, word, word);
    }
}

/* An address that the compiler does not take apart again, to add its parts at each use. */
DEVICE uint32_t lane_address(const uint8_t *base, uint32_t lane) {
    uint32_t at = (uint32_t)__cvta_generic_to_shared(base) + 4u * lane;
    asm volatile("" : "+r"(at));
    return at;
}

DEVICE uint32_t table_word(uint32_t at) {
    uint32_t word;
    asm volatile("ld.shared.u32 %0, [%1];" : "=r"(word) : "r"(at));
    return word;
}

/* The entry that byte i of w numbers, of a table at `at` with `apart` bytes an entry. */
DEVICE uint32_t byte_word(uint32_t at, uint32_t w, int i, uint32_t apart) {
    return table_word(permute(w, 0u, 0x4440u + (uint32_t)i) * apart + at);
}

/* Bits at .. at + width - 1 of w moved to bit `to` on. */
template <int width> MEMBER uint32_t field_at(uint32_t w, int at, int to) {
    uint32_t moved = at < to ? w << (to - at & 31) : w >> (at - to & 31);
    return moved & ((1u << width) - 1u) << to;
}

/* Bit i of eight at the bottom of nibble i. */
MEMBER uint32_t spread_to_nibbles(uint32_t bits) {
    bits = (bits | bits << 12) & 0x000f000fu;
    bits = (bits | bits << 6) & 0x03030303u;
    return (bits | bits << 3) & 0x11111111u;
}

/* A row of eight magnitudes 8, 25, 43 as nibbles 0, 1, 2; bit 2 of one negates. */
template <class F> struct grid_nibbles {
    MEMBER uint32_t entry(uint32_t i) { return word(F::entry_at((int)i)); }
    MEMBER uint32_t word(uint2 row) {
        uint32_t low = row.x >> 4 & 0x03030303u, high = row.y >> 4 & 0x03030303u;
        low = (low | low >> 4) & 0x00ff00ffu;
        high = (high | high >> 4) & 0x00ff00ffu;
        return permute(low, high, 0x6420u);
    }
};
struct even_sign_nibbles {
    MEMBER uint32_t entry(uint32_t i) { return spread_to_nibbles(even_signs(i)) << 2; }
};
struct sign_nibbles {
    MEMBER uint32_t entry(uint32_t i) { return spread_to_nibbles(i) << 2; }
};

MEMBER int32_t dot_nibbles(uint32_t nibbles, uint32_t x0, uint32_t x1, const uint32_t *levels,
                           int32_t sum) {
    sum = dot4(permute_signs(levels[0], levels[1], nibbles), x0, sum);
    return dot4(permute_signs(levels[0], levels[1], nibbles >> 16), x1, sum);
}

/* D::nibbles(w, j, l, t): eight weights. */
template <class D, int sub> struct nibbles_dot {
    static const bool crossed = false;
    MEMBER dot_table make(const uint8_t *base) {
        uint32_t lane = lane_index();
        return {0, lane_address(base, lane), lane_address(base, lane & 15u),
                {kept(0x002b1908u), kept(0x00d5e7f8u)}};
    }
    MEMBER void sums(const uint32_t *w, int j, const uint4 &a, const uint4 &b, const dot_table &t,
                     int32_t start, int32_t *s0, int32_t *s1) {
        *s0 = dot_nibbles(D::nibbles(w, j, 0, t), a.x, a.y, t.levels, start);
        *s0 = dot_nibbles(D::nibbles(w, j, 1, t), a.z, a.w, t.levels, *s0);
        *s1 = dot_nibbles(D::nibbles(w, j, 2, t), b.x, b.y, t.levels, sub == 16 ? start : *s0);
        *s1 = dot_nibbles(D::nibbles(w, j, 3, t), b.z, b.w, t.levels, *s1);
    }
};

/* Tables of words in 32 copies, a bank each, so that lanes never meet; a byte of an index is then
 * 128 bytes. */
template <> struct spread_dot<rows_iq2_xxs> : nibbles_dot<spread_dot<rows_iq2_xxs>, 32> {
    static const int signs = 256 * 128, table_bytes = ROWS32_SPREAD_TABLE(256, 128);
    MEMBER void fill(uint8_t *base) {
        fill_words<grid_nibbles<rows_iq2_xxs>, 256, 32>(base);
        fill_words<even_sign_nibbles, 128, 32>(base + signs);
    }
    MEMBER uint32_t nibbles(const uint32_t *w, int j, int l, const dot_table &t) {
        return byte_word(t.own, w[2 * j], l, 128) ^
               table_word(t.own + signs + field_at<7>(w[2 * j + 1], 7 * l, 7));
    }
};

template <> struct spread_dot<rows_iq2_xs> : nibbles_dot<spread_dot<rows_iq2_xs>, 16> {
    static const int signs = 512 * 128, table_bytes = ROWS32_SPREAD_TABLE(512, 128);
    MEMBER void fill(uint8_t *base) {
        fill_words<grid_nibbles<rows_iq2_xs>, 512, 32>(base);
        fill_words<even_sign_nibbles, 128, 32>(base + signs);
    }
    MEMBER uint32_t nibbles(const uint32_t *w, int j, int l, const dot_table &t) {
        uint32_t v = w[2 * j + (l >> 1)];
        return table_word(t.own + field_at<9>(v, 16 * (l & 1), 7)) ^
               table_word(t.own + signs + field_at<7>(v, 16 * (l & 1) + 9, 7));
    }
};

/* The grid in 16 copies only: two lanes a bank. */
template <> struct spread_dot<rows_iq2_s> : nibbles_dot<spread_dot<rows_iq2_s>, 16> {
    static const int signs = 1024 * 64, table_bytes = ROWS32_SPREAD_TABLE(512, 256);
    MEMBER void fill(uint8_t *base) {
        fill_words<grid_nibbles<rows_iq2_s>, 1024, 16>(base);
        fill_words<sign_nibbles, 256, 32>(base + signs);
    }
    MEMBER uint32_t nibbles(const uint32_t *w, int j, int l, const dot_table &t) {
        uint32_t high = field_at<2>(w[16 + (j >> 2)], 8 * (j & 3) + 2 * l, 14);
        return byte_word(t.half + high, w[j], l, 64) ^ byte_word(t.own + signs, w[8 + j], l, 128);
    }
};

/* Signs of eight: the first four at the top of each byte, the others at the top of its low half. */
MEMBER uint32_t sign_tops(uint32_t bits) {
    return ((bits & 15u) * 0x10204080u & 0x80808080u) | ((bits >> 4) * 0x01020408u & 0x08080808u);
}
struct even_sign_tops {
    MEMBER uint32_t entry(uint32_t i) { return sign_tops(even_signs(i)); }
};
struct eight_sign_tops {
    MEMBER uint32_t entry(uint32_t i) { return sign_tops(i); }
};
template <class F> struct grid_words {
    MEMBER uint32_t entry(uint32_t i) { return F::entry_at((int)i).x; }
    MEMBER uint32_t word(uint2 row) { return row.x; }
};

/* D::row(w, j, i, t): four magnitudes; D::tops(w, j, l, t): signs of eight.  A negated byte is its
 * complement plus 1, and the ones are summed apart. */
template <class D> struct magnitudes_dot {
    static const bool crossed = false;
    MEMBER dot_table make(const uint8_t *base) {
        return {0, lane_address(base, lane_index()), 0, {}};
    }
    MEMBER void eight(const uint32_t *w, int j, int l, const dot_table &t, uint32_t x0, uint32_t x1,
                      int32_t *sum, int32_t *minus) {
        uint32_t tops = D::tops(w, j, l, t);
        uint32_t first = permute_signs(tops, 0u, 0xba98u),
                 other = permute_signs(tops << 4, 0u, 0xba98u);
        *sum = dot4(D::row(w, j, 2 * l, t) ^ first, x0, *sum);
        *sum = dot4(D::row(w, j, 2 * l + 1, t) ^ other, x1, *sum);
        *minus = dot4(first, x0, *minus);
        *minus = dot4(other, x1, *minus);
    }
    MEMBER void sums(const uint32_t *w, int j, const uint4 &a, const uint4 &b, const dot_table &t,
                     int32_t start, int32_t *s0, int32_t *s1) {
        int32_t sum = start, minus = 0;
        eight(w, j, 0, t, a.x, a.y, &sum, &minus);
        eight(w, j, 1, t, a.z, a.w, &sum, &minus);
        eight(w, j, 2, t, b.x, b.y, &sum, &minus);
        eight(w, j, 3, t, b.z, b.w, &sum, &minus);
        *s0 = 0;
        *s1 = sum - minus;
    }
};

template <> struct spread_dot<rows_iq3_xxs> : magnitudes_dot<spread_dot<rows_iq3_xxs>> {
    static const int signs = 256 * 128, table_bytes = ROWS32_SPREAD_TABLE(256, 128);
    MEMBER void fill(uint8_t *base) {
        fill_words<grid_words<rows_iq3_xxs>, 256, 32>(base);
        fill_words<even_sign_tops, 128, 32>(base + signs);
    }
    MEMBER uint32_t tops(const uint32_t *w, int j, int l, const dot_table &t) {
        return table_word(t.own + signs + field_at<7>(w[16 + j], 7 * l, 7));
    }
    MEMBER uint32_t row(const uint32_t *w, int j, int i, const dot_table &t) {
        return byte_word(t.own, w[2 * j + (i >> 2)], i & 3, 128);
    }
};

template <> struct spread_dot<rows_iq3_s> : magnitudes_dot<spread_dot<rows_iq3_s>> {
    static const int signs = 512 * 128, table_bytes = ROWS32_SPREAD_TABLE(512, 256);
    MEMBER void fill(uint8_t *base) {
        fill_words<grid_words<rows_iq3_s>, 512, 32>(base);
        fill_words<eight_sign_tops, 256, 32>(base + signs);
    }
    MEMBER uint32_t tops(const uint32_t *w, int j, int l, const dot_table &t) {
        return byte_word(t.own + signs, w[18 + j], l, 128);
    }
    MEMBER uint32_t row(const uint32_t *w, int j, int i, const dot_table &t) {
        uint32_t high = field_at<1>(w[16 + (j >> 2)], 8 * (j & 3) + i, 15);
        return byte_word(t.own + high, w[2 * j + (i >> 2)], i & 3, 128);
    }
};

#endif /* OPREG_SM90_ROWS32_DOTS_CUH */
