/* SPDX-License-Identifier: MIT
 * attention_case.h - cases of paged_attn_decode for the CPU backend's tests, and their results in the
 * order of docs/numerics.md, said again by hand. */
#ifndef OPREG_ATTENTION_CASE_H
#define OPREG_ATTENTION_CASE_H

#include "cpu_harness.h"

static const uint32_t cache_dtypes[] = {OPREG_BF16, OPREG_F16, OPREG_F32, OPREG_F8_E4M3};

typedef struct attn_case {
    opreg_paged_attn_decode problem;
    void *q, *k, *v, *out;
    float *lse, *sinks, *k_scale, *v_scale;
    int32_t *table, *lens, *indptr, *q_indptr; /* as the problem's flags want them */
    int64_t cache_elements;
} attn_case;

static inline void fill_elements(void *array, int64_t count, uint32_t dtype) {
    for (int64_t i = 0; i < count; i++) {
        if (dtype == OPREG_F8_E4M3) {
            uint8_t byte = (uint8_t)random_bits();
            ((uint8_t *)array)[i] = (byte & 0x7f) == 0x7f || (byte & 0x78) > 0x48 ? 0x35 : byte;
        } else {
            canonical_store(array, i, dtype, random_gaussian());
        }
    }
}

typedef struct attn_shape {
    int32_t seqs, q_heads, kv_heads, d, block_size, blocks_per_row;
    uint32_t q_dtype, kv_dtype, out_dtype;
    int hnd;
} attn_shape;

/* Dense table, one token a request, every page used once, in a random order. */
static inline attn_case attn_make(const attn_shape *s) {
    attn_case c = {.problem = {.struct_size = sizeof c.problem,
                               .q_dtype = s->q_dtype,
                               .out_dtype = s->out_dtype,
                               .kv_dtype = s->kv_dtype,
                               .seqs = s->seqs,
                               .tokens = s->seqs,
                               .max_q = 1,
                               .q_heads = s->q_heads,
                               .kv_heads = s->kv_heads,
                               .head_dim = s->d,
                               .block_size = s->block_size,
                               .table_stride = s->blocks_per_row,
                               .scale = 1.0f / sqrtf((float)s->d)}};
    opreg_paged_attn_decode *p = &c.problem;
    int64_t slot = (int64_t)s->kv_heads * s->d, head = s->d, tokens = (int64_t)s->seqs * 8;
    p->num_blocks = s->seqs * s->blocks_per_row + 2;
    p->max_seq_len = s->blocks_per_row * s->block_size;
    p->q_stride = (int64_t)s->q_heads * s->d + 5;
    p->out_stride = (int64_t)s->q_heads * s->d + 3;
    if (s->hnd) {
        slot = s->d;
        head = (int64_t)s->block_size * s->d;
    }
    p->k_slot_stride = p->v_slot_stride = slot;
    p->k_head_stride = p->v_head_stride = head;
    p->k_block_stride = (int64_t)s->kv_heads * s->block_size * s->d;
    p->v_block_stride = p->k_block_stride + 8;
    c.cache_elements = p->num_blocks * p->v_block_stride;
    c.q = malloc((size_t)(tokens * p->q_stride) * 4);
    c.k = malloc((size_t)c.cache_elements * 4);
    c.v = malloc((size_t)c.cache_elements * 4);
    c.out = malloc((size_t)(tokens * p->out_stride) * 4);
    c.lse = malloc((size_t)(tokens * s->q_heads) * 4);
    c.sinks = malloc((size_t)s->q_heads * 4);
    c.k_scale = malloc((size_t)s->kv_heads * 4);
    c.v_scale = malloc((size_t)s->kv_heads * 4);
    c.table = malloc((size_t)(s->seqs * s->blocks_per_row + 1) * 4);
    c.lens = malloc((size_t)s->seqs * 4);
    c.indptr = calloc((size_t)s->seqs + 1, 4);
    c.q_indptr = calloc((size_t)s->seqs + 1, 4);
    fill_elements(c.q, tokens * p->q_stride, p->q_dtype);
    fill_elements(c.k, c.cache_elements, p->kv_dtype);
    fill_elements(c.v, c.cache_elements, p->kv_dtype);
    for (int32_t i = 0; i < s->q_heads; i++) {
        c.sinks[i] = random_gaussian();
    }
    for (int32_t i = 0; i < s->kv_heads; i++) {
        c.k_scale[i] = 0.3f + 0.1f * (float)i;
        c.v_scale[i] = 1.7f - 0.2f * (float)i;
    }
    for (int32_t i = 0; i < s->seqs * s->blocks_per_row; i++) {
        int32_t other = (int32_t)random_below(i + 1);
        c.table[i] = c.table[other];
        c.table[other] = i + 1;
    }
    for (int32_t i = 0; i < s->seqs; i++) {
        c.lens[i] = (int32_t)random_below(p->max_seq_len) + 1;
    }
    return c;
}

