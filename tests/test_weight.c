/* SPDX-License-Identifier: MIT
 * test_weight.c - weights: their shapes, their side data, and prepared layouts and back. */
#include "planned.h"

static planned p;

static int open_plan(void **state) {
    (void)state;
    planned_open(&p, "m=2 n=4 k=256 b=q4_k layout=1");
    return 0;
}

static int close_plan(void **state) {
    (void)state;
    planned_close(&p);
    return 0;
}

static opreg_weight_desc right_desc(void) {
    return (opreg_weight_desc){.struct_size = sizeof(opreg_weight_desc), .format = OPREG_Q4_K,
                               .experts = 1, .n = 4, .k = 256, .data = {p.blocks, 4 * 144}};
}

static void refuses(const opreg_weight_desc *desc, opreg_status status, const char *part) {
    opreg_weight *weight = NULL;
    assert_failed(opreg_weight_create(p.reg, &p.dev, desc, &weight), status, part);
    assert_null(weight);
}

static void a_view_shows_what_was_given(void **state) {
    const opreg_weight_view *v = opreg_weight_view_get(p.weight);
    (void)state;
    assert_int_equal(v->format, OPREG_Q4_K);
    assert_int_equal(v->layout, OPREG_LAYOUT_STORED);
    assert_int_equal(v->n, 4);
    assert_int_equal(v->row_bytes, 144);
    assert_int_equal(v->expert_stride, 4 * 144);
    assert_ptr_equal(v->data, p.blocks);
    assert_true(v->side[0].tensor_scale == 1.0f);
    assert_null(opreg_weight_view_get(NULL));
}

#define REFUSED(name, change, status, part)                                                        \
    static void name(void **state) {                                                               \
        opreg_weight_desc d = right_desc();                                                        \
        (void)state;                                                                               \
        change;                                                                                    \
        refuses(&d, status, part);                                                                 \
    }

REFUSED(a_row_of_half_a_block_is_refused, d.k = 128, OPREG_E_SHAPE, "128 is not a multiple of the q4_k block")
REFUSED(short_data_is_refused, d.data.bytes = 575, OPREG_E_SHAPE, "data has 575 bytes, q4_k [1, 4, 256] needs 576")
REFUSED(null_data_is_refused, d.data.ptr = NULL, OPREG_E_ARG, "data is null")
REFUSED(no_expert_is_refused, d.experts = 0, OPREG_E_SHAPE, "experts >= 1")
REFUSED(experts_without_rows_are_bounded, d.n = 0; d.experts = INT32_MAX, OPREG_E_SHAPE, "at most 65536 experts")
REFUSED(an_expert_stride_that_overlaps_is_refused, d.expert_stride = 100, OPREG_E_SHAPE, "expert_stride is 100")
REFUSED(an_unknown_format_is_refused, d.format = 999, OPREG_E_ARG, "format id 999")
REFUSED(a_layout_is_not_made_here, d.layout = 1, OPREG_E_ARG, "opreg_weight_prepare makes the others")
REFUSED(sizes_that_overflow_are_refused, d.n = INT64_MAX / 2, OPREG_E_SHAPE, "overflow 64 bits")
REFUSED(side_data_where_there_is_none_is_refused, d.side = p.x; d.side_bytes = 5, OPREG_E_ARG, "q4_k has no side data")
REFUSED(a_reserved_field_is_zero, d.reserved = 1, OPREG_E_ARG, "reserved is 1")

static void a_strided_weight_needs_its_last_expert_only(void **state) {
    opreg_weight_desc d = right_desc();
    opreg_weight *weight = NULL;
    (void)state;
    d.experts = 2;
    d.expert_stride = 1000;
    d.data.bytes = 1575;
    refuses(&d, OPREG_E_SHAPE, "needs 1576");
    d.data.bytes = 1576;
    assert_works(opreg_weight_create(p.reg, &p.dev, &d, &weight));
    opreg_weight_destroy(weight);
    opreg_weight_destroy(NULL);
}

