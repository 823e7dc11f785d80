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
    uint64_t full[DEALT_SLOTS][2]; /* for a slot's uses in turn                                     */
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
};

/* A team has the tiles team, team + teams, .. of its cluster and of each the rows of gate and up one
 * after another, or one row. */
DEVICE uint32_t rows_of_team(const dealt_args &args, uint32_t team) {
    uint32_t more = args.teams_more + (block_x() < args.more ? 1u : 0u);
    uint32_t tiles = args.tiles_each + (team < more ? 1u : 0u);
    return team >= args.teams ? 0u : args.base.pair ? 2u * tiles : tiles;
}
DEVICE int64_t tile_of_team(const dealt_args &args, uint32_t team, uint32_t row) {
    uint32_t tile = team + (args.base.pair ? row / 2u : row) * args.teams;
    return block_x() + (int64_t)tile * grid_x();
}
DEVICE uint32_t weight_of(const dealt_args &args, uint32_t row) {
    return args.base.pair ? row % 2u : 0u;
}
DEVICE uint32_t team_of_wave(const dealt_args &args) {
    return wave_index() * args.team_of >> 16;
}

/* Where sums of a team's rows are, in turn: one or two buffers. */
DEVICE uint32_t buffer_of(const dealt_args &args, uint32_t team, uint32_t row) {
    return team * args.buffers + (row & (args.buffers - 1u));
}
/* How often the buffer was used before. */
DEVICE uint32_t uses_of(const dealt_args &args, uint32_t row) {
    return row >> (args.buffers - 1u);
}
template <class F>
DEVICE float *sums_of(const dealt_args &args, const dealt_place<F> &place, uint32_t buffer) {
    return (float *)(place.shared + args.sums) + buffer * args.waves * (DEALT_SUM_BYTES(F::unit) / 4);
}

/* ---- groups of weights --------------------------------------------------------------------------------- */

/* The waves of a team take turns: wave v has the items v, v + waves, ..  An item is a group of weights, or
 * none where a row's lists are not alike long; it is brought to the team's next slot by the wave that had
 * the item `slots` ahead of it, which is the wave itself or, where slots are no multiple of waves, the one
 * half of them further on, so a wave is never more than one use of a slot ahead of those that bring. */

/* A wave's number in its team. */
DEVICE uint32_t first_list(const dealt_args &args) {
    return wave_index() - team_of_wave(args) * args.waves;
}
/* Some lists have a group more, so they go round. */
DEVICE uint32_t next_list(const dealt_args &args, uint32_t list) {
    return list + 1u == args.waves ? 0u : list + 1u;
}
/* Of the team's, whose items this wave brings. */
DEVICE uint32_t served_wave(const dealt_args &args) {
    uint32_t wave = first_list(args) + args.shift;
    return wave >= args.waves ? wave - args.waves : wave;
}

/* The next item that a worker brings, of a row of its team; rows: how many those are; piece: of 16
 * bytes, where the block's first group of the row begins. */
struct dealt_ahead {
    uint32_t row, rows, piece, list, group;
};

