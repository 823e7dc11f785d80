/* SPDX-License-Identifier: MIT
 * test_shadow.c - sampled runs beside the baseline: what is compared, said, and left as a file. */
#define _XOPEN_SOURCE 700
#include <glob.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cpu/cpu.h"
#include "watched.h"

#define DIR OPREG_TEST_BUILD "/shadow"

static watched w;

static void run(int count, opreg_status status) {
    for (int i = 0; i < count; i++) {
        assert_int_equal(opreg_plan_run(w.plan, &w.args), status);
    }
}

static void a_right_variant_is_compared_and_nothing_is_said(void **state) {
    (void)state;
    watched_open(&w, "planted/faithful_matmul", "shadow", "1/3");
    run(7, OPREG_OK);
    assert_string_equal(w.said.text, "");
    watched_close(&w);
    assert_text(w.said.text, "v1 shadow planted/faithful_matmul compared=3 of 7 differing=0 cost=");
}

static void a_difference_is_said_once_with_its_place(void **state) {
    (void)state;
    watched_open(&w, "planted/wrong_beyond_one_row", "shadow", "1/1");
    run(3, OPREG_OK);
    assert_int_equal(times(w.said.text, "shadow: planted/wrong_beyond_one_row is not planted/"), 1);
    assert_text(w.said.text, "on matmul_bt_quant dev=cpu:0/");
    assert_text(w.said.text, "m=2 n=32 k=256 b=q4_0");
    assert_text(w.said.text, "buffer 0 (y) row 1 column 0 is 0x");
    assert_text(w.said.text, "; 1 of 64 elements differ, largest error ");
    assert_text(w.said.text, "replay: none; set OPREG_SHADOW_DIR");
    watched_plan(&w, "planted/wrong_beyond_one_row", ""); /* another plan, the same problem */
    run(1, OPREG_OK);
    assert_int_equal(times(w.said.text, "shadow: planted"), 1);
    watched_plan(&w, "planted/wrong_beyond_one_row", " x_stride=256 level=canonical");
    run(1, OPREG_OK);
    assert_int_equal(times(w.said.text, "shadow: planted"), 2);
    watched_close(&w);
    assert_text(w.said.text, "compared=5 of 5 differing=5");
}

static void in_strict_mode_a_difference_is_an_error(void **state) {
    (void)state;
    watched_open(&w, "planted/wrong_beyond_one_row", "shadow", "1/2");
    assert_works(opreg_enable(w.reg, "strict", "on"));
    watched_plan(&w, "planted/wrong_beyond_one_row", "");
    assert_failed(opreg_plan_run(w.plan, &w.args), OPREG_E_CHECK,
                  "shadow: planted/wrong_beyond_one_row is not planted/");
    run(1, OPREG_OK); /* not sampled */
    run(1, OPREG_E_CHECK);
    watched_close(&w);
}

static void the_baseline_has_nothing_to_be_compared_with(void **state) {
    (void)state;
    watched_open(&w, "cpu/reference_matmul", "shadow", "1/1");
    run(2, OPREG_OK);
    watched_close(&w);
    assert_text(w.said.text, "v1 total cpu/reference_matmul plans=1 runs=2 time=");
    assert_no_text(w.said.text, "v1 shadow");
}

static void an_output_that_is_its_input_is_compared_rightly(void **state) {
    (void)state;
    watched_open(&w, "planted/faithful_matmul", "shadow", "1/1");
    w.bufs[OPREG_MATMUL_Y] = (opreg_buf){w.x, sizeof w.x};
    run(2, OPREG_OK);
    assert_string_equal(w.said.text, "");
    watched_close(&w);
}

static void where_nobody_can_tell_a_problem_for_graphs_is_left_alone(void **state) {
    (void)state;
    watched_open(&w, "planted/faithful_matmul", "shadow", "1/1");
    w.said.text[0] = '\0';
    watched_plan(&w, "planted/swapped_halves", " flags=graph_safe");
    run(1, OPREG_OK);
    assert_no_text(w.said.text, "shadow: ");
    assert_text(w.said.text, "planted/swapped_halves: its problem asks for graph_safe, so it may be captured, "
                             "shadow waits for the stream, and this device cannot tell");
    watched_close(&w);
}

/* ---- captures ----------------------------------------------------------------------------------- */

/* The planted plugin on a device that can tell, and on which nothing can be waited for meanwhile. */
static opreg_device_io telling;
static int capturing, with_steps;

static opreg_status tell(const opreg_host *host, const opreg_device *dev, void *stream, int *yes) {
    (void)host, (void)dev, (void)stream;
    *yes = capturing;
    return OPREG_OK;
}

static opreg_status refuse_to_wait(const opreg_host *host, const opreg_device *dev, void *stream) {
    (void)dev, (void)stream;
    if (capturing) {
        host->error(host->ctx, "a captured stream was waited for");
    }
    return capturing ? OPREG_E_DEVICE : OPREG_OK;
}

static opreg_status refuse_to_copy(const opreg_host *host, const opreg_device *dev, void *dst,
                                   const void *src, uint64_t bytes, void *stream) {
    return capturing ? refuse_to_wait(host, dev, stream)
                     : cpu_io.to_host(host, dev, dst, src, bytes, stream);
}

static opreg_status telling_entry(const opreg_host *host, opreg_plugin *out) {
    opreg_status status = planted_entry(host, out);
    telling = cpu_io;
    telling.capturing = tell;
    telling.stream_sync = refuse_to_wait;
    telling.to_host = refuse_to_copy;
    out->io = &telling;
    out->steps = with_steps ? out->steps : NULL;
    return status;
}

static void open_telling(const char *kernel, int steps, const char *flag, const char *word) {
    capturing = 0;
    with_steps = steps;
    watched_entry = telling_entry;
    watched_open(&w, kernel, flag, word);
    watched_entry = planted_entry;
}

