/* SPDX-License-Identifier: MIT
 * The kit holds each variant to what it declares, on a device that only looks like a GPU, and does
 * not call untested what was tested, nor tested what was not. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "fake/paper_gpu.h"
#include "opreg/opreg_test.h"
#include "seeds.h"

typedef struct outcome {
    char checks[256]; /* names of the checks that failed, each once                                 */
    char first[1600], skip[400], never[200];
    uint64_t events, elsewhere; /* elsewhere: on another thread                                     */
    uint64_t done, out_of_order;
    pthread_t caller;
    opreg_kit_report report;
} outcome;

static void note(void *user, const opreg_kit_event *event) {
    outcome *o = user;
    char line[4096];
    json_t *parsed;
    size_t length = opreg_kit_event_print(event, 1, line, sizeof line);
    assert_true(length < sizeof line);
    parsed = json_loads(line, 0, NULL);
    assert_non_null(parsed);
    json_decref(parsed);
    o->events++;
    o->elsewhere += !pthread_equal(o->caller, pthread_self());
    if (event->kind == OPREG_KIT_PROGRESS) {
        o->out_of_order += event->cases < o->done || event->cases > event->refused;
        o->done = event->cases;
    }
    if (event->kind == OPREG_KIT_SKIP) {
        snprintf(o->skip, sizeof o->skip, "%s: %s", event->plugin, event->detail);
    }
    if (event->verdict == OPREG_KIT_NEVER_RUN) {
        snprintf(o->never, sizeof o->never, "%s %s", event->kernel, event->format);
    }
    if (event->kind == OPREG_KIT_CASE && event->verdict == OPREG_KIT_FAILED) {
        if (o->first[0] == '\0') {
            opreg_kit_event_print(event, 0, o->first, sizeof o->first);
        }
        if (strstr(o->checks, event->check) == NULL) {
            size_t used = strlen(o->checks);
            snprintf(o->checks + used, sizeof o->checks - used, "%s ", event->check);
        }
    }
}

static void run(opreg_registry *reg, const char *plugin, const char *kernel, outcome *o) {
    opreg_kit_options options = {.struct_size = sizeof options,
                                 .plugin = plugin,
                                 .kernel = kernel,
                                 .event = note,
                                 .user = o};
    memset(o, 0, sizeof *o);
    o->caller = pthread_self();
    o->report.struct_size = sizeof o->report;
    assert_int_equal(opreg_kit_run(reg, &options, &o->report), OPREG_OK);
}

static int set_up(void **state) {
    opreg_config config = {.struct_size = sizeof config,
                           .flags = OPREG_CF_NO_ENV | OPREG_CF_NO_INSTALLED};
    opreg_registry *reg;
    if (opreg_create(&config, &reg) != OPREG_OK || opreg_add(reg, paper_gpu_entry) != OPREG_OK ||
        opreg_add(reg, paper_gpu_absent_entry) != OPREG_OK) {
        return -1;
    }
    *state = reg;
    return 0;
}

static int tear_down(void **state) { return opreg_destroy(*state) == OPREG_OK ? 0 : -1; }

static void expect_pass(opreg_registry *reg, const char *kernel) {
    outcome o;
    run(reg, "paper-gpu", kernel, &o);
    if (o.report.failed != 0 || o.report.never_run != 0 || o.report.passed == 0) {
        fail_msg("%s: %llu passed, %llu failed, %llu never-run: %s", kernel,
                 (unsigned long long)o.report.passed, (unsigned long long)o.report.failed,
                 (unsigned long long)o.report.never_run, o.first);
    }
}

static void expect_caught(opreg_registry *reg, const char *kernel, const char *check) {
    outcome o;
    run(reg, "paper-gpu", kernel, &o);
    if (o.report.failed == 0 || strstr(o.checks, check) == NULL) {
        fail_msg("%s: not caught by %s but by '%s' (%llu failed): %s", kernel, check, o.checks,
                 (unsigned long long)o.report.failed, o.first);
    }
}

static void right_kernels_pass_on_a_device_with_streams_and_graphs(void **state) {
    expect_pass(*state, "matmul");
    expect_pass(*state, "moe");
    expect_pass(*state, "attention");
}

static void a_replay_that_does_not_read_new_data_is_caught(void **state) {
    expect_caught(*state, "graph_missed", "graph");
}

static void an_error_within_the_band_passes_and_one_over_it_does_not(void **state) {
    expect_pass(*state, "band_kept");
    expect_caught(*state, "band_missed", "band");
}

static void a_variant_is_held_to_the_band_that_it_declares(void **state) {
    expect_pass(*state, "band_declared");
    expect_caught(*state, "band_not_declared", "band");
}

static void an_int_variant_is_held_to_the_integer_oracle(void **state) {
    expect_caught(*state, "int_missed", "oracle");
}

static void a_row_that_depends_on_its_neighbours_is_caught(void **state) {
    expect_caught(*state, "width_missed", "width");
}

