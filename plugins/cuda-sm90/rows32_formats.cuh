/* SPDX-License-Identifier: MIT
 * rows32_formats.cuh - integer-dot formats as a lane reads them from the layout rows32: one row's
 * group in registers, word by word.
 *
 * A format F has
 *   bytes, values  of a group; unit 256 (the group is one unit) or 32
 *   sub            weights that share an integer scale (256) or an idot (32): 16 or 32
 *   shift          decoded bytes are the weights times 2^shift
 *   decode(w, j, q, table)   weights 32j .. 32j+31 as 8 words of signed bytes, in order
 *   unit 256: scales(w, s)  values / sub signed bytes;  mins(w, m)  where min_sub is not 0: 256 /
 *             min_sub bytes, each up to 127;  d(w), dmin(w);  last: factor after the tree
 *   unit 32:  scale(w, j, h, dialect): f32 scale of half h (sub 16) or of the block; min(w, j) where
 *             min_sub is 32
 *   free_after(c)            the last j that reads piece c of 16 bytes; scales are read first
 *   table_words, entries, entry_words, copies, entry_at(i): the table in shared memory
 * All indices are constants after unrolling. */
#ifndef OPREG_SM90_ROWS32_FORMATS_CUH
#define OPREG_SM90_ROWS32_FORMATS_CUH

#include "device.h"

#include "canonical.h"
#include "formats/scales.h"
#include "formats/tables/iq1s_grid.h"
#include "formats/tables/iq2s_grid.h"
#include "formats/tables/iq2xs_grid.h"
#include "formats/tables/iq2xxs_grid.h"
#include "formats/tables/iq3s_grid.h"
#include "formats/tables/iq3xxs_grid.h"

#define MEMBER static __device__ __forceinline__

MEMBER uint32_t permute(uint32_t a, uint32_t b, uint32_t selector) {
    return __byte_perm(a, b, selector);
}

MEMBER int32_t signed_byte(uint32_t word, int i) { return (int32_t)(word << (24 - 8 * i)) >> 24; }
MEMBER uint32_t byte_of(const uint32_t *w, int p) { return w[p >> 2] >> 8 * (p & 3) & 255u; }
MEMBER uint32_t half_of(const uint32_t *w, int p) { return w[p >> 2] >> 8 * (p & 2) & 0xffffu; }
/* Exact, subnormals too. */
MEMBER float f16_value(uint32_t bits) {
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"((unsigned short)bits));
    return value;
}
MEMBER float f16_of(const uint32_t *w, int p) { return f16_value(half_of(w, p)); }

/* Bytes of signs: 0xff where the bit of the low four, the only ones, is set. */
MEMBER uint32_t sign_bytes(uint32_t bits) {
    uint32_t spread = bits * 0x10204080u, mask; /* bit b at the top of byte b                     */
    asm("prmt.b32 %0, %1, 0, 0xba98;" : "=r"(mask) : "r"(spread));
    return mask;
}

/* Four magnitudes above 0, negated where the mask byte is 0xff. */
MEMBER uint32_t negate_bytes(uint32_t v, uint32_t mask) {
    return (v ^ mask) + (mask & 0x01010101u);
}

/* Bytes 0..127 minus a constant below 128. */
MEMBER uint32_t minus_bytes(uint32_t v, uint32_t constant) {
    return ((v | 0x80808080u) - constant) ^ 0x80808080u;
}

/* Sixteen levels by nibble: words 0..3 of q from the low nibbles of w[0..3], 4..7 from the high. */
MEMBER void look_up(const uint32_t *w, uint32_t t0, uint32_t t1, uint32_t t2, uint32_t t3,
                    uint32_t *q) {
#pragma unroll
    for (int i = 0; i < 4; i++) {
        uint32_t v = w[i], low = v & 0x77777777u, high = 0x32103210u | (v & 0x88888888u) >> 1;
        uint32_t a = permute(permute(t0, t1, low), permute(t2, t3, low), high);
        low >>= 16;
        high >>= 16;
        uint32_t b = permute(permute(t0, t1, low), permute(t2, t3, low), high);
        q[i] = permute(a, b, 0x6420u);
        q[4 + i] = permute(a, b, 0x7531u);
    }
}

