/* SPDX-License-Identifier: MIT
 * attention.h - one query token of one head: which keys it sees and where they are. */
#ifndef OPREG_CPU_ATTENTION_H
#define OPREG_CPU_ATTENTION_H

#include "cpu/cpu.h"

#define ATTENTION_MAX_DIM  512
#define ATTENTION_MAX_TREE 25 /* 2^31 positions are 2^23 segments */

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

typedef struct attention_job {
    const opreg_paged_attn_decode *problem;
    const opreg_buf *bufs;
} attention_job;

/* b, which has the higher positions, into a. */
void attention_merge(attention_part *a, const attention_part *b, int32_t d);

/* Eight strands as a tree, into the first. */
void attention_join_strands(attention_part *strands, int32_t d);

/* Segments 0 .. as a tree: 2j with 2j + 1, then those pairs; a node without a partner moves up.
 * parts[i] holds a finished node of 2^level[i] segments. */
typedef struct attention_stack {
    int depth, level[ATTENTION_MAX_TREE];
    attention_part parts[ATTENTION_MAX_TREE];
} attention_stack;

/* The place of the next segment, with no key used. */
attention_part *attention_push(attention_stack *stack);

/* After that segment is filled: joins the nodes that are whole. */
void attention_settle(attention_stack *stack, int32_t d);

/* After the last segment: the one part of all. */
attention_part *attention_finish(attention_stack *stack, int32_t d);

/* Sets the query's q. */
void attention_load_query(const attention_job *job, int64_t token, int64_t head,
                          attention_query *query);

/* Joins the sink and writes the row and its lse; a part without a key is a zero row and -inf, with
 * sinks too. */
void attention_store(const attention_job *job, const attention_query *query, int64_t token,
                     int64_t head, attention_part *part);

/* The task function of a vector unit and how many tasks a problem has; arg is an attention_job.
 * Null where the compiler had no such unit.  May be called on any machine; what it returns may not.
 */
typedef void (*attention_task)(void *arg, int64_t task);
attention_task attention_task_avx2(const opreg_paged_attn_decode *p, int64_t *tasks);
attention_task attention_task_avx512(const opreg_paged_attn_decode *p, int64_t *tasks);

#define ATTENTION_LANES_MAX_DIM 256

#endif /* OPREG_CPU_ATTENTION_H */
