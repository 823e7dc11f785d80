/* SPDX-License-Identifier: MIT
 * load.c - one registry under load: many threads run a mix of problems on shared plans, each thread
 * with its own buffers, and now and then plan anew.  Every result is compared with that of the first,
 * quiet run.
 *
 *   soak_load THREADS RUNS      e.g. 64 10000000
 *
 * Prints runs a second, memory at a tenth of the runs and at the end, how often and how long a thread
 * waited for a lock of the library, and how often the kernel put a thread to sleep.  1 when a result
 * differs, when memory has grown by more than 4 MiB, or when a run took a lock: only calls that plan
 * may. */
#include "opreg/opreg.h"

#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#define MAX_THREADS   256
#define MAX_BUFS      12
#define MAX_BYTES     8192
#define PLAN_EVERY    4096          /* runs of a thread between two plans of its own               */
#define MOST_GROWTH   (4 << 20)

static const struct mix {
    opreg_op op;
    const char *problem;
    uint32_t num_weights, format;
    int64_t experts, n, k;
} mixes[] = {
    {OPREG_OP_QUANTIZE_ACT, "m=1 k=256 q=q8_k", 0, 0, 0, 0, 0},
    {OPREG_OP_MATMUL_BT_QUANT, "m=1 n=4 k=256 b=q4_k", 1, OPREG_Q4_K, 1, 4, 256},
    {OPREG_OP_MATMUL_BT_QUANT, "m=2 n=8 k=64 b=q8_0 y=bf16", 1, OPREG_Q8_0, 1, 8, 64},
    {OPREG_OP_MATMUL_BT_QUANT, "m=1 n=4 k=32 b=mxfp4 glu=silu", 2, OPREG_MXFP4, 1, 4, 32},
    {OPREG_OP_MOE_ROUTE, "tokens=4 top_k=2 experts=8", 0, 0, 0, 0, 0},
    {OPREG_OP_MOE_COMBINE, "tokens=4 top_k=2 n=32", 0, 0, 0, 0, 0},
    {OPREG_OP_MOE_MATMUL, "tokens=4 top_k=2 experts=8 n=4 k=32 b=q4_0", 1, OPREG_Q4_0, 8, 4, 32},
    {OPREG_OP_PAGED_ATTN_DECODE, "seqs=1 hq=2 hk=1 d=64 len=16 block=16 blocks=1", 0, 0, 0, 0, 0},
};
#define MIXES (sizeof mixes / sizeof mixes[0])
#define ROUTE 4 /* whose result is moe_matmul's route                                              */

#if defined(__SANITIZE_ADDRESS__)
/* Freed memory is kept back and counts as grown: little of it.  What leaks is said at the end. */
const char *__asan_default_options(void);
__attribute__((visibility("default"))) const char *__asan_default_options(void) {
    return "quarantine_size_mb=1:thread_local_quarantine_size_kb=16";
}
#endif

typedef struct shared {
    opreg_paged_attn_decode problem; /* the largest                                                */
    opreg_plan *plan;
    opreg_weight *weights[2];
    void *prepared[2]; /* their bytes */
    uint32_t num_bufs;
    uint64_t bytes[MAX_BUFS], workspace;
    unsigned char want[MAX_BYTES];
} shared;

static opreg_registry *registry;
static opreg_device cpu;
static shared all[MIXES];
static unsigned char weight_bytes[8192];
static atomic_long done, wrong, planned;
static long runs_each;
static pthread_barrier_t warm;

/* ---- waiting for locks --------------------------------------------------------------------------- */

static _Thread_local int running; /* inside opreg_plan_run                                          */
static atomic_long locks, waits, waited_ns, run_locks;

int __real_pthread_mutex_lock(pthread_mutex_t *mutex);
int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex);
int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex) {
    struct timespec from, to;
    int error;
    atomic_fetch_add(&locks, 1);
    if (running) {
        atomic_fetch_add(&run_locks, 1);
    }
    if (pthread_mutex_trylock(mutex) == 0) {
        return 0;
    }
    clock_gettime(CLOCK_MONOTONIC, &from);
    error = __real_pthread_mutex_lock(mutex);
    clock_gettime(CLOCK_MONOTONIC, &to);
    atomic_fetch_add(&waits, 1);
    atomic_fetch_add(&waited_ns, (to.tv_sec - from.tv_sec) * 1000000000L + to.tv_nsec - from.tv_nsec);
    return error;
}

/* ---- one thread ---------------------------------------------------------------------------------- */

typedef struct buffers {
    unsigned char *bytes[MAX_BUFS], *workspace;
} buffers;

static void *block_of(uint64_t bytes) {
    unsigned char *block = aligned_alloc(256, (size_t)(bytes + 511) / 256 * 256);
    if (block == NULL) {
        perror("soak_load");
        exit(2);
    }
    /* as f32 and f16 small numbers, as ids 0 */
    memset(block, 0, (size_t)(bytes + 511) / 256 * 256);
    return block;
}

