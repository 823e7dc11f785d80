/* SPDX-License-Identifier: MIT
 * steps.cuh - the steps between operators on a device: the arithmetic of steps.h, shared by lanes. */
#ifndef OPREG_PLUGINS_STEPS_CUH
#define OPREG_PLUGINS_STEPS_CUH

#include "baseline_formats.cuh"
#include "steps.h"
#include "steps_args.h"

/* ---- rows of a table ---------------------------------------------------------------------------- */

DEVICE float table_value(uint32_t format, const uint8_t *row, int64_t k, const opreg_side *side) {
#define STEP_SCALE_SCALE * side->tensor_scale
#define STEP_SCALE_NONE
#define STEP_SCALE_GQH
#define STEP_SCALE_MIX4
#define STEP_SCALE_MIX8
#define OPREG_FORMAT(NAME, name, ggml, values, bytes, act, unit, kind, final, with_side)           \
    case OPREG_##NAME:                                                                             \
        return name##_value(row + k / values * bytes, (int)(k % values), side)                     \
            STEP_SCALE_##with_side;
    switch (format) {
#include "formats/formats.inc"
    default: return 0.0f;
    }
#undef OPREG_FORMAT
#undef STEP_SCALE_SCALE
#undef STEP_SCALE_NONE
#undef STEP_SCALE_GQH
#undef STEP_SCALE_MIX4
#undef STEP_SCALE_MIX8
}

/* Grid (rows, runs of values). */
KERNEL KERNEL_THREADS(STEPS_THREADS) step_gather_rows(const step_gather_args a) {
    int64_t k = (int64_t)block_y() * STEPS_THREADS + thread_index();
    int32_t id = a.ids[block_x()];
    float v = 0.0f;
    if (k >= a.k) {
        return;
    }
    if (id >= 0 && id < a.n) {
        v = table_value(a.format, a.data + id * a.row_bytes, k, a.side) * a.scale;
    }
    a.y[(int64_t)block_x() * a.k + k] = v;
}

/* ---- norms -------------------------------------------------------------------------------------- */

/* The factor of a row, by the block's first wave, for all of the block. */
DEVICE float block_norm_factor(const float *x, int64_t n, float epsilon) {
    __shared__ float factor;
    block_barrier(); /* x is written, and the last factor read */
    if (wave_index() == 0) {
        float sum = wave_tree(step_squares(x, n, (int)lane_index()));
        if (lane_index() == 0) {
            factor = step_norm_factor(sum, n, epsilon);
        }
    }
    block_barrier();
    return factor;
}

/* A block a row. */
KERNEL KERNEL_THREADS(STEPS_THREADS) step_norm_rows(const opreg_step_norm a) {
    int64_t r = block_x(), from = a.index != nullptr ? a.index[r] : r;
    bool there = from >= 0 && from < a.x_rows;
    float *x = a.x + (there ? from : 0) * a.n, *y = a.y + r * a.n, factor = 0.0f;
    if (a.delta != nullptr) {
        const float *delta = a.delta + r * a.n;
        if (a.delta_weight != nullptr) {
            factor = block_norm_factor(delta, a.n, a.epsilon);
        }
        for (int64_t k = thread_index(); k < a.n; k += STEPS_THREADS) {
            x[k] = x[k] + (a.delta_weight != nullptr
                               ? step_norm(delta[k], factor, a.delta_weight[k])
                               : delta[k]);
        }
    }
    if (a.weight == nullptr) {
        return;
    }
    if (there) {
        factor = block_norm_factor(x, a.n, a.epsilon);
    }
    for (int64_t k = thread_index(); k < a.n; k += STEPS_THREADS) {
        y[k] = there ? step_norm(x[k], factor, a.weight[k]) : 0.0f;
    }
}

/* ---- heads -------------------------------------------------------------------------------------- */

DEVICE void turn_head(const opreg_step_heads &a, float *head, const float *weight, bool turned,
                      int64_t angles) {
    int lane = (int)lane_index();
    if (weight != nullptr) {
        float sum = wave_tree(step_squares(head, a.head_dim, lane));
        float factor = step_norm_factor(sum, a.head_dim, a.epsilon);
        for (int i = lane; i < a.head_dim; i += (int)WAVE) {
            head[i] = step_norm(head[i], factor, weight[i]);
        }
        wave_barrier();
    }
    if (turned) {
        step_rotate(head, a.pairs, a.halves, a.cosines + angles, a.sines + angles, lane, WAVE);
        wave_barrier();
    }
}

