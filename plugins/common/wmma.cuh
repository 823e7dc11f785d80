/* SPDX-License-Identifier: MIT
 * wmma.cuh - matrix products for many rows of x on the matrix unit for bytes, with the bits of the
 * canonical order.
 *
 * A wave has 16 rows of W and WMMA_TILES times 16 rows of x: lane l decodes row l % 16 of W, once
 * for all rows of x, and holds the outputs of that row.  Integer sums are exact in any order; a
 * slice's scale is one multiply-add an output, and its min is multiplied by the matrix unit too.
 * Units are visited as accumulators 0, 16, 8, 24, 4, ..: then a finished accumulator joins the
 * others as in the canonical tree and no more than six partial sums of an output are alive. */
#ifndef OPREG_PLUGINS_WMMA_CUH
#define OPREG_PLUGINS_WMMA_CUH

#include "qdot.cuh"
#include "tile.cuh"
#include "wmma_args.h"

/* 16 x 16 outputs of each tile, in the lanes of byte_tile. */
struct wmma_outputs {
    float v[WMMA_TILES][8];
};

/* Outputs that a thread puts aside for long, in shared memory; no other thread reads them. */
struct wmma_aside {
    float v[WMMA_TILES][8][WMMA_THREADS];
};

DEVICE void wmma_put(wmma_aside *aside, const wmma_outputs &from) {
#pragma unroll
    for (int t = 0; t < WMMA_TILES; t++) {
#pragma unroll
        for (int i = 0; i < 8; i++) {
            aside->v[t][i][thread_index()] = from.v[t][i];
        }
    }
}

/* Accumulator number t of the visit: the five bits of t from last to first. */
DEVICE uint32_t wmma_residue(uint32_t t) {
    return (t & 1u) << 4 | (t & 2u) << 2 | (t & 4u) | (t & 8u) >> 2 | t >> 4;
}

/* Adds the term of unit u to every output. */
template <class F, int HALVES, int SUMS>
DEVICE void wmma_unit(const uint8_t *w_row, const opreg_side *side, const activation_row *x,
                      uint32_t u, wmma_outputs *sum) {
    const uint8_t *block = w_row + u * (uint32_t)F::bytes;
    const uint32_t slices = F::unit / SLICE_WEIGHTS;
    byte_tile n[WMMA_TILES], m[WMMA_TILES];
#pragma unroll
    for (int t = 0; t < WMMA_TILES; t++) {
#pragma unroll
        for (int i = 0; i < 8; i++) {
            n[t].c[i] = m[t].c[i] = 0;
        }
    }
#pragma unroll 1
    for (uint32_t j = 0; j < slices; j++) {
        uint32_t q[8];
        slice_factors factors[2] = {{0, 0, 0, 0}, {0, 0, 0, 0}};
        F::levels(block, (int)j, side, q, factors);
#pragma unroll
        for (int t = 0; t < WMMA_TILES; t++) {
            uint32_t codes[8];
            byte_tile low, high;
            load_words<8>((const uint8_t *)x[t].x + (u * slices + j) * SLICE_WEIGHTS, codes);
#pragma unroll
            for (int i = 0; i < 8; i++) {
                low.c[i] = high.c[i] = 0;
            }
            tile_multiply(codes, q, &low);
            if (HALVES == 1) {
                tile_multiply(codes + 4, q + 4, &low);
            } else {
                tile_multiply(codes + 4, q + 4, &high);
            }
#pragma unroll
            for (int i = 0; i < 8; i++) {
                n[t].c[i] += factors[0].low * low.c[i];
                if (HALVES == 2) {
                    n[t].c[i] += factors[0].high * high.c[i];
                }
            }
            if (SUMS == 2) { /* factors of sums fit a byte in every format of the list */
                uint32_t by_low = ((uint32_t)factors[1].sum_low & 255u) * 0x01010101u;
                uint32_t by_high = ((uint32_t)factors[1].sum_high & 255u) * 0x01010101u;
                uint32_t lows[4] = {by_low, by_low, by_low, by_low};
                uint32_t highs[4] = {by_high, by_high, by_high, by_high};
                tile_multiply(codes, lows, &m[t]);
                tile_multiply(codes + 4, highs, &m[t]);
            }
        }
    }
#pragma unroll
    for (int t = 0; t < WMMA_TILES; t++) {
        float mine = scale_of_x(x[t], u);
#pragma unroll
        for (int i = 0; i < 8; i++) {
            int32_t sums[2] = {n[t].c[i], m[t].c[i]};
            float yd = wave_read(mine, (int)tile_row(i));
            sum->v[t][i] = sum->v[t][i] + F::term(block, 0, sums, yd, side);
        }
    }
}