static void side_data_is_copied_to_the_device(void **state) {
    unsigned char header[5];
    unsigned char block[137] = {0};
    const float scale = 0.25f;
    opreg_weight_desc d = {.struct_size = sizeof d, .format = OPREG_GQH4, .experts = 1, .n = 1,
                           .k = 256, .data = {block, sizeof block}, .side = header,
                           .side_bytes = sizeof header};
    opreg_weight *weight = NULL;
    (void)state;
    memcpy(header, &scale, 4);
    header[4] = 3;
    assert_works(opreg_weight_create(p.reg, &p.dev, &d, &weight));
    memset(header, 0xff, sizeof header);
    assert_true(opreg_weight_view_get(weight)->side[0].tensor_scale == 0.25f);
    opreg_weight_destroy(weight);
    header[4] = 99;
    memcpy(header, &scale, 4);
    refuses(&d, OPREG_E_ARG, "grid");
}

static void a_device_without_a_plugin_has_no_weights(void **state) {
    opreg_weight_desc d = right_desc();
    opreg_weight *weight = NULL;
    opreg_device dev = device_of(OPREG_HIP, 3, "gfx1201");
    (void)state;
    assert_failed(opreg_weight_create(p.reg, &dev, &d, &weight), OPREG_E_UNSUPPORTED, "hip:3/gfx1201");
}

static void a_prepared_weight_runs_and_comes_back_exactly(void **state) {
    _Alignas(256) static unsigned char packed[4 * 144];
    unsigned char back[4 * 144];
    opreg_weight *prepared = NULL;
    (void)state;
    assert_int_equal(opreg_plan_layout(p.plan), 1);
    assert_int_equal(opreg_plan_layout_bytes(p.plan), sizeof packed);
    assert_works(opreg_weight_prepare(p.plan, p.weight, (opreg_buf){packed, sizeof packed}, NULL, &prepared));
    assert_int_equal(packed[1], p.blocks[1] ^ 0x55);
    assert_int_equal(opreg_weight_view_get(prepared)->layout, 1);
    assert_failed(opreg_plan_run(p.plan, &p.args), OPREG_E_ARG, "is in layout 0 of");
    p.weights[0] = prepared;
    assert_works(opreg_plan_run(p.plan, &p.args));
    assert_works(opreg_weight_restore(prepared, (opreg_buf){back, sizeof back}, NULL));
    assert_memory_equal(back, p.blocks, sizeof back);
    opreg_weight_destroy(prepared);
}

static void a_prepared_weight_outlives_the_stored_one(void **state) {
    _Alignas(256) static unsigned char packed[4 * 144];
    opreg_weight *prepared = NULL;
    (void)state;
    assert_works(opreg_weight_prepare(p.plan, p.weight, (opreg_buf){packed, sizeof packed}, NULL, &prepared));
    opreg_weight_destroy(p.weight);
    p.weight = prepared;
    p.weights[0] = prepared;
    assert_true(opreg_weight_view_get(prepared)->side[0].tensor_scale == 1.0f);
    assert_works(opreg_plan_run(p.plan, &p.args));
}

static void a_wrong_place_for_a_prepared_weight_is_refused(void **state) {
    _Alignas(256) static unsigned char packed[5 * 144];
    opreg_weight *prepared = NULL, *again = NULL;
    (void)state;
    assert_failed(opreg_weight_prepare(p.plan, p.weight, (opreg_buf){packed, 575}, NULL, &prepared),
                  OPREG_E_ARG, "dst must have 576 bytes, aligned to 256; got 575");
    assert_failed(opreg_weight_prepare(p.plan, p.weight, (opreg_buf){packed + 1, 576}, NULL, &prepared),
                  OPREG_E_ARG, "aligned to 256");
    assert_works(opreg_weight_prepare(p.plan, p.weight, (opreg_buf){packed, 576}, NULL, &prepared));
    assert_failed(opreg_weight_prepare(p.plan, prepared, (opreg_buf){packed, 576}, NULL, &again),
                  OPREG_E_ARG, "is prepared already");
    assert_failed(opreg_weight_restore(prepared, (opreg_buf){packed, 575}, NULL), OPREG_E_ARG, "576 bytes");
    opreg_weight_destroy(prepared);
}