static inline void attn_free(attn_case *c) {
    void *all[] = {c->q,       c->k,       c->v,     c->out,  c->lse,    c->sinks,
                   c->k_scale, c->v_scale, c->table, c->lens, c->indptr, c->q_indptr};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        free(all[i]);
    }
}

static inline size_t out_bytes(const attn_case *c) {
    return (size_t)(c->problem.tokens * c->problem.out_stride) * element_size(c->problem.out_dtype);
}

static inline size_t lse_bytes(const attn_case *c) {
    return (size_t)(c->problem.tokens * c->problem.q_heads) * 4;
}

static inline void attn_run(attn_case *c) {
    opreg_buf bufs[OPREG_ATTN_BUFS] = {
        {c->out, 0}, {c->q, 0}, {c->k, 0}, {c->v, 0}, {c->table, 0}, {c->lens, 0},
        {NULL, 0},   {NULL, 0}, {NULL, 0}, {NULL, 0}, {NULL, 0},     {NULL, 0},
    };
    uint32_t flags = c->problem.flags;
    if ((flags & OPREG_PF_CSR) != 0) {
        bufs[OPREG_ATTN_INDPTR].ptr = c->indptr;
    }
    if ((flags & OPREG_PF_Q_INDPTR) != 0) {
        bufs[OPREG_ATTN_Q_INDPTR].ptr = c->q_indptr;
    }
    if ((flags & OPREG_PF_SINKS) != 0) {
        bufs[OPREG_ATTN_SINKS].ptr = c->sinks;
    }
    if ((flags & OPREG_PF_LSE) != 0) {
        bufs[OPREG_ATTN_LSE].ptr = c->lse;
    }
    if (c->problem.kv_dtype == OPREG_F8_E4M3) {
        bufs[OPREG_ATTN_K_SCALE].ptr = c->k_scale;
        bufs[OPREG_ATTN_V_SCALE].ptr = c->v_scale;
    }
    memset(c->out, 0xff, out_bytes(c));
    memset(c->lse, 0xff, lse_bytes(c));
    run_baseline(OPREG_OP_PAGED_ATTN_DECODE, &c->problem, bufs, OPREG_ATTN_BUFS, NULL, 0);
}

/* Turns a dense case into the CSR one with the same pages. */
static inline void to_csr(attn_case *c) {
    opreg_paged_attn_decode *p = &c->problem;
    int32_t *indices = malloc((size_t)(p->seqs * p->table_stride + 1) * 4), used = 0;
    for (int32_t r = 0; r < p->seqs; r++) {
        int32_t pages = (c->lens[r] + p->block_size - 1) / p->block_size;
        memcpy(indices + used, c->table + r * p->table_stride, (size_t)pages * 4);
        used += pages;
        c->indptr[r + 1] = used;
        c->lens[r] -= pages > 0 ? (pages - 1) * p->block_size : 0;
    }
    free(c->table);
    c->table = indices;
    p->table_stride = used;
    p->flags |= OPREG_PF_CSR;
}

static inline attn_case plain_case(int32_t d, int32_t blocks_per_row) {
    const attn_shape s = {.seqs = 3,
                          .q_heads = 4,
                          .kv_heads = 2,
                          .d = d,
                          .block_size = 16,
                          .blocks_per_row = blocks_per_row,
                          .q_dtype = OPREG_F32,
                          .kv_dtype = OPREG_F16,
                          .out_dtype = OPREG_F32};
    attn_case c = attn_make(&s);
    c.problem.flags = OPREG_PF_LSE;
    return c;
}

