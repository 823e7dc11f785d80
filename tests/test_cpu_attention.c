/* SPDX-License-Identifier: MIT
 * test_cpu_attention.c - paged_attn_decode of the CPU backend: against the order said again by
 * hand, bit by bit, and against a softmax in double precision. */
#include "cpu_harness.h"

typedef struct attn_case {
    opreg_paged_attn_decode problem;
    void *q, *k, *v, *out;
    float *lse, *sinks, *k_scale, *v_scale;
    int32_t *table, *lens, *indptr, *q_indptr; /* as the problem's flags want them */
    int64_t cache_elements;
} attn_case;

static void fill_elements(void *array, int64_t count, uint32_t dtype) {
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
static attn_case attn_make(const attn_shape *s) {
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

static void attn_free(attn_case *c) {
    void *all[] = {c->q,       c->k,       c->v,     c->out,  c->lse,    c->sinks,
                   c->k_scale, c->v_scale, c->table, c->lens, c->indptr, c->q_indptr};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        free(all[i]);
    }
}

static size_t out_bytes(const attn_case *c) {
    return (size_t)(c->problem.tokens * c->problem.out_stride) * element_size(c->problem.out_dtype);
}

static size_t lse_bytes(const attn_case *c) {
    return (size_t)(c->problem.tokens * c->problem.q_heads) * 4;
}

static void attn_run(attn_case *c) {
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
static void to_csr(attn_case *c) {
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

static int64_t hand_page(const hand *h, int64_t position) {
    int32_t page = h->pages[position / h->c->problem.block_size];
    return page >= 0 && page < h->c->problem.num_blocks ? page : -1;
}

static int64_t kv_head_of(const hand *h) {
    return h->head * h->c->problem.kv_heads / h->c->problem.q_heads;
}

static float hand_k(const hand *h, int64_t position, int64_t e) {
    const opreg_paged_attn_decode *p = &h->c->problem;
    int64_t at = hand_page(h, position) * p->k_block_stride +
                 position % p->block_size * p->k_slot_stride + kv_head_of(h) * p->k_head_stride;
    return canonical_load(h->c->k, at + e, p->kv_dtype);
}

static float hand_v(const hand *h, int64_t position, int64_t e) {
    const opreg_paged_attn_decode *p = &h->c->problem;
    int64_t at = hand_page(h, position) * p->v_block_stride +
                 position % p->block_size * p->v_slot_stride + kv_head_of(h) * p->v_head_stride;
    return canonical_load(h->c->v, at + e, p->kv_dtype);
}

static float hand_q(const hand *h, int64_t e) {
    const opreg_paged_attn_decode *p = &h->c->problem;
    return canonical_load(h->c->q, h->token * p->q_stride + h->head * p->head_dim + e, p->q_dtype);
}

/* a[l] += a[l xor s] for s = 1, 2, 4, 8, 16, seen from lane l. */
static float near_from(const float *a, int lane, int s) {
    return s == 0 ? a[lane] : near_from(a, lane, s / 2) + near_from(a, lane ^ s, s / 2);
}

static float hand_score(const hand *h, int64_t position) {
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

static hand_part hand_merge(const hand_part *a, const hand_part *b) {
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

static hand_part hand_strand(const hand *h, int64_t segment, int64_t r) {
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
static hand_part hand_strands(const hand *h, int64_t segment, int64_t r, int64_t count) {
    hand_part a, b;
    if (count == 1) {
        return hand_strand(h, segment, r);
    }
    a = hand_strands(h, segment, r, count / 2);
    b = hand_strands(h, segment, r + count / 2, count / 2);
    return hand_merge(&a, &b);
}

/* Segments [first, first + count), count a power of two. */
static hand_part hand_segments(const hand *h, int64_t first, int64_t count) {
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

static void expect_row(const hand *h, const hand_part *part) {
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
static void expect_case_by_hand(const attn_case *c) {
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

static const uint32_t cache_dtypes[] = {OPREG_BF16, OPREG_F16, OPREG_F32, OPREG_F8_E4M3};

/* Every combination of dtypes, and of dimensions, layouts and options, in a seeded mix. */
static void every_option_has_the_bits_of_the_order_by_hand(void **state) {
    const int32_t dims[] = {64, 128, 80, 256, 65, 96, 512, 576 / 3};
    (void)state;
    random_state = 31;
    for (int i = 0; i < 36; i++) {
        attn_shape s = {.seqs = 2,
                        .q_heads = i % 3 ? 4 : 6,
                        .kv_heads = 2,
                        .d = dims[i % 8],
                        .block_size = i % 5 ? 16 : 7,
                        .blocks_per_row = i % 7 ? 20 : 75,
                        .q_dtype = float_dtypes[i % 3],
                        .kv_dtype = cache_dtypes[i % 4],
                        .out_dtype = float_dtypes[i / 3 % 3],
                        .hnd = i / 4 % 2};
        attn_case c = attn_make(&s);
        opreg_paged_attn_decode *p = &c.problem;
        p->window = i % 4 == 1 ? 37 : i % 4 == 2 ? 300 : 0;
        p->softcap = i % 3 == 1 ? 1.5f : 0.0f;
        p->flags |= (i / 2 % 2 ? OPREG_PF_SINKS : 0) | (i % 5 ? OPREG_PF_LSE : 0);
        if (i % 6 >= 3) {
            p->flags |= OPREG_PF_Q_INDPTR;
            p->max_q = 8;
            c.q_indptr[1] = (int32_t)random_below(7) + 2;
            p->tokens = c.q_indptr[2] = c.q_indptr[1] + 1 + i % 8;
        }
        if (i % 2) {
            to_csr(&c);
        }
        attn_run(&c);
        expect_case_by_hand(&c);
        attn_free(&c);
    }
}

static attn_case plain_case(int32_t d, int32_t blocks_per_row) {
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

/* One segment, one more position, odd counts of segments: 3, 5, 6, 7, 9, 17. */
static void segments_merge_as_a_tree_at_every_length(void **state) {
    const int32_t lengths[] = {1,    8,    255,  256,  257,  512,  640, 1280,
                               1281, 1400, 1536, 1700, 2050, 2305, 4352};
    (void)state;
    random_state = 32;
    for (int i = 0; i < 15; i += 3) {
        attn_case c = plain_case(64, 272);
        memcpy(c.lens, lengths + i, 3 * sizeof(int32_t));
        attn_run(&c);
        expect_case_by_hand(&c);
        attn_free(&c);
    }
}

static void csr_tables_give_the_bits_of_dense_ones(void **state) {
    attn_case c;
    float *dense, *dense_lse;
    (void)state;
    random_state = 33;
    c = plain_case(128, 20);
    c.lens[1] = 160; /* a full last page */
    attn_run(&c);
    dense = c.out;
    dense_lse = c.lse;
    c.out = malloc(out_bytes(&c));
    c.lse = malloc(lse_bytes(&c));
    to_csr(&c);
    attn_run(&c);
    assert_memory_equal(dense, c.out, out_bytes(&c));
    assert_memory_equal(dense_lse, c.lse, lse_bytes(&c));
    free(dense);
    free(dense_lse);
    attn_free(&c);
}

static void set_element(void *array, int64_t i, uint32_t dtype, int huge) {
    if (dtype == OPREG_F8_E4M3) {
        ((uint8_t *)array)[i] = huge ? 0x7e : 0x7f;
    } else {
        canonical_store(array, i, dtype, huge ? 6e4f : NAN);
    }
}

/* Everything that no visible position names holds NaN, then huge values; table entries past the
 * used pages are wild. */
static void slots_that_must_not_matter_change_no_bit(void **state) {
    (void)state;
    random_state = 34;
    for (int d = 0; d < 4; d++) {
        attn_shape s = {3, 4, 2, 64, 16, 12, OPREG_BF16, OPREG_F32, OPREG_F32, d % 2};
        attn_case c;
        float *first = NULL;
        uint8_t *visible;
        s.kv_dtype = cache_dtypes[d];
        c = attn_make(&s);
        c.problem.flags = OPREG_PF_LSE;
        c.problem.window = d >= 2 ? 50 : 0;
        visible = calloc((size_t)c.problem.num_blocks * 16, 1);
        for (int r = 0; r < 3; r++) {
            int low = c.problem.window > 0 && c.lens[r] > 50 ? c.lens[r] - 50 : 0;
            for (int i = low; i < c.lens[r]; i++) {
                visible[c.table[r * 12 + i / 16] * 16 + i % 16] = 1;
            }
            for (int i = (c.lens[r] + 15) / 16; i < 12; i++) {
                c.table[r * 12 + i] = i % 2 ? INT32_MAX : INT32_MIN;
            }
        }
        for (int fill = 0; fill < 2; fill++) {
            for (int64_t i = 0; i < c.problem.num_blocks * 16; i++) {
                for (int64_t e = 0; e < 2 * 64 && !visible[i]; e++) {
                    int64_t at = i / 16 * c.problem.k_block_stride +
                                 i % 16 * c.problem.k_slot_stride +
                                 e / 64 * c.problem.k_head_stride + e % 64;
                    set_element(c.k, at, s.kv_dtype, fill);
                    set_element(c.v, at + i / 16 * 8, s.kv_dtype, fill);
                }
            }
            attn_run(&c);
            if (fill == 0) {
                for (int64_t i = 0; i < 3 * 4; i++) {
                    assert_true(isfinite(c.lse[i]));
                }
                first = malloc(out_bytes(&c));
                memcpy(first, c.out, out_bytes(&c));
            } else {
                assert_memory_equal(first, c.out, out_bytes(&c));
                expect_case_by_hand(&c);
            }
        }
        free(first);
        free(visible);
        attn_free(&c);
    }
}

static void expect_zero_row(const attn_case *c, int64_t token) {
    const opreg_paged_attn_decode *p = &c->problem;
    for (int64_t e = 0; e < p->q_heads * p->head_dim; e++) {
        assert_int_equal(bits_of(((float *)c->out)[token * p->out_stride + e]), 0);
    }
    for (int64_t h = 0; h < p->q_heads; h++) {
        assert_true(c->lse[token * p->q_heads + h] == -INFINITY);
    }
}

static void a_row_without_a_key_is_zero_and_its_lse_minus_infinity(void **state) {
    attn_case c;
    (void)state;
    random_state = 35;
    c = plain_case(64, 4);
    c.problem.flags |= OPREG_PF_SINKS;
    c.lens[0] = 0;
    c.lens[1] = -5;
    for (int i = 0; i < 4; i++) { /* every page of request 2 is masked */
        c.table[8 + i] = i % 2 ? -1 : c.problem.num_blocks;
    }
    attn_run(&c);
    for (int64_t token = 0; token < 3; token++) {
        expect_zero_row(&c, token);
    }
    attn_free(&c);
}

/* A seq_len of 3 with 5 query tokens: the first two are before the sequence. */
static void tokens_before_the_sequence_are_zero_rows(void **state) {
    attn_case c;
    (void)state;
    random_state = 36;
    c = plain_case(64, 4);
    c.problem.flags |= OPREG_PF_Q_INDPTR;
    c.problem.max_q = 5;
    c.problem.tokens = 7;
    c.q_indptr[1] = 5;
    c.q_indptr[2] = 6;
    c.q_indptr[3] = 7;
    c.lens[0] = 3;
    attn_run(&c);
    expect_zero_row(&c, 0);
    expect_zero_row(&c, 1);
    expect_case_by_hand(&c);
    attn_free(&c);
}

static void a_length_past_the_bound_is_clamped(void **state) {
    attn_case c;
    float *bound;
    (void)state;
    random_state = 37;
    c = plain_case(64, 8);
    c.problem.max_seq_len = 100;
    c.lens[0] = c.lens[1] = c.lens[2] = 100;
    attn_run(&c);
    bound = c.out;
    c.out = malloc(out_bytes(&c));
    c.lens[0] = 101;
    c.lens[1] = INT32_MAX;
    attn_run(&c);
    assert_memory_equal(bound, c.out, out_bytes(&c));
    free(bound);
    attn_free(&c);
}

static void a_used_page_outside_the_cache_is_masked(void **state) {
    attn_case c;
    (void)state;
    random_state = 38;
    c = plain_case(64, 30);
    for (int r = 0; r < 3; r++) {
        c.lens[r] = 470;
        c.table[r * 30] = c.problem.num_blocks;
        c.table[r * 30 + 5] = -1;
        c.table[r * 30 + 17] = INT32_MAX;
        c.table[r * 30 + 29] = INT32_MIN;
    }
    attn_run(&c);
    expect_case_by_hand(&c);
    attn_free(&c);
}

/* Token i of n tokens has the bits of a call with one token and a seq_len shorter by n - 1 - i. */
static void a_token_does_not_depend_on_the_tokens_beside_it(void **state) {
    attn_case many, one;
    (void)state;
    random_state = 39;
    many = plain_case(128, 24);
    many.problem.seqs = 1;
    many.problem.flags |= OPREG_PF_Q_INDPTR;
    many.problem.max_q = many.problem.tokens = many.q_indptr[1] = 8;
    many.lens[0] = 301;
    attn_run(&many);
    one = many;
    one.problem.flags = OPREG_PF_LSE;
    one.problem.max_q = one.problem.tokens = 1;
    one.out = malloc(out_bytes(&many));
    one.lse = malloc(lse_bytes(&many));
    for (int64_t i = 0; i < 8; i++) {
        one.q = (float *)many.q + i * many.problem.q_stride;
        one.lens[0] = 301 - 7 + (int32_t)i;
        attn_run(&one);
        assert_memory_equal(one.out, (float *)many.out + i * many.problem.out_stride, 4 * 128 * 4);
        assert_memory_equal(one.lse, many.lse + i * 4, 4 * 4);
    }
    free(one.out);
    free(one.lse);
    attn_free(&many);
}

static void threads_and_their_order_change_no_bit(void **state) {
    attn_case c;
    float *first;
    (void)state;
    random_state = 40;
    c = plain_case(128, 40);
    attn_run(&c);
    first = c.out;
    for (int order = HOST_DESCENDING; order <= HOST_THREADS; order++) {
        current_order = (host_order)order;
        c.out = malloc(out_bytes(&c));
        attn_run(&c);
        assert_memory_equal(first, c.out, out_bytes(&c));
        free(c.out);
    }
    current_order = HOST_ASCENDING;
    c.out = first;
    attn_free(&c);
}

static void gaps_between_rows_of_out_are_not_written(void **state) {
    (void)state;
    random_state = 41;
    for (int d = 0; d < 3; d++) {
        attn_case c = plain_case(64, 3);
        size_t size = element_size(float_dtypes[d]), row;
        c.problem.out_dtype = float_dtypes[d];
        attn_run(&c);
        row = (size_t)c.problem.out_stride * size;
        for (size_t i = 0; i < out_bytes(&c); i++) {
            if (i % row >= 4 * 64 * size) {
                assert_int_equal(((uint8_t *)c.out)[i], 0xff);
            }
        }
        attn_free(&c);
    }
}

/* Tables of random bytes: no read outside (a sanitizer's business), every row written. */
static void hostile_tables_leave_no_row_unwritten(void **state) {
    (void)state;
    random_state = 42;
    for (int round = 0; round < 120; round++) {
        attn_case c = plain_case(64, 6);
        int32_t *arrays[] = {c.table, c.lens, c.indptr, c.q_indptr};
        const int counts[] = {18, 3, 4, 4};
        c.problem.flags |= (round % 2 ? OPREG_PF_CSR : 0) | (round % 3 ? OPREG_PF_Q_INDPTR : 0);
        c.problem.table_stride = round % 2 ? 18 : 6;
        if (round % 3) {
            c.problem.max_q = 4;
            c.problem.tokens = 9;
        }
        for (int a = 0; a < 4; a++) {
            for (int i = 0; i < counts[a]; i++) {
                arrays[a][i] = (int32_t)(random_below(4) ? random_below(24) - 4
                                                         : (int64_t)(random_bits() >> 32));
            }
        }
        attn_run(&c);
        for (int64_t t = 0; t < c.problem.tokens; t++) {
            for (int64_t e = 0; e < 4 * 64; e++) {
                assert_true(isfinite(((float *)c.out)[t * c.problem.out_stride + e]));
            }
        }
        attn_free(&c);
    }
}

/* NMSE 1e-6 against a softmax over all keys in double (the order's own error is about 1e-13). */
static void results_stay_in_the_band_of_double_precision(void **state) {
    (void)state;
    random_state = 43;
    for (int d = 0; d < 4; d++) {
        attn_shape s = {4, 8, 2, 128, 16, 60, OPREG_F32, OPREG_F32, OPREG_F32, 0};
        double error = 0.0, power = 0.0;
        attn_case c;
        s.kv_dtype = cache_dtypes[d];
        c = attn_make(&s);
        c.problem.flags = OPREG_PF_LSE | OPREG_PF_SINKS;
        c.problem.softcap = d % 2 ? 4.0f : 0.0f;
        c.problem.window = d / 2 ? 333 : 0;
        attn_run(&c);
        for (int64_t t = 0; t < 4; t++) {
            for (int64_t head = 0; head < 8; head++) {
                hand h = {&c, t, head, c.table + t * 60, 0, c.lens[t]};
                double sum = exp((double)c.sinks[head]), row[128] = {0};
                int fp8 = s.kv_dtype == OPREG_F8_E4M3;
                h.begin = c.problem.window > 0 && h.end > 333 ? h.end - 333 : 0;
                for (int64_t i = h.begin; i < h.end; i++) {
                    double score = 0.0, weight;
                    for (int64_t e = 0; e < 128; e++) {
                        score += (double)hand_q(&h, e) * (double)hand_k(&h, i, e);
                    }
                    score *= (double)c.problem.scale;
                    score *= fp8 ? (double)c.k_scale[head / 4] : 1.0;
                    score = d % 2 ? 4.0 * tanh(score / 4.0) : score;
                    weight = exp(score);
                    sum += weight;
                    for (int64_t e = 0; e < 128; e++) {
                        row[e] += weight * (double)hand_v(&h, i, e);
                    }
                }
                for (int64_t e = 0; e < 128; e++) {
                    double exact = row[e] / sum * (fp8 ? (double)c.v_scale[head / 4] : 1.0);
                    double got =
                        (double)((float *)c.out)[t * c.problem.out_stride + head * 128 + e];
                    error += (got - exact) * (got - exact);
                    power += exact * exact;
                }
                assert_true(fabs((double)c.lse[t * 8 + head] - log(sum)) <= 1e-5);
            }
        }
        if (!(error <= 1e-6 * power)) {
            fail_msg("cache dtype %u: NMSE %.3g", s.kv_dtype, error / power);
        }
        attn_free(&c);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_option_has_the_bits_of_the_order_by_hand),
        cmocka_unit_test(segments_merge_as_a_tree_at_every_length),
        cmocka_unit_test(csr_tables_give_the_bits_of_dense_ones),
        cmocka_unit_test(slots_that_must_not_matter_change_no_bit),
        cmocka_unit_test(a_row_without_a_key_is_zero_and_its_lse_minus_infinity),
        cmocka_unit_test(tokens_before_the_sequence_are_zero_rows),
        cmocka_unit_test(a_length_past_the_bound_is_clamped),
        cmocka_unit_test(a_used_page_outside_the_cache_is_masked),
        cmocka_unit_test(a_token_does_not_depend_on_the_tokens_beside_it),
        cmocka_unit_test(threads_and_their_order_change_no_bit),
        cmocka_unit_test(gaps_between_rows_of_out_are_not_written),
        cmocka_unit_test(hostile_tables_leave_no_row_unwritten),
        cmocka_unit_test(results_stay_in_the_band_of_double_precision),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
