/* SPDX-License-Identifier: MIT
 * staged.cuh - matrices whose weight rows come into shared memory by 16-byte loads, all in flight,
 * and are multiplied there by emulated integer dots; canonical bits.
 *
 * A thread has one part of a row and decodes the tile's weights against activations that stay in
 * its registers.  Each unit's f32 term is left in shared memory; then the terms of a row are added
 * as the canonical order says.
 *
 * A format F (staged_formats.cuh) gives:
 *   unit, values, bytes      as in formats.inc
 *   table_bytes, fill(table) its tables in shared memory, a multiple of 16 bytes
 *   words                    of a fragment: the activations of one part, as its dot wants them; a
 *                            multiple of 4, and such that eight lanes read 16 bytes each of eight
 *                            fragments without a bank conflict
 *   load(x, part, out)       fills a fragment
 *   live, expand(in, out)    what a fragment becomes in registers, and how many
 *   offset(part)             bytes from a row's start to the block of a part
 *   part(block, ...)         unit 32: bits of the unit's term; unit 256: the part's integer sum
 *   term(...)                unit 256: the term of the whole sum
 *   last(sum)                the final factor */
#ifndef OPREG_SM60_STAGED_CUH
#define OPREG_SM60_STAGED_CUH

#include "baseline_matmul.cuh"
#include "sm60_device.h"
#include "staged_args.h"

/* Copies bytes to shared memory; dst is 16-byte aligned.  All threads; no barrier.  A tile of up to
 * STAGED_LOADS pieces a thread is asked for before the first piece is stored. */
DEVICE void stage(uint8_t *dst, const uint8_t *src, uint32_t bytes) {
    const uint32_t t = thread_again();
    uint32_t done = 0;
    if (((uint64_t)src & 15u) == 0u) {
        const uint32_t pieces = bytes / 16u;
        const uint4 *from = (const uint4 *)src + t;
        uint4 *to = (uint4 *)dst + t;
#pragma unroll 1
        for (uint32_t i = t; i < pieces; i += STAGED_LOADS * STAGED_THREADS) {
            const bool second = i + STAGED_THREADS < pieces,
                       third = i + 2u * STAGED_THREADS < pieces;
            uint4 v[STAGED_LOADS];
            v[0] = read_only(from);
            v[1] = read_only(second ? from + STAGED_THREADS : from);
            v[2] = read_only(third ? from + 2u * STAGED_THREADS : from);
            to[0] = v[0];
            if (second) {
                to[STAGED_THREADS] = v[1];
            }
            if (third) {
                to[2u * STAGED_THREADS] = v[2];
            }
            from += STAGED_LOADS * STAGED_THREADS;
            to += STAGED_LOADS * STAGED_THREADS;
        }
        done = pieces * 16u;
    }
    if (done != bytes) {
#pragma unroll 1
        for (uint32_t i = done + t; i < bytes; i += STAGED_THREADS) {
            dst[i] = src[i];
        }
    }
}

/* Accumulator l of a row: its terms ascending.  Terms lie STEP words apart. */
template <uint32_t STEP> DEVICE float accumulator(const float *terms, uint32_t units, uint32_t l) {
    float sum = 0.0f;
#pragma unroll 1
    for (uint32_t u = l; u < units; u += WAVE) {
        sum = sum + terms[u * STEP];
    }
    return sum;
}

/* The canonical tree's value of accumulators l, l + 4, l + 8, .. l + 28, for l < 4. */
template <uint32_t STEP> DEVICE float quarter_tree(const float *terms, uint32_t units, uint32_t l) {
    float sum[2] = {0.0f, 0.0f};
    if (units <= WAVE) { /* each accumulator has a term or none */
        float v[8];
#pragma unroll
        for (uint32_t j = 0; j < 8u; j++) {
            v[j] = l + 4u * j < units ? 0.0f + terms[(l + 4u * j) * STEP] : 0.0f;
        }
        return ((v[0] + v[4]) + (v[2] + v[6])) + ((v[1] + v[5]) + (v[3] + v[7]));
    }
#pragma unroll 1
    for (uint32_t i = 0; i < 2u; i++) {
        uint32_t at = l + 4u * i;
        float a = accumulator<STEP>(terms, units, at) + accumulator<STEP>(terms, units, at + 16u);
        float b =
            accumulator<STEP>(terms, units, at + 8u) + accumulator<STEP>(terms, units, at + 24u);
        sum[1] = a + b;
        sum[0] = i == 0u ? sum[1] : sum[0] + sum[1];
    }
    return sum[0];
}

