/* SPDX-License-Identifier: MIT
 * rows32_tiled_copies.cuh - the stages of rows32_tiled: 256 or 4 * 32 weights of a block's rows and the
 * records of its columns, copied to shared memory by bulk, each wave its share. */
#ifndef OPREG_SM90_ROWS32_TILED_COPIES_CUH
#define OPREG_SM90_ROWS32_TILED_COPIES_CUH

#include "rows32_terms.cuh"
#include "rows32_tiled_args.h"
#include "unit_order.cuh"

/* How a stage lies in shared memory. */
template <class F> struct tiled_stage {
    static const int block = F::unit == 256 ? BLOCK256_BYTES : BLOCK32_BYTES;
    static const int columns = TILED_COLUMNS / 8 * block;
    static const int unit_codes = unit_parts<F>::pieces * 512;      /* of a tile of 32 rows         */
    static const int unit_rest = unit_parts<F>::rest * 4 * 32;      /* of the group, every unit's   */
    static const int tile = F::unit == 256 ? 32 * F::bytes : 4 * (unit_codes + unit_rest);
    static const int weights = TILED_ROWS / 32 * tile;
    static const int bytes = weights + columns;
    static const int units = F::unit == 256 ? 1 : 4;
};

struct tiled_barriers {
    uint64_t full[TILED_STAGES], empty[TILED_STAGES];
};

/* What a block has in shared memory. */
struct tiled_place {
    uint8_t *stages, *kept;
    const uint32_t *visits; /* of a row, in order                                                   */
    tiled_barriers *barriers;
};

/* Where a sequence of stages has come to: step of a row, of which weight; its stage and how often
 * that was used before. */
struct stage_cursor {
    uint32_t step, which, at, round;
};

DEVICE void next_stage(const tiled_args &args, stage_cursor *c) {
    bool wraps = c->at + 1u == args.stages, ends = c->step + 1u == args.steps;
    c->at = wraps ? 0u : c->at + 1u;
    c->round += wraps;
    c->step = ends ? 0u : c->step + 1u;
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
    if (wave < TILED_ROWS / 32) {
        uint32_t tile = block_y() * (TILED_ROWS / 32) + wave;
        tile = tile < last ? tile : last;
        const uint8_t *from = a.data[c.which] + (int64_t)tile * 32 * a.row_bytes;
        uint8_t *to = stage + wave * shape::tile;
        if (lane == 0u) {
            barrier_expect(full, shape::tile);
        }
        __syncwarp();
        if (F::unit == 256) {
            if (lane == 0u) {
                uint32_t unit = visited_unit(place.visits[c.step]);
                bulk_copy(to, from + (int64_t)unit * shape::tile, shape::tile, full);
            }
        } else if (lane < 8u) { /* a unit of the stage, codes or rest */
            uint32_t unit = visited_unit(place.visits[4u * c.step + lane / 2u]);
            from += (int64_t)(unit / 4u) * (32 * F::bytes);
            to += lane / 2u * (shape::unit_codes + shape::unit_rest);
            if (lane % 2u == 0u) {
                bulk_copy(to, from + unit % 4u * shape::unit_codes, shape::unit_codes, full);
            } else {
                bulk_copy(to + shape::unit_codes, from + 4 * shape::unit_codes, shape::unit_rest,
                          full);
            }
        }
    } else if (wave == TILED_ROWS / 32 && lane == 0u) {
        /* units of 32 lie as they are visited */
        uint32_t at = F::unit == 256 ? visited_unit(place.visits[c.step]) : c.step;
        barrier_expect(full, shape::columns);
        bulk_copy(stage + shape::weights,
                  args.records + ((int64_t)block_x() * args.steps + at) * shape::columns,
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
};

/* Waits for the stage at hand. */
template <class F>
DEVICE tiled_part enter_stage(const tiled_place &place, const stage_cursor &now) {
    typedef tiled_stage<F> shape;
    const uint8_t *stage = place.stages + now.at * shape::bytes;
    barrier_wait(&place.barriers->full[now.at], now.round & 1u);
    return {stage + wave_index() / 2u * shape::tile, stage + shape::weights,
            wave_index() % 2u * 16u + (lane_index() >> 2)};
}

#endif /* OPREG_SM90_ROWS32_TILED_COPIES_CUH */