static void only_a_variant_that_claims_determinism_must_have_it(void **state) {
    expect_pass(*state, "random_in_band");
    expect_caught(*state, "random_but_claims_not", "determinism");
}

static void a_write_past_a_device_buffer_is_caught_without_guard_pages(void **state) {
    expect_caught(*state, "past_the_band_of_memory", "guard");
}

static void a_declared_format_that_is_always_refused_is_never_run(void **state) {
    outcome o;
    run(*state, "paper-gpu", "declares_too_much", &o);
    assert_int_equal(o.report.failed, 0);
    assert_int_equal(o.report.never_run, 1);
    assert_string_equal(o.never, "declares_too_much q4_k");
}

static void a_variant_that_takes_few_shapes_is_still_run_on_them(void **state) {
    outcome o;
    run(*state, "paper-gpu", "takes_rare", &o);
    assert_int_equal(o.report.failed, 0);
    assert_int_equal(o.report.never_run, 0);
    assert_true(o.report.passed >= 24);
}

static void an_absent_device_is_a_named_skip_and_not_never_run(void **state) {
    outcome o;
    run(*state, "paper-none", NULL, &o);
    assert_int_equal(o.report.skipped, 1);
    assert_int_equal(o.report.never_run, 0);
    assert_int_equal(o.report.passed, 0);
    assert_non_null(strstr(o.skip, "paper-none: no device for paper"));
}

static void events_come_in_order_on_the_callers_thread(void **state) {
    outcome o;
    run(*state, "cpu", "reference_combine", &o);
    assert_true(o.events > 10 && o.done > 0);
    assert_int_equal(o.elsewhere, 0);
    assert_int_equal(o.out_of_order, 0);
}

static void note_kept(void *user, const opreg_kit_event *event) {
    int *met = user;
    for (size_t i = 0; event->kind == OPREG_KIT_CASE && i < kept_case_count; i++) {
        const case_key *key = &kept_cases[i].key;
        met[i] |= event->op == (uint32_t)key->op && event->seed == key->seed &&
                  event->cases == key->index &&
                  strcmp(event->format, key->format != 0 ? opreg_dtype_name(key->format) : "-") == 0;
    }
}

static void cases_that_found_a_fault_run_whatever_the_seed(void **state) {
    opreg_kit_report report = {.struct_size = sizeof report};
    int met[256] = {0};
    opreg_kit_options options = {.struct_size = sizeof options,
                                 .flags = OPREG_KIT_QUICK,
                                 .seed = 4711,
                                 .plugin = "cpu",
                                 .event = note_kept,
                                 .user = met};
    assert_true(kept_case_count > 0 && kept_case_count <= 256);
    for (uint32_t op = 1; op <= OPREG_OP_COUNT; op++) {
        int any = 0;
        for (size_t i = 0; i < kept_case_count; i++) {
            any |= kept_cases[i].key.op == (opreg_op)op;
        }
        options.op = opreg_op_name((opreg_op)op);
        if (any) {
            assert_int_equal(opreg_kit_run(*state, &options, &report), OPREG_OK);
        }
    }
    for (size_t i = 0; i < kept_case_count; i++) {
        if (!met[i]) {
            fail_msg("kept case %zu (%s) was not run", i, kept_cases[i].fault);
        }
    }
}

static void the_formats_one_by_one_are_the_whole(void **state) {
    opreg_kit_report all = {.struct_size = sizeof all};
    opreg_kit_options options = {.struct_size = sizeof options,
                                 .plugin = "paper-gpu",
                                 .kernel = "matmul",
                                 .flags = OPREG_KIT_QUICK};
    uint64_t passed = 0;
    assert_int_equal(opreg_kit_run(*state, &options, &all), OPREG_OK);
    for (uint32_t i = 0; i < 3; i++) {
        static const char *const formats[] = {"q4_0", "q4_k", "q8_0"};
        opreg_kit_report one = {.struct_size = sizeof one};
        options.format = formats[i];
        assert_int_equal(opreg_kit_run(*state, &options, &one), OPREG_OK);
        assert_int_equal(one.failed + one.never_run, 0);
        assert_int_equal(one.passed > 0, i < 2); /* it does not declare q8_0 */
        passed += one.passed;
    }
    assert_int_equal(passed, all.passed);
    options.kernel = "attention"; /* has no weights */
    assert_int_equal(opreg_kit_run(*state, &options, &all), OPREG_OK);
    assert_int_equal(all.passed, 0);
}

static void unknown_names_are_refused(void **state) {
    opreg_kit_report report = {.struct_size = sizeof report};
    opreg_kit_options options = {.struct_size = sizeof options, .plugin = "nobody"};
    assert_int_equal(opreg_kit_run(*state, &options, &report), OPREG_E_ARG);
    assert_string_equal(opreg_last_error(),
                        "no plugin nobody: it is neither installed nor added");
    options.plugin = "cpu";
    options.kernel = "nothing";
    assert_int_equal(opreg_kit_run(*state, &options, &report), OPREG_E_ARG);
    assert_string_equal(opreg_last_error(), "no variant nothing in the plugins that are open");
    options.kernel = NULL;
    options.op = "no_such_op";
    assert_int_equal(opreg_kit_run(*state, &options, &report), OPREG_E_ARG);
    options.op = NULL;
    options.format = "q4_9";
    assert_int_equal(opreg_kit_run(*state, &options, &report), OPREG_E_ARG);
    assert_string_equal(opreg_last_error(), "no format q4_9: see opreg_format_row");
}

