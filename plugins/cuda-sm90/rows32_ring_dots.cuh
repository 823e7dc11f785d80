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
 *   table_bytes, aligned, ask(rows), fill(base, rows), make(base)
 *                         its tables in shared memory, aligned as ROWS32_RING_TABLES_AT has it or not
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
    static const bool aligned = false;
    MEMBER void ask(table_rows *) {}
    MEMBER void fill(uint8_t *, const table_rows &) {}
    MEMBER dot_table make(const uint8_t *) {
        uint32_t t = lane_index() & 3u;
        return {0, 0, 0, {0x03030303u << 4u * (t & 1u), 4u * t, 4u * (t & 1u), 0}};
    }
    MEMBER uint32_t d(const uint8_t *item, uint32_t g) {
        return *(const uint32_t *)(item + 5 * (256 + pad) + g * 4u);
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
    MEMBER void sums(const uint32_t *w, const uint32_t *x, const int16_t *sums, const dot_table &t,
                     int32_t *n, int32_t *m) {
        int32_t c[2][4] = {{0, 0, 0, 0}, {0, 0, 0, 0}};
        uint32_t s = w[8] & 0x0f0f0f0fu, mins = w[8] >> 4 & 0x0f0f0f0fu;
        half(c[0], w, t.levels[0], x);
        half(c[1], w + 4, t.levels[0], x + 4);
        int32_t first = signed_byte(s, 0) * c[0][0] + signed_byte(s, 1) * c[1][0];
        int32_t second = signed_byte(s, 2) * c[0][3] + signed_byte(s, 3) * c[1][3];
        uint2 pairs = *(const uint2 *)(sums + t.levels[1]);
        *n = (first + (second >> 2)) >> t.levels[2];
        *m = __dp2a_lo((int)pairs.x, (int)mins, 0);
        *m = __dp2a_hi((int)pairs.y, (int)mins, *m);
    }
};

/* ---- grids: tables of words in 32 copies, a bank each --------------------------------------------- */

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

/* Byte i of w; and with byte i of `upper`, whose top bits are 0, above it. */
MEMBER uint32_t index_of(uint32_t w, int i) { return permute(w, 0u, 0x4440u + (uint32_t)i); }
MEMBER uint32_t index_of(uint32_t w, uint32_t upper, int i) {
    return permute_signs(w, upper, 0xcc40u + 0x11u * (uint32_t)i);
}

/* v / 65536 on the multipliers' pipe, which has room where the other is full: the compiler does not
 * know that shift is 65536. */
MEMBER uint32_t upper_half(uint32_t v, uint32_t shift) {
    uint32_t half;
    asm("mul.hi.u32 %0, %1, %2;" : "=r"(half) : "r"(v), "r"(shift));
    return half;
}

template <class F> DEVICE void ask_rows(table_rows *rows) {
#pragma unroll
    for (uint32_t k = 0; k < rows_asked<F>::count; k++) {
        uint32_t i = thread_index() + k * thread_count();
        if (i < F::entries) {
            rows->of[k] = F::entry_at((int)i);
        }
    }
}

/* T::word(row) of every row of F; the whole block. */
template <class F, class T, uint32_t chunks>
DEVICE void fill_rows(uint8_t *base, const table_rows &rows) {
#pragma unroll
    for (uint32_t k = 0; k < rows_asked<F>::count; k++) {
        uint32_t i = thread_index() + k * thread_count();
        if (i < F::entries) {
            uint32_t word = T::word(rows.of[k]);
            put_entry<chunks>(base, i, word, word);
        }
    }
    for (uint32_t i = thread_index() + rows_asked<F>::count * thread_count(); i < F::entries;
         i += thread_count()) {
        uint32_t word = T::word(F::entry_at((int)i));
        put_entry<chunks>(base, i, word, word);
    }
}

/* d of the formats with grids is the last piece of an item. */
template <class F, int pad> DEVICE uint32_t grid_d(const uint8_t *item, uint32_t g) {
    constexpr int chunks = F::bytes / 16, rest = F::bytes % 16 - 2;
    return read_half(item + chunks * (256 + pad) + 16 * rest + g * 2u);
}

/* ---- grids of eight: nibbles that select levels and signs in one permute --------------------------- */

/* D::upper(w, j): what nibbles() wants of a run; D::nibbles(w, j, l, upper, t): eight weights, a grid's
 * word and one of signs added, as either pipe can. */
