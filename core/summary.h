/* SPDX-License-Identifier: MIT
 * summary.h - what a registry remembers of watched plans until it ends: totals by variant, why
 * variants were refused, which problems shadow has reported.  A lock of its own; any thread. */
#ifndef OPREG_SUMMARY_H
#define OPREG_SUMMARY_H

#include <pthread.h>
#include <sys/types.h>

#include "problem.h"

typedef struct variant_total {
    char name[128];
    uint64_t plans, runs;
    uint64_t run_ns;              /* host time inside runs; less than the work of a GPU              */
    uint64_t samples, differing;  /* runs that shadow compared, and those that differed              */
    uint64_t shadow_ns;           /* host time of references and comparisons                         */
    uint64_t guarded, guard_ns;   /* runs under guard, and their host time beyond the first run      */
    int asynchronous;             /* its runs only enqueue                                           */
} variant_total;

typedef struct refusal {
    char name[128], reason[192];
    uint64_t plans;
} refusal;

typedef struct reported {
    char name[128];
    opreg_op op;
    problem_any problem;
} reported;

typedef struct run_summary {
    pthread_mutex_t mutex;
    pid_t pid; /* that made it */
    variant_total *totals;
    refusal *refusals;
    reported *reported;
    size_t num_totals, num_refusals, num_reported;
} run_summary;

void summary_open(run_summary *s);
void summary_close(run_summary *s);

/* Adds the numbers of one plan to its variant's.  Lost where there is no memory. */
void summary_add(run_summary *s, const variant_total *plan);

/* Counts a plan that did not take a better variant. */
void summary_refused(run_summary *s, const char *name, const char *reason);

/* 1 for the first report of a variant's problem, 0 afterwards. */
int summary_first_report(run_summary *s, const char *name, opreg_op op, const problem_any *problem);

/* One line a variant and a refusal, the most frequent first. */
void summary_print(run_summary *s, void (*line)(void *user, const char *text), void *user);

#endif /* OPREG_SUMMARY_H */
