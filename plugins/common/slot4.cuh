/* SPDX-License-Identifier: MIT
 * slot4.cuh - the layout slot4 on the device: to it, back from it, and its baselines. */
#ifndef OPREG_PLUGINS_SLOT4_CUH
#define OPREG_PLUGINS_SLOT4_CUH

#include "baseline_matmul.cuh"
#include "slot4.h"

#include "formats/iq2_s.h"
#include "formats/iq3_s.h"
#include "formats/iq3_xxs.h"

/* What a format says of itself: the code of a weight and its level; how many grid rows eight
 * weights have, the key of one row's ranks, and the grid's row of a key (its inverse). */
struct iq3_s_codes {
    static const int rows = 2, keys = 4096, entries = 512;
    DEVICE_MEMBER uint32_t rank(uint32_t magnitude) { return (magnitude - 1u) >> 1; }
    DEVICE_MEMBER uint32_t code(uint32_t rank, uint32_t sign) {
        return sign != 0u ? 7u - rank : 8u + rank;
    }
    DEVICE_MEMBER int32_t level(uint32_t code) { return 2 * (int32_t)code - 15; }
    DEVICE_MEMBER uint32_t sign_of(uint32_t code) { return code < 8u ? 1u : 0u; }
    DEVICE_MEMBER uint32_t rank_of(uint32_t code) { return code < 8u ? 7u - code : code - 8u; }
    DEVICE_MEMBER uint32_t key(const uint32_t *ranks) {
        return ranks[0] | ranks[1] << 3 | ranks[2] << 6 | ranks[3] << 9;
    }
    DEVICE_MEMBER uint64_t entry(uint32_t i) { return iq3s_grid[i]; }
};

struct iq3_xxs_codes {
    static const int rows = 2, keys = 4096, entries = 256;
    DEVICE_MEMBER uint32_t rank(uint32_t magnitude) { return (magnitude - 4u) >> 3; }
    DEVICE_MEMBER uint32_t code(uint32_t rank, uint32_t sign) { return rank | sign << 3; }
    DEVICE_MEMBER uint32_t sign_of(uint32_t code) { return code >> 3; }
    DEVICE_MEMBER uint32_t rank_of(uint32_t code) { return code & 7u; }
    DEVICE_MEMBER int32_t level(uint32_t code) {
        int32_t rank = (int32_t)(code & 7u), magnitude = rank == 7 ? 62 : 8 * rank + 4;
        return code >> 3 ? -magnitude : magnitude;
    }
    DEVICE_MEMBER uint32_t key(const uint32_t *ranks) { return iq3_s_codes::key(ranks); }
    DEVICE_MEMBER uint64_t entry(uint32_t i) { return iq3xxs_grid[i]; }
};

struct iq2_s_codes {
    static const int rows = 1, keys = 6561, entries = 1024; /* three ranks, eight weights */
    DEVICE_MEMBER uint32_t rank(uint32_t magnitude) {
        return (magnitude > 8u ? 1u : 0u) + (magnitude > 25u ? 1u : 0u);
    }
    DEVICE_MEMBER uint32_t code(uint32_t rank, uint32_t sign) {
        return sign != 0u ? 2u - rank : 3u + rank;
    }
    DEVICE_MEMBER uint32_t sign_of(uint32_t code) { return code < 3u ? 1u : 0u; }
    DEVICE_MEMBER uint32_t rank_of(uint32_t code) { return code < 3u ? 2u - code : code - 3u; }
    DEVICE_MEMBER int32_t level(uint32_t code) {
        const uint32_t rank = rank_of(code);
        const int32_t magnitude = rank == 0u ? 8 : rank == 1u ? 25 : 43;
        return code < 3u ? -magnitude : magnitude;
    }
    DEVICE_MEMBER uint32_t key(const uint32_t *ranks) {
        uint32_t key = 0;
        for (int i = 7; i >= 0; i--) {
            key = 3u * key + ranks[i];
        }
        return key;
    }
    DEVICE_MEMBER uint64_t entry(uint32_t i) { return iq2s_grid[i]; }
};

/* Bit of weight i of a word's eight. */
DEVICE uint32_t slot4_shift(uint32_t i) {
    return 16u * (i & 1u) + 4u * (i >> 1);
}

DEVICE uint32_t slot4_code(const uint8_t *block, uint32_t i) {
    const uint32_t *word = (const uint32_t *)(block + 4u * (i / 8u));
    return *word >> slot4_shift(i % 8u) & 15u;
}