static void open_buffers(size_t mix, buffers *b) {
    for (uint32_t i = 0; i < all[mix].num_bufs; i++) {
        b->bytes[i] = block_of(all[mix].bytes[i]);
    }
    b->workspace = block_of(all[mix].workspace);
    if (mixes[mix].op == OPREG_OP_MATMUL_BT_QUANT || mixes[mix].op == OPREG_OP_QUANTIZE_ACT) {
        float *x = (float *)(void *)b->bytes[mixes[mix].op == OPREG_OP_QUANTIZE_ACT ? 3 : 1];
        for (int i = 0; i < 32; i++) {
            x[i] = (float)(i - 16) / 8.0f;
        }
    } else if (mixes[mix].op == OPREG_OP_MOE_MATMUL) {
        memcpy(b->bytes[OPREG_MOE_ROUTE_BUF], all[ROUTE].want, (size_t)all[ROUTE].bytes[0]);
    } else if (mixes[mix].op == OPREG_OP_PAGED_ATTN_DECODE) {
        *(int32_t *)(void *)b->bytes[OPREG_ATTN_LENS] = 16;
    }
}

static void close_buffers(size_t mix, buffers *b) {
    for (uint32_t i = 0; i < all[mix].num_bufs; i++) {
        free(b->bytes[i]);
    }
    free(b->workspace);
}

static opreg_status run(size_t mix, const buffers *b) {
    const shared *s = &all[mix];
    opreg_buf bufs[MAX_BUFS];
    opreg_args args = {.struct_size = sizeof args, .num_bufs = s->num_bufs, .bufs = bufs,
                       .weights = (const opreg_weight *const *)s->weights,
                       .num_weights = mixes[mix].num_weights,
                       .workspace = {b->workspace, s->workspace}};
    opreg_status status;
    for (uint32_t i = 0; i < s->num_bufs; i++) {
        bufs[i] = (opreg_buf){s->bytes[i] != 0 ? b->bytes[i] : NULL, s->bytes[i]};
    }
    running = 1;
    status = opreg_plan_run(s->plan, &args);
    running = 0;
    return status;
}

static void plan_once(size_t mix) {
    opreg_plan *plan = NULL;
    if (opreg_plan_create(registry, &cpu, mixes[mix].op, &all[mix].problem, &plan) != OPREG_OK) {
        atomic_fetch_add(&wrong, 1);
    }
    opreg_plan_destroy(plan);
    atomic_fetch_add(&planned, 1);
}

static void *work(void *argument) {
    const long number = (long)(intptr_t)argument;
    buffers mine[MIXES];
    for (size_t i = 0; i < MIXES; i++) {
        open_buffers(i, &mine[i]);
    }
    for (long i = 0; i < runs_each; i++) {
        size_t mix = (size_t)(i + number) % MIXES;
        if (run(mix, &mine[mix]) != OPREG_OK ||
            memcmp(mine[mix].bytes[0], all[mix].want, (size_t)all[mix].bytes[0]) != 0) {
            atomic_fetch_add(&wrong, 1);
        }
        if (i % PLAN_EVERY == number % PLAN_EVERY) {
            plan_once(mix);
        }
        if (i == runs_each / 10) { /* two meetings: memory is read between them */
            pthread_barrier_wait(&warm);
            pthread_barrier_wait(&warm);
        }
    }
    pthread_barrier_wait(&warm);
    pthread_barrier_wait(&warm);
    for (size_t i = 0; i < MIXES; i++) {
        close_buffers(i, &mine[i]);
    }
    atomic_fetch_add(&done, runs_each);
    return NULL;
}

/* ---- the whole ----------------------------------------------------------------------------------- */

static int set_up(void) {
    opreg_config config = {.struct_size = sizeof config,
                           .flags = OPREG_CF_NO_ENV | OPREG_CF_NO_INSTALLED};
    if (opreg_create(&config, &registry) != OPREG_OK ||
        opreg_enable(registry, "cpu", "exact") != OPREG_OK ||
        opreg_devices(registry, &cpu, sizeof cpu, 1) != 1) {
        return 0;
    }
    for (size_t i = 0; i < sizeof weight_bytes; i++) {
        weight_bytes[i] = (unsigned char)(i % 61);
    }
    for (size_t i = 0; i < MIXES; i++) {
        shared *s = &all[i];
        opreg_weight_desc desc = {.struct_size = sizeof desc, .format = mixes[i].format,
                                  .experts = mixes[i].experts, .n = mixes[i].n, .k = mixes[i].k,
                                  .data = {weight_bytes, sizeof weight_bytes}};
        buffers b;
        if (opreg_problem_parse(mixes[i].op, mixes[i].problem, &s->problem) != OPREG_OK ||
            opreg_plan_create(registry, &cpu, mixes[i].op, &s->problem, &s->plan) != OPREG_OK) {
            return 0;
        }
        for (uint32_t w = 0; w < mixes[i].num_weights; w++) {
            opreg_weight *stored = NULL;
            opreg_buf dst = {NULL, opreg_plan_layout_bytes(s->plan)};
            dst.ptr = s->prepared[w] = block_of(dst.bytes);
            if (opreg_weight_create(registry, &cpu, &desc, &stored) != OPREG_OK ||
                opreg_weight_prepare(s->plan, stored, dst, NULL, &s->weights[w]) != OPREG_OK) {
                return 0;
            }
            opreg_weight_destroy(stored);
        }
        while (s->num_bufs < MAX_BUFS && opreg_problem_buffer(mixes[i].op, &s->problem, s->num_bufs,
                                                              &s->bytes[s->num_bufs]) == OPREG_OK) {
            s->num_bufs++;
        }
        s->workspace = opreg_plan_workspace(s->plan);
        open_buffers(i, &b);
        if (s->bytes[0] > MAX_BYTES || run(i, &b) != OPREG_OK) {
            return 0;
        }
        memcpy(s->want, b.bytes[0], (size_t)s->bytes[0]);
        close_buffers(i, &b);
    }
    return 1;
}

