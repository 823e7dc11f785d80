/* SPDX-License-Identifier: MIT
 * test_cpu_moe.c - the MoE stages of the CPU backend: the route against one built entry by entry,
 * the grouped operators against matmul_bt_quant row by row, and double precision. */
#include "cpu_harness.h"

/* ---- routes -------------------------------------------------------------------------------------
 */

typedef struct test_route {
    opreg_route_layout layout;
    uint8_t *bytes;
} test_route;

static int32_t *route_array(const test_route *r, uint64_t offset) {
    return (void *)(r->bytes + offset);
}

static test_route route_make(int64_t tokens, int32_t top_k, int32_t experts, int fill) {
    test_route r = {.layout = {.struct_size = sizeof r.layout}};
    assert_int_equal(opreg_route_layout_get(tokens, top_k, experts, &r.layout), OPREG_OK);
    r.bytes = aligned_alloc(16, (size_t)r.layout.bytes);
    memset(r.bytes, fill, (size_t)r.layout.bytes);
    return r;
}

static test_route route_run(const opreg_moe_route *p, const int32_t *ids, const float *weights,
                            const int32_t *row_map, int fill) {
    test_route r = route_make(p->tokens, p->top_k, p->experts, fill);
    opreg_buf bufs[OPREG_ROUTE_BUFS] = {{NULL, 0}};
    bufs[OPREG_ROUTE_ROUTE].ptr = r.bytes;
    bufs[OPREG_ROUTE_IDS].ptr = (void *)(uintptr_t)ids;
    bufs[OPREG_ROUTE_WEIGHTS].ptr = (void *)(uintptr_t)weights;
    bufs[OPREG_ROUTE_ROW_MAP].ptr = (void *)(uintptr_t)row_map;
    run_baseline(OPREG_OP_MOE_ROUTE, p, bufs, OPREG_ROUTE_BUFS, NULL, 0);
    return r;
}

/* The route as contracts.md words it: for each entry that is the first of its expert, all entries
 * of that expert; then the entries without an expert. */
static test_route route_by_hand(const opreg_moe_route *p, const int32_t *ids, const float *weights,
                                const int32_t *row_map) {
    test_route r = route_make(p->tokens, p->top_k, p->experts, 0);
    int32_t *expert = route_array(&r, r.layout.group_expert);
    int32_t *start = route_array(&r, r.layout.group_start);
    int32_t *token = route_array(&r, r.layout.entry_token);
    int32_t *dst = route_array(&r, r.layout.entry_dst);
    float *weight = (void *)route_array(&r, r.layout.entry_weight);
    opreg_route_header *header = (void *)r.bytes;
    int32_t entries = (int32_t)(p->tokens * p->top_k), placed = 0, groups = 0;
    int32_t *id = calloc((size_t)entries + 1, sizeof *id), *done = calloc((size_t)entries + 1, 4);
    for (int32_t e = 0; e < entries; e++) {
        id[e] = ids[e / p->top_k * p->ids_stride + e % p->top_k];
    }
    for (int pass = 0; pass < 2; pass++) {
        for (int32_t e = 0; e < entries; e++) {
            int valid = id[e] >= 0 && id[e] < p->experts;
            if (done[e] || valid == pass) {
                continue;
            }
            expert[groups] = valid ? id[e] : -1;
            start[groups++] = placed;
            for (int32_t f = e; f < entries; f++) {
                int other = id[f] >= 0 && id[f] < p->experts;
                if (other == valid && (!valid || id[f] == id[e])) {
                    float w = weights == NULL
                                  ? 1.0f
                                  : weights[f / p->top_k * p->weights_stride + f % p->top_k];
                    done[f] = 1;
                    token[placed] = row_map == NULL ? f / p->top_k : row_map[f];
                    dst[placed] = f;
                    weight[placed++] = valid ? w : 0.0f;
                }
            }
        }
    }
    start[groups] = placed;
    header->groups = (uint32_t)groups;
    header->entries = (uint32_t)entries;
    header->cap_groups = r.layout.cap_groups;
    header->cap_entries = r.layout.cap_entries;
    free(id);
    free(done);
    return r;
}

