/* SPDX-License-Identifier: MIT
 * rows32_ring_dots.cuh - dots of a lane's own weights on integer tensor cores: two runs of 32 weights
 * of a row times the activations of each.
 *
 * Lane (g, t) = (lane / 4, lane % 4) has rows g and g + 8 of sixteen, one at a time, and the runs 2t and 2t + 1 of a
 * superblock, which are rows g and g + 8 of a product's left side.  The right side has x of lane t's first run
 * in column 2t and of its second in column 2t + 1, and zeros elsewhere, so that outputs (g, 2t) and (g
 * + 8, 2t + 1), which the lane gets, are its two dots.  The others mean nothing.
 *
 * A ring_dot of a format has
 *   words, pad            of a lane; bytes after each 256 of an item in shared memory, so that lanes do
 *                         not meet in a bank
 *   order                 in which the activations lie: X_IN_ORDER or X_HALVES
 *   table_bytes, ask(rows), fill(base, rows), make(base)
 *                         its tables in shared memory
 *   read(item, g, t, w)   the lane's words of row g of an item
 *   sums(w, x, sums, t, n, m)
 *                         what its runs add to the superblock's integer sums
 *   d(item, g)            bits of the row's d, and of dmin above them */
#ifndef OPREG_SM90_ROWS32_RING_DOTS_CUH
#define OPREG_SM90_ROWS32_RING_DOTS_CUH

#include "rows32_dots.cuh"
#include "rows32_x.cuh"
#include "tensor.cuh"

/* The lane's part of the right side; zeros for good where it has none. */
struct ring_x {
    uint32_t w[8];
    bool mine;

    __device__ __forceinline__ void start() {
        mine = (lane_index() & 3u) == lane_index() >> 3;
#pragma unroll
        for (int i = 0; i < 8; i++) {
            w[i] = 0;
        }
    }
    /* Where its words of a superblock begin. */
    template <int order> static __device__ __forceinline__ uint32_t offset() {
        uint32_t lane = lane_index();
        return order == X_HALVES ? (lane >> 3) * 64u + (lane & 4u) * 4u : (lane >> 2) * 32u;
    }
    template <int order> __device__ __forceinline__ void load(const uint8_t *codes) {
        if (mine) {
            uint4 a = *(const uint4 *)codes, b = *(const uint4 *)(codes + (order == X_HALVES ? 32 : 16));
            w[0] = a.x, w[1] = a.y, w[2] = a.z, w[3] = a.w;
            w[4] = b.x, w[5] = b.y, w[6] = b.z, w[7] = b.w;
        }
    }
};

/* A thread's rows of a grid on their way from global memory: a few at once, asked for well ahead of
 * their use. */
struct table_rows {
    uint2 of[2];
};
template <class F> struct rows_asked { /* of a thread, of 16 waves                                     */
    static const uint32_t count = F::entries > 512 ? 2 : 1;
};

/* The lane's bytes of a table's copies, of 32 words and of 16 pairs; where the tables begin; constants. */
struct ring_table {
    uint32_t own, half, base, levels[4];
};

template <class F> struct ring_dot;

/* Words from shared memory. */
template <int count> DEVICE void read_words(const uint8_t *p, uint32_t *w) {
    if (count == 4) {
        uint4 v = *(const uint4 *)p;
        w[0] = v.x, w[1] = v.y, w[count - 2] = v.z, w[count - 1] = v.w;
    } else {
        uint2 v = *(const uint2 *)p;
        w[0] = v.x, w[1] = v.y;
    }
}
DEVICE uint32_t read_half(const uint8_t *p) { return *(const uint16_t *)p; }

/* ---- Q2_K: codes where they are, and the sums divided by the place of their bits ------------------ */

