/* SPDX-License-Identifier: MIT
 * tiny_n.cuh - bf16 and f16 weights of few rows: a wave an output.  Too few waves run to hide a
 * load behind other waves, so each has TINY_AHEAD loads of 16 weight bytes on the way at a time.
 * Lane l owns accumulator l: elements 8 l .. 8 l + 7 of every 256. */
#ifndef OPREG_PLUGINS_TINY_N_CUH
#define OPREG_PLUGINS_TINY_N_CUH

#include "baseline_matmul.cuh"
#include "eight.cuh"
#include "tiny_n_args.h"

#define TINY_AHEAD 4

/* The accumulator of this lane. */
template <uint32_t W, uint32_t X>
DEVICE float tiny_sum(const uint8_t *w, const uint8_t *x, uint32_t k) {
    uint32_t eights = k / 8u, last = eights - 1u, lane = lane_index();
    float sum = 0.0f;
    for (uint32_t first = lane; first < eights; first += WAVE * TINY_AHEAD) {
        eight_elements<W> weights[TINY_AHEAD];
        eight_elements<X> values[TINY_AHEAD];
#pragma unroll
        for (uint32_t d = 0; d < TINY_AHEAD; d++) {
            uint32_t at = first + d * WAVE < last ? first + d * WAVE : last;
            load_eight(w + at * (uint32_t)eight_elements<W>::bytes, &weights[d]);
            load_eight(x + at * (uint32_t)eight_elements<X>::bytes, &values[d]);
        }
#pragma unroll
        for (uint32_t d = 0; d < TINY_AHEAD; d++) {
            float next = sum; /* a choice, not a branch: a branch would hold the loads back */
#pragma unroll
            for (int i = 0; i < 8; i++) {
                next = CANONICAL_FMA(element_of(weights[d], i), element_of(values[d], i), next);
            }
            sum = first + d * WAVE < eights ? next : sum;
        }
    }
    if (lane == eights % WAVE) { /* the end of the row */
        for (uint32_t i = eights * 8u; i < k; i++) {
            uint32_t half = load_half(w + 2u * i); /* weights may lie on odd bytes */
            float weight = W == OPREG_F16 ? half_to_float(half) : float_of(half << 16);
            sum = CANONICAL_FMA(weight, canonical_load(x, i, X), sum);
        }
    }
    return sum;
}

template <uint32_t W>
DEVICE float tiny_output(const matmul_args &a, int which, uint32_t n, int64_t row) {
    activation_row x = activations(a, row, 8);
    const uint8_t *w = a.data[which] + n * a.row_bytes, *from = (const uint8_t *)x.x;
    uint32_t k = (uint32_t)a.k;
    float sum;
#define TINY_SUM(type) sum = tiny_sum<W, type>(w, from, k)
    FOR_ELEMENT_TYPE(a.x_dtype, TINY_SUM)
#undef TINY_SUM
    return wave_tree(sum);
}

/* Grid: (rows of W / 2, rows of x). */
template <uint32_t W> DEVICE void tiny_n(const matmul_args &a) {
    uint32_t n = wave_uniform(block_x() * (TINY_N_THREADS / WAVE) + wave_index());
    if (n >= (uint32_t)a.n) {
        return;
    }
    for (int64_t row = block_y(); row < a.m; row += grid_y()) {
        float value = tiny_output<W>(a, 0, n, row);
        if (a.pair) {
            float up = tiny_output<W>(a, 1, n, row);
            value = canonical_glu(a.glu, value, up, a.glu_alpha, a.glu_limit);
        } else if (a.bias != 0) {
            value = value + a.bias[n];
        }
        if (lane_index() == 0u) {
            canonical_store(a.y, row * a.y_stride + n, a.y_dtype, value);
        }
    }
}

#define TINY_N_KERNEL(NAME, name)                                                                  \
    KERNEL KERNEL_THREADS(TINY_N_THREADS) tiny_n_##name(const matmul_args a) {                     \
        tiny_n<OPREG_##NAME>(a);                                                                   \
    }

#endif /* OPREG_PLUGINS_TINY_N_CUH */
