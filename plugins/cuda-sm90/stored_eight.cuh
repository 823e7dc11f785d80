/* SPDX-License-Identifier: MIT
 * stored_eight.cuh - up to eight rows of x against stored weights on integer tensor cores, in the
 * canonical order: a weight is decoded once for all of them and crosses shared memory, as in
 * rows32_eight.  Each wave copies its own groups. */
#ifndef OPREG_SM90_STORED_EIGHT_CUH
#define OPREG_SM90_STORED_EIGHT_CUH

#include "rows32_crossed.cuh"
#include "stored_stream.cuh"

#define STORED_EIGHT_WAVES 8

/* A team has room for decoded weights of each wave; sums of the waves meet there afterwards. */
static_assert(STORED_EIGHT_OWN == STORED_EIGHT_WAVES * 2 * 32 * ROWS32_TILE_STRIDE, "as on the host");

/* Waits for the waves of the team. */
DEVICE void eight_barrier() {
    asm volatile("bar.sync %0, %1;" ::"r"(wave_index() / STORED_EIGHT_WAVES + 1u),
                 "n"(32 * STORED_EIGHT_WAVES)
                 : "memory");
}

/* The tree over eight waves of one accumulator of theirs, eight outputs a lane; of the thread's output,
 * row thread / 8 of the team, column thread % 8. */
DEVICE float sum_of_waves(const float *v, float *reduction) {
    uint32_t lane = lane_index(), at = (lane >> 2) * 8u + (lane & 3u) * 2u;
    uint32_t wave = wave_index() % STORED_EIGHT_WAVES;
    eight_barrier(); /* decoded weights, or the sums before, have been read */
#pragma unroll
    for (int o = 0; o < 8; o++) {
        reduction[wave * 256u + at + (o >> 1) * 64 + (o & 1)] = v[o];
    }
    eight_barrier();
    float sum = finish_tree<STORED_EIGHT_WAVES>(reduction + wave * 32u + lane, 256);
    eight_barrier();
    return sum;
}

/* A tile's dots of one weight: the thread's output. */
template <class F>
DEVICE float stored_eight_tile(const stored_args &args, stored_stream<F, 1, 1, true> &stream,
                               uint32_t which, uint32_t tile, const columns &cols,
                               const uint32_t *table, uint32_t dialect, uint8_t *own) {
    constexpr int WAVES = STORED_EIGHT_WAVES;
    uint32_t wave = wave_index() % WAVES;
    uint8_t *decoded = own + wave * 2 * 32 * ROWS32_TILE_STRIDE;
    float acc[4][8];
#pragma unroll
    for (int i = 0; i < 32; i++) {
        acc[i / 8][i % 8] = 0.0f;
    }
#pragma unroll 1
    for (uint32_t u = wave; u < args.groups; u += WAVES) {
        const uint8_t *at = stream.next(which, tile, u);
        uint32_t w[ROWS32_WORDS(F)];
        float term[8];
        read_stored<F>(at, w);
        __syncwarp();
        stream.copy_next();
        eight_columns<F, WAVES>(args.base, w, 0, u, cols, table, dialect, decoded, acc, term);
        if constexpr (F::unit == 256) {
#pragma unroll
            for (int o = 0; o < 8; o++) {
                turn(acc, o, acc[0][o] + term[o]);
            }
        }
    }
    if constexpr (F::unit == 256) {
        float sum[8];
        turn_back(acc, (args.groups + 7u - wave) / 8u);
#pragma unroll
        for (int o = 0; o < 8; o++) {
            sum[o] = sum_of_halves(acc, o);
        }
        return F::last(sum_of_waves(sum, (float *)own));
    } else {
        float part[4];
#pragma unroll
        for (int i = 0; i < 4; i++) {
            part[i] = sum_of_waves(acc[i], (float *)own);
        }
        return F::last((part[0] + part[2]) + (part[1] + part[3]));
    }
}

/* Grid (blocks, rows of x / 8); x comes as planes. */
template <class F> DEVICE void stored_eight(const stored_args &args) {
    extern __shared__ __align__(16) uint8_t shared[];
    __shared__ columns cols;
    typedef stored_stream<F, 1, 1, true> stream_type;
    constexpr uint32_t WAVES = STORED_EIGHT_WAVES;
    const matmul_args &a = args.base;
    uint32_t team = wave_index() / WAVES, teams = thread_count() / (32u * WAVES);
    uint32_t first = block_x() + grid_x() * team;
    uint8_t *own = shared + F::table_words * 4 + team * STORED_EIGHT_OWN;
    uint8_t *stages = shared + F::table_words * 4 + teams * STORED_EIGHT_OWN +
                      wave_index() * stream_type::stage_bytes;
    stream_type stream(args, stages, first);
    uint32_t column = thread_index() % 8u;
    let_next_launch_start();
    stream.start();
    if (thread_index() < ROWS32_COLUMNS) {
        int32_t row = (int32_t)(block_y() * ROWS32_COLUMNS), c = row + (int32_t)thread_index();
        cols.x[thread_index()] = c < a.m ? c : row;
        cols.y[thread_index()] = c < a.m ? c : -1;
        cols.dead = 0;
    }
    fill_table<F>((uint32_t *)shared);
    const uint32_t *table = lane_table<F>((const uint32_t *)shared);
    __syncthreads();
    if (args.chained) {
        wait_for_launch_ahead();
    }
    for (uint32_t tile = first; tile < args.tiles; tile += args.streams) {
        float value = stored_eight_tile<F>(args, stream, 0, tile, cols, table, a.side[0][0].dialect,
                                           own);
        int64_t n = (int64_t)tile * 32 + thread_index() % (32u * WAVES) / 8u;
        if (a.pair) {
            float up = stored_eight_tile<F>(args, stream, 1, tile, cols, table,
                                            a.side[1][0].dialect, own);
            value = canonical_glu(a.glu, value, up, a.glu_alpha, a.glu_limit);
        } else if (a.bias != 0 && n < a.n) {
            value = value + a.bias[n];
        }
        if (cols.y[column] >= 0 && n < a.n) {
            store_output(a, cols.y[column], n, value);
        }
    }
}

#endif /* OPREG_SM90_STORED_EIGHT_CUH */
