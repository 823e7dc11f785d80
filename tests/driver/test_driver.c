/* SPDX-License-Identifier: MIT
 * test_driver.c - a GPU plugin's library as it ships, over a stand-in for its driver.
 *
 *   test_driver PLUGIN FOLDER STAND-IN             FOLDER has the plugin's manifest
 *   test_driver PLUGIN FOLDER STAND-IN FUNCTION    STAND-IN lacks that function */
#include <dlfcn.h>
#include <pthread.h>
#include <unistd.h>

#include "../size_ladder.h"
#include "engine.h"
#include "stand_in.h"

#define CODE 999 /* what a failing call answers                                                     */
#define LOST 700

static const char *plugin, *folder, *arch, *other_arch;
static stand_in_state *driver;
static captured said;
static long open_objects; /* of the driver, while the plugin is open on two devices                */

static void serial(void *user, int64_t count, void (*task)(void *arg, int64_t i), void *arg) {
    (void)user;
    for (int64_t i = 0; i < count; i++) {
        task(arg, i);
    }
}

static int is_cuda(void) { return strncmp(plugin, "cuda", 4) == 0; }

/* Two healthy devices and nothing counted. */
static void settle(void) {
    driver->num_devices = 2;
    snprintf(driver->arch[0], sizeof driver->arch[0], "%s", arch);
    snprintf(driver->arch[1], sizeof driver->arch[1], "%s", arch);
    driver->version = is_cuda() ? 13000 : 70000000;
    driver->refuses_images = 0;
    driver->fail_at = driver->lose_at = 0;
    driver->fail_code = CODE;
    driver->lose_code = LOST;
    driver->calls = driver->launches = driver->chained = driver->waits = 0;
    driver->allocations = driver->loads = driver->copies = 0;
    driver->fired = driver->lost = driver->misused = 0;
    driver->misuse[0] = driver->failed_call[0] = '\0';
}

static int every_test(void **state) {
    (void)state;
    settle();
    return 0;
}

static opreg_registry *registry(void) {
    opreg_config config = capture_config(&said, OPREG_CF_NO_ENV);
    opreg_registry *reg = NULL;
    config.parallel_for = serial;
    assert_works(opreg_create(&config, &reg));
    assert_works(opreg_discover(reg, folder));
    return reg;
}

static void check_driver(void) {
    if (driver->misused) {
        fail_msg("the driver was misused: %s", driver->misuse);
    }
}

static void close_registry(opreg_registry *reg) {
    assert_works(opreg_destroy(reg));
    check_driver();
    assert_int_equal(driver->live, 0);
}

/* The plugin's devices, at most cap. */
static size_t devices(opreg_registry *reg, opreg_device *rows, size_t cap) {
    opreg_device all[STAND_IN_DEVICES + 1];
    size_t count = opreg_devices(reg, all, sizeof all[0], STAND_IN_DEVICES + 1), found = 0;
    for (size_t i = 0; i < count && found < cap; i++) {
        if (all[i].kind != OPREG_CPU) {
            rows[found++] = all[i];
        }
    }
    return found;
}

static const char *reason(opreg_registry *reg, uint32_t *state) {
    static opreg_plugin_row rows[16];
    size_t count = opreg_plugins(reg, rows, sizeof rows[0], 16);
    for (size_t i = 0; i < count; i++) {
        if (strcmp(rows[i].name, plugin) == 0) {
            *state = rows[i].state;
            return rows[i].reason;
        }
    }
    fail_msg("there is no plugin %s", plugin);
    return NULL;
}

static const char *error_name(int code) {
    return is_cuda() ? (code == LOST ? "CUDA_ERROR_ILLEGAL_ADDRESS (700)" : "CUDA_ERROR_UNKNOWN (999)")
                     : (code == LOST ? "hipErrorIllegalAddress (700)" : "hipErrorUnknown (999)");
}

static void the_whole_step_runs_on_every_device(void **state) {
    opreg_registry *reg = registry();
    opreg_device rows[4];
    (void)state;
    assert_works(opreg_enable(reg, plugin, "exact"));
    assert_int_equal(devices(reg, rows, 4), 2);
    open_objects = driver->live;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(rows[i].ordinal, i);
        assert_string_equal(rows[i].arch, arch);
        assert_text(rows[i].name, "stand-in");
        assert_int_equal(rows[i].units, 4);
        assert_works(engine_step(reg, &rows[i]));
    }
    check_driver();
    assert_true(driver->launches >= 8);
    assert_int_equal(driver->live, open_objects);
    close_registry(reg);
}

