/* SPDX-License-Identifier: MIT
 * test_planted.c - wrong kernels inside a decode loop: shadow, guard and strict name each of them,
 * and say nothing about right ones. */
#include "fake/planted.h"
#include "registry_harness.h"
#include "small_engine.h"

/* Which instruments must name it. */
typedef struct planted_fault {
    const char *kernel;
    int guard, shadow, strict;
} planted_fault;

static const planted_fault faults[] = {
    {"stale_output", 1, 1, 0},
    {"swapped_halves", 0, 1, 0},
    {"caches_x_by_address", 0, 1, 0},
    {"never_taken", 0, 0, 1},
    {"drops_last_row", 1, 1, 0},
    {"wrong_beyond_one_row", 0, 1, 0},
    {"wrong_beyond_8192", 0, 1, 0},
    {"not_deterministic", 1, 1, 0},
    {"writes_into_the_gap", 1, 0, 0},
    {"writes_one_row_past", 1, 0, 0},
    {"writes_past_its_scratch", 1, 0, 0},
    {"reads_unwritten_scratch", 1, 0, 0},
    {"adds_to_the_output", 1, 0, 0},
    {"changes_its_input", 1, 0, 0},
    {"other_order", 0, 1, 0},
    {"skips_invalid_entries", 1, 1, 0},
    {"uses_expert_before", 0, 1, 0},
    {"route_swaps_entries", 0, 1, 0},
    {"combine_skips_last_slot", 0, 1, 0},
    {"skips_last_head", 0, 1, 0},
    {"forgets_the_last_key", 0, 1, 0},
    {"stale_row_when_empty", 1, 0, 0},
};
#define FAULTS (sizeof faults / sizeof faults[0])

static captured said;
static uint64_t right_digest;

/* A registry with the plugin and one of its kernels on; "" for none. */
static opreg_registry *open_with(const char *kernel, const char *flag, const char *word) {
    opreg_registry *reg = quiet_registry(&said);
    char name[96];
    planted_forget();
    assert_works(opreg_add(reg, planted_entry));
    assert_works(opreg_enable(reg, flag, word));
    if (kernel[0] != '\0') {
        snprintf(name, sizeof name, "planted/%s", kernel);
        assert_works(opreg_enable(reg, name, "on"));
    }
    return reg;
}

static int named(const char *text, const char *by, const char *kernel) {
    char start[128];
    snprintf(start, sizeof start, "%s: ", by);
    text = strstr(text, start);
    snprintf(start, sizeof start, "planted/%s", kernel);
    return text != NULL && strstr(text, start) != NULL;
}

static void faithful_kernels_go_through_every_instrument_with_the_same_bits(void **state) {
    static const char *const right[] = {"faithful_matmul", "faithful_attention", "faithful_route",
                                        "faithful_moe_matmul", "faithful_combine"};
    static const char *const words[][2] = {{"shadow", "1/1"}, {"shadow", "1/2"}, {"guard", "on"}};
    (void)state;
    for (size_t w = 0; w < 3; w++) {
        uint64_t digest;
        opreg_registry *reg = open_with("", words[w][0], words[w][1]);
        assert_works(opreg_enable(reg, "strict", "on"));
        for (size_t i = 0; i < sizeof right / sizeof right[0]; i++) {
            char name[96];
            snprintf(name, sizeof name, "planted/%s", right[i]);
            assert_works(opreg_enable(reg, name, "on"));
        }
        assert_works(small_engine_run(reg, &digest));
        assert_true(digest == right_digest);
        assert_no_text(said.text, "shadow: ");
        assert_works(opreg_destroy(reg));
    }
}

static void guard_names_every_fault_that_is_about_memory(void **state) {
    size_t missed = 0;
    (void)state;
    for (size_t i = 0; i < FAULTS; i++) {
        uint64_t digest;
        opreg_registry *reg = open_with(faults[i].kernel, "guard", "on");
        opreg_status status = small_engine_run(reg, &digest);
        int caught = status == OPREG_E_CHECK && named(opreg_last_error(), "guard", faults[i].kernel);
        if (faults[i].guard && !caught) {
            print_error("guard missed %s: %s %s\n", faults[i].kernel, opreg_status_name(status),
                        status != OPREG_OK ? opreg_last_error() : "");
            missed++;
        }
        assert_works(opreg_destroy(reg));
    }
    assert_int_equal(missed, 0);
}

static void shadow_names_every_fault_that_changes_a_result(void **state) {
    size_t missed = 0;
    (void)state;
    for (size_t i = 0; i < FAULTS; i++) {
        uint64_t digest;
        opreg_registry *reg = open_with(faults[i].kernel, "shadow", "1/1");
        assert_works(small_engine_run(reg, &digest));
        if (faults[i].shadow && !named(said.text, "shadow", faults[i].kernel)) {
            print_error("shadow missed %s: %s\n", faults[i].kernel, said.text);
            missed++;
        }
        assert_works(opreg_destroy(reg));
    }
    assert_int_equal(missed, 0);
}

static void strict_names_a_kernel_that_is_on_and_never_taken(void **state) {
    (void)state;
    for (size_t i = 0; i < FAULTS; i++) {
        uint64_t digest;
        opreg_registry *reg = open_with(faults[i].kernel, "strict", "on");
        opreg_status status = small_engine_run(reg, &digest);
        assert_int_equal(status == OPREG_E_STRICT, faults[i].strict);
        if (faults[i].strict) {
            assert_text(opreg_last_error(), "planted/never_taken: it asks for m of at least 4096");
        }
        assert_works(opreg_destroy(reg));
    }
}

static void every_fault_is_named_by_one_of_the_three(void **state) {
    (void)state;
    assert_true(FAULTS >= 10);
    for (size_t i = 0; i < FAULTS; i++) {
        assert_true(faults[i].guard || faults[i].shadow || faults[i].strict);
    }
}

static int run_right(void **state) {
    opreg_registry *reg = quiet_registry(&said);
    (void)state;
    assert_works(small_engine_run(reg, &right_digest));
    return opreg_destroy(reg) == OPREG_OK ? 0 : -1;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(faithful_kernels_go_through_every_instrument_with_the_same_bits),
        cmocka_unit_test(guard_names_every_fault_that_is_about_memory),
        cmocka_unit_test(shadow_names_every_fault_that_changes_a_result),
        cmocka_unit_test(strict_names_a_kernel_that_is_on_and_never_taken),
        cmocka_unit_test(every_fault_is_named_by_one_of_the_three),
    };
    return cmocka_run_group_tests(tests, run_right, NULL);
}
