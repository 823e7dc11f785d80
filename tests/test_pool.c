/* SPDX-License-Identifier: MIT
 * test_pool.c - the built-in threads: every index once, from any number of callers, and after a fork. */
#define _GNU_SOURCE
#include "pool.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

#include "registry_harness.h"

#define COUNT 10000

static pool *open_pool(uint32_t threads) {
    pool *p = NULL;
    assert_works(pool_create(threads, &p));
    pool_start(p);
    return p;
}

static void mark(void *arg, int64_t i) { atomic_fetch_add(&((atomic_int *)arg)[i], 1); }

static void every_index_is_done_once(void **state) {
    static atomic_int done[COUNT];
    pool *p = open_pool(4);
    (void)state;
    for (int round = 1; round <= 20; round++) {
        pool_run(p, COUNT, mark, done);
        for (int i = 0; i < COUNT; i++) {
            assert_int_equal(atomic_load(&done[i]), round);
        }
    }
    pool_destroy(p);
}

static void no_work_is_no_call(void **state) {
    pool *p = open_pool(2);
    (void)state;
    pool_run(p, 0, mark, NULL);
    pool_run(p, -1, mark, NULL);
    pool_destroy(p);
}

static void a_pool_of_one_runs_in_the_caller(void **state) {
    static atomic_int done[100];
    pool *p = open_pool(1);
    (void)state;
    assert_int_equal(pool_threads(p), 1);
    pool_run(p, 100, mark, done);
    assert_int_equal(atomic_load(&done[99]), 1);
    pool_destroy(p);
}

static void a_pool_that_was_never_started_runs_in_the_caller(void **state) {
    static atomic_int done[100];
    pool *p = NULL;
    (void)state;
    assert_works(pool_create(4, &p));
    pool_run(p, 100, mark, done);
    assert_int_equal(atomic_load(&done[99]), 1);
    pool_destroy(p);
    pool_destroy(NULL);
}

typedef struct caller {
    pool *p;
    atomic_int done[500];
} caller;

static void *call_often(void *arg) {
    caller *c = arg;
    for (int round = 0; round < 50; round++) {
        pool_run(c->p, 500, mark, c->done);
    }
    return NULL;
}

static void many_callers_may_be_inside_at_once(void **state) {
    static caller callers[24]; /* more than there are slots */
    pthread_t threads[24];
    pool *p = open_pool(3);
    (void)state;
    for (int i = 0; i < 24; i++) {
        callers[i].p = p;
        assert_int_equal(pthread_create(&threads[i], NULL, call_often, &callers[i]), 0);
    }
    for (int i = 0; i < 24; i++) {
        pthread_join(threads[i], NULL);
        for (int j = 0; j < 500; j++) {
            assert_int_equal(atomic_load(&callers[i].done[j]), 50);
        }
    }
    pool_destroy(p);
}

static pool *nested;
static atomic_int inner[8][50];

static void run_inner(void *arg, int64_t i) {
    (void)arg;
    pool_run(nested, 50, mark, inner[i]);
}

static void a_task_may_run_tasks(void **state) {
    (void)state;
    nested = open_pool(3);
    pool_run(nested, 8, run_inner, NULL);
    for (int i = 0; i < 8; i++) {
        for (int j = 0; j < 50; j++) {
            assert_int_equal(atomic_load(&inner[i][j]), 1);
        }
    }
    pool_destroy(nested);
}

static void a_forked_child_runs_alone_and_ends(void **state) {
    static atomic_int done[1000];
    pool *p = open_pool(4);
    pid_t child;
    int status;
    (void)state;
    pool_run(p, 1000, mark, done);
    child = fork();
    if (child == 0) {
        alarm(20);
        pool_run(p, 1000, mark, done);
        pool_destroy(p);
        _exit(atomic_load(&done[999]) == 2 ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    pool_destroy(p);
}

static void note_signals(void *arg, int64_t i) {
    sigset_t blocked;
    (void)i;
    pthread_sigmask(SIG_SETMASK, NULL, &blocked);
    if (!pthread_equal(pthread_self(), *(pthread_t *)arg) && !sigismember(&blocked, SIGTERM)) {
        *(pthread_t *)arg = pthread_self();
    }
}

static void workers_leave_signals_to_the_engine(void **state) {
    pthread_t self = pthread_self();
    pool *p = open_pool(4);
    (void)state;
    pool_run(p, 1000, note_signals, &self);
    assert_true(pthread_equal(self, pthread_self()));
    pool_destroy(p);
}

static void note_stack(void *arg, int64_t i) {
    atomic_size_t *least = arg;
    pthread_attr_t attributes;
    size_t bytes = 0, seen = atomic_load(least);
    (void)i;
    if (pthread_getattr_np(pthread_self(), &attributes) == 0) {
        pthread_attr_getstacksize(&attributes, &bytes);
        pthread_attr_destroy(&attributes);
    }
    while (bytes < seen && !atomic_compare_exchange_weak(least, &seen, bytes)) {
    }
}

static void workers_have_stack_enough_for_a_run(void **state) {
    pthread_attr_t small, before;
    atomic_size_t least = SIZE_MAX;
    pool *p;
    (void)state;
    assert_int_equal(pthread_getattr_default_np(&before), 0);
    assert_int_equal(pthread_attr_init(&small), 0);
    assert_int_equal(pthread_attr_setstacksize(&small, 128u << 10), 0);
    assert_int_equal(pthread_setattr_default_np(&small), 0);
    p = open_pool(4);
    assert_int_equal(pthread_setattr_default_np(&before), 0);
    for (int round = 0; round < 200; round++) { /* until a worker was in time */
        pool_run(p, 1000, note_stack, &least);
    }
    pool_destroy(p);
    assert_true(atomic_load(&least) >= 1u << 20);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_index_is_done_once),
        cmocka_unit_test(no_work_is_no_call),
        cmocka_unit_test(a_pool_of_one_runs_in_the_caller),
        cmocka_unit_test(a_pool_that_was_never_started_runs_in_the_caller),
        cmocka_unit_test(many_callers_may_be_inside_at_once),
        cmocka_unit_test(a_task_may_run_tasks),
        cmocka_unit_test(a_forked_child_runs_alone_and_ends),
        cmocka_unit_test(workers_leave_signals_to_the_engine),
        cmocka_unit_test(workers_have_stack_enough_for_a_run),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
