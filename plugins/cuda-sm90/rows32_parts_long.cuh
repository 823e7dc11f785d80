/* SPDX-License-Identifier: MIT
 * rows32_parts_long.cuh - one row of x against rows of any length of the layout rows32, in the
 * canonical order, with one block a multiprocessor and room for the next launch's beside it.
 *
 * A block has neighbouring tiles.  One wave has them copied to shared memory, eight groups a stage,
 * before x is there.  Of each stage a wave takes group v = wave % 8 of half the tile's rows, as
 * rows32_parts takes them, so it has accumulators 4v .. 4v + 3; they meet in shared memory. */
#ifndef OPREG_SM90_ROWS32_PARTS_LONG_CUH
#define OPREG_SM90_ROWS32_PARTS_LONG_CUH

#include "rows32_part_dots.cuh"

struct long_shared {
    parts_barriers barriers;
    float sums[2][8][32][4]; /* of two tiles in turn: accumulator 4v + t of a row */
};

/* Brings x to shared memory, a wave several groups at once; all waves but one. */
template <class F> DEVICE void bring_long_row(const parts_args &args, const part_x &x) {
    const matmul_args &a = args.base;
    bool aligned = ((uintptr_t)a.x & 15u) == 0u;
    constexpr uint32_t most = 2, waves = PARTS_LONG_WAVES;
    uint32_t end = (args.groups + 1u) / 2u;
#pragma unroll 1
    for (uint32_t base = wave_index(); base < end; base += most * waves) {
        float v[most][8];
#pragma unroll
        for (uint32_t i = 0; i < most; i++) {
            if (base + i * waves < end && a.scales == 0) {
                load_part(a, 0, aligned, base + i * waves, v[i]);
            }
        }
#pragma unroll
        for (uint32_t i = 0; i < most; i++) {
            if (base + i * waves < end) {
                keep_part<F>(a, 0, args.groups, base + i * waves, v[i], x);
            }
        }
    }
}

/* The wave that brings stages, in turn to the slots. */
template <class F>
DEVICE void bring_stages(const parts_args &args, uint32_t begin, uint32_t end, uint8_t *slots,
                         parts_barriers *barriers) {
    constexpr uint32_t group = 32 * F::bytes;
    const uint8_t *from = tile_of<F>(args.base, 0, 0, begin);
    uint32_t slot = 0, round = 0;
    for (uint32_t i = begin; i < end; i++) {
        for (uint32_t u = 0; u < args.groups; u += PARTS_GROUPS) {
            uint32_t left = args.groups - u, count = left < PARTS_GROUPS ? left : PARTS_GROUPS;
            uint32_t bytes = count * group;
            if (round > 0u) {
                barrier_wait(&barriers->empty[slot], (round - 1u) & 1u);
            }
            if (lane_index() == 0u) {
                barrier_expect(&barriers->full[0][slot], bytes);
                bulk_copy(slots + slot * (PARTS_GROUPS * group), from, bytes,
                          &barriers->full[0][slot]);
            }
            from += bytes;
            slot++;
            round += slot == args.slots;
            slot = slot == args.slots ? 0u : slot;
        }
    }
}

/* The tree over a row's accumulators, of which sums[v][row] has four. */
DEVICE float long_tree(const float (*sums)[32][4], uint32_t row) {
    float4 q[8];
#pragma unroll
    for (int v = 0; v < 8; v++) {
        q[v] = *(const float4 *)sums[v][row];
    }
#pragma unroll
    for (int step = 4; step > 0; step >>= 1) {
#pragma unroll
        for (int v = 0; v < step; v++) {
            q[v] = make_float4(q[v].x + q[v + step].x, q[v].y + q[v + step].y,
                               q[v].z + q[v + step].z, q[v].w + q[v + step].w);
        }
    }
    return (q[0].x + q[0].z) + (q[0].y + q[0].w);
}

/* Grid (blocks), one a multiprocessor, some without a tile. */
template <class F> DEVICE void rows32_parts_long(const parts_args &args) {
    extern __shared__ __align__(128) uint8_t shared[];
    __shared__ long_shared own;
    typedef part_dot<F> dot;
    const matmul_args &a = args.base;
    constexpr uint32_t group = 32 * F::bytes, stage = PARTS_GROUPS * group;
    uint32_t wave = wave_index(), lane = lane_index(), begin, end, slot = 0, round = 0;
    part_x x = part_row(shared + args.slots * stage, args.groups);
    let_next_launch_start();
    if (thread_index() < args.slots) {
        barrier_start(&own.barriers.full[0][thread_index()], 1);
        barrier_start(&own.barriers.empty[thread_index()], PARTS_LONG_WAVES * WAVE);
    }
    barriers_started();
    deal_tiles(args, 1, &begin, &end);
    __syncthreads();
    if (wave == PARTS_LONG_WAVES) {
        bring_stages<F>(args, begin, end, shared, &own.barriers);
        return;
    }
    if (args.chained) {
        wait_for_launch_ahead();
    }
    bring_long_row<F>(args, x);
    uint32_t t = lane & 3u, v = wave & 7u, row = held(wave / 8u * 16u + ((lane >> 2) ^ 2u * t));
    part_lane<F> mine;
    mine.start(row);
    mine.dialect = dot::dialects ? a.side[0][0].dialect : 0u;
    uint32_t x_first = held(shared_address(x.codes) + v * 128u + mine.x);
    uint32_t y_first = held(shared_address(x.scales) + v * 16u + mine.unit);
    asm volatile("bar.sync 1, %0;" ::"n"(PARTS_LONG_WAVES * 32) : "memory");
    for (uint32_t i = begin; i < end; i++) {
        float sum[2] = {0.0f, 0.0f};
        uint32_t x_at = x_first, y_at = y_first, sums_at = y_first + args.groups * 16u;
        for (uint32_t u = v; u < args.groups + v; u += PARTS_GROUPS) { /* u - v begins a stage */
            uint32_t at = shared_address(shared) + slot * stage + v * group;
            barrier_wait(&own.barriers.full[0][slot], round & 1u);
            if (u < args.groups) {
                part_words<F> words;
                words.read(at + mine.codes, at + mine.scale, 0);
                add_part_terms<F>(mine, words, x_at, y_at, sums_at, 0, &sum[0], &sum[1]);
                x_at += 1024u, y_at += 128u, sums_at += 128u;
            }
            barrier_arrive(&own.barriers.empty[slot]);
            slot++;
            round += slot == args.slots;
            slot = slot == args.slots ? 0u : slot;
        }
        float (*sums)[32][4] = own.sums[(i - begin) & 1u];
        int64_t n = (int64_t)i * 32 + lane;
        sums[v][row][t] = sum[0];
        sums[v][row + 8u][t] = sum[1];
        asm volatile("bar.sync 1, %0;" ::"n"(PARTS_LONG_WAVES * 32) : "memory");
        if (wave == (i - begin) % PARTS_LONG_WAVES && n < a.n) {
            float value = long_tree(sums, lane);
            store_output(a, 0, n, a.bias != 0 ? value + a.bias[n] : value);
        }
    }
}

#endif /* OPREG_SM90_ROWS32_PARTS_LONG_CUH */
