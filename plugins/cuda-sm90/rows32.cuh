/* SPDX-License-Identifier: MIT
 * rows32.cuh - matrix kernels over the layout rows32 in the canonical order, for one column (dot
 * products of a lane's row) and for up to eight (integer tensor cores).
 *
 * A block is WAVES waves and one tile of 32 rows; wave v takes the groups v, v + WAVES, ... of the
 * rows, so it owns whole accumulators: where a group is one unit of 256, accumulators v + WAVES * i;
 * where it is four units of 32, WAVES is 8 and the wave owns 4v .. 4v + 3.  A lane reads its row's
 * group with 16-byte loads, one group ahead of use. */
#ifndef OPREG_SM90_ROWS32_CUH
#define OPREG_SM90_ROWS32_CUH

#include "quantize.cuh"
#include "rows32_args.h"
#include "rows32_formats.cuh"

#define ROWS32_WORDS(F) ((F::bytes + 3) / 4)

/* Piece c of 16 bytes of this row's group; group is the tile's. */
DEVICE void load_piece(const uint8_t *group, uint32_t lane, int c, uint32_t *w) {
    uint4 v = __ldcs((const uint4 *)(group + c * 512) + lane);
    w[4 * c] = v.x;
    w[4 * c + 1] = v.y;
    w[4 * c + 2] = v.z;
    w[4 * c + 3] = v.w;
}

/* The pieces of 8, 4, 2 and 1 bytes. */
template <class F> DEVICE void load_rest(const uint8_t *group, uint32_t lane, uint32_t *w) {
    constexpr int at8 = F::bytes / 16 * 16, at4 = at8 + (F::bytes & 8);
    constexpr int at2 = at4 + (F::bytes & 4), at1 = at2 + (F::bytes & 2);
    if (F::bytes & 8) {
        uint2 v = __ldcs((const uint2 *)(group + at8 * 32) + lane);
        w[at8 / 4] = v.x;
        w[at8 / 4 + 1] = v.y;
    }
    if (F::bytes & 4) {
        w[at4 / 4] = __ldcs((const uint32_t *)(group + at4 * 32) + lane);
    }
    if (F::bytes & 2) {
        w[at2 / 4] = __ldcs((const uint16_t *)(group + at2 * 32) + lane);
    }
    if (F::bytes & 1) {
        uint32_t v = __ldcs((const uint8_t *)(group + at1 * 32) + lane);
        w[at1 / 4] = at1 % 4 ? w[at1 / 4] | v << 8 * (at1 % 4) : v;
    }
}

template <class F> DEVICE void load_group(const uint8_t *group, uint32_t lane, uint32_t *w) {
#pragma unroll
    for (int c = 0; c < F::bytes / 16; c++) {
        load_piece(group, lane, c, w);
    }
    load_rest<F>(group, lane, w);
}

/* The next group takes the registers of this one as they become free: after the 32 weights j, and
 * the rest at the end.  next is null where there is none. */
template <class F>
DEVICE void load_freed(const uint8_t *next, uint32_t lane, int j, uint32_t *w) {
    if (next != 0) {
#pragma unroll
        for (int c = 0; c < F::bytes / 16; c++) {
            if (F::free_after(c) == j && j < F::values / 32 - 1) {
                load_piece(next, lane, c, w);
            }
        }
    }
}

template <class F> DEVICE void load_others(const uint8_t *next, uint32_t lane, uint32_t *w) {
    if (next != 0) {
#pragma unroll
        for (int c = 0; c < F::bytes / 16; c++) {
            if (F::free_after(c) >= F::values / 32 - 1) {
                load_piece(next, lane, c, w);
            }
        }
        load_rest<F>(next, lane, w);
    }
}

/* ---- x ------------------------------------------------------------------------------------------ */

/* The row's activations as records in shared memory. */
struct x_shared {
    uint8_t *codes;  /* [k]                                                                        */
    float *scales;   /* [k / unit]                                                                 */
    int16_t *sums;   /* [k / min_sub]                                                              */
};

DEVICE float load_x(const void *x, int64_t i, uint32_t dtype) { return canonical_load(x, i, dtype); }

/* `count` neighbouring values from a multiple of count on. */
template <int count>
DEVICE void load_values(const void *x, int64_t i, uint32_t dtype, bool aligned, float *v) {
    if (aligned && dtype == OPREG_F32) {
#pragma unroll
        for (int c = 0; c < count / 4; c++) {
            float4 f = ((const float4 *)((const float *)x + i))[c];
            v[4 * c] = f.x;
            v[4 * c + 1] = f.y;
            v[4 * c + 2] = f.z;
            v[4 * c + 3] = f.w;
        }
        return;
    }
#pragma unroll
    for (int c = 0; c < count; c++) {
        v[c] = load_x(x, i + c, dtype);
    }
}

