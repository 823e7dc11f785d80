/* SPDX-License-Identifier: MIT
 * rows32_tiled_terms.cuh - what a wave of rows32_tiled makes of one superblock of a stage: 16 rows by all
 * columns, products of its warpgroup.  No product runs across a branch: the compiler would let them
 * run one by one. */
#ifndef OPREG_SM90_ROWS32_TILED_TERMS_CUH
#define OPREG_SM90_ROWS32_TILED_TERMS_CUH

#include "rows32_fold.cuh"
#include "rows32_tiled_copies.cuh"
#include "rows32_tiled_outputs.cuh"
#include "warpgroup.cuh"

template <bool is_signed, int SETS>
DEVICE void columns_mma(int32_t *d, const uint32_t *a, uint64_t b, int add) {
    if constexpr (SETS == 1) {
        is_signed ? warpgroup_mma_signed(d, a, b, add) : warpgroup_mma_unsigned(d, a, b, add);
    } else {
        is_signed ? warpgroup_mma128_signed(d, a, b, add) : warpgroup_mma128_unsigned(d, a, b, add);
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

/* The sums of a superblock's high and low bytes.  turns: with the other warpgroup. */
template <class F, int SETS, bool turns>
DEVICE void superblock_products(const tiled_part &part, int32_t *high, int32_t *low) {
    typedef folded<F> fold;
    tiled_products<F> p = products_of<F>(part);
#pragma unroll
    for (int j = 0; j < 8; j += 2) {
        uint32_t a_high[2][4], a_low[2][4];
        folded_fragments<F>(p, j, a_high[0], a_low[0]);
        folded_fragments<F>(p, j + 1, a_high[1], a_low[1]);
        if (turns && j == 0) {
            wait_for_turn();
        }
        warpgroup_fence();
#pragma unroll
        for (int i = 0; i < 2; i++) {
            uint64_t at = p.b + (uint64_t)((j + i) * 2 * BLOCK_PIECE / 16);
            columns_mma<fold::is_signed, SETS>(low, a_low[i], at, j + i > 0);
            if constexpr (fold::parts == 2) {
                columns_mma<fold::is_signed, SETS>(high, a_high[i], at, j + i > 0);
            }
        }
        warpgroup_commit();
        if (turns && j == 6) {
            pass_turn();
        }
        if (j < 6) {
            warpgroup_wait<1>(); /* the operands before these are free again */
        }
    }
    warpgroup_wait<0>();
    outputs_ready<32 * SETS>(low);
    if constexpr (fold::parts == 2) {
        outputs_ready<32 * SETS>(high);
    }
}

/* Its sum in f32. */
template <class F> DEVICE float superblock_sum(int32_t high, int32_t low) {
    typedef folded<F> fold;
    return (float)(fold::parts == 2 ? fold::factor * high + low : fold::factor * low);
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

/* The sums of mins of outputs 4e .. 4e + 3. */
template <class F> DEVICE void min_sums(const tiled_part &p, const superblock_rows &r, int e, float *m) {
    if constexpr (F::min_sub != 0) {
        uint32_t sums[2], from = shared_address(p.x) + (uint32_t)e * BLOCK256_BYTES + BLOCK256_SUMS;
        load_matrix2(sums, from + (lane_index() & 15u) * 16u);
        mma_halves(m, r.mins, sums[0], sums[1]);
    }
}

/* Adds the terms of one superblock. */
template <class F> DEVICE void add_superblock(const tiled_part &p, tiled_outputs *to) {
    int32_t high[32], low[32];
    superblock_products<F, 1, false>(p, high, low);
    superblock_rows r = rows_of<F>(p);
#pragma unroll
    for (int e = 0; e < 8; e++) {
        const uint8_t *block = p.x + e * BLOCK256_BYTES;
        float2 y = *(const float2 *)(block + BLOCK256_SCALES + 8u * (lane_index() & 3u));
        float m[4];
        min_sums<F>(p, r, e, m);
#pragma unroll
        for (int i = 0; i < 4; i++) {
            int o = 4 * e + i;
            float yd = i & 1 ? y.y : y.x;
            float term = r.d[i / 2] * yd * superblock_sum<F>(high[o], low[o]);
            if constexpr (F::min_sub != 0) {
                term = term - r.dmin[i / 2] * yd * m[i];
            }
            to->v[o] = to->v[o] + term;
        }
    }
}

#endif /* OPREG_SM90_ROWS32_TILED_TERMS_CUH */
