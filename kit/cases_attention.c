/* SPDX-License-Identifier: MIT
 * cases_attention.c - cases of paged_attn_decode. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attention.h"
#include "cases.h"
#include "cases_far.h"

static const int64_t head_dims[] = {128, 64, 256, 80, 96, 512, 112, 192, 72, 65, 320, 100};
static const int64_t heads[] = {0x0101, 0x0401, 0x0802, 0x0603, 0x1002, 0x0501, 0x0202, 0x0801};
static const int64_t block_sizes[] = {16, 32, 64, 1, 7, 128, 256, 48};
static const int64_t seq_counts[] = {1, 2, 3, 5, 1, 2, 4, 0};
static const int64_t query_counts[] = {1, 1, 2, 3, 4, 5, 7, 8};
static const int64_t windows[] = {0, 0, 0, 1, 17, 256, 300};
static const int64_t kv_dtypes[] = {OPREG_BF16, OPREG_F16, OPREG_F32, OPREG_F8_E4M3};

/* The case, of those with CSR tables, whose last pages all claim 0 positions. */
#define EMPTY_LAST_PAGES 3

/* A length by its edge; block and split edges, and 4,096 where the rest is small. */
static int32_t draw_length(random_state *random, const opreg_paged_attn_decode *p, int big) {
    int32_t b = p->block_size;
    int32_t edges[] = {0, 1, b - 1, b, b + 1, 2 * b + 1, 7, 8, 9, 31, 32, 33, 63, 64, 65, 200};
    int32_t long_edges[] = {255, 256, 257, 511, 512, 513, 767, 1025};
    int32_t length = big ? long_edges[random_below(random, 8)] : edges[random_below(random, 16)];
    return length > 0 ? length : 0;
}

/* Lengths and query tokens as an engine would have them. */
typedef struct plan {
    int32_t spare; /* pages that no request uses                                                    */
    int32_t lengths[ATTENTION_SEQS], first[ATTENTION_SEQS + 1];
} plan;

static void draw_shape(const case_key *key, random_state *shape, opreg_paged_attn_decode *p,
                       plan *drawn) {
    int64_t pair = PICK(key, "heads", heads);
    int far = is_far(key), big = !far && key->index % 4 == 1, huge = !far && key->index % 40 == 9;
    int32_t length = huge ? 4096 : 0;
    p->head_dim = (int32_t)PICK(key, "head dim", head_dims);
    p->q_heads = (int32_t)(pair >> 8);
    p->kv_heads = (int32_t)(pair & 255);
    p->block_size = (int32_t)PICK(key, "block", block_sizes);
    p->seqs = (int32_t)PICK(key, "seqs", seq_counts);
    p->max_q = (int32_t)PICK(key, "queries", query_counts);
    p->window = (int32_t)PICK(key, "window", windows);
    p->softcap = key->index % 5 == 2 ? 20.0f : 0.0f;
    if (key->index == 0 || key->index == EMPTY_LAST_PAGES) {
        p->seqs = 2;
        p->window = 0;
    }
    if (big || huge) {
        p->seqs = p->seqs > 2 ? 2 : p->seqs;
        p->q_heads = p->kv_heads * (p->q_heads > p->kv_heads ? 2 : 1);
        p->max_q = p->max_q > 2 ? 2 : p->max_q;
    }
    if (huge) {
        p->seqs = 1;
        p->max_q = 1;
        p->head_dim = 64;
    }
    drawn->spare = (int32_t)(key->index % 4);
    if (far) {
        far_attention(key, p, &length, &drawn->spare);
    }
    p->scale = 1.0f / sqrtf((float)p->head_dim);
    p->tokens = 0;
    for (int32_t s = 0; s < p->seqs; s++) {
        drawn->first[s] = p->tokens;
        p->tokens += 1 + (int32_t)random_below(shape, (uint32_t)p->max_q);
        drawn->lengths[s] = length > 0 ? length : draw_length(shape, p, big);
        if (key->index == 0) {
            drawn->lengths[s] = 100 + s;
        } else if (key->index == EMPTY_LAST_PAGES) {
            drawn->lengths[s] = (1 + s) * p->block_size + 1;
        }
        p->max_seq_len = p->max_seq_len > drawn->lengths[s] ? p->max_seq_len : drawn->lengths[s];
    }
    if (p->max_q > 1 || key->index % 3 == 0) {
        p->flags |= OPREG_PF_Q_INDPTR;
    }
    drawn->first[p->seqs] = p->tokens;
}

