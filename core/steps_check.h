/* SPDX-License-Identifier: MIT
 * steps_check.h - what is wrong with the arguments of a step, as far as the host can know: static text
 * for E_ARG, or null.  For every implementation of opreg_device_steps. */
#ifndef OPREG_STEPS_CHECK_H
#define OPREG_STEPS_CHECK_H

#include <stddef.h>

#include "opreg/opreg_plugin.h"

#define STEP_SIZE_WRONG(args) ((args) == NULL || (args)->struct_size != sizeof *(args))

/* 0 when a * b * c elements of 16 bytes cannot be counted.  None is below 0. */
static inline int step_counts(int64_t a, int64_t b, int64_t c) {
    const int64_t most = INT64_MAX / 16;
    return a == 0 || b == 0 || c == 0 || (a <= most / b && a * b <= most / c);
}

static inline const char *step_gather_wrong(const opreg_step_gather *a) {
    if (STEP_SIZE_WRONG(a) || a->rows < 0) {
        return "gather: struct_size is another, or rows is below 0";
    }
    if (a->table == NULL || a->table->layout != OPREG_LAYOUT_STORED || a->table->experts != 1 ||
        a->table->k < 1) {
        return "gather: the table is null, prepared, or has experts";
    }
    if (!step_counts(a->rows, a->table->k, 1)) {
        return "gather: the elements of y overflow 64 bits";
    }
    return a->rows > 0 && (a->ids == NULL || a->y == NULL) ? "gather: ids or y is null" : NULL;
}

static inline const char *step_norm_wrong(const opreg_step_norm *a) {
    if (STEP_SIZE_WRONG(a) || a->rows < 0 || a->n < 1 || !(a->epsilon >= 0.0f)) {
        return "norm: struct_size is another, rows or epsilon is below 0, or n below 1";
    }
    if (a->index == NULL ? a->x_rows != a->rows : a->delta != NULL || a->x_rows < 0) {
        return "norm: x_rows is not rows without an index, or there is an index and a delta";
    }
    if ((a->weight == NULL) != (a->y == NULL) || (a->weight == NULL && a->delta == NULL) ||
        (a->delta == NULL && a->delta_weight != NULL) || (a->rows > 0 && a->x == NULL)) {
        return "norm: x is null, or one of weight and y, or all that could be done";
    }
    if (!step_counts(a->rows, a->n, 1) || !step_counts(a->x_rows, a->n, 1)) {
        return "norm: the elements of x or y overflow 64 bits";
    }
    return NULL;
}

static inline const char *step_heads_wrong(const opreg_step_heads *a) {
    if (STEP_SIZE_WRONG(a) || a->tokens < 0 || a->q_heads < 0 || a->kv_heads < 1 ||
        a->head_dim < 1 || a->pairs < 0 || a->pairs > a->head_dim / 2 || a->positions_most < 0 ||
        a->cache_elements < 0 || a->head_stride < 0) {
        return "heads: struct_size is another, or a size is out of range";
    }
    if (a->kv_dtype != OPREG_F32 && a->kv_dtype != OPREG_F16 && a->kv_dtype != OPREG_BF16) {
        return "heads: kv_dtype is not F32, F16 or BF16";
    }
    if (a->tokens > 0 && ((a->q == NULL && a->q_heads > 0) || a->k == NULL || a->v == NULL ||
                          a->positions == NULL || a->places == NULL || a->k_cache == NULL ||
                          a->v_cache == NULL ||
                          (a->pairs > 0 && (a->cosines == NULL || a->sines == NULL)))) {
        return "heads: a pointer is null";
    }
    if (!step_counts(a->tokens, a->q_heads, a->head_dim) ||
        !step_counts(a->tokens, a->kv_heads, a->head_dim) ||
        !step_counts(a->positions_most, a->pairs, 1) || !step_counts(a->kv_heads, a->head_stride, 1)) {
        return "heads: the elements of q, k, the angles or the heads of a token overflow 64 bits";
    }
    return NULL;
}

static inline const char *step_experts_wrong(const opreg_step_experts *a) {
    if (STEP_SIZE_WRONG(a) || a->tokens < 0 || a->top_k < 1 || a->top_k > a->experts) {
        return "experts: struct_size is another, tokens is below 0, or top_k is not in 1..experts";
    }
    if (!step_counts(a->tokens, a->experts, 1)) {
        return "experts: the logits overflow 64 bits";
    }
    return a->tokens > 0 && (a->logits == NULL || a->ids == NULL || a->weights == NULL)
               ? "experts: a pointer is null"
               : NULL;
}

static inline const char *step_glu_wrong(const opreg_step_glu *a) {
    if (STEP_SIZE_WRONG(a) || a->count < 0 || a->glu < OPREG_GLU_SILU ||
        a->glu > OPREG_GLU_SWIGLU_OAI) {
        return "glu: struct_size is another, count is below 0, or glu is no kind";
    }
    return a->count > 0 && (a->gate == NULL || a->up == NULL || a->y == NULL)
               ? "glu: a pointer is null"
               : NULL;
}

static inline const char *step_cap_wrong(const opreg_step_cap *a) {
    if (STEP_SIZE_WRONG(a) || a->count < 0 || !(a->cap > 0.0f)) {
        return "cap: struct_size is another, count is below 0, or cap is not above 0";
    }
    return a->count > 0 && a->x == NULL ? "cap: x is null" : NULL;
}

static inline const char *step_argmax_wrong(const opreg_step_argmax *a) {
    if (STEP_SIZE_WRONG(a) || a->rows < 0 || a->n < 1 || a->n > INT32_MAX) {
        return "argmax: struct_size is another, rows is below 0, or n not in 1..2^31 - 1";
    }
    if (!step_counts(a->rows, a->n, 1)) {
        return "argmax: the elements of x overflow 64 bits";
    }
    return a->rows > 0 && (a->x == NULL || a->ids == NULL) ? "argmax: a pointer is null" : NULL;
}

static inline const char *step_compare_wrong(const opreg_step_compare *a) {
    uint32_t element;
    if (STEP_SIZE_WRONG(a)) {
        return "compare: struct_size is another";
    }
    element = a->dtype == OPREG_F32                                      ? 4u
              : a->dtype == OPREG_F16 || a->dtype == OPREG_BF16          ? 2u
              : a->dtype == 0u && (a->element == 1u || a->element == 2u) ? a->element
                                                                         : 4u;
    if (a->dtype > OPREG_BF16 || a->element != element || a->rows < 0 ||
        a->length < 0 || a->stride < a->length) {
        return "compare: the dtype, the element or a size is out of range";
    }
    if (!step_counts(a->rows, a->stride, 1)) {
        return "compare: the elements overflow 64 bits";
    }
    return a->got == NULL || a->want == NULL || a->parts == NULL ? "compare: a pointer is null" : NULL;
}

#endif /* OPREG_STEPS_CHECK_H */
