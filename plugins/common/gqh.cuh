/* SPDX-License-Identifier: MIT
 * gqh.cuh - GQH formats for few rows of x: a lane owns eight weights of every superblock, which is one
 * accumulator of the canonical order.
 *
 * Wire bytes are loaded DEPTH superblocks ahead of their use.  The weights of ROWS rows of W are
 * decoded once for COLUMNS rows of x, which exactly that many instructions per row of x pay for:
 * COLUMNS is a constant, so a narrower call has its own kernel and nothing is predicated.  Levels and
 * ratios are looked up in shared memory: sixteen consecutive floats lie in sixteen banks, so lanes
 * that differ never wait for each other. */
#ifndef OPREG_PLUGINS_GQH_CUH
#define OPREG_PLUGINS_GQH_CUH

#include "baseline_formats.cuh"
#include "eight.cuh"
#include "gqh_args.h"
#include "slices.cuh"

/* Level grid and ratios of one tensor. */
struct gqh_tables {
    float levels[16], ratio[16];
};

/* One lane's bytes of one superblock. */
struct gqh_wire {
    uint32_t codes, more, ratio, scale;
};

/* F::load reads a lane's bytes; F::decode makes eight levels of them, and the scale they share. */
struct gqh4_wire {
    static const int bytes = 137;
    DEVICE_MEMBER void load(const uint8_t *block, uint32_t lane, gqh_wire *w) {
        load_words<1>(block + 9 + 4u * lane, &w->codes);
    }
    DEVICE_MEMBER void levels(const gqh_wire &w, const gqh_tables *t, float *out) {
#pragma unroll
        for (int i = 0; i < 8; i++) {
            out[i] = t->levels[w.codes >> 4 * i & 15u];
        }
    }
};

struct gqh3_wire {
    static const int bytes = 105;
    DEVICE_MEMBER void load(const uint8_t *block, uint32_t lane, gqh_wire *w) {
        w->codes = load_half(block + 9 + 2u * lane);
        w->more = load_byte(block + 73 + lane);
    }
    DEVICE_MEMBER void levels(const gqh_wire &w, const gqh_tables *t, float *out) {
#pragma unroll
        for (int i = 0; i < 8; i++) {
            out[i] = t->levels[(w.codes >> 2 * i & 3u) | (w.more >> i & 1u) << 2];
        }
    }
};

struct gqh2_h_wire {
    static const int bytes = 73;
    DEVICE_MEMBER void load(const uint8_t *block, uint32_t lane, gqh_wire *w) {
        w->codes = load_half(block + 9 + 2u * lane);
    }
    DEVICE_MEMBER void levels(const gqh_wire &w, const gqh_tables *t, float *out) {
#pragma unroll
        for (int i = 0; i < 8; i++) {
            out[i] = t->levels[w.codes >> 2 * i & 3u];
        }
    }
};

/* Formats with an e4m3 scale times the tensor's, and a ratio of each 16 weights. */
template <class W> struct gqh_ratios {
    static const int bytes = W::bytes;
    DEVICE_MEMBER void load(const uint8_t *block, uint32_t lane, gqh_wire *w) {
        W::load(block, lane, w);
        w->ratio = load_byte(block + 1 + (lane >> 2));
        w->scale = load_byte(block);
    }
    DEVICE_MEMBER void levels(const gqh_wire &w, const gqh_tables *t, float *out) {
        W::levels(w, t, out);
    }
    DEVICE_MEMBER float scale(const gqh_wire &w, const gqh_tables *t, uint32_t lane,
                              const opreg_side *side) {
        float d = e4m3_signed(w.scale) * side->tensor_scale;
        return d * t->ratio[w.ratio >> 2u * (lane & 2u) & 15u];
    }
};

