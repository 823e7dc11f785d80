/* SPDX-License-Identifier: MIT
 * rows32_tiled_copies.cuh - the stages of rows32_tiled: a superblock of a block's rows and the records of
 * its columns, copied to shared memory by bulk, each wave its share. */
#ifndef OPREG_SM90_ROWS32_TILED_COPIES_CUH
#define OPREG_SM90_ROWS32_TILED_COPIES_CUH

#include "rows32_terms.cuh"
#include "rows32_tiled_args.h"
#include "unit_order.cuh"

/* How a stage lies in shared memory. */
template <class F> struct tiled_stage {
    static const int columns = TILED_COLUMNS / 8 * BLOCK256_BYTES;
    static const int tile = 32 * F::bytes;
    static const int weights = TILED_ROWS / 32 * tile;
    static const int bytes = weights + columns;
};

struct tiled_barriers {
    uint64_t full[TILED_STAGES], empty[TILED_STAGES];
};

/* What a block has in shared memory. */
struct tiled_place {
    uint8_t *stages, *kept;
    const uint32_t *visits; /* of a row, in order                                                   */
    const uint32_t *table;  /* the lane's                                                           */
    tiled_barriers *barriers;
};

/* Where a sequence of stages has come to: unit of a row as they are visited, of which weight; its stage
 * and how often that was used before. */
struct stage_cursor {
    uint32_t unit, which, at, round;
};

DEVICE void next_stage(const tiled_args &args, stage_cursor *c) {
    bool wraps = c->at + 1u == args.stages, ends = c->unit + 1u == args.units;
    c->at = wraps ? 0u : c->at + 1u;
    c->round += wraps;
    c->unit = ends ? 0u : c->unit + 1u;
    c->which += ends;
}

DEVICE bool has_stage(const tiled_args &args, const stage_cursor &c) {
    return c.which < (args.base.pair ? 2u : 1u);
}

/* ---- copies ------------------------------------------------------------------------------------------ */

/* One wave's share of a stage: waves 0 .. 3 a tile of weights each, wave 4 the columns. */
template <class F>
DEVICE void copy_share(const tiled_args &args, const tiled_place &place, const stage_cursor &c) {
    typedef tiled_stage<F> shape;
    const matmul_args &a = args.base;
    uint32_t lane = lane_index(), wave = wave_index(), last = (uint32_t)((a.n + 31) / 32) - 1u;
    uint8_t *stage = place.stages + c.at * shape::bytes;
    uint64_t *full = &place.barriers->full[c.at];
    uint32_t unit = visited_unit(place.visits[c.unit]);
    if (lane != 0u) {
        return;
    }
    if (wave < TILED_ROWS / 32) {
        uint32_t tile = block_y() * (TILED_ROWS / 32) + wave;
        tile = tile < last ? tile : last;
        const uint8_t *from = a.data[c.which] + (int64_t)tile * 32 * a.row_bytes;
        barrier_expect(full, shape::tile);
        bulk_copy(stage + wave * shape::tile, from + (int64_t)unit * shape::tile, shape::tile,
                  full);
    } else if (wave == TILED_ROWS / 32) {
        barrier_expect(full, shape::columns);
        bulk_copy(stage + shape::weights,
                  args.records + ((int64_t)block_x() * args.units + unit) * shape::columns,
                  shape::columns, full);
    }
}

/* After a wave has used a stage: its share of the one that it used before or, of two stages, of this
 * one, as soon as all waves have left that. */
template <class F>
DEVICE void refill(const tiled_args &args, const tiled_place &place, stage_cursor *ahead) {
    if (has_stage(args, *ahead)) {
        barrier_wait(&place.barriers->empty[ahead->at], (ahead->round - 1u) & 1u);
        copy_share<F>(args, place, *ahead);
        next_stage(args, ahead);
    }
}

/* The wave's part of a stage. */
struct tiled_part {
    const uint8_t *tile; /* of 32 weight rows                                                       */
    const uint8_t *x;
    uint32_t row;        /* the lane's first in the tile; the other is 8 further on                */
    const uint32_t *table;
};

/* Waits for the stage at hand. */
template <class F>
DEVICE tiled_part enter_stage(const tiled_place &place, const stage_cursor &now) {
    typedef tiled_stage<F> shape;
    const uint8_t *stage = place.stages + now.at * shape::bytes;
    barrier_wait(&place.barriers->full[now.at], now.round & 1u);
    return {stage + wave_index() / 2u * shape::tile, stage + shape::weights,
            wave_index() % 2u * 16u + (lane_index() >> 2), place.table};
}

#endif /* OPREG_SM90_ROWS32_TILED_COPIES_CUH */