DEVICE uint32_t slot4_scale(const uint8_t *block, uint32_t sixteen) {
    return block[SLOT4_SCALES + sixteen / 2u] >> 4u * (sixteen & 1u) & 15u;
}

/* ---- stored to slots: one thread has 32 weights
 * ------------------------------------------------ */

#define SLOT4_PACK_KERNEL(name, bytes)                                                             \
    KERNEL KERNEL_THREADS(SLOT4_THREADS) slot4_pack_##name(const slot4_args a) {                   \
        const int64_t all = a.rows * a.blocks * 8, step = (int64_t)grid_x() * SLOT4_THREADS;       \
        for (int64_t at = (int64_t)block_x() * SLOT4_THREADS + thread_index(); at < all;           \
             at += step) {                                                                         \
            const int part = (int)(at % 8);                                                        \
            const int64_t row = at / 8 / a.blocks, block = at / 8 % a.blocks;                      \
            const uint8_t *from =                                                                  \
                a.stored + row / a.n * a.stored_stride + (row % a.n * a.blocks + block) * bytes;   \
            uint8_t *to = a.slots + (row * a.blocks + block) * SLOT4_BYTES;                        \
            for (int k = 4 * part; k < 4 * part + 4; k++) {                                        \
                const uint64_t magnitudes = name##_row(from, k);                                   \
                const uint32_t signs = name##_signs(from, k);                                      \
                uint32_t word = 0;                                                                 \
                for (uint32_t i = 0; i < 8u; i++) {                                                \
                    uint32_t rank = name##_codes::rank((uint32_t)(magnitudes >> 8u * i) & 255u);   \
                    word |= name##_codes::code(rank, signs >> i & 1u) << slot4_shift(i);           \
                }                                                                                  \
                *(uint32_t *)(to + 4 * k) = word;                                                  \
            }                                                                                      \
            to[SLOT4_SCALES + part] =                                                              \
                (uint8_t)(name##_scale(from, 4 * part) | name##_scale(from, 4 * part + 2) << 4);   \
            if (part == 0) {                                                                       \
                to[SLOT4_D] = from[0];                                                             \
                to[SLOT4_D + 1] = from[1];                                                         \
            } else if (part < 7) {                                                                 \
                to[SLOT4_BYTES - 7 + part] = 0;                                                    \
            }                                                                                      \
        }                                                                                          \
    }

/* ---- and back: one thread has a block, whose stored bytes were zeroed
 * ------------------------- */

DEVICE void unpack_group(uint8_t *to, uint32_t k, const uint32_t *index, uint32_t signs,
                         uint32_t scale, iq3_s_codes) {
    to[2u + 2u * k] = (uint8_t)index[0];
    to[3u + 2u * k] = (uint8_t)index[1];
    to[66u + k / 4u] |= (uint8_t)((index[0] >> 8 | index[1] >> 8 << 1) << 2u * (k & 3u));
    to[74u + k] = (uint8_t)signs;
    if ((k & 3u) == 0u) {
        to[106u + k / 8u] |= (uint8_t)(scale << 4u * (k / 4u & 1u));
    }
}

DEVICE void unpack_group(uint8_t *to, uint32_t k, const uint32_t *index, uint32_t signs,
                         uint32_t scale, iq3_xxs_codes) {
    uint8_t *word = to + 66u + 4u * (k / 4u);
    const uint32_t bits = (signs & 127u) << 7u * (k & 3u) | ((k & 3u) == 0u ? scale << 28 : 0u);
    to[2u + 2u * k] = (uint8_t)index[0];
    to[3u + 2u * k] = (uint8_t)index[1];
    for (uint32_t i = 0; i < 4u; i++) {
        word[i] |= (uint8_t)(bits >> 8u * i);
    }
}

DEVICE void unpack_group(uint8_t *to, uint32_t k, const uint32_t *index, uint32_t signs,
                         uint32_t scale, iq2_s_codes) {
    to[2u + k] = (uint8_t)index[0];
    to[34u + k] = (uint8_t)signs;
    to[66u + k / 4u] |= (uint8_t)(index[0] >> 8 << 2u * (k & 3u));
    if ((k & 1u) == 0u) {
        to[74u + k / 4u] |= (uint8_t)(scale << 4u * (k / 2u & 1u));
    }
}

