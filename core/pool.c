/* SPDX-License-Identifier: MIT
 * pool.c - the built-in threads: callers publish a job in a slot, workers help, the caller waits.
 *
 * A slot's `inside` is raised before its job is read and the job is cleared before `inside` is read,
 * both sequentially consistent: once the caller sees 0 no worker can still reach the job. */
#define _GNU_SOURCE
#include "pool.h"

#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "error.h"

#define SLOTS 16
#define MAX_THREADS 1024u
#define STACK_BYTES (1u << 20) /* at least: what a run of the CPU may take is half of it            */
#define SPIN_NS     100000 /* a worker looks for the next run for so long before it sleeps */

typedef struct job {
    void (*task)(void *arg, int64_t i);
    void *arg;
    int64_t count;
    _Atomic int64_t next;
} job;

typedef struct slot {
    atomic_int taken;
    atomic_int inside;
    _Atomic(job *) work;
} slot;

struct pool {
    uint32_t threads;
    atomic_uint started;
    int may_spin; /* 0 where the threads are more than the processors */
    pid_t pid;
    int running; /* pool_start has been called                                                      */
    atomic_int stop;
    sem_t wake;
    pthread_t *handles;
    slot slots[SLOTS];
};

#if defined(__x86_64__) || defined(__i386__)
#define FLOAT_STANDARD 0x1f80u /* all exceptions masked, nearest, no flush to zero                  */
#define FLOAT_MODES 0xffc0u    /* everything but the sticky exception bits                          */

uint32_t float_enter(void) {
    uint32_t before = __builtin_ia32_stmxcsr();
    if ((before & FLOAT_MODES) != FLOAT_STANDARD) {
        __builtin_ia32_ldmxcsr(FLOAT_STANDARD);
    }
    return before;
}

void float_leave(uint32_t before) {
    if ((before & FLOAT_MODES) != FLOAT_STANDARD) {
        __builtin_ia32_ldmxcsr(before);
    }
}
#elif defined(__aarch64__)
uint32_t float_enter(void) {
    uint64_t before;
    __asm__ volatile("mrs %0, fpcr" : "=r"(before));
    if (before != 0) {
        __asm__ volatile("msr fpcr, %0" : : "r"((uint64_t)0));
    }
    return (uint32_t)before;
}

void float_leave(uint32_t before) {
    if (before != 0) {
        __asm__ volatile("msr fpcr, %0" : : "r"((uint64_t)before));
    }
}
#else
uint32_t float_enter(void) { return 0; }
void float_leave(uint32_t before) { (void)before; }
#endif

static void work_on(job *j) {
    for (;;) {
        int64_t i = atomic_fetch_add(&j->next, 1);
        if (i >= j->count) {
            return;
        }
        j->task(j->arg, i);
    }
}

static inline void relax(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

static int64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* Runs of a decode step follow each other closely, and waking a thread takes as long as a small one. */
static int spin_for_wake(pool *p) {
    int64_t end = now_ns() + SPIN_NS;
    do {
        for (int i = 0; i < 32; i++) {
            if (sem_trywait(&p->wake) == 0) {
                return 1;
            }
            relax();
        }
    } while (now_ns() < end);
    return 0;
}

/* 0 when the threads are to stop. */
static int wait_for_run(pool *p) {
    if (!p->may_spin || !spin_for_wake(p)) {
        while (sem_wait(&p->wake) != 0) {
        }
    }
    return !atomic_load(&p->stop);
}

static void *worker(void *argument) {
    pool *p = argument;
    float_enter();
    while (wait_for_run(p)) {
        for (int i = 0; i < SLOTS; i++) {
            slot *s = &p->slots[i];
            job *j;
            atomic_fetch_add(&s->inside, 1);
            j = atomic_load(&s->work);
            if (j != NULL) {
                work_on(j);
            }
            atomic_fetch_sub(&s->inside, 1);
        }
    }
    return NULL;
}

static uint32_t allowed_processors(void) {
    cpu_set_t set;
    long online;
    if (sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) > 0) {
        return (uint32_t)CPU_COUNT(&set);
    }
    online = sysconf(_SC_NPROCESSORS_ONLN);
    return online > 0 ? (uint32_t)online : 1u;
}

