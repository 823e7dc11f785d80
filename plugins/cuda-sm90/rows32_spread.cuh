/* SPDX-License-Identifier: MIT
 * rows32_spread.cuh - one row of x against weights of the layout rows32, in the canonical order,
 * with one block a multiprocessor: x is quantized, and a format's tables are filled, once for all
 * rows that the multiprocessor has.
 *
 * A lane r + 8c takes row r of a part of eight rows and one unit at a time.  An item is one
 * accumulator of a part: the units l, l + 32, .. in turn.  Units of 256: items are numbered part *
 * most + l, and wave v takes 4 * (v + WAVES * i) + c.  Units of 32: wave v takes l = 4 * (v % 8) + c
 * of the parts v / 8, + 4, ..  The sums meet in shared memory, [row][l]. */
#ifndef OPREG_SM90_ROWS32_SPREAD_CUH
#define OPREG_SM90_ROWS32_SPREAD_CUH

#include "rows32_one.cuh"

/* What a block has. */
struct spread_block {
    uint32_t first, end;  /* parts                                                                */
    uint32_t units, most; /* of a row; accumulators that have units                               */
    uint32_t inverse;     /* 2^32 / most, rounded up                                              */
    float *terms;
};

/* item / most, for items below 2^20; where most is 1 its inverse is 0. */
DEVICE uint32_t part_of(uint32_t item, uint32_t inverse) {
    return inverse == 0u ? item : __umulhi(item, inverse);
}

DEVICE float *sum_place(const spread_block &b, uint32_t part, uint32_t l) {
    return b.terms + ((part - b.first) * 8u + (lane_index() & 7u)) * ROWS32_SPREAD_APART + l;
}

/* Sends for the block's share of the weights, up to 256 KB of it, to the L2: there are no registers
 * for it yet.  Where a share cuts a tile the bytes are near enough. */
DEVICE void prefetch_share(const uint8_t *data, uint32_t groups, uint32_t group_bytes,
                           const spread_block &b) {
    constexpr uint32_t piece = 32768, pieces = 8;
    uint64_t part_bytes = (uint64_t)groups * group_bytes * 8u;
    uint64_t at = (b.first * part_bytes & ~15ull) + (uint64_t)thread_index() * piece;
    uint64_t end = b.end * part_bytes & ~15ull;
    if (thread_index() < pieces && at < end) {
        uint32_t bytes = end - at < piece ? (uint32_t)(end - at) : piece;
        asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(data + at), "r"(bytes));
    }
}

/* ---- units of 256 --------------------------------------------------------------------------- */

struct spread_place {
    uint32_t part, l, u;
    bool valid;
};

DEVICE spread_place place_of(const spread_block &b, uint32_t y, uint32_t step) {
    spread_place p;
    uint32_t part = part_of(y, b.inverse);
    p.part = b.first + part;
    p.l = y - part * b.most;
    p.u = p.l + 32u * step;
    p.valid = p.part < b.end && p.u < b.units;
    return p;
}

/* The group of the tile, and which of its rows. */
template <class F>
DEVICE const uint8_t *group_of(const uint8_t *data, uint32_t groups, uint32_t part, uint32_t group,
                               uint32_t *row) {
    *row = (part & 3u) * 8u + (lane_index() & 7u);
    return data + ((int64_t)(part >> 2) * groups + group) * (32 * F::bytes);
}

/* The first loads go after x, which would wait behind them; the L2 has the weights by then. */
template <class F, int WAVES> struct spread_superblocks {
    uint32_t w[ROWS32_WORDS(F)];
    const uint8_t *data;
    spread_place now;
    uint32_t y;

    __device__ __forceinline__ void start(const spread_block &b, const uint8_t *weights) {
        uint32_t row;
        data = weights;
        y = 4u * wave_index() + (lane_index() >> 3);
        now = place_of(b, y, 0);
#pragma unroll
        for (int i = 0; i < ROWS32_WORDS(F); i++) {
            w[i] = 0;
        }
        if (now.valid) {
            load_group<F>(group_of<F>(data, b.units, now.part, now.u, &row), row, w);
        }
    }

    __device__ __forceinline__ void run(const spread_block &b, const x_shared &x,
                                        const dot_table &table, uint32_t) {
        uint32_t steps = (b.units + 31u) / 32u, items = (b.end - b.first) * b.most, step = 0;
        float sum = 0.0f;
#pragma unroll 1
        for (uint32_t base = 4u * wave_index(); base < items;) {
            bool last = step + 1u == steps;
            uint32_t row;
            base += last ? 4u * WAVES : 0u;
            y += last ? 4u * WAVES : 0u;
            step = last ? 0u : step + 1u;
            spread_place next = place_of(b, y, step);
            const uint8_t *ahead = group_of<F>(data, b.units, next.part, next.u, &row);
            float term = superblock_term<F, spread_dot<F>>(w, next.valid ? ahead : 0, row,
                                                           now.valid ? now.u : 0u, x, table);
            sum = now.valid ? sum + term : sum;
            if (last) {
                if (now.part < b.end) {
                    *sum_place(b, now.part, now.l) = sum;
                }
                sum = 0.0f;
            }
            now = next;
        }
    }
};