/* One entry of a group, or one row of a dense call: where its x and its y are. */
struct staged_entry {
    int32_t x_row, y_row;
    bool skip, zero;
};

DEVICE staged_entry entry_at(const matmul_args &a, int32_t e, int32_t expert) {
    staged_entry entry = {e, e, false, false};
    if (a.route.header != 0) {
        int32_t token = a.route.entry_token[e], dst = a.route.entry_dst[e];
        entry.skip = dst < 0 || dst >= (int32_t)a.route.cap_entries;
        entry.zero = expert < 0 || expert >= a.experts || token < 0 || token >= a.tokens;
        entry.x_row = a.by_dst ? dst : token;
        entry.y_row = dst;
    }
    return entry;
}

/* Formats of 32-weight units are not offered for gate and up. */
template <class F> DEVICE uint32_t matrices_of(const staged_args &s) {
    return F::unit == 32 ? 1u : s.matrices;
}

/* From parts to terms, and from terms to four sums a row. */
template <class F>
DEVICE void add_terms(const staged_args &s, const activation_row &x, const uint8_t *tile,
                      uint32_t *results) {
    const uint32_t step = F::unit / 32u, units = s.parts / step;
    const uint32_t rows = matrices_of<F>(s) * s.rows;
    block_barrier();
    if (F::unit == 256) { /* eight parts make a unit; its term takes the place of the first */
#pragma unroll 1
        for (uint32_t i = thread_again(); i < rows * units; i += STAGED_THREADS) {
            uint32_t r = i / units, u = i % units;
            uint32_t *sums = results + r * s.result_stride + 8u * u;
            int32_t n = 0;
            for (uint32_t j = 0; j < 8u; j++) {
                n += (int32_t)sums[j];
            }
            sums[0] = bits_of(F::term(tile + r * (uint32_t)s.base.row_bytes + u * F::bytes, n,
                                      x.scales[u], x.sums + 16u * u));
        }
        block_barrier();
    }
#pragma unroll 1
    for (uint32_t i = thread_again(); i < 4u * rows; i += STAGED_THREADS) {
        float *terms = (float *)results + i / 4u * s.result_stride;
        float sum = quarter_tree<step>(terms, units, i % 4u);
        terms[i % 4u * step] = sum; /* no other thread reads these accumulators */
    }
    block_barrier();
}

template <class F> DEVICE float row_sum(const staged_args &s, const float *results, uint32_t r) {
    const uint32_t step = F::unit / 32u;
    const float *sums = results + r * s.result_stride;
    return F::last((sums[0] + sums[2u * step]) + (sums[step] + sums[3u * step]));
}

template <class F>
DEVICE void store_rows(const staged_args &s, const staged_entry &entry, const float *results,
                       uint32_t first, uint32_t count) {
    const matmul_args &a = s.base;
#pragma unroll 1
    for (uint32_t r = thread_again(); r < count; r += STAGED_THREADS) {
        float value = row_sum<F>(s, results, r);
        if (matrices_of<F>(s) == 2u) {
            value = canonical_glu(a.glu, value, row_sum<F>(s, results, s.rows + r), a.glu_alpha,
                                  a.glu_limit);
        } else if (a.bias != 0) {
            value = value + a.bias[first + r];
        }
        canonical_store(a.y, (int64_t)entry.y_row * a.y_stride + first + r, a.y_dtype, value);
    }
}

