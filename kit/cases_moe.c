/* SPDX-License-Identifier: MIT
 * cases_moe.c - cases of the grouped operators. */
#include <stdlib.h>
#include <string.h>

#include "cases.h"
#include "cases_far.h"
#include "formats/formats.h"
#include "moe.h"

/* Ids by the shape of the routing; every id of `used` may appear. */
static void draw_ids(random_state *random, uint32_t routing, int32_t experts, int32_t *ids,
                     int64_t count) {
    static const int32_t hostile[] = {-1, INT32_MAX, INT32_MIN};
    int32_t lone = (int32_t)random_below(random, (uint32_t)experts);
    for (int64_t i = 0; i < count; i++) {
        ids[i] = (int32_t)random_below(random, (uint32_t)experts);
        if (routing == ROUTING_ONE) {
            ids[i] = lone;
        } else if (routing == ROUTING_SOME_INVALID && random_below(random, 3) == 0) {
            ids[i] = random_below(random, 2) ? experts : hostile[random_below(random, 3)];
        } else if (routing == ROUTING_ALL_INVALID) {
            ids[i] = random_below(random, 2) ? experts : hostile[random_below(random, 3)];
        }
    }
}

int moe_route_make(random_state *random, job *out, uint32_t index, uint32_t routing, int64_t tokens,
                   int32_t top_k, int32_t experts, int by_token) {
    opreg_route_layout layout;
    int64_t pairs = tokens * top_k;
    int32_t *ids = calloc((size_t)pairs + 1, sizeof *ids);
    float *weights = calloc((size_t)pairs + 1, sizeof *weights);
    moe_notes *notes = calloc(1, sizeof *notes + (size_t)(2 * pairs + 2) * sizeof(int64_t));
    uint8_t *owned;
    memset(&layout, 0, sizeof layout);
    layout.struct_size = sizeof layout;
    out->extra = notes;
    if (ids == NULL || weights == NULL || notes == NULL ||
        opreg_route_layout_get(tokens, top_k, experts, &layout) != OPREG_OK ||
        !job_buffer_set(out, index, JOB_INPUT, JOB_I32, layout.bytes / 4) ||
        (owned = malloc(layout.bytes)) == NULL) {
        free(ids);
        free(weights);
        return 0;
    }
    notes->rows = pairs;
    notes->x_of = (int64_t *)(void *)(notes + 1);
    notes->expert_of = notes->x_of + pairs + 1;
    draw_ids(random, routing, experts, ids, pairs);
    for (int64_t i = 0; i < pairs; i++) {
        weights[i] = (float)random_unit(random);
    }
    route_spec spec = {tokens, top_k, experts, ids, weights, NULL};
    route_build(&spec, &layout, out->bufs[index].data, owned);
    moe_route_spoil(random, routing, &layout, tokens, experts, out->bufs[index].data);
    moe_notes_read(&layout, out->bufs[index].data, tokens, experts, by_token, notes);
    /* unused capacity must not matter, but where a hostile count makes it used */
    out->bufs[index].align = 16;
    if (routing != ROUTING_COUNTS) {
        out->bufs[index].loose = calloc(layout.bytes, 1);
        for (uint64_t at = 0; out->bufs[index].loose != NULL && at < layout.bytes; at++) {
            out->bufs[index].loose[at] = owned[at] == 2;
        }
    }
    free(owned);
    free(ids);
    free(weights);
    return 1;
}

int moe_weights_loose(job_weight *weight, const moe_notes *notes) {
    if (weight->loose == NULL) {
        weight->loose = calloc(weight->bytes + 1, 1);
    }
    for (int64_t e = 0; weight->loose != NULL && e < weight->experts; e++) {
        int used = 0;
        for (int64_t r = 0; r < notes->rows; r++) {
            used |= notes->expert_of[r] == e;
        }
        if (!used) {
            memset(weight->loose + e * weight->expert_stride, 1,
                   (size_t)(weight->n * weight->row_bytes));
        }
    }
    return weight->loose != NULL;
}

