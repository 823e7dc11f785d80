/* SPDX-License-Identifier: MIT
 * rows32_tiled.cuh - 128 weight rows by 64 rows of x a block, on integer tensor cores, in the
 * canonical order: units are visited as unit_order.cuh says, so that few partial sums are alive.
 *
 * Formats of units of 256.  Stages of one unit of every row and column are copied to shared memory by
 * bulk.  A wave has 16 rows and all columns; weights go from the stored pieces to its registers, sub-scales
 * folded in. */
#ifndef OPREG_SM90_ROWS32_TILED_CUH
#define OPREG_SM90_ROWS32_TILED_CUH

#include "rows32_tiled_terms.cuh"

/* The sums of one weight. */
template <class F>
DEVICE void tiled_sums(const tiled_args &args, const tiled_place &place, stage_cursor *now,
                       stage_cursor *ahead, tiled_outputs *sum) {
    tiled_outputs near;
    unit_visit visit;
    for (uint32_t at = 0; at < args.units;) {
#pragma unroll
        for (int o = 0; o < 32; o++) {
            sum->v[o] = 0.0f;
        }
        do { /* an accumulator's units */
            tiled_part part = enter_stage<F, 1>(place, *now);
            visit = unpack_visit(place.visits[at]);
            at++;
            add_superblock<F>(part, sum);
            leave_stage<F, 1>(args, place, now, ahead);
        } while (!visit.ends);
        join_tree(visit, args.levels, sum, &near, place.kept);
    }
}

template <class F> DEVICE void tiled_block(const tiled_args &args, const tiled_place &place) {
    const matmul_args &a = args.base;
    stage_cursor now = {0u, 0u, 0u, 0u}, ahead = start_stages<F, 1>(args, place);
    tiled_outputs sum;
#pragma unroll 1
    for (int which = 0; which < (a.pair ? 2 : 1); which++) {
        if (which == 1) {
            keep_gates<1>(args, sum.v);
        }
        tiled_sums<F>(args, place, &now, &ahead, &sum);
    }
    const float4 *mine = put_outputs<1>(place.stages, sum.v);
#pragma unroll 1
    for (uint32_t i = 0; i < 8u; i++) {
        store_outputs<F, 1>(args, i, mine[i * TILED_THREADS]);
    }
}

/* Grid (columns / 64, rows / 128): blocks that share weights are neighbours. */
template <class F> DEVICE void rows32_tiled(const tiled_args &args) {
    extern __shared__ __align__(128) uint8_t shared[];
    __shared__ tiled_barriers barriers;
    uint8_t *kept = shared + args.stages * tiled_stage<F, 1>::bytes;
    uint32_t *table = (uint32_t *)(kept + args.kept * TILED_KEPT_BYTES);
    uint32_t *visits = table + F::table_words;
    let_next_launch_start();
    start_barriers<1>(args, &barriers);
    write_visits(args.units, args.levels, visits);
    fill_table<F>(table);
    __syncthreads();
    tiled_block<F>(args,
                   {shared, kept, visits, lane_table<F>(table), &barriers, 0u, args.units});
}

#endif /* OPREG_SM90_ROWS32_TILED_CUH */