#define GROUP(bytes_, values_, unit_, sub_, min_sub_, shift_)                                      \
    static const int bytes = bytes_, values = values_, unit = unit_, sub = sub_;                   \
    static const int min_sub = min_sub_, shift = shift_;
#define NO_TABLE                                                                                   \
    static const int table_words = 0, entry_words = 0, copies = 1, entries = 0;                    \
    MEMBER uint2 entry_at(int) { return make_uint2(0u, 0u); }
#define NO_MINS                                                                                    \
    MEMBER void mins(const uint32_t *, uint32_t *) {}                                              \
    MEMBER float dmin(const uint32_t *) { return 0.0f; }
#define NO_MIN                                                                                     \
    MEMBER float min(const uint32_t *, int) { return 0.0f; }
#define LAST(factor)                                                                               \
    static __device__ __forceinline__ float last(float sum) {                                      \
        return (factor) == 1.0f ? sum : sum * (factor);                                            \
    }

/* ---- units of 32 ------------------------------------------------------------------------------ */

struct rows_q4_0 {
    GROUP(72, 128, 32, 32, 0, 4)
    static __device__ __host__ constexpr int free_after(int c) { return c < 4 ? c : 3; }
    NO_TABLE NO_MIN LAST(1.0f)
    MEMBER void decode(const uint32_t *w, int j, uint32_t *q, const uint32_t *) {
#pragma unroll
        for (int i = 0; i < 4; i++) {
            q[i] = (w[4 * j + i] << 4 & 0xf0f0f0f0u) ^ 0x80808080u;
            q[4 + i] = (w[4 * j + i] & 0xf0f0f0f0u) ^ 0x80808080u;
        }
    }
    MEMBER float scale(const uint32_t *w, int j, int, uint32_t) { return f16_of(w, 64 + 2 * j); }
};

struct rows_q4_1 {
    GROUP(80, 128, 32, 32, 32, 0)
    static __device__ __host__ constexpr int free_after(int c) { return c < 4 ? c : 3; }
    NO_TABLE LAST(1.0f)
    MEMBER void decode(const uint32_t *w, int j, uint32_t *q, const uint32_t *) {
#pragma unroll
        for (int i = 0; i < 4; i++) {
            q[i] = w[4 * j + i] & 0x0f0f0f0fu;
            q[4 + i] = w[4 * j + i] >> 4 & 0x0f0f0f0fu;
        }
    }
    MEMBER float scale(const uint32_t *w, int j, int, uint32_t) { return f16_of(w, 64 + 4 * j); }
    MEMBER float min(const uint32_t *w, int j) { return f16_of(w, 66 + 4 * j); }
};

struct rows_q5_0 {
    GROUP(88, 128, 32, 32, 0, 3)
    static __device__ __host__ constexpr int free_after(int c) { return c < 4 ? c : 3; }
    NO_TABLE NO_MIN LAST(1.0f)
    MEMBER void decode(const uint32_t *w, int j, uint32_t *q, const uint32_t *) {
        uint32_t h = ~w[16 + j];
#pragma unroll
        for (int i = 0; i < 4; i++) {
            uint32_t low = h >> 4 * i & 15u, high = h >> (16 + 4 * i) & 15u;
            q[i] = (w[4 * j + i] << 3 & 0x78787878u) | (low * 0x10204080u & 0x80808080u);
            q[4 + i] = (w[4 * j + i] >> 1 & 0x78787878u) | (high * 0x10204080u & 0x80808080u);
        }
    }
    MEMBER float scale(const uint32_t *w, int j, int, uint32_t) { return f16_of(w, 80 + 2 * j); }
};