/* Rows of x that no valid entry reads must not matter. */
static void unused_rows_loose(job_buffer *x, const moe_notes *notes, int64_t rows, int64_t stride,
                              int64_t k) {
    uint64_t size = element_bytes(x->dtype);
    for (int64_t row = 0; row < rows; row++) {
        int used = 0;
        for (int64_t r = 0; r < notes->rows; r++) {
            used |= notes->x_of[r] == row;
        }
        if (!used && x->loose != NULL) {
            memset(x->loose + (uint64_t)(row * stride) * size, 1, (size_t)k * size);
        }
    }
}

/* Rows that no entry names stay as they are, rows that several name may hold anything. */
static void own_rows(job_buffer *y, const moe_notes *notes, int64_t n, int64_t stride) {
    uint64_t size = element_bytes(y->dtype);
    for (int64_t row = 0; row < notes->rows; row++) {
        if (notes->x_of[row] < MOE_ZERO) {
            memset(y->owned + (uint64_t)(row * stride) * size, notes->x_of[row] == MOE_TWICE ? 2 : 0,
                   (size_t)n * size);
        }
    }
}

/* So may tokens with such a row. */
static void own_tokens(job_buffer *y, const moe_notes *notes, int32_t top_k, int64_t n,
                       int64_t stride) {
    uint64_t size = element_bytes(y->dtype);
    for (int64_t row = 0; row < notes->rows; row++) {
        if (notes->x_of[row] == MOE_TWICE) {
            memset(y->owned + (uint64_t)(row / top_k * stride) * size, 2, (size_t)n * size);
        }
    }
}

static void moe_shape(const case_key *key, const format_info *info, opreg_moe_matmul *p) {
    static const int64_t slots[] = {1, 2, 3, 4, 6, 8};
    static const int64_t experts[] = {1, 2, 3, 5, 8, 9, 17, 40};
    static const int64_t k_blocks[] = {1, 2, 3, 4, 5, 8, 9, 33, 129};
    int64_t step = weight_k_step(key->format), most;
    /* the number of pairs runs through 0..130 over the formats */
    int64_t pairs = (int64_t)((key->index * 19 + key->format * 7 + (uint32_t)key->op * 31) % 131);
    p->top_k = (int32_t)PICK(key, "slots", slots);
    p->tokens = pairs / p->top_k;
    p->experts = (int32_t)PICK(key, "experts", experts);
    p->n = PICK(key, "n", n_edges);
    p->k = step * PICK(key, "k", k_blocks) * (info->values == 1 ? 13 : 1);
    if (key->index == 0) {
        p->tokens = 5;
        p->top_k = 3;
        p->n = 33;
        p->k = step * (info->values == 1 ? 264 : 2);
    }
    if (p->k > 2048) {
        p->tokens = p->tokens < 3 ? p->tokens : 3;
        p->experts = p->experts < 3 ? p->experts : 3;
    }
    most = 600000 / (p->k * (p->tokens * p->top_k + p->experts));
    p->n = p->n < most ? p->n : most > 1 ? most : 1;
}

static int make_x(const case_key *key, random_state *data, job *out, const format_info *info) {
    static const int64_t pads[] = {0, 0, 1, 8};
    static const uint32_t planes[] = {OPREG_MOE_X, OPREG_MOE_X_SCALES, OPREG_MOE_X_SUMS};
    opreg_moe_matmul *p = &out->problem.moe;
    const moe_notes *notes = out->extra;
    int64_t rows = p->x_rows == OPREG_X_BY_TOKEN ? p->tokens : p->tokens * p->top_k;
    p->x_stride = p->k;
    rows = p->n == 0 ? 0 : rows;
    if (p->x_dtype == info->act_dtype && info->act_dtype != OPREG_F32) {
        return case_planes(data, out, planes, p->x_dtype, rows, p->k);
    }
    p->x_stride += PICK(key, "x pad", pads);
    if (!case_rows(data, out, OPREG_MOE_X, p->x_dtype, rows, p->k, p->x_stride)) {
        return 0;
    }
    if (p->glu != OPREG_GLU_NONE && out->data == DATA_GAUSSIAN) {
        data_rows_shrink(&out->bufs[OPREG_MOE_X], rows, p->k, p->x_stride);
    }
    unused_rows_loose(&out->bufs[OPREG_MOE_X], notes, rows, p->x_stride, p->k);
    return 1;
}

