/* SPDX-License-Identifier: MIT
 * rows32_tiled_copies.cuh - the stages of rows32_tiled and rows32_tiled_int: a group of a block's rows and the
 * records of its columns, copied to shared memory by bulk, each wave its share. */
#ifndef OPREG_SM90_ROWS32_TILED_COPIES_CUH
#define OPREG_SM90_ROWS32_TILED_COPIES_CUH

#include "rows32_terms.cuh"
#include "rows32_tiled_args.h"
#include "unit_order.cuh"

/* How a stage lies in shared memory: SETS of 64 columns. */
template <class F, int SETS> struct tiled_stage {
    static const int block = F::unit == 256 ? BLOCK256_BYTES : BLOCK32_BYTES; /* eight columns          */
    static const int set = TILED_COLUMNS / 8 * block;
    static const int tile = 32 * F::bytes;
    static const int weights = TILED_ROWS / 32 * tile;
    static const int bytes = weights + SETS * set;
};

struct tiled_barriers {
    uint64_t full[TILED_STAGES], empty[TILED_STAGES];
};

/* What a block has in shared memory. */
struct tiled_place {
    uint8_t *stages, *kept;
    const uint32_t *visits; /* of a row, in order; null: its groups from `first` on, ascending      */
    const uint32_t *table;  /* the lane's                                                           */
    tiled_barriers *barriers;
    uint32_t first, units;  /* units: that the block visits                                         */
};

/* Where a sequence of stages has come to: unit of a row as they are visited, of which weight; its stage
 * and how often that was used before. */
struct stage_cursor {
    uint32_t unit, which, at, round;
};

DEVICE void next_stage(const tiled_args &args, const tiled_place &place, stage_cursor *c) {
    bool wraps = c->at + 1u == args.stages, ends = c->unit + 1u == place.units;
    c->at = wraps ? 0u : c->at + 1u;
    c->round += wraps;
    c->unit = ends ? 0u : c->unit + 1u;
    c->which += ends;
}

DEVICE bool has_stage(const tiled_args &args, const stage_cursor &c) {
    return c.which < (args.base.pair ? 2u : 1u);
}

/* ---- copies ------------------------------------------------------------------------------------------ */

/* One wave's share of a stage: waves 0 .. 3 a tile of weights each, the next ones a set of columns. */
template <class F, int SETS>
DEVICE void copy_share(const tiled_args &args, const tiled_place &place, const stage_cursor &c) {
    typedef tiled_stage<F, SETS> shape;
    const matmul_args &a = args.base;
    uint32_t wave = wave_index(), last = (uint32_t)((a.n + 31) / 32) - 1u;
    uint8_t *stage = place.stages + c.at * shape::bytes;
    uint64_t *full = &place.barriers->full[c.at];
    uint32_t unit = place.visits != 0 ? visited_unit(place.visits[c.unit]) : place.first + c.unit;
    if (lane_index() != 0u) {
        return;
    }
    if (wave < TILED_ROWS / 32) {
        uint32_t tile = block_y() * (TILED_ROWS / 32) + wave;
        tile = tile < last ? tile : last;
        const uint8_t *from = a.data[c.which] + (int64_t)tile * 32 * a.row_bytes;
        barrier_expect(full, shape::tile);
        bulk_copy(stage + wave * shape::tile, from + (int64_t)unit * shape::tile, shape::tile,
                  full);
    } else if (wave < TILED_ROWS / 32 + SETS) {
        uint32_t part = wave - TILED_ROWS / 32, set = block_x() * SETS + part;
        uint32_t sets = (uint32_t)((a.m + TILED_COLUMNS - 1) / TILED_COLUMNS);
        set = set < sets ? set : sets - 1u;
        barrier_expect(full, shape::set);
        bulk_copy(stage + shape::weights + part * shape::set,
                  args.records + ((int64_t)set * args.units + unit) * shape::set, shape::set, full);
    }
}

/* The first stages.  The weights of one are asked for before the launch ahead has ended, which made x. */
template <class F, int SETS>
DEVICE stage_cursor start_stages(const tiled_args &args, const tiled_place &place) {
    stage_cursor ahead = {0u, 0u, 0u, 0u};
    bool has_weights = wave_index() < TILED_ROWS / 32;
    if (has_weights) {
        copy_share<F, SETS>(args, place, ahead);
    }
    if (args.chained) {
        wait_for_launch_ahead();
    }
    before_bulk_copies();
    for (uint32_t i = 0; i < args.stages && has_stage(args, ahead); i++) {
        if (i > 0u || !has_weights) {
            copy_share<F, SETS>(args, place, ahead);
        }
        next_stage(args, place, &ahead);
    }
    return ahead;
}

/* The wave leaves a stage and brings its share of the next one to a stage that it left before, as soon as
 * all waves have left that: the last but one of four or more stages, the last of three, of two this one. */
template <class F, int SETS>
DEVICE void leave_stage(const tiled_args &args, const tiled_place &place, stage_cursor *now,
                        stage_cursor *ahead) {
    uint32_t used = now->which * place.units + now->unit, behind = args.stages - 2u;
    barrier_arrive(&place.barriers->empty[now->at]); /* every lane: no tool follows one for a wave */
    if (used >= behind && has_stage(args, *ahead)) {
        barrier_wait(&place.barriers->empty[ahead->at], (ahead->round - 1u) & 1u);
        copy_share<F, SETS>(args, place, *ahead);
        next_stage(args, place, ahead);
    }
    next_stage(args, place, now);
}

/* The wave's part of a stage. */
struct tiled_part {
    const uint8_t *tile; /* of 32 weight rows                                                       */
    const uint8_t *x;
    uint32_t row;        /* the lane's first in the tile; the other is 8 further on                */
    const uint32_t *table;
};

/* Waits for the stage at hand. */
template <class F, int SETS>
DEVICE tiled_part enter_stage(const tiled_place &place, const stage_cursor &now) {
    typedef tiled_stage<F, SETS> shape;
    const uint8_t *stage = place.stages + now.at * shape::bytes;
    barrier_wait(&place.barriers->full[now.at], now.round & 1u);
    return {stage + wave_index() / 2u * shape::tile, stage + shape::weights,
            wave_index() % 2u * 16u + (lane_index() >> 2), place.table};
}

/* Barriers of the block; a block barrier has to follow. */
template <int SETS> DEVICE void start_barriers(const tiled_args &args, tiled_barriers *barriers) {
    if (thread_index() == 0u) {
        for (uint32_t i = 0; i < args.stages; i++) {
            barrier_start(&barriers->full[i], TILED_ROWS / 32 + SETS); /* waves with a share         */
            barrier_start(&barriers->empty[i], TILED_WAVES * 32);
        }
        barriers_started();
    }
}

#endif /* OPREG_SM90_ROWS32_TILED_COPIES_CUH */