struct rows_q5_1 {
    GROUP(96, 128, 32, 32, 32, 0)
    static __device__ __host__ constexpr int free_after(int c) { return c < 4 ? c : 3; }
    NO_TABLE LAST(1.0f)
    MEMBER void decode(const uint32_t *w, int j, uint32_t *q, const uint32_t *) {
        uint32_t h = w[16 + j];
#pragma unroll
        for (int i = 0; i < 4; i++) {
            uint32_t low = h >> 4 * i & 15u, high = h >> (16 + 4 * i) & 15u;
            q[i] = (w[4 * j + i] & 0x0f0f0f0fu) | (low * 0x02040810u & 0x10101010u);
            q[4 + i] = (w[4 * j + i] >> 4 & 0x0f0f0f0fu) | (high * 0x02040810u & 0x10101010u);
        }
    }
    MEMBER float scale(const uint32_t *w, int j, int, uint32_t) { return f16_of(w, 80 + 4 * j); }
    MEMBER float min(const uint32_t *w, int j) { return f16_of(w, 82 + 4 * j); }
};

struct rows_q8_0 {
    GROUP(136, 128, 32, 32, 0, 0)
    static __device__ __host__ constexpr int free_after(int c) { return c / 2; }
    NO_TABLE NO_MIN LAST(1.0f)
    MEMBER void decode(const uint32_t *w, int j, uint32_t *q, const uint32_t *) {
#pragma unroll
        for (int i = 0; i < 8; i++) {
            q[i] = w[8 * j + i];
        }
    }
    MEMBER float scale(const uint32_t *w, int j, int, uint32_t) { return f16_of(w, 128 + 2 * j); }
};

struct rows_iq4_nl {
    GROUP(72, 128, 32, 32, 0, 0)
    static __device__ __host__ constexpr int free_after(int c) { return c < 4 ? c : 3; }
    NO_TABLE NO_MIN LAST(1.0f)
    MEMBER void decode(const uint32_t *w, int j, uint32_t *q, const uint32_t *) {
        look_up(w + 4 * j, 0xbfad9881u, 0xf6eaddcfu, 0x26190d01u, 0x71594535u, q);
    }
    MEMBER float scale(const uint32_t *w, int j, int, uint32_t) { return f16_of(w, 64 + 2 * j); }
};

struct rows_mxfp4 {
    GROUP(68, 128, 32, 32, 0, 0)
    static __device__ __host__ constexpr int free_after(int c) { return c < 4 ? c : 3; }
    NO_TABLE NO_MIN LAST(1.0f)
    MEMBER void decode(const uint32_t *w, int j, uint32_t *q, const uint32_t *) {
        look_up(w + 4 * j, 0x03020100u, 0x0c080604u, 0xfdfeff00u, 0xf4f8fafcu, q);
    }
    MEMBER float scale(const uint32_t *w, int j, int, uint32_t) {
        return e8m0_half(byte_of(w, 64 + j));
    }
};

MEMBER float rocmfp4_scale_of(uint32_t code, uint32_t dialect) {
    return dialect == OPREG_DIALECT_ROCMFP4_HIP ? ue4m3_half_7bit(code) : ue4m3_half(code);
}

struct rows_rocmfp4_fast {
    GROUP(68, 128, 32, 32, 0, 0)
    static __device__ __host__ constexpr int free_after(int c) { return c < 4 ? c : 3; }
    NO_TABLE NO_MIN LAST(1.0f)
    MEMBER void decode(const uint32_t *w, int j, uint32_t *q, const uint32_t *) {
        look_up(w + 4 * j, 0x03020100u, 0x0a080604u, 0xfdfeff00u, 0xf6f8fafcu, q);
    }
    MEMBER float scale(const uint32_t *w, int j, int, uint32_t dialect) {
        return rocmfp4_scale_of(byte_of(w, 64 + j), dialect);
    }
};

struct rows_rocmfp4 {
    GROUP(72, 128, 32, 16, 0, 0)
    static __device__ __host__ constexpr int free_after(int c) { return c < 4 ? c : 3; }
    NO_TABLE NO_MIN LAST(1.0f)
    MEMBER void decode(const uint32_t *w, int j, uint32_t *q, const uint32_t *) {
        look_up(w + 4 * j, 0x03020100u, 0x0a080604u, 0xfdfeff00u, 0xf6f8fafcu, q);
    }
    MEMBER float scale(const uint32_t *w, int j, int h, uint32_t dialect) {
        return rocmfp4_scale_of(byte_of(w, 64 + 2 * j + h), dialect);
    }
};