/* ---- the order, said again ----------------------------------------------------------------------
 */

typedef struct hand {
    const attn_case *c;
    int64_t token, head;
    const int32_t *pages;
    int64_t begin, end; /* visible positions */
} hand;

typedef struct hand_part {
    int used;
    float m, l, o[512];
} hand_part;

static inline int64_t hand_page(const hand *h, int64_t position) {
    int32_t page = h->pages[position / h->c->problem.block_size];
    return page >= 0 && page < h->c->problem.num_blocks ? page : -1;
}

static inline int64_t kv_head_of(const hand *h) {
    return h->head * h->c->problem.kv_heads / h->c->problem.q_heads;
}

static inline float hand_k(const hand *h, int64_t position, int64_t e) {
    const opreg_paged_attn_decode *p = &h->c->problem;
    int64_t at = hand_page(h, position) * p->k_block_stride +
                 position % p->block_size * p->k_slot_stride + kv_head_of(h) * p->k_head_stride;
    return canonical_load(h->c->k, at + e, p->kv_dtype);
}

static inline float hand_v(const hand *h, int64_t position, int64_t e) {
    const opreg_paged_attn_decode *p = &h->c->problem;
    int64_t at = hand_page(h, position) * p->v_block_stride +
                 position % p->block_size * p->v_slot_stride + kv_head_of(h) * p->v_head_stride;
    return canonical_load(h->c->v, at + e, p->kv_dtype);
}

static inline float hand_q(const hand *h, int64_t e) {
    const opreg_paged_attn_decode *p = &h->c->problem;
    return canonical_load(h->c->q, h->token * p->q_stride + h->head * p->head_dim + e, p->q_dtype);
}

/* a[l] += a[l xor s] for s = 1, 2, 4, 8, 16, seen from lane l. */
static inline float near_from(const float *a, int lane, int s) {
    return s == 0 ? a[lane] : near_from(a, lane, s / 2) + near_from(a, lane ^ s, s / 2);
}

static inline float hand_score(const hand *h, int64_t position) {
    const opreg_paged_attn_decode *p = &h->c->problem;
    float lanes[32] = {0}, s;
    int32_t width = p->head_dim / 32 + (p->head_dim % 32 != 0);
    for (int32_t e = 0; e < p->head_dim; e++) {
        lanes[e / width] = fmaf(hand_q(h, e), hand_k(h, position, e), lanes[e / width]);
    }
    s = near_from(lanes, 0, 16);
    if (p->kv_dtype == OPREG_F8_E4M3) {
        s = s * h->c->k_scale[kv_head_of(h)];
    }
    s = s * p->scale;
    return p->softcap > 0.0f ? p->softcap * canonical_tanh(s / p->softcap) : s;
}

static inline hand_part hand_merge(const hand_part *a, const hand_part *b) {
    hand_part r;
    float fa, fb;
    if (!a->used || !b->used) {
        return a->used ? *a : *b;
    }
    r.used = 1;
    r.m = fmaxf(a->m, b->m);
    fa = canonical_exp(a->m - r.m);
    fb = canonical_exp(b->m - r.m);
    r.l = a->l * fa + b->l * fb;
    for (int e = 0; e < 512; e++) {
        r.o[e] = a->o[e] * fa + b->o[e] * fb;
    }
    return r;
}

static inline hand_part hand_strand(const hand *h, int64_t segment, int64_t r) {
    hand_part part = {0};
    for (int64_t c = 0; c < 4; c++) {
        float m = part.used ? part.m : -INFINITY, a;
        int keys = 0;
        for (int64_t j = 0; j < 8; j++) {
            int64_t position = 256 * segment + 64 * c + 8 * j + r;
            if (position >= h->begin && position < h->end && hand_page(h, position) >= 0) {
                m = fmaxf(m, hand_score(h, position));
                keys++;
            }
        }
        if (keys == 0) {
            continue;
        }
        a = part.used ? canonical_exp(part.m - m) : 0.0f;
        part.l *= a;
        for (int e = 0; e < h->c->problem.head_dim; e++) {
            part.o[e] *= a;
        }
        part.m = m;
        part.used = 1;
        for (int64_t j = 0; j < 8; j++) {
            int64_t position = 256 * segment + 64 * c + 8 * j + r;
            if (position >= h->begin && position < h->end && hand_page(h, position) >= 0) {
                float p = canonical_exp(hand_score(h, position) - m);
                part.l = part.l + p;
                for (int e = 0; e < h->c->problem.head_dim; e++) {
                    part.o[e] = fmaf(p, hand_v(h, position, e), part.o[e]);
                }
            }
        }
    }
    return part;
}

