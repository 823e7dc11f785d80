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
            float n[32];
            tiled_part part = enter_stage<F>(place, *now);
            visit = unpack_visit(place.visits[at]);
            at++;
            superblock_sums<F>(part, n);
            add_superblock<F>(part, n, sum);
            __syncwarp();
            if (lane_index() == 0u) {
                barrier_arrive(&place.barriers->empty[now->at]);
            }
            if (args.stages == 2u || now->unit + now->which > 0u) {
                refill<F>(args, place, ahead);
            }
            next_stage(args, now);
        } while (!visit.ends);
        join_tree(visit, args.levels, sum, &near, place.kept);
    }
#pragma unroll
    for (int o = 0; o < 32; o++) {
        sum->v[o] = F::last(sum->v[o]);
    }
}

/* The block's gate outputs between the two weights: the lane's o'th group of four. */
DEVICE float4 *gate_outputs(const tiled_args &args, int group) {
    int64_t block = (int64_t)block_y() * grid_x() + block_x();
    return (float4 *)args.gates + (block * 8 + group) * TILED_THREADS + thread_index();
}

template <class F> DEVICE void tiled_block(const tiled_args &args, const tiled_place &place) {
    const matmul_args &a = args.base;
    stage_cursor now = {0u, 0u, 0u, 0u}, ahead = now;
    tiled_outputs sum;
    for (uint32_t i = 0; i < args.stages && has_stage(args, ahead); i++) {
        copy_share<F>(args, place, ahead);
        next_stage(args, &ahead);
    }
#pragma unroll 1
    for (int which = 0; which < (a.pair ? 2 : 1); which++) {
        if (which == 1) {
#pragma unroll
            for (int i = 0; i < 8; i++) {
                *gate_outputs(args, i) = make_float4(sum.v[4 * i], sum.v[4 * i + 1],
                                                     sum.v[4 * i + 2], sum.v[4 * i + 3]);
            }
        }
        tiled_sums<F>(args, place, &now, &ahead, &sum);
    }
    if (a.pair) {
#pragma unroll
        for (int i = 0; i < 8; i++) {
            float *v = &sum.v[4 * i];
            float4 gate = *gate_outputs(args, i);
            v[0] = canonical_glu(a.glu, gate.x, v[0], a.glu_alpha, a.glu_limit);
            v[1] = canonical_glu(a.glu, gate.y, v[1], a.glu_alpha, a.glu_limit);
            v[2] = canonical_glu(a.glu, gate.z, v[2], a.glu_alpha, a.glu_limit);
            v[3] = canonical_glu(a.glu, gate.w, v[3], a.glu_alpha, a.glu_limit);
        }
    }
    store_outputs(args, sum);
}

/* Grid (columns / 64, rows / 128): blocks that share weights are neighbours. */
template <class F> DEVICE void rows32_tiled(const tiled_args &args) {
    extern __shared__ __align__(128) uint8_t shared[];
    __shared__ tiled_barriers barriers;
    uint8_t *kept = shared + args.stages * tiled_stage<F>::bytes;
    uint32_t *table = (uint32_t *)(kept + args.kept * TILED_KEPT_BYTES);
    uint32_t *visits = table + F::table_words;
    let_next_launch_start();
    if (thread_index() == 0u) {
        for (uint32_t i = 0; i < args.stages; i++) {
            barrier_start(&barriers.full[i], TILED_ROWS / 32 + 1); /* waves with a share           */
            barrier_start(&barriers.empty[i], TILED_WAVES);
        }
        barriers_started();
    }
    write_visits(args.units, args.levels, visits);
    fill_table<F>(table);
    __syncthreads();
    if (args.chained) {
        wait_for_launch_ahead();
    }
    before_bulk_copies();
    tiled_block<F>(args, {shared, kept, visits, lane_table<F>(table), &barriers});
}

#endif /* OPREG_SM90_ROWS32_TILED_CUH */