/* A free block that is none of the used ones, or with a small chance one that is shared. */
static int32_t draw_entry(random_state *random, const opreg_paged_attn_decode *p, int hostile,
                          const int32_t *order, int32_t at) {
    const int32_t bad[] = {-1, p->num_blocks, INT32_MAX, INT32_MIN};
    return hostile && random_below(random, 4) == 0 ? bad[random_below(random, 4)] : order[at];
}

static int make_table(const case_key *key, random_state *random, job *out,
                      const plan *drawn) {
    opreg_paged_attn_decode *p = &out->problem.attn;
    int csr = (p->flags & OPREG_PF_CSR) != 0, hostile = !is_far(key) && key->index % 6 == 4;
    int32_t used = 0, at = 0, slack = (int32_t)(key->index % 3), *order, *table, *lens, *indptr = NULL;
    for (int32_t s = 0; s < p->seqs; s++) {
        int32_t pages = (drawn->lengths[s] + p->block_size - 1) / p->block_size;
        used += pages;
        if (!csr) {
            p->table_stride = p->table_stride > pages ? p->table_stride : pages;
        }
    }
    p->table_stride = (csr ? used : p->table_stride) + slack;
    p->num_blocks = used + 1 + drawn->spare;
    order = calloc((size_t)p->num_blocks, sizeof *order);
    if (order == NULL ||
        !job_buffer_set(out, OPREG_ATTN_TABLE, JOB_INPUT, JOB_I32,
                        (uint64_t)(csr ? 1 : p->seqs) * (uint64_t)p->table_stride) ||
        !job_buffer_set(out, OPREG_ATTN_LENS, JOB_INPUT, JOB_I32, (uint64_t)p->seqs) ||
        (csr && !job_buffer_set(out, OPREG_ATTN_INDPTR, JOB_INPUT, JOB_I32, (uint64_t)p->seqs + 1))) {
        free(order);
        return 0;
    }
    for (int32_t i = 0; i < p->num_blocks; i++) {
        order[i] = i;
    }
    random_shuffle(random, order, p->num_blocks);
    table = (int32_t *)(void *)out->bufs[OPREG_ATTN_TABLE].data;
    lens = (int32_t *)(void *)out->bufs[OPREG_ATTN_LENS].data;
    indptr = csr ? (int32_t *)(void *)out->bufs[OPREG_ATTN_INDPTR].data : NULL;
    for (int32_t s = 0; s < p->seqs; s++) {
        int32_t pages = (drawn->lengths[s] + p->block_size - 1) / p->block_size;
        int32_t base = csr ? at : s * p->table_stride;
        for (int32_t i = 0; i < pages; i++, at++) {
            table[base + i] = draw_entry(random, p, hostile, order, at);
        }
        lens[s] = csr ? drawn->lengths[s] - (pages > 0 ? (pages - 1) * p->block_size : 0)
                      : drawn->lengths[s];
        if (csr) {
            indptr[s] = base;
            indptr[s + 1] = at;
        }
    }
    free(order);
    /* a bound that some lengths are over: they are clamped */
    if (!is_far(key) && key->index % 7 == 5 && p->max_seq_len > 4) {
        p->max_seq_len -= p->max_seq_len / 3;
    }
    return 1;
}

