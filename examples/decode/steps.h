/* SPDX-License-Identifier: MIT
 * steps.h - what a transformer does between the operators: norms, rotary positions, the router's
 * softmax, residuals.  One order of operations each, so that every device gives the same bits.
 *
 * C subset of C11, nvcc and clang-HIP, as canonical.h.  R() below is one rounding to f32. */
#ifndef DECODE_STEPS_H
#define DECODE_STEPS_H

#include "canonical.h"

#if defined(__CUDACC__) && !defined(__HIP__)
#define STEP_SQRT(x) __fsqrt_rn(x)
#else
#define STEP_SQRT(x) sqrtf(x)
#endif

/* Factor of an RMS norm: R(1 / R(sqrt(R(R(S / n) + epsilon)))).  S folds like a dot with F32
 * weights: square k goes by fmaf to accumulator (k >> 3) mod 32, ascending; then the tree. */
OPREG_FN float step_norm_factor(const float *x, int64_t n, float epsilon) {
    float sums[32], mean;
    int64_t k;
    int l;
    for (l = 0; l < 32; l++) {
        sums[l] = 0.0f;
    }
    for (k = 0; k < n; k++) {
        l = (int)(k >> 3 & 31);
        sums[l] = CANONICAL_FMA(x[k], x[k], sums[l]);
    }
    mean = CANONICAL_DIV(canonical_tree(sums), (float)n);
    return CANONICAL_DIV(1.0f, STEP_SQRT(mean + epsilon));
}

/* One element of a norm: R(R(x * factor) * weight). */
OPREG_FN float step_norm(float x, float factor, float weight) { return x * factor * weight; }

/* Rotates the pair by an angle whose cos and sin come from the host's table. */
OPREG_FN void step_rotate(float *a, float *b, float cosine, float sine) {
    float x = *a, y = *b;
    *a = x * cosine - y * sine;
    *b = x * sine + y * cosine;
}

/* Softmax of n router logits in place: p = exp(R(x - max)); the sum of p takes expert i to
 * accumulator i mod 32, ascending, then the tree; R(p / sum). */
OPREG_FN void step_softmax(float *x, int n) {
    float sums[32], max = x[0], sum;
    int i;
    for (i = 0; i < 32; i++) {
        sums[i] = 0.0f;
    }
    for (i = 1; i < n; i++) {
        max = x[i] > max ? x[i] : max;
    }
    for (i = 0; i < n; i++) {
        x[i] = canonical_exp(x[i] - max);
        sums[i & 31] = sums[i & 31] + x[i];
    }
    sum = canonical_tree(sums);
    for (i = 0; i < n; i++) {
        x[i] = CANONICAL_DIV(x[i], sum);
    }
}

/* The top_k largest of n probabilities, largest first, of equal ones the lower expert; weights are
 * the probabilities over their sum (slots ascending, at least 2^-14).  Taken ones become -1. */
OPREG_FN void step_top_experts(float *p, int n, int top_k, int32_t *ids, float *weights) {
    float sum = 0.0f;
    int slot, i, best;
    for (slot = 0; slot < top_k; slot++) {
        best = 0;
        for (i = 1; i < n; i++) {
            best = p[i] > p[best] ? i : best;
        }
        ids[slot] = best;
        weights[slot] = p[best];
        sum = sum + p[best];
        p[best] = -1.0f;
    }
    sum = sum < 0x1p-14f ? 0x1p-14f : sum;
    for (slot = 0; slot < top_k; slot++) {
        weights[slot] = CANONICAL_DIV(weights[slot], sum);
    }
}

/* A logit after the model's cap; cap 0 is none. */
OPREG_FN float step_cap(float x, float cap) {
    return cap == 0.0f ? x : cap * canonical_tanh(CANONICAL_DIV(x, cap));
}

#endif /* DECODE_STEPS_H */
