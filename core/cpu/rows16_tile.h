/* SPDX-License-Identifier: MIT
 * rows16_tile.h - the text of the tile kernels, included once per instruction set.
 *
 * The includer defines: LANES (rows a vector holds), MOST_COLUMNS (4 or more columns whose sums and a
 * block's weights stay in registers), VI and VF (vectors of int32 and float),
 *   load_bytes(p)         LANES * 4 bytes of a chunk row
 *   broadcast4(p)         the 4 bytes at p in every lane
 *   dot_s(acc, w, q)      int32 acc + 4-wide dot of signed w and q, plus S_BIAS * (sum of q)
 *   dot_pairs_add(acc, a, b)  int32 acc + 2-wide dot of int16
 *   lane_bytes(v, which)  byte i of a lane is its byte (which >> 8 * i & 255), 0 where that is 0x80
 *   dot_u(part, w, q)     a part of a sum + 4-wide dot of unsigned w and signed q.  A part may take
 *                         GROUP(8) dots of w <= 15, GROUP(4) of w <= 31, GROUP(2) of w <= 63
 *   whole(part)           the part as int32
 *   scaled(part, scale)   the part times scale(v), v an int32 of at most 8 bits, as int32
 *   and plain operations on whole vectors.
 * Every float operation is one IEEE operation: the canonical order of docs/numerics.md, a lane a
 * row. Unit u of a row is added to accumulator u mod 32, in memory that stays in the first cache.
 */

#define UNITS                                                                                      \
    32 /* accumulators of a row                                                            */

/* count is a constant of each call: the loops over columns unroll into registers */
#define BLOCK_FN static inline __attribute__((always_inline))

/* Where a block's parts are, for the rows from `half * LANES` on. */
typedef struct place {
    const uint8_t *fields, *body;
} place;

static inline place tile_place(const uint8_t *tile, int64_t blocks, int fields, int half) {
    place at = {tile + half * LANES * 2,
                tile + (blocks * fields * 32 + 63) / 64 * 64 + half * LANES * 4};
    return at;
}

/* Sum of the 32 accumulators by the fixed tree. */
static inline VF tree(VF *a) {
    for (int s = UNITS / 2; s > 0; s /= 2) {
        for (int l = 0; l < s; l++) {
            a[l] = add_f(a[l], a[l + s]);
        }
    }
    return a[0];
}

/* term = R(R(d * yd) * float(n)) */
static inline VF product_term(VF d, float yd, VI n) {
    return mul_f(mul_f(d, set_f(yd)), float_of_int(n));
}

/* Two int16 in every lane. */
static inline VI set_pair(int low, int high) {
    return set_i((int32_t)((uint32_t)high << 16 | ((uint32_t)low & 0xffffu)));
}

/* Two sums of 16 codes in every lane. */
static inline VI broadcast_sums(const int16_t *s) {
    int32_t v;
    memcpy(&v, s, 4);
    return set_i(v);
}

/* n + times * the sum of 32 codes. */
static inline VI add_sums(VI n, int times, const int16_t *s) {
    return times == 0 ? n : dot_pairs_add(n, set_pair(times, times), broadcast_sums(s));
}

/* What was loaded before is loaded again after it: the compiler would keep more values than there
 * are registers, and store them first. */
#define FORGET_LOADS() __asm__ volatile("" ::: "memory")

/* ---- 32-weight blocks
 * ------------------------------------------------------------------------------ */

/* Low and high nibbles of a block's four chunks. */
static inline void nibbles(const uint8_t *chunks, VI low[4], VI high[4]) {
    for (int c = 0; c < 4; c++) {
        VI w = load_bytes(chunks + 64 * c);
        low[c] = and_i(w, set_b(15));
        high[c] = and_i(shift_right_i(w, 4), set_b(15));
    }
}

static inline VI dot_nibbles(const VI low[4], const VI high[4], const int8_t *q) {
    VI part = zero_i();
    for (int c = 0; c < 4; c++) {
        part = dot_u(part, low[c], broadcast4(q + 4 * c));
        part = dot_u(part, high[c], broadcast4(q + 16 + 4 * c));
    }
    return whole(part);
}