static void refuses(opreg_registry *reg, const opreg_kit_options *options, opreg_kit_report *report,
                    const char *text) {
    assert_int_equal(opreg_kit_run(reg, options, report), OPREG_E_ARG);
    if (strstr(opreg_last_error(), text) == NULL) {
        fail_msg("\"%s\" is not in \"%s\"", text, opreg_last_error());
    }
}

static void wrong_structs_are_refused_with_the_reason(void **state) {
    opreg_kit_report report = {.struct_size = sizeof report};
    struct {
        opreg_kit_options known;
        uint64_t more;
    } newer = {.known = {.struct_size = sizeof newer, .plugin = "nobody"}, .more = 1};
    opreg_kit_options options = {.plugin = "nobody"};
    refuses(NULL, NULL, &report, "the registry is null");
    refuses(*state, NULL, NULL, "the opreg_kit_report is null");
    refuses(*state, &options, &report, "the opreg_kit_options has struct_size 0");
    refuses(*state, &newer.known, &report, "from a newer opreg");
    newer.more = 0;
    refuses(*state, &newer.known, &report, "no plugin nobody");
    report.struct_size = 0;
    refuses(*state, NULL, &report, "the opreg_kit_report has struct_size 0");
}

static void a_report_is_never_written_past_the_callers_size(void **state) {
    opreg_kit_report report;
    opreg_kit_options options = {.struct_size = sizeof options, .plugin = "nobody"};
    memset(&report, 0x5a, sizeof report);
    report.struct_size = offsetof(opreg_kit_report, passed);
    refuses(*state, &options, &report, "no plugin nobody");
    assert_int_equal(report.struct_size, offsetof(opreg_kit_report, passed));
    assert_int_equal(report.passed, UINT64_C(0x5a5a5a5a5a5a5a5a));
}

static void lines_of_nothing_are_empty(void **state) {
    opreg_kit_report report = {.struct_size = sizeof report};
    opreg_kit_event event = {.struct_size = sizeof event, .kind = OPREG_KIT_PROGRESS};
    char text[8] = "before";
    (void)state;
    assert_int_equal(opreg_kit_event_print(NULL, 1, text, sizeof text), 0);
    assert_string_equal(text, "");
    assert_int_equal(opreg_kit_report_print(NULL, text, sizeof text), 0);
    assert_int_equal(opreg_kit_event_print(&event, 0, NULL, 9), strlen("0 of 0 cases"));
    assert_int_equal(opreg_kit_report_print(&report, NULL, 9),
                     strlen("0 passed, 0 failed, 0 skipped, 0 never-run"));
}

static void the_closing_line_counts_four_things(void **state) {
    opreg_kit_report report = {.struct_size = sizeof report, .passed = 12, .skipped = 3};
    char text[100];
    (void)state;
    opreg_kit_report_print(&report, text, sizeof text);
    assert_string_equal(text, "12 passed, 0 failed, 3 skipped, 0 never-run");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(right_kernels_pass_on_a_device_with_streams_and_graphs),
        cmocka_unit_test(a_replay_that_does_not_read_new_data_is_caught),
        cmocka_unit_test(an_error_within_the_band_passes_and_one_over_it_does_not),
        cmocka_unit_test(a_variant_is_held_to_the_band_that_it_declares),
        cmocka_unit_test(an_int_variant_is_held_to_the_integer_oracle),
        cmocka_unit_test(a_row_that_depends_on_its_neighbours_is_caught),
        cmocka_unit_test(only_a_variant_that_claims_determinism_must_have_it),
        cmocka_unit_test(a_write_past_a_device_buffer_is_caught_without_guard_pages),
        cmocka_unit_test(a_declared_format_that_is_always_refused_is_never_run),
        cmocka_unit_test(a_variant_that_takes_few_shapes_is_still_run_on_them),
        cmocka_unit_test(an_absent_device_is_a_named_skip_and_not_never_run),
        cmocka_unit_test(events_come_in_order_on_the_callers_thread),
        cmocka_unit_test(cases_that_found_a_fault_run_whatever_the_seed),
        cmocka_unit_test(the_formats_one_by_one_are_the_whole),
        cmocka_unit_test(unknown_names_are_refused),
        cmocka_unit_test(wrong_structs_are_refused_with_the_reason),
        cmocka_unit_test(a_report_is_never_written_past_the_callers_size),
        cmocka_unit_test(lines_of_nothing_are_empty),
        cmocka_unit_test(the_closing_line_counts_four_things),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
