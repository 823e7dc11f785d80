/* SPDX-License-Identifier: MIT
 * stored_one.cuh - one row of x against stored weights, in the canonical order: a lane a weight row.
 *
 * Wave v of a team takes the groups v, v + WAVES, .. of a tile's rows, so it owns whole accumulators,
 * as in rows32_one. */
#ifndef OPREG_SM90_STORED_ONE_CUH
#define OPREG_SM90_STORED_ONE_CUH

#include "rows32_one.cuh"
#include "stored_stream.cuh"

/* Brings the units of a row of x that do not fill a group; one wave.  A lane has four codes. */
template <class F, bool crossed>
DEVICE void bring_last_units(const matmul_args &a, int64_t row, uint32_t u, uint32_t units,
                             const x_shared &s) {
    uint32_t lane = lane_index(), unit = 4u * u + lane / 8u, at = lane % 8u, codes = 0u;
    bool given = unit < units;
    float scale = 0.0f;
    int32_t sum = 0;
    if (a.scales != 0) {
        if (given) {
            codes = ((const uint32_t *)((const int8_t *)a.x + row * a.k))[u * 32u + lane];
            scale = a.scales[row * (a.k / 32) + unit];
            sum = a.sums[row * (a.k / 16) + unit * 2u] + a.sums[row * (a.k / 16) + unit * 2u + 1u];
        }
    } else {
        float v[4] = {0.0f, 0.0f, 0.0f, 0.0f};
#pragma unroll
        for (int i = 0; i < 4; i++) {
            if (given) {
                v[i] = canonical_load(a.x, row * a.x_stride + (int64_t)u * 128 + lane * 4u + i,
                                      a.x_dtype);
            }
        }
        quantize_q8_0_by4<true>(v, &codes, &scale, &sum);
    }
    if (crossed) {
        codes = cross_by4(codes, &at);
    }
    if (given) {
        ((uint32_t *)(s.codes + u * 128u))[lane / 8u * 8u + at] = codes;
        if (lane % 8u == 0u) {
            s.scales[unit] = scale;
            if (F::min_sub != 0) {
                s.sums[unit] = (int16_t)sum;
            }
        }
    }
}

template <class F, bool crossed>
DEVICE void bring_row(const stored_args &args, int64_t row, const x_shared &x) {
    const matmul_args &a = args.base;
    int64_t element = a.x_dtype == OPREG_F32 ? 4 : 2;
    bool aligned = (((uintptr_t)a.x | (uintptr_t)(a.x_stride * element)) & 15u) == 0u;
    for (uint32_t u = wave_index(); u < args.groups; u += thread_count() / 32u) {
        if (F::unit == 32 && 4u * (u + 1u) > args.units) {
            bring_last_units<F, crossed>(a, row, u, args.units, x);
        } else {
            bring_group<F, crossed>(a, row, aligned, u, x);
        }
    }
}

/* A tile's dots of one weight; valid in the team's first wave, lane = row. */
template <class F, int WAVES>
DEVICE float stored_tile(const stored_args &args, stored_stream<F, WAVES> &stream, uint32_t which,
                         uint32_t tile, const x_shared &x, const dot_table &table,
                         uint32_t dialect, float *reduction) {
    typedef spread_dot<F> dot;
    constexpr int count = owned<F, WAVES>::count, stored = owned<F, WAVES>::stored;
    uint32_t wave = wave_index() % WAVES, lane = lane_index(), done = 0;
    float acc[count];
#pragma unroll
    for (int i = 0; i < count; i++) {
        acc[i] = 0.0f;
    }
#pragma unroll 1
    for (uint32_t s = 0; s < stream.segments; s++) {
        const uint8_t *at = stream.next(which, tile, s);
        stream.copy_next(); /* where the stage before was, which nobody reads any more */
        uint32_t u = s * WAVES + wave, w[ROWS32_WORDS(F)];
        if (u >= args.groups) {
            break;
        }
        read_stored<F>(at, w);
        if constexpr (F::unit == 256) {
            float first = acc[0] + superblock_term<F, dot>(w, 0, lane, u, x, table);
#pragma unroll
            for (int i = 0; i + 1 < count; i++) {
                acc[i] = acc[i + 1];
            }
            acc[count - 1] = first;
            done++;
        } else {
#pragma unroll
            for (int j = 0; j < 4; j++) {
                if (4u * u + (uint32_t)j < args.units) {
                    acc[j] = acc[j] + unit_term<F, dot>(w, j, 4u * u + (uint32_t)j, x, table,
                                                        dialect);
                }
            }
        }
    }
    if constexpr (F::unit == 256) {
        while (done % count != 0) { /* back to ascending accumulators */
            float first = acc[0];
#pragma unroll
            for (int i = 0; i + 1 < count; i++) {
                acc[i] = acc[i + 1];
            }
            acc[count - 1] = first;
            done++;
        }
#pragma unroll
        for (int s = count / 2; s > 0; s /= 2) {
#pragma unroll
            for (int i = 0; i < s; i++) {
                acc[i] = acc[i] + acc[i + s];
            }
        }
        reduction[wave * 32 + lane] = acc[0];
    } else {
#pragma unroll
        for (int i = 0; i < count; i++) {
            reduction[(wave * count + i) * 32 + lane] = acc[i];
        }
    }
    stream.barrier();
    /* what is read here is written again only after the barrier of another stage */
    return wave == 0u ? F::last(finish_tree<stored>(reduction + lane, 32)) : 0.0f;
}

/* Grid (blocks, rows of x). */
template <class F, int WAVES> DEVICE void stored_one(const stored_args &args) {
    extern __shared__ __align__(16) uint8_t shared[];
    typedef spread_dot<F> dot;
    typedef stored_stream<F, WAVES> stream_type;
    constexpr uint32_t sums = owned<F, WAVES>::stored * 128u;
    const matmul_args &a = args.base;
    uint32_t at, team = wave_index() / WAVES, teams = thread_count() / (32u * WAVES);
    x_shared x = x_records<F>(a, (uint32_t)a.k, shared, &at);
    uint8_t *words = shared + at;
    uint8_t *own = words + dot::table_bytes + team * (sums + args.depth * stream_type::stage_bytes);
    stream_type stream(args, own + sums, block_x() + grid_x() * team, grid_x() * teams);
    uint32_t tile = stream.tile;
    let_next_launch_start();
    stream.start();
    const dot_table table = dot::make(words);
    dot::fill(words);
    if (args.chained) {
        wait_for_launch_ahead();
    }
    bring_row<F, dot::crossed>(args, block_y(), x);
    __syncthreads();
    for (; tile < stream.tiles; tile += stream.apart) {
        float value = stored_tile<F, WAVES>(args, stream, 0, tile, x, table, a.side[0][0].dialect,
                                            (float *)own);
        int64_t n = (int64_t)tile * 32 + lane_index();
        if (a.pair) {
            float up = stored_tile<F, WAVES>(args, stream, 1, tile, x, table,
                                             a.side[1][0].dialect, (float *)own);
            value = canonical_glu(a.glu, value, up, a.glu_alpha, a.glu_limit);
        } else if (a.bias != 0 && n < a.n) {
            value = value + a.bias[n];
        }
        if (wave_index() % WAVES == 0u && n < a.n) {
            store_output(a, block_y(), n, value);
        }
    }
}

#endif /* OPREG_SM90_STORED_ONE_CUH */