BLOCK_FN void q4_0_block(place at, int64_t b, const rows16_column *x, int count, VF (*acc)[UNITS]) {
    VI low[4], high[4];
    VF d = load_f16(at.fields + b * 32);
    nibbles(at.body + b * 4 * 64, low, high);
    for (int m = 0; m < count; m++) {
        VI n = add_sums(dot_nibbles(low, high, x[m].q + 32 * b), -8, x[m].s + 2 * b);
        acc[m][b % UNITS] = add_f(acc[m][b % UNITS], product_term(d, x[m].d[b], n));
    }
}

BLOCK_FN void q4_1_block(place at, int64_t b, const rows16_column *x, int count, VF (*acc)[UNITS]) {
    VI low[4], high[4];
    VF d = load_f16(at.fields + b * 64), least = load_f16(at.fields + b * 64 + 32);
    nibbles(at.body + b * 4 * 64, low, high);
    for (int m = 0; m < count; m++) {
        VI n = dot_nibbles(low, high, x[m].q + 32 * b);
        VI sum = add_sums(zero_i(), 1, x[m].s + 2 * b);
        VF term = add_f(product_term(d, x[m].d[b], n),
                        product_term(least, x[m].d[b], sum));
        acc[m][b % UNITS] = add_f(acc[m][b % UNITS], term);
    }
}

BLOCK_FN void iq4_nl_block(place at, int64_t b, const rows16_column *x, int count,
                           VF (*acc)[UNITS]) {
    VI low[4], high[4];
    VF d = load_f16(at.fields + b * 32);
    nibbles(at.body + b * 4 * 64, low, high);
    for (int c = 0; c < 4; c++) {
        low[c] = iq4_nl_levels(low[c]);
        high[c] = iq4_nl_levels(high[c]);
    }
    for (int m = 0; m < count; m++) {
        const int8_t *q = x[m].q + 32 * b;
        VI even = zero_i(), odd = zero_i();
        for (int c = 0; c < 4; c++) {
            even = dot_s(even, low[c], broadcast4(q + 4 * c));
            odd = dot_s(odd, high[c], broadcast4(q + 16 + 4 * c));
        }
        VI n = add_sums(add_i(even, odd), -S_BIAS, x[m].s + 2 * b);
        acc[m][b % UNITS] = add_f(acc[m][b % UNITS], product_term(d, x[m].d[b], n));
    }
}

BLOCK_FN void q8_0_block(place at, int64_t b, const rows16_column *x, int count, VF (*acc)[UNITS]) {
    VI w[8];
    VF d = load_f16(at.fields + b * 32);
    for (int c = 0; c < 8; c++) {
        w[c] = load_bytes(at.body + (b * 8 + c) * 64);
    }
    for (int m = 0; m < count; m++) {
        const int8_t *q = x[m].q + 32 * b;
        VI even = zero_i(), odd = zero_i();
        for (int c = 0; c < 8; c += 2) {
            even = dot_s(even, w[c], broadcast4(q + 4 * c));
            odd = dot_s(odd, w[c + 1], broadcast4(q + 4 * c + 4));
        }
        VI n = add_sums(add_i(even, odd), -S_BIAS, x[m].s + 2 * b);
        acc[m][b % UNITS] = add_f(acc[m][b % UNITS], product_term(d, x[m].d[b], n));
    }
}

/* ---- K types: 256 weights, Q8_K
 * ---------------------------------------------------------------------- */

/* Scales and mins of Q4_K and Q5_K, 6 bits each: byte j of scale[j / 4] and least[j / 4]. */
static inline void k_scales(const uint8_t *chunks, VI scale[2], VI least[2]) {
    VI a = load_bytes(chunks), b = load_bytes(chunks + 64), c = load_bytes(chunks + 128);
    scale[0] = and_i(a, set_b(63));
    least[0] = and_i(b, set_b(63));
    scale[1] = or_i(and_i(c, set_b(15)), and_i(shift_right_i(a, 2), set_b(0x30)));
    least[1] = or_i(and_i(shift_right_i(c, 4), set_b(15)), and_i(shift_right_i(b, 2), set_b(0x30)));
}

static inline VI byte_of(VI v, int j) {
    return and_i(shift_right_var_i(v, 8 * j), set_i(255));
}

/* m = sum over the eight sub-blocks of min * sum of codes. */
static inline VI k_mins(const VI least[2], const int16_t *s) {
    VI sum = zero_i();
    for (unsigned j = 0; j < 8; j++) {
        VI both = lane_bytes(least[j / 4], 0x80008000u | 0x00010001u * (j % 4));
        sum = dot_pairs_add(sum, both, broadcast_sums(s + 2 * j));
    }
    return sum;
}

