/* SPDX-License-Identifier: MIT
 * test_run_cost.c - a planned run allocates nothing, locks nothing and compares no text: the linker
 * gives this test every such call of the library to count. */
#include <pthread.h>

#include "planned.h"

static int counting, counted;

#define WRAP(type, name, parameters, arguments)                                                    \
    type __real_##name parameters;                                                                 \
    type __wrap_##name parameters;                                                                 \
    type __wrap_##name parameters {                                                                \
        counted += counting;                                                                       \
        return __real_##name arguments;                                                            \
    }

WRAP(void *, malloc, (size_t size), (size))
WRAP(void *, calloc, (size_t n, size_t size), (n, size))
WRAP(void *, realloc, (void *old, size_t size), (old, size))
WRAP(int, pthread_mutex_lock, (pthread_mutex_t * mutex), (mutex))
WRAP(int, pthread_mutex_trylock, (pthread_mutex_t * mutex), (mutex))
WRAP(int, strcmp, (const char *a, const char *b), (a, b))
WRAP(int, strncmp, (const char *a, const char *b, size_t n), (a, b, n))

void __real_free(void *old);
void __wrap_free(void *old);
void __wrap_free(void *old) {
    counted += counting;
    __real_free(old);
}

int __wrap_snprintf(char *out, size_t cap, const char *format, ...);
int __wrap_snprintf(char *out, size_t cap, const char *format, ...) {
    va_list arguments;
    int length;
    counted += counting;
    va_start(arguments, format);
    length = vsnprintf(out, cap, format, arguments);
    va_end(arguments);
    return length;
}

static planned p;

static int count_runs(int runs) {
    int failed = 0;
    counted = 0;
    counting = 1;
    for (int i = 0; i < runs; i++) {
        failed += opreg_plan_run(p.plan, &p.args) != OPREG_OK;
    }
    counting = 0;
    assert_int_equal(failed, 0);
    return counted;
}

static void a_run_allocates_locks_and_compares_nothing(void **state) {
    (void)state;
    planned_open(&p, "m=2 n=4 k=256 b=q4_k");
    assert_int_equal(count_runs(1000), 0);
    planned_close(&p);
}

static void the_count_sees_a_plan_being_made(void **state) {
    opreg_plan *plan = NULL;
    (void)state;
    planned_open(&p, "m=2 n=4 k=256 b=q4_k");
    counted = 0;
    counting = 1;
    opreg_plan_create(p.reg, &p.dev, OPREG_OP_MATMUL_BT_QUANT, &p.problem, &plan);
    counting = 0;
    assert_true(counted > 3);
    opreg_plan_destroy(plan);
    planned_close(&p);
}

static void a_run_of_the_cpu_backend_neither_allocates_nor_locks(void **state) {
    _Alignas(256) static unsigned char scratch[1 << 20];
    opreg_matmul_bt_quant problem = matmul_of("m=4 n=16 k=256 b=q4_k");
    opreg_device host = device_of(OPREG_CPU, 0, "");
    opreg_weight_desc desc = {.struct_size = sizeof desc, .format = OPREG_Q4_K, .experts = 1,
                              .n = 16, .k = 256};
    opreg_plan *fake_plan;
    opreg_weight *weight = NULL;
    (void)state;
    planned_open(&p, "m=2 n=4 k=256 b=q4_k");
    memset(p.blocks, 0, sizeof p.blocks);
    desc.data = (opreg_buf){p.blocks, sizeof p.blocks};
    assert_works(opreg_weight_create(p.reg, &host, &desc, &weight));
    fake_plan = p.plan;
    assert_works(opreg_plan_create(p.reg, &host, OPREG_OP_MATMUL_BT_QUANT, &problem, &p.plan));
    p.weights[0] = weight;
    p.args.workspace = (opreg_buf){scratch, sizeof scratch};
    assert_int_equal(count_runs(10), 0);
    opreg_plan_destroy(fake_plan);
    opreg_weight_destroy(weight);
    planned_close(&p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_run_allocates_locks_and_compares_nothing),
        cmocka_unit_test(the_count_sees_a_plan_being_made),
        cmocka_unit_test(a_run_of_the_cpu_backend_neither_allocates_nor_locks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