int case_make_moe(const case_key *key, job *out) {
    static const int64_t pads[] = {0, 0, 1, 3, 16};
    static const int64_t routings[] = {
        ROUTING_PLAIN,      ROUTING_SOME_INVALID, ROUTING_ONE,   ROUTING_COUNTS,
        ROUTING_BAD_DST,    ROUTING_BAD_TOKEN,    ROUTING_FEWER, ROUTING_ALL_INVALID,
        ROUTING_BAD_EXPERT, ROUTING_BAD_START,    ROUTING_SAME_DST};
    static const int64_t glus[] = {1, 2, 3, 4};
    opreg_moe_matmul *p = &out->problem.moe;
    const format_info *info = format_by_id(key->format);
    random_state shape = case_random(key, 0), data = case_random(key, 1);
    uint32_t routing;
    if (info == NULL) {
        return 0;
    }
    out->data = case_data(key);
    p->struct_size = sizeof *p;
    p->b_dtype = key->format;
    p->b_dialect = case_dialect(key, key->format);
    p->layout = OPREG_LAYOUT_STORED;
    if (is_far(key)) {
        far_moe(key, weight_k_step(key->format), p);
    } else {
        moe_shape(key, info, p);
    }
    p->x_dtype = (uint32_t)float_dtypes[key->index % 3];
    p->y_dtype = (uint32_t)float_dtypes[key->index / 3 % 3];
    if (info->act_dtype != OPREG_F32 && key->index % 5 == 4) {
        p->x_dtype = info->act_dtype;
    }
    p->x_rows = key->op == OPREG_OP_MOE_DOWN || key->index % 2 ? OPREG_X_BY_DST : OPREG_X_BY_TOKEN;
    p->glu = key->op == OPREG_OP_MOE_GLU ? (uint32_t)PICK(key, "glu", glus) : OPREG_GLU_NONE;
    case_glu(&shape, p->glu, &p->glu_alpha, &p->glu_limit);
    p->y_stride = p->n + PICK(key, "y pad", pads);
    case_dtypes(out, p->x_dtype, p->y_dtype);
    routing = key->index == 0 || is_far(key) ? ROUTING_PLAIN
                                             : (uint32_t)PICK(key, "routing", routings);
    if (!moe_route_make(&data, out, OPREG_MOE_ROUTE_BUF, routing, p->tokens, p->top_k, p->experts,
                        p->x_rows == OPREG_X_BY_TOKEN)) {
        return 0;
    }
    out->num_weights = key->op == OPREG_OP_MOE_GLU ? 2 : 1;
    shape = case_random_weights(key, shape);
    for (uint32_t i = 0; i < out->num_weights; i++) {
        if (!weight_make(&shape, out->data, key->format, p->b_dialect, p->experts, p->n, p->k,
                         &out->weights[i]) ||
            !moe_weights_loose(&out->weights[i], out->extra)) {
            return 0;
        }
        case_weight_place(&shape, &out->weights[i]);
    }
    if (!make_x(key, &data, out, info) ||
        !case_output(out, OPREG_MOE_Y, p->y_dtype, p->tokens * p->top_k, p->n, p->y_stride)) {
        return 0;
    }
    if (out->bufs[OPREG_MOE_Y].owned != NULL) {
        own_rows(&out->bufs[OPREG_MOE_Y], out->extra, p->n, p->y_stride);
    }
    return 1;
}