struct rows_q2_0 {
    GROUP(36, 128, 32, 32, 0, 0)
    static __device__ __host__ constexpr int free_after(int c) { return 2 * c + 1; }
    NO_TABLE NO_MIN LAST(1.0f)
    MEMBER void decode(const uint32_t *w, int j, uint32_t *q, const uint32_t *) {
#pragma unroll
        for (int i = 0; i < 4; i++) { /* eight codes to eight selectors of the levels -1, 0, 1, 2 */
            uint32_t x = half_of(w, 8 * j + 2 * i);
            x = (x | x << 8) & 0x00ff00ffu;
            x = (x | x << 4) & 0x0f0f0f0fu;
            x = (x | x << 2) & 0x33333333u;
            q[2 * i] = permute(0x020100ffu, 0u, x);
            q[2 * i + 1] = permute(0x020100ffu, 0u, x >> 16);
        }
    }
    MEMBER float scale(const uint32_t *w, int j, int, uint32_t) {
        return f16_of(w, 32 + 2 * (j >> 1));
    }
};

/* ---- units of 256 ------------------------------------------------------------------------------ */

struct rows_q2_k {
    GROUP(84, 256, 256, 16, 16, 0)
    static __device__ __host__ constexpr int free_after(int c) { return c == 0 ? 7 : (c - 1) / 2 * 4 + 3; }
    NO_TABLE LAST(1.0f)
    MEMBER void decode(const uint32_t *w, int j, uint32_t *q, const uint32_t *) {
#pragma unroll
        for (int i = 0; i < 8; i++) {
            q[i] = w[4 + 8 * (j >> 2) + i] >> 2 * (j & 3) & 0x03030303u;
        }
    }
    MEMBER void scales(const uint32_t *w, uint32_t *s) {
#pragma unroll
        for (int i = 0; i < 4; i++) {
            s[i] = w[i] & 0x0f0f0f0fu;
        }
    }
    MEMBER void mins(const uint32_t *w, uint32_t *m) {
#pragma unroll
        for (int i = 0; i < 4; i++) {
            m[i] = w[i] >> 4 & 0x0f0f0f0fu;
        }
    }
    MEMBER float d(const uint32_t *w) { return f16_of(w, 80); }
    MEMBER float dmin(const uint32_t *w) { return f16_of(w, 82); }
};

struct rows_q3_k {
    GROUP(110, 256, 256, 16, 0, 5)
    static __device__ __host__ constexpr int free_after(int c) { return c < 2 || c > 5 ? 7 : (c - 2) / 2 * 4 + 3; }
    NO_TABLE NO_MINS LAST(1.0f)
    MEMBER void decode(const uint32_t *w, int j, uint32_t *q, const uint32_t *) {
        int low = 5 - 2 * (j & 3);
#pragma unroll
        for (int i = 0; i < 8; i++) {
            uint32_t v = w[8 + 8 * (j >> 2) + i], h = ~(w[i] << (7 - j)) & 0x80808080u;
            q[i] = ((low >= 0 ? v << (low & 31) : v >> (-low & 31)) & 0x60606060u) | h;
        }
    }
    MEMBER void scales(const uint32_t *w, uint32_t *s) {
#pragma unroll
        for (int i = 0; i < 4; i++) {
            uint32_t low = w[24 + (i & 1)] >> 4 * (i >> 1) & 0x0f0f0f0fu;
            s[i] = minus_bytes(low | (w[26] >> 2 * i & 0x03030303u) << 4, 0x20202020u);
        }
    }
    MEMBER float d(const uint32_t *w) { return f16_of(w, 108); }
};