static void steps_refuse_a_missing_argument(void **state) {
    opreg_registry *reg = registry();
    const opreg_device_steps *steps = NULL;
    const opreg_host *host = NULL;
    opreg_device rows[4];
    (void)state;
    assert_works(opreg_enable(reg, plugin, "on"));
    assert_int_equal(devices(reg, rows, 4), 2);
    assert_works(opreg_device_steps_get(reg, &rows[0], &steps, &host));
    assert_int_equal(steps->gather(host, &rows[0], NULL, NULL), OPREG_E_ARG);
    assert_int_equal(steps->norm(host, &rows[0], NULL, NULL), OPREG_E_ARG);
    assert_int_equal(steps->heads(host, &rows[0], NULL, NULL), OPREG_E_ARG);
    assert_int_equal(steps->experts(host, &rows[0], NULL, NULL), OPREG_E_ARG);
    assert_int_equal(steps->glu(host, &rows[0], NULL, NULL), OPREG_E_ARG);
    assert_int_equal(steps->cap(host, &rows[0], NULL, NULL), OPREG_E_ARG);
    assert_int_equal(steps->argmax(host, &rows[0], NULL, NULL), OPREG_E_ARG);
    assert_int_equal(steps->compare(host, &rows[0], NULL, NULL), OPREG_E_ARG);
    close_registry(reg);
}

/* Calls whose failure nobody can be told of: releases, and what makes the caller's device current
 * again. */
static int is_quiet(const char *call) {
    static const char *const quiet[] = {
        "cuCtxPopCurrent", "cuDevicePrimaryCtxRelease", "cuModuleUnload",    "cuMemFree",
        "cuStreamDestroy", "cuGraphExecDestroy",        "cuGraphDestroy",    "cuEventDestroy",
        "hipModuleUnload", "hipFree",                   "hipStreamDestroy",  "hipGraphExecDestroy",
        "hipGraphDestroy", "hipEventDestroy",           "hipGetDevice",      "hipSetDevice",
        "cuCtxPushCurrent"};
    for (size_t i = 0; i < sizeof quiet / sizeof quiet[0]; i++) {
        if (strcmp(call, quiet[i]) == 0) {
            return 1;
        }
    }
    return 0;
}

/* Open, a step on both devices and close, with one call failing.  0: it was past the last call. */
static int life_with_a_failure(long n) {
    opreg_registry *reg = registry();
    opreg_device rows[2];
    opreg_status status;
    uint32_t plugin_state = 0;
    settle();
    driver->fail_at = n;
    status = opreg_enable(reg, plugin, "exact");
    if (status != OPREG_OK) {
        assert_int_equal(driver->live, 0);
    }
    for (int i = 0; status == OPREG_OK && i < 2; i++) {
        assert_int_equal(devices(reg, rows, 2), 2);
        status = engine_step(reg, &rows[i]);
    }
    check_driver();
    if (!driver->fired) {
        assert_works(status);
    } else if (status != OPREG_OK) {
        assert_int_equal(status, OPREG_E_DEVICE);
        if (strstr(opreg_last_error(), error_name(CODE)) == NULL) {
            fail_msg("call %ld, %s: no code in \"%s\"", n, driver->failed_call, opreg_last_error());
        }
    } else if (!is_quiet(driver->failed_call)) {
        fail_msg("call %ld, %s, failed and nobody was told", n, driver->failed_call);
    }
    /* the same registry works now */
    driver->fail_at = 0;
    assert_works(opreg_enable(reg, plugin, "exact"));
    reason(reg, &plugin_state);
    assert_int_equal(plugin_state, OPREG_PLUGIN_READY);
    assert_int_equal(devices(reg, rows, 2), 2);
    assert_works(engine_step(reg, &rows[0]));
    assert_works(engine_step(reg, &rows[1]));
    if (driver->live != open_objects && strcmp(driver->failed_call, "cuCtxPushCurrent") != 0) {
        /* without a context nothing in it can be freed until it goes */
        fail_msg("call %ld, %s, failed: %ld objects of the driver are left", n, driver->failed_call,
                 driver->live - open_objects);
    }
    close_registry(reg);
    return driver->fired;
}

static void *wait_for_the_end(void *mutex) {
    pthread_mutex_lock(mutex);
    pthread_mutex_unlock(mutex);
    return NULL;
}

