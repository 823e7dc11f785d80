/* SPDX-License-Identifier: MIT
 * rows32_dealt_words.cuh - what rows32_dealt takes weights from: a format's table in shared memory and the
 * two words of a row that a lane has as operands.
 *
 * dealt_words<F>: order, in which a record has the words of 32 codes (X_IN_ORDER or X_HALVES);
 * table_bytes; fill(base), the whole block; start(base), a lane's; get(..) as superblock_words. */
#ifndef OPREG_SM90_ROWS32_DEALT_WORDS_CUH
#define OPREG_SM90_ROWS32_DEALT_WORDS_CUH

#include "rows32_dealt_args.h"
#include "rows32_fragments.cuh"
#include "rows32_ring_dots.cuh"

template <class F> struct dealt_words {
    static const int order = X_IN_ORDER, table_bytes = F::table_words * 4;
    const uint32_t *table;
    MEMBER void fill(uint8_t *base) { fill_table<F>((uint32_t *)base); }
    __device__ __forceinline__ void start(const uint8_t *base) {
        table = lane_table<F>((const uint32_t *)base);
    }
    __device__ __forceinline__ void get(const uint8_t *group, uint32_t row, uint32_t t, int j,
                                        uint32_t *low, uint32_t *high) const {
        superblock_words<F>::get(group, row, t, j, table, low, high);
    }
};

/* As rows_q6_k has it, but the inverted bits of a word are made once for the four runs that share it. */
template <> struct dealt_words<rows_q6_k> {
    static const int order = X_IN_ORDER, table_bytes = 0;
    MEMBER void fill(uint8_t *) {}
    __device__ __forceinline__ void start(const uint8_t *) {}
    MEMBER uint32_t word(const uint8_t *piece, int r, uint32_t low) {
        uint32_t high;
        asm("xor.b32 %0, %1, 0xaaaaaaaa;" : "=r"(high) : "r"(*(const uint32_t *)piece));
        low = (r >> 1 ? low >> 2 : low << 2) & 0x3c3c3c3cu;
        return (high << (6 - 2 * r) & 0xc0c0c0c0u) | low;
    }
    __device__ __forceinline__ void get(const uint8_t *group, uint32_t row, uint32_t t, int j,
                                        uint32_t *low, uint32_t *high) const {
        int n = j >> 2, r = j & 3;
        const uint8_t *lows = group + (4 * n + 2 * (r & 1)) * 512 + row * 16u + t * 4u;
        const uint8_t *highs = group + (8 + 2 * n) * 512 + row * 16u + t * 4u;
        *low = word(highs, r, *(const uint32_t *)lows);
        *high = word(highs + 512, r, *(const uint32_t *)(lows + 512));
    }
};

/* Tables of words in 32 copies, a bank each.  A lane takes all of an entry, so its words are 2t and
 * 2t + 1. */
template <> struct dealt_words<rows_iq2_xxs> {
    typedef rows_iq2_xxs F;
    static const int order = X_HALVES, grid = 128 * 128;
    static const int table_bytes = DEALT_TABLE_IQ2_XXS;
    uint32_t own, levels[2], shift;
    MEMBER void fill(uint8_t *base) {
        fill_words<even_sign_nibbles, 128, 32>(base);
        fill_words<grid_nibbles<F>, 256, 32>(base + grid);
    }
    __device__ __forceinline__ void start(const uint8_t *base) {
        own = lane_address(base, lane_index());
        levels[0] = kept(0x002b1908u), levels[1] = kept(0x00d5e7f8u), shift = kept(65536u);
    }
    __device__ __forceinline__ void get(const uint8_t *group, uint32_t row, uint32_t t, int j,
                                        uint32_t *low, uint32_t *high) const {
        uint2 v = two_words(group, row, 2 * j);
        uint32_t p = word_at<grid>(permute(v.x, 0u, 0x4440u + t) * 128u + own) +
                     word_at<0>((v.y >> 7u * t & 127u) * 128u + own);
        *low = permute_signs(levels[0], levels[1], p);
        *high = permute_signs(levels[0], levels[1], upper_half(p, shift));
    }
};

template <> struct dealt_words<rows_iq3_s> {
    typedef rows_iq3_s F;
    static const int order = X_HALVES, table_bytes = DEALT_TABLE_IQ3_S;
    uint32_t own;
    MEMBER void fill(uint8_t *base) { fill_words<grid_words<F>, 512, 32>(base); }
    __device__ __forceinline__ void start(const uint8_t *base) {
        own = lane_address(base, lane_index());
    }
    __device__ __forceinline__ void get(const uint8_t *group, uint32_t row, uint32_t t, int j,
                                        uint32_t *low, uint32_t *high) const {
        uint2 v = two_words(group, row, 2 * j);
        uint32_t more = one_word<F>(group, row, 16 + j / 4) >> 8 * (j & 3) >> 2u * t;
        uint32_t signs = one_word<F>(group, row, 18 + j) >> 8u * t;
        uint32_t two = permute(v.x, v.y, 2u * t | (2u * t + 1u) << 4);
        uint32_t first = word_at<0>(((two & 255u) | (more & 1u) << 8) * 128u + own);
        uint32_t second = word_at<0>(((two >> 8 & 255u) | (more & 2u) << 7) * 128u + own);
        *low = negate_bytes(first, sign_bytes(signs & 15u));
        *high = negate_bytes(second, sign_bytes(signs >> 4 & 15u));
    }
};

#endif /* OPREG_SM90_ROWS32_DEALT_WORDS_CUH */
