/* SPDX-License-Identifier: MIT
 * rows32_dealt.cuh - up to eight rows of x against tiles of the layout rows32 on integer tensor cores, in
 * the canonical order: dense calls, one launch.
 *
 * A cluster of two blocks has a tile of 32 weight rows at a time, each of them every second group: block p
 * the accumulators p, p + 2, .. (units of 256) or their fours (units of 32), and the x that belongs
 * to them, which it quantizes itself.  A team of a block's waves has one row of weights of a tile; a
 * wave of it one list of groups: those of one accumulator and the one 16 further on, or of four
 * accumulators.  Finishers, waves of their own, add up the lists of a row, and one of the two blocks
 * adds the other's part. */
#ifndef OPREG_SM90_ROWS32_DEALT_CUH
#define OPREG_SM90_ROWS32_DEALT_CUH

#include "cluster.cuh"
#include "rows32_dealt_args.h"
#include "rows32_dealt_words.cuh"
#include "rows32_dealt_x.cuh"
#include "rows32_terms.cuh"

#define DEALT_COLUMNS 8

struct dealt_barriers {
    uint64_t full[DEALT_WORKERS][DEALT_DEPTH];
    uint64_t brought[DEALT_FINISHERS * DEALT_BUFFERS];  /* by the waves of a team                      */
    uint64_t finished[DEALT_FINISHERS * DEALT_BUFFERS]; /* by its finisher                               */
    uint64_t part[DEALT_FINISHERS];                   /* of the other block                          */
};

/* What a block shares and what is its share. */
template <class F> struct dealt_place {
    static const uint32_t record = F::unit == 256 ? RECORD256_BYTES : RECORD32_BYTES;
    static const uint32_t group = 32 * F::bytes;
    static const uint32_t lists = DEALT_LISTS(F::unit), kept = DEALT_KEPT(F::unit);
    dealt_barriers *barriers;
    uint8_t *shared;
    own_groups own;
    uint32_t waves, teams; /* of a team: one a list; teams: each has a finisher                     */
    uint32_t tiles;        /* of the cluster                                                        */
};

/* A team has the tiles team, team + teams, .. of its cluster and of each the rows of gate and up one
 * after another, or one row. */
template <class F>
DEVICE uint32_t rows_of_team(const dealt_args &args, const dealt_place<F> &place, uint32_t team) {
    uint32_t tiles = team < place.tiles ? (place.tiles - team + place.teams - 1u) / place.teams : 0u;
    return team >= place.teams ? 0u : args.base.pair ? 2u * tiles : tiles;
}
template <class F>
DEVICE int64_t tile_of_team(const dealt_args &args, const dealt_place<F> &place, uint32_t team,
                            uint32_t row) {
    uint32_t tile = team + (args.base.pair ? row / 2u : row) * place.teams;
    return block_x() + (int64_t)tile * grid_x();
}
DEVICE uint32_t weight_of(const dealt_args &args, uint32_t row) {
    return args.base.pair ? row % 2u : 0u;
}

/* Where sums of a team's rows are, in turn. */
DEVICE uint32_t buffer_of(const dealt_args &args, uint32_t team, uint32_t row) {
    return team * args.buffers + row % args.buffers;
}
template <class F>
DEVICE float *sums_of(const dealt_args &args, const dealt_place<F> &place, uint32_t buffer) {
    return (float *)(place.shared + args.sums) + buffer * place.waves * (DEALT_SUM_BYTES(F::unit) / 4);
}

/* ---- groups of weights --------------------------------------------------------------------------------- */

/* A worker's list of a row of its team: some have a group more, so they go round. */
template <class F> DEVICE uint32_t list_of(const dealt_place<F> &place, uint32_t row) {
    return (wave_index() + row) % place.waves;
}

/* The next group of a worker that is copied, of a row of its team; rows: how many those are. */
struct dealt_ahead {
    uint32_t row, group, rows;
};