/* Entries of the table that are not used must not matter. */
static int loosen_table(job *out, const attention_notes *notes) {
    const opreg_paged_attn_decode *p = &out->problem.attn;
    job_buffer *table = &out->bufs[OPREG_ATTN_TABLE];
    table->loose = malloc(table->bytes + 1);
    if (table->loose == NULL) {
        return 0;
    }
    memset(table->loose, 1, table->bytes);
    for (int32_t s = 0; s < p->seqs; s++) {
        size_t pages = (size_t)((notes->lengths[s] + p->block_size - 1) / p->block_size);
        memset(table->loose + 4 * notes->pages[s], 0, 4 * pages);
    }
    return 1;
}

static void set_strides(const case_key *key, opreg_paged_attn_decode *p) {
    int64_t d = p->head_dim, pad = key->index % 5 == 3 ? 8 : 0, v_pad = key->index % 9 == 7 ? 16 : 0;
    int64_t *strides[2][3] = {{&p->k_block_stride, &p->k_slot_stride, &p->k_head_stride},
                              {&p->v_block_stride, &p->v_slot_stride, &p->v_head_stride}};
    int hnd = key->index % 2 != 0;
    for (int i = 0; i < 2; i++) {
        int64_t *block = strides[i][0], *slot = strides[i][1], *head = strides[i][2];
        if (i == 1) {
            pad += v_pad; /* K and V are apart in every stride */
            hnd = hnd != (key->index % 8 == 6);
        }
        *head = hnd ? p->block_size * (d + pad) : d + v_pad * i;
        *slot = hnd ? d + pad : p->kv_heads * *head + pad;
        *block = hnd ? p->kv_heads * *head + pad : p->block_size * *slot + pad;
    }
}

/* One cache: data in every slot, loose where no query can see it. */
static int make_cache(random_state *random, job *out, uint32_t index, const attention_notes *notes,
                      int64_t block_stride, int64_t slot_stride, int64_t head_stride) {
    opreg_paged_attn_decode *p = &out->problem.attn;
    job_buffer *cache = &out->bufs[index];
    uint64_t size = element_bytes(p->kv_dtype);
    uint64_t count = (uint64_t)((p->num_blocks - 1) * block_stride + (p->block_size - 1) * slot_stride +
                                (p->kv_heads - 1) * head_stride + p->head_dim);
    data_kind kind = out->data == DATA_OUTLIER ? DATA_GAUSSIAN : out->data;
    if (!job_buffer_set(out, index, JOB_INPUT, p->kv_dtype, count)) {
        return 0;
    }
    if (p->kv_dtype == OPREG_F8_E4M3) {
        random_bytes(random, cache->data, cache->bytes);
        for (uint64_t i = 0; i < cache->bytes; i++) {
            /* moderate numbers, every code but NaN in the extreme kind */
            uint8_t code = cache->data[i];
            cache->data[i] = kind == DATA_EXTREME ? ((code & 0x7f) == 0x7f ? 0x7e : code)
                                                  : (uint8_t)((code & 0x9f) | 0x20);
        }
    } else {
        data_rows(random, kind, cache, (int64_t)(count / 64), 64, 64);
        for (uint64_t i = count - count % 64; i < count; i++) {
            element_store(p->kv_dtype, cache->data + i * size, random_gauss(random));
        }
    }
    cache->loose = malloc(cache->bytes + 1);
    if (cache->loose == NULL) {
        return 0;
    }
    memset(cache->loose, 1, cache->bytes);
    for (int32_t s = 0; s < p->seqs; s++) {
        for (int32_t position = 0; position < notes->lengths[s]; position++) {
            int32_t block = attention_block(out, notes, s, position);
            if (block < 0 || !attention_visible(p, notes, s, position)) {
                continue;
            }
            for (int32_t h = 0; h < p->kv_heads; h++) {
                int64_t at = block * block_stride + position % p->block_size * slot_stride +
                             h * head_stride;
                memset(cache->loose + (uint64_t)at * size, 0, (size_t)p->head_dim * size);
            }
        }
    }
    return 1;
}

