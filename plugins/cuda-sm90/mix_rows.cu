/* SPDX-License-Identifier: MIT
 * mix_rows.cu - dense and grouped matrices of ROCmFP2_MIX and ROCmFP3_MIX, canonical order.
 *
 * Lane = row, with four streams of weights: gate and up of two tiles of 32 rows, or four tiles of one
 * matrix.  Shared memory gives a lane four bytes a clock, whether lanes read the same or not, so x is read
 * once for all four.  Pairs of blocks v, v + 16, .. make the accumulators 2v and 2v + 1: those of wave v
 * of a team of 16, or of wave v mod 8 of 8. */
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

/* TABLES: 2, a team has gate and up of two tiles; 1, four tiles of one matrix.  WAVES: of a team. */
template <class F, int WAVES, int TEAMS, int TABLES> struct mix_block {
    static const int tiles = MIX_STREAMS / TABLES; /* of a team                                     */
    const matmul_args &a;
    uint32_t groups, lane, wave, team;
    uint8_t *tables;
    float *sums, *x;

    __device__ __forceinline__ mix_block(const rows32_args &args, uint8_t *shared)
        : a(args.base), groups(args.groups), lane(lane_index()), wave(wave_index() % WAVES),
          team(wave_index() / WAVES), tables(shared) {
        float *after = (float *)(shared + TABLES * F::lines * 128);
        sums = after + team * MIX_SUMS;
        x = after + TEAMS * MIX_SUMS;
    }

    /* Whether every entry that counts has row 0 of x, which then needs no route. */
    __device__ __forceinline__ bool one_row() { return a.tokens == 1 && !a.by_dst; }

    __device__ __forceinline__ uint32_t first_tile() { return (block_x() * TEAMS + team) * tiles; }

    /* Where this wave begins in a stream.  Past the end the last tile comes again, for nothing. */
    __device__ __forceinline__ const uint8_t *stream(uint32_t s, int64_t expert) {
        uint32_t matrix = s % TABLES, tile = first_tile() + s / TABLES;
        uint32_t last = ((uint32_t)a.n + 31u) / 32u - 1u;
        return a.data[matrix] + expert * a.expert_stride[matrix] +
               (int64_t)(tile < last ? tile : last) * 32 * a.row_bytes + wave * F::group + lane * 16u;
    }

    __device__ __forceinline__ void first_weights(F *w, int64_t expert) {
        if (wave < groups) {
#pragma unroll
            for (uint32_t s = 0; s < MIX_STREAMS; s++) {
                w[s].load(stream(s, expert), lane);
            }
        }
    }

    /* A pair of blocks of every stream against x. */
    __device__ __forceinline__ void fold_pair(const F *w, const bool *books, const float4 *v,
                                              float (*acc)[2]) {
        float scales[MIX_STREAMS][4];
        uint32_t starts[MIX_STREAMS];
#pragma unroll
        for (uint32_t s = 0; s < MIX_STREAMS; s++) {
            bool two = books[s % TABLES];
            starts[s] = F::starts(w[s].meta, two ? 0x80808080u : 0u);
            half_scales(w[s].meta, two ? 0x7f7f7f7fu : ~0u, scales[s]);
        }
#pragma unroll
        for (int h = 0; h < 4; h++) {
#pragma unroll
            for (uint32_t s = 0; s < MIX_STREAMS; s++) {
                float sum = w[s].fold(h, starts[s], tables + s % TABLES * F::lines * 128, v);
                acc[s][h >> 1] = __fmaf_rn(scales[s][h], sum, acc[s][h >> 1]);
            }
        }
    }

    /* All streams of an entry, whose first weights are loaded, into the sums of the team.  A wave that
     * stands for two goes through the pairs of one and then of the other. */
    __device__ __forceinline__ void fold(F *w, int64_t expert, const bool *books) {
        const uint8_t *next[MIX_STREAMS];
#pragma unroll
        for (uint32_t s = 0; s < MIX_STREAMS; s++) {
            next[s] = stream(s, expert);
        }
#pragma unroll 1
        for (uint32_t as = wave; as < 16u; as += WAVES) {
            float acc[MIX_STREAMS][2];
#pragma unroll
            for (uint32_t s = 0; s < MIX_STREAMS; s++) {
                acc[s][0] = acc[s][1] = 0.0f;
            }
#pragma unroll 1
            for (uint32_t p = as; p < groups; p += 16u) {
                F now[MIX_STREAMS];
                uint32_t then = p + 16u;
                bool more = then < groups;
                if (WAVES < 16 && !more) {
                    then = as + WAVES;
                    more = then < (groups < 16u ? groups : 16u);
                }
#pragma unroll
                for (uint32_t s = 0; s < MIX_STREAMS; s++) {
                    now[s] = w[s];
                    next[s] += (int32_t)(then - p) * F::group;
                    if (more) {
                        w[s].load(next[s], lane);
                    }
                }
                fold_pair(now, books, (const float4 *)(x + p * 64u), acc);
            }
#pragma unroll
            for (uint32_t s = 0; s < MIX_STREAMS; s++) {
                sums[1024u * s + 2u * as * 32u + lane] = acc[s][0];
                sums[1024u * s + (2u * as + 1u) * 32u + lane] = acc[s][1];
            }
        }
    }

    /* The outputs of an entry from the sums. */
    __device__ __forceinline__ void finish(int64_t dst) {
        int64_t n = (int64_t)(first_tile() + wave) * 32 + lane;
        __syncthreads();
        if (wave < MIX_STREAMS) {
            float sum = finish_tree<32>(sums + 1024u * wave + lane, 32);
            if (TABLES == 2) {
                sums[1024u * wave + lane] = sum;
            } else if (n < a.n) {
                store_output(a, dst, n, a.bias != 0 ? sum + a.bias[n] : sum);
            }
        }
        if (TABLES == 2) {
            __syncthreads();
            if (wave < tiles && n < a.n) {
                const float *gate = sums + 2048u * wave + lane;
                store_output(a, dst, n,
                             canonical_glu(a.glu, gate[0], gate[1024], a.glu_alpha, a.glu_limit));
            }
        }
        __syncthreads();
    }

    /* Group g.  Whether the block has more groups. */
    __device__ __forceinline__ bool group(uint32_t g) {
        int32_t expert, begin, end;
        bool more;
        if (!mix_entries(a, g, grid_y(), &expert, &begin, &end, &more)) {
            return more;
        }
        int64_t at = expert >= 0 && expert < a.experts ? expert : 0;
        const opreg_side *side[2] = {a.side[0] + at, a.side[TABLES - 1] + at};
        /* ahead of the weights, in whose queue they would wait */
        typename F::filling levels[2] = {F::ask(side[0]), F::ask(side[1])};
        bool books[2] = {side[0]->mode != 0u, side[1]->mode != 0u};
        asm volatile("" ::: "memory");
        F w[MIX_STREAMS];
        first_weights(w, at);
#pragma unroll
        for (int t = 0; t < TABLES; t++) {
            F::fill(tables + t * F::lines * 128, levels[t]);
        }
#pragma unroll 1
        for (int32_t e = begin; e < end; e++) {
            group_entry entry = mix_entry_at(a, e);
            if (!entry_stored(a, entry)) {
                continue;
            }
            if (!entry_counts(a, expert, entry)) {
                int64_t n = (int64_t)(first_tile() + wave) * 32 + lane;
                if (wave < tiles && n < a.n) {
                    store_output(a, entry.dst, n, 0.0f);
                }
                continue;
            }
            if (!one_row()) {
                bring_row(a, a.by_dst ? entry.dst : entry.token, x);
            }
            wait_for_pieces();
            __syncthreads();
            fold(w, at, books);
            if (e + 1 < end) {
                first_weights(w, at);
            }
            finish(entry.dst);
        }
        return more;
    }
};

