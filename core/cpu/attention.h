/* SPDX-License-Identifier: MIT
 * attention.h - one query token of one head: which keys it sees and where they are. */
#ifndef OPREG_CPU_ATTENTION_H
#define OPREG_CPU_ATTENTION_H

#include "cpu/cpu.h"

#define ATTENTION_MAX_DIM 512

/* Running softmax over some keys: maximum, sum, weighted values.  The rest is unset while no key
 * was used. */
typedef struct attention_part {
    int used;
    float m, l, o[ATTENTION_MAX_DIM];
} attention_part;

typedef struct attention_query {
    const opreg_paged_attn_decode *problem;
    const void *k, *v;
    int64_t kv_head;
    float k_scale, v_scale; /* 1 for caches other than fp8              */
    int64_t begin, end;     /* visible positions                        */
    const int32_t *pages;   /* of the request; entry position / block_size */
    int64_t num_pages;
    float q[ATTENTION_MAX_DIM];
} attention_query;

/* Fills everything but q.  Tables are not trusted: lengths and indptr are clamped, a token that no
 * request owns sees nothing. */
void attention_query_make(const opreg_paged_attn_decode *problem, const opreg_buf *bufs,
                          int64_t token, int64_t head, attention_query *out);

/* The page of a position, or -1 where the key is masked. */
static inline int64_t attention_page(const attention_query *query, int64_t position) {
    int64_t index = position / query->problem->block_size;
    if (position < query->begin || position >= query->end || index >= query->num_pages) {
        return -1;
    }
    return query->pages[index] < query->problem->num_blocks && query->pages[index] >= 0
               ? query->pages[index]
               : -1;
}

#endif /* OPREG_CPU_ATTENTION_H */
