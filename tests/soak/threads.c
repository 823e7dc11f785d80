/* SPDX-License-Identifier: MIT
 * threads.c - everything the library allows from many threads, at once, for as long as asked: plans
 * that run, are made and destroyed while plugins are switched, taken out, added and found again, in
 * two registries of one process, whose log callbacks call back; children that are forked meanwhile; and
 * a library that is opened, used and closed.
 *
 *   soak_threads SECONDS      0 and a line of counts, or 1 and what went wrong */
#define FAKE_ENTRY fake_entry
#include "fake/fake_plugin.h"
#include "library_child.h"
#include "registry_harness.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#if defined(__SANITIZE_THREAD__)
#define CAN_FORK 0 /* ThreadSanitizer's own threads do not survive a fork of many threads           */
#else
#define CAN_FORK 1
#endif
#if defined(__SANITIZE_ADDRESS__)
#define CAN_EXIT 0 /* its search for leaks, at exit, waits for threads that a fork does not bring   */
#else
#define CAN_EXIT 1
#endif

#define REGISTRIES 2
#define RUNNERS    3 /* of each kind below, a registry                                              */

typedef struct shared {
    opreg_registry *reg;
    opreg_device cpu, fake;
    opreg_plan *kept; /* of the fake plugin, alive throughout: the plugin cannot be taken out        */
    opreg_weight *kept_weight;
    int number;
} shared;

enum { RUNS, PLANS, CHANGES, LISTS, LINES, FORKS, LIBRARIES, COUNTS };
static const char *const count_names[COUNTS] = {"runs",  "plans",    "changes",  "listings",
                                                "lines", "children", "libraries"};
static atomic_long counts[COUNTS];
static atomic_int stop, wrong;
static shared registries[REGISTRIES];
static unsigned char blocks[16 * 144];

static void went_wrong(const char *what, opreg_status status) {
    if (atomic_fetch_add(&wrong, 1) < 10) {
        fprintf(stderr, "soak_threads: %s: %s: %s\n", what, opreg_status_name(status),
                opreg_last_error());
    }
}

/* Called back without a lock held: re-enters with calls that take it. */
static void log_and_enter(void *user, opreg_log_level level, const char *line) {
    static _Thread_local int inside;
    shared *s = user;
    (void)level;
    (void)line;
    atomic_fetch_add(&counts[LINES], 1);
    if (inside || s->kept == NULL) {
        return;
    }
    inside = 1;
    if (opreg_plugins(s->reg, NULL, 0, 0) < 2) {
        went_wrong("a listing inside the log callback", OPREG_OK);
    }
    inside = 0;
}

static const opreg_weight_desc desc = {.struct_size = sizeof desc, .format = OPREG_Q4_K,
                                       .experts = 1, .n = 16, .k = 256,
                                       .data = {blocks, sizeof blocks}};

static opreg_status run_plan(const opreg_plan *plan, const opreg_weight *weight, float y[16]) {
    _Alignas(256) unsigned char workspace[2048];
    float x[256];
    opreg_buf bufs[2] = {{y, 16 * sizeof *y}, {x, sizeof x}};
    const opreg_weight *weights[1] = {weight};
    opreg_args args = {.struct_size = sizeof args, .num_bufs = 2, .bufs = bufs, .weights = weights,
                       .num_weights = 1, .workspace = {workspace, sizeof workspace}};
    for (int i = 0; i < 256; i++) {
        x[i] = (float)(i % 7) - 3.0f;
    }
    return opreg_plan_run(plan, &args);
}

/* The plan that stays, on whatever thread. */
static void *run_kept(void *argument) {
    shared *s = argument;
    while (!atomic_load(&stop)) {
        float y[16] = {0};
        opreg_status status = run_plan(s->kept, s->kept_weight, y);
        if (status != OPREG_OK || y[0] != FAKE_MARK_EXACT) {
            went_wrong("a run of the plan that stays", status);
        }
        atomic_fetch_add(&counts[RUNS], 1);
    }
    return NULL;
}