/* A codebook row of eight magnitudes and a word with signs and ratio for each 32 weights. */
struct gqh2_c_wire {
    static const int bytes = 66;
    DEVICE_MEMBER void load(const uint8_t *block, uint32_t lane, gqh_wire *w) {
        w->codes = load_byte(block + 2 + 8u * (lane >> 2) + (lane & 3u));
        load_words<1>(block + 6 + 8u * (lane >> 2), &w->more);
        w->scale = load_half(block);
        w->ratio = gqh2c_signs[w->more >> 7u * (lane & 3u) & 127u];
    }
    DEVICE_MEMBER void levels(const gqh_wire &w, const gqh_tables *, float *out) {
        uint64_t row = gqh2c_codebook[w.codes];
#pragma unroll
        for (int i = 0; i < 8; i++) {
            out[i] = grid_value(0x1p-6f, (int)(row >> 8 * i & 255u), w.ratio >> i & 1u);
        }
    }
    DEVICE_MEMBER float scale(const gqh_wire &w, const gqh_tables *t, uint32_t,
                              const opreg_side *) {
        return f16_to_f32(w.scale) * t->ratio[w.more >> 28];
    }
};

/* Sums of one weight's ROWS rows with COLUMNS rows of x, in all lanes. */
template <class F, int ROWS, int COLUMNS, int DEPTH, uint32_t X>
DEVICE void gqh_rows(const matmul_args &a, int which, uint32_t n, int64_t x_row, gqh_tables *tables,
                     float (*sum)[COLUMNS]) {
    const opreg_side *side = a.side[which];
    uint32_t lane = lane_index(), superblocks = (uint32_t)(a.k / 256), last = superblocks - 1u;
    const uint32_t x_bytes = eight_elements<X>::bytes / 8;
    const uint8_t *rows[ROWS];
    gqh_wire wire[DEPTH][ROWS];
    block_barrier(); /* the tables of the weight before have been read */
    if (thread_index() < 16u) {
        tables->levels[thread_index()] = side->levels[thread_index()];
        tables->ratio[thread_index()] = gqh_ratio[thread_index()];
    }
    block_barrier();
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        uint32_t row = n + (uint32_t)r < (uint32_t)a.n ? n + (uint32_t)r : (uint32_t)a.n - 1u;
        rows[r] = a.data[which] + row * a.row_bytes;
#pragma unroll
        for (int c = 0; c < COLUMNS; c++) {
            sum[r][c] = 0.0f;
        }
#pragma unroll
        for (int d = 0; d < DEPTH; d++) {
            uint32_t ahead = (uint32_t)d < last ? (uint32_t)d : last;
            F::load(rows[r] + ahead * (uint32_t)F::bytes, lane, &wire[d][r]);
        }
    }
    for (uint32_t first = 0; first < superblocks; first += DEPTH) {
#pragma unroll
        for (int d = 0; d < DEPTH; d++) {
            uint32_t sb = first + (uint32_t)d, ahead = sb + DEPTH < last ? sb + DEPTH : last;
            float level[ROWS][8], scale[ROWS];
            if (sb >= superblocks) {
                continue;
            }
#pragma unroll
            for (int r = 0; r < ROWS; r++) {
                F::levels(wire[d][r], tables, level[r]);
                scale[r] = F::scale(wire[d][r], tables, lane, side);
                F::load(rows[r] + ahead * (uint32_t)F::bytes, lane, &wire[d][r]);
            }
            /* a pointer for each of many columns would not fit the scalar registers */
            const matmul_args &again = COLUMNS > 5 ? parameters_again(a) : a;
            const uint8_t *x = (const uint8_t *)again.x + x_row * again.x_stride * x_bytes;
#pragma unroll
            for (int c = 0; c < COLUMNS; c++) {
                eight_elements<X> values;
                load_eight(x + (sb * 256u + lane * 8u) * x_bytes, &values);
                x += again.x_stride * x_bytes;
#pragma unroll
                for (int r = 0; r < ROWS; r++) {
                    float h = 0.0f;
#pragma unroll
                    for (int i = 0; i < 8; i++) {
                        h = CANONICAL_FMA(level[r][i], element_of(values, i), h);
                    }
                    sum[r][c] = CANONICAL_FMA(scale[r], h, sum[r][c]);
                }
            }
        }
    }
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
#pragma unroll
        for (int c = 0; c < COLUMNS; c++) {
            sum[r][c] = wave_tree(sum[r][c]);
        }
    }
}

