/* SPDX-License-Identifier: MIT
 * rows32_gqh.cuh - up to eight rows of x against GQH weights of the layout rows32, in the canonical
 * order, with one block a multiprocessor.
 *
 * A part is eight neighbouring weight rows; a task is PARTS of them, and half a superblock's weights:
 * lane r + 8c has 32 of those, which are four accumulators, of row r of each part in every
 * superblock.  A decoded weight serves all COLUMNS rows of x, and a value of x, which lies in shared
 * memory, all parts.  Neighbouring waves have the halves, and their sums meet in shared memory. */
#ifndef OPREG_SM90_ROWS32_GQH_CUH
#define OPREG_SM90_ROWS32_GQH_CUH

#include "rows32_gqh_formats.cuh"

/* What a block has. */
struct gqh_block {
    uint32_t first, parts, tasks; /* first part, how many                                           */
    uint32_t superblocks, waves;  /* waves that take tasks                                          */
    int64_t column;               /* first row of x                                                */
};

/* Row of the weight that lane 0 has of a task's part; a part that is not there repeats the last. */
DEVICE uint32_t gqh_row(const gqh_block &b, uint32_t part) {
    return (b.first + (part < b.parts ? part : b.parts - 1u)) * 8u;
}

/* ---- weights ------------------------------------------------------------------------------------ */

/* The wave's weights, AHEAD superblocks at a time, those for the next turn on their way: task after
 * task, gate before up. */
template <class F, int PARTS, int AHEAD> struct gqh_stream {
    gqh_wire now[AHEAD][PARTS], next[AHEAD][PARTS];
    gqh_place at[PARTS];
    const uint8_t *data;
    uint32_t task, which, piece; /* of 32 weights                                                  */
    int32_t left; /* superblocks of the task                                                       */

    __device__ __forceinline__ void aim(const matmul_args &a, const gqh_block &b) {
#pragma unroll
        for (uint32_t part = 0; part < PARTS; part++) {
            uint32_t row = gqh_row(b, task / GQH_TEAM * PARTS + part) + (lane_index() & 7u);
            at[part] = F::place(row / 32u * 32u * (uint32_t)a.row_bytes, row % 32u, piece);
        }
        left = task < b.tasks ? (int32_t)b.superblocks : 0;
    }

    /* Asks for the next ones; what is not there repeats what is. */
    __device__ __forceinline__ void ask() {
#pragma unroll
        for (int i = 0; i < AHEAD; i++) {
            const uint8_t *from = data + (i < left ? i * 32 * F::bytes : 0);
#pragma unroll
            for (int part = 0; part < PARTS; part++) {
                F::load(from, at[part], piece, &next[i][part]);
            }
        }
    }

    __device__ __forceinline__ void turn(const matmul_args &a, const gqh_block &b) {
        constexpr uint32_t step = AHEAD * 32u * F::bytes;
#pragma unroll
        for (int i = 0; i < AHEAD * PARTS; i++) {
            now[i / PARTS][i % PARTS] = next[i / PARTS][i % PARTS];
        }
        left -= AHEAD;
#pragma unroll
        for (int part = 0; part < PARTS; part++) {
            at[part].codes += step, at[part].ratio += step, at[part].scale += step;
        }
        if (left <= 0) {
            task += b.waves;
            if (task >= b.tasks && a.pair && which == 0u) {
                which = 1u;
                data = a.data[1];
                task = wave_index();
            }
            aim(a, b);
        }
    }

    __device__ __forceinline__ void start(const matmul_args &a, const gqh_block &b) {
        task = wave_index() < b.waves ? wave_index() : b.tasks;
        which = wave_index() < b.waves ? 0u : 1u;
        piece = 4u * (wave_index() & 1u) + (lane_index() >> 3);
        data = a.data[0];
        aim(a, b);
        ask();
    }
};

/* ---- x ------------------------------------------------------------------------------------------ */

/* Superblocks from `first` on of COLUMNS rows of x to shared memory, `apart` floats a row; the whole
 * block.  They are there after copies_wait and a barrier. */
template <int COLUMNS>
DEVICE void bring_x(const gqh_args &args, const gqh_block &b, uint32_t first, float *to,
                    uint32_t apart) {
    const matmul_args &a = args.base;
    uint32_t left = b.superblocks - first, count = (left < args.chunk ? left : args.chunk) * 64u;
#pragma unroll 1
    for (int c = 0; c < COLUMNS; c++) {
        int64_t row = b.column + c < a.m ? b.column + c : a.m - 1;
        int64_t from = row * a.x_stride + (int64_t)first * 256;
        const float *values = (const float *)a.x + from;
        bool aligned = a.x_dtype == OPREG_F32 && ((uintptr_t)values & 15u) == 0u;
#pragma unroll 2
        for (uint32_t i = thread_index(); i < count; i += thread_count()) {
            float *place = to + c * apart + (i >> 6) * GQH_X_FLOATS + (i >> 3 & 7u) * 36u +
                           (i & 7u) * 4u;
            if (aligned) {
                copy_four(place, values + 4u * i);
            } else {
                *(float4 *)place = make_float4(canonical_load(a.x, from + 4 * i, a.x_dtype),
                                               canonical_load(a.x, from + 4 * i + 1, a.x_dtype),
                                               canonical_load(a.x, from + 4 * i + 2, a.x_dtype),
                                               canonical_load(a.x, from + 4 * i + 3, a.x_dtype));
            }
        }
    }
}