static void expect_route_by_hand(const opreg_moe_route *p, const int32_t *ids, const float *weights,
                                 const int32_t *row_map) {
    test_route expected = route_by_hand(p, ids, weights, row_map);
    for (int fill = 0; fill < 256; fill += 165) {
        test_route got = route_run(p, ids, weights, row_map, fill);
        assert_memory_equal(got.bytes, expected.bytes, expected.layout.bytes);
        free(got.bytes);
    }
    free(expected.bytes);
}

static void a_route_orders_groups_by_first_entry_and_ends_with_the_invalid(void **state) {
    const int32_t ids[] = {5, 2, -1, 2, 7, 5, 8, INT32_MAX, 0, 2, INT32_MIN, 5};
    const float weights[] = {.1f, .2f, NAN, .4f, .5f, .6f, .7f, .8f, .9f, 1.f, 1.1f, 1.2f};
    const int32_t groups[] = {5, 2, 7, 0, -1};
    const int32_t starts[] = {0, 3, 6, 7, 8, 12};
    const int32_t dsts[] = {0, 5, 11, 1, 3, 9, 4, 8, 2, 6, 7, 10};
    const opreg_moe_route p = {.struct_size = sizeof p,
                               .form = OPREG_ROUTE_TOPK,
                               .tokens = 6,
                               .top_k = 2,
                               .experts = 8,
                               .ids_stride = 2,
                               .weights_stride = 2};
    test_route r;
    (void)state;
    r = route_run(&p, ids, weights, NULL, 0xff);
    assert_int_equal(((opreg_route_header *)(void *)r.bytes)->groups, 5);
    assert_memory_equal(route_array(&r, r.layout.group_expert), groups, sizeof groups);
    assert_memory_equal(route_array(&r, r.layout.group_start), starts, sizeof starts);
    assert_memory_equal(route_array(&r, r.layout.entry_dst), dsts, sizeof dsts);
    for (int i = 0; i < 12; i++) {
        assert_int_equal(route_array(&r, r.layout.entry_token)[i], dsts[i] / 2);
        assert_int_equal(route_array(&r, r.layout.entry_weight)[i],
                         i < 8 ? (int32_t)bits_of(weights[dsts[i]]) : 0);
    }
    free(r.bytes);
    expect_route_by_hand(&p, ids, weights, NULL);
}

static void random_routes_have_the_same_bytes_as_by_hand(void **state) {
    int32_t ids[600], row_map[600];
    float weights[600];
    (void)state;
    random_state = 21;
    for (int round = 0; round < 60; round++) {
        opreg_moe_route p = {.struct_size = sizeof p,
                             .form = round % 2 ? OPREG_ROUTE_PAIRS : OPREG_ROUTE_TOPK,
                             .tokens = random_below(33),
                             .top_k = (int32_t)random_below(8) + 1,
                             .experts = (int32_t)random_below(round % 3 ? 12 : 200) + 1};
        p.ids_stride = p.top_k + (round % 2 ? 0 : round % 5);
        p.weights_stride = p.top_k + (round % 2 ? 0 : round % 7);
        for (int i = 0; i < 600; i++) {
            ids[i] = (int32_t)random_below(p.experts + 2) - 1;
            row_map[i] = (int32_t)random_below(p.tokens + 3) - 1;
            weights[i] = random_gaussian();
        }
        expect_route_by_hand(&p, ids, round % 4 == 1 ? NULL : weights,
                             p.form == OPREG_ROUTE_PAIRS ? row_map : NULL);
    }
}