/* Low or high nibbles of all bytes. */
BLOCK_FN VI nibble_of(VI v, const int high) {
    return and_i(high ? shift_right_i(v, 4) : v, set_b(15));
}

/* The bytes that a sub-block shares with the next are loaded again: one column keeps reading in
 * order, and eight lanes have 16 registers. */
#define FORGET_NIBBLES(count)                                                                      \
    if (LANES < ROWS16_TILE || (count) == 1) {                                                     \
        FORGET_LOADS();                                                                            \
    }

/* The term of Q4_K and Q5_K: R(R(R(d*yd)*float(n)) - R(R(dmin*yd)*float(m))). */
static inline VF k_term(VF d, VF dmin, float yd, VI n, VI m) {
    return sub_f(product_term(d, yd, n), product_term(dmin, yd, m));
}

BLOCK_FN void q4_k_block(place at, int64_t b, const rows16_column *x, int count, VF (*acc)[UNITS]) {
    const uint8_t *body = at.body + b * 35 * 64;
    VF d = load_f16(at.fields + b * 64), dmin = load_f16(at.fields + b * 64 + 32);
    VI scales[2], least[2], n[MOST_COLUMNS];
    k_scales(body, scales, least);
    for (int m = 0; m < count; m++) {
        n[m] = zero_i();
    }
#pragma GCC unroll 8
    for (int j = 0; j < 8; j++) { /* low, then high nibbles of 32 bytes */
        VI w[8], scale = scale16(byte_of(scales[j / 4], j % 4));
        FORGET_NIBBLES(count);
        for (int c = 0; c < 8; c++) {
            w[c] = nibble_of(load_bytes(body + (3 + 8 * (j / 2) + c) * 64), j % 2);
        }
        for (int m = 0; m < count; m++) {
            const int8_t *q = x[m].q + 256 * b + 32 * j;
            for (int first = 0; first < 8; first += GROUP(8)) {
                VI part = zero_i();
                for (int c = first; c < first + GROUP(8); c++) {
                    part = dot_u(part, w[c], broadcast4(q + 4 * c));
                }
                n[m] = add_i(n[m], scaled(part, scale));
            }
        }
    }
    for (int m = 0; m < count; m++) {
        VF term = k_term(d, dmin, x[m].d[b], n[m], k_mins(least, x[m].s + 16 * b));
        acc[m][b % UNITS] = add_f(acc[m][b % UNITS], term);
    }
}

/* Bit `from` of every byte at bit `to`; the others are anything. */
BLOCK_FN VI move_bit(VI v, const int from, const int to) {
    return from < to ? shift_left_i(v, to - from) : shift_right_i(v, from - to);
}

BLOCK_FN void q5_k_block(place at, int64_t b, const rows16_column *x, int count, VF (*acc)[UNITS]) {
    const uint8_t *body = at.body + b * 43 * 64;
    VF d = load_f16(at.fields + b * 64), dmin = load_f16(at.fields + b * 64 + 32);
    VI scales[2], least[2], n[MOST_COLUMNS];
    k_scales(body, scales, least);
    for (int m = 0; m < count; m++) {
        n[m] = zero_i();
    }
#pragma GCC unroll 8 /* the shifts are constants */
    for (int j = 0; j < 8; j++) {
        VI w[8], scale = scale16(byte_of(scales[j / 4], j % 4));
        FORGET_NIBBLES(count);
        for (int c = 0; c < 8; c++) {
            VI low = nibble_of(load_bytes(body + (11 + 8 * (j / 2) + c) * 64), j % 2);
            VI bits = load_bytes(body + (3 + c) * 64);
            w[c] = or_i(low, and_i(move_bit(bits, j, 4), set_b(16)));
        }
        for (int m = 0; m < count; m++) {
            const int8_t *q = x[m].q + 256 * b + 32 * j;
            for (int first = 0; first < 8; first += GROUP(4)) {
                VI part = zero_i();
                for (int c = first; c < first + GROUP(4); c++) {
                    part = dot_u(part, w[c], broadcast4(q + 4 * c));
                }
                n[m] = add_i(n[m], scaled(part, scale));
            }
        }
    }
    for (int m = 0; m < count; m++) {
        VF term = k_term(d, dmin, x[m].d[b], n[m], k_mins(least, x[m].s + 16 * b));
        acc[m][b % UNITS] = add_f(acc[m][b % UNITS], term);
    }
}

