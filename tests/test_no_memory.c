/* SPDX-License-Identifier: MIT
 * test_no_memory.c - a whole life of a registry with the n-th allocation failing, for every n: each
 * step answers NOMEM or works, works when asked again, and nothing is left when the registry is. */
#define _POSIX_C_SOURCE 200809L
#include "planned.h"

#include "formats/sidecar.h"

#define MAX_LIVE 4096

static void *live[MAX_LIVE]; /* what the linked objects have allocated and not freed               */
static size_t num_live, calls, fail_at;
static int fired;

static int must_fail(void) {
    calls++;
    if (fail_at != 0 && calls == fail_at) {
        fired = 1;
        return 1;
    }
    return 0;
}

static void *noted(void *memory) {
    if (memory != NULL) {
        assert_true(num_live < MAX_LIVE);
        live[num_live++] = memory;
    }
    return memory;
}

static void forget(const void *memory) {
    for (size_t i = num_live; i > 0; i--) {
        if (live[i - 1] == memory) {
            live[i - 1] = live[--num_live];
            return;
        }
    }
}

void *__real_malloc(size_t bytes);
void *__real_calloc(size_t count, size_t bytes);
void *__real_realloc(void *old, size_t bytes);
void *__real_aligned_alloc(size_t align, size_t bytes);
void __real_free(void *memory);
void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void *__wrap_realloc(void *old, size_t bytes);
void *__wrap_aligned_alloc(size_t align, size_t bytes);
void __wrap_free(void *memory);

void *__wrap_malloc(size_t bytes) { return must_fail() ? NULL : noted(__real_malloc(bytes)); }
void *__wrap_calloc(size_t count, size_t bytes) {
    return must_fail() ? NULL : noted(__real_calloc(count, bytes));
}
void *__wrap_realloc(void *old, size_t bytes) {
    void *memory;
    if (must_fail()) {
        return NULL;
    }
    forget(old);
    memory = __real_realloc(old, bytes);
    return noted(memory);
}
void *__wrap_aligned_alloc(size_t align, size_t bytes) {
    return must_fail() ? NULL : noted(__real_aligned_alloc(align, bytes));
}
void __wrap_free(void *memory) {
    if (memory != NULL) {
        forget(memory);
    }
    __real_free(memory);
}

static void serial(void *user, int64_t count, void (*task)(void *arg, int64_t i), void *arg) {
    (void)user;
    for (int64_t i = 0; i < count; i++) {
        task(arg, i);
    }
}

/* The step works; or it says NOMEM because of the failure, and works when asked again. */
#define STEP(call)                                                                                 \
    do {                                                                                           \
        int before_it = fired;                                                                     \
        opreg_status told = (call);                                                                \
        if (fired && !before_it && told != OPREG_OK) {                                             \
            assert_failed(told, OPREG_E_NOMEM, "memory");                                          \
            told = (call);                                                                         \
        }                                                                                          \
        if (told != OPREG_OK) {                                                                    \
            fail_msg("allocation %zu: %s answers %s: %s", fail_at, #call, opreg_status_name(told), \
                     opreg_last_error());                                                          \
        }                                                                                          \
    } while (0)

static void run_one(opreg_registry *reg, const opreg_device *dev, const char *mark_text, float mark) {
    static unsigned char blocks[4 * 144], prepared_bytes[8192 + 256];
    static _Alignas(256) unsigned char workspace[8192];
    opreg_matmul_bt_quant problem = matmul_of("m=1 n=4 k=256 b=q4_k");
    opreg_weight_desc desc = {.struct_size = sizeof desc, .format = OPREG_Q4_K, .experts = 1,
                              .n = 4, .k = 256, .data = {blocks, sizeof blocks}};
    float x[256] = {0}, y[4] = {9, 9, 9, 9};
    opreg_plan *plan = NULL;
    opreg_weight *stored = NULL, *prepared = NULL;
    opreg_buf bufs[2] = {{y, sizeof y}, {x, sizeof x}};
    opreg_buf place = {prepared_bytes + (256 - (uintptr_t)prepared_bytes % 256) % 256, 8192};
    opreg_candidate rows[8];
    size_t count;
    STEP(opreg_explain(reg, dev, OPREG_OP_MATMUL_BT_QUANT, &problem, rows, sizeof rows[0], 8, &count));
    STEP(opreg_plan_create(reg, dev, OPREG_OP_MATMUL_BT_QUANT, &problem, &plan));
    STEP(opreg_weight_create(reg, dev, &desc, &stored));
    STEP(opreg_weight_prepare(plan, stored, place, NULL, &prepared));
    opreg_args args = {.struct_size = sizeof args,
                       .num_bufs = 2,
                       .bufs = bufs,
                       .weights = (const opreg_weight *const[]){prepared},
                       .num_weights = 1,
                       .workspace = {workspace, sizeof workspace}};
    STEP(opreg_plan_run(plan, &args));
    assert_text(opreg_plan_kernel(plan), mark_text);
    assert_true(y[0] == mark);
    opreg_weight_destroy(prepared);
    opreg_weight_destroy(stored);
    opreg_plan_destroy(plan);
}

