/* SPDX-License-Identifier: MIT
 * rows32_crossed.cuh - up to eight rows of x against tiles of the layout rows32 on integer tensor
 * cores, in the canonical order, for formats that a lane decodes by rows: decoded weights cross
 * shared memory.
 *
 * A block is WAVES waves and one tile of 32 rows; wave v takes the groups v, v + WAVES, ... of the
 * rows, so it owns whole accumulators: where a group is one unit of 256, accumulators v + WAVES * i;
 * where it is four units of 32, WAVES is 8 and the wave owns 4v .. 4v + 3.  A lane reads its row's
 * group with 16-byte loads, one group ahead of use. */
#ifndef OPREG_SM90_ROWS32_CROSSED_CUH
#define OPREG_SM90_ROWS32_CROSSED_CUH

#include "rows32_load.cuh"
#include "rows32_route.cuh"
#include "rows32_turn.cuh"
#include "tensor.cuh"

#define ROWS32_TILE_STRIDE 48 /* bytes a row of decoded weights: 32, and 16 that keep banks apart    */

/* A lane's part of 32 codes of its column. */
template <class F> DEVICE void load_b(const int8_t *codes, uint32_t t, uint32_t *b) {
    if (F::sub == 32) { /* words 2t and 2t + 1 take the places t and t + 4 */
        uint2 v = ((const uint2 *)codes)[t];
        b[0] = v.x;
        b[1] = v.y;
    } else {
        b[0] = ((const uint32_t *)codes)[t];
        b[1] = ((const uint32_t *)codes)[t + 4];
    }
}

