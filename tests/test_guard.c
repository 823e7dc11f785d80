/* SPDX-License-Identifier: MIT
 * test_guard.c - what guard says about a run, and what it leaves alone. */
#define _GNU_SOURCE
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fake/paper_gpu.h"
#include "watched.h"

static watched w;

static void run_fails(const char *kernel, const char *part) {
    watched_open(&w, kernel, "guard", "on");
    assert_failed(opreg_plan_run(w.plan, &w.args), OPREG_E_CHECK, part);
    watched_close(&w);
}

static void a_right_run_gives_the_same_bits_and_leaves_the_gaps_alone(void **state) {
    float want[2 * WATCHED_STRIDE];
    (void)state;
    watched_open(&w, "planted/faithful_matmul", "guard", "off");
    assert_works(opreg_plan_run(w.plan, &w.args));
    memcpy(want, w.y, sizeof want);
    watched_close(&w);
    watched_open(&w, "planted/faithful_matmul", "guard", "on");
    assert_works(opreg_plan_run(w.plan, &w.args));
    assert_memory_equal(w.y, want, sizeof want);
    assert_true(w.y[WATCHED_N] == 7.0f);
    watched_close(&w);
}

static void a_baseline_is_guarded_too(void **state) {
    (void)state;
    watched_open(&w, "cpu/reference_matmul", "guard", "on");
    assert_works(opreg_plan_run(w.plan, &w.args));
    w.said.length = 0;
    watched_close(&w);
    assert_text(w.said.text, "v1 guard cpu/reference_matmul runs=1 cost=");
}

static void an_unwritten_element_is_named(void **state) {
    (void)state;
    run_fails("planted/drops_last_row",
              "guard: planted/drops_last_row did not write 32 of 64 elements of buffer 0 (y), the "
              "first at byte 160: row 1, column 0");
}

static void a_byte_past_the_end_is_named(void **state) {
    (void)state;
    run_fails("planted/writes_one_row_past", /* its 1.0f is 00 00 80 3f */
              "guard: planted/writes_one_row_past wrote byte 320 of buffer 0 (y), past its end");
}

static void a_byte_between_rows_is_named(void **state) {
    (void)state;
    run_fails("planted/writes_into_the_gap", "wrote byte 128 of buffer 0 (y), which lies between two rows");
}

static void a_byte_past_the_workspace_is_named(void **state) {
    (void)state;
    run_fails("planted/writes_past_its_scratch", "of its workspace, which has");
}

static void a_changed_input_is_named(void **state) {
    (void)state;
    run_fails("planted/changes_its_input", "changed byte 0 of buffer 1 (x), its input");
}

static void a_result_that_depends_on_what_was_there_is_named(void **state) {
    (void)state;
    run_fails("planted/adds_to_the_output", "guard: two runs of planted/adds_to_the_output differ in 1 "
                                            "of 64 elements, first in buffer 0 (y) at byte 0");
}

static void a_failed_check_leaves_the_outputs_as_they_were(void **state) {
    (void)state;
    watched_open(&w, "planted/drops_last_row", "guard", "on");
    assert_int_equal(opreg_plan_run(w.plan, &w.args), OPREG_E_CHECK);
    for (int i = 0; i < 2 * WATCHED_STRIDE; i++) {
        assert_true(w.y[i] == 7.0f);
    }
    watched_close(&w);
}

static void an_output_that_is_its_input_is_fine(void **state) {
    float want[2 * WATCHED_STRIDE];
    (void)state;
    watched_open(&w, "planted/faithful_matmul", "guard", "on");
    assert_works(opreg_plan_run(w.plan, &w.args));
    memcpy(want, w.y, sizeof want);
    w.bufs[OPREG_MATMUL_Y] = (opreg_buf){w.x, sizeof w.x};
    assert_works(opreg_plan_run(w.plan, &w.args));
    assert_memory_equal(w.x, want, WATCHED_N * sizeof(float));
    watched_close(&w);
}

