/* SPDX-License-Identifier: MIT
 * gqh_lanes.cuh - a few rows of x against GQH weights, in the canonical order, with one block a
 * multiprocessor; dense, or by group of a route.
 *
 * A lane has eight weights of every superblock, which are one accumulator, of the rows of QUADS times
 * four neighbouring weight rows.  So eight values of x in registers serve them all, and a decoded weight
 * all COLUMNS rows of x.  Of a pair the first half of the quads are the gate's rows, the other half up's. */
#ifndef OPREG_SM90_GQH_LANES_CUH
#define OPREG_SM90_GQH_LANES_CUH

#include "gqh_lanes_formats.cuh"
#include "rows32_route.cuh"

/* What a block has of a weight: a task is the quads of rows of a wave. */
struct gqh_block {
    uint32_t first, quads, each, tasks; /* each: quads of a task                                    */
    uint32_t waves;                     /* that take tasks                                          */
    const uint8_t *data[2];
    const opreg_side *side[2];
};

/* Rows of x and y: those of `of`, or where that is null `first` and on. */
struct gqh_columns {
    int64_t first;
    const columns *of;

    __device__ __forceinline__ int64_t x(const matmul_args &a, int c) const {
        return of != 0 ? of->x[c] : first + c < a.m ? first + c : a.m - 1;
    }
    __device__ __forceinline__ int64_t y(const matmul_args &a, int c) const {
        return of != 0 ? of->y[c] : first + c < a.m ? first + c : -1;
    }
    __device__ __forceinline__ bool dead(int c) const { return of != 0 && (of->dead >> c & 1) != 0; }
};

/* ---- weights ------------------------------------------------------------------------------------ */

/* The wave's weights, AHEAD superblocks at a time, those for the next turn on their way: task after
 * task. */
template <class F, int QUADS, int AHEAD> struct gqh_stream {
    gqh_wire now[AHEAD][QUADS], next[AHEAD][QUADS];
    typename F::place at[QUADS];
    const uint8_t *data[2]; /* of the quads' first and second half: the next superblock             */
    uint32_t task;
    int32_t left; /* superblocks of the task                                                        */

    static __device__ __forceinline__ constexpr int half(int q) {
        return QUADS % 2 == 0 && q >= QUADS / 2 ? 1 : 0;
    }

    __device__ __forceinline__ void aim(const gqh_lanes_args &args, const gqh_block &b) {
#pragma unroll
        for (uint32_t q = 0; q < QUADS; q++) { /* a quad that is not there repeats the last */
            uint32_t quad = task * b.each + (half((int)q) != 0 && args.base.pair ? q - QUADS / 2 : q);
            at[q] = F::aim(args.base, b.first + (quad < b.quads ? quad : b.quads - 1u));
        }
        left = task < b.tasks ? (int32_t)args.superblocks : 0;
        data[0] = b.data[0], data[1] = b.data[1];
    }

    /* Asks for the next ones; what is not there repeats what is. */
    __device__ __forceinline__ void ask(const matmul_args &a) {
        if (left == 0) {
            return;
        }
#pragma unroll
        for (int i = 0; i < AHEAD; i++) {
            int32_t step = i < left ? i : 0;
#pragma unroll
            for (int q = 0; q < QUADS; q++) {
                F::load(a, data[half(q)] + step * F::step, at[q], left == step + 1, &next[i][q]);
            }
        }
    }

    __device__ __forceinline__ void turn(const gqh_lanes_args &args, const gqh_block &b) {
#pragma unroll
        for (int i = 0; i < AHEAD * QUADS; i++) {
            now[i / QUADS][i % QUADS] = next[i / QUADS][i % QUADS];
        }
        data[0] += AHEAD * F::step, data[1] += AHEAD * F::step;
        left -= AHEAD;
        if (left <= 0) {
            task += b.waves;
            aim(args, b);
        }
        ask(args.base);
    }

    __device__ __forceinline__ void start(const gqh_lanes_args &args, const gqh_block &b) {
        task = gqh_wave() < b.waves ? gqh_wave() : b.tasks;
        aim(args, b);
        ask(args.base);
    }
};

/* ---- x ------------------------------------------------------------------------------------------ */

/* Superblocks from `first` on of COLUMNS rows of x to shared memory, `apart` floats a row; of each the
 * first four values of the lanes, then the others.  The whole block; there after copies_wait and a barrier. */