/* Six-bit scales and mins of Q4_K and Q5_K. */
MEMBER void six_bit_scales(const uint32_t *w, uint32_t *s) {
    s[0] = w[1] & 0x3f3f3f3fu;
    s[1] = (w[3] & 0x0f0f0f0fu) | (w[1] >> 2 & 0x30303030u);
}
MEMBER void six_bit_mins(const uint32_t *w, uint32_t *m) {
    m[0] = w[2] & 0x3f3f3f3fu;
    m[1] = (w[3] >> 4 & 0x0f0f0f0fu) | (w[2] >> 2 & 0x30303030u);
}

struct rows_q4_k {
    GROUP(144, 256, 256, 32, 32, 0)
    static __device__ __host__ constexpr int free_after(int c) { return c == 0 ? 7 : (c - 1) / 2 * 2 + 1; }
    NO_TABLE LAST(1.0f)
    MEMBER void decode(const uint32_t *w, int j, uint32_t *q, const uint32_t *) {
#pragma unroll
        for (int i = 0; i < 8; i++) {
            q[i] = w[4 + 8 * (j >> 1) + i] >> 4 * (j & 1) & 0x0f0f0f0fu;
        }
    }
    MEMBER void scales(const uint32_t *w, uint32_t *s) { six_bit_scales(w, s); }
    MEMBER void mins(const uint32_t *w, uint32_t *m) { six_bit_mins(w, m); }
    MEMBER float d(const uint32_t *w) { return f16_of(w, 0); }
    MEMBER float dmin(const uint32_t *w) { return f16_of(w, 2); }
};

struct rows_q5_k {
    GROUP(176, 256, 256, 32, 32, 0)
    static __device__ __host__ constexpr int free_after(int c) { return c < 3 ? 7 : (c - 3) / 2 * 2 + 1; }
    NO_TABLE LAST(1.0f)
    MEMBER void decode(const uint32_t *w, int j, uint32_t *q, const uint32_t *) {
#pragma unroll
        for (int i = 0; i < 8; i++) {
            uint32_t h = j < 4 ? w[4 + i] << (4 - j) : w[4 + i] >> (j - 4);
            q[i] = (w[12 + 8 * (j >> 1) + i] >> 4 * (j & 1) & 0x0f0f0f0fu) | (h & 0x10101010u);
        }
    }
    MEMBER void scales(const uint32_t *w, uint32_t *s) { six_bit_scales(w, s); }
    MEMBER void mins(const uint32_t *w, uint32_t *m) { six_bit_mins(w, m); }
    MEMBER float d(const uint32_t *w) { return f16_of(w, 0); }
    MEMBER float dmin(const uint32_t *w) { return f16_of(w, 2); }
};

struct rows_q6_k {
    GROUP(210, 256, 256, 16, 0, 2)
    static __device__ __host__ constexpr int free_after(int c) { return c < 8 ? c / 4 * 4 + c % 4 / 2 + 2 : c < 12 ? (c - 8) / 2 * 4 + 3 : 7; }
    NO_TABLE NO_MINS LAST(1.0f)
    MEMBER void decode(const uint32_t *w, int j, uint32_t *q, const uint32_t *) {
        int n = j >> 2, r = j & 3;
#pragma unroll
        for (int i = 0; i < 8; i++) {
            uint32_t low = w[16 * n + 8 * (r & 1) + i], high = w[32 + 8 * n + i];
            low = r >> 1 ? low >> 2 : low << 2;
            high = (~high << (6 - 2 * r)) & 0xc0c0c0c0u;
            /* the upper bit of the two is inverted back below: only the sign flips */
            q[i] = (low & 0x3c3c3c3cu) | (high ^ 0x40404040u);
        }
    }
    MEMBER void scales(const uint32_t *w, uint32_t *s) {
#pragma unroll
        for (int i = 0; i < 4; i++) {
            s[i] = w[48 + i];
        }
    }
    MEMBER float d(const uint32_t *w) { return f16_of(w, 208); }
};