/* acc: outputs of lane (g, t): 4 rows g, g+8, g+16, g+24 by columns 2t, 2t+1; [accumulator][8]. */
template <class F, int WAVES>
DEVICE void eight_columns(const matmul_args &a, uint32_t *w, const uint8_t *next, uint32_t u,
                          const columns &cols,
                          const uint32_t *table, uint32_t dialect, uint8_t *tile,
                          float (*acc)[8], float *term) {
    uint32_t lane = lane_index(), g = lane >> 2, t = lane & 3u;
    constexpr int chunks = F::values / 32;
    const int8_t *codes = (const int8_t *)a.x + (int64_t)cols.x[g] * a.k + (int64_t)u * F::values;
    uint32_t b[2], b_next[2], left = (uint32_t)a.k - u * (uint32_t)F::values;
    load_b<F>(codes, t, b_next);
    const float *yd0 = a.scales + (int64_t)cols.x[2 * t] * (a.k / F::unit) + u * (F::values / F::unit);
    const float *yd1 =
        a.scales + (int64_t)cols.x[2 * t + 1] * (a.k / F::unit) + u * (F::values / F::unit);
    uint32_t base = (uint32_t)__cvta_generic_to_shared(tile);
    /* matrix i of ldmatrix: rows 8 * (i & 1), bytes 16 * (i >> 1); lane gives the address of one row */
    uint32_t from = base + ((lane & 7u) + 8u * (lane >> 3 & 1u)) * ROWS32_TILE_STRIDE +
                    16u * (lane >> 4);
    int32_t n[8];
    uint32_t mine[4] = {0, 0, 0, 0}, scales[4] = {0, 0, 0, 0};
#pragma unroll
    for (int i = 0; i < 8; i++) {
        n[i] = 0;
    }
    if constexpr (F::unit == 256) {
        F::scales(w, mine);
    }
#pragma unroll
    for (int j = 0; j < chunks; j++) {
        uint32_t q[8];
        uint32_t buffer = (uint32_t)(j & 1) * 32u * ROWS32_TILE_STRIDE;
        bool there = has_unit<F>(left, (uint32_t)j); /* one that is not has the scale 0             */
        b[0] = b_next[0];
        b[1] = b_next[1];
        if (j + 1 < chunks && has_unit<F>(left, (uint32_t)j + 1u)) {
            load_b<F>(codes + 32 * (j + 1), t, b_next);
        }
        uint4 *to = (uint4 *)(tile + buffer + lane * ROWS32_TILE_STRIDE);
        F::decode(w, j, q, table);
        if (F::sub == 32) {
            to[0] = make_uint4(q[0], q[2], q[4], q[6]);
            to[1] = make_uint4(q[1], q[3], q[5], q[7]);
        } else {
            to[0] = make_uint4(q[0], q[1], q[2], q[3]);
            to[1] = make_uint4(q[4], q[5], q[6], q[7]);
        }
        __syncwarp();
        if (F::unit == 256 && j % (F::sub / 8) == 0) { /* four scales a word, of the lane's four rows */
#pragma unroll
            for (int r = 0; r < 4; r++) {
                scales[r] = wave_read(mine[j / (F::sub / 8)], (int)(g + 8 * r));
            }
        }
        float y0 = 0.0f, y1 = 0.0f;
        if (F::unit == 32 && there) {
            y0 = yd0[j];
            y1 = yd1[j];
        }
#pragma unroll
        for (int h = 0; h < 2; h++) {
            uint32_t m[4];
            int32_t s0[4], s1[4];
            load_matrix4(m, from + buffer + (uint32_t)h * 16u * ROWS32_TILE_STRIDE);
            if (F::sub == 32) {
                mma_k32(s0, m, b[0], b[1], 0);
            } else {
                mma_k16(s0, m[0], m[1], b[0], 0);
                mma_k16(s1, m[2], m[3], b[1], 0);
            }
            if constexpr (F::unit == 256) {
#pragma unroll
                for (int i = 0; i < 4; i++) {
                    int r = 2 * h + (i >> 1), o = 4 * h + i;
                    if (F::sub == 16) {
                        n[o] += signed_byte(scales[r], 2 * (j & 1)) * s0[i];
                        n[o] += signed_byte(scales[r], 2 * (j & 1) + 1) * s1[i];
                    } else {
                        n[o] += signed_byte(scales[r], j & 3) * s0[i];
                    }
                }
            } else {
#pragma unroll
                for (int r = 0; r < 2; r++) {
                    int row = (int)g + 16 * h + 8 * r;
                    float d0 = wave_read(F::scale(w, j, 0, dialect), row);
                    if constexpr (F::sub == 16) {
                        float d1 = wave_read(F::scale(w, j, 1, dialect), row);
                        acc[j][4 * h + 2 * r] += d0 * y0 * (float)s0[2 * r] + d1 * y0 * (float)s1[2 * r];
                        acc[j][4 * h + 2 * r + 1] +=
                            d0 * y1 * (float)s0[2 * r + 1] + d1 * y1 * (float)s1[2 * r + 1];
                    } else {
                        float t0 = d0 * y0 * (float)(s0[2 * r] >> F::shift);
                        float t1 = d0 * y1 * (float)(s0[2 * r + 1] >> F::shift);
                        if constexpr (F::min_sub != 0) {
                            float xm = wave_read(F::min(w, j), row);
                            const int16_t *sum0 = a.sums + (int64_t)cols.x[2 * t] * (a.k / 16) +
                                                  u * (F::values / 16) + 2 * j;
                            const int16_t *sum1 = a.sums + (int64_t)cols.x[2 * t + 1] * (a.k / 16) +
                                                  u * (F::values / 16) + 2 * j;
                            t0 = t0 + xm * y0 * (float)(there ? sum0[0] + sum0[1] : 0);
                            t1 = t1 + xm * y1 * (float)(there ? sum1[0] + sum1[1] : 0);
                        }
                        acc[j][4 * h + 2 * r] += t0;
                        acc[j][4 * h + 2 * r + 1] += t1;
                    }
                }
            }
        }
        load_freed<F>(next, lane, j, w);
    }
    if constexpr (F::unit == 256) {
        float y0 = yd0[0], y1 = yd1[0];
#pragma unroll
        for (int r = 0; r < 4; r++) {
            float d = wave_read(F::d(w), (int)(g + 8 * r));
            term[2 * r] = d * y0 * (float)(n[2 * r] >> F::shift);
            term[2 * r + 1] = d * y1 * (float)(n[2 * r + 1] >> F::shift);
        }
        if constexpr (F::min_sub != 0) {
            /* mins times sums of 16, on tensor cores: the sums in signed high and low bytes */
            uint32_t mins[4];
            constexpr int count = 256 / F::min_sub;
            uint32_t few[count / 4];
            F::mins(w, few);
#pragma unroll
            for (int i = 0; i < 4; i++) {
                mins[i] = count == 16 ? few[count == 16 ? i : 0]
                                      : permute(few[i / 2 % (count / 4)], 0u, i & 1 ? 0x3322u : 0x1100u);
            }
            __syncwarp();
            *(uint4 *)(tile + lane * ROWS32_TILE_STRIDE) =
                make_uint4(mins[0], mins[1], mins[2], mins[3]);
            __syncwarp();
            uint2 sums = ((const uint2 *)(a.sums + (int64_t)cols.x[g] * (a.k / 16) + u * 16))[t];
            /* sum = 256 * high + low with low in -128 .. 127 */
            uint32_t low = permute(sums.x, sums.y, 0x6420u);
            uint32_t rounded0 = __vadd2(sums.x, 0x00800080u), rounded1 = __vadd2(sums.y, 0x00800080u);
            uint32_t upper = permute(rounded0, rounded1, 0x7531u);
            uint32_t m[4];
            load_matrix4(m, base + lane * ROWS32_TILE_STRIDE);
            float dmin;
#pragma unroll
            for (int h = 0; h < 2; h++) {
                int32_t s0[4], s1[4];
                mma_k16(s0, m[2 * h], m[2 * h + 1], low, 0);
                mma_k16(s1, m[2 * h], m[2 * h + 1], upper, 0);
#pragma unroll
                for (int r = 0; r < 2; r++) {
                    dmin = wave_read(F::dmin(w), (int)(g + 16 * h + 8 * r));
                    int32_t m0 = 256 * s1[2 * r] + s0[2 * r];
                    int32_t m1 = 256 * s1[2 * r + 1] + s0[2 * r + 1];
                    term[4 * h + 2 * r] = term[4 * h + 2 * r] - dmin * y0 * (float)m0;
                    term[4 * h + 2 * r + 1] = term[4 * h + 2 * r + 1] - dmin * y1 * (float)m1;
                }
            }
        }
        __syncwarp();
    }
    load_others<F>(next, lane, w);
}