template <> struct ring_dot<rows_q2_k> {
    static const int words = 9, pad = 16, order = X_IN_ORDER, table_bytes = 0;
    MEMBER void ask(table_rows *) {}
    MEMBER void fill(uint8_t *, const table_rows &) {}
    MEMBER ring_table make(const uint8_t *) {
        uint32_t t = lane_index() & 3u;
        return {0, 0, 0, {0x03030303u << 4u * (t & 1u), 4u * t, 0, 0}};
    }
    MEMBER uint32_t d(const uint8_t *item, uint32_t g) {
        return *(const uint32_t *)(item + ROWS32_RING_TAIL(84, pad) + g * 4u);
    }
    MEMBER void read(const uint8_t *item, uint32_t g, uint32_t t, uint32_t *w) {
        const uint8_t *at = item + (1u + (t >> 1) * 2u) * (256u + pad) + g * 16u;
        read_words<4>(at, w);
        read_words<4>(at + (256 + pad), w + 4);
        w[8] = *(const uint32_t *)(item + g * 16u + t * 4u);
    }
    /* Half of both runs. */
    MEMBER void half(int32_t *c, const uint32_t *v, uint32_t mask, const uint32_t *x) {
#pragma unroll
        for (int l = 0; l < 2; l++) {
            uint32_t a[4] = {v[2 * l] & mask, v[2 * l] & mask << 2, v[2 * l + 1] & mask,
                             v[2 * l + 1] & mask << 2};
            mma_k32_unsigned_add(c, a, x[2 * l], x[2 * l + 1]);
        }
    }
    MEMBER void sums(const uint32_t *w, const uint32_t *x, const int16_t *sums, const ring_table &t,
                     int32_t *n, int32_t *m) {
        int32_t c[2][4] = {{0, 0, 0, 0}, {0, 0, 0, 0}};
        uint32_t s = w[8] & 0x0f0f0f0fu, mins = w[8] >> 4 & 0x0f0f0f0fu;
        half(c[0], w, t.levels[0], x);
        half(c[1], w + 4, t.levels[0], x + 4);
        int32_t first = signed_byte(s, 0) * c[0][0] + signed_byte(s, 1) * c[1][0];
        int32_t second = signed_byte(s, 2) * c[0][3] + signed_byte(s, 3) * c[1][3];
        uint2 pairs = *(const uint2 *)(sums + t.levels[1]);
        *n = (first + (second >> 2)) >> (t.levels[1] & 4u);
        *m = __dp2a_lo((int)pairs.x, (int)mins, 0);
        *m = __dp2a_hi((int)pairs.y, (int)mins, *m);
    }
};

/* ---- grids: tables of entries in copies that no two lanes' banks meet ------------------------------ */

/* Bytes from an entry that an index byte numbers to the next, so that a permute makes an address: the
 * index above the byte that has the lane's copy.  Two tables share them. */
#define RING_ENTRY 256
/* What a byte with its top bit set takes off an address: see entry_of(). */
#define RING_BELOW 65536

/* Words at a shared address and `offset` on. */
template <uint32_t offset> DEVICE uint32_t word_at(uint32_t at) {
    uint32_t word;
    asm volatile("ld.shared.u32 %0, [%1+%2];" : "=r"(word) : "r"(at), "n"(offset));
    return word;
}
template <uint32_t offset> DEVICE uint2 words_at(uint32_t at) {
    uint2 words;
    asm volatile("ld.shared.v2.u32 {%0, %1}, [%2+%3];"
                 : "=r"(words.x), "=r"(words.y)
                 : "r"(at), "n"(offset));
    return words;
}

/* The entry that byte i of w numbers, of a table's copy at the byte `copy`; or of the copy at byte i of
 * `copies`, which is RING_BELOW further down where that byte's top bit is set. */
MEMBER uint32_t entry_of(uint32_t w, int i, uint32_t copy) {
    return permute(w, copy, 0x5504u + 0x10u * (uint32_t)i);
}
MEMBER uint32_t entry_of_bits(uint32_t w, int i, uint32_t copies) {
    return permute_signs(w, copies, 0xcc04u + 0x1111u * (uint32_t)i);
}

