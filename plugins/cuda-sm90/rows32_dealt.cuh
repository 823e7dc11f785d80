/* SPDX-License-Identifier: MIT
 * rows32_dealt.cuh - rows32_team for dense calls whose groups its waves would share unevenly, formats of
 * units of 256.
 *
 * The groups v, v + 16, .. of a row of weights are list v, which holds the accumulators v and v + 16.
 * Lists of all of a block's tiles are dealt to its waves one by one; sums of several tiles are kept,
 * and a wave adds up one column of every second tile when all lists of that have come, so that no wave
 * waits for another. */
#ifndef OPREG_SM90_ROWS32_DEALT_CUH
#define OPREG_SM90_ROWS32_DEALT_CUH

#include "rows32_dealt_args.h"
#include "rows32_terms.cuh"

#define DEALT_COLUMNS 8

struct dealt_shared {
    uint64_t x, full[DEALT_WAVES][DEALT_DEPTH];
    uint32_t brought[DEALT_BUFFERS];  /* lists that came to a buffer, of all its tiles      */
    uint32_t finished[DEALT_BUFFERS]; /* columns that were added up from it                */
};

/* What a block shares and which tiles it has. */
struct dealt_place {
    dealt_shared *common;
    uint8_t *x, *stages; /* stages: the wave's                                                      */
    float *sums;
    uint32_t lists;      /* of a row that have groups                                               */
    uint32_t tiles;      /* of the block                                                            */
    uint32_t first;      /* row of x                                                                */
};

/* A wave's list of groups: tile in the block's order, gate or up, list and the next group of it. */
struct dealt_list {
    uint32_t tile, which, list, group;
};

DEVICE uint32_t tile_number(uint32_t tile) { return block_x() + tile * grid_x(); }

/* Where the wave's next list is: a row of weights, counted by the block, and its list. */
struct dealt_turn {
    uint32_t row, at;
};

DEVICE dealt_list next_list(const dealt_args &args, const dealt_place &place, dealt_turn *turn) {
    while (turn->at >= place.lists) {
        turn->at -= place.lists;
        turn->row++;
    }
    uint32_t at = turn->at;
    turn->at += DEALT_WAVES;
    return {args.base.pair ? turn->row / 2u : turn->row, args.base.pair ? turn->row % 2u : 0u, at, at};
}

/* The stages of a wave in turn: the list whose next group is copied, what each stage holds, the stage in
 * use and how often all were. */
struct dealt_stages {
    dealt_list ahead, holds[DEALT_DEPTH]; /* holds: from the stage in use on                          */
    uint32_t slot, round;
    dealt_turn turn;
};

/* Has the next group copied to a stage, if there is one. */
template <class F>
DEVICE dealt_list copy_group(const dealt_args &args, const dealt_place &place, dealt_stages *s,
                            uint32_t slot) {
    const matmul_args &a = args.base;
    dealt_list taken = s->ahead;
    if (taken.tile < place.tiles) {
        if (lane_index() == 0u) {
            uint64_t *full = &place.common->full[wave_index()][slot];
            const uint8_t *from = a.data[taken.which] +
                                  (int64_t)tile_number(taken.tile) * 32 * a.row_bytes +
                                  (int64_t)taken.group * (32 * F::bytes);
            barrier_expect(full, (32 * F::bytes));
            bulk_copy(place.stages + slot * (32 * F::bytes), from, (32 * F::bytes), full);
        }
        s->ahead.group += DEALT_LISTS;
        if (s->ahead.group >= args.groups) {
            s->ahead = next_list(args, place, &s->turn);
        }
    }
    return taken;
}

/* The first group of the wave; the others behind x, which they would only be in the way of. */
template <class F>
DEVICE void start_groups(const dealt_args &args, const dealt_place &place, dealt_stages *s) {
    uint32_t slot = s->slot;
    s->turn = {0u, wave_index()};
    s->ahead = next_list(args, place, &s->turn);
    s->holds[0] = copy_group<F>(args, place, s, slot);
}

template <class F>
DEVICE void more_groups(const dealt_args &args, const dealt_place &place, dealt_stages *s) {
    uint32_t slot = s->slot;
#pragma unroll
    for (uint32_t i = 1; i < DEALT_DEPTH; i++) {
        slot = slot + 1u == args.depth ? 0u : slot + 1u;
        if (i < args.depth) {
            s->holds[i] = copy_group<F>(args, place, s, slot);
        }
    }
}

