/* SPDX-License-Identifier: MIT
 * steps.h - the arithmetic of the steps between operators (opreg_device_steps): norms, rotary positions,
 * the router's choice, the largest of a row, the comparison of two results.  Written once, so that every
 * device gives the same bits; docs/numerics.md states the orders.
 *
 * C subset of C11, nvcc and clang-HIP, compiled as canonical.h is.  Functions with `lane` do the share of
 * one of `lanes` workers: a device's wave has 32, the CPU asks for one after another. */
#ifndef OPREG_STEPS_H
#define OPREG_STEPS_H

#include "canonical.h"

#if defined(__CUDACC__) && !defined(__HIP__)
#define STEP_SQRT(x) __fsqrt_rn(x)
#elif OPREG_ON_DEVICE
#define STEP_SQRT(x) __builtin_sqrtf(x)
#else
#define STEP_SQRT(x) sqrtf(x)
#endif

/* ---- norms ------------------------------------------------------------------------------------ */

/* Accumulator `lane` of 32 of a row's squares, folded like a dot with F32 weights: square k goes by fmaf
 * to accumulator (k >> 3) mod 32, ascending.  The sum is the row tree of the 32. */
OPREG_FN float step_squares(const float *x, int64_t n, int lane) {
    float sum = 0.0f;
    int64_t k, i, last;
    for (k = 8 * (int64_t)lane; k < n; k += 256) {
        last = k + 8 < n ? k + 8 : n;
        for (i = k; i < last; i++) {
            sum = CANONICAL_FMA(x[i], x[i], sum);
        }
    }
    return sum;
}

/* Factor of a norm whose squares have this sum: R(1 / R(sqrt(R(R(sum / n) + epsilon)))). */
OPREG_FN float step_norm_factor(float sum, int64_t n, float epsilon) {
    float mean = CANONICAL_DIV(sum, (float)n);
    return CANONICAL_DIV(1.0f, STEP_SQRT(mean + epsilon));
}

/* One element of a norm: R(R(x * factor) * weight). */
OPREG_FN float step_norm(float x, float factor, float weight) { return x * factor * weight; }

/* ---- heads ------------------------------------------------------------------------------------ */

/* Rotates the pairs of one head by angles whose cos and sin come from the host's table: three roundings
 * an element. */
OPREG_FN void step_rotate(float *head, int pairs, int halves, const float *cosines,
                          const float *sines, int lane, int lanes) {
    int i;
    for (i = lane; i < pairs; i += lanes) {
        float *a = &head[halves ? i : 2 * i], *b = &head[halves ? i + pairs : 2 * i + 1];
        float x = *a, y = *b;
        *a = x * cosines[i] - y * sines[i];
        *b = x * sines[i] + y * cosines[i];
    }
}

OPREG_FN void step_store(const float *head, int dim, void *cache, int64_t at, uint32_t dtype,
                         int lane, int lanes) {
    int i;
    for (i = lane; i < dim; i += lanes) {
        canonical_store(cache, at + i, dtype, head[i]);
    }
}

/* 1 when all heads of a token fit in a cache at this place. */
OPREG_FN int step_fits(int64_t place, int64_t cache_elements, int64_t head_stride, int kv_heads,
                       int dim) {
    return place >= 0 && place <= cache_elements - ((int64_t)(kv_heads - 1) * head_stride + dim);
}

/* ---- choices ---------------------------------------------------------------------------------- */

/* A number that orders floats: both zeros are equal, NaN is below everything and 0. */
OPREG_FN uint32_t step_order(float x) {
    uint32_t b = bits_of(x);
    if (x != x) {
        return 0u;
    }
    b = x == 0.0f ? 0u : b;
    return (b & 0x80000000u) != 0u ? ~b : b | 0x80000000u;
}

/* The order of a probability; one that was taken has become -1, which is below NaN. */
OPREG_FN uint32_t step_expert_order(float p) { return p < 0.0f ? 0u : step_order(p) + 1u; }

/* 1 when a at index i comes before b at index j: larger, or equal and lower. */
OPREG_FN int step_before(uint32_t a, int64_t i, uint32_t b, int64_t j) {
    return a > b || (a == b && i < j);
}

