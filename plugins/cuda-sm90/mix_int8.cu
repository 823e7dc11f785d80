/* SPDX-License-Identifier: MIT
 * mix_int8.cu - dense and grouped matrices of ROCmFP2_MIX with levels and activations as bytes, within
 * the band of quantized activations.
 *
 * Lane = row, with four streams of weights: gate and up of two tiles of 32 rows, or four tiles of one
 * matrix.  A wave has a run of groups of 64 weights of every stream.  A lane has a ring in shared
 * memory, to which it copies the rows that it then reads, and waits for one stream of a group at a
 * time: the first sums begin when an eighth of the ring is there. */
#include "mix_int8.cuh"
#include "mix_int8_args.h"
#include "rows32_route.cuh"

DEVICE uint32_t shared_at(const void *p) { return (uint32_t)__cvta_generic_to_shared(p); }

/* What a block needs of the route to begin with group g, by lane: the numbers of groups and entries,
 * the group's expert and range, and the entry of its number, which of one token is its only one. */
DEVICE uint32_t mix_int8_ask_route(const matmul_args &a, uint32_t g) {
    uint32_t lane = lane_index(), e = min(g, a.route.cap_entries - 1u), got;
    const void *at = &a.route.header->groups;
    at = lane == 1u ? &a.route.header->entries : at;
    at = lane == 2u ? a.route.group_expert + g : at;
    at = lane == 3u ? a.route.group_start + g : at;
    at = lane == 4u ? a.route.group_start + g + 1 : at;
    at = lane == 5u ? a.route.entry_token + e : at;
    at = lane == 6u ? a.route.entry_dst + e : at;
    asm volatile("ld.global.u32 %0, [%1];" : "=r"(got) : "l"(at) : "memory");
    return got;
}