/* Grid (tokens, blocks of heads): the heads of q, then those of k. */
KERNEL KERNEL_THREADS(STEPS_HEADS_THREADS) step_turn_heads(const opreg_step_heads a) {
    int64_t t = block_x(), place = a.places[t];
    int32_t h = (int32_t)(block_y() * (STEPS_HEADS_THREADS / WAVE) + wave_index());
    int32_t position = a.positions[t], lane = (int32_t)lane_index();
    bool known = position >= 0 && position < a.positions_most;
    int64_t angles = known ? (int64_t)position * a.pairs : 0;
    if (h < a.q_heads) {
        turn_head(a, a.q + (t * a.q_heads + h) * a.head_dim, a.q_weight, known, angles);
        return;
    }
    h -= a.q_heads;
    if (h < a.kv_heads) {
        int64_t head = (t * a.kv_heads + h) * a.head_dim, at = place + h * a.head_stride;
        turn_head(a, a.k + head, a.k_weight, known, angles);
        if (known && step_fits(place, a.cache_elements, a.head_stride, a.kv_heads, a.head_dim)) {
            step_store(a.k + head, a.head_dim, a.k_cache, at, a.kv_dtype, lane, WAVE);
            step_store(a.v + head, a.head_dim, a.v_cache, at, a.kv_dtype, lane, WAVE);
        }
    }
}

/* ---- choices ------------------------------------------------------------------------------------ */

/* Index of the first in order of the wave; each lane brings its best. */
DEVICE uint32_t wave_first(uint32_t order, uint32_t index) {
    for (int s = 16; s > 0; s >>= 1) {
        uint32_t other = wave_xor(order, s), at = wave_xor(index, s);
        if (step_before(other, at, order, index)) {
            order = other;
            index = at;
        }
    }
    return index;
}

/* A wave a token. */
KERNEL KERNEL_THREADS(STEPS_THREADS) step_choose_experts(const opreg_step_experts a) {
    int64_t t = (int64_t)block_x() * (STEPS_THREADS / WAVE) + wave_index();
    int lane = (int)lane_index(), n = a.experts;
    float *p = a.logits + t * n, *weights = a.weights + t * a.top_k, max, sum;
    if (t >= a.tokens) {
        return;
    }
    max = step_softmax_max(p, n, lane, WAVE);
    for (int s = 16; s > 0; s >>= 1) {
        float other = wave_xor(max, s);
        max = other > max ? other : max;
    }
    sum = wave_tree(step_softmax_exp(p, n, max, lane));
    for (int i = lane; i < n; i += (int)WAVE) {
        p[i] = CANONICAL_DIV(p[i], sum);
    }
    sum = 0.0f;
    for (int slot = 0; slot < a.top_k; slot++) {
        uint32_t order = 0, best = 0x7fffffffu;
        float taken;
        for (int i = lane; i < n; i += (int)WAVE) {
            uint32_t other = step_expert_order(p[i]);
            if (step_before(other, i, order, best)) {
                order = other;
                best = (uint32_t)i;
            }
        }
        best = wave_first(order, best);
        wave_barrier();
        taken = p[best];
        wave_barrier();
        if (lane == (int)(best % WAVE)) {
            p[best] = -1.0f;
        }
        if (lane == 0) {
            a.ids[t * a.top_k + slot] = (int32_t)best;
            weights[slot] = taken;
        }
        sum = sum + taken;
    }
    wave_barrier();
    sum = step_weight_sum(sum);
    for (int slot = lane; slot < a.top_k; slot += (int)WAVE) {
        weights[slot] = CANONICAL_DIV(weights[slot], sum);
    }
}

