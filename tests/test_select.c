/* SPDX-License-Identifier: MIT
 * test_select.c - which variant a problem gets, and what is said of the others. */
#define FAKE_ENTRY fake_entry
#include "fake/fake_plugin.h"
#include "fake_folder.h"
#include "registry_harness.h"

static captured said;
static opreg_registry *reg;
static opreg_device dev;

static int open_fake(void **state) {
    (void)state;
    reg = quiet_registry(&said);
    dev = device_of(OPREG_CUDA, 0, "fake_1");
    return opreg_add(reg, fake_entry) != OPREG_OK;
}

static int close_fake(void **state) {
    (void)state;
    return opreg_destroy(reg) != OPREG_OK;
}

/* The rows for a matmul problem; their number is returned. */
static size_t explain(const char *text, opreg_candidate *rows, size_t cap) {
    opreg_matmul_bt_quant p = matmul_of(text);
    size_t count = 0;
    assert_works(opreg_explain(reg, &dev, OPREG_OP_MATMUL_BT_QUANT, &p, rows, sizeof rows[0], cap,
                               &count));
    return count;
}

static opreg_candidate row_of(const char *text, const char *kernel) {
    opreg_candidate rows[8];
    size_t count = explain(text, rows, 8);
    for (size_t i = 0; i < count; i++) {
        if (strcmp(rows[i].kernel, kernel) == 0) {
            return rows[i];
        }
    }
    fail_msg("no row %s", kernel);
    return rows[0];
}

static void takes(const char *text, const char *kernel) {
    opreg_matmul_bt_quant p = matmul_of(text);
    opreg_plan *plan = NULL;
    assert_works(opreg_plan_create(reg, &dev, OPREG_OP_MATMUL_BT_QUANT, &p, &plan));
    assert_string_equal(opreg_plan_kernel(plan), kernel);
    opreg_plan_destroy(plan);
}

static void refuses(const char *text, opreg_status status, const char *part) {
    opreg_matmul_bt_quant p = matmul_of(text);
    opreg_plan *plan = NULL;
    assert_failed(opreg_plan_create(reg, &dev, OPREG_OP_MATMUL_BT_QUANT, &p, &plan), status, part);
    assert_null(plan);
}

static void on_takes_the_baseline(void **state) {
    (void)state;
    takes("n=4 k=256 b=q4_k", "fake/base");
}

static void a_higher_priority_wins_and_a_baseline_is_last(void **state) {
    opreg_candidate rows[8];
    (void)state;
    assert_works(opreg_enable(reg, "fake", "fast"));
    assert_int_equal(explain("n=4 k=256 b=q4_k", rows, 8), 4);
    assert_string_equal(rows[0].kernel, "int_one");
    assert_string_equal(rows[1].kernel, "exact_one");
    assert_string_equal(rows[2].kernel, "prepared_one");
    assert_string_equal(rows[3].kernel, "base");
    for (int i = 0; i < 4; i++) {
        assert_int_equal(rows[i].rank, i);
        assert_int_equal(rows[i].verdict, OPREG_OK);
    }
    assert_int_equal(rows[1].workspace, 1000);
    assert_int_equal(rows[2].layout, 1);
    takes("n=4 k=256 b=q4_k", "fake/int_one");
}

static void a_variant_that_is_off_names_its_variable(void **state) {
    opreg_candidate row = row_of("n=4 k=256 b=q4_k", "int_one");
    (void)state;
    assert_int_equal(row.verdict, OPREG_E_DISABLED);
    assert_int_equal(row.rank, -1);
    assert_string_equal(row.reason, "flag off: set OPREG_FAKE_INT_ONE=on");
}

static void a_variant_that_refuses_says_why_even_when_it_is_off(void **state) {
    opreg_candidate row = row_of("m=9 n=4 k=256 b=q4_k", "int_one");
    (void)state;
    assert_int_equal(row.verdict, OPREG_E_UNSUPPORTED);
    assert_string_equal(row.reason, "m 9 is above 8");
    row = row_of("n=4 k=256 b=q8_0", "int_one");
    assert_string_equal(row.reason, "it is not for q8_0 weights");
}

