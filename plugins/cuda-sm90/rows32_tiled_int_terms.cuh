/* SPDX-License-Identifier: MIT
 * rows32_tiled_int_terms.cuh - what a wave of rows32_tiled_int adds to its sums for one group of a stage: the
 * integer sums of the contract, whose terms follow one another in the order of k, each by fmaf. */
#ifndef OPREG_SM90_ROWS32_TILED_INT_TERMS_CUH
#define OPREG_SM90_ROWS32_TILED_INT_TERMS_CUH

#include "rows32_tiled_terms.cuh"

/* ---- units of 256 --------------------------------------------------------------------------------- */

/* Where products are half of the work; elsewhere turns were no faster, or slower (Q2_K, Q6_K in the canonical
 * order). */
template <class F, int SETS> static __device__ constexpr bool takes_turns() {
    if constexpr (F::unit == 256) {
        return SETS == 2 && folded<F>::parts == 2;
    } else {
        return false;
    }
}

template <class F, int SETS> DEVICE void add_group256(const tiled_part &p, float *to) {
    int32_t high[32 * SETS], low[32 * SETS];
    superblock_products<F, SETS, takes_turns<F, SETS>()>(p, high, low);
    superblock_rows r = rows_of<F>(p);
#pragma unroll
    for (int e = 0; e < 8 * SETS; e++) {
        const uint8_t *block = p.x + e * BLOCK256_BYTES;
        float2 y = *(const float2 *)(block + BLOCK256_SCALES + 8u * (lane_index() & 3u));
        float m[4];
        min_sums<F>(p, r, e, m);
#pragma unroll
        for (int i = 0; i < 4; i++) {
            int o = 4 * e + i;
            float term = r.d[i / 2] * superblock_sum<F>(high[o], low[o]);
            if constexpr (F::min_sub != 0) {
                term = __fmaf_rn(-r.dmin[i / 2], m[i], term);
            }
            to[o] = __fmaf_rn(i & 1 ? y.y : y.x, term, to[o]);
        }
    }
}

/* ---- units of 32 ------------------------------------------------------------------------------------ */

/* Products of unit j, of which only half h counts where a half has a scale of its own. */
template <class F, int SETS>
DEVICE void start_unit(const tiled_part &p, int j, int h, uint32_t *a, int32_t *dots) {
    typedef unit_words<F> words;
    const uint8_t *codes = p.tile + words::first_piece((uint32_t)j) * 512u;
    const uint8_t *rest = p.tile + words::pieces * 512;
    uint64_t b = column_descriptor(shared_address(p.x), BLOCK_PIECE, BLOCK32_BYTES);
#pragma unroll
    for (int i = 0; i < 2; i++) {
        words::get(codes, rest, p.row + 8u * (uint32_t)i, lane_index() & 3u, (uint32_t)j, &a[i],
                   &a[2 + i]);
        if (F::sub == 16) {
            a[h == 0 ? 2 + i : i] = 0u;
        }
    }
    warpgroup_fence();
    columns_mma<true, SETS>(dots, a, b + (uint64_t)(j * 2 * BLOCK_PIECE / 16), 0);
    warpgroup_commit();
}

template <class F, int SETS>
DEVICE void add_unit(const tiled_part &p, uint32_t dialect, int j, int h, const int32_t *dots,
                     float *to) {
    typedef unit_words<F> words;
    float d[2], xm[2];
#pragma unroll
    for (int i = 0; i < 2; i++) {
        uint32_t w[4 * ROWS32_WORDS(F)] = {};
        words::scales(p.tile + words::pieces * 512, p.row + 8u * (uint32_t)i, (uint32_t)j, w);
        d[i] = F::scale(w, 0, h, dialect) * (1.0f / (float)(1 << F::shift));
        if constexpr (F::min_sub != 0) {
            xm[i] = F::min(w, 0);
        }
    }
#pragma unroll
    for (int e = 0; e < 8 * SETS; e++) {
        const uint8_t *block = p.x + e * BLOCK32_BYTES + 32 * j + 8u * (lane_index() & 3u);
        float2 y = *(const float2 *)(block + BLOCK32_SCALES);
        float2 sum = make_float2(0.0f, 0.0f);
        if constexpr (F::min_sub != 0) {
            sum = *(const float2 *)(block + BLOCK32_SUMS);
            sum = make_float2(y.x * sum.x, y.y * sum.y);
        }
#pragma unroll
        for (int i = 0; i < 4; i++) {
            int o = 4 * e + i;
            to[o] = __fmaf_rn(d[i / 2], (i & 1 ? y.y : y.x) * (float)dots[o], to[o]);
            if constexpr (F::min_sub != 0) {
                to[o] = __fmaf_rn(xm[i / 2], i & 1 ? sum.y : sum.x, to[o]);
            }
        }
    }
}

/* The products of one unit run beside the terms of the unit before. */
template <class F, int SETS>
DEVICE void add_group32(const tiled_part &p, uint32_t dialect, float *to) {
    constexpr int halves = 32 / F::sub, count = 4 * halves;
    int32_t dots[2][32 * SETS];
    uint32_t a[2][4];
    start_unit<F, SETS>(p, 0, 0, a[0], dots[0]);
#pragma unroll
    for (int i = 0; i < count; i++) {
        if (i + 1 < count) {
            start_unit<F, SETS>(p, (i + 1) / halves, (i + 1) % halves, a[(i + 1) % 2],
                                dots[(i + 1) % 2]);
            warpgroup_wait<1>();
        } else {
            warpgroup_wait<0>();
        }
        outputs_ready<32 * SETS>(dots[i % 2]);
        add_unit<F, SETS>(p, dialect, i / halves, i % halves, dots[i % 2], to);
    }
}

template <class F, int SETS>
DEVICE void add_group(const tiled_part &p, uint32_t dialect, float *to) {
    if constexpr (F::unit == 256) {
        add_group256<F, SETS>(p, to);
    } else {
        add_group32<F, SETS>(p, dialect, to);
    }
}

#endif /* OPREG_SM90_ROWS32_TILED_INT_TERMS_CUH */
