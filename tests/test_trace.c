/* SPDX-License-Identifier: MIT
 * test_trace.c - the lines about plans and runs. */
#include "planned.h"

static planned p;

static int open_plan(void **state) {
    (void)state;
    planned_open(&p, "m=2 n=4 k=256 b=q4_k");
    p.said.text[0] = '\0';
    p.said.length = 0;
    return 0;
}

static int close_plan(void **state) {
    (void)state;
    planned_close(&p);
    return 0;
}

static void plan_again(const char *text, opreg_status status) {
    opreg_matmul_bt_quant problem = matmul_of(text);
    opreg_plan *plan = NULL;
    assert_int_equal(opreg_plan_create(p.reg, &p.dev, OPREG_OP_MATMUL_BT_QUANT, &problem, &plan), status);
    opreg_plan_destroy(plan);
}

static void without_a_trace_nothing_is_said(void **state) {
    (void)state;
    plan_again("n=4 k=256 b=q4_k", OPREG_OK);
    assert_works(opreg_plan_run(p.plan, &p.args));
    assert_string_equal(p.said.text, "");
}

static void a_plan_says_its_problem_variant_and_workspace(void **state) {
    (void)state;
    assert_works(opreg_enable(p.reg, "trace", "plan"));
    plan_again("n=4 k=256 b=q4_k y=bf16", OPREG_OK);
    assert_text(p.said.text, "v1 plan matmul_bt_quant dev=cuda:0/fake_1 m=1 n=4 k=256 b=q4_k x=f32 y=bf16 "
                             "layout=stored -> fake/exact_one ws=1000\n");
    assert_text(p.said.text, "v1 skip fake/int_one \"flag off: set OPREG_FAKE_INT_ONE=on\"\n");
    p.said.text[0] = '\0';
    p.said.length = 0;
    assert_works(opreg_plan_run(p.plan, &p.args));
    assert_string_equal(p.said.text, "");
}

static void a_baseline_says_why_each_variant_that_is_on_refused(void **state) {
    (void)state;
    assert_works(opreg_enable(p.reg, "trace", "plan"));
    plan_again("m=9 n=4 k=256 b=q4_k", OPREG_OK);
    assert_text(p.said.text, "v1 skip fake/exact_one \"m 9 is above 8\"\n");
    assert_text(p.said.text, "-> fake/base ws=0 \"no switched-on variant takes it\"\n");
    assert_no_text(p.said.text, "v1 skip fake/int_one \"m 9"); /* it is off */
}

static void a_refusal_is_traced_with_its_text(void **state) {
    (void)state;
    assert_works(opreg_enable(p.reg, "trace", "plan"));
    plan_again("n=4 k=256 b=q6_k", OPREG_E_UNSUPPORTED);
    assert_text(p.said.text, "v1 fail matmul_bt_quant dev=cuda:0/fake_1 m=1 n=4 k=256 b=q6_k x=f32 y=f32 -> "
                             "OPREG_E_UNSUPPORTED \"no variant on cuda:0/fake_1 takes this");
}

static void a_run_says_its_status(void **state) {
    (void)state;
    assert_works(opreg_enable(p.reg, "trace", "run"));
    assert_works(opreg_plan_run(p.plan, &p.args));
    assert_string_equal(p.said.text, "v1 run matmul_bt_quant dev=cuda:0/fake_1 m=2 n=4 k=256 b=q4_k x=f32 y=f32 "
                                     "layout=stored -> fake/exact_one OPREG_OK\n");
    p.args.num_bufs = 0;
    assert_int_equal(opreg_plan_run(p.plan, &p.args), OPREG_E_ARG);
    assert_text(p.said.text, "-> fake/exact_one OPREG_E_ARG\n");
}

static void a_traced_problem_can_be_read_back(void **state) {
    char *from, *to;
    (void)state;
    assert_works(opreg_enable(p.reg, "trace", "run"));
    assert_works(opreg_plan_run(p.plan, &p.args));
    from = strstr(p.said.text, "m=2");
    to = strstr(p.said.text, " ->");
    assert_true(from != NULL && to != NULL);
    *to = '\0';
    assert_int_equal(matmul_of(from).n, 4);
}

static void the_end_of_a_registry_sums_up_runs_and_refusals(void **state) {
    static planned q;
    (void)state;
    planned_open(&q, "m=2 n=4 k=256 b=q4_k");
    assert_works(opreg_enable(q.reg, "trace", "plan"));
    opreg_plan_destroy(q.plan);
    for (int i = 0; i < 2; i++) {
        q.problem.m = i == 0 ? 2 : 9;
        assert_works(opreg_plan_create(q.reg, &q.dev, OPREG_OP_MATMUL_BT_QUANT, &q.problem, &q.plan));
        if (i == 0) {
            assert_works(opreg_plan_run(q.plan, &q.args));
            assert_works(opreg_plan_run(q.plan, &q.args));
            opreg_plan_destroy(q.plan);
        }
    }
    q.said.text[0] = '\0';
    q.said.length = 0;
    planned_close(&q);
    assert_text(q.said.text, "v1 total fake/exact_one plans=1 runs=2 enqueue=");
    assert_text(q.said.text, "v1 total fake/base plans=1 runs=0 enqueue=");
    assert_text(q.said.text, "v1 refused fake/int_one plans=1 \"flag off: set OPREG_FAKE_INT_ONE=on\"");
    assert_text(q.said.text, "v1 refused fake/exact_one plans=1 \"m 9 is above 8\"");
}

static void without_a_trace_the_end_is_silent(void **state) {
    static planned q;
    (void)state;
    planned_open(&q, "m=2 n=4 k=256 b=q4_k");
    assert_works(opreg_plan_run(q.plan, &q.args));
    planned_close(&q);
    assert_string_equal(q.said.text, "");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_plan, close_plan)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(without_a_trace_nothing_is_said),
        TEST(a_plan_says_its_problem_variant_and_workspace),
        TEST(a_baseline_says_why_each_variant_that_is_on_refused),
        TEST(a_refusal_is_traced_with_its_text),
        TEST(a_run_says_its_status),
        TEST(a_traced_problem_can_be_read_back),
        cmocka_unit_test(the_end_of_a_registry_sums_up_runs_and_refusals),
        cmocka_unit_test(without_a_trace_the_end_is_silent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
