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
 *   pairs                    whether its kernel also takes gate and up
 *   blocks                   of a multiprocessor, from registers
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

/* The 16-byte pieces that a thread copies of a tile of at most STAGED_LOADS a thread, as byte
 * offsets.  Threads past the last piece copy it too: no branch, and no register that waits for one.
 */
struct staged_share {
    uint32_t at[STAGED_LOADS];
};

DEVICE staged_share share_of(uint32_t pieces) {
    staged_share share;
#pragma unroll
    for (uint32_t j = 0; j < STAGED_LOADS; j++) {
        uint32_t i = thread_again() + j * STAGED_THREADS;
        share.at[j] = 16u * (i < pieces ? i : pieces - 1u);
    }
    return share;
}

/* All pieces are asked for before one is stored. */
DEVICE void stage_share(uint8_t *to, const uint8_t *from, const staged_share &share) {
    uint4 v[STAGED_LOADS];
#pragma unroll
    for (uint32_t j = 0; j < STAGED_LOADS; j++) {
        v[j] = read_only((const uint4 *)(from + share.at[j]));
    }
#pragma unroll
    for (uint32_t j = 0; j < STAGED_LOADS; j++) {
        *(uint4 *)(to + share.at[j]) = v[j];
    }
}

/* Copies bytes to shared memory; dst is 16-byte aligned.  All threads; no barrier. */
DEVICE void stage(uint8_t *dst, const uint8_t *src, uint32_t bytes) {
    uint32_t done = 0;
    if (((uint64_t)src & 15u) == 0u) {
        const uint32_t pieces = bytes / 16u;
#pragma unroll 1
        for (uint32_t i = 0; i < pieces; i += STAGED_LOADS * STAGED_THREADS) {
            stage_share(dst + 16u * i, src + 16u * i, share_of(pieces - i));
        }
        done = pieces * 16u;
    }
    if (done != bytes) {
#pragma unroll 1
        for (uint32_t i = done + thread_again(); i < bytes; i += STAGED_THREADS) {
            dst[i] = src[i];
        }
    }
}

/* The canonical tree's value of accumulators l, l + 4, l + 8, .. l + 28, for l < 4; each has a term
 * or none.  Terms lie STEP words apart.  A zero may have the other sign. */
template <uint32_t STEP> DEVICE float quarter_tree(const float *terms, uint32_t units, uint32_t l) {
    const int32_t left = (int32_t)(units - l);
    float v[8];
    terms += l * STEP;
#pragma unroll
    for (int32_t j = 0; j < 8; j++) {
        v[j] = 4 * j < left ? terms[4u * STEP * (uint32_t)j] : 0.0f;
    }
    return ((v[0] + v[4]) + (v[2] + v[6])) + ((v[1] + v[5]) + (v[3] + v[7]));
}

/* The canonical sum of a row's terms: by one thread where no accumulator has two terms, else by a
 * wave.  Accumulators start at +0, so no sum of them is -0. */
template <uint32_t STEP> DEVICE float sum_alone(const float *terms, uint32_t units) {
    float total = 0.0f;
#pragma unroll 1
    for (uint32_t i = 0; i < 2u; i++) {
        float half = quarter_tree<STEP>(terms, units, i) + quarter_tree<STEP>(terms, units, i + 2u);
        total = total + half;
    }
    return total;
}

