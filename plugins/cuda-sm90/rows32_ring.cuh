/* SPDX-License-Identifier: MIT
 * rows32_ring.cuh - one row of x against weights of the layout rows32 in formats of units of 256, in
 * the canonical order, with one block a multiprocessor: weights come to shared memory while those ahead
 * of them are multiplied.
 *
 * A wave of a set has the units w, w + per, .. of a row, one after another, and of each every `sets`-th
 * part of sixteen rows, half a tile; the words of x that it multiplies stay in registers for a unit.
 * An item is sixteen rows of a group: chunk c of 16 bytes a row at c * (256 + pad), then the pieces of 8,
 * 4 and 2 bytes, in the last pad where they fit.  A wave has two slots for them, and code for either, so
 * that addresses are constants.  Every item's terms have a place of their own until the end. */
#ifndef OPREG_SM90_ROWS32_RING_CUH
#define OPREG_SM90_ROWS32_RING_CUH

#include "rows32_one.cuh"
#include "rows32_ring_dots.cuh"

/* ---- copies --------------------------------------------------------------------------------------- */

/* A lane copies 16 bytes at a time: the first copies of an item are whole chunks, two at once. */
template <class F> struct ring_copies {
    static const int chunks = F::bytes / 16, pieces = 16 * chunks + F::bytes % 16;
    static const int count = (pieces + 31) / 32, row = 256 + ring_dot<F>::pad;
    static const int tail = ROWS32_RING_TAIL(F::bytes, ring_dot<F>::pad);
    static const int item = tail + F::bytes % 16 * 16;
    static const int middle = count > 3 ? 1024 : 0; /* a copy's address adds up to 2047 either way     */
    const uint8_t *from;   /* of the next item's first copy                                          */
    uint32_t to, last_to;
    uint32_t by[2], last[2]; /* of an item of either slot: bytes to the one after it; to its last copy */
    static const uint32_t none = 0xffffffffu; /* last_to of a lane that has no last copy              */

    /* Begins with part `part` of unit u. */
    __device__ __forceinline__ void start(const uint8_t *weights, uint32_t units, uint32_t u,
                                          uint32_t part, uint32_t sets) {
        constexpr uint32_t piece8 = F::bytes & 8 ? 8u : 0u, piece4 = F::bytes & 4 ? 4u : 0u;
        uint32_t lane = lane_index(), i = lane + 32u * (count - 1), j = i - 16u * chunks;
        uint32_t tile = units * (32 * F::bytes), half = part & 1u, next = half + sets, apart = 256u;
        uint32_t first = (lane >> 4) * 512u + (lane & 15u) * 16u;
        uint32_t final = (i >> 4) * 512u + (i & 15u) * 16u;
        to = (lane >> 4) * row + (lane & 15u) * 16u;
        last_to = (i >> 4) * row + (i & 15u) * 16u;
        if (i >= 16u * chunks) {
            apart = 128u;
            final = 512u * chunks + j * 16u;
            last_to = tail + j * 16u;
            if (piece8 == 0u || j >= piece8) {
                final += 16u * piece8;
                apart = 64u;
            }
            if (piece8 + piece4 == 0u || j >= piece8 + piece4) {
                final += 16u * piece4;
                apart = 32u;
            }
        }
        from = weights + (uint64_t)(part >> 1) * tile + (u * (32 * F::bytes) + first + half * 256u + middle);
        last[0] = final - (first + middle) - half * (256u - apart);
        last[1] = last[0] + (half - (next & 1u)) * (256u - apart);
        by[0] = (next >> 1) * tile + ((next & 1u) - half) * 256u;
        by[1] = sets * tile - by[0];
        last_to = i < pieces ? last_to : none;
        /* not made anew at each use */
        asm volatile("" : "+r"(to), "+r"(last_to));
    }
    static __device__ __forceinline__ void copy16(uint32_t to, const uint8_t *from) {
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
    }
    /* The next item to slot s, which begins at a shared address. */
    template <int s> __device__ __forceinline__ void copy(uint32_t at) {
#pragma unroll
        for (int k = 0; k < count - 1; k++) {
            copy16(at + to + (uint32_t)(k * 2 * row), from + (k * 1024 - middle));
        }
        if (last_to != none) {
            copy16(at + last_to, from + (int32_t)last[s]);
        }
        from += (int32_t)by[s];
    }
    /* From behind so many items of a unit, the last in slot s, to the first of a unit so many bytes further
     * on. */
    template <int s> __device__ __forceinline__ void turn_to(uint32_t items, uint32_t bytes) {
        uint32_t two = by[0] + by[1], other = by[s], swap = last[0];
        items = (uint32_t)computed_here((int32_t)items); /* here alone: registers are scarce        */
        if (items & 1u) {
            from -= (int32_t)other;
            by[s] = by[1 - s], by[1 - s] = other;
            last[0] = last[1], last[1] = swap;
        }
        from -= (int32_t)((items >> 1) * two - bytes);
    }
};

