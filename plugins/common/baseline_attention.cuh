/* SPDX-License-Identifier: MIT
 * baseline_attention.cuh - the baseline of paged_attn_decode: one block of eight waves computes one
 * head of one token, wave r is strand r. */
#ifndef OPREG_PLUGINS_BASELINE_ATTENTION_CUH
#define OPREG_PLUGINS_BASELINE_ATTENTION_CUH

#include "attention.cuh"

#define ATTENTION_EACH 16 /* elements of a head that one lane can hold: head_dim 512             */

/* Running maximum, sum and output of one part; any is 0 while it has no key.  Lane l holds elements
 * l * each and up. */
struct attention_part {
    float m, l, o[ATTENTION_EACH];
    int any;
};

/* a = a (lower positions) merged with b. */
DEVICE void merge_parts(attention_part *a, const attention_part *b) {
    float fa, fb, m;
    if (!b->any) {
        return;
    }
    if (!a->any) {
        *a = *b;
        return;
    }
    m = canonical_merge(a->m, b->m, &fa, &fb);
    a->m = m;
    a->l = a->l * fa + b->l * fb;
    for (int i = 0; i < ATTENTION_EACH; i++) {
        a->o[i] = a->o[i] * fa + b->o[i] * fb;
    }
}

/* A slot of shared memory: m, l, any, pad, then the elements lane by lane. */
DEVICE void store_part(float *slot, const attention_part &p) {
    if (lane_index() == 0u) {
        slot[0] = p.m;
        slot[1] = p.l;
        slot[2] = p.any ? 1.0f : 0.0f;
    }
    for (uint32_t i = 0; i < ATTENTION_EACH; i++) {
        slot[4 + i * WAVE + lane_index()] = p.o[i];
    }
}

DEVICE void load_part(const float *slot, attention_part *p) {
    p->m = slot[0];
    p->l = slot[1];
    p->any = slot[2] != 0.0f;
    for (uint32_t i = 0; i < ATTENTION_EACH; i++) {
        p->o[i] = slot[4 + i * WAVE + lane_index()];
    }
}

#define ATTENTION_SLOT (4 + 32 * ATTENTION_EACH) /* floats                                        */

/* One strand of one segment: four steps of eight keys. */
DEVICE void strand(const attention_args &a, const visible_keys &keys, int32_t kv_head,
                   const float *q, int32_t each, int32_t segment, attention_part *p) {
    float k_scale = a.k_scale != 0 ? a.k_scale[kv_head] : 1.0f;
    int32_t first_element = (int32_t)lane_index() * each;
    p->any = 0;
    p->m = 0.0f;
    p->l = 0.0f;
    for (int i = 0; i < ATTENTION_EACH; i++) {
        p->o[i] = 0.0f;
    }
    for (int32_t step = 0; step < 4; step++) {
        float score[CANONICAL_STEP], factor;
        float m = p->any ? p->m : float_of(0xff800000u);
        int64_t value_at[CANONICAL_STEP];
        bool seen[CANONICAL_STEP], some = false;
#pragma unroll
        for (int32_t j = 0; j < CANONICAL_STEP; j++) {
            int64_t position = (int64_t)segment * CANONICAL_SEGMENT + 64 * step + 8 * j +
                               wave_index();
            int32_t page = -1;
            float dot = 0.0f;
            if (position >= keys.begin && position < keys.end) {
                page = page_of(a, keys, (int32_t)position);
            }
            seen[j] = page >= 0;
            if (!seen[j]) {
                continue;
            }
            int64_t slot = position % a.block_size;
            int64_t k_at = page * a.k_block_stride + slot * a.k_slot_stride +
                           kv_head * a.k_head_stride;
            value_at[j] = page * a.v_block_stride + slot * a.v_slot_stride +
                          kv_head * a.v_head_stride;
            for (int32_t i = 0; i < each && first_element + i < a.head_dim; i++) {
                dot = CANONICAL_FMA(q[i],
                                    canonical_load(a.k, k_at + first_element + i, a.kv_dtype), dot);
            }
            score[j] = canonical_score(wave_tree_near(dot), k_scale, a.scale, a.softcap);
            m = score[j] > m ? score[j] : m; /* a NaN never is the maximum */
            some = true;
        }
        if (!some) {
            continue;
        }
        if (p->any) {
            factor = canonical_exp(p->m - m);
            p->l = p->l * factor;
            for (int i = 0; i < ATTENTION_EACH; i++) {
                p->o[i] = p->o[i] * factor;
            }
        }
        p->any = 1;
        p->m = m;
#pragma unroll
        for (int32_t j = 0; j < CANONICAL_STEP; j++) {
            float weight;
            if (!seen[j]) {
                continue;
            }
            weight = canonical_exp(score[j] - m);
            p->l = p->l + weight;
            for (int32_t i = 0; i < each && first_element + i < a.head_dim; i++) {
                float v = canonical_load(a.v, value_at[j] + first_element + i, a.kv_dtype);
                p->o[i] = CANONICAL_FMA(weight, v, p->o[i]);
            }
        }
    }
}

