/* SPDX-License-Identifier: MIT
 * The staged kernels and the baselines without weights, compiled for the CPU from their own
 * sources, pass the conformance kit there: bits as the reference's, on routes that lie, at every
 * edge.  A device is still needed to say the same of its compiler and its memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "opreg/opreg_plugin.h"
#include "opreg/opreg_test.h"

opreg_status opreg_cuda_sm60_entry(const opreg_host *host, opreg_plugin *out);

static void print_failure(void *user, const opreg_kit_event *event) {
    char text[1600];
    int *failures = user;
    if (event->kind == OPREG_KIT_PROGRESS || event->verdict == OPREG_KIT_PASSED) {
        return;
    }
    if ((*failures)++ < 10) {
        opreg_kit_event_print(event, 0, text, sizeof text);
        printf("%s\n", text);
    }
}

static uint32_t flags = OPREG_KIT_QUICK;

static void run_kit(const char *kernel) {
    opreg_registry *reg = NULL;
    opreg_kit_report report = {.struct_size = sizeof report};
    int failures = 0;
    opreg_kit_options options = {.struct_size = sizeof options,
                                 .flags = flags,
                                 .plugin = "cuda-sm60",
                                 .kernel = kernel,
                                 .event = print_failure,
                                 .user = &failures};
    assert_int_equal(opreg_create(NULL, &reg), OPREG_OK);
    if (opreg_add(reg, opreg_cuda_sm60_entry) != OPREG_OK ||
        opreg_kit_run(reg, &options, &report) != OPREG_OK) {
        fail_msg("%s", opreg_last_error());
    }
    opreg_destroy(reg);
    assert_int_equal(report.failed, 0);
    assert_int_equal(report.never_run, 0);
    assert_true(report.passed > 0);
}

static void staged_rows_give_the_reference_bits_in_dense_calls(void **state) {
    (void)state;
    run_kit("gemv_ws");
}

static void staged_rows_give_the_reference_bits_in_moe_glu(void **state) {
    (void)state;
    run_kit("glu_ws");
}

static void rows_of_slot4_give_the_reference_bits_in_moe_glu(void **state) {
    (void)state;
    run_kit("glu_slot4");
}

static void staged_rows_give_the_reference_bits_in_moe_down(void **state) {
    (void)state;
    run_kit("down_ws");
}

static void split_attention_gives_the_reference_bits_in_f32(void **state) {
    (void)state;
    run_kit("split_f32");
}

static void split_attention_keeps_the_band_in_f16(void **state) {
    (void)state;
    run_kit("split_f16x2");
}

static void baselines_without_weights_give_the_reference_bits(void **state) {
    (void)state;
    run_kit("base_quantize");
    run_kit("base_route");
    run_kit("base_combine");
}

/* test_staged full: every case of the kit */
int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(baselines_without_weights_give_the_reference_bits),
        cmocka_unit_test(staged_rows_give_the_reference_bits_in_dense_calls),
        cmocka_unit_test(staged_rows_give_the_reference_bits_in_moe_glu),
        cmocka_unit_test(rows_of_slot4_give_the_reference_bits_in_moe_glu),
        cmocka_unit_test(staged_rows_give_the_reference_bits_in_moe_down),
        cmocka_unit_test(split_attention_gives_the_reference_bits_in_f32),
        cmocka_unit_test(split_attention_keeps_the_band_in_f16),
    };
    if (argc > 1 && strcmp(argv[1], "full") == 0) {
        flags = 0;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
