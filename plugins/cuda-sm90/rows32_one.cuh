/* SPDX-License-Identifier: MIT
 * rows32_one.cuh - one row of x against tiles of the layout rows32, in the canonical order: a lane a
 * weight row.
 *
 * A block is WAVES waves and one tile of 32 rows; wave v takes the groups v, v + WAVES, ... of the
 * rows, so it owns whole accumulators: where a group is one unit of 256, accumulators v + WAVES * i;
 * where it is four units of 32, WAVES is 8 and the wave owns 4v .. 4v + 3.  A lane reads its row's
 * group with 16-byte loads, one group ahead of use. */
#ifndef OPREG_SM90_ROWS32_ONE_CUH
#define OPREG_SM90_ROWS32_ONE_CUH

#include "rows32_dots.cuh"
#include "rows32_route.cuh"
#include "rows32_turn.cuh"
#include "rows32_x.cuh"

/* The term of a superblock that is in w; as its registers become free they take the next group's row,
 * if next is not null. */
template <class F, class D>
DEVICE float superblock_term(uint32_t *w, const uint8_t *next, uint32_t row, uint32_t u,
                             const x_shared &x, const dot_table &table) {
    int32_t n = 0, m = 0;
    uint32_t scales[4] = {0, 0, 0, 0};
    const uint4 *codes = (const uint4 *)(x.codes + u * 256u);
    F::scales(w, scales);
#pragma unroll
    for (int j = 0; j < 8; j++) {
        int32_t s0, s1;
        D::sums(w, j, codes[2 * j], codes[2 * j + 1], table, 0, &s0, &s1);
        if (F::sub == 16) {
            n += signed_byte(scales[j / 2], 2 * (j & 1)) * s0;
            n += signed_byte(scales[j / 2], 2 * (j & 1) + 1) * s1;
        } else {
            n += signed_byte(scales[j / 4], j & 3) * s1;
        }
        load_freed<F>(next, row, j, w);
    }
    float yd = x.scales[u], term = F::d(w) * yd * (float)(n >> F::shift);
    if constexpr (F::min_sub != 0) {
        constexpr int count = 256 / F::min_sub;
        uint32_t mins[count / 4];
        const uint2 *sums = (const uint2 *)(x.sums + u * count);
        F::mins(w, mins);
#pragma unroll
        for (int i = 0; i < count / 4; i++) {
            uint2 pairs = sums[i];
            m = __dp2a_lo((int)pairs.x, (int)mins[i], m);
            m = __dp2a_hi((int)pairs.y, (int)mins[i], m);
        }
        term = term - F::dmin(w) * yd * (float)m;
    }
    load_others<F>(next, row, w);
    return term;
}

/* An integer below 2^22 in size, that was summed from here on, as a float. */
#define EXACT_FROM 0x4b400000
DEVICE float exact_float(int32_t sum) { return float_of((uint32_t)sum) - 0x1.8p23f; }

/* The term of 32 weights, which are those numbered j in w; u: their number in the row. */
template <class F, class D>
DEVICE float unit_term(const uint32_t *w, int j, uint32_t u, const x_shared &x,
                       const dot_table &table, uint32_t dialect) {
    const uint4 *codes = (const uint4 *)(x.codes + u * 32u);
    constexpr int32_t start = F::shift == 0 ? EXACT_FROM : 0;
    float yd = x.scales[u];
    int32_t s0, s1;
    D::sums(w, j, codes[0], codes[1], table, start, &s0, &s1);
    s1 = F::shift == 0 ? s1 : (s1 >> F::shift) + EXACT_FROM;
    if constexpr (F::sub == 16) {
        return F::scale(w, j, 0, dialect) * yd * exact_float(s0) +
               F::scale(w, j, 1, dialect) * yd * exact_float(s1);
    }
    float term = F::scale(w, j, 0, dialect) * yd * exact_float(s1);
    if constexpr (F::min_sub != 0) {
        term = term + F::min(w, j) * yd * (float)(int32_t)x.sums[u];
    }
    return term;
}

/* Adds a group's terms: acc[0 .. 3] for units of 32, the returned term for a unit of 256. */
template <class F>
DEVICE float one_column(uint32_t *w, const uint8_t *next, uint32_t u, const x_shared &x,
                        const dot_table &table, uint32_t dialect, float *acc) {
    uint32_t lane = lane_index();
    if constexpr (F::unit == 256) {
        return superblock_term<F, decode_dot<F>>(w, next, lane, u, x, table);
    } else {
#pragma unroll
        for (int j = 0; j < 4; j++) {
            acc[j] = acc[j] + unit_term<F, decode_dot<F>>(w, j, 4u * u + (uint32_t)j, x, table, dialect);
            load_freed<F>(next, lane, j, w);
        }
        load_others<F>(next, lane, w);
        return 0.0f;
    }
}