template <class F>
DEVICE void load_fragments(const staged_args &s, const activation_row &x, uint32_t *fragments) {
#pragma unroll 1
    for (uint32_t part = thread_again(); part < s.parts; part += STAGED_THREADS) {
        F::load(x, part, fragments + part * F::words);
    }
}

/* What a block works on, in shared memory: read again where it is needed, not kept in registers. */
struct staged_plan {
    int32_t begin, end, expert; /* entries of the block's group; rows of x of a dense call */
    uint32_t usable; /* 1: expert is one                                                */
};

/* Every plan word is asked for before the first is tested. */
DEVICE staged_plan read_plan(const matmul_args &a) {
    staged_plan plan = {0, (int32_t)a.m, 0, 1u};
    if (a.route.header != 0) {
        uint32_t g = block_y();
        uint32_t groups = a.route.header->groups, entries = a.route.header->entries;
        plan.expert = a.route.group_expert[g];
        plan.begin = a.route.group_start[g];
        plan.end = a.route.group_start[g + 1u];
        groups = groups < a.route.cap_groups ? groups : a.route.cap_groups;
        entries = entries < a.route.cap_entries ? entries : a.route.cap_entries;
        plan.begin = plan.begin < 0 ? 0 : plan.begin;
        plan.end = plan.end > (int32_t)entries ? (int32_t)entries : plan.end;
        plan.end = g < groups ? plan.end : plan.begin;
        plan.usable = plan.expert >= 0 && plan.expert < a.experts;
    }
    return plan;
}

template <class F>
DEVICE void read_fragment(const uint32_t *fragments, uint32_t part, uint32_t *fragment) {
    const uint4 *from = (const uint4 *)(fragments + part * F::words);
#pragma unroll
    for (uint32_t j = 0; j < F::words / 4; j++) {
        uint4 v = from[j];
        fragment[4u * j] = v.x;
        fragment[4u * j + 1u] = v.y;
        fragment[4u * j + 2u] = v.z;
        fragment[4u * j + 3u] = v.w;
    }
}

/* The rows of the tile that are the thread's, against one part. */
template <class F>
DEVICE void multiply(const staged_args &s, uint32_t part, uint32_t lane, const uint32_t *fragment,
                     const uint8_t *table, const uint8_t *tile, uint32_t *results) {
    const uint8_t *block = tile + lane * (uint32_t)s.base.row_bytes + F::offset(part);
    uint32_t *out = results + lane * s.result_stride + part;
    uint32_t live[F::live];
    F::expand(fragment, live);
#pragma unroll 1
    for (uint32_t r = lane; r < matrices_of<F>(s) * s.rows; r += s.lanes) {
        *out = F::part(block, part, live, table);
        block += s.lanes * (uint32_t)s.base.row_bytes;
        out += s.lanes * s.result_stride;
    }
}

DEVICE uint32_t rows_from(const staged_args &s, uint32_t first) {
    const uint32_t left = (uint32_t)s.base.n - first;
    return left < s.rows ? left : s.rows;
}

/* Asks for tile i, of `count` rows.  weights: the first row of each matrix. */
template <class F>
DEVICE void stage_tile(const staged_args &s, const uint8_t *const *weights, uint8_t *tile,
                       uint32_t i, uint32_t count) {
    const uint64_t at = (uint64_t)i * s.matrix_bytes;
    const uint32_t bytes = count * (uint32_t)s.base.row_bytes;
    stage(tile, weights[0] + at, bytes);
    if (matrices_of<F>(s) == 2u) {
        stage(tile + s.matrix_bytes, weights[1] + at, bytes);
    }
}

