/* SPDX-License-Identifier: MIT
 * test_threads.c - the sentences of the headers about threads, each with threads that try to break it.
 * ThreadSanitizer watches in the pass tsan of scripts/test; tests/soak mixes all of it for minutes.
 *
 * "one registry may be used from many threads at once"
 *     one_registry_is_used_and_changed_from_many_threads
 * "opreg_plan_run takes no lock", "No allocation, no lock, no environment, no synchronisation"
 *     test_run_cost.c; tests/soak/load.c counts locks in millions of runs
 * "with up to 512 KiB of stack, also of the threads of opreg_config.parallel_for"
 *     test_stack.c; test_pool.c: workers_have_stack_enough_for_a_run
 * "One plan may run on many threads at once", "Constant over a plan's life; any thread"
 *     one_plan_runs_on_many_threads_at_once
 * "opreg_last_error() on that thread says why", "Text of this thread's last failure"
 *     the_text_of_a_failure_is_its_threads_own
 * "Valid until this thread's next call that fails"
 *     test_error.c: a_success_keeps_the_text
 * "After fork() a child may run plans of the CPU (on its one thread) and destroy its copy; a call that
 * needs a lock which another thread held at the fork answers E_BUSY"
 *     a_child_of_a_busy_process_uses_or_is_told_and_never_hangs; test_registry.c and test_pool.c
 * "May be called from any thread that uses the registry, and may call back into opreg"
 *     a_log_callback_may_call_back_from_any_thread
 * "on any threads in any order", "May be called from several threads at once" (parallel_for), "on the
 * caller's or the built-in threads"
 *     test_pool.c; test_cpu_api.c: the same bits on any number of threads
 * "Plans that exist keep their variant", "E_BUSY while it has live plans or weights"
 *     a_plan_that_runs_keeps_its_plugin_from_being_unloaded
 * "Valid from entry until shutdown returns.  Any thread.", "Sets the text that opreg_last_error
 * returns on this thread" (opreg_host)
 *     the_host_of_a_plugin_serves_any_thread
 * "Pure: no driver call, any thread.", "Static text, any thread" (names and versions)
 *     one_registry_is_used_and_changed_from_many_threads
 * "called on the thread of opreg_kit_run, in order" (events of the kit)
 *     test_kit.c: events_come_in_order_on_the_callers_thread */
#define _GNU_SOURCE
#include "library_child.h"
#include "planned.h"

#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#define THREADS 4
#define ROUNDS 60

typedef struct crew {
    planned *p;
    atomic_int stop, wrong;
    atomic_long done;
} crew;

static void start(pthread_t *threads, int count, void *(*body)(void *), void *argument) {
    for (int i = 0; i < count; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, body, argument), 0);
    }
}

