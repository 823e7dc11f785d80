/* SPDX-License-Identifier: MIT
 * rows32_tiled_outputs.cuh - partial sums of rows32_tiled: the tree over accumulators in the order of
 * unit_order.cuh, and where results go.
 *
 * A lane (g, t) has the outputs of rows g + 8 * (i / 2) and columns 8e + 2t + i % 2, numbered 4e + i. */
#ifndef OPREG_SM90_ROWS32_TILED_OUTPUTS_CUH
#define OPREG_SM90_ROWS32_TILED_OUTPUTS_CUH

#include "rows32_load.cuh"
#include "rows32_tiled_args.h"
#include "unit_order.cuh"

/* One value for every output of a lane. */
struct tiled_outputs {
    float v[32];
};

DEVICE float4 *kept_set(uint8_t *kept, uint32_t set) {
    return (float4 *)(kept + set * TILED_KEPT_BYTES) + thread_index();
}

DEVICE void keep(uint8_t *kept, uint32_t set, const tiled_outputs &from) {
    float4 *to = kept_set(kept, set);
#pragma unroll
    for (int i = 0; i < 8; i++) {
        to[i * TILED_THREADS] = make_float4(from.v[4 * i], from.v[4 * i + 1], from.v[4 * i + 2],
                                            from.v[4 * i + 3]);
    }
}

DEVICE void add_kept(uint8_t *kept, uint32_t set, tiled_outputs *to) {
    const float4 *from = kept_set(kept, set);
#pragma unroll
    for (int i = 0; i < 8; i++) {
        float4 f = from[i * TILED_THREADS];
        to->v[4 * i] = f.x + to->v[4 * i];
        to->v[4 * i + 1] = f.y + to->v[4 * i + 1];
        to->v[4 * i + 2] = f.z + to->v[4 * i + 2];
        to->v[4 * i + 3] = f.w + to->v[4 * i + 3];
    }
}

DEVICE void add_outputs(const tiled_outputs &from, tiled_outputs *to) {
#pragma unroll
    for (int o = 0; o < 32; o++) {
        to->v[o] = from.v[o] + to->v[o];
    }
}

/* One level of the tree: its left part waits in `held` or, where that is null, in a set of `kept`. */
DEVICE bool join_level(const unit_visit &o, uint32_t level, tiled_outputs *sum, tiled_outputs *held,
                       uint8_t *kept, uint32_t set) {
    if (o.visit >> level & 1u) {
        if (held != 0) {
            add_outputs(*held, sum);
        } else {
            add_kept(kept, set, sum);
        }
    } else if (o.next >> (level + 1u) == o.visit >> (level + 1u)) {
        if (held != 0) {
            *held = *sum;
        } else {
            keep(kept, set, *sum);
        }
        return false;
    }
    return true;
}

/* A finished accumulator joins the tree; after the last one, sum is the sum of all.  near holds the
 * lowest level. */
DEVICE void join_tree(const unit_visit &o, uint32_t levels, tiled_outputs *sum, tiled_outputs *near,
                      uint8_t *kept) {
    if (levels > 0u && join_level(o, 0, sum, near, kept, 0)) {
        for (uint32_t level = 1; level < levels; level++) {
            if (!join_level(o, level, sum, 0, kept, level - 1u)) {
                return;
            }
        }
    }
}

DEVICE void store_outputs(const tiled_args &args, const tiled_outputs &sum) {
    const matmul_args &a = args.base;
    uint32_t lane = lane_index(), g = lane >> 2, t = lane & 3u;
    int64_t row = (int64_t)block_y() * TILED_ROWS + wave_index() * 16u + g;
    int64_t column = (int64_t)block_x() * TILED_COLUMNS + 2u * t;
#pragma unroll
    for (int o = 0; o < 32; o++) {
        int64_t n = row + 8 * (o / 2 % 2), m = column + 8 * (o / 4) + o % 2;
        if (n < a.n && m < a.m) {
            store_output(a, m, n, a.bias != 0 ? sum.v[o] + a.bias[n] : sum.v[o]);
        }
    }
}

#endif /* OPREG_SM90_ROWS32_TILED_OUTPUTS_CUH */