/* A byte, and four times it, that are not made anew at each use. */
MEMBER uint32_t kept_byte(uint32_t byte) {
    asm volatile("" : "+r"(byte));
    return byte;
}
MEMBER uint32_t kept_copies(uint32_t byte) { return kept_byte(byte * 0x01010101u); }

/* v / 65536 on the multipliers' pipe, which has room where the other is full: the compiler does not
 * know that shift is 65536. */
MEMBER uint32_t upper_half(uint32_t v, uint32_t shift) {
    uint32_t half;
    asm("mul.hi.u32 %0, %1, %2;" : "=r"(half) : "r"(v), "r"(shift));
    return half;
}
/* The same, faster and without a register for the shift. */
MEMBER uint32_t upper_half(uint32_t v) { return __dp2a_lo(v, 256u, 0u); }

/* Puts T::word(row) of the entries D::entry(i) at D::place(i), D::copies times. */
template <class F, class D> DEVICE void ask_rows(table_rows *rows) {
#pragma unroll
    for (uint32_t k = 0; k < rows_asked<F>::count; k++) {
        uint32_t i = thread_index() + k * thread_count();
        if (i < F::entries) {
            rows->of[k] = F::entry_at((int)D::entry(i));
        }
    }
}
template <class F, class D, class T>
DEVICE void fill_rows(uint8_t *base, const table_rows &rows) {
#pragma unroll
    for (uint32_t k = 0; k < rows_asked<F>::count; k++) {
        uint32_t i = thread_index() + k * thread_count();
        if (i < F::entries) {
            uint32_t word = T::word(rows.of[k]);
            put_copies<D::copies / 4>(base + D::place(i), i, word, word);
        }
    }
    for (uint32_t i = thread_index() + rows_asked<F>::count * thread_count(); i < F::entries;
         i += thread_count()) {
        uint32_t word = T::word(F::entry_at((int)D::entry(i)));
        put_copies<D::copies / 4>(base + D::place(i), i, word, word);
    }
}
/* Of 0 .. entries - 1, `apart` bytes from one to the next. */
template <class T, uint32_t entries, uint32_t apart> DEVICE void fill_signs(uint8_t *base) {
    for (uint32_t i = thread_index(); i < entries; i += thread_count()) {
        uint2 words = T::signs(i);
        put_copies<8>(base + i * apart, i, words.x, words.y);
    }
}

/* d of the formats with grids is the last piece of an item. */
template <class F, int pad> DEVICE uint32_t grid_d(const uint8_t *item, uint32_t g) {
    constexpr int ahead = ROWS32_RING_TAIL(F::bytes, pad) + 16 * (F::bytes % 16 - 2);
    return read_half(item + ahead + g * 2u);
}

/* ---- grids of eight: nibbles that select levels and signs in one permute --------------------------- */

/* D::upper(w, j): what nibbles() wants of a run; D::nibbles(w, j, l, upper, t): eight weights, a grid's
 * word and one of signs added, as either pipe can. */