/* Plans and weights of a thread's own, on the CPU and on what is open at the moment. */
static void *plan_and_run(void *argument) {
    shared *s = argument;
    opreg_matmul_bt_quant problem = matmul_of("m=1 n=16 k=256 b=q4_k");
    problem.layout = OPREG_LAYOUT_STORED;
    for (unsigned turn = 0; !atomic_load(&stop); turn++) {
        const opreg_device *dev = turn % 2 == 0 ? &s->cpu : &s->fake;
        opreg_plan *plan = NULL;
        opreg_weight *weight = NULL;
        float y[16];
        opreg_status status =
            opreg_plan_create(s->reg, dev, OPREG_OP_MATMUL_BT_QUANT, &problem, &plan);
        if (status == OPREG_OK) {
            status = opreg_weight_create(s->reg, dev, &desc, &weight);
        }
        if (status == OPREG_OK) {
            status = run_plan(plan, weight, y);
        }
        if (status != OPREG_OK && status != OPREG_E_UNSUPPORTED && status != OPREG_E_DISABLED) {
            went_wrong("a plan of a thread's own", status);
        }
        opreg_weight_destroy(weight);
        opreg_plan_destroy(plan);
        atomic_fetch_add(&counts[PLANS], 1);
    }
    return NULL;
}

static void *change(void *argument) {
    static const char *const words[] = {"off", "on", "exact", "fast"};
    shared *s = argument;
    for (unsigned turn = 0; !atomic_load(&stop); turn++) {
        opreg_status status;
        if ((status = opreg_enable(s->reg, "fake/int_one", turn % 2 != 0 ? "on" : "off")) != OPREG_OK ||
            (status = opreg_enable(s->reg, "trace", turn % 16 == 0 ? "plan" : "off")) != OPREG_OK ||
            (status = opreg_enable(s->reg, "cpu", words[1 + turn % 3])) != OPREG_OK ||
            (status = opreg_enable(s->reg, "fake-good", words[turn % 4])) != OPREG_OK) {
            went_wrong("a switch", status);
        }
        status = opreg_unload(s->reg, "fake"); /* the plan that stays keeps it */
        if (status != OPREG_E_BUSY) {
            went_wrong("taking out a plugin with a plan", status);
        }
        status = opreg_unload(s->reg, "fake-good");
        if (status != OPREG_OK && status != OPREG_E_BUSY && status != OPREG_E_ARG) {
            went_wrong("taking out a plugin", status);
        }
        status = opreg_discover(s->reg, OPREG_TEST_FAKES "/good");
        if (status != OPREG_OK && status != OPREG_E_LOAD) {
            went_wrong("finding a plugin again", status);
        }
        atomic_fetch_add(&counts[CHANGES], 1);
    }
    return NULL;
}

static void *list(void *argument) {
    shared *s = argument;
    opreg_kernel_row *kernels = calloc(256, sizeof *kernels);
    opreg_flag_row *flags = calloc(256, sizeof *flags);
    opreg_candidate *rows = calloc(32, sizeof *rows);
    const opreg_matmul_bt_quant problem = matmul_of("m=1 n=16 k=256 b=q4_k");
    while (!atomic_load(&stop)) {
        opreg_plugin_row plugins[8];
        opreg_device devices[8];
        size_t count;
        opreg_plugins(s->reg, plugins, sizeof plugins[0], 8);
        opreg_devices(s->reg, devices, sizeof devices[0], 8);
        opreg_kernels(s->reg, kernels, sizeof kernels[0], 256);
        opreg_flags(s->reg, flags, sizeof flags[0], 256);
        if (opreg_explain(s->reg, &s->cpu, OPREG_OP_MATMUL_BT_QUANT, &problem, rows, sizeof rows[0],
                          32, &count) != OPREG_OK) {
            went_wrong("an explanation", OPREG_OK);
        }
        atomic_fetch_add(&counts[LISTS], 1);
    }
    free(rows);
    free(flags);
    free(kernels);
    return NULL;
}

/* Registries of the same plugins come and go. */
static void *live_and_end(void *argument) {
    (void)argument;
    while (!atomic_load(&stop)) {
        opreg_config config = {.struct_size = sizeof config, .threads = 2,
                               .flags = OPREG_CF_NO_ENV | OPREG_CF_NO_INSTALLED};
        const opreg_entry_fn entries[] = {fake_entry};
        opreg_registry *reg = NULL;
        opreg_status status;
        config.entries = entries;
        config.num_entries = 1;
        if ((status = opreg_create(&config, &reg)) != OPREG_OK ||
            (status = opreg_destroy(reg)) != OPREG_OK) {
            went_wrong("a life", status);
        }
    }
    return NULL;
}