/* TABLES: 2, gate and up; 1, one matrix. */
template <int WAVES, int TABLES> struct mix_int8_block {
    static const int streams = MIX_INT8_STREAMS, tiles = streams / TABLES;
    static const int record = MIX_INT8_RECORD, slot = streams * record, slots = MIX_INT8_SLOTS;
    const matmul_args &a;
    uint32_t lane, wave, first, count; /* groups                                                    */
    uint8_t *ring;                     /* the wave's                                                */
    mix_int8_books *books;
    uint4 *codes;
    float *scales, *sums;
    const uint8_t *from[streams]; /* the wave's first group                                         */

    __device__ __forceinline__ mix_int8_block(const rows32_args &args, uint8_t *shared)
        : a(args.base), lane(lane_index()), wave(wave_index()) {
        uint32_t each = (args.groups + WAVES - 1u) / WAVES;
        first = min(wave * each, args.groups);
        count = min(each, args.groups - first);
        ring = shared + wave * (slots * slot);
        sums = (float *)(shared + WAVES * slots * slot);
        books = (mix_int8_books *)(sums + streams * WAVES * 32);
        codes = (uint4 *)(books + 2);
        scales = (float *)(codes + a.k / 16);
    }

    /* ---- weights -------------------------------------------------------------------------------- */

    /* Past the end the last tile comes again, for nothing. */
    __device__ __forceinline__ void point(int64_t expert) {
        uint32_t end = ((uint32_t)a.n + 31u) / 32u - 1u;
#pragma unroll
        for (uint32_t s = 0; s < streams; s++) {
            uint32_t tile = min(block_x() * tiles + s / TABLES, end);
            from[s] = a.data[s % TABLES] + expert * a.expert_stride[s % TABLES] +
                      (int64_t)tile * 32 * a.row_bytes + first * record;
        }
    }

    /* Has the lane's rows of group i of the wave's copied to a slot, if there is such a group;
     * to: the lane's codes in the slot. */
    __device__ __forceinline__ void ask(uint32_t i, uint32_t to) {
        uint32_t at = i * record + lane * 16u, meta = i * record + 512u + lane * 4u;
        uint32_t to_meta = to + 512u - lane * 12u;
        bool some = i < count;
#pragma unroll
        for (uint32_t s = 0; s < streams; s++) {
            if (some) {
                asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to + s * record),
                             "l"(from[s] + at)
                             : "memory");
                asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(to_meta + s * record),
                             "l"(from[s] + meta)
                             : "memory");
            }
            asm volatile("cp.async.commit_group;" ::: "memory");
        }
    }

    __device__ __forceinline__ void ask_first() {
        uint32_t to = shared_at(ring) + lane * 16u;
#pragma unroll 1
        for (uint32_t i = 0; i < slots; i++) {
            ask(i, to + i * slot);
        }
    }

    /* Streams s and up of a group, whose codes of the lane are at `mine`. */
    template <int s>
    __device__ __forceinline__ void fold_streams(const uint8_t *mine, const mix_int8_books *b,
                                                 const uint4 *x, float2 sx,
                                                 const mix_int8_constants &c, float *acc) {
        if constexpr (s < streams) {
            asm volatile("cp.async.wait_group %0;" ::"n"(slots * streams - 1 - s) : "memory");
            uint4 w = *(const uint4 *)(mine + s * record);
            uint32_t meta = *(const uint32_t *)(mine + s * record + 512u - lane * 12u);
            acc[s] = mix_int8_group(w, meta, b[s % TABLES], x, sx, acc[s], c);
            fold_streams<s + 1>(mine, b, x, sx, c, acc);
        }
    }

    /* The wave's groups, whose first are asked for. */
    __device__ __forceinline__ void fold() {
        mix_int8_constants c;
        mix_int8_books b[TABLES];
        float acc[streams];
        const float2 *sx = (const float2 *)scales + first;
        const uint4 *x = codes + 4u * first;
        uint32_t at = 0u;
#pragma unroll
        for (int t = 0; t < TABLES; t++) {
            b[t] = books[t];
        }
#pragma unroll
        for (int s = 0; s < streams; s++) {
            acc[s] = 0.0f;
        }
#pragma unroll 1
        for (uint32_t i = 0; i < count; i++) {
            const uint8_t *mine = ring + at + lane * 16u;
            uint4 v[4] = {x[0], x[1], x[2], x[3]};
            fold_streams<0>(mine, b, v, *sx, c, acc);
            ask(i + slots, shared_at(mine));
            at = at == (slots - 1) * slot ? 0u : at + slot;
            x += 4;
            sx++;
        }
#pragma unroll
        for (int s = 0; s < streams; s++) {
            sums[(s * WAVES + wave) * 32 + lane] = acc[s];
        }
    }

    /* ---- outputs -------------------------------------------------------------------------------- */

    __device__ __forceinline__ int64_t column() {
        return (int64_t)(block_x() * tiles + wave) * 32 + lane;
    }

    __device__ __forceinline__ float sum_of(uint32_t s) {
        float sum = 0.0f;
#pragma unroll
        for (int w = 0; w < WAVES; w++) {
            sum = sum + sums[(s * WAVES + w) * 32 + lane];
        }
        return sum * books[s % TABLES].unit;
    }

    /* The outputs of an entry from the sums of all waves. */
    __device__ __forceinline__ void finish(int64_t dst) {
        int64_t n = column();
        __syncthreads();
        if (wave < tiles && n < a.n) {
            float v;
            if (TABLES == 2) {
                v = canonical_glu(a.glu, sum_of(2u * wave), sum_of(2u * wave + 1u), a.glu_alpha,
                                  a.glu_limit);
            } else {
                v = sum_of(wave) + (a.bias != 0 ? a.bias[n] : 0.0f);
            }
            store_output(a, dst, n, v);
        }
        __syncthreads();
    }

    /* ---- entries -------------------------------------------------------------------------------- */

    __device__ __forceinline__ uint32_t halves() { return (uint32_t)a.k / 16u; }

    __device__ __forceinline__ void load_x(mix_int8_x *x, int64_t row) {
        x->load(a, row, min(thread_index(), halves() - 1u));
    }

    __device__ __forceinline__ void store_x(mix_int8_x *x, int64_t row) {
        uint32_t h = thread_index();
        x->store(h, halves(), codes, scales);
#pragma unroll 1
        for (h += WAVES * 32u; (h & ~31u) < halves(); h += WAVES * 32u) {
            x->load(a, row, min(h, halves() - 1u));
            x->store(h, halves(), codes, scales);
        }
    }

    /* An entry; of the row that x is from where it is a new one. */
    __device__ __forceinline__ void entry(int64_t expert, int64_t row, int64_t dst, mix_int8_x *x,
                                          bool new_expert, bool new_row) {
        uint32_t table = thread_index() - (WAVES * 32u - TABLES);
        bool makes_books = new_expert && table < TABLES;
        mix_int8_side side;
        if (makes_books) { /* ahead of the weights, in whose queue they would wait                  */
            side.load(a.side[table] + expert);
        }
        ask_first();
        if (new_row) {
            store_x(x, row);
        }
        if (makes_books) {
            books[table] = side.books();
        }
        __syncthreads();
        fold();
        finish(dst);
    }

    /* Group g of the route, of which `got` is there, or row g of a dense call.  loaded: x has row 0,
     * which is every entry's. */
    __device__ __forceinline__ void group(uint32_t g, uint32_t got, mix_int8_x *x, bool loaded) {
        int32_t expert = 0, begin = (int32_t)g, end = (int32_t)g + 1;
        group_entry now = {(int32_t)g, (int32_t)g};
        bool grouped = a.route.header != 0, new_expert = true;
        int64_t held = -1;
        if (grouped) {
            uint32_t groups = wave_read(got, 0), entries = wave_read(got, 1);
            expert = (int32_t)wave_read(got, 2);
            begin = max((int32_t)wave_read(got, 3), 0);
            end = min((int32_t)wave_read(got, 4), (int32_t)min(entries, a.route.cap_entries));
            now = {(int32_t)wave_read(got, 5), (int32_t)wave_read(got, 6)};
            if (g >= groups) {
                return;
            }
        }
#pragma unroll 1
        for (int32_t e = begin; e < end; e++) {
            if (e != (int32_t)g) {
                now = entry_at(a, e);
            }
            if (grouped && (now.dst < 0 || now.dst >= (int32_t)a.route.cap_entries)) {
                continue;
            }
            if (grouped && !entry_lives(a, expert, now.token)) {
                if (wave < tiles && column() < a.n) {
                    store_output(a, now.dst, column(), 0.0f);
                }
                continue;
            }
            int64_t row = a.by_dst ? now.dst : now.token;
            if (new_expert) {
                point(expert);
            }
            if (row != held && !loaded) {
                load_x(x, row);
            }
            entry(expert, row, now.dst, x, new_expert, row != held);
            held = row;
            new_expert = loaded = false;
        }
    }
};