template <class D> struct ring_nibbles {
    static const int order = X_IN_ORDER;
    static const uint32_t copies = 32;
    MEMBER uint32_t entry(uint32_t i) { return i; }
    MEMBER uint32_t place(uint32_t i) { return i * RING_ENTRY; }
    MEMBER void ask(table_rows *rows) { ask_rows<typename D::format, D>(rows); }
    MEMBER ring_table make(const uint8_t *base) {
        uint32_t lane = lane_index();
        return {kept_byte(4u * lane), 0, shared_address(base),
                {kept(0x002b1908u), kept(0x00d5e7f8u), kept_copies(4u * (lane & 15u)), 0}};
    }
    MEMBER uint32_t upper(const uint32_t *, int, const ring_table &) { return 0u; }
    /* c[0]: the dots of both runs, or where `second` is 1 of their first halves, and c[1] the others'. */
    template <int second>
    MEMBER void halves(int32_t (*c)[4], const uint32_t *w, const uint32_t *x, const ring_table &t) {
        const uint32_t *levels = t.levels, upper[2] = {D::upper(w, 0, t), D::upper(w, 1, t)};
#pragma unroll
        for (int i = 0; i < 4; i++) {
            c[0][i] = c[second][i] = 0;
        }
#pragma unroll
        for (int l = 0; l < 4; l++) {
            uint32_t p = D::nibbles(w, 0, l, upper[0], t), q = D::nibbles(w, 1, l, upper[1], t);
            uint32_t a[4] = {permute_signs(levels[0], levels[1], p),
                             permute_signs(levels[0], levels[1], q),
                             permute_signs(levels[0], levels[1], upper_half(p)),
                             permute_signs(levels[0], levels[1], upper_half(q))};
            mma_k32_add(c[second * (l >> 1)], a, x[2 * l], x[2 * l + 1]);
        }
    }
};

/* Odd sub-scales of both halves of both runs, as four nibbles. */
DEVICE int32_t times_nibbles(uint32_t s, const int32_t (*c)[4]) {
    int32_t sum = (int32_t)(s & 15u) * c[0][0] + (int32_t)(s >> 4 & 15u) * c[1][0] +
                  (int32_t)(s >> 8 & 15u) * c[0][3] + (int32_t)(s >> 12) * c[1][3];
    return 2 * sum + (c[0][0] + c[1][0] + c[0][3] + c[1][3]);
}

template <bool even> struct nibbles_of_signs {
    MEMBER uint2 signs(uint32_t i) {
        uint32_t word = spread_to_nibbles(even ? even_signs(i) : i) << 2;
        return make_uint2(word, word);
    }
};

template <> struct ring_dot<rows_iq2_xxs> : ring_nibbles<ring_dot<rows_iq2_xxs>> {
    typedef rows_iq2_xxs format;
    static const int words = 4, pad = 32, signs = 128;
    static const int table_bytes = ROWS32_RING_TABLE_iq2_xxs;
    MEMBER void fill(uint8_t *base, const table_rows &rows) {
        fill_signs<nibbles_of_signs<true>, 128, RING_ENTRY>(base + signs);
        fill_rows<rows_iq2_xxs, ring_dot, grid_nibbles<rows_iq2_xxs>>(base, rows);
    }
    MEMBER uint32_t d(const uint8_t *item, uint32_t g) { return grid_d<rows_iq2_xxs, pad>(item, g); }
    MEMBER void read(const uint8_t *item, uint32_t g, uint32_t t, uint32_t *w) {
        read_words<4>(item + t * (256u + pad) + g * 16u, w);
    }
    MEMBER uint32_t nibbles(const uint32_t *w, int j, int l, uint32_t, const ring_table &t) {
        return word_at<0>(entry_of(w[2 * j], l, t.own) + t.base) +
               word_at<signs>((field_at<7>(w[2 * j + 1], 7 * l, 8) | t.own) + t.base);
    }
    MEMBER void sums(const uint32_t *w, const uint32_t *x, const int16_t *, const ring_table &t,
                     int32_t *n, int32_t *) {
        int32_t c[2][4];
        halves<0>(c, w, x, t);
        int32_t first = c[0][0], second = c[0][3];
        *n = 2 * ((int32_t)(w[1] >> 28) * first + (int32_t)(w[3] >> 28) * second) + (first + second);
    }
};