static void routes_of_no_token_one_expert_and_no_expert_are_whole(void **state) {
    const float weights[12] = {0};
    int32_t ids[12];
    opreg_moe_route p = {.struct_size = sizeof p,
                         .form = OPREG_ROUTE_TOPK,
                         .tokens = 0,
                         .top_k = 3,
                         .experts = 4,
                         .ids_stride = 3,
                         .weights_stride = 3};
    (void)state;
    memset(ids, 0, sizeof ids);
    expect_route_by_hand(&p, ids, weights, NULL);
    p.tokens = 4;
    expect_route_by_hand(&p, ids, weights, NULL);
    memset(ids, 0xff, sizeof ids);
    expect_route_by_hand(&p, ids, weights, NULL);
}

/* ---- grouped operators --------------------------------------------------------------------------
 */

typedef struct moe_case {
    opreg_moe_matmul problem;
    test_weight weights[2];
    test_route route;
    int32_t *ids;
    void *x, *y;
    int64_t x_rows, entries;
} moe_case;

static moe_case moe_make(const format_info *format, int64_t tokens, int32_t top_k, int32_t experts,
                         int64_t n, int64_t k, uint32_t x_dtype, uint32_t x_rows) {
    moe_case c = {.problem = {.struct_size = sizeof c.problem,
                              .x_dtype = x_dtype,
                              .b_dtype = format->id,
                              .y_dtype = OPREG_F32,
                              .tokens = tokens,
                              .n = n,
                              .k = k,
                              .experts = experts,
                              .top_k = top_k,
                              .x_stride = k + 3,
                              .y_stride = n + 2,
                              .x_rows = x_rows}};
    const opreg_moe_route route = {.struct_size = sizeof route,
                                   .form = OPREG_ROUTE_TOPK,
                                   .tokens = tokens,
                                   .top_k = top_k,
                                   .experts = experts,
                                   .ids_stride = top_k,
                                   .weights_stride = top_k};
    float *weights = calloc((size_t)(tokens * top_k) + 1, sizeof *weights);
    c.entries = tokens * top_k;
    c.x_rows = x_rows == OPREG_X_BY_TOKEN ? tokens : c.entries;
    c.weights[0] = weight_make(format, experts, n, k);
    c.weights[1] = weight_make(format, experts, n, k);
    c.ids = calloc((size_t)c.entries + 1, sizeof *c.ids);
    for (int64_t i = 0; i < c.entries; i++) {
        c.ids[i] = (int32_t)random_below(experts + 2) - 1;
    }
    c.route = route_run(&route, c.ids, weights, NULL, 0xff);
    c.x = malloc((size_t)(c.x_rows * c.problem.x_stride) * 4 + 1);
    for (int64_t i = 0; i < c.x_rows * c.problem.x_stride; i++) {
        canonical_store(c.x, i, x_dtype, random_gaussian());
    }
    c.y = NULL;
    free(weights);
    return c;
}

static void moe_free(moe_case *c) {
    weight_free(&c->weights[0]);
    weight_free(&c->weights[1]);
    free(c->route.bytes);
    free(c->ids);
    free(c->x);
    free(c->y);
}

static void moe_run(moe_case *c, opreg_op op) {
    const opreg_weight_view *views[2] = {&c->weights[0].view, &c->weights[1].view};
    opreg_buf bufs[OPREG_MOE_BUFS] = {{NULL, 0}};
    free(c->y);
    c->y = malloc((size_t)(c->entries * c->problem.y_stride) * 4 + 1);
    memset(c->y, 0xff, (size_t)(c->entries * c->problem.y_stride) * 4);
    bufs[OPREG_MOE_Y].ptr = c->y;
    bufs[OPREG_MOE_X].ptr = c->x;
    bufs[OPREG_MOE_ROUTE_BUF].ptr = c->route.bytes;
    run_baseline(op, &c->problem, bufs, OPREG_MOE_BUFS, views, op == OPREG_OP_MOE_GLU ? 2 : 1);
}