/* The stage in use takes the next group, and the one behind it is in use. */
template <class F>
DEVICE void leave_group(const dealt_args &args, const dealt_place &place, dealt_stages *s) {
    __syncwarp();
    dealt_list more = copy_group<F>(args, place, s, s->slot);
#pragma unroll
    for (uint32_t i = 0; i < DEALT_DEPTH; i++) {
        s->holds[i] = i + 1u == args.depth ? more : s->holds[i + 1u < DEALT_DEPTH ? i + 1u : i];
    }
    s->slot++;
    s->round += s->slot == args.depth;
    s->slot = s->slot == args.depth ? 0u : s->slot;
}

/* ---- sums ------------------------------------------------------------------------------------------- */

/* Sets of sums: one for each weight of a tile, `buffers` tiles at once. */
DEVICE float *sums_of(const dealt_place &place, uint32_t set, uint32_t list) {
    return place.sums + (set * place.lists + list) * (DEALT_COLUMNS * DEALT_COLUMN);
}

/* 8 outputs of rows 16 * (o / 4) + g + 8 * (o / 2 % 2). */
DEVICE void put_sums(float *sums, const float *v) {
    uint32_t g = lane_index() >> 2, t = lane_index() & 3u;
#pragma unroll
    for (uint32_t o = 0; o < 8u; o++) {
        sums[(2u * t + o % 2u) * DEALT_COLUMN + g + 16u * (o / 4u) + 8u * (o / 2u % 2u)] = v[o];
    }
}

/* The output of row lane and one column; lists without groups are +0. */
template <class F> DEVICE float take_sum(const dealt_place &place, uint32_t set, uint32_t column) {
    const float *from = sums_of(place, set, 0u) + column * DEALT_COLUMN + lane_index();
    float v[DEALT_LISTS];
#pragma unroll
    for (uint32_t l = 0; l < DEALT_LISTS; l++) {
        v[l] = l < place.lists ? from[l * (DEALT_COLUMNS * DEALT_COLUMN)] : 0.0f;
    }
    return F::last(tree_of<DEALT_LISTS>(v));
}

/* A wave's share of the tree: one column of every second tile. */
struct dealt_duty {
    uint32_t tile, column;
};

template <class F>
DEVICE void finish_column(const dealt_args &args, const dealt_place &place, uint32_t tile,
                          uint32_t set, uint32_t column) {
    const matmul_args &a = args.base;
    int64_t n = (int64_t)tile_number(tile) * 32 + lane_index(), m = place.first + column;
    float value = take_sum<F>(place, set, column);
    if (a.pair) {
        value = canonical_glu(a.glu, value, take_sum<F>(place, set + 1u, column), a.glu_alpha,
                              a.glu_limit);
    } else if (a.bias != 0 && n < a.n) {
        value = value + a.bias[n];
    }
    if (m < a.m && n < a.n) {
        store_output(a, m, n, value);
    }
}

/* Counts in shared memory that only grow: a wave may be more than one tile ahead, which the two phases
 * of a barrier could not tell apart. */
DEVICE uint32_t load_count(const uint32_t *count) {
    uint32_t now;
    asm volatile("ld.acquire.cta.shared.u32 %0, [%1];"
                 : "=r"(now)
                 : "r"(shared_address(count))
                 : "memory");
    return now;
}
DEVICE void add_count(uint32_t *count) {
    asm volatile("red.release.cta.shared.add.u32 [%0], 1;" ::"r"(shared_address(count)) : "memory");
}

/* The wave's column of its next tile, if all lists of that have come. */
template <class F>
DEVICE void do_duty(const dealt_args &args, const dealt_place &place, dealt_duty *duty) {
    uint32_t weights = args.base.pair ? 2u : 1u;
    uint32_t buffer = duty->tile % args.buffers, uses = duty->tile / args.buffers;
    if (duty->tile < place.tiles &&
        load_count(&place.common->brought[buffer]) >= (uses + 1u) * place.lists * weights) {
        finish_column<F>(args, place, duty->tile, buffer * weights, duty->column);
        __syncwarp();
        if (lane_index() == 0u) {
            add_count(&place.common->finished[buffer]);
        }
        duty->tile += 2u;
    }
}