/* A second thread: a registry then opens plugins without trying them in a child first, which would
 * take most of the time of hundreds of openings. */
static void every_call_of_the_driver_may_fail_once(void **state) {
    pthread_mutex_t end = PTHREAD_MUTEX_INITIALIZER;
    pthread_t second;
    long n = 1;
    (void)state;
    pthread_mutex_lock(&end);
    assert_int_equal(pthread_create(&second, NULL, wait_for_the_end, &end), 0);
    while (life_with_a_failure(n)) {
        n++;
    }
    pthread_mutex_unlock(&end);
    pthread_join(second, NULL);
    assert_true(n > 100); /* it was the whole step */
}

static void memory_that_the_device_does_not_have_is_no_memory(void **state) {
    opreg_registry *reg = registry();
    const opreg_device_io *io;
    const opreg_host *host;
    opreg_device row;
    void *block = NULL;
    (void)state;
    assert_works(opreg_enable(reg, plugin, "on"));
    assert_int_equal(devices(reg, &row, 1), 1);
    assert_works(opreg_device_io_get(reg, &row, &io, &host));
    assert_failed(io->alloc(host, &row, (uint64_t)1 << 40, &block), OPREG_E_NOMEM,
                  is_cuda() ? "CUDA_ERROR_OUT_OF_MEMORY (2)" : "hipErrorOutOfMemory (2)");
    assert_null(block);
    close_registry(reg);
}

/* A device that is lost stays lost; the other device and the CPU go on. */
static void lose_a_device_at(long n, long *calls) {
    opreg_registry *reg = registry();
    opreg_device rows[2], cpu;
    opreg_status status;
    int lost;
    assert_works(opreg_enable(reg, plugin, "exact"));
    assert_int_equal(devices(reg, rows, 2), 2);
    settle();
    driver->lose_at = n;
    status = engine_step(reg, &rows[0]);
    *calls = driver->calls;
    lost = driver->lost;
    check_driver();
    if (lost == 1) {
        if (status == OPREG_OK && !is_quiet(driver->failed_call)) {
            fail_msg("call %ld, %s: device 0 was lost and nobody was told", n, driver->failed_call);
        }
        assert_failed(engine_step(reg, &rows[0]), OPREG_E_DEVICE, error_name(LOST));
        assert_failed(engine_step(reg, &rows[0]), OPREG_E_DEVICE, error_name(LOST));
    } else {
        assert_works(status);
    }
    assert_works(engine_step(reg, &rows[1]));
    assert_int_equal(opreg_devices(reg, &cpu, sizeof cpu, 1), 3);
    assert_int_equal(cpu.kind, OPREG_CPU);
    assert_works(engine_step(reg, &cpu));
    check_driver();
    assert_works(opreg_destroy(reg));
    driver->lost = 0;
    driver->lose_at = 0;
}

static void a_device_lost_at_any_call_takes_only_itself_down(void **state) {
    long calls = 1;
    (void)state;
    for (long n = 1; n <= calls; n += 1) {
        lose_a_device_at(n, &calls);
    }
    assert_int_equal(driver->live, 0);
}

static void a_device_of_another_architecture_is_named_and_left_alone(void **state) {
    opreg_registry *reg;
    opreg_device rows[2];
    uint32_t plugin_state = 0;
    (void)state;
    snprintf(driver->arch[0], sizeof driver->arch[0], "%s", other_arch);
    reg = registry();
    assert_works(opreg_enable(reg, plugin, "on"));
    assert_int_equal(devices(reg, rows, 2), 1);
    assert_int_equal(rows[0].ordinal, 1);
    assert_text(said.text, other_arch);
    assert_text(said.text, arch);
    close_registry(reg);

    snprintf(driver->arch[1], sizeof driver->arch[1], "%s", other_arch);
    driver->loads = 0;
    reg = registry();
    assert_works(opreg_enable(reg, plugin, "on"));
    assert_int_equal(devices(reg, rows, 2), 0);
    reason(reg, &plugin_state);
    assert_int_equal(plugin_state, OPREG_PLUGIN_NO_DEVICE);
    assert_int_equal(driver->loads, 0);
    close_registry(reg);
}