/* Row of x times one expert's weights (and the GLU) by matmul_bt_quant. */
static void dense_row(const moe_case *c, int64_t x_row, int64_t expert, void *out) {
    const opreg_moe_matmul *p = &c->problem;
    const opreg_matmul_bt_quant dense = {.struct_size = sizeof dense,
                                         .x_dtype = p->x_dtype,
                                         .b_dtype = p->b_dtype,
                                         .y_dtype = p->y_dtype,
                                         .glu = p->glu,
                                         .glu_alpha = p->glu_alpha,
                                         .glu_limit = p->glu_limit,
                                         .m = 1,
                                         .n = p->n,
                                         .k = p->k,
                                         .x_stride = p->k,
                                         .y_stride = p->n};
    opreg_weight_view one[2] = {c->weights[0].view, c->weights[1].view};
    const opreg_weight_view *views[2] = {&one[0], &one[1]};
    opreg_buf bufs[OPREG_MATMUL_BUFS] = {{NULL, 0}};
    for (int i = 0; i < 2; i++) {
        one[i].experts = 1;
        one[i].data = (const uint8_t *)one[i].data + expert * one[i].expert_stride;
        one[i].side = one[i].side + expert;
    }
    bufs[OPREG_MATMUL_Y].ptr = out;
    bufs[OPREG_MATMUL_X].ptr =
        (uint8_t *)c->x + (size_t)(x_row * p->x_stride) * element_size(p->x_dtype);
    run_baseline(OPREG_OP_MATMUL_BT_QUANT, &dense, bufs, OPREG_MATMUL_BUFS, views,
                 p->glu == OPREG_GLU_NONE ? 1 : 2);
}

static void expect_rows_as_dense(const moe_case *c) {
    const opreg_moe_matmul *p = &c->problem;
    size_t size = element_size(p->y_dtype);
    uint8_t *row = malloc((size_t)p->n * size), *zeros = calloc((size_t)p->n, size);
    for (int64_t dst = 0; dst < c->entries; dst++) {
        const uint8_t *got = (uint8_t *)c->y + (size_t)(dst * p->y_stride) * size;
        int valid = c->ids[dst] >= 0 && c->ids[dst] < p->experts;
        if (valid) {
            dense_row(c, p->x_rows == OPREG_X_BY_TOKEN ? dst / p->top_k : dst, c->ids[dst], row);
        }
        assert_memory_equal(got, valid ? row : zeros, (size_t)p->n * size);
        for (size_t i = (size_t)p->n * size; i < (size_t)p->y_stride * size; i++) {
            assert_int_equal(got[i], 0xff);
        }
    }
    free(row);
    free(zeros);
}

static void grouped_rows_have_the_bits_of_dense_rows_in_every_format(void **state) {
    (void)state;
    random_state = 22;
    for (size_t i = 0; i < format_count(); i++) {
        uint32_t rows = i % 2 ? OPREG_X_BY_TOKEN : OPREG_X_BY_DST;
        moe_case c = moe_make(format_at(i), 5, 3, 4, 7, 256, float_dtypes[i % 3], rows);
        c.problem.y_dtype = float_dtypes[i / 3 % 3];
        moe_run(&c, OPREG_OP_MOE_MATMUL);
        expect_rows_as_dense(&c);
        moe_free(&c);
    }
}

static void moe_glu_has_the_bits_of_the_pair_form(void **state) {
    (void)state;
    random_state = 23;
    for (uint32_t glu = OPREG_GLU_SILU; glu <= OPREG_GLU_SWIGLU_OAI; glu++) {
        moe_case c = moe_make(format_by_id(glu % 2 ? OPREG_MXFP4 : OPREG_Q4_K), 6, 2, 5, 33, 256,
                              OPREG_BF16, OPREG_X_BY_TOKEN);
        c.problem.glu = glu;
        c.problem.glu_alpha = glu == OPREG_GLU_SWIGLU_OAI ? 1.702f : 0.0f;
        c.problem.glu_limit =
            glu == OPREG_GLU_SWIGLU_OAI || glu == OPREG_GLU_SILU_CLAMPED ? 7.0f : 0.0f;
        moe_run(&c, OPREG_OP_MOE_GLU);
        expect_rows_as_dense(&c);
        moe_free(&c);
    }
}