int case_make_ffn(const case_key *key, job *out) {
    static const int64_t pads[] = {0, 0, 1, 8};
    static const int64_t routings[] = {
        ROUTING_PLAIN,   ROUTING_SOME_INVALID, ROUTING_ONE,   ROUTING_COUNTS,
        ROUTING_BAD_DST, ROUTING_BAD_START,    ROUTING_FEWER, ROUTING_ALL_INVALID,
        ROUTING_BAD_EXPERT, ROUTING_BAD_TOKEN, ROUTING_SAME_DST};
    static const int64_t slots[] = {2, 1, 3, 4, 8};
    static const int64_t tokens[] = {9, 1, 2, 0, 5, 17};
    static const int64_t glus[] = {1, 2, 3, 4};
    static const int64_t downs[] = {OPREG_Q4_0, OPREG_Q8_0, OPREG_Q4_K, OPREG_Q6_K, OPREG_IQ4_NL,
                                    OPREG_F16,  OPREG_MXFP4, OPREG_GQH4, OPREG_Q2_K};
    opreg_moe_ffn *p = &out->problem.ffn;
    case_key down = *key;
    random_state shape = case_random(key, 0), data = case_random(key, 1);
    data_kind kind = key->index == 0 ? DATA_GAUSSIAN : case_data(key);
    uint32_t routing;
    int64_t step = weight_k_step(key->format);
    out->data = kind;
    p->struct_size = sizeof *p;
    p->x_dtype = (uint32_t)float_dtypes[key->index % 3];
    p->y_dtype = (uint32_t)float_dtypes[key->index / 3 % 3];
    p->b_dtype = key->format;
    p->b_dialect = case_dialect(key, key->format);
    p->down_dtype = key->index % 2 ? (uint32_t)PICK(key, "down", downs) : key->format;
    down.op = OPREG_OP_MOE_DOWN; /* the axis in another order than the gate's */
    p->down_dialect = case_dialect(&down, p->down_dtype);
    p->glu = (uint32_t)PICK(key, "glu", glus);
    case_glu(&shape, p->glu, &p->glu_alpha, &p->glu_limit);
    p->tokens = key->index == 0 ? 9 : PICK(key, "tokens", tokens);
    p->top_k = (int32_t)PICK(key, "slots", slots);
    p->experts = 1 + (int32_t)(key->index * 3 % 7);
    p->hidden = step * (step < 64 ? 1 + (int64_t)(64 / step) : 1);
    p->hidden = step == 1 ? 72 : p->hidden;
    p->inter = weight_k_step(p->down_dtype) == 1 ? 40 : weight_k_step(p->down_dtype);
    if (key->index % 4 == 0) { /* what a layout in groups of blocks needs */
        p->hidden = (p->hidden + 255) / 256 * 256;
        p->inter = (p->inter + 255) / 256 * 256;
    }
    if (is_far(key)) {
        far_ffn(key, step, weight_k_step(p->down_dtype), p);
    }
    p->x_stride = p->hidden + PICK(key, "x pad", pads);
    p->y_stride = p->hidden + PICK(key, "y pad", pads);
    p->weights_stride = p->top_k + PICK(key, "weights pad", pads);
    p->layout = p->down_layout = OPREG_LAYOUT_STORED;
    case_dtypes(out, p->x_dtype, p->y_dtype);
    routing = key->index == 0 || is_far(key) ? ROUTING_PLAIN
                                             : (uint32_t)PICK(key, "routing", routings);
    if (!moe_route_make(&data, out, OPREG_FFN_ROUTE, routing, p->tokens, p->top_k, p->experts, 1)) {
        return 0;
    }
    out->num_weights = 3;
    shape = case_random_weights(key, shape);
    for (uint32_t i = 0; i < 3; i++) {
        int ok = i < 2 ? weight_make(&shape, kind, p->b_dtype, p->b_dialect, p->experts, p->inter,
                                     p->hidden, &out->weights[i])
                       : weight_make(&shape, kind, p->down_dtype, p->down_dialect, p->experts,
                                     p->hidden, p->inter, &out->weights[i]);
        if (!ok || !moe_weights_loose(&out->weights[i], out->extra)) {
            return 0;
        }
        case_weight_place(&shape, &out->weights[i]);
    }
    if (!case_rows(&data, out, OPREG_FFN_X, p->x_dtype, p->tokens, p->hidden, p->x_stride)) {
        return 0;
    }
    if (kind == DATA_GAUSSIAN) {
        data_rows_shrink(&out->bufs[OPREG_FFN_X], p->tokens, p->hidden, p->x_stride);
    }
    out->data = DATA_GAUSSIAN;
    if (!case_rows(&data, out, OPREG_FFN_WEIGHTS, OPREG_F32, p->tokens, p->top_k,
                   p->weights_stride)) {
        return 0;
    }
    out->data = kind;
    if (!case_output(out, OPREG_FFN_Y, p->y_dtype, p->tokens, p->hidden, p->y_stride)) {
        return 0;
    }
    if (out->bufs[OPREG_FFN_Y].owned != NULL) {
        own_tokens(&out->bufs[OPREG_FFN_Y], out->extra, p->top_k, p->hidden, p->y_stride);
    }
    return 1;
}