/* Eight columns against a tile; the result of (row, column) = (thread / 8, thread % 8). */
template <class F, int WAVES>
DEVICE float tile_eight_columns(const matmul_args &a, const uint8_t *tile, uint32_t groups,
                                const columns &cols, const uint32_t *table, uint32_t dialect,
                                uint8_t *decoded, float *reduction, uint32_t *w) {
    constexpr int count = owned<F, WAVES>::count, stored = owned<F, WAVES>::stored;
    constexpr int step = 32 * F::bytes;
    uint32_t wave = wave_index(), lane = lane_index(), done = 0;
    float acc[count][8];
#pragma unroll
    for (int i = 0; i < count; i++) {
#pragma unroll
        for (int o = 0; o < 8; o++) {
            acc[i][o] = 0.0f;
        }
    }
#pragma unroll 1
    for (uint32_t u = wave; u < groups; u += WAVES) {
        float term[8];
        const uint8_t *next = u + WAVES < groups ? tile + (int64_t)(u + WAVES) * step : 0;
        eight_columns<F, WAVES>(a, w, next, u, cols, table, dialect, decoded, acc, term);
        if (F::unit == 256) {
#pragma unroll
            for (int o = 0; o < 8; o++) {
                turn(acc, o, acc[0][o] + term[o]);
            }
            done++;
        }
    }
    /* lane (g, t): rows g + 8r, columns 2t, 2t + 1 */
    uint32_t at = (lane >> 2) * 8u + (lane & 3u) * 2u;
    __syncthreads(); /* the reduction may lie where x or decoded weights were */
    if (F::unit == 256) {
        turn_back(acc, done);
#pragma unroll
        for (int o = 0; o < 8; o++) {
            reduction[wave * 256 + at + (o >> 1) * 64 + (o & 1)] = sum_of_halves(acc, o);
        }
    } else {
#pragma unroll
        for (int i = 0; i < count; i++) {
#pragma unroll
            for (int o = 0; o < 8; o++) {
                reduction[(wave * count + i) * 256 + at + (o >> 1) * 64 + (o & 1)] = acc[i][o];
            }
        }
    }
    __syncthreads();
    float sum = thread_index() < 256u ? F::last(finish_tree<stored>(reduction + thread_index(), 256))
                                      : 0.0f;
    __syncthreads();
    return sum;
}