/* A block a row. */
KERNEL KERNEL_THREADS(STEPS_ARGMAX_THREADS) step_argmax_rows(const opreg_step_argmax a) {
    __shared__ uint32_t orders[WAVE], indices[WAVE];
    const float *x = a.x + (int64_t)block_x() * a.n;
    uint32_t order = 0, index = 0x7fffffffu;
    for (int64_t i = thread_index(); i < a.n; i += STEPS_ARGMAX_THREADS) {
        uint32_t other = step_order(x[i]);
        if (step_before(other, i, order, index)) {
            order = other;
            index = (uint32_t)i;
        }
    }
    for (int round = 0; round < 2; round++) {
        uint32_t first = wave_first(order, index), owner;
        owner = wave_ballot(index == first);
        order = wave_read(order, first_bit(owner));
        index = first;
        if (round == 0) {
            if (lane_index() == 0) {
                orders[wave_index()] = order;
                indices[wave_index()] = index;
            }
            block_barrier();
            order = orders[lane_index()];
            index = indices[lane_index()];
        }
    }
    if (thread_index() == 0) {
        a.ids[block_x()] = (int32_t)index;
    }
}

/* ---- values ------------------------------------------------------------------------------------- */

KERNEL KERNEL_THREADS(STEPS_THREADS) step_glu_values(const opreg_step_glu a) {
    int64_t i = (int64_t)block_x() * STEPS_THREADS + thread_index();
    if (i < a.count) {
        a.y[i] = canonical_glu(a.glu, a.gate[i], a.up[i], a.glu_alpha, a.glu_limit);
    }
}

KERNEL KERNEL_THREADS(STEPS_THREADS) step_cap_values(const opreg_step_cap a) {
    int64_t i = (int64_t)block_x() * STEPS_THREADS + thread_index();
    if (i < a.count) {
        a.x[i] = step_cap(a.x[i], a.cap);
    }
}

/* ---- the difference of two results -------------------------------------------------------------- */

struct compared {
    uint64_t checked, wrong;
    int64_t first; /* wrong element; 2^63 - 1: none                                                 */
    double largest, error, energy, store;
};

DEVICE void add_compared(compared &to, const compared &from) {
    to.checked += from.checked;
    to.wrong += from.wrong;
    to.first = from.first < to.first ? from.first : to.first;
    to.largest = from.largest > to.largest ? from.largest : to.largest;
    to.error += from.error;
    to.energy += from.energy;
    to.store += from.store;
}

/* A block a part: neighbouring elements.  Sums in one order, so that a replay prints the same. */
KERNEL KERNEL_THREADS(STEPS_THREADS) step_compare_rows(const opreg_step_compare a) {
    __shared__ compared shared[STEPS_THREADS];
    int64_t all = a.rows * a.length;
    int64_t share = (all + OPREG_DIFFERENCE_PARTS - 1) / OPREG_DIFFERENCE_PARTS;
    int64_t from = block_x() * share, until = from + share < all ? from + share : all;
    int64_t first = 0x7fffffffffffffff;
    uint32_t t = thread_index();
    opreg_difference mine = {};
    for (int64_t e = from + t; e < until; e += STEPS_THREADS) {
        int64_t at = e / a.length * a.stride + e % a.length;
        if (step_compare_element(&mine, a.dtype, a.element, a.got, a.want, at) && e < first) {
            first = e;
        }
    }
    shared[t] = {mine.checked, mine.wrong,  first,     mine.largest,
                 mine.error,   mine.energy, mine.store};
    for (uint32_t s = STEPS_THREADS / 2; s > 0; s >>= 1) {
        block_barrier();
        if (t < s) {
            add_compared(shared[t], shared[t + s]);
        }
    }
    if (t == 0) {
        opreg_difference *part = &a.parts[block_x()];
        const compared &sum = shared[0];
        if (sum.wrong > 0 && part->wrong == 0) {
            part->output = a.output;
            part->row = sum.first / a.length;
            part->column = sum.first % a.length;
            part->got = step_bits_at(a.got, part->row * a.stride + part->column, a.element);
            part->want = step_bits_at(a.want, part->row * a.stride + part->column, a.element);
        }
        part->checked += sum.checked;
        part->wrong += sum.wrong;
        part->largest = sum.largest > part->largest ? sum.largest : part->largest;
        part->error += sum.error;
        part->energy += sum.energy;
        part->store += sum.store;
    }
}

#endif /* OPREG_PLUGINS_STEPS_CUH */
