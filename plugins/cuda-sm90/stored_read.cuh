/* SPDX-License-Identifier: MIT
 * stored_read.cuh - one row's group from stored blocks in shared memory to registers, in the order in
 * which the formats of rows32_formats.cuh read them. */
#ifndef OPREG_SM90_STORED_READ_CUH
#define OPREG_SM90_STORED_READ_CUH

#include "rows32_load.cuh"
#include "stored_args.h"

/* ---- where a byte of a group is stored ------------------------------------------------------- */

template <uint32_t id> struct stored_fields;
#define FIELDS(...) {__VA_ARGS__}
#define PREPARED_FORMAT(NAME, bytes_, values_, blocks_, fields_, offsets_, lengths_)               \
    template <> struct stored_fields<OPREG_##NAME> {                                               \
        static __device__ constexpr int from(int p) { /* byte p of the reordered group */          \
            const int offset[] = offsets_, length[] = lengths_;                                    \
            int base = 0;                                                                          \
            for (int f = 0; f < fields_; f++) {                                                    \
                int within = p - base;                                                             \
                if (within < length[f] * blocks_) {                                                \
                    return within / length[f] * bytes_ + offset[f] + within % length[f];           \
                }                                                                                  \
                base += length[f] * blocks_;                                                       \
            }                                                                                      \
            return -1;                                                                             \
        }                                                                                          \
    };
#include "prepared_formats.inc"
#undef PREPARED_FORMAT
#undef FIELDS

template <class F> struct stored_bytes;
#define ROWS32_UNIT32(NAME, name, ...)                                                             \
    template <> struct stored_bytes<rows_##name> : stored_fields<OPREG_##NAME> {};
#define ROWS32_UNIT256(NAME, name, ...) ROWS32_UNIT32(NAME, name)
#include "rows32_list.inc"
#undef ROWS32_UNIT32
#undef ROWS32_UNIT256

/* ---- words ----------------------------------------------------------------------------------- */

/* Four bytes from stored byte `at` of words that begin with stored byte 0. */
template <int at> MEMBER uint32_t stored_word(const uint32_t *v) {
    if constexpr (at % 4 == 0) {
        return v[at / 4];
    } else {
        return __funnelshift_r(v[at / 4], v[at / 4 + 1], 8 * (at % 4));
    }
}

/* Words i and on of the reordered group, of a group that begins with a whole word. */
template <class F, int i> MEMBER void take_words(const uint32_t *v, uint32_t *w) {
    if constexpr (i < ROWS32_WORDS(F)) {
        typedef stored_bytes<F> from;
        constexpr int a = from::from(4 * i), b = from::from(4 * i + 1), c = from::from(4 * i + 2),
                      d = from::from(4 * i + 3);
        if constexpr (b == a + 1 && c == a + 2 && d == a + 3) {
            w[i] = stored_word<a>(v);
        } else if constexpr (b == a + 1 && d == c + 1 && a % 2 == 0 && c % 2 == 0) {
            w[i] = permute(v[a / 4], v[c / 4], (a % 4 ? 0x32u : 0x10u) | (c % 4 ? 0x7600u : 0x5400u));
        } else {
            w[i] = permute(permute(v[a / 4], v[b / 4], a % 4 | (4 + b % 4) << 4),
                           permute(v[c / 4], v[d / 4], c % 4 | (4 + d % 4) << 4), 0x5410u);
        }
        take_words<F, i + 1>(v, w);
    }
}

/* The row's group at `at` in shared memory, which is aligned to STORED_ALIGN(F::bytes). */
template <class F> DEVICE void read_stored(const uint8_t *at, uint32_t *w) {
    constexpr int align = STORED_ALIGN(F::bytes), words = F::bytes / 4;
    typedef stored_bytes<F> from;
    if constexpr (align >= 4) {
        uint32_t v[words + 1];
        v[words] = 0u;
#pragma unroll
        for (int i = 0; i < words; i += align / 4) {
            if constexpr (align == 16) {
                uint4 q = *(const uint4 *)(at + 4 * i);
                v[i] = q.x, v[i + 1] = q.y, v[i + 2] = q.z, v[i + 3] = q.w;
            } else if constexpr (align == 8) {
                uint2 q = *(const uint2 *)(at + 4 * i);
                v[i] = q.x, v[i + 1] = q.y;
            } else {
                v[i] = *(const uint32_t *)(at + 4 * i);
            }
        }
        take_words<F, 0>(v, w);
    } else { /* whole words but for the last half, which may be stored ahead of them */
        constexpr int first = from::from(0), last = from::from(F::bytes - 2);
        constexpr int pairs = (words + 3) / 2;
        uint32_t place = (uint32_t)(uintptr_t)(at + first), v[2 * pairs];
        const uint2 *begin = (const uint2 *)((uintptr_t)(at + first) & ~(uintptr_t)7);
        static_assert(from::from(4 * words - 1) == first + 4 * words - 1, "in order");
#pragma unroll
        for (int i = 0; i < pairs; i++) { /* pairs have half the bank conflicts of words */
            uint2 q = begin[i];
            v[2 * i] = q.x, v[2 * i + 1] = q.y;
        }
        if (wave_ballot((place & 4u) != 0u) != 0u) {
#pragma unroll
            for (int i = 0; i <= words; i++) {
                v[i] = (place & 4u) != 0u ? v[i + 1] : v[i];
            }
        }
        if (wave_ballot((place & 2u) != 0u) != 0u) {
#pragma unroll
            for (int i = 0; i < words; i++) {
                v[i] = __funnelshift_r(v[i], v[i + 1], place << 3 & 16u);
            }
        }
#pragma unroll
        for (int i = 0; i < words; i++) {
            w[i] = v[i];
        }
        w[words] = *(const uint16_t *)(at + last);
    }
}

#endif /* OPREG_SM90_STORED_READ_CUH */