/* Indices are no bytes: entries are 128 bytes apart. */
template <> struct ring_dot<rows_iq2_xs> : ring_nibbles<ring_dot<rows_iq2_xs>> {
    typedef rows_iq2_xs format;
    static const int words = 5, pad = 32, signs = 512 * 128;
    static const int table_bytes = ROWS32_RING_TABLE_iq2_xs;
    MEMBER uint32_t place(uint32_t i) { return i * 128u; }
    MEMBER void fill(uint8_t *base, const table_rows &rows) {
        fill_signs<nibbles_of_signs<true>, 128, 128>(base + signs);
        fill_rows<rows_iq2_xs, ring_dot, grid_nibbles<rows_iq2_xs>>(base, rows);
    }
    MEMBER uint32_t d(const uint8_t *item, uint32_t g) { return grid_d<rows_iq2_xs, pad>(item, g); }
    MEMBER void read(const uint8_t *item, uint32_t g, uint32_t t, uint32_t *w) {
        read_words<4>(item + t * (256u + pad) + g * 16u, w);
        w[4] = read_half(item + ROWS32_RING_TAIL(74, pad) + g * 8u + t * 2u);
    }
    MEMBER uint32_t nibbles(const uint32_t *w, int j, int l, uint32_t, const ring_table &t) {
        uint32_t v = w[2 * j + (l >> 1)];
        return word_at<0>((field_at<9>(v, 16 * (l & 1), 7) | t.own) + t.base) +
               word_at<signs>((field_at<7>(v, 16 * (l & 1) + 9, 7) | t.own) + t.base);
    }
    MEMBER void sums(const uint32_t *w, const uint32_t *x, const int16_t *, const ring_table &t,
                     int32_t *n, int32_t *) {
        int32_t c[2][4];
        halves<1>(c, w, x, t);
        *n = times_nibbles(w[4], c);
    }
};

/* The grid in 16 copies only: two lanes a bank.  The two upper bits of an index are the top ones of the
 * byte that has the copy. */
template <> struct ring_dot<rows_iq2_s> : ring_nibbles<ring_dot<rows_iq2_s>> {
    typedef rows_iq2_s format;
    static const int words = 6, pad = 64, grid = RING_BELOW, signs = RING_BELOW + 128;
    static const int table_bytes = ROWS32_RING_TABLE_iq2_s;
    static const uint32_t copies = 16;
    /* neighbours of which two lie beside each other */
    MEMBER uint32_t entry(uint32_t i) { return (i & 512u) | (i & 1u) << 8 | (i >> 1 & 255u); }
    MEMBER uint32_t place(uint32_t i) {
        return (i & 512u ? 128u : grid) + (i >> 1 & 255u) * RING_ENTRY + (i & 1u) * 64u;
    }
    MEMBER void fill(uint8_t *base, const table_rows &rows) {
        fill_signs<nibbles_of_signs<false>, 256, RING_ENTRY>(base + signs);
        fill_rows<rows_iq2_s, ring_dot, grid_nibbles<rows_iq2_s>>(base, rows);
    }
    MEMBER uint32_t d(const uint8_t *item, uint32_t g) { return grid_d<rows_iq2_s, pad>(item, g); }
    MEMBER void read(const uint8_t *item, uint32_t g, uint32_t t, uint32_t *w) {
        const uint8_t *at = item + (t >> 1) * (256u + pad) + (t & 1u) * 8u + g * 16u;
        read_words<2>(at, w);
        read_words<2>(at + 2 * (256 + pad), w + 2);
        at = item + 4 * (256 + pad) + g * 16u + t * 2u;
        w[4] = read_half(at);
        w[5] = read_half(at + 8);
    }
    MEMBER uint32_t upper(const uint32_t *w, int j, const ring_table &t) { /* two bits to each copy */
        uint32_t q = (w[4] >> 8 * j & 255u) * 0x1001u & 0x000f000fu;
        return (q * 0x1040u & 0xc0c0c0c0u) | t.levels[2];
    }
    MEMBER uint32_t nibbles(const uint32_t *w, int j, int l, uint32_t upper, const ring_table &t) {
        return word_at<grid>(entry_of_bits(w[j], l, upper) + t.base) +
               word_at<signs>(entry_of(w[2 + j], l, t.own) + t.base);
    }
    MEMBER void sums(const uint32_t *w, const uint32_t *x, const int16_t *, const ring_table &t,
                     int32_t *n, int32_t *) {
        int32_t c[2][4];
        halves<1>(c, w, x, t);
        *n = times_nibbles(w[5], c);
    }
};