/* In a child of a busy process: runs, is told where a lock was held, ends its copy, never hangs. */
static void fork_one(shared *s) {
    int status = -1;
    pid_t child = fork();
    if (child == 0) {
        float y[16] = {0};
        opreg_plan *plan = NULL;
        const opreg_matmul_bt_quant problem = matmul_of("m=1 n=16 k=256 b=q4_k");
        opreg_status said;
        alarm(60);
        if (run_plan(s->kept, s->kept_weight, y) != OPREG_OK || y[0] != FAKE_MARK_EXACT) {
            _exit(1);
        }
        said = opreg_plan_create(s->reg, &s->cpu, OPREG_OP_MATMUL_BT_QUANT, &problem, &plan);
        _exit(said == OPREG_OK || said == OPREG_E_BUSY ? 0 : 2);
    }
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0) {
        went_wrong("a forked child", (opreg_status)status);
    }
    atomic_fetch_add(&counts[FORKS], 1);
}

/* In a child: the shared library opened, used, closed, and exit with its handlers. */
static void open_library(void) {
    int status = -1;
    pid_t child = fork();
    if (child == 0) {
        library_child(OPREG_TEST_LIBRARY, 60);
    }
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0) {
        went_wrong("a process that closes the library", (opreg_status)status);
    }
    atomic_fetch_add(&counts[LIBRARIES], 1);
}

static int start_registry(shared *s, int number) {
    opreg_config config = {.struct_size = sizeof config, .log = log_and_enter, .log_user = s,
                           .threads = 2, .flags = OPREG_CF_NO_ENV | OPREG_CF_NO_INSTALLED};
    const opreg_matmul_bt_quant problem = matmul_of("m=1 n=16 k=256 b=q4_k");
    opreg_status status;
    opreg_plan *kept = NULL;
    s->number = number;
    s->fake = device_of(OPREG_CUDA, 0, "fake_1");
    if ((status = opreg_create(&config, &s->reg)) != OPREG_OK ||
        (status = opreg_add(s->reg, fake_entry)) != OPREG_OK ||
        (status = opreg_enable(s->reg, "fake", "exact")) != OPREG_OK ||
        (status = opreg_discover(s->reg, OPREG_TEST_FAKES "/good")) != OPREG_OK ||
        opreg_devices(s->reg, &s->cpu, sizeof s->cpu, 1) < 1 ||
        (status = opreg_plan_create_named(s->reg, &s->fake, OPREG_OP_MATMUL_BT_QUANT, &problem,
                                          "fake/exact_one", &kept)) != OPREG_OK ||
        (status = opreg_weight_create(s->reg, &s->fake, &desc, &s->kept_weight)) != OPREG_OK) {
        went_wrong("the start", status);
        return 0;
    }
    s->kept = kept;
    return 1;
}

int main(int argc, char **argv) {
    static void *(*const bodies[])(void *) = {run_kept, plan_and_run, list, change, live_and_end};
    static const int each[] = {RUNNERS, RUNNERS, 1, 1, 1};
    pthread_t threads[REGISTRIES * (2 * RUNNERS + 3)];
    int num_threads = 0, seconds = argc > 1 ? atoi(argv[1]) : 3;
    time_t end = time(NULL) + seconds;
    for (int i = 0; i < REGISTRIES; i++) {
        if (!start_registry(&registries[i], i)) {
            return 1;
        }
    }
    for (int i = 0; i < REGISTRIES; i++) {
        for (size_t b = 0; b < sizeof bodies / sizeof bodies[0]; b++) {
            for (int n = 0; n < each[b]; n++) {
                if (pthread_create(&threads[num_threads], NULL, bodies[b], &registries[i]) != 0) {
                    perror("soak_threads");
                    return 1;
                }
                num_threads++;
            }
        }
    }
    for (int turn = 0; time(NULL) < end; turn++) {
        if (CAN_FORK) {
            fork_one(&registries[turn % REGISTRIES]);
            if (CAN_EXIT && turn % 8 == 0) {
                open_library();
            }
        }
        usleep(50000);
    }
    atomic_store(&stop, 1);
    for (int i = 0; i < num_threads; i++) {
        pthread_join(threads[i], NULL);
    }
    for (int i = 0; i < REGISTRIES; i++) {
        opreg_status status;
        opreg_plan_destroy(registries[i].kept);
        opreg_weight_destroy(registries[i].kept_weight);
        registries[i].kept = NULL;
        status = opreg_destroy(registries[i].reg);
        if (status != OPREG_OK) {
            went_wrong("the end", status);
        }
    }
    printf("soak_threads: %d s, %d threads, %d wrong;", seconds, num_threads, atomic_load(&wrong));
    for (int i = 0; i < COUNTS; i++) {
        printf(" %ld %s%s", atomic_load(&counts[i]), count_names[i], i + 1 < COUNTS ? "," : "\n");
    }
    return atomic_load(&wrong) != 0;
}