/* Lists without groups are passed. */
template <class F> DEVICE void find_group(const dealt_place<F> &place, dealt_ahead *next) {
    while (next->group >= place.own.count && next->row < next->rows) {
        next->row++;
        next->group = list_of(place, next->row);
    }
}

template <class F>
DEVICE void copy_group(const dealt_args &args, const dealt_place<F> &place, dealt_ahead *next,
                       uint32_t slot) {
    if (next->row < next->rows) {
        if (lane_index() == 0u) {
            const matmul_args &a = args.base;
            uint32_t wave = wave_index(), bytes = dealt_place<F>::group;
            uint64_t *full = &place.barriers->full[wave][slot];
            const uint8_t *from = a.data[weight_of(args, next->row)] +
                                  tile_of_team(args, place, wave / place.waves, next->row) * 32 *
                                      a.row_bytes +
                                  (int64_t)(place.own.rank + DEALT_PARTS * next->group) * bytes;
            barrier_expect(full, bytes);
            bulk_copy(place.shared + DEALT_COLUMNS * args.apart +
                          (wave * args.depth + slot) * bytes,
                      from, bytes, full);
        }
        next->group += dealt_place<F>::lists;
        find_group(place, next);
    }
}

/* ---- workers ------------------------------------------------------------------------------------------- */

/* The terms of group u of the block. */
template <class F>
DEVICE void add_group(const dealt_args &args, const dealt_place<F> &place, const uint8_t *group,
                      uint32_t u, const dealt_words<F> &words, uint32_t dialect, float (*acc)[8]) {
    record_columns<F> x = {place.shared + u * dealt_place<F>::record, args.apart};
    float terms[2][1][4];
    if constexpr (F::unit == 256) { /* the two accumulators in turn */
        superblock_terms<F, 1>(group, words, x, terms);
#pragma unroll
        for (int o = 0; o < 8; o++) {
            float sum = acc[0][o] + terms[o / 4][0][o % 4];
            acc[0][o] = acc[1][o];
            acc[1][o] = sum;
        }
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
}

/* 8 outputs of rows 16 * (o / 4) + g + 8 * (o / 2 % 2), of each accumulator that is kept. */
template <class F> DEVICE void put_sums(float *sums, float (*acc)[8]) {
    uint32_t g = lane_index() >> 2, t = lane_index() & 3u;
#pragma unroll
    for (uint32_t o = 0; o < 8u; o++) {
        float *to = sums + (2u * t + o % 2u) * DEALT_COLUMN + g + 16u * (o / 4u) + 8u * (o / 2u % 2u);
        if constexpr (F::unit == 256) {
            to[0] = acc[0][o] + acc[1][o];
        } else {
#pragma unroll
            for (int i = 0; i < 4; i++) {
                to[i * DEALT_COLUMNS * DEALT_COLUMN] = acc[i][o];
            }
        }
    }
}

/* A worker's list of all rows of its team. */
template <class F>
DEVICE void work(const dealt_args &args, const dealt_place<F> &place, dealt_ahead *ahead) {
    uint32_t wave = wave_index(), team = wave / place.waves;
    uint32_t slot = 0u, round = 0u;
    dealt_words<F> words;
    const uint8_t *stages = place.shared + DEALT_COLUMNS * args.apart +
                            wave * args.depth * dealt_place<F>::group;
    words.start(place.shared + args.tables);
#pragma unroll 1
    for (uint32_t row = 0u; row < ahead->rows; row++) {
        uint32_t list = list_of(place, row);
        uint32_t dialect = F::unit == 32 ? args.base.side[weight_of(args, row)]->dialect : 0u;
        float acc[F::unit == 256 ? 2 : 4][8];
#pragma unroll
        for (int o = 0; o < (F::unit == 256 ? 16 : 32); o++) {
            acc[o / 8][o % 8] = 0.0f;
        }
#pragma unroll 1
        for (uint32_t u = list; u < place.own.count; u += dealt_place<F>::lists) {
            barrier_wait(&place.barriers->full[wave][slot], round & 1u);
            add_group<F>(args, place, stages + slot * dealt_place<F>::group, u, words, dialect,
                         acc);
            __syncwarp();
            copy_group<F>(args, place, ahead, slot);
            slot++;
            round += slot == args.depth;
            slot = slot == args.depth ? 0u : slot;
        }
        uint32_t buffer = buffer_of(args, team, row);
        if (row >= args.buffers) {
            barrier_wait(&place.barriers->finished[buffer], (row / args.buffers - 1u) & 1u);
        }
        put_sums<F>(sums_of(args, place, buffer) + list * (DEALT_SUM_BYTES(F::unit) / 4), acc);
        barrier_arrive(&place.barriers->brought[buffer]);
    }
}

/* ---- finishers ------------------------------------------------------------------------------------------ */

/* The calls that most engines make have code of their own: f32 in and out, in pieces of 16 bytes, of
 * whole tiles. */
DEVICE bool is_plain(const matmul_args &a) {
    return !a.pair && a.bias == 0 && a.scales == 0 && a.x_dtype == OPREG_F32 &&
           a.y_dtype == OPREG_F32 && a.n % 32 == 0 &&
           (((uintptr_t)a.x | (uint64_t)a.x_stride * 4u | (uintptr_t)a.y |
             (uint64_t)a.y_stride * 4u) &
            15u) == 0u;
}

/* A lane's outputs: column lane / 4, rows 16h + 4 * (lane % 4) .. + 3, h = 0, 1. */
MEMBER float4 plus(float4 a, float4 b) {
    return make_float4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w);
}

