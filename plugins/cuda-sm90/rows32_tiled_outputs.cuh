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

/* The block's gate sums between the two weights of a call: the lane's group of four. */
template <int SETS> DEVICE float4 *gate_outputs(const tiled_args &args, uint32_t group) {
    int64_t block = (int64_t)block_y() * grid_x() + block_x();
    return (float4 *)args.gates + (block * (8 * SETS) + group) * TILED_THREADS + thread_index();
}

template <int SETS> DEVICE void keep_gates(const tiled_args &args, const float *v) {
#pragma unroll
    for (int i = 0; i < 8 * SETS; i++) {
        *gate_outputs<SETS>(args, (uint32_t)i) = make_float4(v[4 * i], v[4 * i + 1], v[4 * i + 2], v[4 * i + 3]);
    }
}

/* A lane's sums, behind a barrier where the stages were; what it puts, it takes. */
template <int SETS> DEVICE float4 *put_outputs(uint8_t *stages, const float *v) {
    float4 *mine = (float4 *)stages + thread_index();
    __syncthreads();
#pragma unroll
    for (int i = 0; i < 8 * SETS; i++) {
        mine[i * TILED_THREADS] = make_float4(v[4 * i], v[4 * i + 1], v[4 * i + 2], v[4 * i + 3]);
    }
    return mine;
}

/* Finishes and stores the lane's i'th group of four: v has their sums. */
template <class F, int SETS>
DEVICE void store_outputs(const tiled_args &args, uint32_t i, const float4 &v) {
    const matmul_args &a = args.base;
    uint32_t lane = lane_index(), g = lane >> 2, t = lane & 3u;
    int64_t n = (int64_t)block_y() * TILED_ROWS + wave_index() * 16u + g;
    int64_t m = (int64_t)block_x() * (TILED_COLUMNS * SETS) + 8u * i + 2u * t;
    float out[4] = {F::last(v.x), F::last(v.y), F::last(v.z), F::last(v.w)};
    if (a.pair) {
        float4 gate = *gate_outputs<SETS>(args, i);
        float gates[4] = {F::last(gate.x), F::last(gate.y), F::last(gate.z), F::last(gate.w)};
#pragma unroll
        for (int o = 0; o < 4; o++) {
            out[o] = canonical_glu(a.glu, gates[o], out[o], a.glu_alpha, a.glu_limit);
        }
    }
#pragma unroll
    for (int o = 0; o < 4; o++) {
        int64_t row = n + 8 * (o / 2), column = m + o % 2;
        if (row < a.n && column < a.m) {
            store_output(a, column, row, a.bias != 0 ? out[o] + a.bias[row] : out[o]);
        }
    }
}

#endif /* OPREG_SM90_ROWS32_TILED_OUTPUTS_CUH */
