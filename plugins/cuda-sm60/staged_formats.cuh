/* SPDX-License-Identifier: MIT
 * staged_formats.cuh - how the staged kernels decode and multiply each format on sm_60.
 *
 * There is no dp4a.  One XMAD multiplies two 16-bit halves of any two registers and adds, at the
 * full rate, where a byte-selecting VMAD runs at half of it.  So codes are multiplied as halves:
 *
 *   bytes     a word of bytes b0..b3 is two halves h = b0 + 256 b1; with l = its even bytes,
 *             h * q1 + l * (256 q0 - q1) = 256 (b0 q0 + b1 q1): one mask and four XMAD for four
 *             weights, exact.  The odd byte may be signed, the even one must not be; signed bytes
 *             flip bit 7 of the even ones, which adds 128 to them, and the sum starts at
 *             -256 * 128 * (sum of their codes).
 *   nibbles   mask by 0x000f000f: a code as it is; by 0x0f000f00: a code times 256, whose code of x
 *             is not scaled while the others' are times 256.
 *   2 bits    the same with powers of 4.
 *   levels    IQ4_NL's 16 uneven levels as floats in shared memory, one bank a lane; a product and
 *             its sum over 32 weights are integers below 2^24, so fmaf is exact. */
#ifndef OPREG_SM60_STAGED_FORMATS_CUH
#define OPREG_SM60_STAGED_FORMATS_CUH

#include "staged.cuh"

#include "formats/iq2_s.h"
#include "formats/iq3_s.h"
#include "formats/iq3_xxs.h"
#include "formats/iq4_nl.h"
#include "formats/q4_k.h"

/* A word at an even address. */
DEVICE uint32_t word_at(const uint8_t *p) {
    const uint16_t *h = (const uint16_t *)p;
    return two_halves(h[0], h[1]);
}

DEVICE int32_t code_at(uint32_t word, uint32_t i) {
    return (int32_t)(int8_t)(word >> 8u * i);
}

/* The 32 codes of a part, as eight words. */
DEVICE void codes_at(const activation_row &x, uint32_t part, uint32_t *words) {
    const uint4 *p = (const uint4 *)((const int8_t *)x.x + 32u * part);
    uint4 low = read_only(p), high = read_only(p + 1);
    words[0] = low.x;
    words[1] = low.y;
    words[2] = low.z;
    words[3] = low.w;
    words[4] = high.x;
    words[5] = high.y;
    words[6] = high.z;
    words[7] = high.w;
}

DEVICE uint32_t pair_of(int32_t low, int32_t high) {
    return two_halves((uint32_t)low, (uint32_t)high);
}

template <int WORDS> DEVICE void copy_words(const uint32_t *in, uint32_t *out) {
#pragma unroll
    for (int i = 0; i < WORDS; i++) {
        out[i] = in[i];
    }
}

/* ---- bytes
 * --------------------------------------------------------------------------------------- */

/* Words of a fragment of bytes: pairs for l and h of each four weights, then for the first and the
 * last 16 weights where a sum of signed bytes starts, then the sums of their codes. */
#define BYTES_START 16u
#define BYTES_SUMS  18u
#define BYTES_WORDS 20

DEVICE void load_bytes(const activation_row &x, uint32_t part, uint32_t *out) {
    uint32_t codes[8];
    codes_at(x, part, codes);
#pragma unroll
    for (uint32_t i = 0; i < 2u; i++) {
        int32_t even = 0;
#pragma unroll
        for (uint32_t j = 0; j < 4u; j++) {
            uint32_t w = codes[4u * i + j];
            int32_t q0 = code_at(w, 0), q1 = code_at(w, 1), q2 = code_at(w, 2), q3 = code_at(w, 3);
            out[8u * i + 2u * j] = pair_of(256 * q0 - q1, 256 * q2 - q3);
            out[8u * i + 2u * j + 1u] = pair_of(q1, q3);
            even += q0 + q2;
        }
        out[BYTES_START + i] = (uint32_t)(-256 * 128 * even);
        out[BYTES_SUMS + i] = (uint32_t)(int32_t)x.sums[2u * part + i];
    }
}

/* Unsigned bytes below 128. */
DEVICE int32_t bytes4(uint32_t w, const uint32_t *f, uint32_t i, int32_t sum) {
    return halves4(w & 0x00ff00ffu, w, f[2u * i], f[2u * i + 1u], sum);
}

