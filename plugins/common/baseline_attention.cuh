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
#pragma unroll
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
#pragma unroll
    for (uint32_t i = 0; i < ATTENTION_EACH; i++) {
        slot[4 + i * WAVE + lane_index()] = p.o[i];
    }
}

DEVICE void load_part(const float *slot, attention_part *p) {
    p->m = slot[0];
    p->l = slot[1];
    p->any = slot[2] != 0.0f;
#pragma unroll
    for (uint32_t i = 0; i < ATTENTION_EACH; i++) {
        p->o[i] = slot[4 + i * WAVE + lane_index()];
    }
}

#define ATTENTION_SLOT (4 + 32 * ATTENTION_EACH) /* floats                                        */

/* Where a position's key and value begin; page -1 where it is masked. */
struct key_place {
    int32_t page;
    int64_t k, v;
};

DEVICE key_place place_of_key(const attention_args &a, const visible_keys &keys, int32_t position,
                              int32_t kv_head) {
    key_place at = {-1, 0, 0};
    if (position >= keys.begin && position < keys.end) {
        at.page = page_of(a, keys, position);
    }
    if (at.page >= 0) {
        int64_t slot = position % a.block_size;
        at.k = at.page * a.k_block_stride + slot * a.k_slot_stride + kv_head * a.k_head_stride;
        at.v = at.page * a.v_block_stride + slot * a.v_slot_stride + kv_head * a.v_head_stride;
    }
    return at;
}

#define ATTENTION_PIECE 4 /* elements that a lane reads at a time                                 */

/* This lane's elements `from` .. `from` + 3 of one head, widened; those past head_dim repeat the last
 * one. */
DEVICE void load_piece(const void *array, int64_t head, int32_t from, int32_t head_dim,
                       uint32_t dtype, float *out) {
    int32_t each = (head_dim + 31) / 32, last = head_dim - 1;
    int32_t first = computed_here((int32_t)lane_index() * each + from);
#define LOAD_EACH(type)                                                                            \
    _Pragma("unroll") for (int32_t i = 0; i < ATTENTION_PIECE; i++) {                              \
        out[i] = canonical_load(array, head + (first + i < last ? first + i : last), type);        \
    }
    if (dtype == OPREG_F32) {
        LOAD_EACH(OPREG_F32)
    } else if (dtype == OPREG_F16) {
        LOAD_EACH(OPREG_F16)
    } else if (dtype == OPREG_BF16) {
        LOAD_EACH(OPREG_BF16)
    } else {
        LOAD_EACH(OPREG_F8_E4M3)
    }
#undef LOAD_EACH
}

