/* SPDX-License-Identifier: MIT
 * rows32_short.cuh - entries of a group against short rows of the layout rows32, in the canonical order:
 * two waves have a tile of 32 weight rows and all of their K, a lane a row.
 *
 * The tile comes to shared memory by bulk, once for all entries of the group, and all of it is asked
 * for at once.  Rows are at most SHORT_GROUPS groups, so every unit has an accumulator of its own, and
 * the groups are visited as the tree adds them: bit-reversed, half of them by each wave. */
#ifndef OPREG_SM90_ROWS32_SHORT_CUH
#define OPREG_SM90_ROWS32_SHORT_CUH

#include "rows32_one.cuh"
#include "rows32_short_args.h"
#include "tensor.cuh"

/* Sums of the units of four groups, by unit of the group; of a unit of 256 the first alone. */
struct short_sums {
    float v[4];
};

DEVICE short_sums add_sums(const short_sums &left, const short_sums &right) {
    return {{left.v[0] + right.v[0], left.v[1] + right.v[1], left.v[2] + right.v[2],
             left.v[3] + right.v[3]}};
}

struct short_shared {
    uint64_t full[SHORT_TILES][SHORT_GROUPS];
    short_sums other[SHORT_TILES][WAVE]; /* the second wave's                                       */
};

/* Has a tile copied, a barrier a group; one wave. */
template <class F>
DEVICE void copy_tile(const rows32_args &args, int64_t expert, uint32_t tile, uint8_t *to,
                      uint64_t *full) {
    constexpr uint32_t bytes = 32 * F::bytes;
    if (lane_index() < args.groups) {
        const uint8_t *from = tile_of<F>(args.base, 0, expert, tile) + lane_index() * bytes;
        barrier_expect(&full[lane_index()], bytes);
        bulk_copy(to + lane_index() * bytes, from, bytes, &full[lane_index()]);
    }
}

/* The lane's row times the x in shared memory, in the groups of one wave of two. */
template <class F>
DEVICE short_sums half_row(const rows32_args &args, uint32_t half, const uint8_t *tile,
                           uint64_t *full, const x_shared &x, const dot_table &table,
                           uint32_t dialect) {
    short_sums sums, pair, quad;
#pragma unroll 1
    for (uint32_t visit = 0; visit < SHORT_GROUPS / 2; visit++) {
        uint32_t u = (visit & 1u) << 2 | (visit & 2u) | half;
        sums = {{0.0f, 0.0f, 0.0f, 0.0f}};
        if (u < args.groups) {
            uint32_t w[ROWS32_WORDS(F)];
            barrier_wait(&full[u], 0u);
            read_group<F>(tile + u * (32 * F::bytes), lane_index(), w);
            float term = one_column<F>(w, 0, u, x, table, dialect, sums.v);
            sums.v[0] = F::unit == 256 ? sums.v[0] + term : sums.v[0];
        }
        if ((visit & 1u) == 0u) {
            pair = sums;
        } else if (visit == 1u) {
            quad = add_sums(pair, sums);
        } else {
            sums = add_sums(quad, add_sums(pair, sums));
        }
    }
    return sums;
}

/* The barrier of a tile's two waves. */
DEVICE void tile_barrier(uint32_t tile) {
    asm volatile("bar.sync %0, %1;" ::"r"(tile + 1u), "n"(2 * WAVE) : "memory");
}

/* Grid (tiles / SHORT_TILES, groups). */
template <class F> DEVICE void rows32_short(const rows32_args &args) {
    extern __shared__ __align__(128) uint8_t shared[];
    __shared__ short_shared own;
    const matmul_args &a = args.base;
    uint32_t wave = wave_index(), lane = lane_index(), local = wave / 2u, half = wave % 2u, at;
    uint32_t index = block_x() * SHORT_TILES + local, tile_bytes = args.groups * (32u * F::bytes);
    uint8_t *tile = shared + local * tile_bytes;
    uint64_t *full = own.full[local];
    x_shared x = x_records<F>(a, args.values, shared + SHORT_TILES * tile_bytes, &at);
    uint8_t *words = shared + SHORT_TILES * tile_bytes + at;
    const dot_table table = decode_dot<F>::make(words);
    int64_t element = a.x_dtype == OPREG_F32 ? 4 : 2, n = (int64_t)index * 32 + lane;
    bool aligned = (((uintptr_t)a.x | (uintptr_t)(a.x_stride * element)) & 15u) == 0u;
    if (half == 0u && lane < args.groups) {
        barrier_start(&full[lane], 1);
    }
    barriers_started();
    if (args.chained) {
        wait_for_launch_ahead();
    }
    let_next_launch_start(); /* see rows32_route.cuh */
    int32_t expert, begin, end;
    group_entry guess = entry_at(a, (int32_t)block_y()); /* of a group of one among such groups      */
    bool any = group_range(a, block_y(), &expert, &begin, &end);
    __syncthreads();
    if (!any) {
        return;
    }
    bool there = (int64_t)index * 32 < a.n, copied = there && expert >= 0 && expert < a.experts;
    if (half == 0u && copied) {
        copy_tile<F>(args, expert, index, tile, full);
    }
    decode_dot<F>::fill(words);
    for (int32_t e = begin; e < end; e++) {
        group_entry entry = e == (int32_t)block_y() ? guess : entry_at(a, e);
        if (entry.dst < 0 || entry.dst >= (int32_t)a.route.cap_entries) {
            continue;
        }
        float value = 0.0f;
        if (entry_lives(a, expert, entry.token)) {
            int64_t row = a.by_dst ? entry.dst : entry.token;
            __syncthreads(); /* the x ahead is read */
            for (uint32_t u = wave; u < args.groups; u += 2u * SHORT_TILES) {
                bring_group<F, decode_dot<F>::crossed>(a, row, aligned, u, x);
            }
            __syncthreads();
            if (there) {
                short_sums sums = half_row<F>(args, half, tile, full, x, table,
                                              a.side[0][expert].dialect);
                if (half == 1u) {
                    own.other[local][lane] = sums;
                }
                tile_barrier(local);
                if (half == 0u) {
                    sums = add_sums(sums, own.other[local][lane]);
                    value = F::unit == 256 ? sums.v[0]
                                           : (sums.v[0] + sums.v[2]) + (sums.v[1] + sums.v[3]);
                    value = F::last(value);
                }
            }
        }
        if (half == 0u && n < a.n) {
            store_output(a, entry.dst, n, value);
        }
    }
    /* no copy may be on its way into the memory of a block that has ended */
    for (uint32_t u = 0; copied && u < args.groups; u++) {
        barrier_wait(&full[u], 0u);
    }
}

#endif /* OPREG_SM90_ROWS32_SHORT_CUH */