/* Four codes a lane, eight lanes a block of 32. */
DEVICE void quantize_q8_0_by4(const float *v, uint32_t *codes, float *scale, int32_t *sum) {
    uint32_t largest = 0;
    float inverse;
    int code[4];
#pragma unroll
    for (int i = 0; i < 4; i++) {
        uint32_t m = magnitude_of(v[i]);
        largest = m > largest ? m : largest;
    }
#pragma unroll
    for (int s = 1; s < 8; s <<= 1) {
        uint32_t other = wave_xor(largest, s);
        largest = other > largest ? other : largest;
    }
    *scale = CANONICAL_DIV(float_of(largest), 127.0f);
    inverse = CANONICAL_DIV(1.0f, *scale);
    bool none = largest >= 0x7f800000u || bits_of(inverse) == 0x7f800000u;
#pragma unroll
    for (int i = 0; i < 4; i++) {
        float product = v[i] * inverse, m = float_of(magnitude_of(product));
        int whole = (int)m;
        whole += m - (float)whole >= 0.5f;
        code[i] = none ? 0 : product < 0.0f ? -whole : whole;
    }
    *scale = f16_to_f32(f32_to_f16(*scale));
    if (none) {
        *scale = largest >= 0x7f800000u ? float_of(0x7fc00000u) : 0.0f;
    }
    *codes = pack4(code[0], code[1], code[2], code[3]);
    *sum = code[0] + code[1] + code[2] + code[3];
#pragma unroll
    for (int s = 1; s < 8; s <<= 1) {
        *sum += wave_xor(*sum, s);
    }
}

/* Brings group u of a row of x to shared memory; the whole wave, for itself. */
template <class F>
DEVICE void bring_group(const matmul_args &a, int64_t row, bool aligned, uint32_t u,
                        const x_shared &s) {
    uint32_t lane = lane_index();
    if (a.scales != 0) { /* planes */
        const uint32_t *codes = (const uint32_t *)((const int8_t *)a.x + row * a.k) +
                                (int64_t)u * (F::values / 4);
#pragma unroll
        for (int c = 0; c < F::values / 128; c++) {
            ((uint32_t *)(s.codes + (int64_t)u * F::values))[c * 32 + lane] = codes[c * 32 + lane];
        }
        constexpr int scales = F::values / F::unit;
        if (lane < scales) {
            s.scales[u * scales + lane] = a.scales[row * (a.k / F::unit) + u * scales + lane];
        }
        if (F::min_sub != 0) {
            constexpr int sums = F::values / (F::min_sub != 0 ? F::min_sub : 1);
            constexpr int each = (F::min_sub != 0 ? F::min_sub : 16) / 16;
            if (lane < sums) {
                const int16_t *from = a.sums + row * (a.k / 16) + u * (F::values / 16) + lane * each;
                s.sums[u * sums + lane] = (int16_t)(each == 2 ? from[0] + from[each - 1] : from[0]);
            }
        }
        return;
    }
    int64_t first = row * a.x_stride + (int64_t)u * F::values;
    if (F::unit == 256) {
        float v[8];
        load_values<8>(a.x, first + lane * 8, a.x_dtype, aligned, v);
        quantized8 q = quantize_q8_k(v);
        ((uint2 *)(s.codes + (int64_t)u * 256))[lane] = make_uint2(q.low, q.high);
        if (lane == 0u) {
            s.scales[u] = q.scale;
        }
        if (F::min_sub != 0) {
            int32_t sum = q.sum + wave_xor(q.sum, 1);
            sum = F::min_sub == 32 ? sum + wave_xor(sum, 2) : sum;
            constexpr int lanes = F::min_sub / 8 > 0 ? F::min_sub / 8 : 1;
            if (lane % lanes == 0u) {
                s.sums[u * (32 / lanes) + lane / lanes] = (int16_t)sum;
            }
        }
    } else {
        float v[4], scale;
        uint32_t codes;
        int32_t sum;
        load_values<4>(a.x, first + lane * 4, a.x_dtype, aligned, v);
        quantize_q8_0_by4(v, &codes, &scale, &sum);
        ((uint32_t *)(s.codes + (int64_t)u * 128))[lane] = codes;
        if (lane % 8u == 0u) {
            s.scales[u * 4 + lane / 8] = scale;
            if (F::min_sub != 0) {
                s.sums[u * 4 + lane / 8] = (int16_t)sum;
            }
        }
    }
}

/* ---- one column ----------------------------------------------------------------------------------- */

MEMBER int32_t signed_byte(uint32_t word, int i) { return (int32_t)(word << (24 - 8 * i)) >> 24; }

