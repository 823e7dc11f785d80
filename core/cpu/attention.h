/* SPDX-License-Identifier: MIT
 * attention.h - one query token of one head: which keys it sees and where they are. */
#ifndef OPREG_CPU_ATTENTION_H
#define OPREG_CPU_ATTENTION_H

#include "cpu/attention_parts.h"

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

/* The page of a position whose entry is `index`, or -1 where the key is masked. */
static inline int64_t attention_page_at(const attention_query *query, int64_t position,
                                        int64_t index) {
    if (position < query->begin || position >= query->end || index >= query->num_pages) {
        return -1;
    }
    return query->pages[index] < query->problem->num_blocks && query->pages[index] >= 0
               ? query->pages[index]
               : -1;
}

static inline int64_t attention_page(const attention_query *query, int64_t position) {
    return attention_page_at(query, position, position / query->problem->block_size);
}

/* How a problem is cut: a unit is a token and up to four heads that share a KV head, and its keys are
 * in at most `splits` splits. */
typedef struct attention_cut {
    int64_t units, splits;
} attention_cut;
#define ATTENTION_HEADS 4

/* Of the problem alone: its workspace follows from it. */
attention_cut attention_cut_of(const opreg_paged_attn_decode *problem);

/* Segments of a split of a token that sees keys up to `end`: a power of two, so that the splits are
 * nodes of the segments' tree. */
int64_t attention_split_segments(const attention_cut *cut, int64_t end);

typedef struct attention_job {
    const opreg_paged_attn_decode *problem;
    const opreg_buf *bufs;
    attention_cut cut;
    attention_part *parts; /* [tokens, q_heads, splits]; unused with one split */
} attention_job;

/* Sets the query's q. */
void attention_load_query(const attention_job *job, int64_t token, int64_t head,
                          attention_query *query);

/* Joins the sink and writes the row and its lse; a part without a key is a zero row and -inf, with
 * sinks too. */
void attention_store(const attention_job *job, const attention_query *query, int64_t token,
                     int64_t head, attention_part *part);

/* The task functions of a vector unit; arg is an attention_job.  attend takes unit * splits + split and
 * fills a part, or with one split stores the row; combine takes a unit and stores its rows from its
 * parts.  Null where the compiler had no such unit.  May be called on any machine; what it returns may
 * not. */
typedef struct attention_tasks {
    void (*attend)(void *arg, int64_t task);
    void (*combine)(void *arg, int64_t unit);
} attention_tasks;
attention_tasks attention_tasks_avx2(void);
attention_tasks attention_tasks_avx512(void);

#define ATTENTION_LANES_MAX_DIM 256

#endif /* OPREG_CPU_ATTENTION_H */