static void guard_holds_for_plans_made_after_it(void **state) {
    (void)state;
    watched_open(&w, "planted/drops_last_row", "guard", "off");
    assert_works(opreg_enable(w.reg, "guard", "on"));
    assert_works(opreg_plan_run(w.plan, &w.args));
    watched_plan(&w, "planted/drops_last_row", "");
    assert_int_equal(opreg_plan_run(w.plan, &w.args), OPREG_E_CHECK);
    assert_works(opreg_enable(w.reg, "guard", "off"));
    watched_plan(&w, "planted/drops_last_row", "");
    assert_works(opreg_plan_run(w.plan, &w.args));
    watched_close(&w);
}

/* A device with streams and graphs, as far as host memory can be one. */
static void a_captured_stream_is_refused_with_the_reason(void **state) {
    opreg_device dev = device_of(OPREG_CUDA, 7, "paper");
    opreg_matmul_bt_quant problem = matmul_of("m=2 n=32 k=256 b=q4_0 y_stride=40 layout=stored");
    opreg_weight_desc desc = {.struct_size = sizeof desc, .format = OPREG_Q4_0, .experts = 1,
                              .n = WATCHED_N, .k = 256};
    const opreg_device_io *io;
    const opreg_host *host;
    void *graph = NULL;
    (void)state;
    watched_open(&w, "planted/faithful_matmul", "guard", "on");
    assert_works(opreg_add(w.reg, paper_gpu_entry));
    opreg_plan_destroy(w.plan);
    opreg_weight_destroy(w.weight);
    desc.data = (opreg_buf){w.blocks, sizeof w.blocks};
    assert_works(opreg_weight_create(w.reg, &dev, &desc, &w.weight));
    w.weights[0] = w.weight;
    assert_works(opreg_plan_create_named(w.reg, &dev, OPREG_OP_MATMUL_BT_QUANT, &problem,
                                         "paper-gpu/matmul", &w.plan));
    assert_works(opreg_device_io_get(w.reg, &dev, &io, &host));
    assert_works(io->stream_create(host, &dev, &w.args.stream));
    free(w.scratch);
    w.scratch = aligned_alloc(256, (size_t)(opreg_plan_workspace(w.plan) + 511) / 256 * 256);
    w.args.workspace = (opreg_buf){w.scratch, opreg_plan_workspace(w.plan)};
    assert_works(opreg_plan_run(w.plan, &w.args));
    assert_works(io->capture_begin(host, &dev, w.args.stream));
    assert_failed(opreg_plan_run(w.plan, &w.args), OPREG_E_DEVICE,
                  "paper-gpu/matmul: shadow and guard wait for the stream, and it cannot be waited for "
                  "(error 900 (capture unsupported)): is it being captured in a graph?");
    assert_works(io->capture_end(host, &dev, w.args.stream, &graph));
    io->graph_destroy(host, &dev, graph);
    io->stream_destroy(host, &dev, w.args.stream);
    watched_close(&w);
}

typedef struct runner {
    float y[2 * WATCHED_STRIDE];
    opreg_status status;
} runner;

/* Its own outputs and workspace, the plan of all. */
static void *run_some(void *arg) {
    runner *r = arg;
    opreg_buf bufs[2] = {{r->y, sizeof r->y}, w.bufs[OPREG_MATMUL_X]};
    opreg_args args = w.args;
    args.bufs = bufs;
    args.workspace.ptr = aligned_alloc(256, (size_t)(args.workspace.bytes + 511) / 256 * 256);
    for (int i = 0; i < 5 && r->status == OPREG_OK; i++) {
        r->status = opreg_plan_run(w.plan, &args);
    }
    free(args.workspace.ptr);
    return NULL;
}