static void a_level_or_a_promise_excludes_variants(void **state) {
    (void)state;
    assert_works(opreg_enable(reg, "fake", "fast"));
    takes("n=4 k=256 b=q4_k level=canonical", "fake/exact_one");
    takes("n=4 k=256 b=q4_k flags=graph_safe", "fake/exact_one");
    takes("n=4 k=256 b=q4_k flags=width_invariant", "fake/base");
    assert_string_equal(row_of("n=4 k=256 b=q4_k level=canonical", "int_one").reason,
                        "its level is int, the problem asks for canonical");
    assert_string_equal(row_of("n=4 k=256 b=q4_k flags=deterministic", "int_one").reason,
                        "it is not deterministic, which the problem asks for");
}

static void a_layout_of_the_problem_excludes_variants(void **state) {
    (void)state;
    assert_works(opreg_enable(reg, "fake", "fast"));
    takes("n=4 k=256 b=q4_k layout=stored", "fake/int_one");
    takes("n=4 k=256 b=q4_k layout=1", "fake/prepared_one");
    assert_string_equal(row_of("n=4 k=256 b=q4_k layout=1", "int_one").reason,
                        "it reads W stored, the problem has it in layout 1");
    assert_string_equal(row_of("n=4 k=256 b=q4_k layout=stored", "prepared_one").reason,
                        "it reads W prepared as swapped (layout 1), the problem has it stored");
    refuses("n=4 k=256 b=q4_k layout=7", OPREG_E_UNSUPPORTED, "plugin fake has no layout 7");
    refuses("n=4 k=256 b=q8_0 layout=1", OPREG_E_UNSUPPORTED, "layout swapped does not take q8_0");
}

static void a_baseline_takes_every_layout(void **state) {
    (void)state;
    takes("n=4 k=256 b=q4_k layout=1", "fake/base");
    takes("m=100 n=4 k=256 b=q4_k layout=1", "fake/base");
}

static void unsupported_carries_every_reason(void **state) {
    (void)state;
    refuses("n=4 k=256 b=q6_k", OPREG_E_UNSUPPORTED, "fake/base: it is not for q6_k weights");
    refuses("n=4 k=256 b=q6_k", OPREG_E_UNSUPPORTED, "fake/int_one: it is not for q6_k weights");
}

static void disabled_names_the_flag_that_would_help(void **state) {
    (void)state;
    assert_works(opreg_enable(reg, "fake/base", "off"));
    refuses("n=4 k=256 b=q4_k", OPREG_E_DISABLED, "set OPREG_FAKE_INT_ONE=on");
    assert_works(opreg_enable(reg, "fake", "off"));
    refuses("n=4 k=256 b=q4_k", OPREG_E_DISABLED, "set OPREG_FAKE=on");
}

static void a_closed_plugin_that_fits_the_device_would_help(void **state) {
    char dir[1024];
    (void)state;
    assert_works(opreg_unload(reg, "fake"));
    fake_dir(dir, sizeof dir, "good");
    assert_works(opreg_discover(reg, dir));
    refuses("n=4 k=256 b=q4_k", OPREG_E_DISABLED, "fake-good: plugin off, it may take it: set "
                                                  "OPREG_FAKE_GOOD=on");
    dev = device_of(OPREG_CUDA, 0, "sm_90");
    refuses("n=4 k=256 b=q4_k", OPREG_E_UNSUPPORTED, "no open plugin has a matmul_bt_quant on "
                                                     "device cuda:0/sm_90");
    dev = device_of(OPREG_HIP, 0, "fake_1");
    refuses("n=4 k=256 b=q4_k", OPREG_E_UNSUPPORTED, "hip:0/fake_1");
}

static void a_contradiction_is_shape_before_selection(void **state) {
    (void)state;
    refuses("n=4 k=255 b=q4_k", OPREG_E_SHAPE, "255");
}

static void bad_devices_are_refused(void **state) {
    opreg_matmul_bt_quant p = matmul_of("n=4 k=256 b=q4_k");
    opreg_plan *plan;
    (void)state;
    assert_failed(opreg_plan_create(reg, NULL, OPREG_OP_MATMUL_BT_QUANT, &p, &plan), OPREG_E_ARG, "device is null");
    dev.kind = 9;
    assert_failed(opreg_plan_create(reg, &dev, OPREG_OP_MATMUL_BT_QUANT, &p, &plan), OPREG_E_ARG, "kind 9");
}