template <uint32_t STEP> DEVICE float sum_by_wave(const float *terms, uint32_t units) {
    float sum = 0.0f;
#pragma unroll 1
    for (uint32_t u = lane_index(); u < units; u += WAVE) {
        sum = sum + terms[u * STEP];
    }
    return wave_tree(sum);
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

template <class F> DEVICE uint32_t matrices_of(const staged_args &s) {
    return F::pairs ? s.matrices : 1u;
}

/* Eight parts make a unit of 256; its term takes the place of the first.  All threads. */
template <class F>
DEVICE void make_terms(const staged_args &s, const activation_row &x, const uint8_t *tile,
                       uint32_t *results) {
    const uint32_t units = s.parts / 8u, all = matrices_of<F>(s) * s.rows * units;
#pragma unroll 1
    for (uint32_t i = thread_again(); i < all; i += STAGED_THREADS) {
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

/* From the terms of a tile's rows to outputs. */
template <class F>
DEVICE void finish_rows(const staged_args &s, int32_t y_row, const float *results, uint32_t first,
                        uint32_t count) {
    const matmul_args &a = s.base;
    const uint32_t step = F::unit / 32u, units = s.parts / step;
    const bool alone = units <= WAVE;
#pragma unroll 1
    for (uint32_t r = thread_again() / (alone ? 1u : WAVE); r < count;
         r += alone ? STAGED_THREADS : STAGED_THREADS / WAVE) {
        float value[2] = {0.0f, 0.0f};
#pragma unroll 1
        for (uint32_t i = 0; i < matrices_of<F>(s); i++) {
            const float *terms = results + (r + i * s.rows) * s.result_stride;
            value[1] = alone ? sum_alone<step>(terms, units) : sum_by_wave<step>(terms, units);
            value[1] = F::last(value[1]);
            value[0] = i == 0u ? value[1] : value[0];
        }
        if (matrices_of<F>(s) == 2u) {
            value[0] = canonical_glu(a.glu, value[0], value[1], a.glu_alpha, a.glu_limit);
        } else if (a.bias != 0) {
            value[0] = value[0] + a.bias[first + r];
        }
        if (alone || lane_index() == 0u) {
            canonical_store(a.y, (int64_t)y_row * a.y_stride + first + r, a.y_dtype, value[0]);
        }
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
    uint32_t usable;            /* 1: expert is one */
    int32_t y_row;              /* of a single entry */
};

/* Every plan word is asked for before the first is tested. */
DEVICE staged_plan read_plan(const matmul_args &a) {
    staged_plan plan = {0, (int32_t)a.m, 0, 1u, 0};
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

/* The rows of the tile that are the thread's, against one part.  block, out: of its first row. */
template <class F>
DEVICE void multiply(const staged_args &s, uint32_t part, uint32_t lane, const uint32_t *live,
                     const uint8_t *table, const uint8_t *block, uint32_t *out) {
#pragma unroll 1
    for (uint32_t r = lane; r < matrices_of<F>(s) * s.rows; r += s.lanes) {
        *out = F::part(block, part, live, table);
        block += s.row_step;
        out += s.result_step;
    }
}

DEVICE uint32_t rows_from(const staged_args &s, uint32_t first) {
    const uint32_t left = (uint32_t)s.base.n - first;
    return left < s.rows ? left : s.rows;
}

/* Stages a tile of `count` rows; rows, up_rows: the first one of each matrix. */
template <class F>
DEVICE void stage_tile(const staged_args &s, const uint8_t *rows, const uint8_t *up_rows,
                       uint8_t *tile, uint32_t count) {
    const uint32_t bytes = count * (uint32_t)s.base.row_bytes;
    stage(tile, rows, bytes);
    if (matrices_of<F>(s) == 2u) {
        stage(tile + s.matrix_bytes, up_rows, bytes);
    }
}

/* One entry whose parts fit in a block: its activations stay in registers for every tile. */
template <class F>
DEVICE void staged_one(const staged_args &s, const uint8_t *rows, const uint8_t *up_rows,
                       const staged_entry &entry, volatile staged_plan *plan, const uint8_t *table,
                       uint32_t *fragments, uint8_t *tile, uint32_t *results) {
    const uint32_t t = thread_again(), lane = t / s.width, part = t - lane * s.width;
    const activation_row x = activations(s.base, entry.x_row, F::unit);
    const uint8_t *const block = tile + lane * (uint32_t)s.base.row_bytes + F::offset(part);
    uint32_t *const out = results + lane * s.result_stride + part;
    const staged_share share = share_of(s.pieces);
    uint32_t fragment[F::words], live[F::live];
    load_fragments<F>(s, x, fragments);
    if (t == 0u) {
        plan->y_row = entry.y_row;
    }
    block_barrier();
    read_fragment<F>(fragments, part, fragment);
    F::expand(fragment, live);
    rows += (uint64_t)block_x() * s.matrix_bytes;
    up_rows += (uint64_t)block_x() * s.matrix_bytes;
#pragma unroll 1
    for (uint32_t i = block_x(); i < s.tiles; i += grid_x()) {
        const uint32_t first = i * s.rows;
        if (s.pieces != 0u && i < s.full_tiles && ((uint64_t)rows & 15u) == 0u) {
            stage_share(tile, rows, share);
        } else {
            stage_tile<F>(s, rows, up_rows, tile, rows_from(s, first));
        }
        rows += s.grid_bytes;
        up_rows += s.grid_bytes;
        block_barrier(); /* the tile is there, the results before it are read */
        if (lane < s.lanes) {
            multiply<F>(s, part, lane, live, table, block, out);
        }
        block_barrier(); /* its results are there */
        if (F::unit == 256) {
            make_terms<F>(s, x, tile, results);
        }
        finish_rows<F>(s, plan->y_row, (const float *)results, first, rows_from(s, first));
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
    const uint8_t *const rows = a.data[0] + plan.expert * a.expert_stride[0];
    const uint8_t *const up_rows = a.data[1] + plan.expert * a.expert_stride[1];
    if (plan.begin + 1 == plan.end && s.width == s.parts) {
        const staged_entry entry = entry_at(a, plan.begin, plan.expert);
        if (!entry.skip && !entry.zero) {
            staged_one<F>(s, rows, up_rows, entry, &plan, table, fragments, tile, results);
            return;
        }
    }
#pragma unroll 1
    for (uint32_t i = block_x(); i < s.tiles && plan.begin < plan.end; i += grid_x()) {
        const uint32_t first = i * s.rows, count = rows_from(s, first);
        if (plan.usable != 0u) {
            const uint64_t at = (uint64_t)i * s.matrix_bytes;
            stage_tile<F>(s, rows + at, up_rows + at, tile, count);
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
                uint32_t fragment[F::words], live[F::live];
                read_fragment<F>(fragments, part, fragment);
                F::expand(fragment, live);
                multiply<F>(s, part, lane, live, table,
                            tile + lane * (uint32_t)a.row_bytes + F::offset(part),
                            results + lane * s.result_stride + part);
            }
            block_barrier();
            if (F::unit == 256) {
                make_terms<F>(s, x, tile, results);
            }
            finish_rows<F>(s, entry.y_row, (const float *)results, first, count);
        }
    }
}

#define STAGED_KERNEL(name)                                                                        \
    KERNEL __launch_bounds__(STAGED_THREADS, staged_##name##_format::blocks)                       \
        staged_##name(const staged_args s) {                                                       \
        staged<staged_##name##_format>(s);                                                         \
    }

#endif /* OPREG_SM60_STAGED_CUH */
