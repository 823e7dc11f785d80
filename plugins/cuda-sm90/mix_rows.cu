/* SPDX-License-Identifier: MIT
 * mix_rows.cu - dense and grouped matrices of ROCmFP2_MIX and ROCmFP3_MIX, canonical order.
 *
 * Lane = row, with up to four rows of weights (gate and up of two tiles, or tiles of one matrix) for
 * which x is read once.  Pairs of blocks v, v + 16, .. make the accumulators 2v and 2v + 1: those of
 * wave v of a team of 16, or of wave v mod 8 of 8.  A wave's next weights come to its place in shared
 * memory while it folds those ahead of them: registers have no room for them early enough. */
#include "mix_args.h"
#include "mix_formats.cuh"

DEVICE void copy_piece(void *to, const void *from) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(
                     (uint32_t)__cvta_generic_to_shared(to)),
                 "l"(from)
                 : "memory");
}

DEVICE void wait_for_pieces() { asm volatile("cp.async.wait_all;" ::: "memory"); }

/* A row of x as f32 to shared memory, there after wait_for_pieces and a barrier; the whole block. */
DEVICE void bring_row(const matmul_args &a, int64_t row, float *to) {
    const float *from = (const float *)a.x + row * a.x_stride;
    if (a.x_dtype == OPREG_F32 && ((uintptr_t)from & 15u) == 0u) {
        for (uint32_t i = thread_index(); i < (uint32_t)a.k / 4u; i += thread_count()) {
            copy_piece((float4 *)to + i, (const float4 *)from + i);
        }
        return;
    }
#pragma unroll 2
    for (uint32_t i = thread_index(); i < (uint32_t)a.k; i += thread_count()) {
        to[i] = canonical_load(a.x, row * a.x_stride + i, a.x_dtype);
    }
}

/* The first eight waves have FIRST rows a lane and the others SECOND; 0: all 16 are one team and have
 * FIRST.  TABLES: 2, the rows are of gate and up by turns; 1, of one matrix. */