/* Adds a group's terms: acc[0 .. 3] for units of 32, the returned term for a unit of 256. */
template <class F>
DEVICE float one_column(uint32_t *w, const uint8_t *next, uint32_t u, const x_shared &x,
                        const uint32_t *table, uint32_t dialect, float *acc) {
    uint32_t lane = lane_index();
    int32_t n = 0, m = 0;
    uint32_t scales[4] = {0, 0, 0, 0};
    const uint4 *codes = (const uint4 *)(x.codes + (int64_t)u * F::values);
    if constexpr (F::unit == 256) {
        F::scales(w, scales);
    }
#pragma unroll
    for (int j = 0; j < F::values / 32; j++) {
        uint32_t q[8];
        uint4 a = codes[2 * j], b = codes[2 * j + 1];
        int32_t s0, s1;
        F::decode(w, j, q, table);
        s0 = dot4(q[0], a.x, 0);
        s0 = dot4(q[1], a.y, s0);
        s0 = dot4(q[2], a.z, s0);
        s0 = dot4(q[3], a.w, s0);
        s1 = dot4(q[4], b.x, F::sub == 16 ? 0 : s0);
        s1 = dot4(q[5], b.y, s1);
        s1 = dot4(q[6], b.z, s1);
        s1 = dot4(q[7], b.w, s1);
        if constexpr (F::unit == 256) {
            if (F::sub == 16) {
                n += signed_byte(scales[j / 2], 2 * (j & 1)) * s0;
                n += signed_byte(scales[j / 2], 2 * (j & 1) + 1) * s1;
            } else {
                n += signed_byte(scales[j / 4], j & 3) * s1;
            }
        } else {
            float yd = x.scales[u * 4 + j];
            if constexpr (F::sub == 16) {
                acc[j] = acc[j] + (F::scale(w, j, 0, dialect) * yd * (float)s0 +
                                   F::scale(w, j, 1, dialect) * yd * (float)s1);
            } else {
                float term = F::scale(w, j, 0, dialect) * yd * (float)(s1 >> F::shift);
                if constexpr (F::min_sub != 0) {
                    term = term + F::min(w, j) * yd * (float)(int32_t)x.sums[u * 4 + j];
                }
                acc[j] = acc[j] + term;
            }
        }
        load_freed<F>(next, lane, j, w);
    }
    if constexpr (F::unit == 256) {
        float yd = x.scales[u], term = F::d(w) * yd * (float)(n >> F::shift);
        if constexpr (F::min_sub != 0) {
            constexpr int count = 256 / F::min_sub;
            uint32_t mins[count / 4];
            const uint2 *sums = (const uint2 *)(x.sums + u * count);
            F::mins(w, mins);
#pragma unroll
            for (int i = 0; i < count / 4; i++) {
                uint2 pairs = sums[i];
                m = __dp2a_lo((int)pairs.x, (int)mins[i], m);
                m = __dp2a_hi((int)pairs.y, (int)mins[i], m);
            }
            term = term - F::dmin(w) * yd * (float)m;
        }
        load_others<F>(next, lane, w);
        return term;
    }
    load_others<F>(next, lane, w);
    return 0.0f;
}

/* Accumulators of one wave for one output. */
template <class F, int WAVES> struct owned {
    static const int count = F::unit == 256 ? 32 / WAVES : 4;
    static const int stored = F::unit == 256 ? WAVES : 32; /* values a block's tree begins with       */
};

/* The tree over what the waves stored: index l of `stored` values, 32 * COLS floats apart. */
template <int stored> DEVICE float finish_tree(const float *values, uint32_t apart) {
    float v[stored];
#pragma unroll
    for (int l = 0; l < stored; l++) {
        v[l] = values[l * apart];
    }
#pragma unroll
    for (int step = 0; step < 5; step++) {
        constexpr int half = stored / 2;
#pragma unroll
        for (int l = 0; l < half; l++) {
            if (l < half >> step) {
                v[l] = v[l] + v[l + (half >> step)];
            }
        }
    }
    return v[0];
}

/* Where an output row of the block's tile goes. */
DEVICE void store_output(const matmul_args &a, int64_t row, int64_t n, float value) {
    canonical_store(a.y, row * a.y_stride + n, a.y_dtype, value);
}

/* One weight's 32 dots with the row of x in shared memory; valid in the first wave, lane = row. */
template <class F, int WAVES>
DEVICE float tile_one_column(const matmul_args &a, const uint8_t *tile, uint32_t groups,
                             const x_shared &x, const uint32_t *table, uint32_t dialect,
                             float *reduction, uint32_t *w) {
    constexpr int count = owned<F, WAVES>::count, stored = owned<F, WAVES>::stored;
    constexpr int step = 32 * F::bytes;
    uint32_t wave = wave_index(), lane = lane_index(), done = 0;
    float acc[count];
#pragma unroll
    for (int i = 0; i < count; i++) {
        acc[i] = 0.0f;
    }
#pragma unroll 1
    for (uint32_t u = wave; u < groups; u += WAVES) {
        const uint8_t *next = u + WAVES < groups ? tile + (int64_t)(u + WAVES) * step : 0;
        float term = one_column<F>(w, next, u, x, table, dialect, acc);
        if (F::unit == 256) {
            float first = acc[0] + term;
#pragma unroll
            for (int i = 0; i + 1 < count; i++) {
                acc[i] = acc[i + 1];
            }
            acc[count - 1] = first;
            done++;
        }
    }
    if (F::unit == 256) {
        while (done % count != 0) { /* back to ascending accumulators */
            float first = acc[0];
#pragma unroll
            for (int i = 0; i + 1 < count; i++) {
                acc[i] = acc[i + 1];
            }
            acc[count - 1] = first;
            done++;
        }
#pragma unroll
        for (int s = count / 2; s > 0; s /= 2) {
#pragma unroll
            for (int i = 0; i < s; i++) {
                acc[i] = acc[i] + acc[i + s];
            }
        }
        reduction[wave * 32 + lane] = acc[0];
    } else {
#pragma unroll
        for (int i = 0; i < count; i++) {
            reduction[(wave * count + i) * 32 + lane] = acc[i];
        }
    }
    __syncthreads();
    float sum = 0.0f;
    if (wave == 0u) {
        sum = F::last(finish_tree<stored>(reduction + lane, 32));
    }
    __syncthreads();
    return sum;
}