#define Q6_K_CHUNKS 52 /* of a block */

/* Signed byte j of a chunk as int32. */
static inline VI signed_byte_of(VI v, int j) {
    return shift_right_signed_i(shift_left_var_i(v, 24 - 8 * j), 24);
}

/* One chunk row of a Q6_K block.  A block is kilobytes that are not read in order, which the hardware
 * does not foresee: a column alone asks for those of two blocks on as it goes (fetch). */
BLOCK_FN VI q6_k_chunk(const uint8_t *body, int c, const int fetch) {
    if (fetch) {
        __builtin_prefetch(body + (2 * Q6_K_CHUNKS + c) * 64);
    }
    return load_bytes(body + c * 64);
}

/* Weights 128 * half + 32 * r + 16 * t + 4 * c .., r = first_r .. first_r + 1, before the offset of
 * -32; w[0] and w[1]. */
BLOCK_FN void q6_k_codes(const uint8_t *body, int half, int t, int c, int first_r, int count,
                         VI w[2]) {
    const int fetch = count == 1 && first_r == 0;
    VI l0 = q6_k_chunk(body, 16 * half + 4 * t + c, fetch);
    VI l1 = q6_k_chunk(body, 16 * half + 8 + 4 * t + c, fetch);
    VI h = q6_k_chunk(body, 32 + 8 * half + 4 * t + c, fetch);
    VI bits = set_b(0x30);
    if (first_r == 0) {
        w[0] = or_i(nibble_of(l0, 0), and_i(shift_left_i(h, 4), bits));
        w[1] = or_i(nibble_of(l1, 0), and_i(shift_left_i(h, 2), bits));
    } else {
        w[0] = or_i(nibble_of(l0, 1), and_i(h, bits));
        w[1] = or_i(nibble_of(l1, 1), and_i(shift_right_i(h, 2), bits));
    }
}

/* -32 * sum over the sixteen sub-blocks of scale * sum of codes. */
static inline VI q6_k_offset(const VI scales[4], const int16_t *s) {
    VI sum = zero_i();
    for (unsigned j = 0; j < 8; j++) {
        VI times256 = lane_bytes(scales[j / 2], 0x01800080u + 0x02000200u * (j % 2));
        VI pair = sub_16(zero_i(), shift_right_signed_16(times256, 3));
        sum = dot_pairs_add(sum, pair, broadcast_sums(s + 2 * j));
    }
    return sum;
}

/* n = sum of scale * dot - 32 * sum of scale * sum of codes. */
BLOCK_FN void q6_k_block(place at, int64_t b, const rows16_column *x, int count, VF (*acc)[UNITS]) {
    const uint8_t *body = at.body + b * Q6_K_CHUNKS * 64;
    VF d = load_f16(at.fields + b * 32);
    /* values of r whose weights stay in registers over the columns */
    const int at_once = count > 2 ? 2 : 4;
    VI n[MOST_COLUMNS], bytes[4];
    for (int c = 0; c < 4; c++) {
        bytes[c] = q6_k_chunk(body, 48 + c, count == 1);
    }
    for (int m = 0; m < count; m++) {
        n[m] = zero_i();
    }
    for (int half = 0; half < 2; half++) {
        for (int t = 0; t < 2; t++) {
            for (int first_r = 0; first_r < 4; first_r += at_once) {
                VI w[4][4], scales[4];
                if (at_once == 2) {
                    FORGET_LOADS();
                }
                for (int c = 0; c < 4; c++) {
                    for (int i = 0; i < at_once; i += 2) {
                        q6_k_codes(body, half, t, c, first_r + i, count, &w[c][i]);
                    }
                }
                for (int i = 0; i < at_once; i++) {
                    int r = first_r + i;
                    scales[i] = scale16(signed_byte_of(bytes[2 * half + r / 2], 2 * (r % 2) + t));
                }
                for (int m = 0; m < count; m++) {
                    const int8_t *q = x[m].q + 256 * b + 128 * half + 32 * first_r + 16 * t;
                    for (int i = 0; i < at_once; i++) {
                        for (int first = 0; first < 4; first += GROUP_OF_4(2)) {
                            VI part = zero_i();
                            for (int c = first; c < first + GROUP_OF_4(2); c++) {
                                part = dot_u(part, w[c][i], broadcast4(q + 32 * i + 4 * c));
                            }
                            n[m] = add_i(n[m], scaled(part, scales[i]));
                        }
                    }
                }
            }
        }
    }
    for (int m = 0; m < count; m++) {
        VI sum = add_i(n[m], q6_k_offset(bytes, x[m].s + 16 * b));
        acc[m][b % UNITS] = add_f(acc[m][b % UNITS], product_term(d, x[m].d[b], sum));
    }
}

