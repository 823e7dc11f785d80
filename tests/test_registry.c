/* SPDX-License-Identifier: MIT
 * test_registry.c - registries: what is added, enabled and unloaded, what callbacks and threads may
 * do, and how they end. */
#define _GNU_SOURCE
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#define FAKE_ENTRY fake_entry
#include "fake/fake_plugin.h"
#include "fake_folder.h"
#include "registry_harness.h"

static captured said;

static void a_wrong_enable_changes_nothing(void **state) {
    opreg_registry *reg = quiet_registry(&said);
    (void)state;
    assert_failed(opreg_enable(reg, "cpv", "on"), OPREG_E_ARG, "did you mean cpu?");
    assert_failed(opreg_enable(reg, "cpu", "off"), OPREG_E_ARG, "it takes: on exact fast");
    assert_failed(opreg_enable(reg, "guard", "1/8"), OPREG_E_ARG, "it takes: off on");
    assert_string_equal(flag_row(reg, "guard").value, "off");
    assert_failed(opreg_enable(reg, "shadow", "on"), OPREG_E_ARG, "it takes: off 1/n");
    assert_string_equal(flag_row(reg, "shadow").value, "off");
    assert_failed(opreg_enable(reg, "shadow-dir", "here"), OPREG_E_ARG, "not an absolute path");
    assert_failed(opreg_enable(reg, "shadow-dir", "/nowhere"), OPREG_E_ARG, "cannot be written");
    assert_failed(opreg_enable(NULL, "cpu", "on"), OPREG_E_ARG, "null");
    assert_works(opreg_destroy(reg));
}

static void two_registries_do_not_know_each_other(void **state) {
    opreg_registry *a = quiet_registry(&said), *b = quiet_registry(&said);
    (void)state;
    assert_works(opreg_add(a, fake_entry));
    assert_works(opreg_enable(a, "cpu", "fast"));
    assert_int_equal(opreg_plugins(b, NULL, 0, 0), 1);
    assert_string_equal(flag_row(b, "cpu").value, "on");
    assert_works(opreg_destroy(a));
    assert_int_equal(opreg_devices(b, NULL, 0, 0), 1);
    assert_works(opreg_destroy(b));
}

static void a_name_can_be_added_once(void **state) {
    opreg_registry *reg = quiet_registry(&said);
    (void)state;
    assert_works(opreg_add(reg, fake_entry));
    assert_failed(opreg_add(reg, fake_entry), OPREG_E_ARG, "a plugin named fake is there already");
    assert_works(opreg_unload(reg, "fake"));
    assert_int_equal(plugin_row(reg, "fake").state, OPREG_PLUGIN_UNLOADED);
    assert_works(opreg_add(reg, fake_entry));
    assert_int_equal(plugin_row(reg, "fake").state, OPREG_PLUGIN_READY);
    assert_works(opreg_destroy(reg));
}

static void a_plugin_with_live_plans_is_busy(void **state) {
    opreg_registry *reg = quiet_registry(&said);
    opreg_matmul_bt_quant p = matmul_of("n=4 k=256 b=q4_k");
    opreg_device dev = device_of(OPREG_CUDA, 0, "fake_1");
    opreg_plan *plan = NULL;
    (void)state;
    assert_works(opreg_add(reg, fake_entry));
    assert_works(opreg_plan_create(reg, &dev, OPREG_OP_MATMUL_BT_QUANT, &p, &plan));
    assert_failed(opreg_unload(reg, "fake"), OPREG_E_BUSY, "1 live plans and weights");
    assert_failed(opreg_destroy(reg), OPREG_E_BUSY, "1 live plans and weights");
    opreg_plan_destroy(plan);
    fake_shutdowns = 0;
    assert_works(opreg_unload(reg, "fake"));
    assert_int_equal(fake_shutdowns, 1);
    assert_failed(opreg_unload(reg, "fake"), OPREG_E_ARG, "not open");
    assert_failed(opreg_unload(reg, "cpu"), OPREG_E_ARG, "cannot be unloaded");
    assert_failed(opreg_unload(reg, "other"), OPREG_E_ARG, "no plugin named");
    assert_works(opreg_destroy(reg));
    assert_int_equal(fake_shutdowns, 1);
}

