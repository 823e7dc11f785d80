/* SPDX-License-Identifier: MIT
 * test_plan.c - plans: what a run checks before it calls the kernel, and what it does not. */
#include "planned.h"

#include <xmmintrin.h>

static planned p;

static int open_plan(void **state) {
    (void)state;
    planned_open(&p, "m=2 n=4 k=256 b=q4_k layout=stored");
    return 0;
}

static int close_plan(void **state) {
    (void)state;
    planned_close(&p);
    return 0;
}

static void refuses_run(opreg_status status, const char *part) {
    p.y[0] = -1.0f;
    assert_failed(opreg_plan_run(p.plan, &p.args), status, part);
    assert_true(p.y[0] == -1.0f); /* the kernel was not called */
}

static void a_right_run_calls_the_kernel(void **state) {
    (void)state;
    assert_string_equal(opreg_plan_kernel(p.plan), "fake/exact_one");
    assert_int_equal(opreg_plan_workspace(p.plan), 1000);
    assert_int_equal(opreg_plan_layout(p.plan), OPREG_LAYOUT_STORED);
    assert_int_equal(opreg_plan_layout_bytes(p.plan), 4 * 144);
    assert_works(opreg_plan_run(p.plan, &p.args));
    assert_true(p.y[0] == FAKE_MARK_EXACT);
}

static void prepare_and_release_are_called_once(void **state) {
    opreg_plan *plan = NULL;
    (void)state;
    fake_prepares = fake_releases = 0;
    assert_works(opreg_plan_create(p.reg, &p.dev, OPREG_OP_MATMUL_BT_QUANT, &p.problem, &plan));
    assert_int_equal(fake_prepares, 1);
    opreg_plan_destroy(plan);
    assert_int_equal(fake_releases, 1);
}

static void a_null_buffer_is_refused(void **state) {
    (void)state;
    p.bufs[OPREG_MATMUL_X].ptr = NULL;
    refuses_run(OPREG_E_ARG, "buffer 1 (x) is null, it must have 2048 bytes");
}

static void a_buffer_that_was_left_out_is_refused(void **state) {
    (void)state;
    p.args.num_bufs = 1;
    refuses_run(OPREG_E_ARG, "buffer 1 (x) is null");
}

static void a_short_buffer_is_refused(void **state) {
    (void)state;
    p.bufs[OPREG_MATMUL_X].bytes = 2047;
    refuses_run(OPREG_E_ARG, "buffer 1 (x) has 2047 bytes, it must have 2048");
}

static void a_misaligned_buffer_is_refused(void **state) {
    (void)state;
    p.bufs[OPREG_MATMUL_X].ptr = (char *)p.x + 2;
    refuses_run(OPREG_E_ARG, "is not aligned to 4 bytes");
}

static void no_argument_is_ignored(void **state) {
    (void)state;
    p.bufs[OPREG_MATMUL_BIAS] = (opreg_buf){p.x, sizeof p.x};
    p.args.num_bufs = 3;
    refuses_run(OPREG_E_ARG, "buffer 2 is given, but the problem does not use it");
}

static void too_many_buffers_are_refused(void **state) {
    (void)state;
    p.args.num_bufs = 6;
    refuses_run(OPREG_E_ARG, "6 buffers are given, matmul_bt_quant has 5");
}

static void the_number_of_weights_is_checked(void **state) {
    (void)state;
    p.args.num_weights = 2;
    refuses_run(OPREG_E_ARG, "2 weights are given, it needs 1");
    p.args.num_weights = 1;
    p.args.weights = NULL;
    refuses_run(OPREG_E_ARG, "0 weights are given, it needs 1");
}

static void a_null_weight_is_refused(void **state) {
    (void)state;
    p.weights[0] = NULL;
    refuses_run(OPREG_E_ARG, "weight 0 (W) is null");
}

static void a_weight_of_another_shape_is_refused(void **state) {
    opreg_weight_desc desc = {.struct_size = sizeof desc, .format = OPREG_Q4_K, .experts = 1,
                              .n = 5, .k = 256, .data = {p.blocks, sizeof p.blocks}};
    opreg_weight *other = NULL;
    (void)state;
    assert_works(opreg_weight_create(p.reg, &p.dev, &desc, &other));
    p.weights[0] = other;
    refuses_run(OPREG_E_ARG, "is q4_k dialect 0 [1, 5, 256], the plan needs q4_k dialect 0 [1, 4, 256]");
    opreg_weight_destroy(other);
}