/* Strands [r, r + count) of a segment. */
static inline hand_part hand_strands(const hand *h, int64_t segment, int64_t r, int64_t count) {
    hand_part a, b;
    if (count == 1) {
        return hand_strand(h, segment, r);
    }
    a = hand_strands(h, segment, r, count / 2);
    b = hand_strands(h, segment, r + count / 2, count / 2);
    return hand_merge(&a, &b);
}

/* Segments [first, first + count), count a power of two. */
static inline hand_part hand_segments(const hand *h, int64_t first, int64_t count) {
    hand_part a = {0}, b;
    if (first * 256 >= h->end) {
        return a;
    }
    if (count == 1) {
        return hand_strands(h, first, 0, 8);
    }
    a = hand_segments(h, first, count / 2);
    b = hand_segments(h, first + count / 2, count / 2);
    return hand_merge(&a, &b);
}

static inline void expect_row(const hand *h, const hand_part *part) {
    const opreg_paged_attn_decode *p = &h->c->problem;
    float element[1];
    for (int64_t e = 0; e < p->head_dim; e++) {
        int64_t at = h->token * p->out_stride + h->head * p->head_dim + e;
        float value = part->used ? part->o[e] / part->l : 0.0f;
        if (part->used && p->kv_dtype == OPREG_F8_E4M3) {
            value = value * h->c->v_scale[kv_head_of(h)];
        }
        canonical_store(element, 0, p->out_dtype, value);
        if (element_bits(h->c->out, at, p->out_dtype) != element_bits(element, 0, p->out_dtype)) {
            fail_msg("token %lld head %lld element %lld: %a, by hand %a", (long long)h->token,
                     (long long)h->head, (long long)e,
                     (double)canonical_load(h->c->out, at, p->out_dtype), (double)value);
        }
    }
    if ((p->flags & OPREG_PF_LSE) != 0) {
        float lse = part->used ? part->m + canonical_log(part->l) : -INFINITY;
        assert_int_equal(element_bits(h->c->lse, h->token * p->q_heads + h->head, OPREG_F32),
                         element_bits(&lse, 0, OPREG_F32));
    }
}

/* Every row of a case with valid tables of either kind. */
static inline void expect_case_by_hand(const attn_case *c) {
    const opreg_paged_attn_decode *p = &c->problem;
    for (int64_t r = 0; r < p->seqs; r++) {
        int64_t first = (p->flags & OPREG_PF_Q_INDPTR) != 0 ? c->q_indptr[r] : r;
        int64_t last = (p->flags & OPREG_PF_Q_INDPTR) != 0 ? c->q_indptr[r + 1] : r + 1;
        int64_t length = c->lens[r];
        const int32_t *pages = c->table + r * p->table_stride;
        if ((p->flags & OPREG_PF_CSR) != 0) {
            int64_t count = c->indptr[r + 1] - c->indptr[r];
            pages = c->table + c->indptr[r];
            length = count > 0 ? (count - 1) * p->block_size + length : 0;
        }
        length = length > p->max_seq_len ? p->max_seq_len : length;
        for (int64_t token = first; token < last; token++) {
            for (int64_t head = 0; head < p->q_heads; head++) {
                hand h = {c, token, head, pages, 0, length - (last - 1 - token)};
                hand_part part;
                if (p->window > 0 && h.end > p->window) {
                    h.begin = h.end - p->window;
                }
                part = hand_segments(&h, 0, 64);
                if (part.used && (p->flags & OPREG_PF_SINKS) != 0) {
                    hand_part sink = {.used = 1, .m = c->sinks[head], .l = 1.0f};
                    part = hand_merge(&part, &sink);
                }
                expect_row(&h, &part);
            }
        }
    }
}

/* ---- promises -----------------------------------------------------------------------------------
 */

#endif /* OPREG_ATTENTION_CASE_H */