/* The sums of a list that has ended; clears them. */
template <class F>
DEVICE void bring_sums(const dealt_args &args, const dealt_place &place, const dealt_list &list,
                       float (*acc)[8], dealt_duty *duty) {
    uint32_t weights = args.base.pair ? 2u : 1u;
    uint32_t buffer = list.tile % args.buffers, uses = list.tile / args.buffers;
    while (load_count(&place.common->finished[buffer]) < 8u * uses) {
        do_duty<F>(args, place, duty);
    }
    float *to = sums_of(place, buffer * weights + list.which, list.list);
    float sum[8];
#pragma unroll
    for (int o = 0; o < 8; o++) {
        sum[o] = acc[0][o] + acc[1][o];
        acc[0][o] = 0.0f;
        acc[1][o] = 0.0f;
    }
    put_sums(to, sum);
    __syncwarp();
    if (lane_index() == 0u) {
        add_count(&place.common->brought[buffer]);
    }
}

/* ---- tiles ------------------------------------------------------------------------------------------ */

/* All lists that the wave is dealt, and its columns of the tree. */
template <class F>
DEVICE void dealt_lists(const dealt_args &args, const dealt_place &place, dealt_stages *s) {
    dealt_duty duty = {wave_index() / DEALT_COLUMNS, wave_index() % DEALT_COLUMNS};
    float acc[2][8];
#pragma unroll
    for (int o = 0; o < 16; o++) {
        acc[o / 8][o % 8] = 0.0f;
    }
#pragma unroll 1
    while (s->holds[0].tile < place.tiles) {
        dealt_list now = s->holds[0];
        const uint8_t *group = place.stages + s->slot * (32 * F::bytes);
        record_columns<F> x = {place.x + now.group * RECORD256_BYTES, args.apart};
        float terms[2][1][4];
        barrier_wait(&place.common->full[wave_index()][s->slot], s->round & 1u);
        superblock_terms<F, 1>(group, 0, x, terms);
#pragma unroll
        for (int o = 0; o < 8; o++) { /* the two accumulators in turn */
            float sum = acc[0][o] + terms[o / 4][0][o % 4];
            acc[0][o] = acc[1][o];
            acc[1][o] = sum;
        }
        leave_group<F>(args, place, s);
        if (now.group + DEALT_LISTS >= args.groups) {
            bring_sums<F>(args, place, now, acc, &duty);
        }
        do_duty<F>(args, place, &duty);
    }
    while (duty.tile < place.tiles) {
        do_duty<F>(args, place, &duty);
    }
}

/* Brings the columns' records, missing ones as the first, and the wave's later groups behind them. */
template <class F>
DEVICE void bring_columns(const dealt_args &args, const dealt_place &place, dealt_stages *s) {
    uint32_t bytes = args.groups * RECORD256_BYTES, column = place.first + lane_index();
    if (wave_index() == 0u) {
        if (lane_index() == 0u) {
            barrier_expect(&place.common->x, DEALT_COLUMNS * bytes);
        }
        __syncwarp();
        if (lane_index() < DEALT_COLUMNS) {
            column = column < args.base.m ? column : place.first;
            before_bulk_copies();
            bulk_copy(place.x + lane_index() * args.apart, args.records + (int64_t)column * bytes,
                      bytes, &place.common->x);
        }
    }
    more_groups<F>(args, place, s);
    barrier_wait(&place.common->x, 0u);
}

/* Grid (blocks, columns / 8). */
template <class F> DEVICE void rows32_dealt(const dealt_args &args) {
    extern __shared__ __align__(128) uint8_t shared[];
    __shared__ dealt_shared common;
    uint32_t wave = wave_index(), tiles = (uint32_t)((args.base.n + 31) / 32);
    uint8_t *stages = shared + DEALT_COLUMNS * args.apart;
    dealt_place place = {&common,
                         shared,
                         stages + wave * args.depth * (32 * F::bytes),
                         (float *)(stages + DEALT_WAVES * args.depth * (32 * F::bytes)),
                         args.groups < DEALT_LISTS ? args.groups : DEALT_LISTS,
                         block_x() < tiles ? (tiles - block_x() + grid_x() - 1u) / grid_x() : 0u,
                         block_y() * DEALT_COLUMNS};
    dealt_stages s;
    s.slot = 0u;
    s.round = 0u;
    let_next_launch_start();
    if (lane_index() < args.depth) {
        barrier_start(&common.full[wave][lane_index()], 1);
    }
    if (thread_index() < DEALT_BUFFERS) {
        common.brought[thread_index()] = 0u;
        common.finished[thread_index()] = 0u;
    }
    if (thread_index() == 0u) {
        barrier_start(&common.x, 1);
    }
    barriers_started();
    __syncthreads();
    start_groups<F>(args, place, &s);
    if (args.chained) {
        wait_for_launch_ahead();
    }
    bring_columns<F>(args, place, &s);
    dealt_lists<F>(args, place, &s);
}

#endif /* OPREG_SM90_ROWS32_DEALT_CUH */