template <class D> struct ring_nibbles {
    static const int order = X_IN_ORDER;
    MEMBER dot_table make(const uint8_t *base) {
        uint32_t lane = lane_index();
        return {0, lane_address(base, lane), lane_address(base, lane & 15u),
                {kept(0x002b1908u), kept(0x00d5e7f8u), kept(65536u), 0}};
    }
    MEMBER uint32_t upper(const uint32_t *, int) { return 0u; }
    /* c[h]: the dots of half h of both runs. */
    MEMBER void halves(int32_t (*c)[4], const uint32_t *w, const uint32_t *x, const dot_table &t) {
        const uint32_t *levels = t.levels, upper[2] = {D::upper(w, 0), D::upper(w, 1)};
#pragma unroll
        for (int i = 0; i < 4; i++) {
            c[0][i] = c[1][i] = 0;
        }
#pragma unroll
        for (int l = 0; l < 4; l++) {
            uint32_t p = D::nibbles(w, 0, l, upper[0], t), q = D::nibbles(w, 1, l, upper[1], t);
            uint32_t a[4] = {permute_signs(levels[0], levels[1], p),
                             permute_signs(levels[0], levels[1], q),
                             permute_signs(levels[0], levels[1], upper_half(p, levels[2])),
                             permute_signs(levels[0], levels[1], upper_half(q, levels[2]))};
            mma_k32_add(c[l >> 1], a, x[2 * l], x[2 * l + 1]);
        }
    }
};

/* Odd sub-scales of both halves of both runs, as four nibbles. */
DEVICE int32_t times_nibbles(uint32_t s, const int32_t (*c)[4]) {
    int32_t sum = (int32_t)(s & 15u) * c[0][0] + (int32_t)(s >> 4 & 15u) * c[1][0] +
                  (int32_t)(s >> 8 & 15u) * c[0][3] + (int32_t)(s >> 12) * c[1][3];
    return 2 * sum + (c[0][0] + c[1][0] + c[0][3] + c[1][3]);
}

/* A byte of an index is 128 bytes.  Signs lie first where their index is no byte, so that it can be
 * put beside the lane's address. */
template <> struct ring_dot<rows_iq2_xxs> : ring_nibbles<ring_dot<rows_iq2_xxs>> {
    static const int words = 4, pad = 32, grid = 128 * 128;
    static const bool aligned = true;
    static const int table_bytes = ROWS32_SPREAD_TABLE(256, 128);
    MEMBER void ask(table_rows *rows) { ask_rows<rows_iq2_xxs>(rows); }
    MEMBER void fill(uint8_t *base, const table_rows &rows) {
        fill_words<even_sign_nibbles, 128, 32>(base);
        fill_rows<rows_iq2_xxs, grid_nibbles<rows_iq2_xxs>, 8>(base + grid, rows);
    }
    MEMBER uint32_t d(const uint8_t *item, uint32_t g) { return grid_d<rows_iq2_xxs, pad>(item, g); }
    MEMBER void read(const uint8_t *item, uint32_t g, uint32_t t, uint32_t *w) {
        read_words<4>(item + t * (256u + pad) + g * 16u, w);
    }
    MEMBER uint32_t nibbles(const uint32_t *w, int j, int l, uint32_t, const dot_table &t) {
        return word_at<grid>(index_of(w[2 * j], l) * 128u + t.own) +
               word_at<0>(field_at<7>(w[2 * j + 1], 7 * l, 7) | t.own);
    }
    MEMBER void sums(const uint32_t *w, const uint32_t *x, const int16_t *, const dot_table &t,
                     int32_t *n, int32_t *) {
        int32_t c[2][4];
        halves(c, w, x, t);
        int32_t first = c[0][0] + c[1][0], second = c[0][3] + c[1][3];
        *n = 2 * ((int32_t)(w[1] >> 28) * first + (int32_t)(w[3] >> 28) * second) + (first + second);
    }
};