/* Copies so far are one item's. */
DEVICE void ring_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
/* All but the last item's have come, for the whole wave. */
DEVICE void ring_wait() {
    asm volatile("cp.async.wait_group 1;" ::: "memory");
    __syncwarp();
}

/* ---- a wave --------------------------------------------------------------------------------------- */

/* What a block has. */
struct ring_block {
    uint32_t first, end;  /* parts                                                                */
    uint32_t units;       /* of a row                                                             */
    uint32_t per, sets;   /* waves of a set; sets                                                 */
    uint32_t apart;       /* floats of a row's terms                                              */
    float *terms;
};

/* a / b, of numbers below 2^16. */
DEVICE uint32_t small_quotient(uint32_t a, uint32_t b) {
    return (uint32_t)__fdividef((float)a + 0.5f, (float)b);
}

template <class F> struct ring_wave {
    typedef ring_dot<F> dot;
    typedef ring_copies<F> copies_type;
    static const uint32_t stage = copies_type::item;
    copies_type copies;
    uint8_t *stages;
    uint32_t room;                /* its shared address                                              */
    uint32_t first, set, items;   /* its first unit; items of a unit                                 */
    uint32_t all;                 /* items to be multiplied                                          */
    uint32_t turn;                /* how many they are from the last item of a unit on, of the unit
                                     that is asked for                                               */

    /* Asks for the item behind the next `ahead`, if there is one. */
    template <int s> __device__ __forceinline__ void copy(const ring_block &b, uint32_t ahead) {
        if (all > ahead) {
            copies.copy<s>(room + (uint32_t)s * stage);
            if (all - ahead == turn) {
                copies.turn_to<s>(items, b.per * (32 * F::bytes));
                turn -= items;
            }
        }
        ring_commit();
    }

    /* Asks for the first item. */
    __device__ __forceinline__ void start(const ring_block &b, const uint8_t *weights, uint8_t *at) {
        uint32_t parts = b.end - b.first, wave = wave_scalar(wave_index(), 0); /* known to be uniform */
        set = wave_scalar(small_quotient(wave, b.per), 0);
        first = wave - set * b.per;
        items = wave_scalar(set < parts ? small_quotient(parts - 1u - set, b.sets) + 1u : 0u, 0);
        items = first < b.units ? items : 0u;
        all = items == 0u ? 0u
                          : wave_scalar(items * (small_quotient(b.units - 1u - first, b.per) + 1u), 0);
        stages = at + wave * (2u * stage);
        room = shared_address(stages);
        copies.start(weights, b.units, first, b.first + set, b.sets);
        turn = all - items + 1u;
        copy<0>(b, 0);
    }
    __device__ __forceinline__ void ask_second(const ring_block &b) {
        copy<1>(b, 1);
    }

    /* The sum over a row's four lanes of one of two numbers, by the lane's number among them. */
    static __device__ __forceinline__ int32_t of_row(const int32_t *n, uint32_t odd) {
        int32_t mine = odd ? n[1] : n[0], other = odd ? n[0] : n[1];
        mine += wave_xor(other, 1);
        return mine + wave_xor(mine, 2);
    }

    /* Puts an item's terms in their place. */
    static __device__ __forceinline__ void finish(const int32_t *n, const int32_t *m, uint32_t d,
                                                  float yd, float *place) {
        uint32_t odd = lane_index() & 1u;
        float term = f16_value(d & 0xffffu) * yd * (float)(of_row(n, odd) >> F::shift);
        if (F::min_sub != 0) {
            term = term - f16_value(d >> 16) * yd * (float)of_row(m, odd);
        }
        if ((lane_index() & 2u) == 0u) {
            *place = term;
        }
    }

    struct in_unit {
        uint32_t u, end; /* its number; items behind it                                              */
        ring_x xs;
        float *place;

        __device__ __forceinline__ void start(const ring_block &b, const x_shared &x, uint32_t set,
                                              uint32_t all, uint32_t items) {
            uint32_t lane = lane_index();
            end = all - items;
            place = b.terms + (set * 16u + (lane >> 2) + 8u * (lane & 1u)) * b.apart + u;
            xs.load<dot::order>(x.codes + u * 256u + ring_x::offset<dot::order>());
        }
    };

    /* The next item, in slot s. */
    template <int s>
    __device__ __forceinline__ void multiply(const ring_block &b, const x_shared &x,
                                             const ring_table &table, in_unit &unit) {
        constexpr int sums_of_unit = F::min_sub != 0 ? 256 / (F::min_sub != 0 ? F::min_sub : 1) : 0;
        uint32_t lane = lane_index(), g = lane >> 2, t = lane & 3u;
        const uint8_t *item = stages + s * stage;
        const int16_t *sums = x.sums + unit.u * sums_of_unit;
        int32_t n[2], m[2] = {0, 0};
        uint32_t w[2][dot::words];
        ring_wait();
        dot::read(item, g, t, w[0]);
        dot::read(item, g + 8u, t, w[1]);
        uint32_t d = dot::d(item, g + 8u * (lane & 1u));
        __syncwarp(); /* the item is in registers                                                    */
        copy<s>(b, 2);
        dot::sums(w[0], unit.xs.w, sums, table, &n[0], &m[0]);
        dot::sums(w[1], unit.xs.w, sums, table, &n[1], &m[1]);
        finish(n, m, d, x.scales[unit.u], unit.place);
        unit.place += b.sets * 16u * b.apart;
        all--;
    }

    /* The second item has been asked for. */
    __device__ __forceinline__ void run(const ring_block &b, const x_shared &x,
                                        const ring_table &table) {
        in_unit unit;
        unit.u = first;
        unit.xs.start();
        if (all == 0u) {
            return;
        }
        unit.start(b, x, set, all, items);
#pragma unroll 1
        while (true) {
            multiply<0>(b, x, table, unit);
            if (all == unit.end) {
                if (all == 0u) {
                    return;
                }
                unit.u += b.per;
                unit.start(b, x, set, all, items);
            }
            multiply<1>(b, x, table, unit);
            if (all == unit.end) {
                if (all == 0u) {
                    return;
                }
                unit.u += b.per;
                unit.start(b, x, set, all, items);
            }
        }
    }
};

