/* SPDX-License-Identifier: MIT
 * bench_run_overhead.c - what opreg_plan_run adds to a kernel: the median over batches of an empty
 * kernel run through a plan, less the same kernel called directly.  Fails at 200 ns and above. */
#define _GNU_SOURCE
#include <time.h>

#include "planned.h"

#define BATCHES 41
#define RUNS 20000
#define LIMIT_NS 200.0

static double now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static double planned_ns(planned *p) {
    double start = now_ns();
    for (int i = 0; i < RUNS; i++) {
        if (opreg_plan_run(p->plan, &p->args) != OPREG_OK) {
            return 1e9;
        }
    }
    return (now_ns() - start) / RUNS;
}

static double direct_ns(planned *p) {
    opreg_status (*volatile run)(void *, const void *, const opreg_call *) = fake_run_exact;
    opreg_call call = {.struct_size = sizeof call, .num_bufs = 5, .bufs = p->bufs};
    double start = now_ns();
    for (int i = 0; i < RUNS; i++) {
        run(NULL, &p->problem, &call);
    }
    return (now_ns() - start) / RUNS;
}

int main(void) {
    static planned p;
    double with[BATCHES], without[BATCHES], added;
    planned_open(&p, "m=2 n=4 k=256 b=q4_k");
    for (int i = 0; i < BATCHES; i++) {
        with[i] = planned_ns(&p);
        without[i] = direct_ns(&p);
    }
    planned_close(&p);
    qsort(with, BATCHES, sizeof with[0], by_value);
    qsort(without, BATCHES, sizeof without[0], by_value);
    added = with[BATCHES / 2] - without[BATCHES / 2];
    printf("opreg_plan_run %.1f ns, kernel alone %.1f ns, added %.1f ns (limit %.0f), spread %.1f\n",
           with[BATCHES / 2], without[BATCHES / 2], added, LIMIT_NS,
           with[3 * BATCHES / 4] - with[BATCHES / 4]);
    return added < LIMIT_NS ? 0 : 1;
}
