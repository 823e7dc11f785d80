/* SPDX-License-Identifier: MIT
 * baseline_matmul.cuh - the baseline of every matrix operator: one wave computes one output, lane l
 * owns accumulator l.  Dense, pair and grouped calls, stored and prepared weights, one kernel a
 * format. */
#ifndef OPREG_PLUGINS_BASELINE_MATMUL_CUH
#define OPREG_PLUGINS_BASELINE_MATMUL_CUH

#include "baseline_args.h"
#include "device.h"

#include "canonical.h"

/* 0 where the plugin offers no prepared layout. */
#ifndef BASELINE_PREPARED
#define BASELINE_PREPARED 1
#endif

/* First byte of the block that holds unit u, and the unit's index in it. */
template <class F> DEVICE const uint8_t *stored_unit(const uint8_t *row, int64_t u, int *part) {
    if (F::values > F::unit) {
        const int parts = F::values > F::unit ? F::values / F::unit : 1;
        *part = (int)(u % parts);
        return row + u / parts * F::bytes;
    }
    *part = 0;
    return row + u * (F::unit / F::values) * F::bytes;
}

/* One row of one weight: where its blocks are. */
struct weight_row {
    const uint8_t *tile; /* stored: the row; prepared: the expert's tile                           */
    uint32_t row;        /* prepared: row in the tile                                              */
};

template <class F>
DEVICE const uint8_t *unit_block(const matmul_args &a, const weight_row &w, int64_t u, int *part,
                                 uint8_t *copy) {
    if (F::values == 1 || !BASELINE_PREPARED || a.prepared == 0u) {
        return stored_unit<F>(w.tile, u, part);
    }
    {
        const int parts = F::values > F::unit ? F::values / F::unit : 1;
        const prepared_shape &s = a.layout;
        int64_t block = u / parts;
        uint32_t group_bytes = s.block_bytes * s.blocks, in_group = (uint32_t)(block % s.blocks);
        const uint8_t *group = w.tile + block / s.blocks * 32 * group_bytes;
        *part = (int)(u % parts);
        for (int i = 0; i < F::bytes; i++) {
            uint32_t p = prepared_position(&s, in_group, (uint32_t)i);
            copy[i] = group[prepared_offset(group_bytes, w.row, p)];
        }
        return copy;
    }
}

/* The row of x that an output needs. */
struct activation_row {
    const void *x; /* elements, or i8 codes                                                        */
    const float *scales;
    const int16_t *sums;
};

template <class F>
DEVICE float dot_sums(const matmul_args &a, const weight_row &w, const activation_row &x,
                      const opreg_side *side) {
    float sum = 0.0f;
    int64_t units = a.k / F::unit;
    uint8_t copy[F::bytes];
    for (int64_t u = lane_index(); u < units; u += WAVE) {
        int part;
        int32_t n[2];
        const uint8_t *block = unit_block<F>(a, w, u, &part, copy);
        F::sums(block, part, (const int8_t *)x.x + u * F::unit, x.sums + u * (F::unit / 16), side,
                n);
        sum = sum + F::term(block, part, n, x.scales[u], side);
    }
    return sum;
}

/* `count` activations from element `at` on, widened. */
template <int count>
DEVICE void load_activations(const void *x, int64_t at, uint32_t dtype, float *out) {
    if (dtype == OPREG_F32) {
#pragma unroll
        for (int i = 0; i < count; i++) {
            out[i] = canonical_load(x, at + i, OPREG_F32);
        }
    } else if (dtype == OPREG_F16) {
#pragma unroll
        for (int i = 0; i < count; i++) {
            out[i] = canonical_load(x, at + i, OPREG_F16);
        }
    } else {
#pragma unroll
        for (int i = 0; i < count; i++) {
            out[i] = canonical_load(x, at + i, OPREG_BF16);
        }
    }
}

template <class F>
DEVICE float dot_fold(const matmul_args &a, const weight_row &w, const activation_row &x,
                      const opreg_side *side) {
    float sum = 0.0f;
    int64_t units = (a.k + F::unit - 1) / F::unit;
    uint8_t copy[F::values == 1 ? 1 : F::bytes];
    for (int64_t u = lane_index(); u < units; u += WAVE) {
        int part;
        float values[F::unit];
        const uint8_t *block = unit_block<F>(a, w, u, &part, copy);
        if (F::values == 1 && a.k - u * F::unit < F::unit) { /* the end of the row */
            for (int i = 0; i < a.k - u * F::unit; i++) {
                float one = canonical_load(x.x, u * F::unit + i, a.x_dtype);
                sum = F::fold(block + i * F::bytes, 0, &one, 1, sum, side);
            }
            continue;
        }
        load_activations<F::unit>(x.x, u * F::unit, a.x_dtype, values);
        sum = F::fold(block, part, values, F::unit, sum, side);
    }
    return sum;
}

#define BASELINE_SUMS(NAME, name, values_, bytes_, unit_, final_)                                  \
    struct name##_format {                                                                         \
        static const int values = values_, bytes = bytes_, unit = unit_;                           \
        DEVICE_MEMBER float last(float sum) { return (final_) == 1.0f ? sum : sum * (final_); }    \
        DEVICE_MEMBER void sums(const uint8_t *block, int part, const int8_t *q,                   \
                                const int16_t *q_sums, const opreg_side *side, int32_t *n) {       \
            name##_sums(block, part, q, q_sums, side, n);                                          \
        }                                                                                          \
        DEVICE_MEMBER float term(const uint8_t *block, int part, const int32_t *n, float yd,       \
                                 const opreg_side *side) {                                         \
            return name##_term(block, part, n, yd, side);                                          \
        }                                                                                          \
        DEVICE_MEMBER float dot(const matmul_args &a, const weight_row &w,                         \
                                const activation_row &x, const opreg_side *side) {                 \
            return dot_sums<name##_format>(a, w, x, side);                                         \
        }                                                                                          \
    };