/* Joins the sink, divides and stores one head of one token. */
DEVICE void finish_head(const attention_args &a, int32_t token, int32_t head, int32_t kv_head,
                        int32_t each, attention_part *p) {
    int32_t first_element = (int32_t)lane_index() * each;
    float v_scale = a.v_scale != 0 ? a.v_scale[kv_head] : 1.0f;
    if (p->any && a.sinks != 0) {
        attention_part sink;
        sink.m = a.sinks[head];
        sink.l = 1.0f;
        sink.any = 1;
        for (int i = 0; i < ATTENTION_EACH; i++) {
            sink.o[i] = 0.0f;
        }
        merge_parts(p, &sink);
    }
    for (int32_t i = 0; i < each && first_element + i < a.head_dim; i++) {
        float value = 0.0f;
        if (p->any) {
            value = CANONICAL_DIV(p->o[i], p->l);
            value = a.v_scale != 0 ? value * v_scale : value;
        }
        canonical_store(a.out,
                        token * a.out_stride + (int64_t)head * a.head_dim + first_element + i,
                        a.out_dtype, value);
    }
    if (a.lse != 0 && lane_index() == 0u) {
        a.lse[(int64_t)token * a.q_heads + head] =
            p->any ? p->m + canonical_log(p->l) : float_of(0xff800000u);
    }
}

/* Grid: (q_heads, tokens).  Shared: 8 strand slots, then `levels` slots of the segment tree. */
KERNEL KERNEL_THREADS(BASELINE_ATTENTION_THREADS) base_attention(const attention_args a) {
    extern __shared__ float slots[];
    float *strands = slots, *stack = slots + CANONICAL_STRANDS * ATTENTION_SLOT;
    int32_t head = (int32_t)block_x(), kv_head = head / (a.q_heads / a.kv_heads);
    int32_t each = (a.head_dim + 31) / 32, wave = (int32_t)wave_index();
    for (int32_t token = (int32_t)block_y(); token < a.tokens; token += (int32_t)grid_y()) {
        visible_keys keys = keys_of_token(a, token);
        attention_part mine, other;
        float q[ATTENTION_EACH];
        for (int32_t i = 0; i < ATTENTION_EACH; i++) {
            int32_t e = (int32_t)lane_index() * each + i;
            q[i] = i < each && e < a.head_dim
                       ? canonical_load(a.q, token * a.q_stride + (int64_t)head * a.head_dim + e,
                                        a.q_dtype)
                       : 0.0f;
        }
        if (thread_index() < a.levels) {
            stack[thread_index() * ATTENTION_SLOT + 2] = 0.0f;
        }
        int32_t last = (keys.end + CANONICAL_SEGMENT - 1) / CANONICAL_SEGMENT;
        for (int32_t s = keys.begin / CANONICAL_SEGMENT; s < last; s++) {
            strand(a, keys, kv_head, q, each, s, &mine);
            for (int32_t distance = 1; distance < CANONICAL_STRANDS; distance <<= 1) {
                block_barrier();
                if ((wave & (2 * distance - 1)) == distance) {
                    store_part(strands + wave * ATTENTION_SLOT, mine);
                }
                block_barrier();
                if ((wave & (2 * distance - 1)) == 0) {
                    load_part(strands + (wave + distance) * ATTENTION_SLOT, &other);
                    merge_parts(&mine, &other);
                }
            }
            if (wave == 0) { /* as a binary counter: full nodes merge upwards */
                int32_t level = 0;
                for (; (s >> level) & 1; level++) {
                    load_part(stack + level * ATTENTION_SLOT, &other);
                    merge_parts(&other, &mine);
                    mine = other;
                    wave_barrier();
                    if (lane_index() == 0u) {
                        stack[level * ATTENTION_SLOT + 2] = 0.0f;
                    }
                }
                store_part(stack + level * ATTENTION_SLOT, mine);
                wave_barrier();
            }
        }
        block_barrier();
        if (wave == 0) {
            mine.any = 0;
            for (uint32_t level = 0; level < a.levels; level++) {
                load_part(stack + level * ATTENTION_SLOT, &other);
                merge_parts(&other, &mine);
                mine = other;
            }
            finish_head(a, token, head, kv_head, each, &mine);
        }
        block_barrier();
    }
}

#endif /* OPREG_PLUGINS_BASELINE_ATTENTION_CUH */