/* Largest of the lane's logits, i mod lanes == lane; -Inf where it has none. */
OPREG_FN float step_softmax_max(const float *x, int n, int lane, int lanes) {
    float max = float_of(0xff800000u);
    int i;
    for (i = lane; i < n; i += lanes) {
        max = x[i] > max ? x[i] : max;
    }
    return max;
}

/* x = exp(R(x - max)) of accumulator lane's elements, i mod 32 == lane; returns their sum, ascending.
 * The sum of all is the row tree of the 32. */
OPREG_FN float step_softmax_exp(float *x, int n, float max, int lane) {
    float sum = 0.0f;
    int i;
    for (i = lane; i < n; i += 32) {
        x[i] = canonical_exp(x[i] - max);
        sum = sum + x[i];
    }
    return sum;
}

/* The least that weights of experts are divided by. */
OPREG_FN float step_weight_sum(float sum) { return sum < 0x1p-14f ? 0x1p-14f : sum; }

/* A logit after the model's cap. */
OPREG_FN float step_cap(float x, float cap) { return cap * canonical_tanh(CANONICAL_DIV(x, cap)); }

/* ---- the difference of two results --------------------------------------------------------------- */

OPREG_FN uint32_t step_bits_at(const void *array, int64_t index, uint32_t element) {
    if (element == 4u) {
        return ((const uint32_t *)array)[index];
    }
    return element == 2u ? (uint32_t)((const uint16_t *)array)[index]
                         : (uint32_t)((const uint8_t *)array)[index];
}

/* The element as a number; dtype 0 is a signed integer. */
OPREG_FN double step_number_at(const void *array, int64_t index, uint32_t dtype, uint32_t element) {
    if (dtype != 0u) {
        return (double)canonical_load(array, index, dtype);
    }
    if (element == 4u) {
        return (double)((const int32_t *)array)[index];
    }
    return element == 2u ? (double)((const int16_t *)array)[index]
                         : (double)((const int8_t *)array)[index];
}

/* Half an ulp of the store, of a number that f16 or bf16 has. */
OPREG_FN double step_half_ulp(uint32_t dtype, double number) {
    uint32_t b = bits_of((float)number) & 0x7fffffffu;
    int exponent = (int)(b >> 23);
    if ((dtype != OPREG_F16 && dtype != OPREG_BF16) || b >= 0x7f800000u) {
        return 0.0;
    }
    if (dtype == OPREG_F16) { /* 11 bits, at least 2^-25 */
        exponent -= 138;
        return (double)float_of((uint32_t)((exponent < -25 ? -25 : exponent) + 127) << 23);
    }
    exponent -= 135; /* 8 bits, at least 2^-134 */
    return exponent < -126
               ? (double)float_of(1u << ((exponent < -134 ? -134 : exponent) + 149))
               : (double)float_of((uint32_t)(exponent + 127) << 23);
}

/* Adds one element.  1 when its bits are wrong. */
OPREG_FN int step_compare_element(opreg_difference *d, uint32_t dtype, uint32_t element,
                                  const void *got, const void *want, int64_t at) {
    uint32_t have = step_bits_at(got, at, element), need = step_bits_at(want, at, element);
    double a = step_number_at(got, at, dtype, element), b = step_number_at(want, at, dtype, element);
    double off = a > b ? a - b : b - a, larger, store;
    int nans = (a != a) + (b != b);
    double size_a = a < 0 ? -a : a, size_b = b < 0 ? -b : b;
    off = a == b || nans == 2 ? 0.0 : off;
    off = off != off ? (double)float_of(0x7f800000u) : off;
    larger = size_a > size_b || b != b ? size_a : size_b;
    store = step_half_ulp(dtype, larger);
    d->checked++;
    d->largest = off > d->largest ? off : d->largest;
    d->error += off * off;
    d->energy += size_b < (double)float_of(0x7f800000u) ? b * b : 0.0;
    d->store += store * store;
    if (have == need || nans == 2) {
        return 0;
    }
    d->wrong++;
    return 1;
}

#endif /* OPREG_STEPS_H */