/* ---- sums --------------------------------------------------------------------------------------- */

/* A superblock's four folds of each row of weights and of x. */
template <class F, int COLUMNS, int PARTS>
DEVICE void fold_superblock(gqh_wire *wire, const float *x, uint32_t apart, const float *front,
                            float (*acc)[4][COLUMNS]) {
    float2 scale[PARTS];
#pragma unroll
    for (int part = 0; part < PARTS; part++) {
        scale[part] = F::scales(wire[part], front);
        F::arrange(&wire[part]);
    }
#pragma unroll
    for (int i = 0; i < 4; i++) {
        float level[PARTS][8];
#pragma unroll
        for (int part = 0; part < PARTS; part++) {
            F::levels(wire[part], i, level[part]);
        }
#pragma unroll
        for (int c = 0; c < COLUMNS; c++) {
            const float4 *at = (const float4 *)(x + c * apart + 8 * i);
            float4 low = at[0], high = at[1];
#pragma unroll
            for (int part = 0; part < PARTS; part++) {
                const float *l = level[part];
                float h = CANONICAL_FMA(l[0], low.x, 0.0f);
                h = CANONICAL_FMA(l[1], low.y, h);
                h = CANONICAL_FMA(l[2], low.z, h);
                h = CANONICAL_FMA(l[3], low.w, h);
                h = CANONICAL_FMA(l[4], high.x, h);
                h = CANONICAL_FMA(l[5], high.y, h);
                h = CANONICAL_FMA(l[6], high.z, h);
                h = CANONICAL_FMA(l[7], high.w, h);
                acc[part][i][c] = CANONICAL_FMA(i < 2 ? scale[part].x : scale[part].y, h,
                                                acc[part][i][c]);
            }
        }
    }
}

/* The tree over the 32 accumulators of an output: v[i] of this half, other[32 * i] of the other. */
DEVICE float gqh_tree(const float *v, const float *other) {
    float sum[4];
#pragma unroll
    for (int i = 0; i < 4; i++) {
        sum[i] = v[i] + other[32 * i];
        sum[i] = sum[i] + wave_xor(sum[i], 16);
        sum[i] = sum[i] + wave_xor(sum[i], 8);
    }
    return (sum[0] + sum[2]) + (sum[1] + sum[3]);
}

/* Stores the outputs of a part, or keeps them as gates; all lanes have them. */
template <int COLUMNS>
DEVICE void store_part(const matmul_args &a, const gqh_block &b, uint32_t part, bool gate, bool up,
                       const float *value, float *gates) {
    uint32_t row = part * 8u + (lane_index() & 7u);
    int64_t n = (int64_t)b.first * 8 + row;
    if (lane_index() >= 8u || part >= b.parts || n >= a.n) {
        return;
    }
#pragma unroll
    for (int c = 0; c < COLUMNS; c++) {
        float y = value[c];
        if (gate) {
            gates[row * COLUMNS + c] = y;
            continue;
        }
        y = up ? canonical_glu(a.glu, gates[row * COLUMNS + c], y, a.glu_alpha, a.glu_limit)
               : a.bias != 0 ? y + a.bias[n] : y;
        if (b.column + c < a.m) {
            canonical_store(a.y, (b.column + c) * a.y_stride + n, a.y_dtype, y);
        }
    }
}

/* ---- the kernel --------------------------------------------------------------------------------- */

/* The tables of one weight; the whole block. */
template <class F> DEVICE void fill_tables(const opreg_side *side, float *front) {
    for (uint32_t i = thread_index(); i < 512u; i += thread_count()) {
        uint32_t at = GQH_TABLE + (i & 255u) * 256u + i / 256u * 128u;
        float4 four = F::fill(i & 255u, i / 256u, side);
#pragma unroll
        for (uint32_t copy = 0; copy < 8u; copy++) { /* neighbours in other banks */
            *(float4 *)shared_at(at + ((copy + i) & 7u) * 16u) = four;
        }
    }
    for (uint32_t i = thread_index(); i < GQH_SCALES; i += thread_count()) {
        front[i] = F::scale_entry(i, side);
    }
    if (thread_index() < 16u) {
        front[GQH_SCALES + thread_index()] = gqh_ratio[thread_index()];
    }
}