template <> struct ring_dot<rows_iq2_xs> : ring_nibbles<ring_dot<rows_iq2_xs>> {
    static const int words = 5, pad = 32, grid = 128 * 128;
    static const bool aligned = true;
    static const int table_bytes = ROWS32_SPREAD_TABLE(512, 128);
    MEMBER void ask(table_rows *rows) { ask_rows<rows_iq2_xs>(rows); }
    MEMBER void fill(uint8_t *base, const table_rows &rows) {
        fill_words<even_sign_nibbles, 128, 32>(base);
        fill_rows<rows_iq2_xs, grid_nibbles<rows_iq2_xs>, 8>(base + grid, rows);
    }
    MEMBER uint32_t d(const uint8_t *item, uint32_t g) { return grid_d<rows_iq2_xs, pad>(item, g); }
    MEMBER void read(const uint8_t *item, uint32_t g, uint32_t t, uint32_t *w) {
        read_words<4>(item + t * (256u + pad) + g * 16u, w);
        w[4] = read_half(item + 4 * (256 + pad) + g * 8u + t * 2u);
    }
    MEMBER uint32_t nibbles(const uint32_t *w, int j, int l, uint32_t, const dot_table &t) {
        uint32_t v = w[2 * j + (l >> 1)];
        return word_at<grid>(field_at<9>(v, 16 * (l & 1), 7) + t.own) +
               word_at<0>(field_at<7>(v, 16 * (l & 1) + 9, 7) | t.own);
    }
    MEMBER void sums(const uint32_t *w, const uint32_t *x, const int16_t *, const dot_table &t,
                     int32_t *n, int32_t *) {
        int32_t c[2][4];
        halves(c, w, x, t);
        *n = times_nibbles(w[4], c);
    }
};