#define BASELINE_FOLD(NAME, name, values_, bytes_, unit_, final_)                                  \
    struct name##_format {                                                                         \
        static const int values = values_, bytes = bytes_, unit = unit_;                           \
        DEVICE_MEMBER float last(float sum) { return sum; }                                        \
        DEVICE_MEMBER float fold(const uint8_t *block, int part, const float *x, int count,        \
                                 float acc, const opreg_side *side) {                              \
            return name##_fold(block, part, x, count, acc, side);                                  \
        }                                                                                          \
        DEVICE_MEMBER float dot(const matmul_args &a, const weight_row &w,                         \
                                const activation_row &x, const opreg_side *side) {                 \
            return dot_fold<name##_format>(a, w, x, side);                                         \
        }                                                                                          \
    };

DEVICE activation_row activations(const matmul_args &a, int64_t row, int unit) {
    activation_row x;
    if (a.scales != 0) {
        x.x = (const int8_t *)a.x + row * a.k;
        x.scales = a.scales + row * (a.k / unit);
        x.sums = a.sums + row * (a.k / 16);
    } else {
        int64_t bytes = a.x_dtype == OPREG_F32 ? 4 : 2;
        x.x = (const uint8_t *)a.x + row * a.x_stride * bytes;
        x.scales = 0;
        x.sums = 0;
    }
    return x;
}

DEVICE weight_row weight_at(const matmul_args &a, int which, int64_t expert, int64_t n) {
    weight_row w;
    const uint8_t *base = a.data[which] + expert * a.expert_stride[which];
    w.row = (uint32_t)(n & 31);
    w.tile = BASELINE_PREPARED && a.prepared ? base + (n >> 5) * 32 * a.row_bytes : base + n * a.row_bytes;
    return w;
}

/* One finished output: the dot of weight `which`, with its last factors. */
template <class F>
DEVICE float finished(const matmul_args &a, int which, int64_t expert, int64_t n,
                      const activation_row &x) {
    const opreg_side *side = a.side[which] + expert;
    float sum = F::last(wave_tree(F::dot(a, weight_at(a, which, expert, n), x, side)));
    return a.scaled ? sum * side->tensor_scale : sum;
}

template <class F>
DEVICE float output(const matmul_args &a, int64_t expert, int64_t n, const activation_row &x) {
    float value = finished<F>(a, 0, expert, n, x);
    if (a.pair) {
        float up = finished<F>(a, 1, expert, n, x);
        return canonical_glu(a.glu, value, up, a.glu_alpha, a.glu_limit);
    }
    return a.bias != 0 ? value + a.bias[n] : value;
}

/* The entries of group g, clamped to the capacities; none past the last group.  expert is -1 for the
 * group of invalid ids and where a route that is not moe_route's names no expert. */
struct group_range {
    int32_t expert, begin, end;
};

DEVICE group_range group_of(const matmul_args &a, uint32_t g) {
    group_range range = {-1, 0, 0};
    uint32_t groups = a.route.header->groups, entries = a.route.header->entries;
    groups = groups < a.route.cap_groups ? groups : a.route.cap_groups;
    entries = entries < a.route.cap_entries ? entries : a.route.cap_entries;
    if (g < groups) {
        int32_t expert = a.route.group_expert[g];
        int32_t begin = a.route.group_start[g], end = a.route.group_start[g + 1];
        range.expert = expert >= 0 && expert < a.experts ? expert : -1;
        range.begin = begin < 0 ? 0 : begin;
        range.end = end > (int32_t)entries ? (int32_t)entries : end;
    }
    return range;
}

/* Destinations are checked; bad tokens and experts give zeros. */
template <class F> DEVICE void grouped(const matmul_args &a, uint32_t g, int64_t n) {
    group_range range = group_of(a, g);
    for (int32_t e = range.begin; e < range.end; e++) {
        int32_t token = a.route.entry_token[e], dst = a.route.entry_dst[e];
        float value = 0.0f;
        if (dst < 0 || dst >= (int32_t)a.route.cap_entries) {
            continue;
        }
        if (range.expert >= 0 && token >= 0 && token < a.tokens) {
            value = output<F>(a, range.expert, n, activations(a, a.by_dst ? dst : token, F::unit));
        }
        if (lane_index() == 0u) {
            canonical_store(a.y, (int64_t)dst * a.y_stride + n, a.y_dtype, value);
        }
    }
}

template <class F> DEVICE void baseline_matmul(const matmul_args &a) {
    int64_t n = (int64_t)block_x() * (BASELINE_THREADS / WAVE) + wave_index();
    if (n >= a.n) {
        return;
    }
    if (a.route.header != 0) {
        for (uint32_t g = block_y(); g < a.route.cap_groups; g += grid_y()) {
            grouped<F>(a, g, n);
        }
        return;
    }
    for (int64_t row = block_y(); row < a.m; row += grid_y()) {
        float value = output<F>(a, 0, n, activations(a, row, F::unit));
        if (lane_index() == 0u) {
            canonical_store(a.y, row * a.y_stride + n, a.y_dtype, value);
        }
    }
}

#endif /* OPREG_PLUGINS_BASELINE_MATMUL_CUH */
