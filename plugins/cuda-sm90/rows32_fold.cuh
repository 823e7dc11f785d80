/* SPDX-License-Identifier: MIT
 * rows32_fold.cuh - weights times their integer sub-scales as signed or unsigned bytes, so that a whole
 * superblock is one sum on tensor cores: n = factor * (sum of high bytes) + (sum of low bytes).
 *
 * folded<F>: parts 1 (low only) or 2; factor; is_signed; make(q, s, high, low): four weights as
 * F::decode gives them, their sub-scale.  All products are exact. */
#ifndef OPREG_SM90_ROWS32_FOLD_CUH
#define OPREG_SM90_ROWS32_FOLD_CUH

#include "rows32_formats.cuh"

#define FOLDED(parts_, factor_, is_signed_)                                                        \
    static const int parts = parts_, factor = factor_;                                             \
    static const bool is_signed = is_signed_;

template <class F> struct folded;

/* Up to 31 times 63: three bits of the scale at a time. */
struct folded_unsigned {
    FOLDED(2, 8, false)
    MEMBER void make(uint32_t q, int32_t s, uint32_t *high, uint32_t *low) {
        *high = q * (uint32_t)(s >> 3);
        *low = q * (uint32_t)(s & 7);
    }
};
template <> struct folded<rows_q4_k> : folded_unsigned {};
template <> struct folded<rows_q5_k> : folded_unsigned {};

/* Up to 3 times 15. */
template <> struct folded<rows_q2_k> {
    FOLDED(1, 1, true)
    MEMBER void make(uint32_t q, int32_t s, uint32_t *high, uint32_t *low) {
        *high = 0u;
        *low = q * (uint32_t)s;
    }
};

/* -4 .. 3 times -32 .. 31: the negative fits in a signed byte. */
template <> struct folded<rows_q3_k> {
    FOLDED(1, -1, true)
    MEMBER void make(uint32_t q, int32_t s, uint32_t *high, uint32_t *low) {
        uint32_t level = (q ^ 0x80808080u) >> 5 & 0x07070707u; /* 0 .. 7 stands for -4 .. 3         */
        *high = 0u;
        *low = ((0x04040404u - level) * (uint32_t)s + 0x80808080u) ^ 0x80808080u;
    }
};

/* Any product p below 2^14 in size: 128 * floor(p / 128) + the rest.  Two products a word, 32768 more
 * than they are.  level: weights plus `zero`, unsigned bytes. */
MEMBER void fold_products(uint32_t level, uint32_t zero, int32_t s, uint32_t *high, uint32_t *low) {
    uint32_t start = (32768u - zero * (uint32_t)s) * 0x10001u;
    uint32_t even = (level & 0x00ff00ffu) * (uint32_t)s + start;
    uint32_t odd = (level >> 8 & 0x00ff00ffu) * (uint32_t)s + start;
    *low = permute(even, odd, 0x6240u) & 0x7f7f7f7fu;
    *high = permute(even >> 7, odd >> 7, 0x6240u);
}

template <> struct folded<rows_q6_k> {
    FOLDED(2, 128, true)
    MEMBER void make(uint32_t q, int32_t s, uint32_t *high, uint32_t *low) {
        fold_products((q ^ 0x80808080u) >> 2 & 0x3f3f3f3fu, 32u, s, high, low);
    }
};

/* Any signed bytes by up to 32. */
struct folded_signed {
    FOLDED(2, 128, true)
    MEMBER void make(uint32_t q, int32_t s, uint32_t *high, uint32_t *low) {
        fold_products(q ^ 0x80808080u, 128u, s, high, low);
    }
};
template <> struct folded<rows_iq4_xs> : folded_signed {};
template <> struct folded<rows_iq2_xxs> : folded_signed {};
template <> struct folded<rows_iq2_xs> : folded_signed {};
template <> struct folded<rows_iq2_s> : folded_signed {};
template <> struct folded<rows_iq3_xxs> : folded_signed {};
template <> struct folded<rows_iq3_s> : folded_signed {};
template <> struct folded<rows_iq1_s> : folded_signed {};
template <> struct folded<rows_iq1_m> : folded_signed {};

#endif /* OPREG_SM90_ROWS32_FOLD_CUH */