/* Fills the format's table; the whole block. */
template <class F> DEVICE void fill_table(uint32_t *table) {
    if constexpr (F::table_words != 0) {
        constexpr int words = F::entry_words * F::copies; /* of one entry: pairs in either width     */
#pragma unroll 4
        for (uint32_t i = thread_index(); i < F::entries; i += thread_count()) {
            uint2 row = F::entry_at((int)i);
#pragma unroll
            for (int c = 0; c < words / 2; c++) {
                ((uint2 *)(table + words * i))[c] = row;
            }
        }
        __syncthreads();
    }
}

/* The lane's copy of it. */
template <class F> DEVICE const uint32_t *lane_table(const uint32_t *table) {
    return table + F::entry_words * (lane_index() % F::copies);
}

template <class F>
DEVICE const uint8_t *tile_of(const matmul_args &a, int which, int64_t expert, uint32_t tile) {
    return a.data[which] + expert * a.expert_stride[which] + (int64_t)tile * 32 * a.row_bytes;
}

/* One row of x against one tile: dense, or one entry of a group. */
template <class F, int WAVES>
DEVICE void row_times_tile(const rows32_args &args, int64_t expert, int64_t x_row, int64_t y_row,
                           const x_shared &x, uint32_t *words, bool fill, float *reduction) {
    const matmul_args &a = args.base;
    const uint32_t *table = lane_table<F>(words);
    uint32_t wave = wave_index(), lane = lane_index();
    uint32_t next[ROWS32_WORDS(F)];
    const uint8_t *tile = tile_of<F>(a, 0, expert, block_x());
    int64_t element = a.x_dtype == OPREG_F32 ? 4 : 2;
    bool aligned = (((uintptr_t)a.x | (uintptr_t)(a.x_stride * element)) & 15u) == 0u;
    if (wave < args.groups) {
        load_group<F>(tile + (int64_t)wave * 32 * F::bytes, lane, next);
    }
    if (fill) { /* while the first weights are on their way */
        fill_table<F>(words);
    }
    if (args.chained) {
        wait_for_launch_ahead();
    }
    for (uint32_t u = wave; u < args.groups; u += WAVES) {
        bring_group<F>(a, x_row, aligned, u, x);
    }
    __syncwarp();
    float value = tile_one_column<F, WAVES>(a, tile, args.groups, x, table,
                                            a.side[0][expert].dialect, reduction, next);
    int64_t n = (int64_t)block_x() * 32 + lane;
    if (a.pair) {
        tile = tile_of<F>(a, 1, expert, block_x());
        if (wave < args.groups) {
            load_group<F>(tile + (int64_t)wave * 32 * F::bytes, lane, next);
        }
        float up = tile_one_column<F, WAVES>(a, tile, args.groups, x, table,
                                             a.side[1][expert].dialect, reduction, next);
        if (wave == 0u) {
            value = canonical_glu(a.glu, value, up, a.glu_alpha, a.glu_limit);
        }
    } else if (wave == 0u && a.bias != 0 && n < a.n) {
        value = value + a.bias[n];
    }
    if (wave == 0u && n < a.n) {
        store_output(a, y_row, n, value);
    }
}

/* Same on the host: the block's shared memory. */
template <class F> DEVICE x_shared x_records(const matmul_args &a, uint8_t *shared, uint32_t *end) {
    x_shared x;
    uint32_t at = (uint32_t)a.k;
    x.codes = shared;
    x.scales = (float *)(shared + at);
    at += (uint32_t)(a.k / F::unit) * 4u;
    at = (at + 15u) & ~15u;
    x.sums = (int16_t *)(shared + at);
    at += F::min_sub != 0 ? (uint32_t)(a.k / (F::min_sub != 0 ? F::min_sub : 1)) * 2u : 0u;
    *end = (at + 15u) & ~15u;
    return x;
}