static void a_weight_of_another_device_is_refused(void **state) {
    opreg_weight_desc desc = {.struct_size = sizeof desc, .format = OPREG_Q4_K, .experts = 1,
                              .n = 4, .k = 256, .data = {p.blocks, sizeof p.blocks}};
    opreg_weight *other = NULL;
    opreg_device host = device_of(OPREG_CPU, 0, "");
    (void)state;
    assert_works(opreg_weight_create(p.reg, &host, &desc, &other));
    p.weights[0] = other;
    refuses_run(OPREG_E_ARG, "the plan is on cuda:0/fake_1");
    opreg_weight_destroy(other);
}

static void a_weight_of_another_registry_is_refused(void **state) {
    static planned q;
    (void)state;
    planned_open(&q, "m=2 n=4 k=256 b=q4_k");
    p.weights[0] = q.weight;
    refuses_run(OPREG_E_ARG, "belongs to another registry");
    planned_close(&q);
}

static void a_wrong_workspace_is_refused(void **state) {
    (void)state;
    p.args.workspace.ptr = NULL;
    refuses_run(OPREG_E_WORKSPACE, "needs a workspace of 1000 bytes, aligned to 256");
    p.args.workspace = (opreg_buf){p.workspace, 999};
    refuses_run(OPREG_E_WORKSPACE, "got 999 bytes");
    p.args.workspace = (opreg_buf){p.workspace + 16, 1000};
    refuses_run(OPREG_E_WORKSPACE, "aligned to 256");
    p.args.workspace = (opreg_buf){p.workspace, 1024};
    p.bufs[OPREG_MATMUL_X] = (opreg_buf){p.workspace + 512, 4096};
    refuses_run(OPREG_E_WORKSPACE, "overlaps buffer 1");
}

static void null_arguments_are_refused(void **state) {
    (void)state;
    assert_failed(opreg_plan_run(p.plan, NULL), OPREG_E_ARG, "opreg_args is null");
    assert_failed(opreg_plan_run(NULL, &p.args), OPREG_E_ARG, "plan is null");
    p.args.struct_size = 0;
    refuses_run(OPREG_E_ARG, "struct_size 0");
    opreg_plan_destroy(NULL);
    assert_int_equal(opreg_plan_workspace(NULL), 0);
    assert_string_equal(opreg_plan_kernel(NULL), "");
    assert_int_equal(opreg_plan_level(NULL), OPREG_LEVEL_ANY);
    assert_int_equal(opreg_plan_layout(NULL), OPREG_LAYOUT_STORED);
    assert_int_equal(opreg_plan_layout_bytes(NULL), 0);
}

static void a_reserved_argument_must_be_zero(void **state) {
    (void)state;
    p.args.reserved = 7;
    refuses_run(OPREG_E_ARG, "reserved is 7, it must be 0");
    p.args.reserved = 0;
    assert_works(opreg_plan_run(p.plan, &p.args));
}

static void an_older_callers_arguments_are_read(void **state) {
    opreg_plan *plan = NULL;
    (void)state;
    p.args.struct_size = offsetof(opreg_args, workspace); /* no workspace yet */
    refuses_run(OPREG_E_WORKSPACE, "got 0 bytes");
    assert_works(opreg_enable(p.reg, "fake", "on"));
    assert_works(opreg_plan_create(p.reg, &p.dev, OPREG_OP_MATMUL_BT_QUANT, &p.problem, &plan));
    assert_works(opreg_plan_run(plan, &p.args));
    assert_true(p.y[0] == FAKE_MARK_BASE);
    opreg_plan_destroy(plan);
}

static void an_empty_problem_calls_no_kernel(void **state) {
    opreg_matmul_bt_quant empty = matmul_of("m=0 n=4 k=256 b=q4_k");
    opreg_args args = {.struct_size = sizeof args};
    opreg_plan *plan = NULL;
    (void)state;
    assert_works(opreg_plan_create(p.reg, &p.dev, OPREG_OP_MATMUL_BT_QUANT, &empty, &plan));
    assert_works(opreg_plan_run(plan, &args));
    opreg_plan_destroy(plan);
}

static void a_route_of_no_tokens_is_still_written(void **state) {
    opreg_route_layout layout = {.struct_size = sizeof layout};
    opreg_moe_route route;
    opreg_device host = device_of(OPREG_CPU, 0, "");
    uint32_t memory[64];
    opreg_buf buf = {memory, sizeof memory};
    opreg_args args = {.struct_size = sizeof args, .num_bufs = 1, .bufs = &buf};
    _Alignas(256) static unsigned char scratch[65536];
    opreg_plan *plan = NULL;
    (void)state;
    assert_works(opreg_problem_parse(OPREG_OP_MOE_ROUTE, "tokens=0 top_k=2 experts=4", &route));
    assert_works(opreg_route_layout_get(0, 2, 4, &layout));
    assert_works(opreg_plan_create(p.reg, &host, OPREG_OP_MOE_ROUTE, &route, &plan));
    args.workspace = (opreg_buf){scratch, sizeof scratch};
    memset(memory, 0xff, sizeof memory);
    assert_works(opreg_plan_run(plan, &args));
    assert_int_equal(memory[0], 0);
    assert_int_equal(memory[1], 0);
    assert_int_equal(memory[2], layout.cap_groups);
    assert_int_equal(memory[3], 0);
    assert_int_equal(memory[layout.group_start / 4], 0);
    opreg_plan_destroy(plan);
}

