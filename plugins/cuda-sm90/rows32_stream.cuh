/* SPDX-License-Identifier: MIT
 * rows32_stream.cuh - one row of x against tiles of the layout rows32, in the canonical order: a wave's
 * next groups come to shared memory by bulk while it multiplies one, on from tile to tile.
 *
 * A block has the tiles b, b + grid_x(), ..; its wave v the groups v, v + 8, .. of each, so whole
 * accumulators, as in rows32_one.  x is quantized once a block, every wave what it needs itself. */
#ifndef OPREG_SM90_ROWS32_STREAM_CUH
#define OPREG_SM90_ROWS32_STREAM_CUH

#include "rows32_one.cuh"
#include "tensor.cuh"

/* A wave's groups on their way: stages of one group each, filled in turn. */
template <class F, uint32_t STAGES> struct stream_ahead {
    static const uint32_t bytes = 32 * F::bytes;
    uint8_t *stages;
    uint64_t *full;
    const uint8_t *data;  /* of the next group                                                      */
    uint32_t group, tile; /* which that is; no tile of the matrix where there is none               */
    uint32_t tiles, groups;

    /* The next group to a stage that no lane reads any more. */
    __device__ __forceinline__ void ask(uint32_t stage) {
        if (tile < tiles) {
            if (lane_index() == 0u) {
                barrier_expect(full + stage, bytes);
                bulk_copy(stages + stage * bytes, data, bytes, full + stage);
            }
            group += ROWS32_STREAM_WAVES;
            data += ROWS32_STREAM_WAVES * bytes;
            if (group >= groups) {
                data += (uint64_t)(grid_x() * groups + wave_index() - group) * bytes;
                group = wave_index();
                tile += grid_x();
            }
        }
    }

    /* Asks for the first `early` groups. */
    __device__ __forceinline__ void start(const rows32_args &args, uint8_t *shared, uint32_t early) {
        constexpr uint32_t all = ROWS32_STREAM_WAVES * STAGES;
        groups = args.groups;
        tiles = (uint32_t)((args.base.n + 31) / 32);
        group = wave_index();
        tile = group < groups ? block_x() : tiles;
        data = args.base.data[0] + ((uint64_t)block_x() * groups + group) * bytes;
        stages = shared + wave_index() * (STAGES * bytes);
        full = (uint64_t *)(shared + all * bytes) + wave_index() * STAGES;
        if (lane_index() == 0u) {
#pragma unroll
            for (uint32_t i = 0; i < STAGES; i++) {
                barrier_start(full + i, 1u);
            }
            barriers_started();
        }
        __syncwarp();
#pragma unroll
        for (uint32_t i = 0; i < early; i++) {
            ask(i);
        }
    }
};

/* Grid (blocks), as many as there are tiles at the most; shared memory: the stages, their barriers, x
 * and the sums that a tile's tree begins with.  Before the launch ahead has ended a wave asks for few
 * groups: the more weights are on their way, the later that is known, and the later x comes. */
template <class F, uint32_t STAGES> DEVICE void rows32_stream(const rows32_args &args) {
    extern __shared__ __align__(16) uint8_t stream_shared[];
    constexpr int waves = ROWS32_STREAM_WAVES, count = owned<F, waves>::count;
    constexpr uint32_t early = F::unit == 256 ? 1u : 2u, groups_at_once = F::unit == 256 ? 2u : 4u;
    const matmul_args &a = args.base;
    uint32_t wave = wave_index(), lane = lane_index(), at, stage = 0, round = 0;
    bool planes = a.scales != 0;
    stream_ahead<F, STAGES> ahead;
    ahead.start(args, stream_shared, early);
    let_next_launch_start();
    uint8_t *rest = stream_shared + waves * STAGES * (ahead.bytes + 8);
    x_shared x = x_records<F>(a, args.values, rest, &at);
    float *reduction = (float *)(rest + at);
    uint32_t dialect = F::unit == 256 ? 0u : a.side[0][0].dialect;
    const dot_table table = decode_dot<F>::make(0);
    if (args.chained) {
        wait_for_launch_ahead();
    }
    first_values<F, groups_at_once> values;
    if (!planes) {
        values.load(a, args.groups);
    }
#pragma unroll
    for (uint32_t i = early; i < STAGES; i++) {
        ahead.ask(i);
    }
    if (!planes) {
        values.template keep<decode_dot<F>::crossed>(args.groups, x);
    }
    bring_groups<F, decode_dot<F>::crossed>(a, args.groups, planes ? 0u : groups_at_once, x);
    __syncwarp();
#pragma unroll 1
    for (uint32_t tile = block_x(); tile < ahead.tiles; tile += grid_x()) {
        float acc[count];
        uint32_t done = 0;
#pragma unroll
        for (int i = 0; i < count; i++) {
            acc[i] = 0.0f;
        }
#pragma unroll 1
        for (uint32_t u = wave; u < args.groups; u += waves) {
            uint32_t w[ROWS32_WORDS(F)];
            barrier_wait(ahead.full + stage, round);
            read_group<F>(ahead.stages + stage * ahead.bytes, lane, w);
            float term = one_column<F>(w, 0, u, x, table, dialect, acc);
            if (F::unit == 256) {
                turn(acc, acc[0] + term);
                done++;
            }
            __syncwarp();
            ahead.ask(stage);
            stage = stage + 1u == STAGES ? 0u : stage + 1u;
            round ^= stage == 0u;
        }
        if (F::unit == 256) {
            turn_back(acc, done);
            reduction[wave * 32u + lane] = sum_of_halves(acc);
        } else {
#pragma unroll
            for (int i = 0; i < count; i++) {
                reduction[(wave * count + i) * 32u + lane] = acc[i];
            }
        }
        __syncthreads();
        int64_t n = (int64_t)tile * 32 + lane;
        if (wave == 0u && n < a.n) {
            float value = F::last(finish_tree<owned<F, waves>::stored>(reduction + lane, 32));
            if (a.bias != 0) {
                value = value + a.bias[n];
            }
            store_output(a, 0, n, value);
        }
        __syncthreads();
    }
}

#endif /* OPREG_SM90_ROWS32_STREAM_CUH */