static void an_unloaded_plugin_can_be_opened_again(void **state) {
    opreg_registry *reg = quiet_registry(&said);
    char dir[1024];
    (void)state;
    fake_dir(dir, sizeof dir, "good");
    assert_works(opreg_discover(reg, dir));
    assert_works(opreg_enable(reg, "fake-good", "on"));
    assert_works(opreg_unload(reg, "fake-good"));
    assert_int_equal(opreg_devices(reg, NULL, 0, 0), 1);
    assert_works(opreg_discover(reg, dir)); /* does not open it behind the caller's back */
    assert_int_equal(opreg_devices(reg, NULL, 0, 0), 1);
    assert_works(opreg_enable(reg, "fake-good", "on"));
    assert_int_equal(opreg_devices(reg, NULL, 0, 0), 2);
    assert_works(opreg_destroy(reg));
}

static void rows_are_never_written_past_the_callers_size(void **state) {
    opreg_registry *reg = quiet_registry(&said);
    unsigned char room[2][64];
    uint32_t size;
    (void)state;
    memset(room, 0xa5, sizeof room);
    assert_int_equal(opreg_devices(reg, (opreg_device *)(void *)room, 16, 1), 1);
    memcpy(&size, room, sizeof size);
    assert_int_equal(size, 16);
    for (size_t i = 16; i < sizeof room[0]; i++) {
        assert_int_equal(room[0][i], 0xa5);
    }
    assert_int_equal(opreg_plugins(reg, NULL, 0, 0), 1);
    assert_works(opreg_destroy(reg));
}

static void a_bad_config_is_refused(void **state) {
    opreg_config config = {.struct_size = sizeof config, .flags = 0x80};
    opreg_registry *reg;
    (void)state;
    assert_failed(opreg_create(&config, &reg), OPREG_E_ARG, "unknown flags 0x80");
    config = (opreg_config){0};
    assert_failed(opreg_create(&config, &reg), OPREG_E_ARG, "struct_size 0");
    assert_failed(opreg_create(NULL, NULL), OPREG_E_ARG, "null");
    assert_works(opreg_destroy(NULL));
}

/* ---- callbacks and threads ------------------------------------------------------------------ */

static opreg_registry *called_back;
static int calls;

static void call_back(void *user, opreg_log_level level, const char *line) {
    (void)user, (void)level, (void)line;
    if (called_back != NULL) {
        calls++;
        assert_true(opreg_devices(called_back, NULL, 0, 0) >= 1); /* takes the lock */
    }
}

static void a_log_callback_may_call_the_registry(void **state) {
    opreg_config config = {.struct_size = sizeof config,
                           .flags = OPREG_CF_NO_ENV | OPREG_CF_NO_INSTALLED,
                           .log = call_back};
    opreg_matmul_bt_quant p = matmul_of("n=4 k=256 b=q4_k");
    opreg_device dev = device_of(OPREG_CUDA, 0, "fake_1");
    opreg_plan *plan = NULL;
    (void)state;
    assert_works(opreg_create(&config, &called_back));
    assert_works(opreg_add(called_back, fake_entry));
    assert_works(opreg_enable(called_back, "trace", "plan"));
    assert_works(opreg_plan_create(called_back, &dev, OPREG_OP_MATMUL_BT_QUANT, &p, &plan));
    assert_true(calls > 0);
    opreg_plan_destroy(plan);
    assert_works(opreg_destroy(called_back));
    called_back = NULL;
}

static void *plan_many(void *argument) {
    opreg_registry *reg = argument;
    opreg_matmul_bt_quant p = matmul_of("n=4 k=256 b=q4_k");
    opreg_device dev = device_of(OPREG_CUDA, 0, "fake_1");
    for (int i = 0; i < 200; i++) {
        opreg_plan *plan = NULL;
        if (opreg_plan_create(reg, &dev, OPREG_OP_MATMUL_BT_QUANT, &p, &plan) != OPREG_OK ||
            opreg_enable(reg, "fake", i % 2 != 0 ? "fast" : "exact") != OPREG_OK) {
            return argument;
        }
        opreg_plan_destroy(plan);
    }
    return NULL;
}

