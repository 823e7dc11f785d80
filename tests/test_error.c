/* SPDX-License-Identifier: MIT
 * test_error.c - the per-thread text of the last failure. */
#include "error.h"

#include <pthread.h>

#include "registry_harness.h"

static void a_thread_has_no_text_before_it_fails(void **state) {
    (void)state;
    assert_string_equal(opreg_last_error(), "");
}

static void a_failure_leaves_its_status_and_text(void **state) {
    (void)state;
    assert_int_equal((fail)(OPREG_E_SHAPE, "k %d is not a multiple of %d", 33, 32), OPREG_E_SHAPE);
    assert_string_equal(opreg_last_error(), "k 33 is not a multiple of 32");
}

static void a_text_may_quote_the_text_before_it(void **state) {
    (void)state;
    (fail)(OPREG_E_ARG, "inner");
    (fail)(OPREG_E_LOAD, "outer: %s", opreg_last_error());
    assert_string_equal(opreg_last_error(), "outer: inner");
}

static void a_text_that_is_too_long_ends_in_dots(void **state) {
    char long_text[2 * ERROR_TEXT_BYTES];
    (void)state;
    memset(long_text, 'x', sizeof long_text - 1);
    long_text[sizeof long_text - 1] = '\0';
    (fail)(OPREG_E_ARG, "%s", long_text);
    assert_int_equal(strlen(opreg_last_error()), ERROR_TEXT_BYTES - 1);
    assert_string_equal(opreg_last_error() + ERROR_TEXT_BYTES - 4, "...");
}

static void *fail_elsewhere(void *seen) {
    snprintf(seen, 64, "%s", opreg_last_error());
    (fail)(OPREG_E_ARG, "of the other thread");
    return NULL;
}

static void a_text_belongs_to_the_thread_that_failed(void **state) {
    char seen[64] = "unset";
    pthread_t thread;
    (void)state;
    (fail)(OPREG_E_ARG, "of this thread");
    assert_int_equal(pthread_create(&thread, NULL, fail_elsewhere, seen), 0);
    pthread_join(thread, NULL);
    assert_string_equal(seen, "");
    assert_string_equal(opreg_last_error(), "of this thread");
}

static void a_success_keeps_the_text(void **state) {
    opreg_format_row row = {.struct_size = sizeof row};
    (void)state;
    (fail)(OPREG_E_ARG, "before");
    assert_works(opreg_format_by_name("q4_k", &row));
    assert_string_equal(opreg_last_error(), "before");
}

static void a_mark_tells_whether_there_is_a_new_text(void **state) {
    uint32_t mark;
    (void)state;
    (fail)(OPREG_E_ARG, "same");
    mark = error_mark();
    assert_string_equal(error_since(mark), "");
    (fail)(OPREG_E_ARG, "same");
    assert_string_equal(error_since(mark), "same");
}

static void every_status_has_its_name(void **state) {
    (void)state;
    assert_string_equal(opreg_status_name(OPREG_OK), "OPREG_OK");
    assert_string_equal(opreg_status_name(OPREG_E_CHECK), "OPREG_E_CHECK");
    for (int status = OPREG_E_ARG; status <= OPREG_E_CHECK; status++) {
        assert_memory_equal(opreg_status_name((opreg_status)status), "OPREG_E_", 8);
    }
    assert_string_equal(opreg_status_name((opreg_status)99), "unknown status");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_thread_has_no_text_before_it_fails),
        cmocka_unit_test(a_failure_leaves_its_status_and_text),
        cmocka_unit_test(a_text_may_quote_the_text_before_it),
        cmocka_unit_test(a_text_that_is_too_long_ends_in_dots),
        cmocka_unit_test(a_text_belongs_to_the_thread_that_failed),
        cmocka_unit_test(a_success_keeps_the_text),
        cmocka_unit_test(a_mark_tells_whether_there_is_a_new_text),
        cmocka_unit_test(every_status_has_its_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