template <class F, int FIRST, int SECOND, int TABLES> struct mix_block {
    static const int waves = SECOND == 0 ? 16 : 8; /* of a team */
    static const int rows = FIRST + SECOND, tiles = rows / TABLES;
    static const int place = FIRST * F::group; /* bytes of a wave's weights */
    /* Floats from pair to pair of accumulators, which a wave that has one pair leaves in its place. */
    static const int apart = SECOND == 0 ? place / 4 : rows * 64;
    const matmul_args &a;
    uint32_t groups, lane, wave, team;
    uint8_t *tables, *weights;
    float *sums, *parts, *x;

    __device__ __forceinline__ mix_block(const rows32_args &args, uint8_t *shared)
        : a(args.base), groups(args.groups), lane(lane_index()), wave(wave_index() % waves),
          team(wave_index() / waves), tables(shared) {
        uint8_t *places = shared + TABLES * F::table, *after = places + rows * waves * F::group;
        weights = places + team * (waves * place) + wave * ((team == 0 ? FIRST : SECOND) * F::group);
        sums = (float *)(SECOND == 0 ? places : after);
        parts = (float *)(SECOND == 0 ? after : after + rows * MIX_SUMS);
        x = parts + rows * (MIX_PARTS / 4);
    }

    /* Whether every entry that counts has row 0 of x, which then needs no route. */
    __device__ __forceinline__ bool one_row() { return a.tokens == 1 && !a.by_dst; }

    __device__ __forceinline__ uint32_t first_tile() { return block_x() * tiles; }

    /* Where this wave begins in a lane's row s.  Past the end the last tile comes again, for nothing. */
    __device__ __forceinline__ const uint8_t *stream(uint32_t s, int64_t expert) {
        uint32_t matrix = s % TABLES, tile = first_tile() + (team * FIRST + s) / TABLES;
        uint32_t last = ((uint32_t)a.n + 31u) / 32u - 1u;
        return a.data[matrix] + expert * a.expert_stride[matrix] +
               (int64_t)(tile < last ? tile : last) * 32 * a.row_bytes + wave * F::group;
    }

    /* Copies of a group of all S rows of a lane: 16 bytes a lane of each, then the rest of all, which is
     * dealt to the lanes as one. */
    template <int S> struct copies {
        static const uint32_t each = F::group / 16 - 32, rest = S * each;
        static const int rounds = (rest + 31) / 32;
        const uint8_t *from[S], *from_rest[rounds];

        __device__ __forceinline__ copies(mix_block &b, int64_t expert) {
#pragma unroll
            for (int s = 0; s < S; s++) {
                from[s] = b.stream(s, expert) + b.lane * 16u;
            }
#pragma unroll
            for (int r = 0; r < rounds; r++) {
                uint32_t i = b.lane + 32u * r;
                from_rest[r] = b.stream(i / each, expert) + 512u + i % each * 16u;
            }
        }

        __device__ __forceinline__ void advance(int32_t bytes) {
#pragma unroll
            for (int s = 0; s < S; s++) {
                from[s] += bytes;
            }
#pragma unroll
            for (int r = 0; r < rounds; r++) {
                from_rest[r] += bytes;
            }
        }

        /* To the wave's place, which all lanes have read. */
        __device__ __forceinline__ void start(mix_block &b) {
#pragma unroll
            for (int s = 0; s < S; s++) {
                copy_piece(b.weights + s * F::group + b.lane * 16u, from[s]);
            }
#pragma unroll
            for (int r = 0; r < rounds; r++) {
                uint32_t i = b.lane + 32u * r;
                if (32u * r + 32u <= rest || i < rest) {
                    copy_piece(b.weights + i / each * F::group + 512u + i % each * 16u,
                               from_rest[r]);
                }
            }
        }
    };

    template <int S> __device__ __forceinline__ void first_weights(int64_t expert) {
        if (wave < groups) {
            copies<S>(*this, expert).start(*this);
        }
    }

    /* An entry, whose first weights are asked for, into the sums.  A wave that stands for two goes
     * through the pairs of one and then of the other. */
    template <int S> __device__ __forceinline__ void fold(int64_t expert, const bool *books) {
        copies<S> next(*this, expert);
#pragma unroll 1
        for (uint32_t as = wave; as < 16u; as += waves) {
            float acc[S][2];
#pragma unroll
            for (int s = 0; s < S; s++) {
                acc[s][0] = acc[s][1] = 0.0f;
            }
#pragma unroll 1
            for (uint32_t p = as; p < groups; p += 16u) {
                F now[S];
                uint32_t then = p + 16u;
                bool more = then < groups;
                if (waves < 16 && !more) {
                    then = as + waves;
                    more = then < (groups < 16u ? groups : 16u);
                }
                wait_for_pieces();
                __syncwarp();
#pragma unroll
                for (int s = 0; s < S; s++) {
                    now[s].read(weights + s * F::group, lane);
                }
                __syncwarp();
                next.advance((int32_t)(then - p) * F::group);
                if (more) {
                    next.start(*this);
                }
                F::template fold<S, TABLES>(now, books, tables, (const float4 *)(x + p * 64u), acc);
            }
#pragma unroll
            for (int s = 0; s < S; s++) {
                float *to = sums + as * apart + (team * FIRST + s) * 64u + lane;
                to[0] = acc[s][0];
                to[32] = acc[s][1];
            }
        }
    }

    __device__ __forceinline__ float whole(uint32_t s) {
        const float *p = parts + s * (MIX_PARTS / 4) + lane;
        return (p[0] + p[64]) + (p[32] + p[96]);
    }

    /* The sums of eight accumulators each, l and every fourth after it. */
    __device__ __forceinline__ void halve_sums() {
#pragma unroll
        for (uint32_t i = wave_index(); i < 4u * rows; i += 16u) {
            const float *from = sums + (i >> 1 & 1u) * apart + (i >> 2) * 64u + (i & 1u) * 32u;
            parts[i * 32u + lane] = finish_tree<8>(from + lane, 2 * apart);
        }
    }

    /* The outputs of an entry. */
    __device__ __forceinline__ void store(int64_t dst) {
        int64_t n = (int64_t)(first_tile() + wave_index()) * 32 + lane;
        if (wave_index() < tiles && n < a.n) {
            float value;
            if (TABLES == 2) {
                value = canonical_glu(a.glu, whole(2u * wave_index()),
                                      whole(2u * wave_index() + 1u), a.glu_alpha, a.glu_limit);
            } else {
                value = whole(wave_index());
                value = a.bias != 0 ? value + a.bias[n] : value;
            }
            store_output(a, dst, n, value);
        }
    }

    __device__ __forceinline__ void store_zeros(int64_t dst) {
        int64_t n = (int64_t)(first_tile() + wave_index()) * 32 + lane;
        if (wave_index() < tiles && n < a.n) {
            store_output(a, dst, n, 0.0f);
        }
    }

    __device__ __forceinline__ void first_of_team(int64_t expert) {
        if constexpr (SECOND != 0) {
            if (team != 0) {
                return first_weights<SECOND>(expert);
            }
        }
        first_weights<FIRST>(expert);
    }

    __device__ __forceinline__ void fold_of_team(int64_t expert, const bool *books) {
        if constexpr (SECOND != 0) {
            if (team != 0) {
                return fold<SECOND>(expert, books);
            }
        }
        fold<FIRST>(expert, books);
    }

    /* Group g, which is asked for.  Whether the block has more groups. */
    __device__ __forceinline__ bool group(uint32_t g, mix_group now) {
        bool some = now.settle(a, g), more = g + grid_y() < now.groups;
        int32_t expert = now.expert, begin = now.begin, end = now.end;
        if (!some) {
            return more;
        }
        int64_t at = expert >= 0 && expert < a.experts ? expert : 0;
        const opreg_side *side[2] = {a.side[0] + at, a.side[TABLES - 1] + at};
        /* ahead of the weights, in whose queue they would wait */
        typename F::filling levels[2] = {F::ask(side[0]), F::ask(side[1])};
        bool books[2] = {side[0]->mode != 0u, side[1]->mode != 0u};
        asm volatile("" ::: "memory");
        first_of_team(at);
#pragma unroll 1
        for (int32_t e = begin; e < end; e++) {
            group_entry entry = mix_entry_at(a, e);
            bool counts = entry_stored(a, entry) && entry_counts(a, expert, entry);
            if (counts && !one_row()) {
                bring_row(a, a.by_dst ? entry.dst : entry.token, x);
            }
            if (e == begin) {
#pragma unroll
                for (int t = 0; t < TABLES; t++) {
                    F::fill(tables + t * F::table, levels[t]);
                }
            }
            if (!counts) {
                if (entry_stored(a, entry)) {
                    store_zeros(entry.dst);
                }
                continue;
            }
            wait_for_pieces();
            __syncthreads();
            fold_of_team(at, books);
            __syncthreads();
            halve_sums();
            __syncthreads();
            if (e + 1 < end) {
                first_of_team(at);
            }
            store(entry.dst);
        }
        wait_for_pieces(); /* which the last entry may have left where the next group's come */
        if (more) {
            __syncthreads();
        }
        return more;
    }
};

