/* SPDX-License-Identifier: MIT
 * baseline_ops.cuh - the baselines of quantize_act, moe_route and moe_combine, and the kernels that
 * pack and unpack prepared weights. */
#ifndef OPREG_PLUGINS_BASELINE_OPS_CUH
#define OPREG_PLUGINS_BASELINE_OPS_CUH

#include "baseline_args.h"
#include "quantize.cuh"

/* One wave a run of 256 values of one row. */
KERNEL KERNEL_THREADS(BASELINE_THREADS) base_quantize(const quantize_args a) {
    int64_t runs = (a.k + 255) / 256;
    int64_t run = (int64_t)block_x() * (BASELINE_THREADS / WAVE) + wave_index();
    int64_t first = run * 256 + lane_index() * 8;
    let_next_launch_start();
    wait_for_launch_ahead();
    if (run >= runs) {
        return;
    }
    for (int64_t row = block_y(); row < a.m; row += grid_y()) {
        float v[8];
        quantized8 out;
        int32_t pair;
#pragma unroll
        for (int i = 0; i < 8; i++) {
            v[i] = first + i < a.k ? canonical_load(a.x, row * a.x_stride + first + i, a.x_dtype)
                                   : 0.0f;
        }
        out = a.block == 32u ? quantize_q8_0(v) : quantize_q8_k(v);
        pair = out.sum + wave_xor(out.sum, 1);
        if (first < a.k) {
            uint32_t *codes = (uint32_t *)(a.codes + row * a.k + first);
            codes[0] = out.low;
            codes[1] = out.high;
            if ((lane_index() & 1u) == 0u) {
                a.sums[(row * a.k + first) / 16] = (int16_t)pair;
            }
            if (lane_index() % (a.block / 8u) == 0u) {
                a.scales[(row * a.k + first) / a.block] = out.scale;
            }
        }
    }
}

/* ---- moe_route: one block ----------------------------------------------------------------------- */

/* Sum of the values of all lower threads of the block; *total is the whole sum. */
DEVICE uint32_t block_scan(uint32_t value, uint32_t *shared, uint32_t *total) {
    uint32_t t = thread_index(), sum = value;
    block_barrier();
    shared[t] = value;
    block_barrier();
    for (uint32_t s = 1; s < BASELINE_ROUTE_THREADS; s <<= 1) {
        uint32_t lower = t >= s ? shared[t - s] : 0u;
        block_barrier();
        sum += lower;
        shared[t] = sum;
        block_barrier();
    }
    *total = shared[BASELINE_ROUTE_THREADS - 1];
    return sum - value;
}

/* The expert of entry i; `experts` where the id is invalid. */
DEVICE uint32_t entry_key(const route_args &a, uint32_t i) {
    uint32_t k = (uint32_t)a.top_k;
    int32_t id = a.ids[(int64_t)(i / k) * a.ids_stride + i % k];
    return id >= 0 && id < a.experts ? (uint32_t)id : (uint32_t)a.experts;
}