/* The range of entries of the block's group; false where there is nothing to do. */
DEVICE bool group_range(const matmul_args &a, uint32_t g, int32_t *expert, int32_t *begin,
                        int32_t *end) {
    uint32_t groups = a.route.header->groups, entries = a.route.header->entries;
    groups = groups < a.route.cap_groups ? groups : a.route.cap_groups;
    entries = entries < a.route.cap_entries ? entries : a.route.cap_entries;
    if (g >= groups) {
        return false;
    }
    *expert = a.route.group_expert[g];
    *begin = a.route.group_start[g];
    *end = a.route.group_start[g + 1];
    *begin = *begin < 0 ? 0 : *begin;
    *end = *end > (int32_t)entries ? (int32_t)entries : *end;
    return *begin < *end;
}

DEVICE bool entry_lives(const matmul_args &a, int32_t expert, int32_t token) {
    return expert >= 0 && expert < a.experts && token >= 0 && token < a.tokens;
}

/* Dense: grid (tiles).  Grouped: grid (tiles, groups), the entries of a group one after another. */
template <class F, int WAVES> DEVICE void rows32_one(const rows32_args &args) {
    extern __shared__ __align__(16) uint8_t shared[];
    const matmul_args &a = args.base;
    uint32_t at;
    x_shared x = x_records<F>(a, shared, &at);
    let_next_launch_start();
    uint32_t *table = (uint32_t *)(shared + at);
    float *reduction = (float *)(shared + at + F::table_words * 4);
    if (a.route.header == 0) {
        row_times_tile<F, WAVES>(args, 0, 0, 0, x, table, true, reduction);
        return;
    }
    int32_t expert, begin, end;
    if (args.chained) {
        wait_for_launch_ahead();
    }
    if (!group_range(a, block_y(), &expert, &begin, &end)) {
        return;
    }
    bool fill = true;
    for (int32_t e = begin; e < end; e++) {
        int32_t token = a.route.entry_token[e], dst = a.route.entry_dst[e];
        if (dst < 0 || dst >= (int32_t)a.route.cap_entries) {
            continue;
        }
        if (entry_lives(a, expert, token)) {
            row_times_tile<F, WAVES>(args, expert, a.by_dst ? dst : token, dst, x, table, fill,
                                     reduction);
            fill = false;
        } else if (wave_index() == 0u && (int64_t)block_x() * 32 + lane_index() < a.n) {
            store_output(a, dst, (int64_t)block_x() * 32 + lane_index(), 0.0f);
        }
        __syncthreads();
    }
}

/* ---- up to eight columns --------------------------------------------------------------------------- */

#define ROWS32_COLUMNS 8
#define ROWS32_TILE_STRIDE 48 /* bytes a row of decoded weights: 32, and 16 that keep banks apart    */

DEVICE void mma_k32(int32_t *d, const uint32_t *a, uint32_t b0, uint32_t b1) {
    asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
        "{%10,%10,%10,%10};"
        : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1), "r"(0));
}

DEVICE void mma_k16(int32_t *d, uint32_t a0, uint32_t a1, uint32_t b) {
    asm("mma.sync.aligned.m16n8k16.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5}, {%6}, "
        "{%7,%7,%7,%7};"
        : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])
        : "r"(a0), "r"(a1), "r"(b), "r"(0));
}

DEVICE void load_matrix4(uint32_t *a, uint32_t address) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(a[0]), "=r"(a[1]), "=r"(a[2]), "=r"(a[3])
                 : "r"(address));
}

/* The columns of a call: rows of the x planes and of y.  Missing columns repeat the first. */
struct columns {
    int32_t x[ROWS32_COLUMNS], y[ROWS32_COLUMNS]; /* y: -1 where nothing is stored                  */
    int32_t dead; /* bit c: column c is stored as zero                                             */
};

/* A lane's part of 32 codes of its column. */
template <class F> DEVICE void load_b(const int8_t *codes, uint32_t t, uint32_t *b) {
    if (F::sub == 32) { /* words 2t and 2t + 1 take the places t and t + 4 */
        uint2 v = ((const uint2 *)codes)[t];
        b[0] = v.x;
        b[1] = v.y;
    } else {
        b[0] = ((const uint32_t *)codes)[t];
        b[1] = ((const uint32_t *)codes)[t + 4];
    }
}