/* ---- grids of four: magnitudes, and masks of eight signs as two words ------------------------------ */

template <bool even> struct masks_of_signs {
    MEMBER uint2 signs(uint32_t i) {
        uint32_t bits = even ? even_signs(i) : i;
        return make_uint2(sign_bytes(bits & 15u), sign_bytes(bits >> 4));
    }
};

/* D::row(w, j, h, i, upper, t): four magnitudes, i of half h; D::mask(w, j, l, t): of eight weights;
 * D::upper(w, j, h): what row() wants of half a run.  A product takes four words of one run, of which x
 * has words 0 and 2 in the first column and 1 and 3 in the second, so both outputs are the run's.  A
 * negated byte is its complement plus 1: the ones are summed apart, or where D::odd says that all
 * magnitudes are odd, the complement's last bit alone is wrong. */
template <class D> struct ring_magnitudes {
    static const int order = X_HALVES;
    static const uint32_t copies = 32;
    MEMBER uint32_t entry(uint32_t i) { return i; }
    MEMBER uint32_t place(uint32_t i) { return i * RING_ENTRY; }
    MEMBER void ask(table_rows *rows) { ask_rows<typename D::format, D>(rows); }
    MEMBER ring_table make(const uint8_t *base) {
        uint32_t other = lane_index() ^ 1u; /* that lane gives what is not made anew at each use           */
        return {wave_xor(4u * other, 1), wave_xor(8u * (other & 15u), 1), shared_address(base),
                {wave_xor(0x04040404u * other, 1), 0, 0, 0}};
    }
    MEMBER int32_t run(const uint32_t *w, int j, const uint32_t *x, const ring_table &t) {
        int32_t sum[4] = {0, 0, 0, 0}, minus[4] = {0, 0, 0, 0};
#pragma unroll
        for (int h = 0; h < 2; h++) {
            uint32_t upper = D::upper(w, j, h, t), a[4];
            uint2 first = D::mask(w, j, 2 * h, t), second = D::mask(w, j, 2 * h + 1, t);
            uint32_t masks[4] = {first.x, first.y, second.x, second.y};
#pragma unroll
            for (int i = 0; i < 4; i++) {
                a[i] = (D::row(w, j, h, i, upper, t) ^ masks[i]) | (D::odd ? 0x01010101u : 0u);
            }
            mma_k32_add(sum, a, x[2 * h], x[2 * h + 1]);
            if (!D::odd) {
                mma_k32_add(minus, masks, x[2 * h], x[2 * h + 1]);
            }
        }
        return sum[0] + sum[3] - minus[0] - minus[3];
    }
};