static void many_threads_may_use_one_registry(void **state) {
    opreg_registry *reg = quiet_registry(&said);
    pthread_t threads[4];
    void *failed = NULL;
    (void)state;
    assert_works(opreg_add(reg, fake_entry));
    for (int i = 0; i < 4; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, plan_many, reg), 0);
    }
    for (int i = 0; i < 4; i++) {
        pthread_join(threads[i], &failed);
        assert_null(failed);
    }
    assert_works(opreg_destroy(reg));
}

static void a_forked_child_can_use_and_end_its_copy(void **state) {
    opreg_registry *reg = quiet_registry(&said);
    pid_t child;
    int status;
    (void)state;
    child = fork();
    if (child == 0) {
        alarm(20);
        _exit(opreg_devices(reg, NULL, 0, 0) == 1 && opreg_destroy(reg) == OPREG_OK ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    assert_works(opreg_destroy(reg));
}

static opreg_registry *forked;
static int fork_status;

/* Runs under the registry's lock, so the child is born with it held. */
static opreg_status fork_in_entry(const opreg_host *host, opreg_plugin *out) {
    pid_t child = fork();
    (void)host, (void)out;
    if (child == 0) {
        alarm(20);
        _exit(opreg_devices(forked, NULL, 0, 0) == 0 &&
                      opreg_enable(forked, "cpu", "on") == OPREG_E_BUSY
                  ? 0
                  : 1);
    }
    waitpid(child, &fork_status, 0);
    return OPREG_E_DEVICE;
}

static void a_child_born_with_the_lock_held_is_told_so(void **state) {
    (void)state;
    forked = quiet_registry(&said);
    assert_int_equal(opreg_add(forked, fork_in_entry), OPREG_E_LOAD);
    assert_true(WIFEXITED(fork_status));
    assert_int_equal(WEXITSTATUS(fork_status), 0);
    assert_works(opreg_destroy(forked));
}

static void a_device_has_its_io_and_host(void **state) {
    opreg_registry *reg = quiet_registry(&said);
    opreg_device dev = device_of(OPREG_CUDA, 0, "");
    const opreg_device_io *io;
    const opreg_host *host;
    void *memory;
    (void)state;
    assert_failed(opreg_device_io_get(reg, &dev, &io, &host), OPREG_E_UNSUPPORTED, "cuda:0");
    assert_works(opreg_add(reg, fake_entry));
    assert_works(opreg_device_io_get(reg, &dev, &io, &host));
    assert_works(io->alloc(host, &dev, 16, &memory));
    io->free(host, &dev, memory);
    assert_works(opreg_destroy(reg));
}

static void the_cpu_has_steps_and_a_plugin_without_them_is_named(void **state) {
    opreg_registry *reg = quiet_registry(&said);
    opreg_device cuda = device_of(OPREG_CUDA, 0, ""), cpu = device_of(OPREG_CPU, 0, "");
    const opreg_device_steps *steps = NULL;
    const opreg_host *host;
    (void)state;
    assert_works(opreg_device_steps_get(reg, &cpu, &steps, &host));
    assert_non_null(steps->norm);
    assert_failed(opreg_device_steps_get(reg, &cuda, &steps, &host), OPREG_E_UNSUPPORTED, "cuda:0");
    assert_works(opreg_add(reg, fake_entry));
    assert_failed(opreg_device_steps_get(reg, &cuda, &steps, &host), OPREG_E_UNSUPPORTED,
                  "no steps");
    assert_works(opreg_destroy(reg));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_wrong_enable_changes_nothing),
        cmocka_unit_test(two_registries_do_not_know_each_other),
        cmocka_unit_test(a_name_can_be_added_once),
        cmocka_unit_test(a_plugin_with_live_plans_is_busy),
        cmocka_unit_test(an_unloaded_plugin_can_be_opened_again),
        cmocka_unit_test(rows_are_never_written_past_the_callers_size),
        cmocka_unit_test(a_bad_config_is_refused),
        cmocka_unit_test(a_log_callback_may_call_the_registry),
        cmocka_unit_test(many_threads_may_use_one_registry),
        cmocka_unit_test(a_forked_child_can_use_and_end_its_copy),
        cmocka_unit_test(a_child_born_with_the_lock_held_is_told_so),
        cmocka_unit_test(a_device_has_its_io_and_host),
        cmocka_unit_test(the_cpu_has_steps_and_a_plugin_without_them_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
