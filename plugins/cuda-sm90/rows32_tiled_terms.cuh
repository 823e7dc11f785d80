/* SPDX-License-Identifier: MIT
 * rows32_tiled_terms.cuh - what a wave of rows32_tiled makes of one unit of a stage: 16 rows by 64
 * columns, products of its warpgroup.  No product runs across a branch: the compiler would let them
 * run one by one. */
#ifndef OPREG_SM90_ROWS32_TILED_TERMS_CUH
#define OPREG_SM90_ROWS32_TILED_TERMS_CUH

#include "rows32_fold.cuh"
#include "rows32_tiled_copies.cuh"
#include "rows32_tiled_outputs.cuh"
#include "warpgroup.cuh"

template <class F> DEVICE void mma_folded(int32_t *d, const uint32_t *a, uint64_t b, int add) {
    if constexpr (F::is_signed) {
        warpgroup_mma_signed(d, a, b, add);
    } else {
        warpgroup_mma_unsigned(d, a, b, add);
    }
}

/* The products of a unit that is on its way: weights as the lane reads them, columns, sub-scales. */
template <class F> struct tiled_products {
    tiled_part at;
    uint64_t b;
    uint32_t scales[2][64 / F::sub];
};

template <class F> DEVICE tiled_products<F> products_of(const tiled_part &p) {
    tiled_products<F> to;
    to.at = p;
    to.b = column_descriptor(shared_address(p.x), BLOCK_PIECE, BLOCK256_BYTES);
#pragma unroll
    for (int h = 0; h < 2; h++) {
        uint32_t w[ROWS32_WORDS(F)];
        read_group<F>(p.tile, p.row + 8u * (uint32_t)h, w);
        F::scales(w, to.scales[h]);
    }
    return to;
}

/* High and low bytes of weights 32j .. 32j + 31 of the lane's rows times their sub-scales. */
template <class F>
DEVICE void folded_fragments(const tiled_products<F> &p, int j, uint32_t *high, uint32_t *low) {
#pragma unroll
    for (int h = 0; h < 2; h++) {
        uint32_t q[2];
        superblock_words<F>::get(p.at.tile, p.at.row + 8u * (uint32_t)h, lane_index() & 3u, j,
                                 p.at.table, &q[0], &q[1]);
#pragma unroll
        for (int i = 0; i < 2; i++) {
            int at = F::sub == 32 ? j : 2 * j + i;
            folded<F>::make(q[i], signed_byte(p.scales[h][at / 4], at % 4), &high[h + 2 * i],
                            &low[h + 2 * i]);
        }
    }
}

/* The integer sums of a superblock in f32. */
template <class F> DEVICE void superblock_sums(const tiled_part &part, float *n) {
    typedef folded<F> fold;
    tiled_products<F> p = products_of<F>(part);
    int32_t high[32], low[32];
#pragma unroll
    for (int j = 0; j < 8; j += 2) {
        uint32_t a_high[2][4], a_low[2][4];
        folded_fragments<F>(p, j, a_high[0], a_low[0]);
        folded_fragments<F>(p, j + 1, a_high[1], a_low[1]);
        warpgroup_fence();
#pragma unroll
        for (int i = 0; i < 2; i++) {
            uint64_t at = p.b + (uint64_t)((j + i) * 2 * BLOCK_PIECE / 16);
            mma_folded<fold>(low, a_low[i], at, j + i > 0);
            if constexpr (fold::parts == 2) {
                mma_folded<fold>(high, a_high[i], at, j + i > 0);
            }
        }
        warpgroup_commit();
        if (j < 6) {
            warpgroup_wait<1>(); /* the operands before these are free again */
        }
    }
    warpgroup_wait<0>();
    outputs_ready(low);
    if constexpr (fold::parts == 2) {
        outputs_ready(high);
    }
#pragma unroll
    for (int o = 0; o < 32; o++) {
        n[o] = (float)(fold::parts == 2 ? fold::factor * high[o] + low[o] : fold::factor * low[o]);
    }
}

/* What the terms of a superblock need beside their integer sums. */
struct superblock_rows {
    float d[2], dmin[2];
    uint32_t mins[4];
};

template <class F> DEVICE superblock_rows rows_of(const tiled_part &p) {
    superblock_rows r;
#pragma unroll
    for (int h = 0; h < 2; h++) {
        uint32_t w[ROWS32_WORDS(F)];
        read_group<F>(p.tile, p.row + 8u * (uint32_t)h, w);
        r.d[h] = F::d(w);
        if constexpr (F::min_sub != 0) {
            r.dmin[h] = F::dmin(w);
            min_halves<F>(w, lane_index() & 3u, &r.mins[h], &r.mins[2 + h]);
        }
    }
    return r;
}

/* Adds the terms of one superblock, whose sums n has. */
template <class F>
DEVICE void add_superblock(const tiled_part &p, const float *n, tiled_outputs *to) {
    superblock_rows r = rows_of<F>(p);
    uint32_t lane = lane_index(), t = lane & 3u;
#pragma unroll
    for (int e = 0; e < 8; e++) {
        const uint8_t *block = p.x + e * BLOCK256_BYTES;
        float2 y = *(const float2 *)(block + BLOCK256_SCALES + 8u * t);
        float m[4];
        if constexpr (F::min_sub != 0) {
            uint32_t sums[2];
            load_matrix2(sums, shared_address(block) + BLOCK256_SUMS + (lane & 15u) * 16u);
            mma_halves(m, r.mins, sums[0], sums[1]);
        }
#pragma unroll
        for (int i = 0; i < 4; i++) {
            float yd = i & 1 ? y.y : y.x, term = r.d[i / 2] * yd * n[4 * e + i];
            if constexpr (F::min_sub != 0) {
                term = term - r.dmin[i / 2] * yd * m[i];
            }
            to->v[4 * e + i] = to->v[4 * e + i] + term;
        }
    }
}

#endif /* OPREG_SM90_ROWS32_TILED_TERMS_CUH */
