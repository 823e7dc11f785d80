/* SPDX-License-Identifier: MIT
 * rows32_tiled_int.cuh - 128 weight rows by 64 or 128 rows of x a block, on integer tensor cores: the
 * integer sums of the contract, added up in f32 as they come.
 *
 * Stages as in rows32_tiled; without partial sums to keep, a wave has room for twice the columns, and a
 * weight is decoded half as often.  Where blocks would be few, those of a cluster share a row's groups
 * and add up in the order of their ranks. */
#ifndef OPREG_SM90_ROWS32_TILED_INT_CUH
#define OPREG_SM90_ROWS32_TILED_INT_CUH

#include "cluster.cuh"
#include "rows32_tiled_int_terms.cuh"

/* The sums of one weight over the block's groups. */
template <class F, int SETS>
DEVICE void int_sums(const tiled_args &args, const tiled_place &place, uint32_t dialect,
                     stage_cursor *now, stage_cursor *ahead, float *sum) {
#pragma unroll
    for (int o = 0; o < 32 * SETS; o++) {
        sum[o] = 0.0f;
    }
#pragma unroll 1
    for (uint32_t i = 0; i < place.units; i++) {
        tiled_part part = enter_stage<F, SETS>(place, *now);
        add_group<F, SETS>(part, dialect, sum);
        leave_stage<F, SETS>(args, place, now, ahead);
    }
}

/* Stores the outputs of which the blocks of a cluster have a sum each, every block its share of them. */
template <class F, int SETS>
DEVICE void int_outputs(const tiled_args &args, uint8_t *stages, uint32_t rank, uint32_t parts,
                        const float *sum) {
    const float4 *mine = put_outputs<SETS>(stages, sum);
    uint32_t first = 8u * SETS * rank / parts, end = 8u * SETS * (rank + 1u) / parts;
    if (parts > 1u) {
        cluster_barrier();
    }
#pragma unroll 1
    for (uint32_t i = first; i < end; i++) {
        float4 v = cluster_read(mine + i * TILED_THREADS, 0u);
        for (uint32_t p = 1; p < parts; p++) {
            float4 more = cluster_read(mine + i * TILED_THREADS, p);
            v = make_float4(v.x + more.x, v.y + more.y, v.z + more.z, v.w + more.w);
        }
        store_outputs<F, SETS>(args, i, v);
    }
    if (parts > 1u) {
        cluster_barrier(); /* until then others read from this block */
    }
}

/* Grid (columns / (64 * SETS), rows / 128, parts), clusters of (1, 1, parts); gate and up: 1 part. */
template <class F, int SETS> DEVICE void rows32_tiled_int(const tiled_args &args) {
    extern __shared__ __align__(128) uint8_t shared[];
    __shared__ tiled_barriers barriers;
    const matmul_args &a = args.base;
    uint32_t *table = (uint32_t *)(shared + args.stages * tiled_stage<F, SETS>::bytes);
    uint32_t rank = cluster_rank(), parts = cluster_size();
    uint32_t first = args.units * rank / parts, end = args.units * (rank + 1u) / parts;
    tiled_place place = {shared, 0, 0, lane_table<F>(table), &barriers, first, end - first};
    float sum[32 * SETS];
    let_next_launch_start();
    start_barriers<SETS>(args, &barriers);
    fill_table<F>(table);
    __syncthreads();
    stage_cursor now = {0u, 0u, 0u, 0u}, ahead = start_stages<F, SETS>(args, place);
    if (takes_turns<F, SETS>()) {
        first_turn();
    }
#pragma unroll 1
    for (int which = 0; which < (a.pair ? 2 : 1); which++) {
        if (which == 1) {
            keep_gates<SETS>(args, sum);
        }
        int_sums<F, SETS>(args, place, a.side[which][0].dialect, &now, &ahead, sum);
    }
    if (takes_turns<F, SETS>()) {
        last_turn();
    }
    int_outputs<F, SETS>(args, shared, rank, parts, sum);
}

/* A kernel of 64 or 128 columns a block. */
#define INT_KERNEL(name, columns)                                                                  \
    KERNEL __launch_bounds__(TILED_THREADS, 1)                                                     \
        rows32_##name##_int##columns(const __grid_constant__ tiled_args args) {                    \
        rows32_tiled_int<rows_##name, columns / 64>(args);                                         \
    }

#endif /* OPREG_SM90_ROWS32_TILED_INT_CUH */
