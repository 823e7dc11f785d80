/* SPDX-License-Identifier: MIT
 * attention_parts.h - parts of a softmax and how they are joined; inline, so that each vector unit's
 * file has them in its own instructions. */
#ifndef OPREG_CPU_ATTENTION_PARTS_H
#define OPREG_CPU_ATTENTION_PARTS_H

#include "cpu/cpu.h"

#define ATTENTION_MAX_DIM  512
#define ATTENTION_MAX_TREE 25 /* 2^31 positions are 2^23 segments */

/* Running softmax over some keys: maximum, sum, weighted values.  The rest is unset while no key
 * was used. */
typedef struct attention_part {
    int used;
    float m, l, o[ATTENTION_MAX_DIM];
} attention_part;

/* b, which has the higher positions, into a. */
static inline void attention_merge(attention_part *a, const attention_part *b, int32_t d) {
    float factor_a, factor_b;
    if (!b->used) {
        return;
    }
    if (!a->used) {
        a->used = 1;
        a->m = b->m;
        a->l = b->l;
        memcpy(a->o, b->o, (size_t)d * sizeof a->o[0]);
        return;
    }
    a->m = canonical_merge(a->m, b->m, &factor_a, &factor_b);
    a->l = a->l * factor_a + b->l * factor_b;
    for (int32_t e = 0; e < d; e++) {
        a->o[e] = a->o[e] * factor_a + b->o[e] * factor_b;
    }
}

/* Eight strands as a tree, into the first. */
static inline void attention_join_strands(attention_part *strands, int32_t d) {
    for (int distance = 1; distance < CANONICAL_STRANDS; distance *= 2) {
        for (int r = 0; r < CANONICAL_STRANDS; r += 2 * distance) {
            attention_merge(&strands[r], &strands[r + distance], d);
        }
    }
}

/* Segments 0 .. as a tree: 2j with 2j + 1, then those pairs; a node without a partner moves up.
 * parts[i] holds a finished node of 2^level[i] segments. */
typedef struct attention_stack {
    int depth, level[ATTENTION_MAX_TREE];
    attention_part parts[ATTENTION_MAX_TREE];
} attention_stack;

/* The place of the next segment, with no key used. */
static inline attention_part *attention_push(attention_stack *stack) {
    attention_part *part = &stack->parts[stack->depth];
    stack->level[stack->depth++] = 0;
    part->used = 0;
    return part;
}

/* After that segment is filled: joins the nodes that are whole. */
static inline void attention_settle(attention_stack *stack, int32_t d) {
    while (stack->depth > 1 && stack->level[stack->depth - 1] == stack->level[stack->depth - 2]) {
        stack->depth--;
        attention_merge(&stack->parts[stack->depth - 1], &stack->parts[stack->depth], d);
        stack->level[stack->depth - 1]++;
    }
}

/* After the last segment: the one part of all. */
static inline attention_part *attention_finish(attention_stack *stack, int32_t d) {
    if (stack->depth == 0) {
        return attention_push(stack);
    }
    for (; stack->depth > 1; stack->depth--) {
        attention_merge(&stack->parts[stack->depth - 2], &stack->parts[stack->depth - 1], d);
    }
    return &stack->parts[0];
}

#endif /* OPREG_CPU_ATTENTION_PARTS_H */