/* acc: outputs of lane (g, t): 4 rows g, g+8, g+16, g+24 by columns 2t, 2t+1; [accumulator][8]. */
template <class F, int WAVES>
DEVICE void eight_columns(const matmul_args &a, uint32_t *w, const uint8_t *next, uint32_t u,
                          const columns &cols,
                          const uint32_t *table, uint32_t dialect, uint8_t *tile,
                          float (*acc)[8], float *term) {
    uint32_t lane = lane_index(), g = lane >> 2, t = lane & 3u;
    constexpr int chunks = F::values / 32;
    const int8_t *codes = (const int8_t *)a.x + (int64_t)cols.x[g] * a.k + (int64_t)u * F::values;
    uint32_t b[2], b_next[2];
    load_b<F>(codes, t, b_next);
    const float *yd0 = a.scales + (int64_t)cols.x[2 * t] * (a.k / F::unit) + u * (F::values / F::unit);
    const float *yd1 =
        a.scales + (int64_t)cols.x[2 * t + 1] * (a.k / F::unit) + u * (F::values / F::unit);
    uint32_t base = (uint32_t)__cvta_generic_to_shared(tile);
    /* matrix i of ldmatrix: rows 8 * (i & 1), bytes 16 * (i >> 1); lane gives the address of one row */
    uint32_t from = base + ((lane & 7u) + 8u * (lane >> 3 & 1u)) * ROWS32_TILE_STRIDE +
                    16u * (lane >> 4);
    int32_t n[8];
    uint32_t mine[4] = {0, 0, 0, 0}, scales[4] = {0, 0, 0, 0};
#pragma unroll
    for (int i = 0; i < 8; i++) {
        n[i] = 0;
    }
    if constexpr (F::unit == 256) {
        F::scales(w, mine);
    }
#pragma unroll
    for (int j = 0; j < chunks; j++) {
        uint32_t q[8];
        uint32_t buffer = (uint32_t)(j & 1) * 32u * ROWS32_TILE_STRIDE;
        b[0] = b_next[0];
        b[1] = b_next[1];
        if (j + 1 < chunks) {
            load_b<F>(codes + 32 * (j + 1), t, b_next);
        }
        uint4 *to = (uint4 *)(tile + buffer + lane * ROWS32_TILE_STRIDE);
        F::decode(w, j, q, table);
        if (F::sub == 32) {
            to[0] = make_uint4(q[0], q[2], q[4], q[6]);
            to[1] = make_uint4(q[1], q[3], q[5], q[7]);
        } else {
            to[0] = make_uint4(q[0], q[1], q[2], q[3]);
            to[1] = make_uint4(q[4], q[5], q[6], q[7]);
        }
        __syncwarp();
        if (F::unit == 256 && j % (F::sub / 8) == 0) { /* four scales a word, of the lane's four rows */
#pragma unroll
            for (int r = 0; r < 4; r++) {
                scales[r] = wave_read(mine[j / (F::sub / 8)], (int)(g + 8 * r));
            }
        }
        float y0 = 0.0f, y1 = 0.0f;
        if (F::unit == 32) {
            y0 = yd0[j];
            y1 = yd1[j];
        }
#pragma unroll
        for (int h = 0; h < 2; h++) {
            uint32_t m[4];
            int32_t s0[4], s1[4];
            load_matrix4(m, from + buffer + (uint32_t)h * 16u * ROWS32_TILE_STRIDE);
            if (F::sub == 32) {
                mma_k32(s0, m, b[0], b[1]);
            } else {
                mma_k16(s0, m[0], m[1], b[0]);
                mma_k16(s1, m[2], m[3], b[1]);
            }
            if constexpr (F::unit == 256) {
#pragma unroll
                for (int i = 0; i < 4; i++) {
                    int r = 2 * h + (i >> 1), o = 4 * h + i;
                    if (F::sub == 16) {
                        n[o] += signed_byte(scales[r], 2 * (j & 1)) * s0[i];
                        n[o] += signed_byte(scales[r], 2 * (j & 1) + 1) * s1[i];
                    } else {
                        n[o] += signed_byte(scales[r], j & 3) * s0[i];
                    }
                }
            } else {
#pragma unroll
                for (int r = 0; r < 2; r++) {
                    int row = (int)g + 16 * h + 8 * r;
                    float d0 = wave_read(F::scale(w, j, 0, dialect), row);
                    if constexpr (F::sub == 16) {
                        float d1 = wave_read(F::scale(w, j, 1, dialect), row);
                        acc[j][4 * h + 2 * r] += d0 * y0 * (float)s0[2 * r] + d1 * y0 * (float)s1[2 * r];
                        acc[j][4 * h + 2 * r + 1] +=
                            d0 * y1 * (float)s0[2 * r + 1] + d1 * y1 * (float)s1[2 * r + 1];
                    } else {
                        float t0 = d0 * y0 * (float)(s0[2 * r] >> F::shift);
                        float t1 = d0 * y1 * (float)(s0[2 * r + 1] >> F::shift);
                        if constexpr (F::min_sub != 0) {
                            float xm = wave_read(F::min(w, j), row);
                            const int16_t *sum0 = a.sums + (int64_t)cols.x[2 * t] * (a.k / 16) +
                                                  u * (F::values / 16) + 2 * j;
                            const int16_t *sum1 = a.sums + (int64_t)cols.x[2 * t + 1] * (a.k / 16) +
                                                  u * (F::values / 16) + 2 * j;
                            t0 = t0 + xm * y0 * (float)(sum0[0] + sum0[1]);
                            t1 = t1 + xm * y1 * (float)(sum1[0] + sum1[1]);
                        }
                        acc[j][4 * h + 2 * r] += t0;
                        acc[j][4 * h + 2 * r + 1] += t1;
                    }
                }
            }
        }
        load_freed<F>(next, lane, j, w);
    }
    if constexpr (F::unit == 256) {
        float y0 = yd0[0], y1 = yd1[0];
#pragma unroll
        for (int r = 0; r < 4; r++) {
            float d = wave_read(F::d(w), (int)(g + 8 * r));
            term[2 * r] = d * y0 * (float)(n[2 * r] >> F::shift);
            term[2 * r + 1] = d * y1 * (float)(n[2 * r + 1] >> F::shift);
        }
        if constexpr (F::min_sub != 0) {
            /* mins times sums of 16, on tensor cores: the sums in signed high and low bytes */
            uint32_t mins[4];
            constexpr int count = 256 / F::min_sub;
            uint32_t few[count / 4];
            F::mins(w, few);
#pragma unroll
            for (int i = 0; i < 4; i++) {
                mins[i] = count == 16 ? few[count == 16 ? i : 0]
                                      : permute(few[i / 2 % (count / 4)], 0u, i & 1 ? 0x3322u : 0x1100u);
            }
            __syncwarp();
            *(uint4 *)(tile + lane * ROWS32_TILE_STRIDE) =
                make_uint4(mins[0], mins[1], mins[2], mins[3]);
            __syncwarp();
            uint2 sums = ((const uint2 *)(a.sums + (int64_t)cols.x[g] * (a.k / 16) + u * 16))[t];
            /* sum = 256 * high + low with low in -128 .. 127 */
            uint32_t low = permute(sums.x, sums.y, 0x6420u);
            uint32_t rounded0 = __vadd2(sums.x, 0x00800080u), rounded1 = __vadd2(sums.y, 0x00800080u);
            uint32_t upper = permute(rounded0, rounded1, 0x7531u);
            uint32_t m[4];
            load_matrix4(m, base + lane * ROWS32_TILE_STRIDE);
            float dmin;
#pragma unroll
            for (int h = 0; h < 2; h++) {
                int32_t s0[4], s1[4];
                mma_k16(s0, m[2 * h], m[2 * h + 1], low);
                mma_k16(s1, m[2 * h], m[2 * h + 1], upper);
#pragma unroll
                for (int r = 0; r < 2; r++) {
                    dmin = wave_read(F::dmin(w), (int)(g + 16 * h + 8 * r));
                    int32_t m0 = 256 * s1[2 * r] + s0[2 * r];
                    int32_t m1 = 256 * s1[2 * r + 1] + s0[2 * r + 1];
                    term[4 * h + 2 * r] = term[4 * h + 2 * r] - dmin * y0 * (float)m0;
                    term[4 * h + 2 * r + 1] = term[4 * h + 2 * r + 1] - dmin * y1 * (float)m1;
                }
            }
        }
        __syncwarp();
    }
    load_others<F>(next, lane, w);
}