/* ---- units of 32 ---------------------------------------------------------------------------- */

/* Bytes of a unit's codes, and units that share a scale. */
template <class F> struct unit_bytes { static const int codes = 16, shared = 1; };
template <> struct unit_bytes<rows_q2_0> { static const int codes = 8, shared = 2; };

/* The first loads go ahead of x, four units of them. */
template <class F, int WAVES> struct spread_units {
    static const int codes = unit_bytes<F>::codes, shared = unit_bytes<F>::shared;
    static const int scale = (F::bytes - 4 * codes) * shared / 4, depth = 4;
    static_assert(WAVES == 32, "a wave stays with rows of the same place in a tile");

    /* One unit as F reads the first of a group. */
    struct unit {
        uint32_t words[codes / 4], scale;
    };
    unit ring[depth];
    const uint8_t *codes_at, *scale_at; /* of the next load */
    uint32_t ahead, step, steps; /* its part in the block; groups wave % 8, + 8, .. are steps */
    int32_t forth, over;         /* bytes to the next step, from the last to the next part  */

    /* The next unit in turn, if the block has one. */
    __device__ __forceinline__ void load(uint32_t parts, unit *to) {
        if (ahead < parts) {
            if (codes == 8) {
                uint2 v = __ldcs((const uint2 *)codes_at);
                to->words[0] = v.x, to->words[1] = v.y;
            } else {
                uint4 v = __ldcs((const uint4 *)codes_at);
                to->words[0] = v.x, to->words[1] = v.y;
                to->words[codes / 4 - 2] = v.z, to->words[codes / 4 - 1] = v.w;
            }
            to->scale = scale == 2 ? __ldcs((const uint16_t *)scale_at) : __ldcs(scale_at);
            step++;
            bool last = step == steps;
            step = last ? 0u : step;
            ahead += last ? 4u : 0u;
            codes_at += last ? over : forth;
            scale_at += last ? over : forth;
        }
    }

    __device__ __forceinline__ void start(const spread_block &b, const uint8_t *data) {
        uint32_t groups = b.units / 4u, group = wave_index() & 7u, c = lane_index() >> 3;
        uint32_t parts = b.end - b.first;
        ahead = group < groups ? wave_index() >> 3 : parts;
        uint32_t part = b.first + ahead, row = (part & 3u) * 8u + (lane_index() & 7u);
        const uint8_t *at = data + ((int64_t)(part >> 2) * groups + group) * (32 * F::bytes);
        step = 0;
        steps = kept((groups - group + 7u) / 8u);
        forth = 8 * 32 * F::bytes;
        over = (int32_t)kept(groups * (32 * F::bytes) - (steps - 1u) * (uint32_t)forth);
        codes_at = at + row * 16u + (codes == 8 ? (c >> 1) * 512u + (c & 1u) * 8u : c * 512u);
        scale_at = at + 32 * 4 * codes + row * (uint32_t)(F::bytes - 4 * codes) +
                   c / (uint32_t)shared * (uint32_t)scale;
#pragma unroll
        for (int i = 0; i < depth; i++) {
            load(parts, &ring[i]);
        }
    }

    __device__ __forceinline__ float term(const unit &of, uint32_t u, const x_shared &x,
                                          const dot_table &table, uint32_t dialect) {
        uint32_t w[codes + 1] = {};
#pragma unroll
        for (int i = 0; i < codes / 4; i++) {
            w[i] = of.words[i];
        }
        w[codes] = of.scale;
        return unit_term<F, spread_dot<F>>(w, 0, u, x, table, dialect);
    }

    __device__ __forceinline__ void run(const spread_block &b, const x_shared &x,
                                        const dot_table &table, uint32_t dialect) {
        uint32_t first = 4u * (wave_index() & 7u) + (lane_index() >> 3), u = first;
        uint32_t parts = b.end - b.first, at = first < b.units ? wave_index() >> 3 : parts;
        float sum = 0.0f, *place = sum_place(b, b.first + (wave_index() >> 3), first);
#pragma unroll 1
        while (at < parts) {
#pragma unroll
            for (int i = 0; i < depth; i++) {
                if (at < parts) {
                    sum = sum + term(ring[i], u, x, table, dialect);
                    load(parts, &ring[i]);
                    u += 32u;
                    if (u >= b.units) {
                        *place = sum;
                        place += 4 * 8 * ROWS32_SPREAD_APART;
                        sum = 0.0f;
                        u = first;
                        at += 4u;
                    }
                }
            }
        }
    }
};