static long resident_bytes(void) {
    long pages = 0, all_pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (file != NULL) {
        if (fscanf(file, "%ld %ld", &all_pages, &pages) != 2) {
            pages = 0;
        }
        fclose(file);
    }
    return pages * sysconf(_SC_PAGESIZE);
}

static double seconds_of(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

int main(int argc, char **argv) {
    static pthread_t threads[MAX_THREADS];
    long num_threads = argc > 1 ? atol(argv[1]) : 64, runs = argc > 2 ? atol(argv[2]) : 100000;
    long early, late, grown;
    double wall, busy, load = 0;
    struct rusage before, after;
    int good;
    if (num_threads < 1 || num_threads > MAX_THREADS || runs < num_threads * 100 || !set_up()) {
        fprintf(stderr, "soak_load: %s\n", opreg_last_error());
        return 2;
    }
    runs_each = runs / num_threads;
    pthread_barrier_init(&warm, NULL, (unsigned)num_threads + 1u);
    getloadavg(&load, 1);
    getrusage(RUSAGE_SELF, &before);
    wall = seconds_of(CLOCK_MONOTONIC);
    busy = seconds_of(CLOCK_PROCESS_CPUTIME_ID);
    for (long i = 0; i < num_threads; i++) {
        if (pthread_create(&threads[i], NULL, work, (void *)(intptr_t)i) != 0) {
            perror("soak_load");
            return 2;
        }
    }
    pthread_barrier_wait(&warm);
    early = resident_bytes();
    pthread_barrier_wait(&warm);
    pthread_barrier_wait(&warm);
    late = resident_bytes();
    pthread_barrier_wait(&warm);
    for (long i = 0; i < num_threads; i++) {
        pthread_join(threads[i], NULL);
    }
    wall = seconds_of(CLOCK_MONOTONIC) - wall;
    busy = seconds_of(CLOCK_PROCESS_CPUTIME_ID) - busy;
    getrusage(RUSAGE_SELF, &after);
    for (size_t i = 0; i < MIXES; i++) {
        for (int w = 0; w < 2; w++) {
            opreg_weight_destroy(all[i].weights[w]);
            free(all[i].prepared[w]);
        }
        opreg_plan_destroy(all[i].plan);
    }
    grown = late > early ? late - early : 0;
    good = atomic_load(&wrong) == 0 && atomic_load(&run_locks) == 0 && grown <= MOST_GROWTH &&
           opreg_destroy(registry) == OPREG_OK;
    printf("soak_load: %ld threads, %ld runs of %zu problems and %ld plans, %ld wrong\n", num_threads,
           atomic_load(&done), MIXES, atomic_load(&planned), atomic_load(&wrong));
    printf("host:   %ld processors, load %.1f before the start\n", sysconf(_SC_NPROCESSORS_ONLN), load);
    printf("time:   %.1f s, %.0f runs/s; %.1f s of processor, %.2f us a run\n", wall,
           (double)atomic_load(&done) / wall, busy, busy * 1e6 / (double)atomic_load(&done));
    printf("memory: %.1f MiB at a tenth, %.1f MiB at the end\n", (double)early / 1048576.0,
           (double)late / 1048576.0);
    printf("locks:  %ld taken, %ld of them in a run; %ld waited for by calls that plan, %.3f ms in all\n",
           atomic_load(&locks), atomic_load(&run_locks), atomic_load(&waits),
           (double)atomic_load(&waited_ns) / 1e6);
    printf("sleeps: %ld, %.1f in a million runs; preempted %ld times\n", after.ru_nvcsw - before.ru_nvcsw,
           (double)(after.ru_nvcsw - before.ru_nvcsw) * 1e6 / (double)atomic_load(&done),
           after.ru_nivcsw - before.ru_nivcsw);
    return good ? 0 : 1;
}