template <int WAVES, int TABLES> DEVICE void mix_int8_rows(const rows32_args &args) {
    extern __shared__ __align__(128) uint8_t mix_shared[];
    const matmul_args &a = args.base;
    bool grouped = a.route.header != 0, loaded = grouped && a.tokens == 1 && !a.by_dst;
    if (!grouped) {
        let_next_launch_start();
    }
    mix_int8_block<WAVES, TABLES> block(args, mix_shared);
    mix_int8_x x;
    uint32_t most = grouped ? a.route.cap_groups : (uint32_t)a.m, got = 0u;
    if (args.chained) {
        wait_for_launch_ahead();
    }
    if (grouped) {
        let_next_launch_start(); /* see rows32_route.cuh */
    }
    if (grouped && block_y() < most) {
        got = mix_int8_ask_route(a, block_y()); /* then x, in whose queue it would wait             */
    }
    if (loaded) {
        block.load_x(&x, 0);
    }
#pragma unroll 1
    for (uint32_t g = block_y(); g < most; g += grid_y()) {
        if (grouped && g != block_y()) {
            got = mix_int8_ask_route(a, g);
        }
        block.group(g, got, &x, loaded);
        loaded = false;
    }
}

KERNEL __launch_bounds__(MIX_INT8_GLU_WAVES * 32, 1)
    mix2_int8_glu(const __grid_constant__ rows32_args args) {
    mix_int8_rows<MIX_INT8_GLU_WAVES, 2>(args);
}

KERNEL __launch_bounds__(MIX_INT8_ROWS_WAVES * 32, 2)
    mix2_int8_rows(const __grid_constant__ rows32_args args) {
    mix_int8_rows<MIX_INT8_ROWS_WAVES, 1>(args);
}
