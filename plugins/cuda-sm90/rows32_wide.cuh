/* SPDX-License-Identifier: MIT
 * rows32_wide.cuh - 8 * NT rows of x against tiles of the layout rows32 on integer tensor cores, in the
 * canonical order: a decoded weight serves all of them.
 *
 * A block has one tile of 32 weight rows at a time; wave v has the groups v, v + 8, .. of a row, so it
 * owns accumulators v + 8i (units of 256) or 4v + i (units of 32), i = 0 .. 3.  Units of 256 are visited
 * accumulator by accumulator, i = 0, 2, 1, 3, so that three partial sums are alive.  Each wave has its
 * next groups of weights and of x copied by bulk while it uses one. */
#ifndef OPREG_SM90_ROWS32_WIDE_CUH
#define OPREG_SM90_ROWS32_WIDE_CUH

#include "rows32_terms.cuh"
#include "rows32_wide_args.h"

template <class F, int NT> struct wide_stage {
    static const uint32_t weights = 32 * F::bytes;
    static const uint32_t x = NT * block_columns<F>::block;
    static const uint32_t bytes = weights + x;
};

/* The groups of one wave in the order of use: of a row, gate before up, then the block's next tile.
 * Units of 256: phase p has the accumulator i of wide_accumulator(p). */
struct wide_cursor {
    uint32_t tile, which, phase, group;
};

DEVICE uint32_t wide_accumulator(uint32_t phase) { return (phase & 1u) << 1 | phase >> 1; }

/* What a wave has in shared memory, and where its copies come from. */
struct wide_place {
    uint8_t *stages;
    uint64_t *full;
    float *sums; /* the block's                                                                     */
    const uint32_t *table;
    const uint8_t *x; /* group 0 of the block's columns                                             */
    uint32_t tiles;
};

/* A wave without groups begins behind the last tile. */
DEVICE bool wide_has(const wide_place &place, const wide_cursor &c) { return c.tile < place.tiles; }

template <class F> DEVICE void wide_next(const wide_args &args, wide_cursor *c) {
    constexpr uint32_t phases = F::unit == 256 ? 4u : 1u;
    c->group += phases * WIDE_WAVES;
    while (c->group >= args.groups) {
        bool row_ends = c->phase + 1u == phases;
        bool tile_ends = row_ends && c->which + 1u == (args.base.pair ? 2u : 1u);
        c->phase = row_ends ? 0u : c->phase + 1u;
        c->which = tile_ends ? 0u : c->which + row_ends;
        c->tile += tile_ends ? grid_x() : 0u;
        c->group = wave_index() + wide_accumulator(c->phase) * WIDE_WAVES;
    }
}

/* One lane: the cursor's group of weights, and that of x. */
template <class F, int NT>
DEVICE void copy_weights(const wide_args &args, const wide_place &place, const wide_cursor &c,
                         uint32_t slot) {
    typedef wide_stage<F, NT> stage;
    const matmul_args &a = args.base;
    barrier_expect(&place.full[slot], stage::bytes);
    bulk_copy(place.stages + slot * stage::bytes,
              a.data[c.which] + (int64_t)c.tile * 32 * a.row_bytes +
                  (int64_t)c.group * stage::weights,
              stage::weights, &place.full[slot]);
}

template <class F, int NT>
DEVICE void copy_columns(const wide_place &place, const wide_cursor &c, uint32_t slot) {
    typedef wide_stage<F, NT> stage;
    bulk_copy(place.stages + slot * stage::bytes + stage::weights,
              place.x + (int64_t)c.group * (BLOCKS_TOGETHER * block_columns<F>::block), stage::x,
              &place.full[slot]);
}

/* The wave's sums of 8 * NT outputs a lane: rows 16 * mt + g + 8 * (i / 2), columns 8 * nt + 2t + i % 2,
 * numbered (mt * NT + nt) * 4 + i. */
template <int NT> DEVICE void put_wide(float *sums, const float *v) {
    uint32_t g = lane_index() >> 2, t = lane_index() & 3u;
    float *to = sums + wave_index() * (8u * NT * WIDE_COLUMN);
#pragma unroll
    for (uint32_t o = 0; o < 8u * NT; o++) {
        uint32_t i = o % 4u, nt = o / 4u % NT, mt = o / (4u * NT);
        to[(8u * nt + 2u * t + i % 2u) * WIDE_COLUMN + 16u * mt + g + 8u * (i / 2u)] = v[o];
    }
}

