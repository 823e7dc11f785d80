/* SPDX-License-Identifier: MIT
 * rows32_team.cuh - up to eight rows of x against tiles of the layout rows32 on integer tensor cores,
 * in the canonical order.
 *
 * A team is eight waves with one tile of 32 weight rows at a time; wave v has the groups v, v + 8, ..
 * of a row, so it owns accumulators v + 8i (units of 256) or 4v + i (units of 32), i = 0 .. 3.  Each
 * wave has its next groups copied by bulk while it uses one; x stays in shared memory. */
#ifndef OPREG_SM90_ROWS32_TEAM_CUH
#define OPREG_SM90_ROWS32_TEAM_CUH

#include "rows32_route.cuh"
#include "rows32_team_args.h"
#include "rows32_terms.cuh"
#include "rows32_turn.cuh"

struct team_barriers {
    uint64_t x, full[TEAMS * TEAM_WAVES][TEAM_DEPTH];
};

/* What one block shares and where. */
template <class F> struct team_place {
    static const int record = F::unit == 256 ? RECORD256_BYTES : RECORD32_BYTES;
    static const int group = 32 * F::bytes;
    uint8_t *x, *stages; /* stages: the wave's                                                      */
    float *sums;         /* the team's                                                              */
    uint64_t *full;      /* the wave's                                                              */
};

/* The groups of weights of one wave, in the order of use: along a row, gate before up, then the
 * next tile of the team. */
struct group_cursor {
    uint32_t tile, which, group;
};

DEVICE uint32_t team_index() { return wave_index() / TEAM_WAVES; }
DEVICE uint32_t team_wave() { return wave_index() % TEAM_WAVES; }

DEVICE void team_barrier() {
    asm volatile("bar.sync %0, %1;" ::"r"(team_index() + 1u), "n"(32 * TEAM_WAVES) : "memory");
}

/* Tiles are dealt to blocks first. */
DEVICE uint32_t first_tile() { return block_x() + grid_x() * team_index(); }
DEVICE uint32_t next_tile(uint32_t tile) { return tile + grid_x() * TEAMS; }

DEVICE void next_group(const team_args &args, group_cursor *c) {
    c->group += TEAM_WAVES;
    if (c->group >= args.groups) {
        c->group = team_wave();
        c->which++;
        if (c->which == (args.base.pair ? 2u : 1u)) {
            c->which = 0u;
            c->tile = next_tile(c->tile);
        }
    }
}

/* Has the cursor's group copied, if there is one, and moves on. */
template <class F>
DEVICE void copy_group(const team_args &args, const team_place<F> &place, int64_t expert,
                       uint32_t tiles, group_cursor *c, uint32_t slot) {
    if (c->tile < tiles && c->group < args.groups) {
        if (lane_index() == 0u) {
            const matmul_args &a = args.base;
            const uint8_t *from = a.data[c->which] + expert * a.expert_stride[c->which] +
                                  (int64_t)c->tile * 32 * a.row_bytes +
                                  (int64_t)c->group * team_place<F>::group;
            barrier_expect(&place.full[slot], team_place<F>::group);
            bulk_copy(place.stages + slot * team_place<F>::group, from, team_place<F>::group,
                      &place.full[slot]);
        }
        next_group(args, c);
    }
}

/* The wave's sums of one output a lane: 8 outputs of rows 16 * (o / 4) + g + 8 * (o / 2 % 2). */
DEVICE void put_sums(float *sums, const float *v) {
    uint32_t g = lane_index() >> 2, t = lane_index() & 3u;
    float *to = sums + team_wave() * (8u * TEAM_COLUMN);
#pragma unroll
    for (uint32_t o = 0; o < 8u; o++) {
        to[(2u * t + o % 2u) * TEAM_COLUMN + g + 16u * (o / 4u) + 8u * (o / 2u % 2u)] = v[o];
    }
}

/* The thread's output of the team: row lane, column team_wave. */
DEVICE float take_sum(const float *sums) {
    return finish_tree<TEAM_WAVES>(sums + team_wave() * TEAM_COLUMN + lane_index(),
                                   8u * TEAM_COLUMN);
}

/* One tile; the cursor and the number of groups used so far go on from tile to tile. */
template <class F>
DEVICE float team_tile(const team_args &args, const team_place<F> &place, int64_t expert,
                       uint32_t tiles, uint32_t dialect, group_cursor *ahead, uint32_t *slot,
                       uint32_t *round) {
    uint32_t done = 0;
    float acc[4][8];
#pragma unroll
    for (int i = 0; i < 32; i++) {
        acc[i / 8][i % 8] = 0.0f;
    }
#pragma unroll 1
    for (uint32_t u = team_wave(); u < args.groups; u += TEAM_WAVES) {
        const uint8_t *group = place.stages + *slot * team_place<F>::group;
        record_columns<F> x = {place.x + u * team_place<F>::record, args.apart};
        float terms[2][1][4];
        barrier_wait(&place.full[*slot], *round & 1u);
        if constexpr (F::unit == 256) {
            superblock_terms<F, 1>(group, stored_words<F>{0}, x, terms);
#pragma unroll
            for (int o = 0; o < 8; o++) {
                turn(acc, o, acc[0][o] + terms[o / 4][0][o % 4]);
            }
            done++;
        } else {
#pragma unroll
            for (int j = 0; j < 4; j++) {
                unit_terms<F, 1>(group, dialect, x, (uint32_t)j, terms);
#pragma unroll
                for (int o = 0; o < 8; o++) {
                    acc[j][o] = acc[j][o] + terms[o / 4][0][o % 4];
                }
            }
        }
        __syncwarp();
        copy_group<F>(args, place, expert, tiles, ahead, *slot);
        (*slot)++;
        *round += *slot == args.depth;
        *slot = *slot == args.depth ? 0u : *slot;
    }
    if constexpr (F::unit == 256) {
        float sum[8];
        turn_back(acc, done);
#pragma unroll
        for (int o = 0; o < 8; o++) {
            sum[o] = sum_of_halves(acc, o);
        }
        put_sums(place.sums, sum);
        team_barrier();
        float value = take_sum(place.sums);
        team_barrier();
        return F::last(value);
    } else {
        float part[4];
#pragma unroll
        for (int i = 0; i < 4; i++) {
            put_sums(place.sums, acc[i]);
            team_barrier();
            part[i] = take_sum(place.sums);
            team_barrier();
        }
        return F::last((part[0] + part[2]) + (part[1] + part[3]));
    }
}