/* The tree over the block's lists of one accumulator each; lists without groups are +0. */
template <class F>
DEVICE float4 sum_lists(const dealt_place<F> &place, const float *from) {
    float4 v[dealt_place<F>::lists];
#pragma unroll
    for (uint32_t l = 0; l < dealt_place<F>::lists; l++) {
        v[l] = l < place.waves ? *(const float4 *)(from + l * (DEALT_SUM_BYTES(F::unit) / 4))
                               : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    }
#pragma unroll
    for (uint32_t s = dealt_place<F>::lists / 2; s > 0; s /= 2) {
#pragma unroll
        for (uint32_t l = 0; l < s; l++) {
            v[l] = plus(v[l], v[l + s]);
        }
    }
    return v[0];
}

/* Four outputs of a column from row n of the weights on; together: as 16 bytes. */
DEVICE void store_outputs(const matmul_args &a, bool together, int64_t m, int64_t n, const float *v) {
    if (m >= a.m) {
        return;
    }
    if (together && n + 4 <= a.n) {
        *(float4 *)((float *)a.y + m * a.y_stride + n) = make_float4(v[0], v[1], v[2], v[3]);
        return;
    }
#pragma unroll
    for (int i = 0; i < 4; i++) {
        if (n + i < a.n) {
            store_output(a, m, n + i, !a.pair && a.bias != 0 ? v[i] + a.bias[n + i] : v[i]);
        }
    }
}

/* All rows of a team.  The blocks take turns in storing a tile, so what one sends has been taken before
 * it sends again. */