/* ---- the kernel ----------------------------------------------------------------------------------- */

/* The first of so many parts that a block has. */
DEVICE uint32_t ring_part(uint32_t parts, uint32_t block) {
    return parts * block / grid_x(); /* both are small: see rings() */
}

/* Grid (blocks), as many as there are parts at the most, of whole sets of waves: as many a set as a row has
 * units, or a part of them where that is over 16, 16 where steps go beyond 32.  Shared memory: the
 * dot's tables, x, 16 * apart floats a part, and the waves' room. */
template <class F> DEVICE void rows32_ring(const rows32_args &args) {
    extern __shared__ __align__(16) uint8_t ring_shared[];
    typedef ring_dot<F> dot;
    const matmul_args &a = args.base;
    uint32_t at, parts = (uint32_t)((a.n + 15) / 16);
    x_shared x = x_records<F>(a, args.values, ring_shared + dot::table_bytes, &at);
    bool planes = a.scales != 0;
    ring_block b;
    b.first = ring_part(parts, block_x());
    b.end = ring_part(parts, block_x() + 1u);
    b.units = args.groups;
    b.per = b.units > 32u ? ROWS32_RING_WAVES
                          : small_quotient(b.units + (b.units - 1u) / 16u, (b.units + 15u) / 16u);
    b.sets = small_quotient(thread_count() / 32u, b.per);
    b.apart = b.units | 1u;
    b.terms = (float *)(ring_shared + dot::table_bytes + at);
    at += dot::table_bytes + (b.end - b.first) * 16u * b.apart * 4u;
    let_next_launch_start();
    table_rows rows;
    first_values<F, 1> values;
    ring_wave<F> wave;
    dot::ask(&rows);
    if (!args.chained && !planes) {
        values.load(a, args.groups);
    }
    wave.start(b, a.data[0], ring_shared + at);
    const ring_table table = dot::make(ring_shared);
    dot::fill(ring_shared, rows);
    __syncthreads();
    if (args.chained) {
        wait_for_launch_ahead();
        if (!planes) {
            values.load(a, args.groups);
        }
    }
    wave.ask_second(b); /* x is ahead of it in the queues                                          */
    if (!planes) {
        values.template keep<dot::order>(args.groups, x);
    }
    bring_groups<F, dot::order>(a, args.groups, planes ? 0u : 1u, x);
    if (b.sets > 1u) { /* else a wave has brought what it needs itself                                   */
        __syncthreads();
    }
    __syncwarp();
    wave.run(b, x, table);
    __syncthreads();
    uint32_t block = (uint32_t)computed_here((int32_t)block_x()); /* registers were scarce in between      */
    uint32_t first = ring_part(parts, block), rest = ring_part(parts, block + 1u) - first;
    for (uint32_t row = thread_index(); row < rest * 16u; row += thread_count()) {
        int64_t n = (int64_t)first * 16 + row;
        float sums[32];
        if (n >= a.n) {
            break;
        }
#pragma unroll
        for (uint32_t l = 0; l < 32u; l++) {
            sums[l] = l < b.units ? 0.0f + b.terms[row * b.apart + l] : 0.0f;
        }
        for (uint32_t step = 32; step < b.units; step += 32u) {
#pragma unroll
            for (uint32_t l = 0; l < 32u; l++) {
                if (step + l < b.units) {
                    sums[l] = sums[l] + b.terms[row * b.apart + step + l];
                }
            }
        }
        float value = F::last(finish_tree<32>(sums, 1));
        if (a.bias != 0) {
            value = value + a.bias[n];
        }
        store_output(a, 0, n, value);
    }
}

#endif /* OPREG_SM90_ROWS32_RING_CUH */