struct rows_iq4_xs {
    GROUP(136, 256, 256, 32, 0, 0)
    static __device__ __host__ constexpr int free_after(int c) { return c < 8 ? c : 7; }
    NO_TABLE NO_MINS LAST(1.0f)
    MEMBER void decode(const uint32_t *w, int j, uint32_t *q, const uint32_t *) {
        look_up(w + 4 * j, 0xbfad9881u, 0xf6eaddcfu, 0x26190d01u, 0x71594535u, q);
    }
    MEMBER void scales(const uint32_t *w, uint32_t *s) {
        uint32_t even = w[33] & 0x0f0f0f0fu, odd = w[33] >> 4 & 0x0f0f0f0fu;
#pragma unroll
        for (int i = 0; i < 2; i++) {
            uint32_t high = byte_of(w, 130 + i);
            high = (high | high << 12) & 0x000f000fu;
            high = (high | high << 6) & 0x03030303u;
            s[i] = minus_bytes(permute(even, odd, i ? 0x7362u : 0x5140u) | high << 4, 0x20202020u);
        }
    }
    MEMBER float d(const uint32_t *w) { return f16_of(w, 128); }
};

/* Eight signed bytes of one grid row; the table holds rows as pairs of words. */
template <int copies>
MEMBER void grid_row(const uint32_t *table, uint32_t index, uint32_t signs, uint32_t *q) {
    uint2 row = *(const uint2 *)(table + 2 * copies * index);
    q[0] = negate_bytes(row.x, sign_bytes(signs & 15u));
    q[1] = negate_bytes(row.y, sign_bytes(signs >> 4 & 15u));
}

/* The seven-bit sign index with the parity bit that makes its count even. */
MEMBER uint32_t even_signs(uint32_t index) { return index | (__popc(index) & 1u) << 7; }

/* 2s + 1 of four bytes of 0..15. */
MEMBER uint32_t odd_scales(uint32_t s) { return s << 1 | 0x01010101u; }

/* A grid in shared memory, several copies entry by entry: lanes that take different copies do not
 * meet in a bank. */
#define GRID64(name, entries_, copies_)                                                            \
    static const int copies = copies_, entry_words = 2, entries = entries_;                        \
    static const int table_words = 2 * entries_ * copies_;                                         \
    MEMBER uint2 entry_at(int i) {                                                                 \
        return make_uint2((uint32_t)name[i], (uint32_t)(name[i] >> 32));                           \
    }
#define GRID32(name, entries_, copies_)                                                            \
    static const int copies = copies_, entry_words = 1, entries = entries_;                        \
    static const int table_words = entries_ * copies_;                                             \
    MEMBER uint2 entry_at(int i) { return make_uint2(name[i], name[i]); }

struct rows_iq2_xxs {
    GROUP(66, 256, 256, 32, 0, 0)
    static __device__ __host__ constexpr int free_after(int c) { return 2 * c + 1; }
    GRID64(iq2xxs_grid, 256, 8)
    NO_MINS LAST(0.125f)
    MEMBER void decode(const uint32_t *w, int j, uint32_t *q, const uint32_t *table) {
        uint32_t v = w[2 * j + 1];
#pragma unroll
        for (int l = 0; l < 4; l++) {
            grid_row<copies>(table, byte_of(w, 8 * j + l), even_signs(v >> 7 * l & 127u), q + 2 * l);
        }
    }
    MEMBER void scales(const uint32_t *w, uint32_t *s) {
#pragma unroll
        for (int i = 0; i < 2; i++) {
            uint32_t low = permute(w[8 * i + 1] >> 28, w[8 * i + 3] >> 28, 0x0040u);
            uint32_t high = permute(w[8 * i + 5] >> 28, w[8 * i + 7] >> 28, 0x0040u);
            s[i] = odd_scales(permute(low, high, 0x5410u));
        }
    }
    MEMBER float d(const uint32_t *w) { return f16_of(w, 64); }
};