/* Signed bytes. */
DEVICE int32_t signed4(uint32_t w, const uint32_t *f, uint32_t i, int32_t sum) {
    uint32_t flipped = w ^ 0x00800080u;
    return halves4(flipped & 0x00ff00ffu, flipped, f[2u * i], f[2u * i + 1u], sum);
}

struct staged_q8_0_format {
    static const int values = 32, bytes = 34, unit = 32, table_bytes = 0;
    static const bool pairs = false;
    static const int blocks = 4;
    static const int words = BYTES_WORDS;
    static const int live = words;
    DEVICE_MEMBER void expand(const uint32_t *in, uint32_t *out) { copy_words<words>(in, out); }
    DEVICE_MEMBER float last(float sum) { return sum; }
    DEVICE_MEMBER uint32_t offset(uint32_t part) { return 34u * part; }
    DEVICE_MEMBER void fill(uint8_t *) {}
    DEVICE_MEMBER void load(const activation_row &x, uint32_t part, uint32_t *out) {
        load_bytes(x, part, out);
        out[BYTES_SUMS] = bits_of(x.scales[part]);
    }
    DEVICE_MEMBER uint32_t part(const uint8_t *block, uint32_t, const uint32_t *f,
                                const uint8_t *) {
        int32_t sum = (int32_t)(f[BYTES_START] + f[BYTES_START + 1u]);
#pragma unroll
        for (uint32_t i = 0; i < 8u; i++) {
            sum = signed4(word_at(block + 2u + 4u * i), f, i, sum);
        }
        return bits_of(half_at(block) * float_of(f[BYTES_SUMS]) * (float)(sum >> 8));
    }
    DEVICE_MEMBER float term(const uint8_t *, int32_t, float, const int16_t *) {
        return 0.0f;
    }
};

struct staged_q6_k_format {
    static const int values = 256, bytes = 210, unit = 256, table_bytes = 0;
    static const bool pairs = true;
    static const int blocks = 4;
    static const int words = BYTES_WORDS;
    static const int live = words;
    DEVICE_MEMBER void expand(const uint32_t *in, uint32_t *out) { copy_words<words>(in, out); }
    DEVICE_MEMBER float last(float sum) { return sum; }
    DEVICE_MEMBER uint32_t offset(uint32_t part) { return 210u * (part / 8u); }
    DEVICE_MEMBER void fill(uint8_t *) {}
    DEVICE_MEMBER void load(const activation_row &x, uint32_t part, uint32_t *out) {
        load_bytes(x, part, out);
    }
    DEVICE_MEMBER uint32_t part(const uint8_t *block, uint32_t part, const uint32_t *f,
                                const uint8_t *) {
        const uint32_t half = part / 4u % 2u, quarter = part % 4u;
        const uint8_t *low = block + 64u * half + 32u * (quarter & 1u);
        const uint8_t *high = block + 128u + 32u * half;
        const int8_t *scales = (const int8_t *)block + 192u + 8u * half + 2u * quarter;
        const uint32_t low_shift = 4u * (quarter >> 1), high_shift = 2u * quarter;
        int32_t n = 0;
#pragma unroll
        for (uint32_t i = 0; i < 2u; i++) {
            int32_t sum = 0;
#pragma unroll
            for (uint32_t j = 0; j < 4u; j++) {
                uint32_t at = 16u * i + 4u * j;
                uint32_t code = (word_at(low + at) >> low_shift & 0x0f0f0f0fu) |
                                (word_at(high + at) >> high_shift & 0x03030303u) << 4;
                sum = bytes4(code, f, 4u * i + j, sum);
            }
            n += scales[i] * ((sum >> 8) - 32 * (int32_t)f[BYTES_SUMS + i]);
        }
        return (uint32_t)n;
    }
    DEVICE_MEMBER float term(const uint8_t *block, int32_t n, float yd, const int16_t *) {
        return half_at(block + 208) * yd * (float)n;
    }
};

/* ---- grids: magnitudes from a table, signs from a mask
 * ------------------------------------------- */

/* Bytes of v where the sign bit is set become negative; v is never 0.  signs: 16 masks. */
DEVICE uint32_t negate_bytes(uint32_t v, uint32_t bits, const uint32_t *signs) {
    uint32_t mask = signs[bits];
    return (v ^ mask) + (mask & 0x01010101u);
}