/* Rows of h whose entry has no expert hold NaN, then huge values: no bit may change. */
static void moe_down_reads_only_the_rows_that_count(void **state) {
    (void)state;
    random_state = 24;
    for (int f = 0; f < 2; f++) {
        moe_case c = moe_make(format_by_id(f ? OPREG_Q5_K : OPREG_F16), 7, 2, 3, 20, 256, OPREG_F32,
                              OPREG_X_BY_DST);
        void *first = NULL;
        for (int fill = 0; fill < 2; fill++) {
            for (int64_t i = 0; i < c.entries * c.problem.x_stride; i++) {
                int64_t dst = i / c.problem.x_stride;
                int counts = c.ids[dst] >= 0 && c.ids[dst] < 3 && i % c.problem.x_stride < 256;
                if (!counts) {
                    ((float *)c.x)[i] = fill ? NAN : 3e38f;
                }
            }
            moe_run(&c, OPREG_OP_MOE_DOWN);
            if (fill == 0) {
                expect_rows_as_dense(&c);
                first = c.y;
                c.y = NULL;
            } else {
                assert_memory_equal(first, c.y, (size_t)(c.entries * c.problem.y_stride) * 4);
            }
        }
        free(first);
        moe_free(&c);
    }
}

static void grouped_results_stay_in_the_band_of_double_precision(void **state) {
    double error = 0.0, power = 0.0;
    moe_case c;
    (void)state;
    random_state = 25;
    c = moe_make(format_by_id(OPREG_Q6_K), 20, 2, 3, 24, 512, OPREG_F32, OPREG_X_BY_TOKEN);
    moe_run(&c, OPREG_OP_MOE_MATMUL);
    for (int64_t dst = 0; dst < c.entries; dst++) {
        if (c.ids[dst] < 0 || c.ids[dst] >= 3) {
            continue;
        }
        for (int64_t n = 0; n < 24; n++) {
            double exact = 0.0, difference;
            for (int64_t k = 0; k < 512; k++) {
                exact += weight_value(&c.weights[0], c.ids[dst], n, k) *
                         (double)((float *)c.x)[dst / 2 * c.problem.x_stride + k];
            }
            difference = (double)((float *)c.y)[dst * c.problem.y_stride + n] - exact;
            error += difference * difference;
            power += exact * exact;
        }
    }
    assert_true(error <= 5e-4 * power);
    moe_free(&c);
}