static void whole_life(void) {
    captured said;
    opreg_config config = capture_config(&said, OPREG_CF_NO_ENV);
    opreg_registry *reg = NULL;
    opreg_device cpu, fake = device_of(OPREG_CUDA, 0, "fake_1");
    opreg_plugin_row plugins[8];
    size_t count;
    config.parallel_for = serial;
    STEP(opreg_create(&config, &reg));
    STEP(opreg_discover(reg, OPREG_TEST_BUILD "/fake/good"));
    STEP(opreg_add(reg, fake_entry));
    STEP(opreg_enable(reg, "fake", "exact"));
    STEP(opreg_enable(reg, "fake-good", "on"));
    STEP(opreg_enable(reg, "cpu", "fast"));
    assert_int_equal(opreg_devices(reg, &cpu, sizeof cpu, 1), 2);
    count = opreg_plugins(reg, plugins, sizeof plugins[0], 8);
    assert_int_equal(count, 3);
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(plugins[i].state, OPREG_PLUGIN_READY);
    }
    run_one(reg, &fake, "fake/exact_one", FAKE_MARK_EXACT);
    run_one(reg, &cpu, "cpu/", 0.0f);
    STEP(opreg_unload(reg, "fake"));
    STEP(opreg_add(reg, fake_entry));
    STEP(opreg_destroy(reg));
    assert_int_equal(num_live, 0);
}

static void every_allocation_may_fail_once(void **state) {
    size_t all;
    (void)state;
    calls = fail_at = 0;
    whole_life();
    all = calls;
    assert_true(all > 40);
    for (size_t n = 1; n <= all + 4; n++) {
        calls = 0;
        fired = 0;
        fail_at = n;
        whole_life();
        assert_true(fired || n > all);
    }
    fail_at = 0;
}

static void an_environment_that_does_not_fit_is_no_memory(void **state) {
    captured said;
    opreg_config config = capture_config(&said, 0);
    size_t all;
    (void)state;
    setenv("OPREG_TRACE", "plan", 1);
    setenv("OPREG_NO_SUCH_THING", "1", 1);
    config.parallel_for = serial;
    for (fail_at = 0, all = 1; fail_at <= all; fail_at++) {
        opreg_registry *reg = NULL;
        calls = 0;
        fired = 0;
        STEP(opreg_create(&config, &reg));
        all = fail_at == 0 ? calls : all;
        STEP(opreg_destroy(reg));
        assert_int_equal(num_live, 0);
    }
    fail_at = 0;
    unsetenv("OPREG_TRACE");
    unsetenv("OPREG_NO_SUCH_THING");
}

static void side_data_of_a_model_without_memory_is_refused(void **state) {
    static const unsigned char wire[] = "GQHh1\0\0\0\1\0\0\0\0\0\0\0\1\0\0\0wl\0\0\0\0\0\0?\3\0\0";
    (void)state;
    for (fail_at = 0; fail_at < 4; fail_at++) {
        sidecar_entry *entries = NULL;
        size_t count = 0;
        calls = 0;
        fired = 0;
        STEP(sidecar_parse(SIDECAR_GQH, wire, sizeof wire, &entries, &count));
        assert_int_equal(count, 1);
        free(entries);
        assert_int_equal(num_live, 0);
    }
    fail_at = 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_allocation_may_fail_once),
        cmocka_unit_test(an_environment_that_does_not_fit_is_no_memory),
        cmocka_unit_test(side_data_of_a_model_without_memory_is_refused),
    };
    return cmocka_run_group_tests_name("no_memory", tests, NULL, NULL);
}