/* Eight columns against a tile; the result of (row, column) = (thread / 8, thread % 8). */
template <class F, int WAVES>
DEVICE float tile_eight_columns(const matmul_args &a, const uint8_t *tile, uint32_t groups,
                                const columns &cols, const uint32_t *table, uint32_t dialect,
                                uint8_t *decoded, float *reduction, uint32_t *w) {
    constexpr int count = owned<F, WAVES>::count, stored = owned<F, WAVES>::stored;
    constexpr int step = 32 * F::bytes;
    uint32_t wave = wave_index(), lane = lane_index(), done = 0;
    float acc[count][8];
#pragma unroll
    for (int i = 0; i < count; i++) {
#pragma unroll
        for (int o = 0; o < 8; o++) {
            acc[i][o] = 0.0f;
        }
    }
#pragma unroll 1
    for (uint32_t u = wave; u < groups; u += WAVES) {
        float term[8];
        const uint8_t *next = u + WAVES < groups ? tile + (int64_t)(u + WAVES) * step : 0;
        eight_columns<F, WAVES>(a, w, next, u, cols, table, dialect, decoded, acc, term);
        if (F::unit == 256) {
#pragma unroll
            for (int o = 0; o < 8; o++) {
                float first = acc[0][o] + term[o];
#pragma unroll
                for (int i = 0; i + 1 < count; i++) {
                    acc[i][o] = acc[i + 1][o];
                }
                acc[count - 1][o] = first;
            }
            done++;
        }
    }
    /* lane (g, t): rows g + 8r, columns 2t, 2t + 1 */
    uint32_t at = (lane >> 2) * 8u + (lane & 3u) * 2u;
    __syncthreads(); /* the reduction may lie where x or decoded weights were */
    if (F::unit == 256) {
        while (done % count != 0) {
#pragma unroll
            for (int o = 0; o < 8; o++) {
                float first = acc[0][o];
#pragma unroll
                for (int i = 0; i + 1 < count; i++) {
                    acc[i][o] = acc[i + 1][o];
                }
                acc[count - 1][o] = first;
            }
            done++;
        }
#pragma unroll
        for (int o = 0; o < 8; o++) {
#pragma unroll
            for (int s = count / 2; s > 0; s /= 2) {
#pragma unroll
                for (int i = 0; i < s; i++) {
                    acc[i][o] = acc[i][o] + acc[i + s][o];
                }
            }
            reduction[wave * 256 + at + (o >> 1) * 64 + (o & 1)] = acc[0][o];
        }
    } else {
#pragma unroll
        for (int i = 0; i < count; i++) {
#pragma unroll
            for (int o = 0; o < 8; o++) {
                reduction[(wave * count + i) * 256 + at + (o >> 1) * 64 + (o & 1)] = acc[i][o];
            }
        }
    }
    __syncthreads();
    float sum = thread_index() < 256u ? F::last(finish_tree<stored>(reduction + thread_index(), 256))
                                      : 0.0f;
    __syncthreads();
    return sum;
}