/* The thread's NT outputs: row lane, columns wave + 8 * nt. */
template <int NT> DEVICE void take_wide(const float *sums, float *v) {
#pragma unroll
    for (uint32_t nt = 0; nt < NT; nt++) {
        v[nt] = finish_tree<WIDE_WAVES>(
            sums + (wave_index() + 8u * nt) * WIDE_COLUMN + lane_index(), 8u * NT * WIDE_COLUMN);
    }
}

/* What goes on from tile to tile: the next group to copy, the stage at hand, how often all were used. */
struct wide_state {
    wide_cursor ahead;
    uint32_t slot, round;
};

/* Waits for a stage of the wave. */
template <class F, int NT>
DEVICE const uint8_t *enter_stage(const wide_place &place, const wide_state &s) {
    barrier_wait(&place.full[s.slot], s.round & 1u);
    return place.stages + s.slot * wide_stage<F, NT>::bytes;
}

/* Leaves it to the group that is next, if there is one. */
template <class F, int NT>
DEVICE void leave_stage(const wide_args &args, const wide_place &place, wide_state *s) {
    __syncwarp();
    if (wide_has(place, s->ahead)) {
        if (lane_index() == 0u) {
            copy_weights<F, NT>(args, place, s->ahead, s->slot);
            copy_columns<F, NT>(place, s->ahead, s->slot);
        }
        wide_next<F>(args, &s->ahead);
    }
    s->slot++;
    s->round += s->slot == args.depth;
    s->slot = s->slot == args.depth ? 0u : s->slot;
}

/* The wave's sums of a tile: of its accumulators of 256, as the tree adds them. */
template <class F, int NT>
DEVICE void wide_superblocks(const wide_args &args, const wide_place &place, wide_state *s,
                             float *sum) {
    float part[8 * NT], even[8 * NT];
#pragma unroll
    for (int o = 0; o < 8 * NT; o++) {
        part[o] = 0.0f;
        even[o] = 0.0f;
    }
#pragma unroll 1
    for (uint32_t phase = 0; phase < 4u; phase++) {
#pragma unroll
        for (int o = 0; o < 8 * NT; o++) {
            sum[o] = 0.0f;
        }
#pragma unroll 1
        for (uint32_t u = wave_index() + wide_accumulator(phase) * WIDE_WAVES; u < args.groups;
             u += 4u * WIDE_WAVES) {
            const uint8_t *group = enter_stage<F, NT>(place, *s);
            block_columns<F> x = {group + wide_stage<F, NT>::weights};
            float terms[2][NT][4];
            superblock_terms<F, NT>(group, stored_words<F>{place.table}, x, terms);
#pragma unroll
            for (int o = 0; o < 8 * NT; o++) {
                sum[o] = sum[o] + terms[o / (4 * NT)][o / 4 % NT][o % 4];
            }
            leave_stage<F, NT>(args, place, s);
        }
        if ((phase & 1u) == 0u) { /* waits for its neighbour */
#pragma unroll
            for (int o = 0; o < 8 * NT; o++) {
                part[o] = sum[o];
            }
        } else {
#pragma unroll
            for (int o = 0; o < 8 * NT; o++) {
                sum[o] = part[o] + sum[o];
            }
            if (phase == 1u) {
#pragma unroll
                for (int o = 0; o < 8 * NT; o++) {
                    even[o] = sum[o];
                }
            }
        }
    }
#pragma unroll
    for (int o = 0; o < 8 * NT; o++) {
        sum[o] = even[o] + sum[o];
    }
}

/* Of its four accumulators of units of 32. */
template <class F, int NT>
DEVICE void wide_units(const wide_args &args, const wide_place &place, uint32_t dialect,
                       wide_state *s, float (*acc)[8 * NT]) {
#pragma unroll
    for (int i = 0; i < 32 * NT; i++) {
        acc[i / (8 * NT)][i % (8 * NT)] = 0.0f;
    }
#pragma unroll 1
    for (uint32_t u = wave_index(); u < args.groups; u += WIDE_WAVES) {
        const uint8_t *group = enter_stage<F, NT>(place, *s);
        block_columns<F> x = {group + wide_stage<F, NT>::weights};
        float terms[2][NT][4];
#pragma unroll
        for (int j = 0; j < 4; j++) {
            unit_terms<F, NT>(group, dialect, x, (uint32_t)j, terms);
#pragma unroll
            for (int o = 0; o < 8 * NT; o++) {
                acc[j][o] = acc[j][o] + terms[o / (4 * NT)][o / 4 % NT][o % 4];
            }
        }
        leave_stage<F, NT>(args, place, s);
    }
}