/* A route is data: every count, start, expert, token and destination may be anything. */
static void a_hostile_route_writes_nothing_outside_y_and_zeroes_lost_rows(void **state) {
    moe_case c;
    opreg_route_header *header;
    int32_t *expert, *start, *token, *dst;
    float *y;
    (void)state;
    random_state = 26;
    c = moe_make(format_by_id(OPREG_Q8_0), 4, 2, 4, 9, 64, OPREG_F32, OPREG_X_BY_TOKEN);
    c.problem.y_stride = 9;
    header = (void *)c.route.bytes;
    expert = route_array(&c.route, c.route.layout.group_expert);
    start = route_array(&c.route, c.route.layout.group_start);
    token = route_array(&c.route, c.route.layout.entry_token);
    dst = route_array(&c.route, c.route.layout.entry_dst);
    header->groups = UINT32_MAX;
    header->entries = UINT32_MAX;
    for (int g = 0; g < 5; g++) {
        expert[g] = g == 0 ? 2 : g == 1 ? 4 : g == 2 ? INT32_MAX : -7;
        start[g] = g == 0 ? INT32_MIN : 3 + g;
    }
    start[5] = INT32_MAX;
    for (int e = 0; e < 8; e++) {
        token[e] = e == 1 ? 4 : e == 2 ? -1 : 0;
        dst[e] = e == 3 ? 8 : e == 4 ? INT32_MIN : e;
    }
    moe_run(&c, OPREG_OP_MOE_MATMUL);
    y = c.y;
    for (int64_t i = 0; i < 8 * 9; i++) {
        switch (i / 9) {
        case 0: /* the one that counts */
            assert_true(y[i] == y[i]);
            break;
        case 3: /* destinations that no entry names */
        case 4:
            assert_true(isnan(y[i]));
            break;
        default: /* no token, or no expert */
            assert_int_equal(bits_of(y[i]), 0);
        }
    }
    for (int round = 0; round < 500; round++) { /* any bytes at all: nothing outside, no crash */
        for (uint64_t i = 0; i < c.route.layout.bytes; i++) {
            c.route.bytes[i] =
                (uint8_t)(random_below(3) ? random_below(9) : (int64_t)random_bits());
        }
        moe_run(&c, OPREG_OP_MOE_MATMUL);
    }
    moe_free(&c);
}

/* ---- combine and the whole ----------------------------------------------------------------------
 */

static void combine_adds_slots_ascending_with_two_roundings(void **state) {
    (void)state;
    random_state = 27;
    for (int d = 0; d < 9; d++) {
        const opreg_moe_combine p = {.struct_size = sizeof p,
                                     .x_dtype = float_dtypes[d % 3],
                                     .y_dtype = float_dtypes[d / 3],
                                     .top_k = 5,
                                     .tokens = 3,
                                     .n = 17,
                                     .x_stride = 19,
                                     .y_stride = 18,
                                     .weights_stride = 6};
        float rows[15 * 19], weights[3 * 6], y[3 * 18], expected[1];
        opreg_buf bufs[OPREG_COMBINE_BUFS] = {{y, 0}, {rows, 0}, {weights, 0}};
        for (int i = 0; i < 18; i++) {
            weights[i] = random_gaussian();
        }
        for (int64_t i = 0; i < 15 * 19; i++) {
            canonical_store(rows, i, p.x_dtype, random_gaussian());
        }
        memset(y, 0xff, sizeof y);
        run_baseline(OPREG_OP_MOE_COMBINE, &p, bufs, OPREG_COMBINE_BUFS, NULL, 0);
        for (int64_t t = 0; t < 3; t++) {
            for (int64_t n = 0; n < 17; n++) {
                float sum = 0.0f;
                for (int64_t slot = 0; slot < 5; slot++) {
                    float product = weights[t * 6 + slot] *
                                    canonical_load(rows, (t * 5 + slot) * 19 + n, p.x_dtype);
                    sum = sum + product;
                }
                canonical_store(expected, 0, p.y_dtype, sum);
                assert_int_equal(element_bits(y, t * 18 + n, p.y_dtype),
                                 element_bits(expected, 0, p.y_dtype));
            }
            assert_memory_equal((uint8_t *)y + (size_t)(t * 18 + 17) * element_size(p.y_dtype),
                                "\xff\xff\xff\xff", element_size(p.y_dtype));
        }
    }
}

