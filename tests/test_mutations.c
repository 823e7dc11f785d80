/* SPDX-License-Identifier: MIT
 * Every kernel of the mutation plugin, each the CPU reference with one mistake, fails the kit, and
 * the same kernels without a mistake pass it.  The report, mistake by mistake with the checks that
 * caught it and the first case, is written to mutations.txt in the build folder. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "fake/mutations.h"
#include "fake/paper_gpu.h"
#include "opreg/opreg_test.h"

#define CHECKS 16

/* The checks that failed, and the first failure in words. */
typedef struct outcome {
    char checks[CHECKS][24];
    uint64_t hits[CHECKS];
    size_t count;
    char first[1600], first_format[32];
    uint64_t first_case;
    opreg_kit_report report;
} outcome;

static void note(void *user, const opreg_kit_event *event) {
    outcome *o = user;
    size_t i = 0;
    if (event->verdict == OPREG_KIT_PASSED ||
        (event->kind != OPREG_KIT_CASE && event->kind != OPREG_KIT_CELL)) {
        return;
    }
    if (o->first[0] == '\0') {
        opreg_kit_event_print(event, 0, o->first, sizeof o->first);
        snprintf(o->first_format, sizeof o->first_format, "%s", event->format);
        o->first_case = event->cases;
    }
    while (i < o->count && strcmp(o->checks[i], event->check) != 0) {
        i++;
    }
    if (i < CHECKS) {
        snprintf(o->checks[i], sizeof o->checks[i], "%s", event->check);
        o->hits[i]++;
        o->count += i == o->count;
    }
}

static uint64_t seed;

static void run_kernel(opreg_registry *reg, const char *kernel, uint32_t flags, outcome *o) {
    opreg_kit_options options = {.struct_size = sizeof options,
                                 .flags = flags,
                                 .seed = seed,
                                 .plugin = "mutations",
                                 .kernel = kernel,
                                 .event = note,
                                 .user = o};
    memset(o, 0, sizeof *o);
    o->report.struct_size = sizeof o->report;
    if (opreg_kit_run(reg, &options, &o->report) != OPREG_OK) {
        fail_msg("opreg_kit_run of %s: %s", kernel, opreg_last_error());
    }
}

static int set_up(void **state) {
    opreg_config config = {.struct_size = sizeof config,
                           .flags = OPREG_CF_NO_ENV | OPREG_CF_NO_INSTALLED};
    opreg_registry *reg;
    if (opreg_create(&config, &reg) != OPREG_OK || opreg_add(reg, mutations_entry) != OPREG_OK) {
        return -1;
    }
    *state = reg;
    return 0;
}

static int tear_down(void **state) { return opreg_destroy(*state) == OPREG_OK ? 0 : -1; }

static void kernels_without_a_mistake_pass(void **state) {
    outcome o;
    for (size_t i = 0; i < mutation_control_count; i++) {
        run_kernel(*state, mutation_controls[i], 0, &o);
        if (o.report.failed != 0 || o.report.never_run != 0 || o.report.passed == 0) {
            fail_msg("%s: %llu passed, %llu failed, %llu never-run: %s", mutation_controls[i],
                     (unsigned long long)o.report.passed, (unsigned long long)o.report.failed,
                     (unsigned long long)o.report.never_run, o.first);
        }
    }
}

/* The check that a mistake is about, and not only a comparison that happens to see it. */
static const char *const expected[][2] = {
    {"drops_last_row", "unwritten"},
    {"writes_one_row_past", "guard"},
    {"writes_into_the_gap", "outside"},
    {"writes_past_its_scratch", "guard"},
    {"reads_past_the_weight", "guard"},
    {"reads_before_the_weight", "guard"},
    {"reads_unwritten_scratch", "workspace"},
    {"x_gap_matters", "unused-slots"},
    {"adds_to_the_output", "stale-output"},
    {"changes_its_input", "inputs"},
    {"not_deterministic", "determinism"},
    {"reads_idle_experts", "unused-slots"},
    {"skips_invalid_entries", "unwritten"},
    {"reads_table_past_the_end", "guard"},
    {"nan_from_unused_slots", "unused-slots"},
    {"stale_row_when_empty", "unwritten"},
    {"other_order", "bits"},
    {"trusts_the_counts", "guard"},
    {"shares_its_scratch", "threads"},
    {"zeroes_unnamed_rows", "outside"},
    {"trusts_the_groups", "outside"},
    {"ffn_rounds_h", "composition"},
    {"leaves_unclaimed_tokens", "unwritten"},
    {"moe_row_depends_on_width", "width"},
    {"ffn_depends_on_width", "width"},
    {"attention_depends_on_width", "width"},
    {"changes_its_weight", "inputs"},
    {"borrows_its_input", "inputs"},
    {"allocates", "allocation"},
    {"flushes_from_now_on", "float-mode"},
    {"refuses_at_times", "plan"},
    {"caches_weights_by_address", "weights"},
    {"nan_when_large", "finite"},
    {"exp_overflows", "finite"},
};