template <class F, bool PLAIN>
DEVICE void finish(const dealt_args &args, const dealt_place<F> &place, uint32_t team) {
    constexpr uint32_t kept = DEALT_KEPT(F::unit), bytes = DEALT_PART_BYTES(F::unit);
    const matmul_args &a = args.base;
    uint32_t weights = !PLAIN && a.pair ? 2u : 1u, lane = lane_index();
    uint32_t rows = rows_of_team(args, place, team);
    uint64_t *barrier = &place.barriers->part[team];
    uint8_t *others = place.shared + args.parts + team * weights * bytes + lane * 16u;
    bool together = a.y_dtype == OPREG_F32 && (a.pair || a.bias == 0) &&
                    (((uintptr_t)a.y | (uint64_t)a.y_stride * 4u) & 15u) == 0u;
    float4 gates[2];
#pragma unroll 1
    for (uint32_t row = 0u; row < rows; row++) {
        uint32_t which = PLAIN ? 0u : weight_of(args, row);
        uint32_t turn = !PLAIN && a.pair ? row / 2u : row;
        uint32_t buffer = buffer_of(args, team, row);
        bool stores = (turn & 1u) == place.own.rank;
        const float *from = sums_of(args, place, buffer) + lane / 4u * DEALT_COLUMN + lane % 4u * 4u;
        barrier_wait(&place.barriers->brought[buffer], row / args.buffers & 1u);
        if (stores && which == 0u) {
            if (lane == 0u) {
                barrier_expect(barrier, weights * bytes);
            }
            cluster_wait(barrier, turn / 2u & 1u);
        }
#pragma unroll 1
        for (uint32_t h = 0; h < 2u; h++) {
            uint8_t *other = others + which * bytes + h * 512u;
            float4 v[4];
#pragma unroll
            for (uint32_t i = 0; i < kept; i++) {
                v[i] = sum_lists<F>(place, from + i * (DEALT_COLUMNS * DEALT_COLUMN) + h * 16u);
                if (!stores) {
                    cluster_send(other + i * 1024u, v[i], barrier, place.own.rank ^ 1u);
                } else {
                    v[i] = plus(v[i], *(const float4 *)(other + i * 1024u));
                }
            }
            if (!stores) {
                continue;
            }
            v[0] = kept == 4u ? plus(plus(v[0], v[2]), plus(v[1], v[3])) : v[0];
            float value[4] = {F::last(v[0].x), F::last(v[0].y), F::last(v[0].z), F::last(v[0].w)};
            if (!PLAIN && which == 1u) {
                float4 g = h ? gates[1] : gates[0];
                float gate[4] = {g.x, g.y, g.z, g.w};
#pragma unroll
                for (int i = 0; i < 4; i++) {
                    value[i] = canonical_glu(a.glu, gate[i], value[i], a.glu_alpha, a.glu_limit);
                }
            }
            if constexpr (PLAIN) {
                if (lane / 4u < a.m) {
                    int64_t tile = tile_of_team(args, place, team, row);
                    int64_t n = tile * 32 + h * 16u + lane % 4u * 4u;
                    *(float4 *)((float *)a.y + lane / 4u * a.y_stride + n) =
                        make_float4(value[0], value[1], value[2], value[3]);
                }
            } else if (which + 1u == weights) {
                store_outputs(a, together, lane / 4u,
                              tile_of_team(args, place, team, row) * 32 + h * 16u + lane % 4u * 4u,
                              value);
            } else {
                gates[0] = h ? gates[0] : make_float4(value[0], value[1], value[2], value[3]);
                gates[1] = h ? make_float4(value[0], value[1], value[2], value[3]) : gates[1];
            }
        }
        barrier_arrive(&place.barriers->finished[buffer]);
    }
}

/* ---- a block ---------------------------------------------------------------------------------------------- */

/* Every wave has runs of one row, so that none divides by more than the rows. */
template <class F, bool PLAIN>
DEVICE void bring_columns(const dealt_args &args, const dealt_place<F> &place) {
    const matmul_args &a = args.base;
    uint32_t columns = (uint32_t)a.m, waves = DEALT_THREADS / 32u;
    uint32_t row = wave_index() % columns, first = wave_index() / columns, step = waves / columns;
    uint32_t runs = F::unit == 256 ? place.own.count : (place.own.count + 1u) / 2u;
    uint8_t *records = place.shared + row * args.apart;
    if (first >= step) {
        return;
    }
    if (!PLAIN && a.scales != 0) {
        for (uint32_t run = first; run < runs; run += step) {
            bring_planes<F, dealt_words<F>::order>(a, row, place.own, run, records);
        }
        return;
    }
    uint64_t element = a.x_dtype == OPREG_F32 ? 4u : 2u;
    bool aligned = (((uintptr_t)a.x | (uint64_t)a.x_stride * element) & 15u) == 0u;
    for (uint32_t run = first; run < runs; run += step * DEALT_RUNS) {
        bring_runs<F, dealt_words<F>::order, PLAIN>(a, row, aligned, place.own, run, step, records);
    }
}