template <> struct ring_dot<rows_iq3_xxs> : ring_magnitudes<ring_dot<rows_iq3_xxs>> {
    typedef rows_iq3_xxs format;
    static const int words = 6, pad = 32, signs = 128;
    static const bool odd = false;
    static const int table_bytes = ROWS32_RING_TABLE_iq3_xxs;
    MEMBER void fill(uint8_t *base, const table_rows &rows) {
        fill_signs<masks_of_signs<true>, 128, RING_ENTRY>(base + signs);
        fill_rows<rows_iq3_xxs, ring_dot, grid_words<rows_iq3_xxs>>(base, rows);
    }
    MEMBER uint32_t d(const uint8_t *item, uint32_t g) { return grid_d<rows_iq3_xxs, pad>(item, g); }
    MEMBER void read(const uint8_t *item, uint32_t g, uint32_t t, uint32_t *w) {
        read_words<4>(item + t * (256u + pad) + g * 16u, w);
        read_words<2>(item + (4u + (t >> 1)) * (256u + pad) + (t & 1u) * 8u + g * 16u, w + 4);
    }
    MEMBER uint32_t upper(const uint32_t *, int, int, const ring_table &) { return 0u; }
    MEMBER uint32_t row(const uint32_t *w, int j, int h, int i, uint32_t, const ring_table &t) {
        return word_at<0>(entry_of(w[2 * j + h], i, t.own) + t.base);
    }
    MEMBER uint2 mask(const uint32_t *w, int j, int l, const ring_table &t) {
        return words_at<signs>((field_at<7>(w[4 + j], 7 * l, 8) | t.half) + t.base);
    }
    MEMBER void sums(const uint32_t *w, const uint32_t *x, const int16_t *, const ring_table &t,
                     int32_t *n, int32_t *) {
        *n = (int32_t)((w[4] >> 28) * 2u + 1u) * run(w, 0, x, t) +
             (int32_t)((w[5] >> 28) * 2u + 1u) * run(w, 1, x + 4, t);
    }
};

/* The upper bit of an index is the top one of the byte that has the copy. */
template <> struct ring_dot<rows_iq3_s> : ring_magnitudes<ring_dot<rows_iq3_s>> {
    typedef rows_iq3_s format;
    static const uint32_t tail = ROWS32_RING_TAIL(110, 32);
    static const int words = 8, pad = 32, grid = RING_BELOW, signs = RING_BELOW + 128;
    static const bool odd = true;
    static const int table_bytes = ROWS32_RING_TABLE_iq3_s;
    MEMBER uint32_t place(uint32_t i) {
        return (i & 256u ? 128u : grid) + (i & 255u) * RING_ENTRY;
    }
    MEMBER void fill(uint8_t *base, const table_rows &rows) {
        fill_signs<masks_of_signs<false>, 256, RING_ENTRY>(base + signs);
        fill_rows<rows_iq3_s, ring_dot, grid_words<rows_iq3_s>>(base, rows);
    }
    MEMBER uint32_t d(const uint8_t *item, uint32_t g) { return grid_d<rows_iq3_s, pad>(item, g); }
    MEMBER void read(const uint8_t *item, uint32_t g, uint32_t t, uint32_t *w) {
        uint32_t at = t == 3u   ? tail + g * 8u
                      : t == 0u ? 4u * (256u + pad) + g * 16u + 8u
                                : 5u * (256u + pad) + g * 16u + (t & 2u) * 4u;
        read_words<4>(item + t * (256u + pad) + g * 16u, w);
        read_words<2>(item + at, w + 4);
        w[6] = read_half(item + 4 * (256 + pad) + g * 16u + t * 2u);
        w[7] = item[tail + 128 + g * 4u + t];
    }
    MEMBER uint32_t upper(const uint32_t *w, int j, int h, const ring_table &t) { /* a bit to each copy */
        return ((w[6] >> (8 * j + 4 * h) & 15u) * 0x10204080u & 0x80808080u) | t.levels[0];
    }
    MEMBER uint32_t row(const uint32_t *w, int j, int h, int i, uint32_t upper, const ring_table &t) {
        return word_at<grid>(entry_of_bits(w[2 * j + h], i, upper) + t.base);
    }
    MEMBER uint2 mask(const uint32_t *w, int j, int l, const ring_table &t) {
        return words_at<signs>(entry_of(w[4 + j], l, t.half) + t.base);
    }
    MEMBER void sums(const uint32_t *w, const uint32_t *x, const int16_t *, const ring_table &t,
                     int32_t *n, int32_t *) {
        *n = (int32_t)((w[7] & 15u) * 2u + 1u) * run(w, 0, x, t) +
             (int32_t)((w[7] >> 4) * 2u + 1u) * run(w, 1, x + 4, t);
    }
};

#endif /* OPREG_SM90_ROWS32_RING_DOTS_CUH */