static void one_plan_is_checked_on_several_threads(void **state) {
    runner runners[4] = {0};
    pthread_t threads[4];
    (void)state;
    watched_open(&w, "planted/faithful_matmul", "guard", "on");
    assert_works(opreg_enable(w.reg, "shadow", "1/2"));
    watched_plan(&w, "planted/faithful_matmul", "");
    for (int i = 0; i < 4; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, run_some, &runners[i]), 0);
    }
    for (int i = 0; i < 4; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(runners[i].status, OPREG_OK);
        assert_memory_equal(runners[i].y, runners[0].y, WATCHED_N * sizeof(float));
    }
    watched_close(&w);
    assert_text(w.said.text, "compared=10 of 20 differing=0");
    assert_text(w.said.text, "v1 guard planted/faithful_matmul runs=20");
}

static int fork_status;

/* A kernel in whose run a child is born, which runs the plan. */
static opreg_status fork_in_run(void *state, const void *problem, const opreg_call *call) {
    pid_t child = fork();
    (void)state, (void)problem, (void)call;
    if (child == 0) {
        alarm(20);
        _exit(opreg_plan_run(w.plan, &w.args) == OPREG_E_BUSY &&
                      strstr(opreg_last_error(), "forked while another thread used the plan") != NULL
                  ? 0
                  : 1);
    }
    return waitpid(child, &fork_status, 0) == child ? OPREG_OK : OPREG_E_DEVICE;
}

static opreg_status forking_entry(const opreg_host *host, opreg_plugin *out) {
    static const opreg_kernel *rows[256];
    static opreg_kernel forking;
    opreg_status status = planted_entry(host, out);
    if (out->num_kernels > sizeof rows / sizeof rows[0]) {
        return OPREG_E_NOMEM;
    }
    for (uint32_t i = 0; i < out->num_kernels; i++) {
        rows[i] = out->kernels[i];
        if (strcmp(rows[i]->name, "faithful_matmul") == 0) {
            forking = *rows[i];
            forking.run = fork_in_run;
            rows[i] = &forking;
        }
    }
    out->kernels = rows;
    return status;
}

static void a_child_born_in_a_guarded_run_is_told_so(void **state) {
    (void)state;
    fork_status = -1;
    watched_entry = forking_entry;
    watched_open(&w, "planted/faithful_matmul", "guard", "on");
    watched_entry = planted_entry;
    assert_failed(opreg_plan_run(w.plan, &w.args), OPREG_E_CHECK, "did not write 64 of 64");
    assert_int_equal(fork_status, 0);
    watched_close(&w);
}

static void wrong_arguments_are_refused_as_without_guard(void **state) {
    (void)state;
    watched_open(&w, "planted/faithful_matmul", "guard", "on");
    w.bufs[OPREG_MATMUL_X].bytes = 1;
    assert_failed(opreg_plan_run(w.plan, &w.args), OPREG_E_ARG, "buffer 1 (x) has 1 bytes");
    watched_close(&w);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_right_run_gives_the_same_bits_and_leaves_the_gaps_alone),
        cmocka_unit_test(a_baseline_is_guarded_too),
        cmocka_unit_test(an_unwritten_element_is_named),
        cmocka_unit_test(a_byte_past_the_end_is_named),
        cmocka_unit_test(a_byte_between_rows_is_named),
        cmocka_unit_test(a_byte_past_the_workspace_is_named),
        cmocka_unit_test(a_changed_input_is_named),
        cmocka_unit_test(a_result_that_depends_on_what_was_there_is_named),
        cmocka_unit_test(a_failed_check_leaves_the_outputs_as_they_were),
        cmocka_unit_test(an_output_that_is_its_input_is_fine),
        cmocka_unit_test(guard_holds_for_plans_made_after_it),
        cmocka_unit_test(a_captured_stream_is_refused_with_the_reason),
        cmocka_unit_test(one_plan_is_checked_on_several_threads),
        cmocka_unit_test(a_child_born_in_a_guarded_run_is_told_so),
        cmocka_unit_test(wrong_arguments_are_refused_as_without_guard),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