/* Sub-scales of 16: the byte of 32 weights holds two nibbles. */
MEMBER void nibble_scales(uint32_t low, uint32_t high, uint32_t *s) {
    uint32_t words[2] = {low, high};
#pragma unroll
    for (int i = 0; i < 2; i++) {
        uint32_t a = words[i] & 0x0f0f0f0fu, b = words[i] >> 4 & 0x0f0f0f0fu;
        s[2 * i] = odd_scales(permute(a, b, 0x5140u));
        s[2 * i + 1] = odd_scales(permute(a, b, 0x7362u));
    }
}

struct rows_iq2_xs {
    GROUP(74, 256, 256, 16, 0, 0)
    static __device__ __host__ constexpr int free_after(int c) { return c < 4 ? 2 * c + 1 : 7; }
    GRID64(iq2xs_grid, 512, 4)
    NO_MINS LAST(0.125f)
    MEMBER void decode(const uint32_t *w, int j, uint32_t *q, const uint32_t *table) {
#pragma unroll
        for (int l = 0; l < 4; l++) {
            uint32_t v = half_of(w, 8 * j + 2 * l);
            grid_row<copies>(table, v & 511u, even_signs(v >> 9), q + 2 * l);
        }
    }
    MEMBER void scales(const uint32_t *w, uint32_t *s) { nibble_scales(w[16], w[17], s); }
    MEMBER float d(const uint32_t *w) { return f16_of(w, 72); }
};

struct rows_iq2_s {
    GROUP(82, 256, 256, 16, 0, 0)
    static __device__ __host__ constexpr int free_after(int c) { return c == 0 || c == 2 ? 3 : 7; }
    GRID64(iq2s_grid, 1024, 2)
    NO_MINS LAST(0.125f)
    MEMBER void decode(const uint32_t *w, int j, uint32_t *q, const uint32_t *table) {
        uint32_t high = byte_of(w, 64 + j);
#pragma unroll
        for (int l = 0; l < 4; l++) {
            uint32_t index = byte_of(w, 4 * j + l) | (high >> 2 * l & 3u) << 8;
            grid_row<copies>(table, index, byte_of(w, 32 + 4 * j + l), q + 2 * l);
        }
    }
    MEMBER void scales(const uint32_t *w, uint32_t *s) { nibble_scales(w[18], w[19], s); }
    MEMBER float d(const uint32_t *w) { return f16_of(w, 80); }
};

struct rows_iq3_xxs {
    GROUP(98, 256, 256, 32, 0, 0)
    static __device__ __host__ constexpr int free_after(int c) { return c < 4 ? 2 * c + 1 : 7; }
    GRID32(iq3xxs_grid, 256, 16)
    NO_MINS LAST(0.25f)
    MEMBER void decode(const uint32_t *w, int j, uint32_t *q, const uint32_t *table) {
        uint32_t v = w[16 + j];
#pragma unroll
        for (int l = 0; l < 4; l++) {
            uint32_t signs = even_signs(v >> 7 * l & 127u);
            q[2 * l] = negate_bytes(table[copies * byte_of(w, 8 * j + 2 * l)], sign_bytes(signs & 15u));
            q[2 * l + 1] =
                negate_bytes(table[copies * byte_of(w, 8 * j + 2 * l + 1)], sign_bytes(signs >> 4));
        }
    }
    MEMBER void scales(const uint32_t *w, uint32_t *s) {
#pragma unroll
        for (int i = 0; i < 2; i++) {
            uint32_t low = permute(w[16 + 4 * i] >> 28, w[17 + 4 * i] >> 28, 0x0040u);
            uint32_t high = permute(w[18 + 4 * i] >> 28, w[19 + 4 * i] >> 28, 0x0040u);
            s[i] = odd_scales(permute(low, high, 0x5410u));
        }
    }
    MEMBER float d(const uint32_t *w) { return f16_of(w, 96); }
};