/* One strand of one segment: four steps of eight keys. */
DEVICE void strand(const attention_args &args, const visible_keys &keys, int32_t kv_head,
                   const float *q, int32_t segment, attention_part *p) {
    p->any = 0;
    p->m = 0.0f;
    p->l = 0.0f;
#pragma unroll
    for (int i = 0; i < ATTENTION_EACH; i++) {
        p->o[i] = 0.0f;
    }
    for (int32_t step = 0; step < 4; step++) {
        int32_t first = segment * CANONICAL_SEGMENT + 64 * step + (int32_t)wave_index();
        float m = p->any ? p->m : float_of(0xff800000u), scores = 0.0f;
        uint32_t seen = 0; /* bit j: key j counts; lane j holds its score                          */
        for (int32_t j = 0; j < CANONICAL_STEP; j++) {
            const attention_args &a = parameters_again(args);
            key_place at = place_of_key(a, keys, first + 8 * j, kv_head);
            int32_t each = (a.head_dim + 31) / 32;
            int32_t mine = computed_here(a.head_dim - (int32_t)lane_index() * each);
            mine = mine < each ? mine : each;
            float k_scale = a.k_scale != 0 ? a.k_scale[kv_head] : 1.0f;
            float dot = 0.0f, score, k[ATTENTION_PIECE];
            if (at.page < 0) {
                continue;
            }
#pragma unroll
            for (int32_t from = 0; from < ATTENTION_EACH; from += ATTENTION_PIECE) {
                if (from < each) {
                    load_piece(a.k, at.k, from, a.head_dim, a.kv_dtype, k);
#pragma unroll
                    for (int32_t i = 0; i < ATTENTION_PIECE; i++) {
                        float next = CANONICAL_FMA(q[from + i], k[i], dot);
                        dot = from + i < mine ? next : dot;
                    }
                }
            }
            score = canonical_score(wave_tree_near(dot), k_scale, a.scale, a.softcap);
            m = score > m ? score : m; /* a NaN never is the maximum */
            scores = lane_index() == (uint32_t)j ? score : scores;
            seen |= 1u << j;
        }
        if (seen == 0u) {
            continue;
        }
        if (p->any) {
            float factor = canonical_exp(p->m - m);
            p->l = p->l * factor;
#pragma unroll
            for (int i = 0; i < ATTENTION_EACH; i++) {
                p->o[i] = p->o[i] * factor;
            }
        }
        p->any = 1;
        p->m = m;
        for (int32_t j = 0; j < CANONICAL_STEP; j++) {
            const attention_args &a = parameters_again(args);
            int32_t each = (a.head_dim + 31) / 32;
            key_place at;
            float weight, v[ATTENTION_PIECE];
            if ((seen >> j & 1u) == 0u) {
                continue;
            }
            at = place_of_key(a, keys, first + 8 * j, kv_head);
            weight = canonical_exp(wave_read(scores, j) - m);
            p->l = p->l + weight;
#pragma unroll
            for (int32_t from = 0; from < ATTENTION_EACH; from += ATTENTION_PIECE) {
                if (from < each) { /* what lies past the lane's share is not stored */
                    load_piece(a.v, at.v, from, a.head_dim, a.kv_dtype, v);
#pragma unroll
                    for (int32_t i = 0; i < ATTENTION_PIECE; i++) {
                        p->o[from + i] = CANONICAL_FMA(weight, v[i], p->o[from + i]);
                    }
                }
            }
        }
    }
}

/* Joins the sink, divides and stores one head of one token. */
DEVICE void finish_head(const attention_args &args, int32_t token, int32_t head, int32_t kv_head,
                        attention_part *p) {
    const attention_args &a = parameters_again(args);
    int32_t each = (a.head_dim + 31) / 32;
    int32_t first_element = computed_here((int32_t)lane_index() * each);
    float v_scale = a.v_scale != 0 ? a.v_scale[kv_head] : 1.0f;
    if (p->any && a.sinks != 0) {
        attention_part sink;
        sink.m = a.sinks[head];
        sink.l = 1.0f;
        sink.any = 1;
#pragma unroll
        for (int i = 0; i < ATTENTION_EACH; i++) {
            sink.o[i] = 0.0f;
        }
        merge_parts(p, &sink);
    }
#pragma unroll
    for (int32_t i = 0; i < ATTENTION_EACH; i++) {
        float value = 0.0f;
        if (i >= each || first_element + i >= a.head_dim) {
            continue;
        }
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
KERNEL KERNEL_THREADS(BASELINE_ATTENTION_THREADS) base_attention(const attention_args args) {
    extern __shared__ float slots[];
    float *strands = slots, *stack = slots + CANONICAL_STRANDS * ATTENTION_SLOT;
    int32_t head = (int32_t)block_x(), kv_head = head / (args.q_heads / args.kv_heads);
    int32_t wave = (int32_t)wave_index();
    for (int32_t token = (int32_t)block_y(); token < args.tokens; token += (int32_t)grid_y()) {
        const attention_args &a = parameters_again(args);
        visible_keys keys = keys_of_token(a, token);
        attention_part mine, other;
        float q[ATTENTION_EACH];
#pragma unroll
        for (int32_t from = 0; from < ATTENTION_EACH; from += ATTENTION_PIECE) {
            load_piece(a.q, token * a.q_stride + (int64_t)head * a.head_dim, from, a.head_dim,
                       a.q_dtype, q + from);
        }
        if (thread_index() < a.levels) {
            stack[thread_index() * ATTENTION_SLOT + 2] = 0.0f;
        }
        int32_t last = (keys.end + CANONICAL_SEGMENT - 1) / CANONICAL_SEGMENT;
        for (int32_t s = keys.begin / CANONICAL_SEGMENT; s < last; s++) {
            strand(a, keys, kv_head, q, s, &mine);
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
            finish_head(a, token, head, kv_head, &mine);
        }
        block_barrier();
    }
}

#endif /* OPREG_PLUGINS_BASELINE_ATTENTION_CUH */