/* Heavy tails make scores over 88 too, whose exp is no number. */
static int make_q(random_state *random, job *out, int64_t length) {
    const opreg_paged_attn_decode *p = &out->problem.attn;
    job_buffer *q = &out->bufs[OPREG_ATTN_Q];
    uint32_t size = element_bytes(p->q_dtype);
    if (!case_rows(random, out, OPREG_ATTN_Q, p->q_dtype, p->tokens, length, p->q_stride)) {
        return 0;
    }
    for (uint64_t at = 0; out->data == DATA_HEAVY && at + size <= q->bytes; at += size) {
        element_store(p->q_dtype, q->data + at, element_load(p->q_dtype, q->data + at) * 8.0f);
    }
    return 1;
}

/* Some heads of q, and K of a KV head in one segment of 256 positions of each request, are NaN: such a
 * score is no maximum, and what sees it is NaN, never a masked key. */
static void spoil_scores(random_state *random, job *out, const attention_notes *notes) {
    const opreg_paged_attn_decode *p = &out->problem.attn;
    job_buffer *q = &out->bufs[OPREG_ATTN_Q], *k = &out->bufs[OPREG_ATTN_K];
    uint64_t q_size = element_bytes(p->q_dtype), k_size = element_bytes(p->kv_dtype);
    for (int32_t t = 0; t < p->tokens; t++) {
        int64_t head = t % (p->q_heads + 1);
        if (head < p->q_heads) {
            int64_t at = t * p->q_stride + head * p->head_dim +
                         (int64_t)random_below(random, (uint32_t)p->head_dim);
            element_store(p->q_dtype, q->data + (uint64_t)at * q_size, NAN);
        }
    }
    for (int32_t s = 0; s < p->seqs; s++) {
        uint32_t whole = (uint32_t)(notes->lengths[s] / 256);
        int32_t from = whole > 0 ? (int32_t)random_below(random, whole) * 256 : 0;
        for (int32_t i = from; i < from + 256 && i < notes->lengths[s]; i++) {
            int32_t block = attention_block(out, notes, s, i);
            int64_t at = block * p->k_block_stride + i % p->block_size * p->k_slot_stride +
                         s % p->kv_heads * p->k_head_stride + p->head_dim - 1;
            if (block >= 0) {
                element_store(p->kv_dtype, k->data + (uint64_t)at * k_size, NAN);
            }
        }
    }
    out->data = DATA_NONFINITE;
}

static int make_options(random_state *random, job *out) {
    opreg_paged_attn_decode *p = &out->problem.attn;
    data_kind kind = out->data;
    int ok = 1;
    out->data = DATA_GAUSSIAN;
    if (p->flags & OPREG_PF_SINKS) {
        ok = ok && case_rows(random, out, OPREG_ATTN_SINKS, OPREG_F32, 1, p->q_heads, p->q_heads);
    }
    if (p->kv_dtype == OPREG_F8_E4M3) {
        for (uint32_t i = OPREG_ATTN_K_SCALE; ok && i <= OPREG_ATTN_V_SCALE; i++) {
            ok = job_buffer_set(out, i, JOB_INPUT, OPREG_F32, (uint64_t)p->kv_heads);
            for (int32_t h = 0; ok && h < p->kv_heads; h++) {
                element_store(OPREG_F32, out->bufs[i].data + 4 * h,
                              0.25f + (float)random_unit(random));
            }
        }
    }
    if (p->flags & OPREG_PF_LSE) {
        ok = ok && job_buffer_set(out, OPREG_ATTN_LSE, JOB_OUTPUT, OPREG_F32,
                                  (uint64_t)(p->tokens * p->q_heads));
    }
    out->data = kind;
    return ok;
}