/* slot: of all teams; use: of the slot, from 0 on. */
template <class F>
DEVICE void copy_group(const dealt_args &args, const dealt_place<F> &place, dealt_ahead *next,
                       uint32_t slot, uint32_t use) {
    if (next->row < next->rows) {
        if (lane_index() == 0u) {
            uint32_t bytes = dealt_place<F>::group;
            uint32_t piece = next->piece + next->group * (DEALT_PARTS * bytes / 16u);
            uint64_t *full = &place.barriers->full[slot][use & 1u];
            if (next->group < place.own.count) {
                barrier_expect(full, bytes);
                bulk_copy(place.shared + DEALT_COLUMNS * args.apart + slot * bytes,
                          args.base.data[weight_of(args, next->row)] + (uint64_t)piece * 16u, bytes,
                          full);
            } else {
                barrier_arrive(full);
            }
        }
        next->group += dealt_place<F>::lists;
        if (next->group >= args.span) {
            next->row++;
            next->piece += weight_of(args, next->row) != 0u ? 0u : args.tile_step;
            next->list = next_list(args, next->list);
            next->group = next->list;
        }
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
        if (u / dealt_place<F>::lists % 2u == 0u) {
#pragma unroll
            for (int o = 0; o < 8; o++) {
                acc[0][o] = acc[0][o] + terms[o / 4][0][o % 4];
            }
        } else {
#pragma unroll
            for (int o = 0; o < 8; o++) {
                acc[1][o] = acc[1][o] + terms[o / 4][0][o % 4];
            }
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
    uint32_t team = team_of_wave(args), list = first_list(args);
    uint32_t first = team * args.slots, turn = list; /* slot and 256 times the uses before       */
    dealt_words<F> words;
    const uint8_t *stages = place.shared + DEALT_COLUMNS * args.apart;
    words.start(place.shared + args.tables);
#pragma unroll 1
    for (uint32_t row = 0u; row < ahead->rows; row++) {
        uint32_t dialect = F::unit == 32 ? args.base.side[weight_of(args, row)]->dialect : 0u;
        float acc[F::unit == 256 ? 2 : 4][8];
#pragma unroll
        for (int o = 0; o < (F::unit == 256 ? 16 : 32); o++) {
            acc[o / 8][o % 8] = 0.0f;
        }
#pragma unroll 1
        for (uint32_t u = list; u < args.span; u += dealt_place<F>::lists) {
            uint32_t slot = first + (turn & 255u), use = turn >> 8;
            barrier_wait(&place.barriers->full[slot][use & 1u], use >> 1 & 1u);
            if (u < place.own.count) {
                add_group<F>(args, place, stages + slot * dealt_place<F>::group, u, words,
                             dialect, acc);
            }
            __syncwarp();
            copy_group<F>(args, place, ahead, slot, use + 1u);
            turn += args.waves;
            turn += (turn & 255u) >= args.slots ? 256u - args.slots : 0u;
        }
        uint32_t buffer = buffer_of(args, team, row), uses = uses_of(args, row);
        if (uses != 0u) {
            barrier_wait(&place.barriers->finished[buffer], (uses - 1u) & 1u);
        }
        put_sums<F>(sums_of(args, place, buffer) + list * (DEALT_SUM_BYTES(F::unit) / 4), acc);
        barrier_arrive(&place.barriers->brought[buffer]);
        list = next_list(args, list);
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
DEVICE float4 sum_lists(uint32_t waves, const float *from) {
    float4 v[dealt_place<F>::lists];
#pragma unroll
    for (uint32_t l = 0; l < dealt_place<F>::lists; l++) {
        v[l] = l < waves ? *(const float4 *)(from + l * (DEALT_SUM_BYTES(F::unit) / 4))
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
    uint32_t rows = rows_of_team(args, team);
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
        barrier_wait(&place.barriers->brought[buffer], uses_of(args, row) & 1u);
        float4 v[2][kept];
        if (stores && which == 0u && lane == 0u) {
            barrier_expect(barrier, weights * bytes);
        }
#pragma unroll
        for (uint32_t h = 0; h < 2u; h++) {
#pragma unroll
            for (uint32_t i = 0; i < kept; i++) {
                v[h][i] = sum_lists<F>(args.waves,
                                       from + i * (DEALT_COLUMNS * DEALT_COLUMN) + h * 16u);
                if (!stores) {
                    cluster_send(others + which * bytes + h * 512u + i * 1024u, v[h][i], barrier,
                                 place.own.rank ^ 1u);
                }
            }
        }
        barrier_arrive(&place.barriers->finished[buffer]);
        if (!stores) {
            continue;
        }
        if (which == 0u) {
            cluster_wait(barrier, turn / 2u & 1u);
        }
#pragma unroll
        for (uint32_t h = 0; h < 2u; h++) {
            float4 sum[4];
#pragma unroll
            for (uint32_t i = 0; i < kept; i++) {
                sum[i] = plus(v[h][i], *(const float4 *)(others + which * bytes + h * 512u + i * 1024u));
            }
            sum[0] = kept == 4u ? plus(plus(sum[0], sum[2]), plus(sum[1], sum[3])) : sum[0];
            float value[4] = {F::last(sum[0].x), F::last(sum[0].y), F::last(sum[0].z),
                              F::last(sum[0].w)};
            if (!PLAIN && which == 1u) {
                float gate[4] = {gates[h].x, gates[h].y, gates[h].z, gates[h].w};
#pragma unroll
                for (int i = 0; i < 4; i++) {
                    value[i] = canonical_glu(a.glu, gate[i], value[i], a.glu_alpha, a.glu_limit);
                }
            }
            int64_t n = tile_of_team(args, team, row) * 32 + h * 16u + lane % 4u * 4u;
            if constexpr (PLAIN) {
                if (lane / 4u < a.m) {
                    *(float4 *)((float *)a.y + lane / 4u * a.y_stride + n) =
                        make_float4(value[0], value[1], value[2], value[3]);
                }
            } else if (which + 1u == weights) {
                store_outputs(a, together, lane / 4u, n, value);
            } else {
                gates[h] = make_float4(value[0], value[1], value[2], value[3]);
            }
        }
    }
}

/* ---- a block ---------------------------------------------------------------------------------------------- */

/* What of a block's x a wave brings first. */
struct first_runs {
    dealt_records records;
    int64_t at[DEALT_RUNS];
};
template <class F>
DEVICE void find_columns(const dealt_args &args, const dealt_place<F> &place, first_runs *x) {
    uint32_t at = shared_address(place.shared);
    asm volatile("" : "+r"(at)); /* or it is made again wherever it is used                         */
    x->records = {at, args.apart, args.column_bits};
    find_runs<F>(args.base, place.own, x->records, wave_index(), x->at);
}

/* The first items that a worker brings: the first alone, or the others, which would be in the way of x if
 * they were asked for ahead of it. */
template <class F>
DEVICE void copy_first(const dealt_args &args, const dealt_place<F> &place, dealt_ahead *ahead) {
    copy_group<F>(args, place, ahead, team_of_wave(args) * args.slots + served_wave(args), 0u);
}
template <class F>
DEVICE void copy_others(const dealt_args &args, const dealt_place<F> &place, dealt_ahead *ahead) {
    for (uint32_t i = served_wave(args) + args.waves; i < args.slots; i += args.waves) {
        copy_group<F>(args, place, ahead, team_of_wave(args) * args.slots + i, 0u);
    }
}

template <class F, bool PLAIN>
DEVICE void bring_columns(const dealt_args &args, const dealt_place<F> &place, first_runs *x) {
    constexpr int order = dealt_words<F>::order;
    const matmul_args &a = args.base;
    uint32_t runs = F::unit == 256 ? place.own.count : (place.own.count + 1u) / 2u;
    uint32_t all = runs << args.column_bits, first = wave_index();
    if (!PLAIN && a.scales != 0) {
        for (; first < all; first += DEALT_WAVES) {
            bring_planes<F, order>(a, place.own, x->records, first);
        }
        return;
    }
    uint64_t element = a.x_dtype == OPREG_F32 ? 4u : 2u;
    bool aligned = (((uintptr_t)a.x | (uint64_t)a.x_stride * element) & 15u) == 0u;
#pragma unroll 1
    for (;;) {
        float v[DEALT_RUNS][8];
        load_runs<PLAIN>(a, aligned, x->at, v);
        put_runs<F, order>(place.own, x->records, first, all, v);
        first += DEALT_WAVES * DEALT_RUNS;
        if (first >= all) {
            break;
        }
        find_runs<F>(a, place.own, x->records, first, x->at);
    }
}

/* The waves of a team start its slots' barriers, finishers the others. */
DEVICE void start_barriers(const dealt_args &args, dealt_barriers *barriers) {
    uint32_t wave = wave_index(), lane = lane_index(), buffers = args.teams * args.buffers;
    if (wave < DEALT_WORKERS) {
        uint32_t slot = served_wave(args) + lane * args.waves;
        if (team_of_wave(args) < args.teams && slot < args.slots) { /* those it brings first         */
            barrier_start(&barriers->full[team_of_wave(args) * args.slots + slot][0], 1);
            barrier_start(&barriers->full[team_of_wave(args) * args.slots + slot][1], 1);
        }
    } else if (wave == DEALT_WORKERS && lane < buffers) {
        barrier_start(&barriers->brought[lane], args.waves * 32u);
        barrier_start(&barriers->finished[lane], 32);
    } else if (wave == DEALT_WORKERS + 1u && lane < DEALT_FINISHERS) {
        barrier_start(&barriers->part[lane], 1);
    }
    barriers_started();
    __syncwarp();
}

/* Grid (clusters, 1, 2), up to eight rows of x. */
template <class F> DEVICE void rows32_dealt(const dealt_args &args) {
    extern __shared__ __align__(128) uint8_t shared[];
    __shared__ dealt_barriers barriers;
    uint32_t wave = wave_index(), rank = block_z();
    dealt_place<F> place = {&barriers, shared, {rank, (args.groups + 1u - rank) / DEALT_PARTS}};
    uint32_t team = wave < DEALT_WORKERS ? team_of_wave(args) : DEALT_WORKERS;
    uint32_t list = served_wave(args);
    dealt_ahead ahead = {0u, rows_of_team(args, team), 0u, list, list};
    ahead.piece = (uint32_t)((block_x() + (int64_t)team * grid_x()) * (args.base.row_bytes * 2) +
                             rank * (dealt_place<F>::group / 16u));
    bool plain = is_plain(args.base);
    first_runs x;
    let_next_launch_start();
    start_barriers(args, &barriers);
    copy_first<F>(args, place, &ahead);
    cluster_arrive();
    find_columns(args, place, &x);
    dealt_words<F>::fill(shared + args.tables);
    if (args.chained) {
        wait_for_launch_ahead();
    }
    if (plain) {
        bring_columns<F, true>(args, place, &x);
    } else {
        bring_columns<F, false>(args, place, &x);
    }
    copy_others(args, place, &ahead);
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