static void join(pthread_t *threads, int count) {
    for (int i = 0; i < count; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
}

/* One plan, with a workspace and an output of each thread's own. */
static void *run_shared_plan(void *argument) {
    crew *c = argument;
    _Alignas(256) unsigned char workspace[1024];
    float y[64];
    opreg_buf bufs[OPREG_MATMUL_BUFS];
    opreg_args args = c->p->args;
    memcpy(bufs, c->p->bufs, sizeof bufs);
    bufs[OPREG_MATMUL_Y].ptr = y;
    args.bufs = bufs;
    args.workspace.ptr = workspace;
    for (int i = 0; i < ROUNDS; i++) {
        y[0] = 0.0f;
        if (opreg_plan_run(c->p->plan, &args) != OPREG_OK || y[0] != FAKE_MARK_EXACT ||
            opreg_plan_workspace(c->p->plan) != 1000) {
            atomic_fetch_add(&c->wrong, 1);
        }
        atomic_fetch_add(&c->done, 1);
    }
    return NULL;
}

/* Takes the fake plugin out and in, and turns its switches. */
static void *change_registry(void *argument) {
    crew *c = argument;
    static const char *const words[] = {"off", "on", "exact", "fast"};
    for (int i = 0; i < ROUNDS && !atomic_load(&c->stop); i++) {
        opreg_status status = opreg_unload(c->p->reg, "fake");
        if (status != OPREG_E_BUSY && status != OPREG_OK && status != OPREG_E_ARG) {
            atomic_fetch_add(&c->wrong, 1);
        }
        if (opreg_enable(c->p->reg, "fake", words[i % 4]) != OPREG_OK ||
            opreg_enable(c->p->reg, "fake/int_one", i % 2 != 0 ? "on" : "off") != OPREG_OK) {
            atomic_fetch_add(&c->wrong, 1);
        }
    }
    return NULL;
}

/* Lists, explains, plans and makes weights, with what is there at the moment. */
static void *use_registry(void *argument) {
    crew *c = argument;
    opreg_plugin_row plugins[4];
    opreg_kernel_row *kernels = calloc(64, sizeof *kernels);
    opreg_flag_row *flags = calloc(64, sizeof *flags);
    opreg_candidate rows[8];
    for (int i = 0; i < ROUNDS; i++) {
        opreg_plan *plan = NULL;
        opreg_weight *weight = NULL;
        opreg_weight_desc desc = {.struct_size = sizeof desc, .format = OPREG_Q4_K, .experts = 1};
        opreg_status status;
        size_t count;
        desc.n = c->p->problem.n;
        desc.k = c->p->problem.k;
        desc.data = (opreg_buf){c->p->blocks, sizeof c->p->blocks};
        if (strcmp(opreg_version(), OPREG_VERSION) != 0 ||
            strcmp(opreg_status_name(OPREG_E_BUSY), "OPREG_E_BUSY") != 0 ||
            strcmp(opreg_dtype_name(OPREG_Q4_K), "q4_k") != 0) {
            atomic_fetch_add(&c->wrong, 1);
        }
        opreg_plugins(c->p->reg, plugins, sizeof plugins[0], 4);
        opreg_kernels(c->p->reg, kernels, sizeof kernels[0], 64);
        opreg_flags(c->p->reg, flags, sizeof flags[0], 64);
        opreg_explain(c->p->reg, &c->p->dev, OPREG_OP_MATMUL_BT_QUANT, &c->p->problem, rows,
                      sizeof rows[0], 8, &count);
        status = opreg_plan_create(c->p->reg, &c->p->dev, OPREG_OP_MATMUL_BT_QUANT, &c->p->problem,
                                   &plan);
        if (status == OPREG_OK) {
            if (strncmp(opreg_plan_kernel(plan), "fake/", 5) != 0) {
                atomic_fetch_add(&c->wrong, 1);
            }
            opreg_plan_destroy(plan);
        } else if (status != OPREG_E_UNSUPPORTED && status != OPREG_E_DISABLED) {
            atomic_fetch_add(&c->wrong, 1);
        } else if (opreg_last_error()[0] == '\0') {
            atomic_fetch_add(&c->wrong, 1);
        }
        if (opreg_weight_create(c->p->reg, &c->p->dev, &desc, &weight) == OPREG_OK) {
            opreg_weight_destroy(weight);
        }
        atomic_fetch_add(&c->done, 1);
    }
    free(kernels);
    free(flags);
    return NULL;
}

static void one_plan_runs_on_many_threads_at_once(void **state) {
    pthread_t threads[THREADS];
    planned p;
    crew c = {.p = &p};
    (void)state;
    planned_open(&p, "m=1 n=16 k=256 b=q4_k");
    start(threads, THREADS, run_shared_plan, &c);
    join(threads, THREADS);
    assert_int_equal(atomic_load(&c.wrong), 0);
    assert_int_equal(atomic_load(&c.done), THREADS * ROUNDS);
    planned_close(&p);
}

static void one_registry_is_used_and_changed_from_many_threads(void **state) {
    pthread_t users[THREADS], changers[2];
    planned p;
    crew c = {.p = &p};
    (void)state;
    planned_open(&p, "m=1 n=16 k=256 b=q4_k");
    opreg_plan_destroy(p.plan);
    opreg_weight_destroy(p.weight);
    p.plan = NULL;
    p.weight = NULL;
    start(users, THREADS, use_registry, &c);
    start(changers, 2, change_registry, &c);
    join(users, THREADS);
    atomic_store(&c.stop, 1);
    join(changers, 2);
    assert_int_equal(atomic_load(&c.wrong), 0);
    planned_close(&p);
}

/* "Plans that exist keep their variant", and their plugin, whatever others do. */
static void a_plan_that_runs_keeps_its_plugin_from_being_unloaded(void **state) {
    pthread_t runners[THREADS], changers[2];
    planned p;
    crew c = {.p = &p};
    (void)state;
    planned_open(&p, "m=1 n=16 k=256 b=q4_k");
    start(changers, 2, change_registry, &c);
    start(runners, THREADS, run_shared_plan, &c);
    join(runners, THREADS);
    atomic_store(&c.stop, 1);
    join(changers, 2);
    assert_int_equal(atomic_load(&c.wrong), 0);
    assert_failed(opreg_unload(p.reg, "fake"), OPREG_E_BUSY, "live plans");
    planned_close(&p);
}

static void *live_a_life(void *argument) {
    crew *c = argument;
    opreg_config config = {.struct_size = sizeof config, .threads = 2,
                           .flags = OPREG_CF_NO_ENV | OPREG_CF_NO_INSTALLED};
    for (int i = 0; i < 6; i++) {
        opreg_registry *reg = NULL;
        opreg_device dev;
        opreg_quantize_act problem;
        opreg_plan *plan = NULL;
        if (opreg_create(&config, &reg) != OPREG_OK || opreg_add(reg, fake_entry) != OPREG_OK ||
            opreg_devices(reg, &dev, sizeof dev, 1) == 0 ||
            opreg_problem_parse(OPREG_OP_QUANTIZE_ACT, "m=1 k=256 q=q8_0", &problem) != OPREG_OK ||
            opreg_plan_create(reg, &dev, OPREG_OP_QUANTIZE_ACT, &problem, &plan) != OPREG_OK ||
            opreg_destroy(reg) != OPREG_E_BUSY) {
            atomic_fetch_add(&c->wrong, 1);
        }
        opreg_plan_destroy(plan);
        if (opreg_destroy(reg) != OPREG_OK) {
            atomic_fetch_add(&c->wrong, 1);
        }
    }
    return NULL;
}

static void registries_come_and_go_on_many_threads(void **state) {
    pthread_t threads[THREADS];
    crew c = {.p = NULL};
    (void)state;
    start(threads, THREADS, live_a_life, &c);
    join(threads, THREADS);
    assert_int_equal(atomic_load(&c.wrong), 0);
}

/* Each thread fails in its own way and must read its own text. */
static void *fail_alone(void *argument) {
    crew *c = argument;
    char name[32], want[64];
    long mine = atomic_fetch_add(&c->done, 1);
    snprintf(name, sizeof name, "wrong%ld", mine);
    snprintf(want, sizeof want, "\"wrong%ld\"", mine);
    for (int i = 0; i < ROUNDS; i++) {
        if (opreg_enable(c->p->reg, name, "on") != OPREG_E_ARG ||
            strstr(opreg_last_error(), want) == NULL) {
            atomic_fetch_add(&c->wrong, 1);
        }
    }
    return NULL;
}

static void the_text_of_a_failure_is_its_threads_own(void **state) {
    pthread_t threads[THREADS];
    planned p;
    crew c = {.p = &p};
    (void)state;
    planned_open(&p, "m=1 n=16 k=256 b=q4_k");
    start(threads, THREADS, fail_alone, &c);
    join(threads, THREADS);
    assert_int_equal(atomic_load(&c.wrong), 0);
    planned_close(&p);
}

typedef struct guests {
    const opreg_host *host;
    atomic_int number, wrong;
} guests;

static void add_one(void *sum, int64_t i) {
    (void)i;
    atomic_fetch_add((atomic_int *)sum, 1);
}

/* As a plugin's function does, on a thread of its own. */
static void *use_host(void *argument) {
    guests *g = argument;
    char want[32];
    int mine = atomic_fetch_add(&g->number, 1);
    snprintf(want, sizeof want, "guest %d", mine);
    for (int i = 0; i < ROUNDS; i++) {
        atomic_int sum = 0;
        g->host->log(g->host->ctx, OPREG_LOG_DEBUG, want);
        g->host->error(g->host->ctx, "guest %d", mine);
        g->host->parallel_for(g->host->ctx, 8, add_one, &sum);
        if (strstr(opreg_last_error(), want) == NULL || atomic_load(&sum) != 8 ||
            g->host->switch_on(g->host->ctx, "jit") != 0) {
            atomic_fetch_add(&g->wrong, 1);
        }
    }
    return NULL;
}

static void the_host_of_a_plugin_serves_any_thread(void **state) {
    pthread_t threads[THREADS];
    const opreg_device_io *io;
    planned p;
    guests g = {.host = NULL};
    (void)state;
    planned_open(&p, "m=1 n=16 k=256 b=q4_k");
    assert_works(opreg_device_io_get(p.reg, &p.dev, &io, &g.host));
    start(threads, THREADS, use_host, &g);
    join(threads, THREADS);
    assert_int_equal(atomic_load(&g.wrong), 0);
    planned_close(&p);
}

/* Re-enters with calls that take the lock; a lock that were held would hang. */
static void log_and_enter(void *user, opreg_log_level level, const char *line) {
    static _Thread_local int inside;
    crew *c = user;
    (void)level;
    (void)line;
    if (c->p == NULL || inside) {
        return;
    }
    inside = 1;
    atomic_fetch_add(&c->done, 1);
    if (opreg_plugins(c->p->reg, NULL, 0, 0) < 2 ||
        opreg_enable(c->p->reg, "fake/int_one", "off") != OPREG_OK) {
        atomic_fetch_add(&c->wrong, 1);
    }
    inside = 0;
}

static void *plan_with_trace(void *argument) {
    crew *c = argument;
    for (int i = 0; i < ROUNDS; i++) {
        opreg_plan *plan = NULL;
        if (opreg_plan_create(c->p->reg, &c->p->dev, OPREG_OP_MATMUL_BT_QUANT, &c->p->problem,
                              &plan) != OPREG_OK) {
            atomic_fetch_add(&c->wrong, 1);
        }
        opreg_plan_destroy(plan);
    }
    return NULL;
}

static void a_log_callback_may_call_back_from_any_thread(void **state) {
    pthread_t threads[THREADS];
    planned p = {.dev = device_of(OPREG_CUDA, 0, "fake_1"),
                 .problem = matmul_of("m=1 n=16 k=256 b=q4_k")};
    crew c = {.p = NULL};
    opreg_config config = {.struct_size = sizeof config, .log = log_and_enter, .log_user = &c,
                           .flags = OPREG_CF_NO_ENV | OPREG_CF_NO_INSTALLED};
    (void)state;
    assert_works(opreg_create(&config, &p.reg));
    assert_works(opreg_add(p.reg, fake_entry));
    c.p = &p;
    assert_works(opreg_enable(p.reg, "trace", "plan"));
    start(threads, THREADS, plan_with_trace, &c);
    join(threads, THREADS);
    assert_int_equal(atomic_load(&c.wrong), 0);
    assert_true(atomic_load(&c.done) >= THREADS * ROUNDS);
    assert_works(opreg_destroy(p.reg));
}

#if defined(__SANITIZE_THREAD__)
#define FORKS 0 /* ThreadSanitizer's own threads do not survive a fork of many threads             */
#else
#define FORKS 8
#endif

static void a_child_of_a_busy_process_uses_or_is_told_and_never_hangs(void **state) {
    pthread_t threads[THREADS];
    planned p;
    crew c = {.p = &p};
    (void)state;
    planned_open(&p, "m=1 n=16 k=256 b=q4_k");
    start(threads, THREADS, use_registry, &c);
    for (int i = 0; i < FORKS; i++) {
        int status = -1;
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            opreg_plan *plan = NULL;
            alarm(20);
            int good = opreg_plan_run(p.plan, &p.args) == OPREG_OK && p.y[0] == FAKE_MARK_EXACT;
            opreg_status said = opreg_plan_create(p.reg, &p.dev, OPREG_OP_MATMUL_BT_QUANT,
                                                  &p.problem, &plan);
            _exit(good && (said == OPREG_OK || said == OPREG_E_BUSY) ? 0 : 1);
        }
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_int_equal(status, 0);
    }
    join(threads, THREADS);
    assert_int_equal(atomic_load(&c.wrong), 0);
    planned_close(&p);
}

/* A registry that is never destroyed, in a library that is closed, must not keep exit from ending:
 * the child opens the shared library, uses it, closes it and exits. */
static void a_process_that_closes_the_library_at_exit_ends(void **state) {
    int status = -1;
    pid_t child;
    (void)state;
    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        library_child(OPREG_TEST_LIBRARY, 30);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_plan_runs_on_many_threads_at_once),
        cmocka_unit_test(one_registry_is_used_and_changed_from_many_threads),
        cmocka_unit_test(a_plan_that_runs_keeps_its_plugin_from_being_unloaded),
        cmocka_unit_test(registries_come_and_go_on_many_threads),
        cmocka_unit_test(the_text_of_a_failure_is_its_threads_own),
        cmocka_unit_test(the_host_of_a_plugin_serves_any_thread),
        cmocka_unit_test(a_log_callback_may_call_back_from_any_thread),
        cmocka_unit_test(a_child_of_a_busy_process_uses_or_is_told_and_never_hangs),
        cmocka_unit_test(a_process_that_closes_the_library_at_exit_ends),
    };
    return cmocka_run_group_tests_name("threads", tests, NULL, NULL);
}