/* The thread's outputs of a tile. */
template <class F, int NT>
DEVICE void wide_tile(const wide_args &args, const wide_place &place, uint32_t dialect,
                      wide_state *s, float *out) {
    constexpr int parts = F::unit == 256 ? 1 : 4;
    float part[parts][NT];
    float acc[parts][8 * NT];
    if constexpr (F::unit == 256) {
        wide_superblocks<F, NT>(args, place, s, acc[0]);
    } else {
        wide_units<F, NT>(args, place, dialect, s, acc);
    }
#pragma unroll
    for (int i = 0; i < parts; i++) {
        put_wide<NT>(place.sums, acc[i]);
        __syncthreads();
        take_wide<NT>(place.sums, part[i]);
        __syncthreads();
    }
#pragma unroll
    for (int nt = 0; nt < NT; nt++) {
        float sum = part[0][nt];
        if constexpr (parts == 4) {
            sum = (part[0][nt] + part[2][nt]) + (part[1][nt] + part[3][nt]);
        }
        out[nt] = F::last(sum);
    }
}

/* Grid (blocks, sets of 8 * NT columns). */
template <class F, int NT> DEVICE void rows32_wide(const wide_args &args) {
    extern __shared__ __align__(128) uint8_t shared[];
    __shared__ uint64_t full[WIDE_WAVES][WIDE_DEPTH];
    typedef wide_stage<F, NT> stage;
    const matmul_args &a = args.base;
    uint32_t wave = wave_index(), lane = lane_index();
    uint32_t wave_bytes = args.depth * stage::bytes, column = block_y() * 8u * NT;
    float *sums = (float *)(shared + WIDE_WAVES * wave_bytes);
    uint32_t *table = (uint32_t *)((uint8_t *)sums + WIDE_SUMS_BYTES(NT));
    constexpr int64_t set = BLOCKS_TOGETHER * (int64_t)block_columns<F>::block;
    wide_place place = {shared + wave * wave_bytes,
                        full[wave],
                        sums,
                        lane_table<F>(table),
                        args.records + column / (8u * BLOCKS_TOGETHER) * (args.groups * set) +
                            column / 8u % BLOCKS_TOGETHER * block_columns<F>::block,
                        (uint32_t)((a.n + 31) / 32)};
    wide_state s = {{wave < args.groups ? block_x() : place.tiles, 0u, 0u, wave}, 0u, 0u};
    let_next_launch_start();
    if (lane < args.depth) {
        barrier_start(&full[wave][lane], 1);
    }
    barriers_started();
    __syncwarp();
    /* weights are there before the launch ahead has ended, x is not; more of them would only be in the
     * way of x */
    if (lane == 0u && wide_has(place, s.ahead)) {
        copy_weights<F, NT>(args, place, s.ahead, 0u);
    }
    fill_table<F>(table);
    if (args.chained) {
        wait_for_launch_ahead();
    }
    for (uint32_t i = 0; i < args.depth && wide_has(place, s.ahead); i++) {
        if (lane == 0u) {
            if (i > 0u) {
                copy_weights<F, NT>(args, place, s.ahead, i);
            }
            before_bulk_copies();
            copy_columns<F, NT>(place, s.ahead, i);
        }
        wide_next<F>(args, &s.ahead);
    }
    for (uint32_t tile = block_x(); tile < place.tiles; tile += grid_x()) {
        int64_t n = (int64_t)tile * 32 + lane;
        float value[NT];
        wide_tile<F, NT>(args, place, a.side[0][0].dialect, &s, value);
        if (a.pair) {
            float up[NT];
            wide_tile<F, NT>(args, place, a.side[1][0].dialect, &s, up);
#pragma unroll
            for (int nt = 0; nt < NT; nt++) {
                value[nt] = canonical_glu(a.glu, value[nt], up[nt], a.glu_alpha, a.glu_limit);
            }
        }
#pragma unroll
        for (int nt = 0; nt < NT; nt++) {
            int64_t m = (int64_t)column + wave + 8 * nt;
            if (n < a.n && m < a.m) {
                store_output(a, m, n,
                             !a.pair && a.bias != 0 ? value[nt] + a.bias[n] : value[nt]);
            }
        }
    }
}

#endif /* OPREG_SM90_ROWS32_WIDE_CUH */
