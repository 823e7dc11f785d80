/* SPDX-License-Identifier: MIT
 * parallel.c - a loop over threads that live as long as the loop. */
#define _GNU_SOURCE /* sched_getaffinity */
#include "parallel.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#define MOST_THREADS 256u

typedef struct loop {
    atomic_llong next;
    int64_t count;
    void (*task)(void *arg, int64_t i);
    void *arg;
} loop;

static void *work(void *arg) {
    loop *l = arg;
    for (;;) {
        int64_t i = atomic_fetch_add(&l->next, 1);
        if (i >= l->count) {
            return NULL;
        }
        l->task(l->arg, i);
    }
}

void parallel_run(unsigned threads, int64_t count, void (*task)(void *arg, int64_t i), void *arg) {
    pthread_t others[MOST_THREADS];
    unsigned started = 0;
    loop l = {.count = count, .task = task, .arg = arg};
    atomic_init(&l.next, 0);
    threads = threads > MOST_THREADS ? MOST_THREADS : threads;
    /* a thread that cannot be started is work for the others */
    while (started + 1 < threads && started + 1 < count &&
           pthread_create(&others[started], NULL, work, &l) == 0) {
        started++;
    }
    work(&l);
    while (started > 0) {
        pthread_join(others[--started], NULL);
    }
}

unsigned parallel_threads(void) {
    cpu_set_t set;
    int count;
    if (sched_getaffinity(0, sizeof set, &set) != 0) {
        return 1;
    }
    count = CPU_COUNT(&set);
    return count > 0 ? (unsigned)count : 1u;
}
