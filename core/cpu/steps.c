/* SPDX-License-Identifier: MIT
 * steps.c - the steps between operators on the CPU: the arithmetic of steps.h, row after row. */
#include "steps.h"

#include "cpu/cpu.h"
#include "pool.h"
#include "steps_check.h"

static opreg_status refuse(const opreg_host *host, const char *what) {
    host->error(host->ctx, "%s", what);
    return OPREG_E_ARG;
}

/* Calls work(args) after the checks, with the float unit in the standard state. */
#define STEP(name)                                                                                 \
    static opreg_status run_##name(const opreg_host *host, const opreg_device *dev,               \
                                    const opreg_step_##name *args, void *stream) {                 \
        const char *wrong = step_##name##_wrong(args);                                             \
        uint32_t before;                                                                           \
        (void)dev;                                                                                 \
        (void)stream;                                                                              \
        if (wrong != NULL) {                                                                       \
            return refuse(host, wrong);                                                            \
        }                                                                                          \
        before = float_enter();                                                                    \
        wrong = name##_rows(args);                                                                 \
        float_leave(before);                                                                       \
        return wrong == NULL ? OPREG_OK : refuse(host, wrong);                                     \
    }

static const char *gather_rows(const opreg_step_gather *a) {
    const opreg_weight_view *table = a->table;
    const format_info *format = format_by_id(table->format);
    if (format == NULL) {
        return "gather: the table has a format of a plugin";
    }
    for (int64_t r = 0; r < a->rows; r++) {
        const uint8_t *row;
        float *y = a->y + r * table->k;
        if (a->ids[r] < 0 || a->ids[r] >= table->n) {
            memset(y, 0, (size_t)table->k * sizeof *y);
            continue;
        }
        row = (const uint8_t *)table->data + a->ids[r] * table->row_bytes;
        for (int64_t k = 0; k < table->k; k++) {
            y[k] = format->value(row + k / format->values * format->bytes,
                                 (int)(k % format->values), table->side);
            y[k] = format->side == FORMAT_SIDE_SCALE ? y[k] * table->side->tensor_scale : y[k];
            y[k] = y[k] * a->scale;
        }
    }
    return NULL;
}
STEP(gather)

CPU_HOT static float row_factor(const float *x, int64_t n, float epsilon) {
    float sums[32];
    for (int lane = 0; lane < 32; lane++) {
        sums[lane] = step_squares(x, n, lane);
    }
    return step_norm_factor(canonical_tree(sums), n, epsilon);
}

static void add_row(const opreg_step_norm *a, float *x, const float *delta) {
    float factor = a->delta_weight != NULL ? row_factor(delta, a->n, a->epsilon) : 0.0f;
    for (int64_t k = 0; k < a->n; k++) {
        x[k] = x[k] + (a->delta_weight != NULL ? step_norm(delta[k], factor, a->delta_weight[k])
                                               : delta[k]);
    }
}

static const char *norm_rows(const opreg_step_norm *a) {
    for (int64_t r = 0; r < a->rows; r++) {
        int64_t from = a->index != NULL ? a->index[r] : r;
        float *y = a->y != NULL ? a->y + r * a->n : NULL, factor;
        if (from < 0 || from >= a->x_rows) {
            memset(y, 0, (size_t)a->n * sizeof *y);
            continue;
        }
        if (a->delta != NULL) {
            add_row(a, a->x + r * a->n, a->delta + r * a->n);
        }
        factor = y != NULL ? row_factor(a->x + from * a->n, a->n, a->epsilon) : 0.0f;
        for (int64_t k = 0; y != NULL && k < a->n; k++) {
            y[k] = step_norm(a->x[from * a->n + k], factor, a->weight[k]);
        }
    }
    return NULL;
}
STEP(norm)

static void turn_head(const opreg_step_heads *a, float *head, const float *weight,
                      int32_t position) {
    if (weight != NULL) {
        float factor = row_factor(head, a->head_dim, a->epsilon);
        for (int32_t i = 0; i < a->head_dim; i++) {
            head[i] = step_norm(head[i], factor, weight[i]);
        }
    }
    if (position >= 0 && position < a->positions_most) {
        int64_t at = (int64_t)position * a->pairs;
        step_rotate(head, a->pairs, a->halves, a->cosines + at, a->sines + at, 0, 1);
    }
}

