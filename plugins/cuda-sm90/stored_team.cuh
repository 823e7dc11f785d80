/* SPDX-License-Identifier: MIT
 * stored_team.cuh - up to eight rows of x against stored weights on integer tensor cores, in the
 * canonical order, as rows32_team.  Each wave copies its own groups: when one is there it is put into
 * the order of the layout rows32, which leaves its place to the next one. */
#ifndef OPREG_SM90_STORED_TEAM_CUH
#define OPREG_SM90_STORED_TEAM_CUH

#include "rows32_team.cuh"
#include "stored_stream.cuh"

/* A lane's row of a group to where read_group reads it. */
template <class F> DEVICE void write_group(uint8_t *group, uint32_t row, const uint32_t *w) {
    constexpr int at8 = F::bytes / 16 * 16, at4 = at8 + (F::bytes & 8);
    constexpr int at2 = at4 + (F::bytes & 4);
#pragma unroll
    for (int c = 0; c < F::bytes / 16; c++) {
        *((uint4 *)(group + c * 512) + row) =
            make_uint4(w[4 * c], w[4 * c + 1], w[4 * c + 2], w[4 * c + 3]);
    }
    if (F::bytes & 8) {
        *((uint2 *)(group + at8 * 32) + row) = make_uint2(w[at8 / 4], w[at8 / 4 + 1]);
    }
    if (F::bytes & 4) {
        *((uint32_t *)(group + at4 * 32) + row) = w[at4 / 4];
    }
    if (F::bytes & 2) {
        *((uint16_t *)(group + at2 * 32) + row) = (uint16_t)w[at2 / 4];
    }
}

/* A tile's dots of one weight: row lane, column team_wave. */
template <class F>
DEVICE float stored_team_tile(const stored_args &args, stored_stream<F, 1, 1> &stream,
                              uint32_t which, uint32_t tile, const uint8_t *x, uint32_t dialect,
                              uint8_t *group, float *sums) {
    float acc[4][8];
#pragma unroll
    for (int i = 0; i < 32; i++) {
        acc[i / 8][i % 8] = 0.0f;
    }
#pragma unroll 1
    for (uint32_t u = team_wave(); u < args.groups; u += TEAM_WAVES) {
        const uint8_t *at = stream.next(which, tile, u);
        uint32_t w[ROWS32_WORDS(F)];
        float terms[2][1][4];
        read_stored<F>(at, w);
        write_group<F>(group, lane_index(), w);
        __syncwarp();
        stream.copy_next();
        record_columns<F> columns = {x + u * team_place<F>::record, args.apart};
        if constexpr (F::unit == 256) {
            superblock_terms<F, 1>(group, stored_words<F>{0}, columns, terms);
#pragma unroll
            for (int o = 0; o < 8; o++) {
                turn(acc, o, acc[0][o] + terms[o / 4][0][o % 4]);
            }
        } else {
#pragma unroll
            for (int j = 0; j < 4; j++) {
                unit_terms<F, 1>(group, dialect, columns, (uint32_t)j, terms);
#pragma unroll
                for (int o = 0; o < 8; o++) {
                    acc[j][o] = acc[j][o] + terms[o / 4][0][o % 4];
                }
            }
        }
        __syncwarp();
    }
    float part[4];
    constexpr int parts = F::unit == 256 ? 1 : 4;
    if constexpr (F::unit == 256) {
        turn_back(acc, (args.groups + 7u - team_wave()) / 8u);
#pragma unroll
        for (int o = 0; o < 8; o++) {
            acc[0][o] = sum_of_halves(acc, o);
        }
    }
#pragma unroll
    for (int i = 0; i < parts; i++) {
        put_sums(sums, acc[i]);
        team_barrier();
        part[i] = take_sum(sums);
        team_barrier();
    }
    return F::last(parts == 1 ? part[0] : (part[0] + part[2 % parts]) + (part[1 % parts] + part[3 % parts]));
}

/* Grid (blocks, rows of x / 8). */
template <class F> DEVICE void stored_team(const stored_args &args) {
    extern __shared__ __align__(128) uint8_t shared[];
    __shared__ uint64_t x_here;
    typedef stored_stream<F, 1, 1> stream_type;
    const matmul_args &a = args.base;
    uint32_t teams = thread_count() / (32u * TEAM_WAVES), column = team_wave();
    uint32_t record_bytes = args.groups * team_place<F>::record;
    uint32_t wave_bytes = team_place<F>::group + args.depth * stream_type::stage_bytes;
    uint32_t first = block_x() + grid_x() * team_index();
    uint8_t *own = shared + 8u * args.apart + wave_index() * wave_bytes;
    float *sums = (float *)(shared + 8u * args.apart + teams * TEAM_WAVES * wave_bytes +
                            team_index() * TEAM_SUMS_BYTES);
    stream_type stream(args, own + team_place<F>::group, first);
    int64_t y = (int64_t)block_y() * 8 + column;
    let_next_launch_start();
    if (thread_index() == 0u) {
        barrier_start(&x_here, 1);
    }
    barriers_started();
    __syncthreads();
    stream.start();
    if (args.chained) {
        wait_for_launch_ahead();
    }
    if (wave_index() == 0u) {
        if (lane_index() == 0u) {
            barrier_expect(&x_here, 8u * record_bytes);
        }
        __syncwarp();
        if (lane_index() < 8u) {
            int64_t row = (int64_t)block_y() * 8 + lane_index();
            before_bulk_copies();
            bulk_copy(shared + lane_index() * args.apart,
                      args.records + (row < a.m ? row : (int64_t)block_y() * 8) * record_bytes,
                      record_bytes, &x_here);
        }
    }
    barrier_wait(&x_here, 0u);
    for (uint32_t tile = first; tile < args.tiles; tile += args.streams) {
        float value = stored_team_tile<F>(args, stream, 0, tile, shared, a.side[0][0].dialect,
                                          own, sums);
        int64_t n = (int64_t)tile * 32 + lane_index();
        if (a.pair) {
            float up = stored_team_tile<F>(args, stream, 1, tile, shared, a.side[1][0].dialect,
                                           own, sums);
            value = canonical_glu(a.glu, value, up, a.glu_alpha, a.glu_limit);
        } else if (a.bias != 0 && n < a.n) {
            value = value + a.bias[n];
        }
        if (y < a.m && n < a.n) {
            store_output(a, y, n, value);
        }
    }
}

#endif /* OPREG_SM90_STORED_TEAM_CUH */
