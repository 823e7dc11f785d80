/* SPDX-License-Identifier: MIT
 * rows32_load.cuh - one row's group of the layout rows32 to registers, lane = row, from global or
 * shared memory; a format's table in shared memory; where outputs go. */
#ifndef OPREG_SM90_ROWS32_LOAD_CUH
#define OPREG_SM90_ROWS32_LOAD_CUH

#include "rows32_args.h"
#include "rows32_formats.cuh"

#define ROWS32_WORDS(F) ((F::bytes + 3) / 4)

/* Whether a row with so many values from a group on has the group's unit j. */
template <class F> DEVICE bool has_unit(uint32_t left, uint32_t j) {
    return F::unit == 256 || 32u * j < left;
}

/* Piece c of 16 bytes of this row's group; group is the tile's. */
DEVICE void load_piece(const uint8_t *group, uint32_t lane, int c, uint32_t *w) {
    uint4 v = __ldcs((const uint4 *)(group + c * 512) + lane);
    w[4 * c] = v.x;
    w[4 * c + 1] = v.y;
    w[4 * c + 2] = v.z;
    w[4 * c + 3] = v.w;
}

/* The pieces of 8, 4, 2 and 1 bytes. */
template <class F> DEVICE void load_rest(const uint8_t *group, uint32_t lane, uint32_t *w) {
    constexpr int at8 = F::bytes / 16 * 16, at4 = at8 + (F::bytes & 8);
    constexpr int at2 = at4 + (F::bytes & 4), at1 = at2 + (F::bytes & 2);
    if (F::bytes & 8) {
        uint2 v = __ldcs((const uint2 *)(group + at8 * 32) + lane);
        w[at8 / 4] = v.x;
        w[at8 / 4 + 1] = v.y;
    }
    if (F::bytes & 4) {
        w[at4 / 4] = __ldcs((const uint32_t *)(group + at4 * 32) + lane);
    }
    if (F::bytes & 2) {
        w[at2 / 4] = __ldcs((const uint16_t *)(group + at2 * 32) + lane);
    }
    if (F::bytes & 1) {
        uint32_t v = __ldcs((const uint8_t *)(group + at1 * 32) + lane);
        w[at1 / 4] = at1 % 4 ? w[at1 / 4] | v << 8 * (at1 % 4) : v;
    }
}

template <class F> DEVICE void load_group(const uint8_t *group, uint32_t lane, uint32_t *w) {
#pragma unroll
    for (int c = 0; c < F::bytes / 16; c++) {
        load_piece(group, lane, c, w);
    }
    load_rest<F>(group, lane, w);
}

/* The next group takes the registers of this one as they become free: after the 32 weights j, and
 * the rest at the end.  next is null where there is none. */
template <class F>
DEVICE void load_freed(const uint8_t *next, uint32_t lane, int j, uint32_t *w) {
    if (next != 0) {
#pragma unroll
        for (int c = 0; c < F::bytes / 16; c++) {
            if (F::free_after(c) == j && j < F::values / 32 - 1) {
                load_piece(next, lane, c, w);
            }
        }
    }
}

template <class F> DEVICE void load_others(const uint8_t *next, uint32_t lane, uint32_t *w) {
    if (next != 0) {
#pragma unroll
        for (int c = 0; c < F::bytes / 16; c++) {
            if (F::free_after(c) >= F::values / 32 - 1) {
                load_piece(next, lane, c, w);
            }
        }
        load_rest<F>(next, lane, w);
    }
}

/* The same from shared memory, and for any row; words that are not used are not read. */
template <class F> DEVICE void read_group(const uint8_t *group, uint32_t row, uint32_t *w) {
    constexpr int at8 = F::bytes / 16 * 16, at4 = at8 + (F::bytes & 8);
    constexpr int at2 = at4 + (F::bytes & 4);
    static_assert(F::bytes % 2 == 0, "a row ends in two bytes at the least");
#pragma unroll
    for (int c = 0; c < F::bytes / 16; c++) {
        uint4 v = *((const uint4 *)(group + c * 512) + row);
        w[4 * c] = v.x;
        w[4 * c + 1] = v.y;
        w[4 * c + 2] = v.z;
        w[4 * c + 3] = v.w;
    }
    if (F::bytes & 8) {
        uint2 v = *((const uint2 *)(group + at8 * 32) + row);
        w[at8 / 4] = v.x;
        w[at8 / 4 + 1] = v.y;
    }
    if (F::bytes & 4) {
        w[at4 / 4] = *((const uint32_t *)(group + at4 * 32) + row);
    }
    if (F::bytes & 2) {
        w[at2 / 4] = *((const uint16_t *)(group + at2 * 32) + row);
    }
}

/* ---- tables --------------------------------------------------------------------------------------- */

/* Fills the format's table; the whole block. */
template <class F> DEVICE void fill_table(uint32_t *table) {
    if constexpr (F::table_words != 0) {
        constexpr int words = F::entry_words * F::copies; /* of one entry: pairs in either width     */
#pragma unroll 4
        for (uint32_t i = thread_index(); i < F::entries; i += thread_count()) {
            uint2 row = F::entry_at((int)i);
#pragma unroll
            for (int c = 0; c < words / 2; c++) {
                ((uint2 *)(table + words * i))[c] = row;
            }
        }
        __syncthreads();
    }
}

/* The lane's copy of it. */
template <class F> DEVICE const uint32_t *lane_table(const uint32_t *table) {
    return table + F::entry_words * (lane_index() % F::copies);
}

/* ---- tiles and outputs ------------------------------------------------------------------------------ */

template <class F>
DEVICE const uint8_t *tile_of(const matmul_args &a, int which, int64_t expert, uint32_t tile) {
    return a.data[which] + expert * a.expert_stride[which] + (int64_t)tile * 32 * a.row_bytes;
}

/* Where an output row of the block's tile goes. */
DEVICE void store_output(const matmul_args &a, int64_t row, int64_t n, float value) {
    canonical_store(a.y, row * a.y_stride + n, a.y_dtype, value);
}

/* Accumulators of one wave for one output, where wave v has the groups v, v + WAVES, .. */
template <class F, int WAVES> struct owned {
    static const int count = F::unit == 256 ? 32 / WAVES : 4;
    static const int stored = F::unit == 256 ? WAVES : 32; /* values a block's tree begins with       */
};

/* The tree over what the waves stored: index l of `stored` values, 32 * COLS floats apart. */
template <int stored> DEVICE float finish_tree(const float *values, uint32_t apart) {
    float v[stored];
#pragma unroll
    for (int l = 0; l < stored; l++) {
        v[l] = values[l * apart];
    }
#pragma unroll
    for (int step = 0; step < 5; step++) {
        constexpr int half = stored / 2;
#pragma unroll
        for (int l = 0; l < half; l++) {
            if (l < half >> step) {
                v[l] = v[l] + v[l + (half >> step)];
            }
        }
    }
    return v[0];
}

#endif /* OPREG_SM90_ROWS32_LOAD_CUH */