/* One entry whose parts fit in a block: the fragment stays in registers for every tile. */
template <class F>
DEVICE void staged_one(const staged_args &s, const uint8_t *const *weights,
                       const staged_entry &entry, const uint8_t *table, uint32_t *fragments,
                       uint8_t *tile, uint32_t *results) {
    const uint32_t t = thread_again(), lane = t / s.width, part = t - lane * s.width;
    const activation_row x = activations(s.base, entry.x_row, F::unit);
    uint32_t fragment[F::words];
    load_fragments<F>(s, x, fragments);
    block_barrier();
    if (F::live == F::words) {
        read_fragment<F>(fragments, part, fragment);
    }
#pragma unroll 1
    for (uint32_t i = block_x(); i < s.tiles; i += grid_x()) {
        const uint32_t first = i * s.rows;
        stage_tile<F>(s, weights, tile, i, rows_from(s, first));
        block_barrier();           /* the tile is there, the results before it are read */
        if (F::live != F::words) { /* too many registers to keep while a tile is under way */
            read_fragment<F>(fragments, part, fragment);
        }
        if (lane < s.lanes) {
            multiply<F>(s, part, lane, fragment, table, tile, results);
        }
        add_terms<F>(s, x, tile, results);
        store_rows<F>(s, entry, (const float *)results, first, rows_from(s, first));
    }
}

template <class F> DEVICE void staged(const staged_args &s) {
    DYNAMIC_SHARED(memory);
    uint8_t *table = (uint8_t *)memory;
    uint32_t *fragments = (uint32_t *)(table + F::table_bytes);
    uint8_t *tile = (uint8_t *)(fragments + s.parts * F::words);
    uint32_t *results = (uint32_t *)(tile + matrices_of<F>(s) * s.matrix_bytes);
    __shared__ staged_plan plan;
    const matmul_args &a = s.base;
    int32_t held = -1;
    if (thread_again() == 0u) {
        plan = read_plan(a);
    }
    F::fill(table);
    block_barrier();
    const uint8_t *const weights[2] = {a.data[0] + plan.expert * a.expert_stride[0],
                                       a.data[1] + plan.expert * a.expert_stride[1]};
    if (plan.begin + 1 == plan.end && s.width == s.parts) {
        const staged_entry entry = entry_at(a, plan.begin, plan.expert);
        if (!entry.skip && !entry.zero) {
            staged_one<F>(s, weights, entry, table, fragments, tile, results);
            return;
        }
    }
#pragma unroll 1
    for (uint32_t i = block_x(); i < s.tiles && plan.begin < plan.end; i += grid_x()) {
        const uint32_t first = i * s.rows, count = rows_from(s, first);
        if (plan.usable != 0u) {
            stage_tile<F>(s, weights, tile, i, count);
        }
#pragma unroll 1
        for (int32_t e = plan.begin; e < plan.end; e++) {
            staged_entry entry = entry_at(a, e, plan.expert);
            if (entry.skip) {
                continue;
            }
            if (entry.zero) {
#pragma unroll 1
                for (uint32_t r = thread_again(); r < count; r += STAGED_THREADS) {
                    canonical_store(a.y, (int64_t)entry.y_row * a.y_stride + first + r, a.y_dtype,
                                    0.0f);
                }
                continue;
            }
            activation_row x = activations(a, entry.x_row, F::unit);
            if (held != e) {
                load_fragments<F>(s, x, fragments);
                held = e;
            }
            block_barrier(); /* tile and fragments are there, the results before these are read */
            const uint32_t t = thread_again(), lane = t / s.width;
#pragma unroll 1
            for (uint32_t part = t - lane * s.width; lane < s.lanes && part < s.parts;
                 part += s.width) {
                uint32_t fragment[F::words];
                read_fragment<F>(fragments, part, fragment);
                multiply<F>(s, part, lane, fragment, table, tile, results);
            }
            add_terms<F>(s, x, tile, results);
            store_rows<F>(s, entry, (const float *)results, first, count);
        }
    }
}

#define STAGED_KERNEL(name)                                                                        \
    KERNEL __launch_bounds__(STAGED_THREADS, 4) staged_##name(const staged_args s) {               \
        staged<staged_##name##_format>(s);                                                         \
    }

#endif /* OPREG_SM60_STAGED_CUH */