static void a_weight_that_is_not_the_plans_is_not_prepared(void **state) {
    _Alignas(256) static unsigned char packed[4 * 144];
    opreg_weight_desc d = right_desc();
    opreg_weight *other = NULL, *prepared = NULL;
    (void)state;
    d.n = 3;
    assert_works(opreg_weight_create(p.reg, &p.dev, &d, &other));
    assert_failed(opreg_weight_prepare(p.plan, other, (opreg_buf){packed, sizeof packed}, NULL, &prepared),
                  OPREG_E_ARG, "no weight of plan fake/base has this");
    opreg_weight_destroy(other);
}

static void preparing_for_a_stored_plan_packs_the_experts(void **state) {
    _Alignas(256) static unsigned char packed[2 * 144];
    opreg_moe_matmul moe;
    opreg_weight_desc d = {.struct_size = sizeof d, .format = OPREG_Q4_K, .experts = 2, .n = 1,
                           .k = 256, .expert_stride = 200, .data = {p.blocks, 344}};
    opreg_device host = device_of(OPREG_CPU, 0, "");
    opreg_weight *strided = NULL, *dense = NULL;
    opreg_plan *plan = NULL;
    (void)state;
    assert_works(opreg_problem_parse(OPREG_OP_MOE_MATMUL, "n=1 k=256 b=q4_k experts=2 top_k=1", &moe));
    assert_works(opreg_plan_create(p.reg, &host, OPREG_OP_MOE_MATMUL, &moe, &plan));
    assert_works(opreg_weight_create(p.reg, &host, &d, &strided));
    assert_works(opreg_weight_prepare(plan, strided, (opreg_buf){packed, sizeof packed}, NULL, &dense));
    assert_memory_equal(packed, p.blocks, 144);
    assert_memory_equal(packed + 144, p.blocks + 200, 144);
    assert_int_equal(opreg_weight_view_get(dense)->expert_stride, 144);
    opreg_weight_destroy(strided);
    opreg_weight_destroy(dense);
    opreg_plan_destroy(plan);
}

static void a_live_weight_keeps_its_plugin(void **state) {
    (void)state;
    opreg_plan_destroy(p.plan);
    p.plan = NULL;
    assert_failed(opreg_unload(p.reg, "fake"), OPREG_E_BUSY, "has 1 live plans and weights");
    assert_failed(opreg_destroy(p.reg), OPREG_E_BUSY, "has 1 live plans and weights");
}

static void validation_names_the_first_bad_block(void **state) {
    unsigned char blocks[4 * 17];
    opreg_weight_desc d = {.struct_size = sizeof d, .format = OPREG_MXFP4, .experts = 1, .n = 2,
                           .k = 64, .data = {blocks, sizeof blocks}};
    (void)state;
    memset(blocks, 0x7f, sizeof blocks);
    assert_works(opreg_weight_validate(&d));
    blocks[3 * 17] = 0xff; /* an e8m0 NaN */
    assert_failed(opreg_weight_validate(&d), OPREG_E_ARG, "mxfp4 expert 0, row 1, block 1:");
    d.data.bytes--;
    assert_failed(opreg_weight_validate(&d), OPREG_E_SHAPE, "data has 67 bytes");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_plan, close_plan)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(a_view_shows_what_was_given),
        TEST(a_row_of_half_a_block_is_refused),
        TEST(short_data_is_refused),
        TEST(null_data_is_refused),
        TEST(no_expert_is_refused),
        TEST(experts_without_rows_are_bounded),
        TEST(an_expert_stride_that_overlaps_is_refused),
        TEST(an_unknown_format_is_refused),
        TEST(a_layout_is_not_made_here),
        TEST(sizes_that_overflow_are_refused),
        TEST(side_data_where_there_is_none_is_refused),
        TEST(a_reserved_field_is_zero),
        TEST(a_strided_weight_needs_its_last_expert_only),
        TEST(side_data_is_copied_to_the_device),
        TEST(a_device_without_a_plugin_has_no_weights),
        TEST(a_prepared_weight_runs_and_comes_back_exactly),
        TEST(a_prepared_weight_outlives_the_stored_one),
        TEST(a_wrong_place_for_a_prepared_weight_is_refused),
        TEST(a_weight_that_is_not_the_plans_is_not_prepared),
        TEST(preparing_for_a_stored_plan_packs_the_experts),
        TEST(a_live_weight_keeps_its_plugin),
        TEST(validation_names_the_first_bad_block),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