/* A worker starts the barriers of its groups, finishers the others. */
template <class F>
DEVICE void start_barriers(const dealt_args &args, const dealt_place<F> &place) {
    uint32_t wave = wave_index(), lane = lane_index(), buffers = place.teams * args.buffers;
    if (wave < DEALT_WORKERS) {
        if (lane < args.depth) {
            barrier_start(&place.barriers->full[wave][lane], 1);
        }
    } else if (wave == DEALT_WORKERS && lane < buffers) {
        barrier_start(&place.barriers->brought[lane], place.waves * 32u);
        barrier_start(&place.barriers->finished[lane], 32);
    } else if (wave == DEALT_WORKERS + 1u && lane < DEALT_FINISHERS) {
        barrier_start(&place.barriers->part[lane], 1);
    }
    barriers_started();
    __syncwarp();
}

/* Grid (clusters, 1, 2), up to eight rows of x. */
template <class F> DEVICE void rows32_dealt(const dealt_args &args) {
    extern __shared__ __align__(128) uint8_t shared[];
    __shared__ dealt_barriers barriers;
    uint32_t wave = wave_index(), tiles = (uint32_t)((args.base.n + 31) / 32);
    uint32_t rank = block_z(), lists = dealt_place<F>::lists;
    uint32_t count = args.groups > rank ? (args.groups - rank + 1u) / DEALT_PARTS : 0u;
    dealt_place<F> place = {&barriers, shared, {rank, DEALT_PARTS, count}};
    place.waves = (args.groups + 1u) / DEALT_PARTS < lists ? (args.groups + 1u) / DEALT_PARTS : lists;
    place.teams = DEALT_WORKERS / place.waves < DEALT_FINISHERS ? DEALT_WORKERS / place.waves
                                                                : DEALT_FINISHERS;
    place.tiles = block_x() < tiles ? (tiles - block_x() + grid_x() - 1u) / grid_x() : 0u;
    dealt_ahead ahead = {0u, list_of(place, 0u), 0u};
    bool plain = is_plain(args.base);
    let_next_launch_start();
    if (wave < DEALT_WORKERS) {
        ahead.rows = rows_of_team(args, place, wave / place.waves);
    }
    start_barriers<F>(args, place);
    find_group(place, &ahead);
    for (uint32_t i = 0; i < args.early; i++) {
        copy_group<F>(args, place, &ahead, i);
    }
    cluster_arrive();
    dealt_words<F>::fill(shared + args.tables);
    if (args.chained) {
        wait_for_launch_ahead();
    }
    if (plain) {
        bring_columns<F, true>(args, place);
    } else {
        bring_columns<F, false>(args, place);
    }
    for (uint32_t i = args.early; i < args.depth; i++) { /* before x they would be in its way        */
        copy_group<F>(args, place, &ahead, i);
    }
    cluster_leave();
    __syncthreads();
    if (wave < DEALT_WORKERS) {
        work<F>(args, place, &ahead);
    } else if (plain) {
        finish<F, true>(args, place, wave - DEALT_WORKERS);
    } else {
        finish<F, false>(args, place, wave - DEALT_WORKERS);
    }
    cluster_arrive(); /* the other block sends until then                                          */
    cluster_leave();
}

#endif /* OPREG_SM90_ROWS32_DEALT_CUH */