template <class C> DEVICE void fill_inverse(uint16_t *inverse) {
    for (uint32_t e = thread_index(); e < (uint32_t)C::entries; e += SLOT4_THREADS) {
        uint32_t ranks[8];
        for (uint32_t i = 0; i < 8u / C::rows; i++) {
            ranks[i] = C::rank((uint32_t)(C::entry(e) >> 8u * i) & 255u);
        }
        inverse[C::key(ranks)] = (uint16_t)e;
    }
    block_barrier();
}

template <class C>
DEVICE void unpack_block(const uint8_t *from, uint8_t *to, uint32_t bytes,
                         const uint16_t *inverse) {
    for (uint32_t i = 0; i < bytes; i++) {
        to[i] = i < 2u ? from[SLOT4_D + i] : (uint8_t)0;
    }
    for (uint32_t k = 0; k < 32u; k++) {
        uint32_t ranks[8], index[2] = {0u, 0u}, signs = 0;
        for (uint32_t i = 0; i < 8u; i++) {
            uint32_t code = slot4_code(from, 8u * k + i);
            ranks[i] = C::rank_of(code);
            signs |= C::sign_of(code) << i;
        }
        for (uint32_t i = 0; i < (uint32_t)C::rows; i++) {
            index[i] = inverse[C::key(ranks + 4u * i)];
        }
        unpack_group(to, k, index, signs, slot4_scale(from, k / 2u), C());
    }
}

#define SLOT4_UNPACK_KERNEL(name, bytes)                                                           \
    KERNEL KERNEL_THREADS(SLOT4_THREADS) slot4_unpack_##name(const slot4_args a) {                 \
        __shared__ uint16_t inverse[name##_codes::keys];                                           \
        const int64_t all = a.rows * a.blocks, step = (int64_t)grid_x() * SLOT4_THREADS;           \
        fill_inverse<name##_codes>(inverse);                                                       \
        for (int64_t at = (int64_t)block_x() * SLOT4_THREADS + thread_index(); at < all;           \
             at += step) {                                                                         \
            const int64_t row = at / a.blocks, block = at % a.blocks;                              \
            unpack_block<name##_codes>(a.slots + at * SLOT4_BYTES,                                 \
                                       a.stored + row / a.n * a.stored_stride +                    \
                                           (row % a.n * a.blocks + block) * bytes,                 \
                                       bytes, inverse);                                            \
        }                                                                                          \
    }

/* ---- the baselines
 * ---------------------------------------------------------------------------- */

/* A unit's integer sum over its codes. */
template <class C> DEVICE int32_t slot4_sum(const uint8_t *block, const int8_t *q) {
    int32_t n = 0;
    for (uint32_t sixteen = 0; sixteen < 16u; sixteen++) {
        int32_t dot = 0;
        for (uint32_t i = 16u * sixteen; i < 16u * sixteen + 16u; i++) {
            dot += C::level(slot4_code(block, i)) * q[i];
        }
        n += (int32_t)(2u * slot4_scale(block, sixteen) + 1u) * dot;
    }
    return n;
}

#define SLOT4_BASELINE_KERNEL(name, final_)                                                        \
    struct slot4_##name##_format {                                                                 \
        static const int values = SLOT4_VALUES, bytes = SLOT4_BYTES, unit = SLOT4_VALUES;          \
        DEVICE_MEMBER float last(float sum) { return (final_) == 1.0f ? sum : sum * (final_); }    \
        DEVICE_MEMBER void sums(const uint8_t *block, int, const int8_t *q, const int16_t *,       \
                                const opreg_side *, int32_t *n) {                                  \
            n[0] = slot4_sum<name##_codes>(block, q);                                              \
        }                                                                                          \
        DEVICE_MEMBER float term(const uint8_t *block, int, const int32_t *n, float yd,            \
                                 const opreg_side *) {                                             \
            return f16_to_f32(load_u16(block + SLOT4_D)) * yd * (float)n[0];                       \
        }                                                                                          \
        DEVICE_MEMBER float dot(const matmul_args &a, const weight_row &w,                         \
                                const activation_row &x, const opreg_side *side) {                 \
            return dot_sums<slot4_##name##_format>(a, w, x, side);                                 \
        }                                                                                          \
    };                                                                                             \
    KERNEL KERNEL_THREADS(BASELINE_THREADS) slot4_base_##name(const matmul_args a) {               \
        baseline_matmul<slot4_##name##_format>(a);                                                 \
    }

#endif /* OPREG_PLUGINS_SLOT4_CUH */