template <int COLUMNS>
DEVICE void bring_x(const gqh_lanes_args &args, const gqh_columns &cols, uint32_t first, float *to,
                    uint32_t apart) {
    const matmul_args &a = args.base;
    uint32_t left = args.superblocks - first, count = (left < args.chunk ? left : args.chunk) * 64u;
#pragma unroll 1
    for (int c = 0; c < COLUMNS; c++) {
        int64_t from = cols.x(a, c) * a.x_stride + (int64_t)first * 256;
        const float *values = (const float *)a.x + from;
        bool aligned = a.x_dtype == OPREG_F32 && ((uintptr_t)values & 15u) == 0u;
#pragma unroll 2
        for (uint32_t i = thread_index(); i < count; i += thread_count()) {
            float *place = to + c * apart + (i >> 6) * 256u + (i & 1u) * 128u + (i >> 1 & 31u) * 4u;
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

/* What the halves of a wave's quads are decoded by. */
struct gqh_decoding {
    uint32_t slot[2];
    float tensor_scale[2];
};

/* A superblock's fold of each row of weights and of x. */
template <class F, int COLUMNS, int QUADS>
DEVICE void fold_superblock(const gqh_wire *wire, const float *x, uint32_t apart,
                            const gqh_decoding &by, uint32_t row_bytes, float (*acc)[4]) {
    float4 low[COLUMNS], high[COLUMNS];
#pragma unroll
    for (int c = 0; c < COLUMNS; c++) {
        low[c] = *(const float4 *)(x + c * apart);
        high[c] = *(const float4 *)(x + c * apart + 128);
    }
#pragma unroll
    for (int q = 0; q < QUADS; q++) {
        const int half = gqh_stream<F, QUADS, 1>::half(q);
        uint32_t codes[4];
        float scale[4];
        F::codes(wire[q], row_bytes, codes);
        F::scales(wire[q], codes, by.tensor_scale[half], scale);
#pragma unroll
        for (int r = 0; r < 4; r++) {
            float l[8];
            F::levels(codes[r], by.slot[half], l);
#pragma unroll
            for (int c = 0; c < COLUMNS; c++) {
                float h = CANONICAL_FMA(l[0], low[c].x, 0.0f);
                h = CANONICAL_FMA(l[1], low[c].y, h);
                h = CANONICAL_FMA(l[2], low[c].z, h);
                h = CANONICAL_FMA(l[3], low[c].w, h);
                h = CANONICAL_FMA(l[4], high[c].x, h);
                h = CANONICAL_FMA(l[5], high[c].y, h);
                h = CANONICAL_FMA(l[6], high[c].z, h);
                h = CANONICAL_FMA(l[7], high[c].w, h);
                acc[q * COLUMNS + c][r] = CANONICAL_FMA(scale[r], h, acc[q * COLUMNS + c][r]);
            }
        }
    }
}

/* A step of the tree over N sets of four rows; of an even number each half of the lanes keeps one half.
 * The first set that the lane has. */
template <int N, int BIT> DEVICE uint32_t tree_step(float (*v)[4]) {
    bool upper = (lane_index() & BIT) != 0u;
    if constexpr (N % 2 == 0) {
#pragma unroll
        for (int i = 0; i < N / 2 * 4; i++) {
            float first = v[i / 4][i % 4], second = v[i / 4 + N / 2][i % 4];
            v[i / 4][i % 4] = (upper ? second : first) + wave_xor(upper ? first : second, BIT);
        }
        return upper ? N / 2 : 0u;
    } else {
#pragma unroll
        for (int i = 0; i < N * 4; i++) {
            v[i / 4][i % 4] = v[i / 4][i % 4] + wave_xor(v[i / 4][i % 4], BIT);
        }
        return 0u;
    }
}

DEVICE constexpr int sets_after(int n) { return n % 2 == 0 ? n / 2 : n; }

/* Its last two steps: the sum of row lane % 4.  turned: value i of a lane is of row i ^ lane % 4. */
template <bool turned> DEVICE float tree_rows(const float *v) {
    bool two = !turned && (lane_index() & 2u) != 0u, one = !turned && (lane_index() & 1u) != 0u;
    float even = (two ? v[2] : v[0]) + wave_xor(two ? v[0] : v[2], 2);
    float odd = (two ? v[3] : v[1]) + wave_xor(two ? v[1] : v[3], 2);
    return (one ? odd : even) + wave_xor(one ? even : odd, 1);
}

/* The outputs of a task from its accumulators. */
template <class F, int COLUMNS, int QUADS>
DEVICE void finish_task(const matmul_args &a, const gqh_block &b, const gqh_columns &cols,
                        uint32_t task, float (*acc)[4]) {
    constexpr int n0 = QUADS * COLUMNS, n1 = sets_after(n0), n2 = sets_after(n1);
    constexpr int n3 = sets_after(n2);
    /* lanes that have the same sums as one without these bits */
    uint32_t same = (n1 == n0 ? 16u : 0u) | (n2 == n1 ? 8u : 0u) | (n3 == n2 ? 4u : 0u);
    uint32_t set = tree_step<n0, 16>(acc);
    set += tree_step<n1, 8>(acc);
    set += tree_step<n2, 4>(acc);
#pragma unroll
    for (int i = 0; i < n3; i++) {
        float y = tree_rows<F::turned>(acc[i]), up = 0.0f;
        if (QUADS % 2 == 0 && a.pair) { /* the upper lanes have up's rows */
            up = wave_xor(y, 16);
            same |= 16u;
        }
        uint32_t c = (set + i) % COLUMNS, quad = task * b.each + (set + i) / COLUMNS;
        int64_t n = F::first_row(a, b.first + quad) + (lane_index() & 3u), row = cols.y(a, (int)c);
        bool mine = quad < b.quads && n >= (int64_t)(b.first + quad) * 4 && n < a.n;
        if ((lane_index() & same) == 0u && mine && row >= 0) {
            y = a.pair ? canonical_glu(a.glu, y, up, a.glu_alpha, a.glu_limit)
                       : a.bias != 0 ? y + a.bias[n] : y;
            canonical_store(a.y, row * a.y_stride + n, a.y_dtype, cols.dead((int)c) ? 0.0f : y);
        }
    }
}

/* ---- a block ------------------------------------------------------------------------------------ */

/* The block's quads of an expert's weights. */
template <int QUADS> DEVICE gqh_block gqh_share(const gqh_lanes_args &args, int64_t expert) {
    const matmul_args &a = args.base;
    uint32_t quads = (uint32_t)((a.n + 3) / 4), each = a.pair ? QUADS / 2 : QUADS;
    uint32_t first = (uint32_t)((uint64_t)quads * block_x() / grid_x());
    uint32_t count = (uint32_t)((uint64_t)quads * (block_x() + 1u) / grid_x()) - first;
    return {first,
            count,
            each,
            (count + each - 1u) / each,
            args.waves,
            {a.data[0] + expert * a.expert_stride[0],
             (a.pair ? a.data[1] : a.data[0]) + expert * a.expert_stride[a.pair ? 1 : 0]},
            {a.side[0] + expert, (a.pair ? a.side[1] : a.side[0]) + expert}};
}

/* The tables of a block; all of it. */
template <class F> DEVICE void fill_tables(const gqh_block &b, uint32_t pair) {
    float levels[2] = {F::ask(b.side[0]), F::ask(b.side[1])};
    uint32_t halves = F::both || pair ? 2u : 1u;
    for (uint32_t i = thread_index(); i < 256u * halves; i += thread_count()) {
        uint32_t at = GQH_TABLE + (i & 255u) * 256u + i / 256u * 128u;
        float4 four = F::fill(i & 255u, i / 256u, i < 256u ? levels[0] : levels[1]);
#pragma unroll
        for (uint32_t copy = 0; copy < 8u; copy++) { /* neighbours in other banks */
            *(float4 *)shared_at(at + ((copy + i) & 7u) * 16u) = four;
        }
    }
}

/* COLUMNS rows of x, of which the first chunk was asked for, against the block's quads; the stream was
 * started. */
template <class F, int COLUMNS, int QUADS, int AHEAD>
DEVICE void gqh_pass(const gqh_lanes_args &args, const gqh_block &b, const gqh_columns &cols,
                     gqh_stream<F, QUADS, AHEAD> &stream) {
    const matmul_args &a = args.base;
    float *x = (float *)shared_at(GQH_X);
    uint32_t apart = args.chunk * 256u, buffer = 0, wave = gqh_wave();
    uint32_t chunks = (args.superblocks + args.chunk - 1u) / args.chunk;
    uint32_t rounds = (b.tasks + b.waves - 1u) / b.waves;
    uint32_t slot = GQH_TABLE + lane_index() % F::copies * (128u / F::copies);
    gqh_decoding by = {{slot, slot + (a.pair && !F::both ? 128u : 0u)},
                       {b.side[0]->tensor_scale, b.side[1]->tensor_scale}};
#pragma unroll 1
    for (uint32_t round = 0; round < rounds; round++) {
        uint32_t task = wave < b.waves ? round * b.waves + wave : b.tasks;
        float acc[QUADS * COLUMNS][4];
#pragma unroll
        for (int i = 0; i < QUADS * COLUMNS * 4; i++) {
            acc[i / 4][i % 4] = 0.0f;
        }
#pragma unroll 1
        for (uint32_t chunk = 0; chunk < chunks; chunk++) {
            uint32_t begin = chunk * args.chunk, next = chunk + 1u < chunks ? chunk + 1u : 0u;
            uint32_t left = args.superblocks - begin;
            uint32_t count = left < args.chunk ? left : args.chunk;
            const float *at = x + buffer * COLUMNS * apart + lane_index() * 4u;
            if (chunks > 1u || round == 0u) {
                copies_wait();
                __syncthreads();
            }
            if (chunks > 1u && (next != 0u || round + 1u < rounds)) {
                buffer ^= 1u;
                bring_x<COLUMNS>(args, cols, next * args.chunk, x + buffer * COLUMNS * apart, apart);
            }
#pragma unroll 1
            for (uint32_t u = 0; u < count && task < b.tasks; u += AHEAD) {
                stream.turn(args, b);
#pragma unroll
                for (int i = 0; i < AHEAD; i++) {
                    if (u + i < count) {
                        fold_superblock<F, COLUMNS, QUADS>(stream.now[i], at + i * 256, apart, by,
                                                           (uint32_t)a.row_bytes, acc);
                    }
                }
                at += AHEAD * 256;
            }
        }
        if (task < b.tasks) {
            finish_task<F, COLUMNS, QUADS>(a, b, cols, task, acc);
        }
    }
}

/* Grid (blocks, sets of COLUMNS rows of x). */
template <class F, int COLUMNS, int QUADS, int AHEAD> DEVICE void gqh_dense(const gqh_lanes_args &args) {
    gqh_block b = gqh_share<QUADS>(args, 0);
    gqh_columns cols = {(int64_t)block_y() * COLUMNS, 0};
    float *x = (float *)shared_at(GQH_X);
    gqh_stream<F, QUADS, AHEAD> stream;
    let_next_launch_start();
    if (!args.chained) {
        bring_x<COLUMNS>(args, cols, 0, x, args.chunk * 256u);
    }
    stream.start(args, b);
    fill_tables<F>(b, args.base.pair);
    if (args.chained) {
        wait_for_launch_ahead();
        bring_x<COLUMNS>(args, cols, 0, x, args.chunk * 256u);
    }
    gqh_pass<F, COLUMNS>(args, b, cols, stream);
}

/* Entries first and on of the block's group; whether tables are to be filled. */
template <class F, int COLUMNS>
DEVICE void gqh_entries(const gqh_lanes_args &args, const gqh_block &b, columns *shared,
                        int32_t expert, int32_t first, int32_t end, bool fill) {
    gqh_columns cols = {0, shared};
    gqh_stream<F, 2, GQH_MOE_AHEAD> stream;
    stream.start(args, b);
    __syncthreads(); /* the rows before, their x and their tables were read */
    if (thread_index() == 0u) {
        gather_columns(args.base, expert, first, end, shared);
    }
    if (fill) {
        fill_tables<F>(b, args.base.pair);
    }
    __syncthreads();
    bring_x<COLUMNS>(args, cols, 0, (float *)shared_at(GQH_X), args.chunk * 256u);
    gqh_pass<F, COLUMNS>(args, b, cols, stream);
}

/* Grid (blocks, groups); a group of one entry does not pay for four. */
template <class F> DEVICE void gqh_grouped(const gqh_lanes_args &args) {
    extern __shared__ __align__(16) uint8_t front[];
    columns *cols = (columns *)front;
    const matmul_args &a = args.base;
    if (args.chained) {
        wait_for_launch_ahead();
    }
    let_next_launch_start(); /* see rows32_route.cuh */
    uint32_t groups = a.route.header->groups;
    groups = groups < a.route.cap_groups ? groups : a.route.cap_groups;
#pragma unroll 1
    for (uint32_t g = block_y(); g < groups; g += grid_y()) {
        int32_t expert, begin, end;
        if (!group_range(a, g, &expert, &begin, &end)) {
            continue;
        }
        gqh_block b = gqh_share<2>(args, expert >= 0 && expert < a.experts ? expert : 0);
#pragma unroll 1
        for (int32_t first = begin; first < end; first += GQH_MOST) {
            if (end - first == 1) {
                gqh_entries<F, 1>(args, b, cols, expert, first, end, first == begin);
            } else {
                gqh_entries<F, GQH_MOST>(args, b, cols, expert, first, end, first == begin);
            }
        }
    }
}

#endif /* OPREG_SM90_GQH_LANES_CUH */