/* "gfx1101" is not gfx1100, and "gfx1100:xnack-" is. */
static void an_architecture_is_matched_whole(void **state) {
    opreg_registry *reg;
    opreg_device row;
    (void)state;
    if (is_cuda()) {
        snprintf(driver->arch[0], sizeof driver->arch[0], "%s0", arch);
        snprintf(driver->arch[1], sizeof driver->arch[1], "sm_10");
    } else {
        snprintf(driver->arch[0], sizeof driver->arch[0], "%s0", arch);
        snprintf(driver->arch[1], sizeof driver->arch[1], "%.6s", arch);
    }
    reg = registry();
    assert_works(opreg_enable(reg, plugin, "on"));
    assert_int_equal(devices(reg, &row, 1), 0);
    close_registry(reg);
    if (!is_cuda()) {
        snprintf(driver->arch[0], sizeof driver->arch[0], "%s:sramecc+:xnack-", arch);
        reg = registry();
        assert_works(opreg_enable(reg, plugin, "on"));
        assert_int_equal(devices(reg, &row, 1), 1);
        assert_string_equal(row.arch, arch);
        close_registry(reg);
    }
}

static void a_driver_without_devices_is_no_error(void **state) {
    opreg_registry *reg;
    uint32_t plugin_state = 0;
    (void)state;
    driver->num_devices = 0;
    reg = registry();
    assert_works(opreg_enable(reg, plugin, "on"));
    reason(reg, &plugin_state);
    assert_int_equal(plugin_state, OPREG_PLUGIN_NO_DEVICE);
    assert_text(said.text, "sees no device");
    close_registry(reg);
}

static void a_driver_too_old_for_the_code_is_named_with_its_version(void **state) {
    opreg_registry *reg;
    uint32_t plugin_state = 0;
    (void)state;
    driver->version = is_cuda() ? 11040 : 50200000;
    driver->refuses_images = 1;
    reg = registry();
    assert_failed(opreg_enable(reg, plugin, "on"), OPREG_E_DEVICE,
                  is_cuda() ? "CUDA_ERROR_INVALID_IMAGE (200)" : "hipErrorInvalidImage (200)");
    assert_text(opreg_last_error(), is_cuda() ? "the driver of CUDA 11.4" : "the driver of HIP 5.2");
    assert_text(opreg_last_error(), "built with");
    assert_int_equal(driver->live, 0);
    driver->refuses_images = 0;
    assert_works(opreg_enable(reg, plugin, "on"));
    reason(reg, &plugin_state);
    assert_int_equal(plugin_state, OPREG_PLUGIN_READY);
    close_registry(reg);
}

/* The stand-in refuses a wait, an allocation or a copy to the host while a stream captures. */
static void a_captured_run_under_shadow_waits_for_nothing(void **state) {
    opreg_registry *reg = registry();
    opreg_device row;
    (void)state;
    assert_works(opreg_enable(reg, plugin, "exact"));
    assert_works(opreg_enable(reg, "shadow", "1/1"));
    assert_int_equal(devices(reg, &row, 1), 1);
    assert_works(engine_step(reg, &row));
    close_registry(reg);
}

static void a_run_only_launches(void **state) {
    opreg_registry *reg = registry();
    opreg_device row;
    long waits, allocations, loads;
    (void)state;
    assert_works(opreg_enable(reg, plugin, "exact"));
    assert_int_equal(devices(reg, &row, 1), 1);
    loads = driver->loads;
    assert_works(engine_step(reg, &row)); /* captures a run: the stand-in refuses anything else there */
    assert_int_equal(driver->loads, loads);
    waits = driver->waits;
    allocations = driver->allocations;
    assert_works(engine_step(reg, &row));
    assert_int_equal(driver->waits - waits, waits);
    assert_int_equal(driver->allocations - allocations, allocations);
    close_registry(reg);
}

static void the_switch_chain_lets_launches_overlap(void **state) {
    opreg_registry *reg = registry();
    opreg_device row;
    long own; /* launches of one run that follow one another always                                */
    (void)state;
    assert_works(opreg_enable(reg, plugin, "exact"));
    assert_int_equal(devices(reg, &row, 1), 1);
    assert_works(engine_step(reg, &row));
    own = driver->chained;
    assert_true(own < driver->launches / 2);
    assert_works(opreg_enable(reg, "cuda-sm90/chain", "on"));
    assert_works(engine_step(reg, &row));
    assert_true(driver->chained - own > own);
    close_registry(reg);
}