/* ---- the tile functions: exact column counts, so that loops over columns unroll
 * ----------------------- */

#define HALVES (ROWS16_TILE / LANES)

/* Both halves of a block before the next one, as they share its cache lines. */
#define ALL_BLOCKS(NAME, COUNT)                                                                    \
    for (int64_t b = 0; b < blocks; b++) {                                                         \
        NAME##_block(front, b, columns + first, COUNT, acc[0]);                                    \
        if (HALVES > 1) {                                                                          \
            FORGET_LOADS();                                                                        \
            NAME##_block(back, b, columns + first, COUNT, acc[HALVES - 1]);                        \
        }                                                                                          \
    }

#define COLUMNS_CASE(NAME, COUNT)                                                                  \
    case COUNT:                                                                                    \
        ALL_BLOCKS(NAME, COUNT)                                                                    \
        break;

/* Columns of the next turn: `wide` of them where the format gains from it, else up to four. */
static inline int turn_columns(int left, int wide) {
    return left >= wide ? wide : left < 4 ? left : 4;
}

#define TILE_FUNCTION(NAME, FIELDS, WIDE)                                                          \
    static void NAME##_tile(const uint8_t *tile, int64_t blocks, const rows16_column *columns,     \
                            int count, float out[][ROWS16_TILE]) {                                 \
        const place front = tile_place(tile, blocks, FIELDS, 0);                                   \
        const place back = tile_place(tile, blocks, FIELDS, HALVES - 1);                           \
        for (int first = 0, turn; first < count; first += turn) {                                  \
            VF acc[HALVES][WIDE][UNITS];                                                           \
            turn = turn_columns(count - first, WIDE);                                              \
            for (int half = 0; half < HALVES; half++) {                                            \
                for (int m = 0; m < turn; m++) {                                                   \
                    for (int u = 0; u < UNITS; u++) {                                              \
                        acc[half][m][u] = set_f(0.0f);                                             \
                    }                                                                              \
                }                                                                                  \
            }                                                                                      \
            switch (turn) {                                                                        \
                COLUMNS_CASE(NAME, 1)                                                              \
                COLUMNS_CASE(NAME, 2)                                                              \
                COLUMNS_CASE(NAME, 3)                                                              \
                COLUMNS_CASE(NAME, 4)                                                              \
            default: /* WIDE */                                                                    \
                if (WIDE > 4) {                                                                    \
                    ALL_BLOCKS(NAME, WIDE)                                                         \
                }                                                                                  \
                break;                                                                             \
            }                                                                                      \
            for (int half = 0; half < HALVES; half++) {                                            \
                for (int m = 0; m < turn; m++) {                                                   \
                    store_f(out[first + m] + half * LANES, tree(acc[half][m]));                    \
                }                                                                                  \
            }                                                                                      \
        }                                                                                          \
    }

TILE_FUNCTION(q4_0, 1, 4)
TILE_FUNCTION(q4_1, 2, 4)
TILE_FUNCTION(q8_0, 1, 4)
TILE_FUNCTION(iq4_nl, 1, 4)
TILE_FUNCTION(q4_k, 2, MOST_COLUMNS)
TILE_FUNCTION(q5_k, 2, MOST_COLUMNS)
TILE_FUNCTION(q6_k, 1, MOST_COLUMNS)

static rows16_tile_fn find_tile(uint32_t format) {
    switch (format) {
    case OPREG_Q4_0:
        return q4_0_tile;
    case OPREG_Q4_1:
        return q4_1_tile;
    case OPREG_Q8_0:
        return q8_0_tile;
    case OPREG_IQ4_NL:
        return iq4_nl_tile;
    case OPREG_Q4_K:
        return q4_k_tile;
    case OPREG_Q5_K:
        return q5_k_tile;
    case OPREG_Q6_K:
        return q6_k_tile;
    default:
        return NULL;
    }
}
