/* SPDX-License-Identifier: MIT
 * rows32_ring.cuh - one row of x against weights of the layout rows32 in formats of units of 256, in
 * the canonical order, with one block a multiprocessor: weights come to shared memory while those ahead
 * of them are multiplied.
 *
 * A wave of a set has the units w, w + per, .. of a row, one after another, and of each every `sets`-th
 * part of sixteen rows, half a tile; so it owns whole accumulators, or steps of them in their order, and
 * the words of x that it multiplies stay in registers for a unit.  An item is sixteen rows of a group:
 * chunk c of 16 bytes a row at c * (256 + pad), then the pieces of 8, 4 and 2 bytes.  A wave has room for
 * two. */
#ifndef OPREG_SM90_ROWS32_RING_CUH
#define OPREG_SM90_ROWS32_RING_CUH

#include "rows32_one.cuh"
#include "rows32_ring_dots.cuh"

/* ---- copies --------------------------------------------------------------------------------------- */

/* A lane copies 16 bytes at a time: the first copies of an item are whole chunks, two at once. */
template <class F> struct ring_copies {
    static const int chunks = F::bytes / 16, pieces = 16 * chunks + F::bytes % 16;
    static const int count = (pieces + 31) / 32, row = 256 + ring_dot<F>::pad;
    static const int item = chunks * row + F::bytes % 16 * 16;
    static const int middle = count > 3 ? 1024 : 0; /* a copy's address adds up to 2047 either way     */
    const uint8_t *from;   /* of the next item's first copy                                          */
    uint32_t to, last_to;
    uint32_t by, by_two;   /* bytes to the item after it, and to the next but one                    */
    uint32_t last, lasts;  /* from the first copy to the last; the sum of this and the item's after it */
    static const uint32_t none = 0xffffffffu; /* last_to of a lane that has no last copy              */

    /* Begins with part `part` of unit u. */
    __device__ __forceinline__ void start(const uint8_t *weights, uint32_t units, uint32_t u,
                                          uint32_t part, uint32_t sets) {
        constexpr uint32_t piece8 = F::bytes & 8 ? 8u : 0u, piece4 = F::bytes & 4 ? 4u : 0u;
        uint32_t lane = lane_index(), i = lane + 32u * (count - 1), j = i - 16u * chunks;
        uint32_t tile = units * (32 * F::bytes), half = part & 1u, next = half + sets, apart = 256u;
        uint32_t first = (lane >> 4) * 512u + (lane & 15u) * 16u;
        last = (i >> 4) * 512u + (i & 15u) * 16u;
        to = (lane >> 4) * row + (lane & 15u) * 16u;
        last_to = (i >> 4) * row + (i & 15u) * 16u;
        if (i >= 16u * chunks) {
            apart = 128u;
            last = 512u * chunks + j * 16u;
            last_to = chunks * row + j * 16u;
            if (piece8 == 0u || j >= piece8) {
                last += 16u * piece8;
                apart = 64u;
            }
            if (piece8 + piece4 == 0u || j >= piece8 + piece4) {
                last += 16u * piece4;
                apart = 32u;
            }
        }
        from = weights + (uint64_t)(part >> 1) * tile + (u * (32 * F::bytes) + first + half * 256u + middle);
        last -= first + middle;
        lasts = 2u * last - (half + (next & 1u)) * (256u - apart);
        last -= half * (256u - apart);
        by = (next >> 1) * tile + ((next & 1u) - half) * 256u;
        by_two = sets * tile;
        last_to = i < pieces ? last_to : none;
        /* not made anew at each use */
        asm volatile("" : "+r"(to), "+r"(last_to));
    }
    static __device__ __forceinline__ void copy16(uint32_t to, const uint8_t *from) {
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
    }
    /* The next item to a shared address. */
    __device__ __forceinline__ void copy(uint32_t at) {
#pragma unroll
        for (int k = 0; k < count - 1; k++) {
            copy16(at + to + (uint32_t)(k * 2 * row), from + (k * 1024 - middle));
        }
        if (last_to != none) {
            copy16(at + last_to, from + (int32_t)last);
        }
        from += (int32_t)by;
        go_on();
    }
    __device__ __forceinline__ void go_on() {
        by = by_two - by;
        last = lasts - last;
    }
    /* From behind so many items of a unit to the first of a unit so many bytes further on. */
    __device__ __forceinline__ void turn_to(uint32_t items, uint32_t bytes) {
        if (items & 1u) {
            go_on();
            from -= (int32_t)by;
        }
        from -= (int32_t)((items >> 1) * by_two - bytes);
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
    uint32_t units, most; /* of a row; accumulators that have units                               */
    uint32_t per, sets;   /* waves of a set; sets                                                 */
    uint32_t apart;       /* floats of a row's sums                                               */
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

    /* The next item, if there is one; ends: it is a unit's last. */
    __device__ __forceinline__ void copy(const ring_block &b, uint32_t slot, bool is, bool ends) {
        if (is) {
            copies.copy(room + slot);
            if (ends) {
                copies.turn_to(items, b.per * (32 * F::bytes));
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
        stages = at + wave * (2u * stage);
        room = shared_address(stages);
        copies.start(weights, b.units, first, b.first + set, b.sets);
        copy(b, 0, items != 0u, items == 1u);
    }
    __device__ __forceinline__ void ask_second(const ring_block &b) {
        copy(b, stage, items > 1u || (items == 1u && first + b.per < b.units), items <= 2u);
    }

    /* The sum over a row's four lanes of one of two numbers, by the lane's number among them. */
    static __device__ __forceinline__ int32_t of_row(const int32_t *n, uint32_t odd) {
        int32_t mine = odd ? n[1] : n[0], other = odd ? n[0] : n[1];
        mine += wave_xor(other, 1);
        return mine + wave_xor(mine, 2);
    }

    /* The second item has been asked for. */
    __device__ __forceinline__ void run(const ring_block &b, const x_shared &x,
                                        const dot_table &table) {
        constexpr int sums_of_unit = F::min_sub != 0 ? 256 / (F::min_sub != 0 ? F::min_sub : 1) : 0;
        uint32_t lane = lane_index(), odd = lane & 1u, g = lane >> 2, t = lane & 3u, slot = 0;
        ring_x xs;
        xs.start();
        if (items == 0u) {
            return;
        }
#pragma unroll 1
        for (uint32_t u = first; u < b.units; u += b.per) {
            const int16_t *sums = x.sums + u * sums_of_unit;
            float yd = x.scales[u];
            float *place = b.terms + (set * 16u + g + 8u * odd) * b.apart + (u & 31u);
            uint32_t more = items; /* the items that are asked for here are two further on          */
            bool rest = u + (items > 1u ? b.per : 2u * b.per) < b.units;
            xs.load<dot::order>(x.codes + u * 256u + ring_x::offset<dot::order>());
#pragma unroll 1
            do {
                int32_t n[2], m[2] = {0, 0};
                uint32_t w[2][dot::words];
                ring_wait();
                const uint8_t *item = stages + slot;
                dot::read(item, g, t, w[0]);
                dot::read(item, g + 8u, t, w[1]);
                uint32_t d = dot::d(item, g + 8u * odd);
                __syncwarp(); /* the item is in registers                                            */
                copy(b, slot, rest || more > 2u, more == (items > 2u ? 3u : 1u));
                dot::sums(w[0], xs.w, sums, table, &n[0], &m[0]);
                dot::sums(w[1], xs.w, sums, table, &n[1], &m[1]);
                float term = f16_value(d & 0xffffu) * yd * (float)(of_row(n, odd) >> F::shift);
                if (F::min_sub != 0) {
                    term = term - f16_value(d >> 16) * yd * (float)of_row(m, odd);
                }
                if ((lane & 2u) == 0u) {
                    *place += term;
                }
                slot = stage - slot;
                place += b.sets * 16u * b.apart;
                more--;
            } while (more != 0u);
        }
    }
};

/* ---- the kernel ----------------------------------------------------------------------------------- */

/* The first of so many parts that a block has. */
DEVICE uint32_t ring_part(uint32_t parts, uint32_t block) {
    return parts * block / grid_x(); /* both are small: see rings() */
}

/* Grid (blocks), as many as there are parts at the most, of whole sets of waves: as many a set as a row has
 * units, or a part of them where that is over 16, 16 where steps go beyond 32.  Shared memory: x, 16 *
 * apart floats a part, the dot's tables, and the waves' room. */
template <class F> DEVICE void rows32_ring(const rows32_args &args) {
    extern __shared__ __align__(16) uint8_t ring_shared[];
    typedef ring_dot<F> dot;
    const matmul_args &a = args.base;
    uint32_t at, parts = (uint32_t)((a.n + 15) / 16);
    x_shared x = x_records<F>(a, args.values, ring_shared, &at);
    bool planes = a.scales != 0;
    ring_block b;
    b.first = ring_part(parts, block_x());
    b.end = ring_part(parts, block_x() + 1u);
    b.units = args.groups;
    b.most = b.units < 32u ? b.units : 32u;
    b.per = b.units > 32u ? ROWS32_RING_WAVES
                          : small_quotient(b.units + (b.units - 1u) / 16u, (b.units + 15u) / 16u);
    b.sets = small_quotient(thread_count() / 32u, b.per);
    b.apart = b.most | 1u;
    b.terms = (float *)(ring_shared + at);
    at += (b.end - b.first) * 16u * b.apart * 4u;
    uint8_t *tables = ring_shared + at;
    tables += dot::aligned ? (0u - shared_address(tables)) % ROWS32_RING_ALIGNED : 0u;
    let_next_launch_start();
    table_rows rows;
    first_values<F, 1> values;
    ring_wave<F> wave;
    dot::ask(&rows);
    if (!args.chained && !planes) {
        values.load(a, args.groups);
    }
    wave.start(b, a.data[0], tables + dot::table_bytes);
    const dot_table table = dot::make(tables);
    dot::fill(tables, rows);
    for (uint32_t i = thread_index(); i < (b.end - b.first) * 16u * b.apart; i += thread_count()) {
        b.terms[i] = 0.0f;
    }
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
            sums[l] = l < b.most ? b.terms[row * b.apart + l] : 0.0f;
        }
        float value = F::last(finish_tree<32>(sums, 1));
        if (a.bias != 0) {
            value = value + a.bias[n];
        }
        store_output(a, 0, n, value);
    }
}

#endif /* OPREG_SM90_ROWS32_RING_CUH */