struct rows_iq3_s {
    GROUP(110, 256, 256, 32, 0, 0)
    static __device__ __host__ constexpr int free_after(int c) { return c < 4 ? 2 * c + 1 : c == 5 ? 5 : 7; }
    GRID32(iq3s_grid, 512, 8)
    NO_MINS LAST(1.0f)
    MEMBER void decode(const uint32_t *w, int j, uint32_t *q, const uint32_t *table) {
        uint32_t high = byte_of(w, 64 + j);
#pragma unroll
        for (int t = 0; t < 8; t++) {
            uint32_t signs = byte_of(w, 72 + 4 * j + (t >> 1)) >> 4 * (t & 1) & 15u;
            uint32_t index = byte_of(w, 8 * j + t) | (high >> t & 1u) << 8;
            q[t] = negate_bytes(table[copies * index], sign_bytes(signs));
        }
    }
    MEMBER void scales(const uint32_t *w, uint32_t *s) {
        uint32_t a = w[26] & 0x0f0f0f0fu, b = w[26] >> 4 & 0x0f0f0f0fu;
        s[0] = odd_scales(permute(a, b, 0x5140u));
        s[1] = odd_scales(permute(a, b, 0x7362u));
    }
    MEMBER float d(const uint32_t *w) { return f16_of(w, 108); }
};

/* Levels 0, 1, 2 as nibbles to eighths with the delta: 8 * (level - 1) + delta, delta 1 or -1. */
MEMBER void eighths(uint32_t row, uint32_t negative, uint32_t *q) {
    uint32_t constant = negative ? 0x09090909u : 0x07070707u;
    q[0] = minus_bytes(row << 3 & 0x18181818u, constant);
    q[1] = minus_bytes(row >> 1 & 0x18181818u, constant);
}

struct rows_iq1_s {
    GROUP(50, 256, 256, 32, 0, 0)
    static __device__ __host__ constexpr int free_after(int c) { return 7; }
    GRID32(iq1s_grid, 2048, 2)
    NO_MINS LAST(0.125f)
    MEMBER void decode(const uint32_t *w, int j, uint32_t *q, const uint32_t *table) {
        uint32_t v = half_of(w, 32 + 2 * j);
#pragma unroll
        for (int l = 0; l < 4; l++) {
            uint32_t index = byte_of(w, 4 * j + l) | (v >> 3 * l & 7u) << 8;
            eighths(table[copies * index], v >> 15, q + 2 * l);
        }
    }
    MEMBER void scales(const uint32_t *w, uint32_t *s) {
#pragma unroll
        for (int i = 0; i < 2; i++) {
            uint32_t a = w[8 + 2 * i] >> 12 & 0x00070007u, b = w[9 + 2 * i] >> 12 & 0x00070007u;
            s[i] = odd_scales(permute(a, b, 0x6420u));
        }
    }
    MEMBER float d(const uint32_t *w) { return f16_of(w, 48); }
};

struct rows_iq1_m {
    GROUP(56, 256, 256, 16, 0, 0)
    static __device__ __host__ constexpr int free_after(int c) { return 7; }
    GRID32(iq1s_grid, 2048, 2)
    NO_MINS LAST(0.125f)
    MEMBER void decode(const uint32_t *w, int j, uint32_t *q, const uint32_t *table) {
        uint32_t v = half_of(w, 32 + 2 * j);
#pragma unroll
        for (int l = 0; l < 4; l++) {
            uint32_t high = v >> 4 * l & 15u;
            eighths(table[copies * (byte_of(w, 4 * j + l) | (high & 7u) << 8)], high >> 3, q + 2 * l);
        }
    }
    MEMBER void scales(const uint32_t *w, uint32_t *s) {
#pragma unroll
        for (int i = 0; i < 4; i++) {
            uint32_t v = half_of(w, 48 + 2 * i);
            s[i] = odd_scales((v & 7u) | (v << 5 & 0x700u) | (v << 10 & 0x70000u) |
                              (v << 15 & 0x7000000u));
        }
    }
    MEMBER float d(const uint32_t *w) {
        uint32_t bits = (w[12] >> 12 & 15u) | (w[12] >> 28) << 4 | (w[13] >> 12 & 15u) << 8 |
                        (w[13] >> 28) << 12;
        return f16_value(bits);
    }
};

#endif /* OPREG_SM90_ROWS32_FORMATS_CUH */
