/* SPDX-License-Identifier: MIT
 * rows32_ring.cuh - one row of x against weights of the layout rows32 in formats of units of 256, in
 * the canonical order, with one block a multiprocessor: weights come to shared memory while those ahead
 * of them are multiplied.
 *
 * A wave has two neighbouring accumulators of a row, l and l + 1, and every `sets`-th part of eight rows;
 * its visits go by steps of 32 units, and by parts within a step.  Where the row ends with the first of
 * two units, the two before the end are taken: another wave has that sum too, with the same bits.  An
 * item is eight rows of a group: chunk c of 16 bytes a row at c * (128 + pad), then the pieces of 8, 4
 * and 2 bytes.  A wave has room for two visits of two items. */
#ifndef OPREG_SM90_ROWS32_RING_CUH
#define OPREG_SM90_ROWS32_RING_CUH

#include "rows32_one.cuh"
#include "rows32_ring_dots.cuh"

/* ---- copies --------------------------------------------------------------------------------------- */

/* A lane copies 16 bytes at a time. */
template <class F> struct ring_copies {
    static const int chunks = F::bytes / 16, tail = F::bytes % 16 / 2, pieces = 8 * chunks + tail;
    static const int count = (pieces + 31) / 32, row = 128 + ring_dot<F>::pad;
    static const int item = chunks * row + tail * 16;
    uint32_t from, to;                    /* of the first copy                                      */
    uint32_t last_from, last_to, last_by; /* of the last; last_by: bytes from part to part          */
    bool last;                            /* the lane has one                                       */

    __device__ __forceinline__ void start() {
        constexpr uint32_t piece8 = F::bytes & 8 ? 4u : 0u, piece4 = F::bytes & 4 ? 2u : 0u;
        uint32_t lane = lane_index(), i = lane + 32u * (count - 1), j = i - 8u * chunks;
        from = (lane >> 3) * 512u + (lane & 7u) * 16u;
        to = (lane >> 3) * row + (lane & 7u) * 16u;
        last = i < pieces;
        last_from = (i >> 3) * 512u + (i & 7u) * 16u;
        last_to = (i >> 3) * row + (i & 7u) * 16u;
        last_by = 128u;
        if (i >= 8u * chunks) {
            last_from = 512u * chunks + j * 16u;
            last_to = chunks * row + j * 16u;
            last_by = 64u;
            if (piece8 == 0u || j >= piece8) {
                last_from += 48u * piece8;
                last_by = 32u;
            }
            if (piece8 + piece4 == 0u || j >= piece8 + piece4) {
                last_from += 48u * piece4;
                last_by = 16u;
            }
        }
        /* not made anew at each use, but for what is cheap where registers are scarce */
        asm volatile("" : "+r"(from), "+r"(to), "+r"(last_from), "+r"(last_to));
        if (tail != 1) {
            asm volatile("" : "+r"(last_by));
        }
    }
    static __device__ __forceinline__ void copy16(uint32_t to, const uint8_t *from) {
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
    }
    /* Part `sub` of a group, and of the next where `next` is its bytes, to a shared address. */
    __device__ __forceinline__ void copy(const uint8_t *group, uint32_t sub, uint32_t next,
                                         uint32_t at) const {
        const uint8_t *source = group + (from + sub * 128u) + next;
#pragma unroll
        for (int k = 0; k < count - 1; k++) {
            copy16(at + to + (uint32_t)(k * 4 * row), source + k * 2048);
        }
        if (last) {
            copy16(at + last_to, group + (last_from + sub * last_by) + next);
        }
    }
};

/* Copies so far are one visit's. */
DEVICE void ring_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
/* All but the last visit's have come, for the whole wave. */
DEVICE void ring_wait() {
    asm volatile("cp.async.wait_group 1;" ::: "memory");
    __syncwarp();
}

/* ---- a wave --------------------------------------------------------------------------------------- */

/* What a block has. */
struct ring_block {
    uint32_t first, end;  /* parts                                                                */
    uint32_t units, most; /* of a row; accumulators that have units                               */
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
    static const uint32_t stride = 32 * F::bytes, stage = 2 * copies_type::item;
    copies_type copies;
    const uint8_t *data; /* of the next copy's step */
    uint8_t *stages;
    uint32_t l, set, sets, parts, units, tile;
    uint32_t ahead, left, end, back; /* part of the next copy, copies left, parts' end, and back */

    __device__ __forceinline__ void copy(uint32_t slot) {
        if (left > 0u) {
            const uint8_t *group = data + (uint64_t)(ahead >> 2) * tile;
            uint32_t to = shared_address(stages) + slot;
            copies.copy(group, ahead & 3u, 0, to);
            copies.copy(group, ahead & 3u, stride, to + copies_type::item);
            ahead += sets;
            left--;
            bool over = ahead >= end;
            ahead -= over ? back : 0u;
            data += over ? 32u * stride : 0u;
        }
        ring_commit();
    }

    __device__ __forceinline__ void start(const ring_block &b, const uint8_t *weights, uint8_t *at) {
        uint32_t of_part = (b.most + 1u) / 2u;
        units = b.units;
        parts = b.end - b.first;
        end = b.end;
        sets = small_quotient(thread_count() / 32u, of_part);
        set = small_quotient(wave_index(), of_part);
        l = 2u * (wave_index() - set * of_part);
        l = l + 1u < units ? l : l - 1u;
        tile = units * stride;
        ahead = b.first + set;
        uint32_t visits = set < parts ? small_quotient(parts - 1u - set, sets) + 1u : 0u;
        left = visits * ((units - l + 31u) / 32u);
        back = visits * sets;
        data = weights + l * stride;
        stages = at + wave_index() * (2u * stage);
        copies.start();
        copy(0);
        copy(stage);
    }