/* Grid (blocks, sets of COLUMNS rows of x); an even number of waves. */
template <class F, int COLUMNS, int PARTS, int AHEAD> DEVICE void rows32_gqh(const gqh_args &args) {
    extern __shared__ __align__(16) float front[];
    const matmul_args &a = args.base;
    uint32_t wave = wave_index(), lane = lane_index();
    uint32_t parts = (uint32_t)((a.n + 7) / 8);
    uint32_t first = (uint32_t)((uint64_t)parts * block_x() / grid_x());
    uint32_t end = (uint32_t)((uint64_t)parts * (block_x() + 1u) / grid_x());
    gqh_block b = {first, end - first, (end - first + PARTS - 1u) / PARTS * GQH_TEAM, args.superblocks,
                   args.waves, (int64_t)block_y() * COLUMNS};
    float *gates = front + GQH_GATES;
    float *other = gates + args.gates + wave / GQH_TEAM * (COLUMNS * PARTS * GQH_TEAM_SUMS) + lane;
    float *x = (float *)shared_at(GQH_X);
    uint32_t apart = args.chunk * GQH_X_FLOATS, turn = COLUMNS * apart, buffer = 0;
    uint32_t chunks = (b.superblocks + args.chunk - 1u) / args.chunk;
    uint32_t rounds = (b.tasks + b.waves - 1u) / b.waves;
    gqh_stream<F, PARTS, AHEAD> stream;
    let_next_launch_start();
    stream.start(a, b);
    if (!args.chained) {
        bring_x<COLUMNS>(args, b, 0, x, apart);
    }
    fill_tables<F>(a.side[0], front);
    if (args.chained) {
        wait_for_launch_ahead();
        bring_x<COLUMNS>(args, b, 0, x, apart);
    }
#pragma unroll 1
    for (uint32_t which = 0; which < (a.pair ? 2u : 1u); which++) {
        if (which == 1u) {
            __syncthreads(); /* the tables of the gate were read */
            fill_tables<F>(a.side[1], front);
        }
#pragma unroll 1
        for (uint32_t round = 0; round < rounds; round++) {
            uint32_t task = wave < b.waves ? round * b.waves + wave : b.tasks;
            float acc[PARTS][4][COLUMNS];
#pragma unroll
            for (int i = 0; i < PARTS * 4 * COLUMNS; i++) {
                acc[i / (4 * COLUMNS)][i / COLUMNS % 4][i % COLUMNS] = 0.0f;
            }
#pragma unroll 1
            for (uint32_t chunk = 0; chunk < chunks; chunk++) {
                uint32_t begin = chunk * args.chunk, next = chunk + 1u < chunks ? chunk + 1u : 0u;
                uint32_t left = b.superblocks - begin;
                int32_t count = (int32_t)(left < args.chunk ? left : args.chunk);
                const float *at = x + buffer * turn + stream.piece * 36u;
                if (chunks > 1u || round == 0u) {
                    copies_wait();
                    __syncthreads();
                }
                if (chunks > 1u) { /* the next ones; at the very end, some that nobody reads */
                    buffer ^= 1u;
                    bring_x<COLUMNS>(args, b, next * args.chunk, x + buffer * turn, apart);
                }
#pragma unroll 1
                for (int32_t u = 0; u < count && task < b.tasks; u += AHEAD) {
                    stream.turn(a, b);
                    stream.ask();
#pragma unroll
                    for (int i = 0; i < AHEAD; i++) {
                        if (u + i < count) {
                            fold_superblock<F, COLUMNS, PARTS>(stream.now[i],
                                                               at + i * GQH_X_FLOATS, apart, front,
                                                               acc);
                        }
                    }
                    at += AHEAD * GQH_X_FLOATS;
                }
            }
            if (round + which > 0u) {
                __syncthreads(); /* the sums of the round before were read */
            }
            if (task < b.tasks && (wave & 1u) == 1u) {
#pragma unroll
                for (int i = 0; i < PARTS * COLUMNS * 4; i++) {
                    other[32 * i] = acc[i / (4 * COLUMNS)][i % 4][i / 4 % COLUMNS];
                }
            }
            __syncthreads();
            if (task < b.tasks && (wave & 1u) == 0u) {
#pragma unroll
                for (int part = 0; part < PARTS; part++) {
                    float value[COLUMNS];
#pragma unroll
                    for (int c = 0; c < COLUMNS; c++) {
                        float v[4] = {acc[part][0][c], acc[part][1][c], acc[part][2][c],
                                      acc[part][3][c]};
                        value[c] = gqh_tree(v, other + 128 * (part * COLUMNS + c));
                    }
                    store_part<COLUMNS>(a, b, task / GQH_TEAM * PARTS + (uint32_t)part,
                                        a.pair && which == 0u, which == 1u, value, gates);
                }
            }
        }
    }
}

#endif /* OPREG_SM90_ROWS32_GQH_CUH */