DEVICE void fill_signs(uint32_t *signs) {
    uint32_t t = thread_index();
    if (t < 16u) {
        signs[t] = ((t & 1u) | (t & 2u) << 7 | (t & 4u) << 14 | (t & 8u) << 21) * 255u;
    }
}

/* Formats with one scale for 32 weights, whose grid rows are four bytes. */
struct staged_iq3_s_format {
    static const int values = 256, bytes = 110, unit = 256, table_bytes = 64 + 2048;
    static const bool pairs = true;
    static const int blocks = 4;
    static const int words = BYTES_WORDS;
    static const int live = words;
    DEVICE_MEMBER void expand(const uint32_t *in, uint32_t *out) { copy_words<words>(in, out); }
    DEVICE_MEMBER float last(float sum) { return sum; }
    DEVICE_MEMBER uint32_t offset(uint32_t part) { return 110u * (part / 8u); }
    DEVICE_MEMBER void fill(uint8_t *table) {
        uint32_t *words = (uint32_t *)table;
        fill_signs(words);
#pragma unroll 1
        for (uint32_t i = thread_index(); i < 512u; i += STAGED_THREADS) {
            words[16u + i] = iq3s_grid[i];
        }
    }
    DEVICE_MEMBER void load(const activation_row &x, uint32_t part, uint32_t *out) {
        load_bytes(x, part, out);
    }
    DEVICE_MEMBER uint32_t part(const uint8_t *block, uint32_t part, const uint32_t *f,
                                const uint8_t *table) {
        const uint32_t *signs = (const uint32_t *)table, *grid = signs + 16;
        const uint32_t s = part % 8u, high = block[66u + s];
        int32_t sum = (int32_t)(f[BYTES_START] + f[BYTES_START + 1u]);
#pragma unroll
        for (uint32_t l = 0; l < 4u; l++) {
            const uint8_t *low = block + 2u + 8u * s + 2u * l;
            uint32_t sign = block[74u + 4u * s + l];
            uint32_t a = grid[low[0] | (high << (8u - 2u * l) & 0x100u)];
            uint32_t b = grid[low[1] | (high << (7u - 2u * l) & 0x100u)];
            sum = signed4(negate_bytes(a, sign & 15u, signs), f, 2u * l, sum);
            sum = signed4(negate_bytes(b, sign >> 4, signs), f, 2u * l + 1u, sum);
        }
        return (uint32_t)((sum >> 8) *
                          (int32_t)(1u + 2u * (block[106u + (s >> 1)] >> 4u * (s & 1u) & 15u)));
    }
    DEVICE_MEMBER float term(const uint8_t *block, int32_t n, float yd, const int16_t *) {
        return half_at(block) * yd * (float)n;
    }
};

struct staged_iq3_xxs_format {
    static const int values = 256, bytes = 98, unit = 256, table_bytes = 64 + 1024;
    static const bool pairs = true;
    static const int blocks = 4;
    static const int words = BYTES_WORDS;
    static const int live = words;
    DEVICE_MEMBER void expand(const uint32_t *in, uint32_t *out) { copy_words<words>(in, out); }
    DEVICE_MEMBER float last(float sum) { return sum * 0.25f; }
    DEVICE_MEMBER uint32_t offset(uint32_t part) { return 98u * (part / 8u); }
    DEVICE_MEMBER void fill(uint8_t *table) {
        uint32_t *words = (uint32_t *)table;
        fill_signs(words);
#pragma unroll 1
        for (uint32_t i = thread_index(); i < 256u; i += STAGED_THREADS) {
            words[16u + i] = iq3xxs_grid[i];
        }
    }
    DEVICE_MEMBER void load(const activation_row &x, uint32_t part, uint32_t *out) {
        load_bytes(x, part, out);
    }
    DEVICE_MEMBER uint32_t part(const uint8_t *block, uint32_t part, const uint32_t *f,
                                const uint8_t *table) {
        const uint32_t *signs = (const uint32_t *)table, *grid = signs + 16;
        const uint32_t s = part % 8u, word = word_at(block + 66u + 4u * s);
        int32_t sum = (int32_t)(f[BYTES_START] + f[BYTES_START + 1u]);
#pragma unroll
        for (uint32_t l = 0; l < 4u; l++) {
            const uint8_t *index = block + 2u + 8u * s + 2u * l;
            uint32_t sign = word >> 7u * l & 127u; /* the eighth makes their number even */
            sign |= ((uint32_t)count_bits(sign) & 1u) << 7;
            sum = signed4(negate_bytes(grid[index[0]], sign & 15u, signs), f, 2u * l, sum);
            sum = signed4(negate_bytes(grid[index[1]], sign >> 4, signs), f, 2u * l + 1u, sum);
        }
        return (uint32_t)((sum >> 8) * (int32_t)(1u + 2u * (word >> 28)));
    }
    DEVICE_MEMBER float term(const uint8_t *block, int32_t n, float yd, const int16_t *) {
        return half_at(block) * yd * (float)n;
    }
};