/* The same for the type of x that the call has: chosen once, not for each load. */
template <class F, int ROWS, int COLUMNS, int DEPTH>
DEVICE void gqh_sums(const matmul_args &a, int which, uint32_t n, int64_t x_row, gqh_tables *tables,
                     float (*sum)[COLUMNS]) {
#define GQH_ROWS_OF(type)                                                                          \
    gqh_rows<F, ROWS, COLUMNS, DEPTH, type>(a, which, n, x_row, tables, sum)
    FOR_ELEMENT_TYPE(a.x_dtype, GQH_ROWS_OF)
#undef GQH_ROWS_OF
}

/* Grid: (rows of W / outputs, m / COLUMNS).  m is a multiple of COLUMNS: the host chose the kernel. */
template <class F, int ROWS, int COLUMNS, int DEPTH> DEVICE void gqh_matmul(const matmul_args &a) {
    __shared__ gqh_tables tables;
    uint32_t n = wave_uniform((block_x() * (GQH_THREADS / WAVE) + wave_index()) * ROWS);
    for (int64_t row = (int64_t)block_y() * COLUMNS; row < a.m; row += (int64_t)grid_y() * COLUMNS) {
        float value[ROWS][COLUMNS], up[ROWS][COLUMNS];
        gqh_sums<F, ROWS, COLUMNS, DEPTH>(a, 0, n, row, &tables, value);
        if (a.pair) {
            gqh_sums<F, ROWS, COLUMNS, DEPTH>(a, 1, n, row, &tables, up);
        }
        float mine = 0.0f, mine_up = 0.0f; /* lane r * COLUMNS + c finishes output (r, c)          */
        uint32_t lane = (uint32_t)computed_here((int32_t)lane_index()); /* no comparison before    */
#pragma unroll
        for (uint32_t r = 0; r < ROWS; r++) {
#pragma unroll
            for (uint32_t c = 0; c < COLUMNS; c++) {
                bool here = lane == r * COLUMNS + c;
                mine = here ? value[r][c] : mine;
                mine_up = here && a.pair ? up[r][c] : mine_up;
            }
        }
        uint32_t out = n + lane / COLUMNS, column = lane % COLUMNS;
        if (lane < ROWS * COLUMNS && out < (uint32_t)a.n) {
            if (a.pair) {
                mine = canonical_glu(a.glu, mine, mine_up, a.glu_alpha, a.glu_limit);
            } else if (a.bias != 0) {
                mine = mine + a.bias[out];
            }
            canonical_store(a.y, (row + column) * a.y_stride + out, a.y_dtype, mine);
        }
    }
}

#define GQH_KERNEL(name, type, rows, columns, depth, suffix)                                       \
    KERNEL KERNEL_THREADS(GQH_THREADS) gqh_##name##suffix(const matmul_args a) {                   \
        gqh_matmul<type, rows, columns, depth>(a);                                                 \
    }

/* The kernels of one format, in the order of gqh.c. */
#define GQH_KERNELS(name, type)                                                                    \
    GQH_KERNEL(name, type, 1, 1, 3, _deep)                                                         \
    GQH_KERNEL(name, type, GQH_ROWS, 1, 1, _wide)                                                  \
    GQH_KERNEL(name, type, GQH_COLUMN_ROWS, 2, 1, _2)                                              \
    GQH_KERNEL(name, type, GQH_COLUMN_ROWS, 3, 1, _3)                                              \
    GQH_KERNEL(name, type, GQH_COLUMN_ROWS, 4, 1, _4)                                              \
    GQH_KERNEL(name, type, GQH_COLUMN_ROWS, 5, 1, _5)                                              \
    GQH_KERNEL(name, type, GQH_COLUMN_ROWS, 6, 1, _6)                                              \
    GQH_KERNEL(name, type, GQH_COLUMN_ROWS, 7, 1, _7)                                              \
    GQH_KERNEL(name, type, GQH_COLUMN_ROWS, 8, 1, _8)

#endif /* OPREG_PLUGINS_GQH_CUH */