template <class F, int WAVES>
DEVICE void columns_times_tile(const rows32_args &args, int64_t expert, const columns &cols,
                               const uint32_t *table, uint8_t *decoded, float *reduction) {
    const matmul_args &a = args.base;
    uint32_t wave = wave_index(), lane = lane_index();
    uint32_t next[ROWS32_WORDS(F)];
    const uint8_t *tile = tile_of<F>(a, 0, expert, block_x());
    if (wave < args.groups) {
        load_group<F>(tile + (int64_t)wave * 32 * F::bytes, lane, next);
    }
    if (args.chained) {
        wait_for_launch_ahead();
    }
    float value = tile_eight_columns<F, WAVES>(a, tile, args.groups, cols, table,
                                               a.side[0][expert].dialect, decoded, reduction, next);
    int64_t n = (int64_t)block_x() * 32 + thread_index() / 8u;
    int32_t y = thread_index() < 256u ? cols.y[thread_index() % 8u] : -1;
    if (a.pair) {
        tile = tile_of<F>(a, 1, expert, block_x());
        if (wave < args.groups) {
            load_group<F>(tile + (int64_t)wave * 32 * F::bytes, lane, next);
        }
        float up = tile_eight_columns<F, WAVES>(a, tile, args.groups, cols, table,
                                                a.side[1][expert].dialect, decoded, reduction, next);
        value = canonical_glu(a.glu, value, up, a.glu_alpha, a.glu_limit);
    } else if (a.bias != 0 && n < a.n) {
        value = value + a.bias[n];
    }
    if (y >= 0 && n < a.n) {
        store_output(a, y, n, cols.dead >> (thread_index() % 8u) & 1 ? 0.0f : value);
    }
}

/* Dense: grid (tiles, columns / 8).  Grouped: grid (tiles, groups). */
template <class F, int WAVES> DEVICE void rows32_eight(const rows32_args &args) {
    extern __shared__ __align__(16) uint8_t shared[];
    __shared__ columns cols;
    const matmul_args &a = args.base;
    if (a.route.header == 0) {
        let_next_launch_start();
    }
    fill_table<F>((uint32_t *)shared);
    const uint32_t *table = lane_table<F>((const uint32_t *)shared);
    uint8_t *both = shared + F::table_words * 4;
    float *reduction = (float *)both;
    uint8_t *decoded = both + wave_index() * 2 * 32 * ROWS32_TILE_STRIDE;
    if (a.route.header == 0) {
        if (thread_index() < ROWS32_COLUMNS) {
            int32_t c = (int32_t)(block_y() * ROWS32_COLUMNS + thread_index());
            cols.x[thread_index()] = c < a.m ? c : (int32_t)(block_y() * ROWS32_COLUMNS);
            cols.y[thread_index()] = c < a.m ? c : -1;
            cols.dead = 0;
        }
        __syncthreads();
        columns_times_tile<F, WAVES>(args, 0, cols, table, decoded, reduction);
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
    for (int32_t first = begin; first < end; first += ROWS32_COLUMNS) {
        __syncthreads();
        if (thread_index() == 0u) {
            gather_columns(a, expert, first, end, &cols);
        }
        __syncthreads();
        columns_times_tile<F, WAVES>(args, expert < 0 || expert >= a.experts ? 0 : expert, cols,
                                     table, decoded, reduction);
    }
}

#endif /* OPREG_SM90_ROWS32_CROSSED_CUH */