/* Allocations are not counted in a program with sanitizers, which have their own malloc. */
extern uint64_t opreg_kit_allocations(void) __attribute__((weak));

/* 1 when the checks that failed name what the mistake is about. */
static int is_named(const char *kernel, const outcome *o, int say) {
    for (size_t i = 0; i < sizeof expected / sizeof expected[0]; i++) {
        int named = strcmp(expected[i][0], kernel) != 0;
        for (size_t c = 0; c < o->count; c++) {
            named |= strcmp(o->checks[c], expected[i][1]) == 0;
        }
        if (!named && say) {
            print_error("%s was not caught by the check %s but: %s\n", kernel, expected[i][1],
                        o->first);
        }
        if (!named) {
            return 0;
        }
    }
    return 1;
}

/* The mistakes asked for on the command line; all of them without one.  A number is the seed. */
static char **asked;
static int num_asked;

static int is_asked(const char *kernel) {
    int found = num_asked == 0;
    for (int i = 0; i < num_asked; i++) {
        found |= strcmp(asked[i], kernel) == 0;
    }
    return found;
}

static void every_mistake_is_caught_by_the_check_for_it(void **state) {
    FILE *report = fopen(OPREG_TEST_BUILD "/mutations.txt", "w");
    size_t missed = 0, unnamed = 0;
    outcome o;
    assert_non_null(report);
    for (size_t i = 0; i < mutation_count; i++) {
        if (!is_asked(mutation_notes[i].kernel) ||
            (opreg_kit_allocations == NULL && strcmp(mutation_notes[i].kernel, "allocates") == 0)) {
            continue;
        }
        /* most fall to the few cases of a quick run */
        run_kernel(*state, mutation_notes[i].kernel, OPREG_KIT_QUICK, &o);
        int quick = o.report.failed > 0 && is_named(mutation_notes[i].kernel, &o, 0);
        if (!quick) {
            run_kernel(*state, mutation_notes[i].kernel, 0, &o);
        }
        missed += o.report.failed == 0;
        unnamed += !is_named(mutation_notes[i].kernel, &o, 1);
        fprintf(report, "%-28s %s; %llu of %llu %s: %s", mutation_notes[i].kernel,
                mutation_notes[i].story, (unsigned long long)o.report.failed,
                (unsigned long long)(o.report.failed + o.report.passed),
                quick ? "quick cases" : "cases",
                o.report.failed == 0 ? "NOT CAUGHT" : "caught by");
        for (size_t c = 0; c < o.count; c++) {
            fprintf(report, " %s (%llu)", o.checks[c], (unsigned long long)o.hits[c]);
        }
        fprintf(report, "; first by %s case %llu\n", o.first_format, (unsigned long long)o.first_case);
        if (o.report.failed == 0) {
            print_error("not caught: %s: %s\n", mutation_notes[i].kernel, mutation_notes[i].story);
        }
    }
    fclose(report);
    assert_true(mutation_count >= 25);
    assert_int_equal(missed, 0);
    assert_int_equal(unnamed, 0);
}

/* A driver's own threads allocate while the CPU runs: nobody can tell whose an allocation is. */
static void nothing_is_counted_beside_a_driver_and_that_is_said(void **state) {
    void *beside;
    outcome o;
    (void)state;
    if (opreg_kit_allocations == NULL) {
        skip();
    }
    assert_int_equal(set_up(&beside), 0);
    assert_int_equal(opreg_add(beside, paper_gpu_entry), OPREG_OK);
    run_kernel(beside, "allocates", OPREG_KIT_QUICK, &o);
    assert_int_equal(tear_down(&beside), 0);
    assert_int_equal(o.report.failed, 0);
    assert_int_equal(o.report.skipped, 1);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_counted_beside_a_driver_and_that_is_said),
        cmocka_unit_test(kernels_without_a_mistake_pass),
        cmocka_unit_test(every_mistake_is_caught_by_the_check_for_it),
    };
    if (argc > 1 && argv[1][strspn(argv[1], "0123456789")] == '\0') {
        seed = strtoull(argv[1], NULL, 10);
        argc--;
        argv++;
    }
    asked = argv + 1;
    num_asked = argc - 1;
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