/* Table, lengths and token ranges, in some cases spoiled; and what they mean. */
static int make_integers(const case_key *key, random_state *random, job *out, const plan *drawn) {
    /* 0 in most: the rest of the case is then an engine's */
    static const int64_t hostile[] = {0, ATTENTION_BAD_LENS, 0, ATTENTION_BAD_INDPTR, 0,
                                      ATTENTION_BAD_Q_INDPTR, 7};
    const opreg_paged_attn_decode *p = &out->problem.attn;
    uint32_t how = key->index == 0 || is_far(key) ? 0 : (uint32_t)PICK(key, "hostile", hostile);
    if (!make_table(key, random, out, drawn)) {
        return 0;
    }
    if (p->flags & OPREG_PF_Q_INDPTR) {
        if (!job_buffer_set(out, OPREG_ATTN_Q_INDPTR, JOB_INPUT, JOB_I32, (uint64_t)p->seqs + 1)) {
            return 0;
        }
        memcpy(out->bufs[OPREG_ATTN_Q_INDPTR].data, drawn->first,
               ((size_t)p->seqs + 1) * sizeof drawn->first[0]);
    }
    if (key->index == EMPTY_LAST_PAGES) {
        how = ATTENTION_BAD_LENS;
        memset(out->bufs[OPREG_ATTN_LENS].data, 0, out->bufs[OPREG_ATTN_LENS].bytes);
    } else {
        attention_spoil(random, how, out);
    }
    attention_notes_read(out, out->extra);
    /* a spoiled case keeps its pages: entries out of range would be masked, and hide a wrong length */
    return how != 0 || loosen_table(out, out->extra);
}

int case_make_attention(const case_key *key, job *out) {
    static const int64_t kinds[] = {DATA_GAUSSIAN, DATA_HEAVY, DATA_OUTLIER, DATA_GAUSSIAN,
                                    DATA_EXTREME,  DATA_SUBNORMAL, DATA_CODES};
    opreg_paged_attn_decode *p = &out->problem.attn;
    random_state shape = case_random(key, 0), data = case_random(key, 1);
    attention_notes *notes = calloc(1, sizeof *notes);
    plan drawn = {0, {0}, {0}};
    int64_t length;
    out->extra = notes;
    if (notes == NULL) {
        return 0;
    }
    out->data = key->index == 0 || is_far(key) ? DATA_GAUSSIAN
                                               : (data_kind)PICK(key, "data kind", kinds);
    p->struct_size = sizeof *p;
    p->q_dtype = (uint32_t)float_dtypes[key->index % 3];
    p->out_dtype = (uint32_t)float_dtypes[key->index / 3 % 3];
    p->kv_dtype = (uint32_t)kv_dtypes[key->index / 9 % 4];
    if (key->index % 2 == (key->index / 2) % 2) {
        p->flags |= OPREG_PF_LSE;
    }
    if (key->index % 4 >= 2) {
        p->flags |= OPREG_PF_SINKS;
    }
    if (key->index / 2 % 3 == 1) {
        p->flags |= OPREG_PF_CSR;
    }
    draw_shape(key, &shape, p, &drawn);
    if (!(p->flags & OPREG_PF_Q_INDPTR)) {
        p->max_q = 1;
    }
    if (!make_integers(key, key->salt ? &data : &shape, out, &drawn)) {
        return 0;
    }
    set_strides(key, p);
    length = (int64_t)p->q_heads * p->head_dim;
    p->q_stride = length + (key->index % 4 == 1 ? 8 : 0);
    p->out_stride = length + (key->index % 5 == 1 ? 3 : 0);
    snprintf(out->dtypes, sizeof out->dtypes, "%s,%s->%s", opreg_dtype_name(p->q_dtype),
             opreg_dtype_name(p->kv_dtype), opreg_dtype_name(p->out_dtype));
    if (!make_cache(&data, out, OPREG_ATTN_K, notes, p->k_block_stride, p->k_slot_stride,
                    p->k_head_stride) ||
        !make_cache(&data, out, OPREG_ATTN_V, notes, p->v_block_stride, p->v_slot_stride,
                    p->v_head_stride) ||
        !make_q(&data, out, length) ||
        !case_output(out, OPREG_ATTN_OUT, p->out_dtype, p->tokens, length, p->out_stride) ||
        !make_options(&data, out)) {
        return 0;
    }
    if (!is_far(key) && key->index % 11 == 6) {
        spoil_scores(&data, out, notes);
    }
    return 1;
}
