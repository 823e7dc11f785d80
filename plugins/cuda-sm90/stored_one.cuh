/* SPDX-License-Identifier: MIT
 * stored_one.cuh - one row of x against stored weights, in the canonical order: a lane a weight row.
 *
 * Wave v of a team takes the groups v, v + WAVES, .. of a tile's rows, so it owns whole accumulators,
 * as in rows32_one. */
#ifndef OPREG_SM90_STORED_ONE_CUH
#define OPREG_SM90_STORED_ONE_CUH

#include "rows32_one.cuh"
#include "stored_stream.cuh"

/* A tile's dots of one weight; valid in the team's first wave, lane = row. */
template <class F, int WAVES, int GROUPS>
DEVICE float stored_tile(const stored_args &args, stored_stream<F, WAVES, GROUPS> &stream,
                         uint32_t which, uint32_t tile, const x_shared &x, const dot_table &table,
                         uint32_t dialect, float *reduction) {
    typedef spread_dot<F> dot;
    constexpr int count = F::unit == 256 ? 32 / WAVES : 4 * GROUPS;
    uint32_t wave = wave_index() % WAVES, lane = lane_index(), done = 0;
    float acc[count];
    static_assert(F::unit == 256 ? GROUPS == 1 : WAVES * GROUPS == 8, "a wave owns accumulators");
#pragma unroll
    for (int i = 0; i < count; i++) {
        acc[i] = 0.0f;
    }
#pragma unroll 1
    for (uint32_t s = 0; s < stream.segments(); s++) {
        const uint8_t *at = stream.next(which, tile, s);
        stream.copy_next(); /* where the stage before was, which nobody reads any more */
#pragma unroll
        for (int g = 0; g < GROUPS; g++) {
            uint32_t u = (s * GROUPS + (uint32_t)g) * WAVES + wave, w[ROWS32_WORDS(F)];
            if (u >= args.groups) {
                break;
            }
            read_stored<F>(at + g * WAVES * F::bytes, w);
            if constexpr (F::unit == 256) {
                turn(acc, acc[0] + superblock_term<F, dot>(w, 0, lane, u, x, table));
                done++;
            } else {
#pragma unroll
                for (int j = 0; j < 4; j++) {
                    uint32_t unit = 4u * u + (uint32_t)j;
                    if (unit < args.units) {
                        acc[4 * g + j] =
                            acc[4 * g + j] + unit_term<F, dot>(w, j, unit, x, table, dialect);
                    }
                }
            }
        }
    }
    if constexpr (F::unit == 256) {
        turn_back(acc, done);
        reduction[wave * 32 + lane] = sum_of_halves(acc);
    } else {
#pragma unroll
        for (int i = 0; i < count; i++) {
            reduction[((i / 4 * WAVES + wave) * 4 + i % 4) * 32 + lane] = acc[i];
        }
    }
    stream.barrier();
    /* what is read here is written again only after the barrier of another stage */
    return wave == 0u ? F::last(finish_tree<owned<F, WAVES>::stored>(reduction + lane, 32)) : 0.0f;
}

/* Grid (blocks, rows of x). */
template <class F, int WAVES, int GROUPS> DEVICE void stored_one(const stored_args &args) {
    extern __shared__ __align__(16) uint8_t shared[];
    typedef spread_dot<F> dot;
    typedef stored_stream<F, WAVES, GROUPS> stream_type;
    constexpr uint32_t sums = owned<F, WAVES>::stored * 128u;
    const matmul_args &a = args.base;
    uint32_t at, team = wave_index() / WAVES, teams = thread_count() / (32u * WAVES);
    x_shared x = x_records<F>(a, args.groups * F::values, shared, &at);
    uint8_t *words = shared + at;
    uint8_t *own = words + dot::table_bytes + team * (sums + args.depth * stream_type::stage_bytes);
    stream_type stream(args, own + sums, block_x() + grid_x() * team);
    uint32_t tile = stream.tile;
    uint32_t u = wave_index();
    int64_t element = a.x_dtype == OPREG_F32 ? 4 : 2;
    bool aligned = (((uintptr_t)a.x | (uintptr_t)(a.x_stride * element)) & 15u) == 0u;
    bool early = !args.chained && a.scales == 0 && u < args.groups;
    float v[F::values / 32];
    let_next_launch_start();
    if (early) { /* x is not to wait behind the weights */
        load_x_group<F>(a, block_y(), aligned, u, v);
    }
    stream.start();
    const dot_table table = dot::make(words);
    dot::fill(words);
    if (args.chained) {
        wait_for_launch_ahead();
    }
    if (early) {
        keep_values<F, dot::crossed>(u, v, x);
        u += thread_count() / 32u;
    }
    for (; u < args.groups; u += thread_count() / 32u) {
        bring_group<F, dot::crossed>(a, block_y(), aligned, u, x);
    }
    __syncthreads();
    for (; tile < args.tiles; tile += args.streams) {
        float value = stored_tile<F, WAVES, GROUPS>(args, stream, 0, tile, x, table,
                                                    a.side[0][0].dialect, (float *)own);
        int64_t n = (int64_t)tile * 32 + lane_index();
        if (a.pair) {
            float up = stored_tile<F, WAVES, GROUPS>(args, stream, 1, tile, x, table,
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