static const char *heads_rows(const opreg_step_heads *a) {
    for (int64_t t = 0; t < a->tokens; t++) {
        int32_t position = a->positions[t];
        int stored = position >= 0 && position < a->positions_most &&
                     step_fits(a->places[t], a->cache_elements, a->head_stride, a->kv_heads,
                               a->head_dim);
        for (int32_t h = 0; h < a->q_heads; h++) {
            turn_head(a, a->q + (t * a->q_heads + h) * a->head_dim, a->q_weight, position);
        }
        for (int32_t h = 0; h < a->kv_heads; h++) {
            int64_t head = (t * a->kv_heads + h) * a->head_dim;
            turn_head(a, a->k + head, a->k_weight, position);
            if (stored) {
                int64_t at = a->places[t] + h * a->head_stride;
                step_store(a->k + head, a->head_dim, a->k_cache, at, a->kv_dtype, 0, 1);
                step_store(a->v + head, a->head_dim, a->v_cache, at, a->kv_dtype, 0, 1);
            }
        }
    }
    return NULL;
}
STEP(heads)

static void softmax(float *x, int n) {
    float sums[32], max = step_softmax_max(x, n, 0, 1), sum;
    for (int lane = 0; lane < 32; lane++) {
        sums[lane] = step_softmax_exp(x, n, max, lane);
    }
    sum = canonical_tree(sums);
    for (int i = 0; i < n; i++) {
        x[i] = CANONICAL_DIV(x[i], sum);
    }
}

static const char *experts_rows(const opreg_step_experts *a) {
    for (int64_t t = 0; t < a->tokens; t++) {
        float *p = a->logits + t * a->experts, *weights = a->weights + t * a->top_k, sum = 0.0f;
        softmax(p, a->experts);
        for (int32_t slot = 0; slot < a->top_k; slot++) {
            int32_t best = 0;
            for (int32_t i = 1; i < a->experts; i++) {
                best = step_before(step_expert_order(p[i]), i, step_expert_order(p[best]), best)
                           ? i
                           : best;
            }
            a->ids[t * a->top_k + slot] = best;
            weights[slot] = p[best];
            sum = sum + p[best];
            p[best] = -1.0f;
        }
        sum = step_weight_sum(sum);
        for (int32_t slot = 0; slot < a->top_k; slot++) {
            weights[slot] = CANONICAL_DIV(weights[slot], sum);
        }
    }
    return NULL;
}
STEP(experts)

static const char *glu_rows(const opreg_step_glu *a) {
    for (int64_t i = 0; i < a->count; i++) {
        a->y[i] = canonical_glu(a->glu, a->gate[i], a->up[i], a->glu_alpha, a->glu_limit);
    }
    return NULL;
}
STEP(glu)

static const char *cap_rows(const opreg_step_cap *a) {
    for (int64_t i = 0; i < a->count; i++) {
        a->x[i] = step_cap(a->x[i], a->cap);
    }
    return NULL;
}
STEP(cap)

static const char *argmax_rows(const opreg_step_argmax *a) {
    for (int64_t r = 0; r < a->rows; r++) {
        const float *x = a->x + r * a->n;
        int64_t best = 0;
        for (int64_t i = 1; i < a->n; i++) {
            best = step_before(step_order(x[i]), i, step_order(x[best]), best) ? i : best;
        }
        a->ids[r] = (int32_t)best;
    }
    return NULL;
}
STEP(argmax)

static const char *compare_rows(const opreg_step_compare *a) {
    opreg_difference *d = &a->parts[0];
    for (int64_t row = 0; row < a->rows; row++) {
        for (int64_t column = 0; column < a->length; column++) {
            int64_t at = row * a->stride + column;
            if (step_compare_element(d, a->dtype, a->element, a->got, a->want, at) &&
                d->wrong == 1) {
                d->output = a->output;
                d->row = row;
                d->column = column;
                d->got = step_bits_at(a->got, at, a->element);
                d->want = step_bits_at(a->want, at, a->element);
            }
        }
    }
    return NULL;
}
STEP(compare)

const opreg_device_steps cpu_steps = {.struct_size = sizeof(opreg_device_steps),
                                      .gather = run_gather,
                                      .norm = run_norm,
                                      .heads = run_heads,
                                      .experts = run_experts,
                                      .glu = run_glu,
                                      .cap = run_cap,
                                      .argmax = run_argmax,
                                      .compare = run_compare};