opreg_status pool_create(uint32_t threads, pool **out) {
    uint32_t processors = allowed_processors();
    pool *p = calloc(1, sizeof *p);
    if (p == NULL) {
        return fail(OPREG_E_NOMEM, "no memory for the thread pool");
    }
    p->threads = threads > 0 ? threads : processors;
    p->threads = p->threads < MAX_THREADS ? p->threads : MAX_THREADS;
    p->may_spin = p->threads <= processors;
    p->pid = getpid();
    if (sem_init(&p->wake, 0, 0) != 0) {
        free(p);
        return fail(OPREG_E_NOMEM, "no semaphore for the thread pool");
    }
    *out = p;
    return OPREG_OK;
}

/* The process's size of a thread's stack, but never less than runs take. */
static void open_attributes(pthread_attr_t *out) {
    size_t bytes = 0;
    pthread_attr_init(out);
    if (pthread_attr_getstacksize(out, &bytes) != 0 || bytes < STACK_BYTES) {
        pthread_attr_setstacksize(out, STACK_BYTES);
    }
}

void pool_start(pool *p) {
    sigset_t all, before;
    pthread_attr_t attributes;
    if (p->running || p->pid != getpid()) {
        return;
    }
    p->running = 1;
    p->handles = calloc(p->threads, sizeof *p->handles);
    if (p->handles == NULL) {
        return;
    }
    /* The engine's signal handlers stay on the engine's threads. */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    open_attributes(&attributes);
    for (uint32_t i = 0; i + 1 < p->threads; i++) {
        if (pthread_create(&p->handles[i], &attributes, worker, p) != 0) {
            break;
        }
        atomic_store(&p->started, i + 1);
    }
    pthread_attr_destroy(&attributes);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

void pool_destroy(pool *p) {
    if (p == NULL) {
        return;
    }
    if (p->pid == getpid()) {
        uint32_t started = atomic_load(&p->started);
        atomic_store(&p->stop, 1);
        for (uint32_t i = 0; i < started; i++) {
            sem_post(&p->wake);
        }
        for (uint32_t i = 0; i < started; i++) {
            pthread_join(p->handles[i], NULL);
        }
        sem_destroy(&p->wake);
    }
    free(p->handles);
    free(p);
}

static slot *take_slot(pool *p) {
    for (int i = 0; i < SLOTS; i++) {
        int free_slot = 0;
        if (atomic_load_explicit(&p->slots[i].taken, memory_order_relaxed) == 0 &&
            atomic_compare_exchange_strong(&p->slots[i].taken, &free_slot, 1)) {
            return &p->slots[i];
        }
    }
    return NULL;
}

void pool_run(pool *p, int64_t count, void (*task)(void *arg, int64_t i), void *arg) {
    job j = {.task = task, .arg = arg, .count = count};
    slot *s = NULL;
    int64_t helpers = atomic_load_explicit(&p->started, memory_order_relaxed);
    if (count > 1 && helpers > 0 && p->pid == getpid()) {
        s = take_slot(p);
    }
    if (s == NULL) {
        work_on(&j);
        return;
    }
    atomic_store(&s->work, &j);
    for (int64_t i = 0; i < helpers && i + 1 < count; i++) {
        sem_post(&p->wake);
    }
    work_on(&j);
    atomic_store(&s->work, NULL);
    for (int spins = 0; atomic_load(&s->inside) != 0; spins++) {
        if (spins > 1000) {
            sched_yield();
        }
    }
    atomic_store(&s->taken, 0);
}

uint32_t pool_threads(const pool *p) { return p->running ? atomic_load(&p->started) + 1 : p->threads; }