static void strict_refuses_a_baseline_in_place_of_a_variant_that_is_on(void **state) {
    (void)state;
    assert_works(opreg_enable(reg, "fake", "fast"));
    assert_works(opreg_enable(reg, "strict", "on"));
    takes("m=8 n=4 k=256 b=q4_k", "fake/int_one");
    takes("m=9 n=4 k=256 b=q4_k", "fake/prepared_one");
    assert_works(opreg_enable(reg, "fake/prepared_one", "off"));
    refuses("m=9 n=4 k=256 b=q4_k", OPREG_E_STRICT, "would take the baseline fake/base");
    refuses("m=9 n=4 k=256 b=q4_k", OPREG_E_STRICT, "fake/int_one: m 9 is above 8");
    refuses("m=9 n=4 k=256 b=q4_k", OPREG_E_STRICT, "fake/exact_one: m 9 is above 8");
}

static void strict_allows_a_baseline_where_no_variant_is_for_the_format(void **state) {
    (void)state;
    assert_works(opreg_enable(reg, "fake", "fast"));
    assert_works(opreg_enable(reg, "strict", "on"));
    takes("m=9 n=4 k=256 b=q8_0", "fake/base");
    assert_works(opreg_enable(reg, "fake", "on"));
    takes("m=9 n=4 k=256 b=q4_k", "fake/base"); /* the variants are off */
}

static void a_named_variant_is_taken_though_its_flag_is_off(void **state) {
    opreg_matmul_bt_quant p = matmul_of("n=4 k=256 b=q4_k");
    opreg_plan *plan = NULL;
    (void)state;
    assert_works(opreg_plan_create_named(reg, &dev, OPREG_OP_MATMUL_BT_QUANT, &p, "fake/int_one", &plan));
    assert_string_equal(opreg_plan_kernel(plan), "fake/int_one");
    assert_int_equal(opreg_plan_level(plan), OPREG_LEVEL_INT);
    opreg_plan_destroy(plan);
}

static void a_named_variant_fails_with_its_reason(void **state) {
    static const struct {
        const char *name;
        opreg_status status;
        const char *part;
    } rows[] = {
        {"fake/int_one", OPREG_E_UNSUPPORTED, "fake/int_one: m 9 is above 8"},
        {"fake/nothing", OPREG_E_ARG, "has no kernel \"nothing\""},
        {"nobody/int_one", OPREG_E_ARG, "no plugin named \"nobody\""},
        {"int_one", OPREG_E_ARG, "not PLUGIN/KERNEL"},
        {"fake/silent", OPREG_E_UNSUPPORTED, "is a moe_combine, not a matmul_bt_quant"},
        {"cpu/reference_matmul", OPREG_E_UNSUPPORTED, "does not drive device cuda:0/fake_1"},
    };
    opreg_matmul_bt_quant p = matmul_of("m=9 n=4 k=256 b=q4_k");
    opreg_plan *plan = NULL;
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        assert_failed(opreg_plan_create_named(reg, &dev, OPREG_OP_MATMUL_BT_QUANT, &p, rows[i].name, &plan),
                      rows[i].status, rows[i].part);
    }
    assert_failed(opreg_plan_create_named(reg, &dev, OPREG_OP_MATMUL_BT_QUANT, &p, NULL, &plan), OPREG_E_ARG, "null");
}

static void explain_counts_rows_past_the_room(void **state) {
    opreg_candidate row[1];
    (void)state;
    assert_int_equal(explain("n=4 k=256 b=q4_k", row, 1), 4);
    assert_int_equal(row[0].rank, 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_fake, close_fake)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(on_takes_the_baseline),
        TEST(a_higher_priority_wins_and_a_baseline_is_last),
        TEST(a_variant_that_is_off_names_its_variable),
        TEST(a_variant_that_refuses_says_why_even_when_it_is_off),
        TEST(a_level_or_a_promise_excludes_variants),
        TEST(a_layout_of_the_problem_excludes_variants),
        TEST(a_baseline_takes_every_layout),
        TEST(unsupported_carries_every_reason),
        TEST(disabled_names_the_flag_that_would_help),
        TEST(a_closed_plugin_that_fits_the_device_would_help),
        TEST(a_contradiction_is_shape_before_selection),
        TEST(bad_devices_are_refused),
        TEST(strict_refuses_a_baseline_in_place_of_a_variant_that_is_on),
        TEST(strict_allows_a_baseline_where_no_variant_is_for_the_format),
        TEST(a_named_variant_is_taken_though_its_flag_is_off),
        TEST(a_named_variant_fails_with_its_reason),
        TEST(explain_counts_rows_past_the_room),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