/* One weight's 32 dots with the row of x in shared memory; valid in the first wave, lane = row. */
template <class F, int WAVES>
DEVICE float tile_one_column(const matmul_args &a, const uint8_t *tile, uint32_t groups,
                             const x_shared &x, const dot_table &table, uint32_t dialect,
                             float *reduction, uint32_t *w) {
    constexpr int count = owned<F, WAVES>::count, stored = owned<F, WAVES>::stored;
    constexpr int step = 32 * F::bytes;
    uint32_t wave = wave_index(), lane = lane_index(), done = 0;
    float acc[count];
#pragma unroll
    for (int i = 0; i < count; i++) {
        acc[i] = 0.0f;
    }
#pragma unroll 1
    for (uint32_t u = wave; u < groups; u += WAVES) {
        const uint8_t *next = u + WAVES < groups ? tile + (int64_t)(u + WAVES) * step : 0;
        float term = one_column<F>(w, next, u, x, table, dialect, acc);
        if (F::unit == 256) {
            turn(acc, acc[0] + term);
            done++;
        }
    }
    if (F::unit == 256) {
        turn_back(acc, done);
        reduction[wave * 32 + lane] = sum_of_halves(acc);
    } else {
#pragma unroll
        for (int i = 0; i < count; i++) {
            reduction[(wave * count + i) * 32 + lane] = acc[i];
        }
    }
    __syncthreads();
    float sum = 0.0f;
    if (wave == 0u) {
        sum = F::last(finish_tree<stored>(reduction + lane, 32));
    }
    __syncthreads();
    return sum;
}

/* One row of x against one tile: dense, or one entry of a group. */
template <class F, int WAVES>
DEVICE void row_times_tile(const rows32_args &args, int64_t expert, int64_t x_row, int64_t y_row,
                           const x_shared &x, uint32_t *words, bool fill, float *reduction) {
    const matmul_args &a = args.base;
    const dot_table table = decode_dot<F>::make((const uint8_t *)words);
    uint32_t wave = wave_index(), lane = lane_index();
    uint32_t next[ROWS32_WORDS(F)];
    const uint8_t *tile = tile_of<F>(a, 0, expert, block_x());
    int64_t element = a.x_dtype == OPREG_F32 ? 4 : 2;
    bool aligned = (((uintptr_t)a.x | (uintptr_t)(a.x_stride * element)) & 15u) == 0u;
    if (wave < args.groups) {
        load_group<F>(tile + (int64_t)wave * 32 * F::bytes, lane, next);
    }
    if (fill) { /* while the first weights are on their way */
        decode_dot<F>::fill((uint8_t *)words);
    }
    if (args.chained) {
        wait_for_launch_ahead();
    }
    for (uint32_t u = wave; u < args.groups; u += WAVES) {
        bring_group<F, decode_dot<F>::crossed>(a, x_row, aligned, u, x);
    }
    __syncwarp();
    float value = tile_one_column<F, WAVES>(a, tile, args.groups, x, table,
                                            a.side[0][expert].dialect, reduction, next);
    int64_t n = (int64_t)block_x() * 32 + lane;
    if (a.pair) {
        tile = tile_of<F>(a, 1, expert, block_x());
        if (wave < args.groups) {
            load_group<F>(tile + (int64_t)wave * 32 * F::bytes, lane, next);
        }
        float up = tile_one_column<F, WAVES>(a, tile, args.groups, x, table,
                                             a.side[1][expert].dialect, reduction, next);
        if (wave == 0u) {
            value = canonical_glu(a.glu, value, up, a.glu_alpha, a.glu_limit);
        }
    } else if (wave == 0u && a.bias != 0 && n < a.n) {
        value = value + a.bias[n];
    }
    if (wave == 0u && n < a.n) {
        store_output(a, y_row, n, value);
    }
}

/* Dense: grid (tiles).  Grouped: grid (tiles, groups), the entries of a group one after another. */
template <class F, int WAVES> DEVICE void rows32_one(const rows32_args &args) {
    extern __shared__ __align__(16) uint8_t shared[];
    const matmul_args &a = args.base;
    uint32_t at;
    x_shared x = x_records<F>(a, args.values, shared, &at);
    uint32_t *table = (uint32_t *)(shared + at);
    float *reduction = (float *)(shared + at + F::table_words * 4);
    if (a.route.header == 0) {
        let_next_launch_start();
        row_times_tile<F, WAVES>(args, 0, 0, 0, x, table, true, reduction);
        return;
    }
    int32_t expert, begin, end;
    if (args.chained) {
        wait_for_launch_ahead();
    }
    let_next_launch_start(); /* see rows32_route.cuh */
    if (!group_range(a, block_y(), &expert, &begin, &end)) {
        return;
    }
    bool fill = true;
    for (int32_t e = begin; e < end; e++) {
        int32_t token = a.route.entry_token[e], dst = a.route.entry_dst[e];
        if (dst < 0 || dst >= (int32_t)a.route.cap_entries) {
            continue;
        }
        if (entry_lives(a, expert, token)) {
            row_times_tile<F, WAVES>(args, expert, a.by_dst ? dst : token, dst, x, table, fill,
                                     reduction);
            fill = false;
        } else if (wave_index() == 0u && (int64_t)block_x() * 32 + lane_index() < a.n) {
            store_output(a, dst, (int64_t)block_x() * 32 + lane_index(), 0.0f);
        }
        __syncthreads();
    }
}

#endif /* OPREG_SM90_ROWS32_ONE_CUH */