/* Dots of weight `which`, before the last factor. */
template <class F, int HALVES, int SUMS>
DEVICE void wmma_dots(const matmul_args &a, int which, uint32_t n, const activation_row *x,
                      wmma_aside *first_half, wmma_outputs *out) {
    uint32_t units = (uint32_t)(a.k / F::unit), row = n < (uint32_t)a.n ? n : (uint32_t)a.n - 1u;
    const uint8_t *w_row = a.data[which] + row * a.row_bytes;
    wmma_outputs stack[4];
#pragma unroll 1
    for (uint32_t t = 0; t < 32u; t++) {
        uint32_t carried = 1u;
#pragma unroll
        for (int tile = 0; tile < WMMA_TILES; tile++) {
#pragma unroll
            for (int i = 0; i < 8; i++) {
                out->v[tile][i] = 0.0f;
            }
        }
#pragma unroll 1
        for (uint32_t u = wmma_residue(t); u < units; u += 32u) {
            wmma_unit<F, HALVES, SUMS>(w_row, a.side[which], x, u, out);
        }
#pragma unroll
        for (int level = 0; level < 4; level++) {
            if (carried != 0u && (t >> level & 1u) != 0u) {
#pragma unroll
                for (int tile = 0; tile < WMMA_TILES; tile++) {
#pragma unroll
                    for (int i = 0; i < 8; i++) {
                        out->v[tile][i] = stack[level].v[tile][i] + out->v[tile][i];
                    }
                }
            } else if (carried != 0u) {
                stack[level] = *out;
                carried = 0u;
            }
        }
        if (t == 15u) { /* the even accumulators are one sum */
            wmma_put(first_half, *out);
        }
    }
#pragma unroll
    for (int tile = 0; tile < WMMA_TILES; tile++) {
#pragma unroll
        for (int i = 0; i < 8; i++) {
            out->v[tile][i] = first_half->v[tile][i][thread_index()] + out->v[tile][i];
        }
    }
}

/* Grid: (rows of W / 64, rows of x / (16 * WMMA_TILES)). */
template <class F, int HALVES, int SUMS> DEVICE void wmma_matmul(const matmul_args &a) {
    uint32_t tile = wave_uniform(block_x() * (WMMA_THREADS / WAVE) + wave_index()) * 16u;
    uint32_t column = lane_index() & 15u, n = tile + column;
    __shared__ wmma_aside first_half, gate;
    if (tile >= (uint32_t)a.n) {
        return;
    }
    for (int64_t first = (int64_t)block_y() * (16 * WMMA_TILES); first < a.m;
         first += (int64_t)grid_y() * (16 * WMMA_TILES)) {
        activation_row x[WMMA_TILES];
        wmma_outputs value;
#pragma unroll
        for (int t = 0; t < WMMA_TILES; t++) {
            int64_t row = first + 16 * t + column;
            x[t] = activations(a, row < a.m ? row : a.m - 1, F::unit);
        }
#pragma unroll 1
        for (int which = 0; which <= (int)a.pair; which++) {
            if (which == 1) {
                wmma_put(&gate, value);
            }
            wmma_dots<F, HALVES, SUMS>(a, which, n, x, &first_half, &value);
        }
#pragma unroll
        for (int t = 0; t < WMMA_TILES; t++) {
#pragma unroll
            for (int i = 0; i < 8; i++) {
                int64_t row = first + 16 * t + tile_row(i);
                float v = F::last(value.v[t][i]);
                if (n >= (uint32_t)a.n || row >= a.m) {
                    continue;
                }
                if (a.pair) {
                    float g = F::last(gate.v[t][i][thread_index()]);
                    v = canonical_glu(a.glu, g, v, a.glu_alpha, a.glu_limit);
                } else if (a.bias != 0) {
                    v = v + a.bias[n];
                }
                canonical_store(a.y, row * a.y_stride + n, a.y_dtype, v);
            }
        }
    }
}

#define WMMA_KERNEL(name, halves, sums)                                                            \
    struct name##_levels : name##_format {                                                         \
        DEVICE_MEMBER void levels(const uint8_t *block, int j, const opreg_side *side,             \
                                  uint32_t *q, slice_factors *n) {                                 \
            const slice_factors each_sum[2] = {{0, 0, 1, 0}, {0, 0, 0, 1}};                        \
            name##_slice<level_capture>(block, j, level_words{q, 0}, each_sum, side, n);           \
        }                                                                                          \
    };                                                                                             \
    KERNEL KERNEL_THREADS(WMMA_THREADS) wmma_tile_##name(const matmul_args a) {                    \
        wmma_matmul<name##_levels, halves, sums>(a);                                               \
    }

#endif /* OPREG_PLUGINS_WMMA_CUH */