static void a_kernel_that_fails_silently_gets_a_text(void **state) {
    opreg_moe_combine combine;
    opreg_buf bufs[3] = {{p.y, sizeof p.y}, {p.x, sizeof p.x}, {p.x, sizeof p.x}};
    opreg_args args = {.struct_size = sizeof args, .num_bufs = 3, .bufs = bufs};
    opreg_plan *plan = NULL;
    (void)state;
    assert_works(opreg_problem_parse(OPREG_OP_MOE_COMBINE, "tokens=1 n=4 top_k=2", &combine));
    assert_works(opreg_plan_create(p.reg, &p.dev, OPREG_OP_MOE_COMBINE, &combine, &plan));
    assert_failed(opreg_plan_run(plan, &args), OPREG_E_DEVICE, "fake/silent: OPREG_E_DEVICE");
    opreg_plan_destroy(plan);
}

static void the_problem_is_copied(void **state) {
    (void)state;
    memset(&p.problem, 0xff, sizeof p.problem);
    assert_works(opreg_plan_run(p.plan, &p.args));
}

/* An engine built with -ffast-math runs with flush to zero on. */
static void the_callers_float_mode_changes_no_bit(void **state) {
#if defined(__SSE__)
    opreg_matmul_bt_quant problem = matmul_of("m=1 n=1 k=8 b=f32");
    float w[8] = {1e-20f}, x[8] = {1e-20f}, y[2] = {9, 9};
    opreg_weight_desc desc = {.struct_size = sizeof desc, .format = OPREG_F32, .experts = 1, .n = 1,
                              .k = 8, .data = {w, sizeof w}};
    opreg_device host = device_of(OPREG_CPU, 0, "");
    const opreg_weight *weights[1];
    opreg_weight *weight = NULL;
    opreg_buf bufs[2] = {{&y[0], 4}, {x, sizeof x}};
    opreg_args args = {.struct_size = sizeof args, .num_bufs = 2, .bufs = bufs,
                       .weights = weights, .num_weights = 1};
    _Alignas(256) static unsigned char scratch[65536];
    opreg_plan *plan = NULL;
    unsigned before = _mm_getcsr();
    (void)state;
    assert_works(opreg_weight_create(p.reg, &host, &desc, &weight));
    weights[0] = weight;
    assert_works(opreg_plan_create(p.reg, &host, OPREG_OP_MATMUL_BT_QUANT, &problem, &plan));
    args.workspace = (opreg_buf){scratch, sizeof scratch};
    assert_works(opreg_plan_run(plan, &args));
    bufs[0].ptr = &y[1];
    _mm_setcsr(before | 0x8040u); /* flush to zero, denormals are zero */
    assert_int_equal(opreg_plan_run(plan, &args), OPREG_OK);
    assert_int_equal(_mm_getcsr() & 0x8040u, 0x8040u); /* and it is given back */
    _mm_setcsr(before);
    assert_memory_equal(&y[0], &y[1], 4);
    assert_true(y[0] != 0.0f);
    opreg_plan_destroy(plan);
    opreg_weight_destroy(weight);
#else
    (void)state;
    skip();
#endif
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_plan, close_plan)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(a_right_run_calls_the_kernel),
        TEST(prepare_and_release_are_called_once),
        TEST(a_null_buffer_is_refused),
        TEST(a_buffer_that_was_left_out_is_refused),
        TEST(a_short_buffer_is_refused),
        TEST(a_misaligned_buffer_is_refused),
        TEST(no_argument_is_ignored),
        TEST(too_many_buffers_are_refused),
        TEST(the_number_of_weights_is_checked),
        TEST(a_null_weight_is_refused),
        TEST(a_weight_of_another_shape_is_refused),
        TEST(a_weight_of_another_device_is_refused),
        TEST(a_weight_of_another_registry_is_refused),
        TEST(a_wrong_workspace_is_refused),
        TEST(null_arguments_are_refused),
        TEST(a_reserved_argument_must_be_zero),
        TEST(an_older_callers_arguments_are_read),
        TEST(an_empty_problem_calls_no_kernel),
        TEST(a_route_of_no_tokens_is_still_written),
        TEST(a_kernel_that_fails_silently_gets_a_text),
        TEST(the_problem_is_copied),
        TEST(the_callers_float_mode_changes_no_bit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