/* moe_ffn against its three stages run one by one, in every host order. */
static void the_whole_ffn_has_the_bits_of_its_stages(void **state) {
    const uint32_t ups[] = {OPREG_Q4_K, OPREG_MXFP4, OPREG_F16};
    const uint32_t downs[] = {OPREG_Q6_K, OPREG_Q8_0, OPREG_BF16};
    (void)state;
    random_state = 28;
    for (int f = 0; f < 3; f++) {
        const int64_t tokens = 5, hidden = 256, inter = 512;
        moe_case up = moe_make(format_by_id(ups[f]), tokens, 2, 3, inter, hidden, OPREG_F16,
                               OPREG_X_BY_TOKEN);
        moe_case down = moe_make(format_by_id(downs[f]), tokens, 2, 3, hidden, inter, OPREG_F32,
                                 OPREG_X_BY_DST);
        opreg_moe_ffn ffn = {.struct_size = sizeof ffn,
                             .x_dtype = OPREG_F16,
                             .y_dtype = OPREG_BF16,
                             .b_dtype = ups[f],
                             .down_dtype = downs[f],
                             .glu = OPREG_GLU_SILU,
                             .tokens = tokens,
                             .hidden = hidden,
                             .inter = inter,
                             .experts = 3,
                             .top_k = 2,
                             .x_stride = up.problem.x_stride,
                             .y_stride = hidden + 1,
                             .weights_stride = 2};
        const opreg_moe_combine combine = {.struct_size = sizeof combine,
                                           .x_dtype = OPREG_F32,
                                           .y_dtype = OPREG_BF16,
                                           .top_k = 2,
                                           .tokens = tokens,
                                           .n = hidden,
                                           .x_stride = hidden + 2,
                                           .y_stride = hidden + 1,
                                           .weights_stride = 2};
        const opreg_weight_view *views[3] = {&up.weights[0].view, &up.weights[1].view,
                                             &down.weights[0].view};
        float router[10];
        uint16_t expected[5 * 257], got[5 * 257];
        opreg_buf combine_bufs[OPREG_COMBINE_BUFS] = {{expected, 0}, {NULL, 0}, {router, 0}};
        opreg_buf ffn_bufs[OPREG_FFN_BUFS] = {
            {got, 0}, {up.x, 0}, {up.route.bytes, 0}, {router, 0}};
        for (int i = 0; i < 10; i++) {
            router[i] = random_gaussian();
        }
        up.problem.glu = OPREG_GLU_SILU;
        up.problem.y_stride = inter;
        moe_run(&up, OPREG_OP_MOE_GLU);
        memcpy(down.route.bytes, up.route.bytes, (size_t)up.route.layout.bytes);
        free(down.x);
        down.x = up.y;
        down.problem.x_stride = inter;
        moe_run(&down, OPREG_OP_MOE_DOWN);
        combine_bufs[OPREG_COMBINE_ROWS].ptr = down.y;
        memset(expected, 0xff, sizeof expected);
        run_baseline(OPREG_OP_MOE_COMBINE, &combine, combine_bufs, OPREG_COMBINE_BUFS, NULL, 0);
        for (int order = HOST_ASCENDING; order <= HOST_THREADS; order++) {
            current_order = (host_order)order;
            memset(got, 0xff, sizeof got);
            run_baseline(OPREG_OP_MOE_FFN, &ffn, ffn_bufs, OPREG_FFN_BUFS, views, 3);
            assert_memory_equal(got, expected, sizeof got);
        }
        current_order = HOST_ASCENDING;
        up.y = NULL; /* down.x is it */
        moe_free(&up);
        moe_free(&down);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_route_orders_groups_by_first_entry_and_ends_with_the_invalid),
        cmocka_unit_test(random_routes_have_the_same_bytes_as_by_hand),
        cmocka_unit_test(routes_of_no_token_one_expert_and_no_expert_are_whole),
        cmocka_unit_test(grouped_rows_have_the_bits_of_dense_rows_in_every_format),
        cmocka_unit_test(moe_glu_has_the_bits_of_the_pair_form),
        cmocka_unit_test(moe_down_reads_only_the_rows_that_count),
        cmocka_unit_test(grouped_results_stay_in_the_band_of_double_precision),
        cmocka_unit_test(a_hostile_route_writes_nothing_outside_y_and_zeroes_lost_rows),
        cmocka_unit_test(combine_adds_slots_ascending_with_two_roundings),
        cmocka_unit_test(the_whole_ffn_has_the_bits_of_its_stages),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