static void the_switch_jit_is_for_a_newer_device_and_needs_text_inside(void **state) {
    opreg_registry *reg = registry();
    opreg_device row;
    (void)state;
    snprintf(driver->arch[0], sizeof driver->arch[0], "sm_90");
    snprintf(driver->arch[1], sizeof driver->arch[1], "sm_52");
    assert_works(opreg_enable(reg, "cuda-sm60/jit", "on"));
    assert_works(opreg_enable(reg, plugin, "on"));
#ifdef OPREG_SM60_PTX
    assert_int_equal(devices(reg, &row, 1), 1);
    assert_int_equal(row.ordinal, 0);
    assert_works(engine_step(reg, &row));
#else
    assert_int_equal(devices(reg, &row, 1), 0);
    assert_text(said.text, "none that the driver could compile");
#endif
    assert_text(said.text, "sm_52");
    close_registry(reg);
}

static void the_callers_device_is_current_again_after_each_call(void **state) {
    void *library = dlopen(is_cuda() ? "libcuda.so.1" : "libamdhip64.so.7", RTLD_NOW | RTLD_NOLOAD);
    int (*get)(void *) = NULL, (*retain)(void **, int) = NULL, (*push)(void *) = NULL;
    int (*set)(int) = NULL, (*pop)(void **) = NULL, (*release)(int) = NULL;
    opreg_registry *reg = registry();
    opreg_device rows[2];
    void *mine = NULL, *now = NULL;
    int ordinal = -1;
    (void)state;
    assert_non_null(library);
#define RESOLVE(member, name)                                                                      \
    do {                                                                                           \
        void *symbol = dlsym(library, name);                                                       \
        memcpy(&member, &symbol, sizeof symbol);                                                   \
    } while (0)
    RESOLVE(get, is_cuda() ? "cuCtxGetCurrent" : "hipGetDevice");
    if (is_cuda()) {
        RESOLVE(retain, "cuDevicePrimaryCtxRetain");
        RESOLVE(release, "cuDevicePrimaryCtxRelease_v2");
        RESOLVE(push, "cuCtxPushCurrent_v2");
        RESOLVE(pop, "cuCtxPopCurrent_v2");
        assert_int_equal(retain(&mine, 1), 0);
        assert_int_equal(push(mine), 0);
    } else {
        RESOLVE(set, "hipSetDevice");
        assert_int_equal(set(1), 0);
    }
    assert_works(opreg_enable(reg, plugin, "exact"));
    assert_int_equal(devices(reg, rows, 2), 2);
    assert_works(engine_step(reg, &rows[0]));
    assert_int_equal(get(is_cuda() ? (void *)&now : (void *)&ordinal), 0);
    if (is_cuda()) {
        assert_ptr_equal(now, mine);
        assert_int_equal(pop(&now), 0);
        assert_int_equal(release(1), 0);
    } else {
        assert_int_equal(ordinal, 1);
        assert_int_equal(set(0), 0);
    }
    close_registry(reg);
    dlclose(library);
}

static void no_size_of_a_plan_overflows(void **state) {
    opreg_registry *reg = registry();
    opreg_device row;
    (void)state;
    assert_works(opreg_enable(reg, plugin, "fast"));
    assert_int_equal(devices(reg, &row, 1), 1);
    climb_all_ladders(reg, &row);
    close_registry(reg);
}

static void rows_that_a_grid_cannot_count_are_refused(void **state) {
    opreg_registry *reg = registry();
    opreg_matmul_bt_quant problem = matmul_of("m=1 n=2147483648 k=32 b=q4_0");
    opreg_device row;
    opreg_plan *plan = NULL;
    (void)state;
    assert_works(opreg_enable(reg, plugin, "fast"));
    assert_int_equal(devices(reg, &row, 1), 1);
    assert_failed(opreg_plan_create(reg, &row, OPREG_OP_MATMUL_BT_QUANT, &problem, &plan),
                  OPREG_E_UNSUPPORTED, "2147483648");
    problem = matmul_of("m=1 n=2147483647 k=32 b=q4_0");
    assert_works(opreg_plan_create(reg, &row, OPREG_OP_MATMUL_BT_QUANT, &problem, &plan));
    opreg_plan_destroy(plan);
    close_registry(reg);
}