/* The grid in 16 copies only: two lanes a bank. */
template <> struct ring_dot<rows_iq2_s> : ring_nibbles<ring_dot<rows_iq2_s>> {
    static const int words = 6, pad = 64, signs = 1024 * 64;
    static const bool aligned = false;
    static const int table_bytes = ROWS32_SPREAD_TABLE(512, 256);
    MEMBER void ask(table_rows *rows) { ask_rows<rows_iq2_s>(rows); }
    MEMBER void fill(uint8_t *base, const table_rows &rows) {
        fill_words<sign_nibbles, 256, 32>(base + signs);
        fill_rows<rows_iq2_s, grid_nibbles<rows_iq2_s>, 4>(base, rows);
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
    MEMBER uint32_t upper(const uint32_t *w, int j) { /* two bits to each byte */
        uint32_t q = (w[4] >> 8 * j & 255u) * 0x1001u & 0x000f000fu;
        return q * 0x41u & 0x03030303u;
    }
    MEMBER uint32_t nibbles(const uint32_t *w, int j, int l, uint32_t upper, const dot_table &t) {
        return word_at<0>(index_of(w[j], upper, l) * 64u + t.half) +
               word_at<signs>(index_of(w[2 + j], l) * 128u + t.own);
    }
    MEMBER void sums(const uint32_t *w, const uint32_t *x, const int16_t *, const dot_table &t,
                     int32_t *n, int32_t *) {
        int32_t c[2][4];
        halves(c, w, x, t);
        *n = times_nibbles(w[5], c);
    }
};

/* ---- grids of four: magnitudes, and masks of eight signs as two words ------------------------------ */

/* Of 0 .. entries - 1; even: as even_signs() makes them. */
template <bool even, uint32_t entries> DEVICE void fill_masks(uint8_t *base) {
    for (uint32_t i = thread_index(); i < entries; i += thread_count()) {
        uint32_t bits = even ? even_signs(i) : i;
        put_entry<8>(base, i, sign_bytes(bits & 15u), sign_bytes(bits >> 4));
    }
}

/* D::row(w, j, h, i, upper, t): four magnitudes, i of half h; D::mask(w, j, l, t): of eight weights;
 * D::upper(w, j, h): what row() wants of half a run.  A product takes four words of one run, of which x
 * has words 0 and 2 in the first column and 1 and 3 in the second, so both outputs are the run's.  A
 * negated byte is its complement plus 1: the ones are summed apart, or where D::odd says that all
 * magnitudes are odd, the complement's last bit alone is wrong. */
template <class D> struct ring_magnitudes {
    static const int order = X_HALVES;
    static const bool aligned = false;
    MEMBER dot_table make(const uint8_t *base) {
        uint32_t lane = lane_index();
        return {0, lane_address(base, lane), lane_address(base, 2u * (lane & 15u)), {}};
    }
    MEMBER int32_t run(const uint32_t *w, int j, const uint32_t *x, const dot_table &t) {
        int32_t sum[4] = {0, 0, 0, 0}, minus[4] = {0, 0, 0, 0};
#pragma unroll
        for (int h = 0; h < 2; h++) {
            uint32_t upper = D::upper(w, j, h), a[4];
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
    static const int words = 6, pad = 32, signs = 256 * 128;
    static const bool odd = false;
    static const int table_bytes = ROWS32_SPREAD_TABLE(256, 128);
    MEMBER void ask(table_rows *rows) { ask_rows<rows_iq3_xxs>(rows); }
    MEMBER void fill(uint8_t *base, const table_rows &rows) {
        fill_masks<true, 128>(base + signs);
        fill_rows<rows_iq3_xxs, grid_words<rows_iq3_xxs>, 8>(base, rows);
    }
    MEMBER uint32_t d(const uint8_t *item, uint32_t g) { return grid_d<rows_iq3_xxs, pad>(item, g); }
    MEMBER void read(const uint8_t *item, uint32_t g, uint32_t t, uint32_t *w) {
        read_words<4>(item + t * (256u + pad) + g * 16u, w);
        read_words<2>(item + (4u + (t >> 1)) * (256u + pad) + (t & 1u) * 8u + g * 16u, w + 4);
    }
    MEMBER uint32_t upper(const uint32_t *, int, int) { return 0u; }
    MEMBER uint32_t row(const uint32_t *w, int j, int h, int i, uint32_t, const dot_table &t) {
        return word_at<0>(index_of(w[2 * j + h], i) * 128u + t.own);
    }
    MEMBER uint2 mask(const uint32_t *w, int j, int l, const dot_table &t) {
        return words_at<signs>(field_at<7>(w[4 + j], 7 * l, 7) + t.half);
    }
    MEMBER void sums(const uint32_t *w, const uint32_t *x, const int16_t *, const dot_table &t,
                     int32_t *n, int32_t *) {
        *n = (int32_t)((w[4] >> 28) * 2u + 1u) * run(w, 0, x, t) +
             (int32_t)((w[5] >> 28) * 2u + 1u) * run(w, 1, x + 4, t);
    }
};

template <> struct ring_dot<rows_iq3_s> : ring_magnitudes<ring_dot<rows_iq3_s>> {
    static const int words = 8, pad = 32, signs = 512 * 128;
    static const bool odd = true;
    static const int table_bytes = ROWS32_SPREAD_TABLE(512, 256);
    MEMBER void ask(table_rows *rows) { ask_rows<rows_iq3_s>(rows); }
    MEMBER void fill(uint8_t *base, const table_rows &rows) {
        fill_masks<false, 256>(base + signs);
        fill_rows<rows_iq3_s, grid_words<rows_iq3_s>, 8>(base, rows);
    }
    MEMBER uint32_t d(const uint8_t *item, uint32_t g) { return grid_d<rows_iq3_s, pad>(item, g); }
    MEMBER void read(const uint8_t *item, uint32_t g, uint32_t t, uint32_t *w) {
        uint32_t at = t == 3u   ? 6u * (256u + pad) + g * 8u
                      : t == 0u ? 4u * (256u + pad) + g * 16u + 8u
                                : 5u * (256u + pad) + g * 16u + (t & 2u) * 4u;
        read_words<4>(item + t * (256u + pad) + g * 16u, w);
        read_words<2>(item + at, w + 4);
        w[6] = read_half(item + 4 * (256 + pad) + g * 16u + t * 2u);
        w[7] = item[6 * (256 + pad) + 128 + g * 4u + t];
    }
    MEMBER uint32_t upper(const uint32_t *w, int j, int h) { /* a bit to each byte */
        return (w[6] >> (8 * j + 4 * h) & 15u) * 0x00204081u & 0x01010101u;
    }
    MEMBER uint32_t row(const uint32_t *w, int j, int h, int i, uint32_t upper, const dot_table &t) {
        return word_at<0>(index_of(w[2 * j + h], upper, i) * 128u + t.own);
    }
    MEMBER uint2 mask(const uint32_t *w, int j, int l, const dot_table &t) {
        return words_at<signs>(index_of(w[4 + j], l) * 128u + t.half);
    }
    MEMBER void sums(const uint32_t *w, const uint32_t *x, const int16_t *, const dot_table &t,
                     int32_t *n, int32_t *) {
        *n = (int32_t)((w[7] & 15u) * 2u + 1u) * run(w, 0, x, t) +
             (int32_t)((w[7] >> 4) * 2u + 1u) * run(w, 1, x + 4, t);
    }
};

#endif /* OPREG_SM90_ROWS32_RING_DOTS_CUH */