/* All tiles of the team against eight columns whose x is in shared memory. */
template <class F>
DEVICE void team_tiles(const team_args &args, const team_place<F> &place, int64_t expert,
                       uint32_t tiles, const columns &cols, group_cursor *ahead, uint32_t *slot,
                       uint32_t *round) {
    const matmul_args &a = args.base;
    uint32_t column = team_wave();
    for (uint32_t tile = first_tile(); tile < tiles; tile = next_tile(tile)) {
        int64_t n = (int64_t)tile * 32 + lane_index();
        float value = team_tile<F>(args, place, expert, tiles, a.side[0][expert].dialect, ahead,
                                   slot, round);
        if (a.pair) {
            float up = team_tile<F>(args, place, expert, tiles, a.side[1][expert].dialect, ahead,
                                    slot, round);
            value = canonical_glu(a.glu, value, up, a.glu_alpha, a.glu_limit);
        } else if (a.bias != 0 && n < a.n) {
            value = value + a.bias[n];
        }
        if (cols.y[column] >= 0 && n < a.n) {
            store_output(a, cols.y[column], n, cols.dead >> column & 1 ? 0.0f : value);
        }
    }
}

/* The first groups of a wave's tiles. */
template <class F>
DEVICE group_cursor start_groups(const team_args &args, const team_place<F> &place, int64_t expert,
                                 uint32_t tiles, uint32_t slot) {
    group_cursor ahead = {first_tile(), 0u, team_wave()};
    for (uint32_t i = 0; i < args.depth; i++) {
        copy_group<F>(args, place, expert, tiles, &ahead, slot);
        slot = slot + 1u == args.depth ? 0u : slot + 1u;
    }
    return ahead;
}

/* Brings the columns' records; the whole block. */
template <class F>
DEVICE void bring_columns(const team_args &args, const team_place<F> &place, const columns &cols,
                          uint64_t *barrier, uint32_t parity) {
    uint32_t bytes = args.groups * team_place<F>::record;
    if (wave_index() == 0u) {
        if (lane_index() == 0u) {
            barrier_expect(barrier, 8u * bytes);
        }
        __syncwarp();
        if (lane_index() < ROWS32_COLUMNS) {
            before_bulk_copies();
            bulk_copy(place.x + lane_index() * args.apart,
                      args.records + (int64_t)cols.x[lane_index()] * bytes, bytes, barrier);
        }
    }
    barrier_wait(barrier, parity);
}

/* Dense: grid (blocks, columns / 8).  Grouped: grid (blocks, groups). */
template <class F> DEVICE void rows32_team(const team_args &args) {
    extern __shared__ __align__(128) uint8_t shared[];
    __shared__ team_barriers barriers;
    __shared__ columns cols;
    const matmul_args &a = args.base;
    uint32_t wave = wave_index(), tiles = (uint32_t)((a.n + 31) / 32), slot = 0u, round = 0u;
    uint8_t *stages = shared + 8u * args.apart;
    uint32_t wave_bytes = args.depth * team_place<F>::group;
    team_place<F> place = {shared, stages + wave * wave_bytes,
                           (float *)(stages + TEAMS * TEAM_WAVES * wave_bytes +
                                     team_index() * TEAM_SUMS_BYTES),
                           barriers.full[wave]};
    if (a.route.header == 0) {
        let_next_launch_start();
    }
    if (lane_index() < args.depth) {
        barrier_start(&barriers.full[wave][lane_index()], 1);
    }
    if (thread_index() == 0u) {
        barrier_start(&barriers.x, 1);
    }
    barriers_started();
    if (a.route.header == 0) {
        uint32_t first = block_y() * ROWS32_COLUMNS;
        if (thread_index() < ROWS32_COLUMNS) {
            int32_t c = (int32_t)(first + thread_index());
            cols.x[thread_index()] = c < a.m ? c : (int32_t)first;
            cols.y[thread_index()] = c < a.m ? c : -1;
            cols.dead = 0;
        }
        __syncthreads();
        group_cursor ahead = start_groups<F>(args, place, 0, tiles, 0u);
        if (args.chained) {
            wait_for_launch_ahead();
        }
        bring_columns<F>(args, place, cols, &barriers.x, 0u);
        team_tiles<F>(args, place, 0, tiles, cols, &ahead, &slot, &round);
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
    int64_t weights = expert < 0 || expert >= a.experts ? 0 : expert;
    for (int32_t first = begin; first < end; first += ROWS32_COLUMNS) {
        __syncthreads();
        group_cursor ahead = start_groups<F>(args, place, weights, tiles, slot);
        if (thread_index() == 0u) {
            gather_columns(a, expert, first, end, &cols);
        }
        __syncthreads();
        bring_columns<F>(args, place, cols, &barriers.x, (uint32_t)(first - begin) / 8u & 1u);
        team_tiles<F>(args, place, weights, tiles, cols, &ahead, &slot, &round);
    }
}

#endif /* OPREG_SM90_ROWS32_TEAM_CUH */