template <class F, int FIRST, int SECOND, int TABLES> DEVICE void mix_rows(const rows32_args &args) {
    extern __shared__ __align__(128) uint8_t mix_shared[];
    mix_block<F, FIRST, SECOND, TABLES> block(args, mix_shared);
    const matmul_args &a = args.base;
    if (args.chained) {
        ask_ahead<TABLES>(a);
        wait_for_launch_ahead();
    }
    let_next_launch_start(); /* see rows32_route.cuh */
    uint32_t g = block_y();
    mix_group now;
    now.ask(a, g); /* ahead of x, in whose queue it would wait                                      */
    asm volatile("" ::: "memory");
    if (a.route.header != 0 && g < a.route.cap_entries && thread_index() == 0u) {
        ask_for(a.route.entry_token + g); /* of one token, the group's only entry                   */
        ask_for(a.route.entry_dst + g);
    }
    if (block.one_row()) {
        bring_row(a, 0, block.x);
    }
    while (block.group(g, now)) {
        g += grid_y();
        now.ask(a, g);
    }
}

#define MIX_KERNEL(name, format, first, second, tables)                                            \
    KERNEL __launch_bounds__(MIX_THREADS, 1) name(const __grid_constant__ rows32_args args) {      \
        mix_rows<format, first, second, tables>(args);                                             \
    }
MIX_KERNEL(mix2_glu, mix2, MIX_GLU_ROWS, 0, 2)
MIX_KERNEL(mix2_rows, mix2, MIX_ROWS_FIRST, MIX_ROWS_SECOND, 1)
MIX_KERNEL(mix3_glu, mix3, MIX_GLU_ROWS, 0, 2)
MIX_KERNEL(mix3_rows, mix3, MIX_ROWS_FIRST, MIX_ROWS_SECOND, 1)