static void captured_runs_are_compared_on_the_device_and_said_with_the_plans_end(void **state) {
    (void)state;
    open_telling("planted/swapped_halves", 1, "shadow", "1/2");
    capturing = 1;
    run(4, OPREG_OK);
    assert_string_equal(w.said.text, "");
    capturing = 0;
    watched_close(&w);
    assert_int_equal(times(w.said.text, "shadow: planted/swapped_halves is not planted/"), 1);
    assert_text(w.said.text, "buffer 0 (y) row 0 column 0 is 0x");
    assert_text(w.said.text, "; 64 of 128 elements differ"); /* of two sampled runs, one row each */
    assert_text(w.said.text, "replay: none; the runs were captured in a graph");
    assert_text(w.said.text, "compared=2 of 4 differing=1");
}

static void a_right_captured_variant_is_not_mentioned(void **state) {
    (void)state;
    open_telling("planted/faithful_matmul", 1, "shadow", "1/1");
    capturing = 1;
    run(3, OPREG_OK);
    capturing = 0;
    watched_close(&w);
    assert_no_text(w.said.text, "shadow: ");
    assert_text(w.said.text, "compared=3 of 3 differing=0");
}

static void a_run_that_is_not_captured_is_compared_at_once(void **state) {
    (void)state;
    open_telling("planted/swapped_halves", 1, "shadow", "1/1");
    run(1, OPREG_OK);
    assert_text(w.said.text, "shadow: planted/swapped_halves is not planted/");
    watched_close(&w);
}

static void what_waits_leaves_captured_runs_alone_and_says_so_once(void **state) {
    static const struct {
        const char *flag, *word, *what;
        int steps;
    } cases[] = {{"guard", "on", "guard waits", 1}, {"shadow", "1/1", "shadow waits", 0}};
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        open_telling("planted/swapped_halves", cases[i].steps, cases[i].flag, cases[i].word);
        capturing = 1;
        run(3, OPREG_OK);
        assert_int_equal(times(w.said.text, cases[i].what), 1);
        assert_text(w.said.text, "captured runs are not checked");
        capturing = 0;
        watched_close(&w);
    }
}

static void in_strict_mode_what_cannot_be_checked_is_refused(void **state) {
    (void)state;
    open_telling("planted/faithful_matmul", 1, "guard", "on");
    assert_works(opreg_enable(w.reg, "strict", "on"));
    watched_plan(&w, "planted/faithful_matmul", "");
    capturing = 1;
    assert_failed(opreg_plan_run(w.plan, &w.args), OPREG_E_STRICT,
                  "is being captured in a graph, and guard waits for the stream");
    capturing = 0;
    run(1, OPREG_OK);
    watched_close(&w);
}

/* ---- replay files ------------------------------------------------------------------------------- */

static void a_replay_file_is_left_when_a_directory_is_given(void **state) {
    glob_t found;
    struct stat about;
    char line[64] = "";
    FILE *file;
    (void)state;
    (void)!system("rm -rf '" DIR "' && mkdir '" DIR "'");
    watched_open(&w, "planted/swapped_halves", "shadow", "1/1");
    assert_works(opreg_enable(w.reg, "shadow-dir", DIR));
    watched_plan(&w, "planted/swapped_halves", "");
    run(2, OPREG_OK);
    assert_text(w.said.text, "; replay: " DIR "/opreg-shadow-");
    assert_int_equal(glob(DIR "/*.replay", 0, NULL, &found), 0);
    assert_int_equal(found.gl_pathc, 1);
    assert_int_equal(stat(found.gl_pathv[0], &about), 0);
    assert_int_equal(about.st_mode & 0777, 0600);
    assert_true(about.st_size > (long)(sizeof w.x + sizeof w.blocks));
    file = fopen(found.gl_pathv[0], "r");
    assert_non_null(file);
    assert_non_null(fgets(line, sizeof line, file));
    fclose(file);
    assert_string_equal(line, "opreg-replay 1\n");
    globfree(&found);
    watched_close(&w);
}

static void a_run_over_its_own_input_leaves_no_file(void **state) {
    (void)state;
    watched_open(&w, "planted/swapped_halves", "shadow", "1/1");
    assert_works(opreg_enable(w.reg, "shadow-dir", OPREG_TEST_BUILD));
    watched_plan(&w, "planted/swapped_halves", "");
    w.bufs[OPREG_MATMUL_Y] = (opreg_buf){w.x, sizeof w.x};
    run(1, OPREG_OK);
    assert_text(w.said.text, "replay: none; buffer 1 was written over by the run");
    watched_close(&w);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_right_variant_is_compared_and_nothing_is_said),
        cmocka_unit_test(a_difference_is_said_once_with_its_place),
        cmocka_unit_test(in_strict_mode_a_difference_is_an_error),
        cmocka_unit_test(the_baseline_has_nothing_to_be_compared_with),
        cmocka_unit_test(an_output_that_is_its_input_is_compared_rightly),
        cmocka_unit_test(where_nobody_can_tell_a_problem_for_graphs_is_left_alone),
        cmocka_unit_test(captured_runs_are_compared_on_the_device_and_said_with_the_plans_end),
        cmocka_unit_test(a_right_captured_variant_is_not_mentioned),
        cmocka_unit_test(a_run_that_is_not_captured_is_compared_at_once),
        cmocka_unit_test(what_waits_leaves_captured_runs_alone_and_says_so_once),
        cmocka_unit_test(in_strict_mode_what_cannot_be_checked_is_refused),
        cmocka_unit_test(a_replay_file_is_left_when_a_directory_is_given),
        cmocka_unit_test(a_run_over_its_own_input_leaves_no_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