    /* The sum over a row's four lanes of one of two numbers, by the lane's number among them. */
    static __device__ __forceinline__ int32_t of_row(const int32_t *n, uint32_t odd) {
        int32_t mine = odd ? n[1] : n[0], other = odd ? n[0] : n[1];
        mine += wave_xor(other, 1);
        return mine + wave_xor(mine, 2);
    }

    __device__ __forceinline__ void run(const ring_block &b, const x_shared &x,
                                        const dot_table &table) {
        constexpr int sums_of_unit = F::min_sub != 0 ? 256 / (F::min_sub != 0 ? F::min_sub : 1) : 0;
        uint32_t lane = lane_index(), odd = lane & 1u, g = lane >> 2, t = lane & 3u, slot = 0;
        ring_x xs;
        xs.start();
        if (set >= parts) {
            return;
        }
#pragma unroll 1
        for (uint32_t u = l; u < units; u += 32u) {
            const uint8_t *codes = x.codes + u * 256u + ring_x::offset<dot::order>();
            const int16_t *sums = x.sums + u * sums_of_unit;
            float yd = x.scales[u + odd], *place = b.terms + (set * 8u + g) * b.apart + l + odd;
            uint32_t part = set;
#pragma unroll 1
            do {
                int32_t n[2], m[2] = {0, 0};
                uint32_t w[2][dot::words];
                ring_wait();
                const uint8_t *item = stages + slot;
                dot::read(item, g, t, w[0]);
                dot::read(item + copies_type::item, g, t, w[1]);
                uint32_t d = dot::d(item + (odd ? copies_type::item : 0), g);
                xs.load<dot::order>(codes);
                dot::sums(w[0], xs.w, sums, table, &n[0], &m[0]);
                xs.load<dot::order>(codes + 256);
                dot::sums(w[1], xs.w, sums + sums_of_unit, table, &n[1], &m[1]);
                __syncwarp();
                copy(slot);
                float term = f16_value(d & 0xffffu) * yd * (float)(of_row(n, odd) >> F::shift);
                if (F::min_sub != 0) {
                    term = term - f16_value(d >> 16) * yd * (float)of_row(m, odd);
                }
                if ((lane & 2u) == 0u) {
                    *place = (u >= 32u ? *place : 0.0f) + term;
                }
                slot = stage - slot;
                place += sets * 8u * b.apart;
                part += sets;
            } while (part < parts);
        }
    }
};

/* ---- the kernel ----------------------------------------------------------------------------------- */

/* A wave's first groups of x, all asked for before the first is quantized. */
template <class F> struct ring_values {
    static const uint32_t count = 2;
    float v[count][F::values / 32];

    __device__ __forceinline__ void load(const matmul_args &a, uint32_t groups) {
        bool aligned = ((uintptr_t)a.x & 15u) == 0u;
#pragma unroll
        for (uint32_t i = 0; i < count; i++) {
            uint32_t u = wave_index() + i * (thread_count() / 32u);
            if (u < groups) {
                load_x_group<F>(a, 0, aligned, u, v[i]);
            }
        }
    }
    template <int order> __device__ __forceinline__ void keep(uint32_t groups, const x_shared &x) {
#pragma unroll
        for (uint32_t i = 0; i < count; i++) {
            uint32_t u = wave_index() + i * (thread_count() / 32u);
            if (u < groups) {
                keep_values<F, order>(u, v[i], x);
            }
        }
    }
};

/* Grid (blocks), as many as there are parts at the most, of a multiple of (most + 1) / 2 waves; shared
 * memory: x, 8 * apart floats a part, the dot's tables, and the waves' room. */
template <class F> DEVICE void rows32_ring(const rows32_args &args) {
    extern __shared__ __align__(16) uint8_t ring_shared[];
    typedef ring_dot<F> dot;
    const matmul_args &a = args.base;
    uint32_t at, parts = (uint32_t)((a.n + 7) / 8), waves = thread_count() / 32u;
    x_shared x = x_records<F>(a, args.values, ring_shared, &at);
    bool planes = a.scales != 0;
    ring_block b;
    b.first = parts * block_x() / grid_x(); /* parts times blocks is small: see rings() */
    b.end = parts * (block_x() + 1u) / grid_x();
    b.units = args.groups;
    b.most = b.units < 32u ? b.units : 32u;
    b.apart = b.most | 1u;
    b.terms = (float *)(ring_shared + at);
    at += (b.end - b.first) * 8u * b.apart * 4u;
    uint8_t *tables = ring_shared + at;
    tables += dot::aligned ? (0u - shared_address(tables)) % ROWS32_RING_ALIGNED : 0u;
    let_next_launch_start();
    table_rows rows;
    ring_values<F> values;
    ring_wave<F> wave;
    dot::ask(&rows);
    if (!args.chained && !planes) {
        values.load(a, args.groups);
    }
    wave.start(b, a.data[0], tables + dot::table_bytes);
    const dot_table table = dot::make(tables);
    dot::fill(tables, rows);
    if (args.chained) {
        wait_for_launch_ahead();
        if (!planes) {
            values.load(a, args.groups);
        }
    }
    if (!planes) {
        values.template keep<dot::order>(args.groups, x);
    }
    for (uint32_t u = wave_index() + (planes ? 0u : values.count * waves); u < args.groups; u += waves) {
        bring_group<F, dot::order>(a, 0, ((uintptr_t)a.x & 15u) == 0u, u, x);
    }
    __syncthreads();
    wave.run(b, x, table);
    __syncthreads();
    for (uint32_t row = thread_index(); row < (b.end - b.first) * 8u; row += thread_count()) {
        int64_t n = (int64_t)b.first * 8 + row;
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