/* ---- the kernel ----------------------------------------------------------------------------- */

template <class F, int WAVES, bool wide = F::unit == 256> struct spread_way;
template <class F, int WAVES> struct spread_way<F, WAVES, true> : spread_superblocks<F, WAVES> {};
template <class F, int WAVES> struct spread_way<F, WAVES, false> : spread_units<F, WAVES> {};

/* Grid (blocks), as many as there are parts at the most; shared memory: the dot's tables, x, and
 * 8 * ROWS32_SPREAD_APART floats a part. */
template <class F, int WAVES> DEVICE void rows32_spread(const rows32_args &args) {
    extern __shared__ __align__(16) uint8_t spread_shared[];
    typedef spread_dot<F> dot;
    const matmul_args &a = args.base;
    uint32_t at, parts = (uint32_t)((a.n + 7) / 8), u = wave_index();
    x_shared x = x_records<F>(a, args.values, spread_shared + dot::table_bytes, &at);
    spread_block b;
    b.first = parts * block_x() / grid_x(); /* parts times blocks is small: see spreads() */
    b.end = parts * (block_x() + 1u) / grid_x();
    b.units = args.groups * (uint32_t)(F::values / F::unit);
    b.most = b.units < 32u ? b.units : 32u;
    b.inverse = 0xffffffffu / b.most + 1u;
    b.terms = (float *)(spread_shared + dot::table_bytes + at);
    let_next_launch_start();
    spread_way<F, WAVES> way;
    float v[F::values / 32];
    bool aligned = (((uintptr_t)a.x) & 15u) == 0u;
    bool early = F::unit == 256 && !args.chained && a.scales == 0 && u < args.groups;
    if (early) {
        load_x_group<F>(a, 0, aligned, u, v);
    }
    if (F::unit == 256) {
        prefetch_share(a.data[0], args.groups, F::bytes, b);
    } else {
        way.start(b, a.data[0]);
    }
    uint32_t dialect = F::unit == 256 ? 0u : a.side[0][0].dialect;
    const dot_table table = dot::make(spread_shared);
    dot::fill(spread_shared);
    if (args.chained) {
        wait_for_launch_ahead();
    }
    if (early) {
        keep_values<F, dot::crossed>(u, v, x);
        u += WAVES;
    }
    for (; u < args.groups; u += WAVES) {
        bring_group<F, dot::crossed>(a, 0, aligned, u, x);
    }
    if (F::unit == 256) {
        way.start(b, a.data[0]);
    }
    __syncthreads();
    way.run(b, x, table, dialect);
    __syncthreads();
    for (uint32_t row = thread_index(); row < (b.end - b.first) * 8u; row += 32u * WAVES) {
        int64_t n = (int64_t)b.first * 8 + row;
        float values[32];
        if (n >= a.n) {
            break;
        }
#pragma unroll
        for (uint32_t l = 0; l < 32u; l++) {
            values[l] = l < b.most ? b.terms[row * ROWS32_SPREAD_APART + l] : 0.0f;
        }
        float value = F::last(finish_tree<32>(values, 1));
        if (a.bias != 0) {
            value = value + a.bias[n];
        }
        store_output(a, 0, n, value);
    }
}

#endif /* OPREG_SM90_ROWS32_SPREAD_CUH */