template <class F, int WAVES, int TEAMS, int TABLES> DEVICE void mix_rows(const rows32_args &args) {
    extern __shared__ __align__(128) uint8_t mix_shared[];
    mix_block<F, WAVES, TEAMS, TABLES> block(args, mix_shared);
    const matmul_args &a = args.base;
    let_next_launch_start();
    if (args.chained) {
        wait_for_launch_ahead();
    }
    uint32_t g = block_y();
    if (a.route.header != 0 && g < a.route.cap_entries && thread_index() == 0u) {
        ask_for(a.route.entry_token + g); /* of one token, the group's only entry                   */
        ask_for(a.route.entry_dst + g);
    }
    if (block.one_row()) {
        bring_row(a, 0, block.x);
    }
    while (block.group(g)) {
        g += grid_y();
    }
}

static_assert(mix2::lines * 128 == MIX2_TABLE && mix3::lines * 128 == MIX3_TABLE, "as the host counts");

#define MIX_KERNEL(name, format, teams, tables)                                                    \
    KERNEL __launch_bounds__(MIX_THREADS, 1) name(const __grid_constant__ rows32_args args) {      \
        mix_rows<format, (int)MIX_THREADS / 32 / teams, teams, tables>(args);                      \
    }
MIX_KERNEL(mix2_glu, mix2, MIX_GLU_TEAMS, 2)
MIX_KERNEL(mix2_rows, mix2, MIX_ROWS_TEAMS, 1)
MIX_KERNEL(mix3_glu, mix3, MIX_GLU_TEAMS, 2)
MIX_KERNEL(mix3_rows, mix3, MIX_ROWS_TEAMS, 1)