template <class F, int WAVES>
DEVICE void columns_times_tile(const rows32_args &args, int64_t expert, const columns &cols,
                               const uint32_t *table, uint8_t *decoded, float *reduction) {
    const matmul_args &a = args.base;
    uint32_t wave = wave_index(), lane = lane_index();
    uint32_t next[ROWS32_WORDS(F)];
    const uint8_t *tile = tile_of<F>(a, 0, expert, block_x());
    if (wave < args.groups) {
        load_group<F>(tile + (int64_t)wave * 32 * F::bytes, lane, next);
    }
    if (args.chained) {
        wait_for_launch_ahead();
    }
    float value = tile_eight_columns<F, WAVES>(a, tile, args.groups, cols, table,
                                               a.side[0][expert].dialect, decoded, reduction, next);
    int64_t n = (int64_t)block_x() * 32 + thread_index() / 8u;
    int32_t y = thread_index() < 256u ? cols.y[thread_index() % 8u] : -1;
    if (a.pair) {
        tile = tile_of<F>(a, 1, expert, block_x());
        if (wave < args.groups) {
            load_group<F>(tile + (int64_t)wave * 32 * F::bytes, lane, next);
        }
        float up = tile_eight_columns<F, WAVES>(a, tile, args.groups, cols, table,
                                                a.side[1][expert].dialect, decoded, reduction, next);
        value = canonical_glu(a.glu, value, up, a.glu_alpha, a.glu_limit);
    } else if (a.bias != 0 && n < a.n) {
        value = value + a.bias[n];
    }
    if (y >= 0 && n < a.n) {
        store_output(a, y, n, cols.dead >> (thread_index() % 8u) & 1 ? 0.0f : value);
    }
}

/* Dense: grid (tiles, columns / 8).  Grouped: grid (tiles, groups). */
template <class F, int WAVES> DEVICE void rows32_eight(const rows32_args &args) {
    extern __shared__ __align__(16) uint8_t shared[];
    __shared__ columns cols;
    const matmul_args &a = args.base;
    let_next_launch_start();
    fill_table<F>((uint32_t *)shared);
    const uint32_t *table = lane_table<F>((const uint32_t *)shared);
    uint8_t *both = shared + F::table_words * 4;
    float *reduction = (float *)both;
    uint8_t *decoded = both + wave_index() * 2 * 32 * ROWS32_TILE_STRIDE;
    if (a.route.header == 0) {
        if (thread_index() < ROWS32_COLUMNS) {
            int32_t c = (int32_t)(block_y() * ROWS32_COLUMNS + thread_index());
            cols.x[thread_index()] = c < a.m ? c : (int32_t)(block_y() * ROWS32_COLUMNS);
            cols.y[thread_index()] = c < a.m ? c : -1;
            cols.dead = 0;
        }
        __syncthreads();
        columns_times_tile<F, WAVES>(args, 0, cols, table, decoded, reduction);
        return;
    }
    int32_t expert, begin, end;
    if (args.chained) {
        wait_for_launch_ahead();
    }
    if (!group_range(a, block_y(), &expert, &begin, &end)) {
        return;
    }
    for (int32_t first = begin; first < end; first += ROWS32_COLUMNS) {
        __syncthreads();
        if (thread_index() == 0u) {
            int32_t some = 0, dead = 0;
            for (int32_t c = 0; c < ROWS32_COLUMNS; c++) {
                int32_t e = first + c, dst = e < end ? a.route.entry_dst[e] : -1;
                int32_t token = e < end ? a.route.entry_token[e] : -1;
                bool stored = dst >= 0 && dst < (int32_t)a.route.cap_entries;
                bool lives = stored && entry_lives(a, expert, token);
                cols.y[c] = stored ? dst : -1;
                cols.x[c] = lives ? (a.by_dst ? dst : token) : some;
                some = lives ? cols.x[c] : some;
                dead |= stored && !lives ? 1 << c : 0;
            }
            cols.dead = dead;
        }
        __syncthreads();
        columns_times_tile<F, WAVES>(args, expert < 0 || expert >= a.experts ? 0 : expert, cols,
                                     table, decoded, reduction);
    }
}

#endif /* OPREG_SM90_ROWS32_CUH */