static void two_registries_share_one_open_driver(void **state) {
    opreg_registry *first = registry(), *second = registry();
    opreg_device row;
    long loads;
    (void)state;
    assert_works(opreg_enable(first, plugin, "on"));
    loads = driver->loads;
    assert_works(opreg_enable(second, plugin, "on"));
    assert_int_equal(driver->loads, loads);
    assert_works(opreg_destroy(first));
    assert_int_equal(devices(second, &row, 1), 1);
    assert_works(engine_step(second, &row));
    close_registry(second);
}

static const char *missing_function;

static void a_driver_that_lacks_a_function_is_named_with_it(void **state) {
    opreg_registry *reg = registry();
    uint32_t plugin_state = 0;
    (void)state;
    assert_works(opreg_enable(reg, plugin, "on"));
    reason(reg, &plugin_state);
    assert_int_equal(plugin_state, OPREG_PLUGIN_NO_DEVICE);
    assert_text(said.text, missing_function);
    assert_text(said.text, "is older than");
    assert_int_equal(driver->calls, 0);
    close_registry(reg);
}

int main(int argc, char **argv) {
    const struct CMUnitTest old_driver[] = {
        cmocka_unit_test_setup(a_driver_that_lacks_a_function_is_named_with_it, every_test),
    };
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(the_whole_step_runs_on_every_device, every_test),
        cmocka_unit_test_setup(steps_refuse_a_missing_argument, every_test),
        cmocka_unit_test_setup(every_call_of_the_driver_may_fail_once, every_test),
        cmocka_unit_test_setup(memory_that_the_device_does_not_have_is_no_memory, every_test),
        cmocka_unit_test_setup(a_device_lost_at_any_call_takes_only_itself_down, every_test),
        cmocka_unit_test_setup(a_device_of_another_architecture_is_named_and_left_alone, every_test),
        cmocka_unit_test_setup(an_architecture_is_matched_whole, every_test),
        cmocka_unit_test_setup(a_driver_without_devices_is_no_error, every_test),
        cmocka_unit_test_setup(a_driver_too_old_for_the_code_is_named_with_its_version, every_test),
        cmocka_unit_test_setup(a_captured_run_under_shadow_waits_for_nothing, every_test),
        cmocka_unit_test_setup(a_run_only_launches, every_test),
        cmocka_unit_test_setup(the_callers_device_is_current_again_after_each_call, every_test),
        cmocka_unit_test_setup(no_size_of_a_plan_overflows, every_test),
        cmocka_unit_test_setup(rows_that_a_grid_cannot_count_are_refused, every_test),
        cmocka_unit_test_setup(two_registries_share_one_open_driver, every_test),
    };
    const struct CMUnitTest of_sm60[] = {
        cmocka_unit_test_setup(the_switch_jit_is_for_a_newer_device_and_needs_text_inside,
                               every_test),
    };
    const struct CMUnitTest of_sm90[] = {
        cmocka_unit_test_setup(the_switch_chain_lets_launches_overlap, every_test),
    };
    stand_in_fn get = NULL;
    void *library, *symbol;
    int failed;
    if (argc < 4) {
        fprintf(stderr, "usage: test_driver PLUGIN FOLDER STAND-IN [FUNCTION]\n");
        return 2;
    }
    plugin = argv[1];
    folder = argv[2];
    library = dlopen(argv[3], RTLD_NOW | RTLD_GLOBAL);
    if (library == NULL) {
        fprintf(stderr, "%s\n", dlerror());
        return 2;
    }
    symbol = dlsym(library, "stand_in");
    memcpy(&get, &symbol, sizeof symbol);
    driver = get();
    arch = strcmp(plugin, "cuda-sm60") == 0   ? "sm_60"
           : strcmp(plugin, "cuda-sm90") == 0 ? "sm_90"
                                              : plugin + strlen("hip-");
    other_arch = is_cuda() ? (strcmp(arch, "sm_60") == 0 ? "sm_61" : "sm_80") : "gfx906";
    missing_function = argc > 4 ? argv[4] : NULL;
    if (missing_function != NULL) {
        return cmocka_run_group_tests_name("old driver", old_driver, NULL, NULL);
    }
    failed = cmocka_run_group_tests_name(plugin, tests, NULL, NULL);
    if (strcmp(plugin, "cuda-sm60") == 0) {
        failed += cmocka_run_group_tests_name("cuda-sm60 alone", of_sm60, NULL, NULL);
    }
    if (strcmp(plugin, "cuda-sm90") == 0) {
        failed += cmocka_run_group_tests_name("cuda-sm90 alone", of_sm90, NULL, NULL);
    }
    return failed;
}