KERNEL KERNEL_THREADS(BASELINE_ROUTE_THREADS) base_route(const route_args a) {
    __shared__ uint32_t shared[BASELINE_ROUTE_THREADS];
    uint32_t t = thread_index(), experts = (uint32_t)a.experts, entries = a.cap_entries;
    uint32_t *first = a.scratch, *count = first + experts + 1, *group = count + experts + 1;
    uint32_t groups = 0, started = 0, total;
    for (uint32_t w = t; w < a.words; w += BASELINE_ROUTE_THREADS) {
        ((uint32_t *)a.header)[w] = 0u; /* padding and unused capacity too */
    }
    for (uint32_t e = t; e <= experts; e += BASELINE_ROUTE_THREADS) {
        first[e] = 0xffffffffu;
        count[e] = 0u;
    }
    block_barrier();
    for (uint32_t i = t; i < entries; i += BASELINE_ROUTE_THREADS) {
        uint32_t key = entry_key(a, i);
        atomic_min(&first[key], i);
        atomic_add(&count[key], 1u);
    }
    block_barrier();
    /* groups by first routed entry */
    for (uint32_t base = 0; base < entries; base += BASELINE_ROUTE_THREADS) {
        uint32_t i = base + t, key = i < entries ? entry_key(a, i) : experts;
        uint32_t opens = i < entries && key != experts && first[key] == i;
        uint32_t g = groups + block_scan(opens, shared, &total);
        if (opens) {
            group[key] = g;
            a.group_expert[g] = (int32_t)key;
        }
        groups += total;
    }
    if (count[experts] != 0u) {
        if (t == 0u) {
            group[experts] = groups;
            a.group_expert[groups] = -1;
        }
        groups++;
    }
    block_barrier();
    for (uint32_t base = 0; base < a.cap_groups; base += BASELINE_ROUTE_THREADS) {
        uint32_t g = base + t, size = 0, start;
        if (g < groups) {
            int32_t expert = a.group_expert[g];
            size = count[expert < 0 ? experts : (uint32_t)expert];
        }
        start = started + block_scan(size, shared, &total);
        if (g < groups) {
            a.group_start[g] = (int32_t)start;
        }
        started += total;
    }
    if (t == 0u) {
        a.group_start[groups] = (int32_t)entries;
        a.header->groups = groups;
        a.header->entries = entries;
        a.header->cap_groups = a.cap_groups;
        a.header->cap_entries = a.cap_entries;
    }
    block_barrier();
    /* one wave a group keeps the order inside it */
    for (uint32_t g = wave_index(); g < groups; g += BASELINE_ROUTE_THREADS / WAVE) {
        int32_t expert = a.group_expert[g];
        uint32_t key = expert < 0 ? experts : (uint32_t)expert;
        uint32_t next = (uint32_t)a.group_start[g];
        for (uint32_t base = 0; base < entries; base += WAVE) {
            uint32_t i = base + lane_index();
            bool mine = i < entries && entry_key(a, i) == key;
            uint32_t mask = wave_ballot(mine);
            if (mine) {
                uint32_t p = next + (uint32_t)count_bits(mask & ((1u << lane_index()) - 1u));
                int64_t token = i / (uint32_t)a.top_k, slot = i % (uint32_t)a.top_k;
                float weight = 1.0f;
                if (a.weights != 0) {
                    weight = a.weights[token * a.weights_stride + slot];
                }
                a.entry_token[p] = a.pairs ? a.row_map[i] : (int32_t)token;
                a.entry_dst[p] = (int32_t)i;
                a.entry_weight[p] = expert < 0 ? 0.0f : weight;
            }
            next += (uint32_t)count_bits(mask);
        }
    }
}

/* ---- moe_combine ---------------------------------------------------------------------------------- */

KERNEL KERNEL_THREADS(BASELINE_THREADS) base_combine(const combine_args a) {
    int64_t n = (int64_t)block_x() * BASELINE_THREADS + thread_index();
    if (n >= a.n) {
        return;
    }
    for (int64_t t = block_y(); t < a.tokens; t += grid_y()) {
        float sum = 0.0f;
        for (int32_t slot = 0; slot < a.top_k; slot++) {
            float row = canonical_load(a.rows, (t * a.top_k + slot) * a.x_stride + n, a.x_dtype);
            sum = sum + a.weights[t * a.weights_stride + slot] * row;
        }
        canonical_store(a.y, t * a.y_stride + n, a.y_dtype, sum);
    }
}

/* ---- prepared weights ------------------------------------------------------------------------------ */

/* One thread a prepared byte; rows past n of the last tile are written with zeros, and so are blocks
 * past the end of a row in its last group. */
KERNEL KERNEL_THREADS(BASELINE_THREADS) base_pack(const pack_args a) {
    uint32_t group_bytes = a.shape.block_bytes * a.shape.blocks;
    int64_t rows = (a.n + 31) / 32 * 32, row_bytes = a.groups * group_bytes;
    int64_t total = a.experts * rows * row_bytes, step = (int64_t)grid_x() * BASELINE_THREADS;
    for (int64_t i = (int64_t)block_x() * BASELINE_THREADS + thread_index(); i < total; i += step) {
        int64_t row = i / row_bytes % rows, expert = i / row_bytes / rows, in_row = i % row_bytes;
        int64_t group = in_row / group_bytes;
        uint32_t in_group = (uint32_t)(in_row % group_bytes);
        uint32_t p = prepared_position(&a.shape, in_group / a.shape.block_bytes,
                                       in_group % a.shape.block_bytes);
        int64_t packed = expert * rows * row_bytes + (row / 32 * a.groups + group) * 32 * group_bytes +
                         prepared_offset(group_bytes, (uint32_t)(row & 31), p);
        int64_t stored_bytes = a.blocks * a.shape.block_bytes;
        int64_t stored = expert * a.stored_stride + row * stored_bytes + in_row;
        bool there = row < a.n && in_row < stored_bytes;
        if (a.unpack == 0u) {
            a.prepared[packed] = there ? a.stored[stored] : (uint8_t)0;
        } else if (there) {
            a.stored[stored] = a.prepared[packed];
        }
    }
}

#endif /* OPREG_PLUGINS_BASELINE_OPS_CUH */