struct staged_iq2_s_format {
    static const int values = 256, bytes = 82, unit = 256, table_bytes = 64 + 8192;
    static const bool pairs = true;
    static const int blocks = 4;
    static const int words = BYTES_WORDS;
    static const int live = words;
    DEVICE_MEMBER void expand(const uint32_t *in, uint32_t *out) { copy_words<words>(in, out); }
    DEVICE_MEMBER float last(float sum) { return sum * 0.125f; }
    DEVICE_MEMBER uint32_t offset(uint32_t part) { return 82u * (part / 8u); }
    DEVICE_MEMBER void fill(uint8_t *table) {
        uint32_t *words = (uint32_t *)table;
        fill_signs(words);
#pragma unroll 1
        for (uint32_t i = thread_index(); i < 1024u; i += STAGED_THREADS) {
            words[16u + 2u * i] = (uint32_t)iq2s_grid[i];
            words[17u + 2u * i] = (uint32_t)(iq2s_grid[i] >> 32);
        }
    }
    DEVICE_MEMBER void load(const activation_row &x, uint32_t part, uint32_t *out) {
        load_bytes(x, part, out);
    }
    DEVICE_MEMBER uint32_t part(const uint8_t *block, uint32_t part, const uint32_t *f,
                                const uint8_t *table) {
        const uint32_t *signs = (const uint32_t *)table;
        const uint2 *grid = (const uint2 *)(signs + 16);
        const uint32_t s = part % 8u, high = block[66u + s], scales = block[74u + s];
        int32_t n = 0;
#pragma unroll
        for (uint32_t i = 0; i < 2u; i++) {
            int32_t sum = (int32_t)f[BYTES_START + i];
#pragma unroll
            for (uint32_t j = 0; j < 2u; j++) {
                uint32_t l = 2u * i + j, sign = block[34u + 4u * s + l];
                uint2 v = grid[block[2u + 4u * s + l] | (high << (8u - 2u * l) & 0x300u)];
                sum = signed4(negate_bytes(v.x, sign & 15u, signs), f, 2u * l, sum);
                sum = signed4(negate_bytes(v.y, sign >> 4, signs), f, 2u * l + 1u, sum);
            }
            n += (sum >> 8) * (int32_t)(1u + 2u * (scales >> 4u * i & 15u));
        }
        return (uint32_t)n;
    }
    DEVICE_MEMBER float term(const uint8_t *block, int32_t n, float yd, const int16_t *) {
        return half_at(block) * yd * (float)n;
    }
};

/* ---- nibbles
 * ------------------------------------------------------------------------------------- */

/* A part is 16 bytes: 16 weights of one sub-block, and of the next, whose codes are the high
 * nibbles.  Words: eight for the low nibbles, eight for the high ones. */
struct staged_q4_k_format {
    static const int values = 256, bytes = 144, unit = 256, table_bytes = 0;
    static const bool pairs = true;
    static const int blocks = 4;
    static const int words = 20; /* 16 and a gap, for the banks */
    static const int live = words;
    DEVICE_MEMBER void expand(const uint32_t *in, uint32_t *out) { copy_words<words>(in, out); }
    DEVICE_MEMBER float last(float sum) { return sum; }
    DEVICE_MEMBER uint32_t offset(uint32_t part) { return 144u * (part / 8u); }
    DEVICE_MEMBER void fill(uint8_t *) {}
    DEVICE_MEMBER void load_side(const uint4 *codes, uint32_t *out) {
        uint4 v = read_only(codes);
        uint32_t four[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
        for (uint32_t j = 0; j < 4u; j++) {
            out[2u * j] = pair_of(256 * code_at(four[j], 0), 256 * code_at(four[j], 2));
            out[2u * j + 1u] = pair_of(code_at(four[j], 1), code_at(four[j], 3));
        }
    }
    DEVICE_MEMBER void load(const activation_row &x, uint32_t part, uint32_t *out) {
        const int8_t *codes =
            (const int8_t *)x.x + 256u * (part / 8u) + 64u * (part % 8u / 2u) + 16u * (part & 1u);
        load_side((const uint4 *)codes, out);
        load_side((const uint4 *)(codes + 32), out + 8);
    }
    DEVICE_MEMBER uint32_t part(const uint8_t *block, uint32_t part, const uint32_t *f,
                                const uint8_t *) {
        const uint32_t pair = part % 8u / 2u;
        const uint4 v = *(const uint4 *)(block + 16u + 16u * (part % 8u));
        const uint32_t four[4] = {v.x, v.y, v.z, v.w};
        int32_t low = 0, high = 0;
#pragma unroll
        for (uint32_t j = 0; j < 4u; j++) {
            uint32_t w = four[j], up = w >> 4;
            low = halves4(w & 0x000f000fu, w & 0x0f000f00u, f[2u * j], f[2u * j + 1u], low);
            high =
                halves4(up & 0x000f000fu, up & 0x0f000f00u, f[8u + 2u * j], f[9u + 2u * j], high);
        }
        return (uint32_t)(q4_k_scale(block, (int)(2u * pair)) * (low >> 8) +
                          q4_k_scale(block, (int)(2u * pair + 1u)) * (high >> 8));
    }
    DEVICE_MEMBER float term(const uint8_t *block, int32_t n, float yd, const int16_t *sums) {
        int32_t m = 0;
        for (int j = 0; j < 8; j++) {
            m += q4_k_min(block, j) * (sums[2 * j] + sums[2 * j + 1]);
        }
        return half_at(block) * yd * (float)n - half_at(block + 2) * yd * (float)m;
    }
};

/* ---- 2 bits
 * -------------------------------------------------------------------------------------- */

struct staged_q2_0_format {
    static const int values = 64, bytes = 18, unit = 32, table_bytes = 0;
    static const bool pairs = false;
    static const int blocks = 4;
    static const int words = 20; /* 16 pairs, the sum of the codes, their scale */
    static const int live = words;
    DEVICE_MEMBER void expand(const uint32_t *in, uint32_t *out) { copy_words<words>(in, out); }
    DEVICE_MEMBER float last(float sum) { return sum; }
    DEVICE_MEMBER uint32_t offset(uint32_t part) { return 18u * (part / 2u); }
    DEVICE_MEMBER void fill(uint8_t *) {}
    /* Field i of a half is code times 4^i; fields 0..3 meet at 4^3, the others at 4^6. */
    DEVICE_MEMBER void load(const activation_row &x, uint32_t part, uint32_t *out) {
        uint32_t codes[8];
        codes_at(x, part, codes);
#pragma unroll
        for (uint32_t i = 0; i < 2u; i++) {
#pragma unroll
            for (uint32_t field = 0; field < 8u; field++) {
                uint32_t shift = field < 4u ? 6u - 2u * field : field < 7u ? 12u - 2u * field : 0u;
                int32_t low = code_at(codes[4u * i + field / 4u], field % 4u);
                int32_t high = code_at(codes[4u * i + 2u + field / 4u], field % 4u);
                out[8u * i + field] = pair_of(low * (1 << shift), high * (1 << shift));
            }
        }
        out[16] = (uint32_t)(x.sums[2u * part] + x.sums[2u * part + 1u]);
        out[17] = bits_of(x.scales[part]);
    }
    DEVICE_MEMBER uint32_t part(const uint8_t *block, uint32_t part, const uint32_t *f,
                                const uint8_t *) {
        const uint8_t *codes = block + 2u + 8u * (part & 1u);
        int32_t low = 0, high = 0;
#pragma unroll
        for (uint32_t i = 0; i < 2u; i++) {
            uint32_t w = word_at(codes + 4u * i);
#pragma unroll
            for (uint32_t field = 0; field < 4u; field++) {
                low = halves2(w & 0x00030003u << 2u * field, f[8u * i + field], low);
            }
#pragma unroll
            for (uint32_t field = 4; field < 7u; field++) {
                high = halves2(w & 0x00030003u << 2u * field, f[8u * i + field], high);
            }
            high = halves2(w >> 2 & 0x30003000u, f[8u * i + 7u], high);
        }
        return bits_of(half_at(block) * float_of(f[17]) *
                       (float)((low >> 6) + (high >> 12) - (int32_t)f[16]));
    }
    DEVICE_MEMBER float term(const uint8_t *, int32_t, float, const int16_t *) {
        return 0.0f;
    }
};

/* ---- levels
 * -------------------------------------------------------------------------------------- */

struct staged_iq4_nl_format {
    /* entry n of lane l at 256 n + 4 l: the nibble in bits 8..11 of a half is an address as it is
     */
    static const int values = 32, bytes = 18, unit = 32, table_bytes = 4096;
    static const bool pairs = false;
    static const int blocks = 4;
    static const int words = 20; /* 32 codes as f16 pairs, their scale, and a gap, for the banks */
    static const int live = 33;  /* the codes as f32, the scale */
    DEVICE_MEMBER float last(float sum) { return sum; }
    DEVICE_MEMBER uint32_t offset(uint32_t part) { return 18u * part; }
    DEVICE_MEMBER void fill(uint8_t *table) {
#pragma unroll 1
        for (uint32_t i = thread_index(); i < 512u; i += STAGED_THREADS) {
            *(float *)(table + 256u * (i / 32u) + 4u * (i % 32u)) = (float)kvalues_iq4nl[i / 32u];
        }
    }
    DEVICE_MEMBER void load(const activation_row &x, uint32_t part, uint32_t *out) {
        uint32_t codes[8];
        codes_at(x, part, codes);
#pragma unroll
        for (uint32_t i = 0; i < 32u; i++) {
            ((uint16_t *)out)[i] = (uint16_t)half_of((float)code_at(codes[i / 4u], i % 4u));
        }
        out[16] = bits_of(x.scales[part]);
    }
    DEVICE_MEMBER void expand(const uint32_t *in, uint32_t *out) {
#pragma unroll
        for (uint32_t i = 0; i < 16u; i++) {
            out[2u * i] = bits_of(float_of_half(in[i] & 0xffffu));
            out[2u * i + 1u] = bits_of(float_of_half(in[i] >> 16));
        }
        out[32] = in[16];
    }
    DEVICE_MEMBER float level(const uint8_t *table, uint32_t at) {
        return *(const float *)(table + at);
    }
    DEVICE_MEMBER uint32_t part(const uint8_t *block, uint32_t, const uint32_t *f,
                                const uint8_t *table) {
        const uint16_t *codes = (const uint16_t *)(block + 2);
        const uint32_t lane = 4u * lane_index();
        float sum = 0.0f;
#pragma unroll
        for (uint32_t i = 0; i < 8u; i++) {
            uint32_t h = codes[i];
            sum =
                CANONICAL_FMA(level(table, (masked(h, 15u) << 8) + lane), float_of(f[2u * i]), sum);
            sum = CANONICAL_FMA(level(table, (masked(h, 0xf0u) << 4) + lane),
                                float_of(f[2u * i + 16u]), sum);
            sum = CANONICAL_FMA(level(table, (h & 0xf00u) | lane), float_of(f[2u * i + 1u]), sum);
            sum = CANONICAL_FMA(level(table, (h >> 4 & 0xf00u) | lane), float_of(f[2u * i + 17u]),
                                sum);
        }
        return bits_of(half_at(block) * float_of(f[32]) * sum);
    }
    DEVICE_MEMBER float term(const uint8_t *, int32_t, float, const int16_t *) {
        return 0.0f;
    }
};

/* ---- gate and up of formats whose kernels of one matrix have no room for two
 * ---------------------------- */

struct staged_pair_iq4_nl_format : staged_iq4_nl_format {
    static const bool pairs = true;
    static const int blocks = 3;
};

struct staged_pair_q8_0_format : staged_q8_0_format {
    static const bool pairs = true;
};

#endif /* OPREG_SM60_STAGED_FORMATS_CUH */
