/* SPDX-License-Identifier: MIT
 * summary.c - what a registry remembers of watched plans until it ends. */
#include "summary.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void summary_open(run_summary *s) {
    memset(s, 0, sizeof *s);
    pthread_mutex_init(&s->mutex, NULL);
    s->pid = getpid();
}

void summary_close(run_summary *s) {
    free(s->totals);
    free(s->refusals);
    free(s->reported);
    pthread_mutex_destroy(&s->mutex);
}

/* 0 in a forked child whose parent held the lock elsewhere: what was to be remembered is lost. */
static int hold(run_summary *s) {
    return s->pid == getpid() ? pthread_mutex_lock(&s->mutex) == 0
                              : pthread_mutex_trylock(&s->mutex) == 0;
}

/* Room for one more row of a list; null where there is no memory. */
static void *grow(void **rows, size_t *count, size_t bytes) {
    void *more = realloc(*rows, (*count + 1) * bytes);
    if (more == NULL) {
        return NULL;
    }
    *rows = more;
    memset((char *)more + *count * bytes, 0, bytes);
    return (char *)more + (*count)++ * bytes;
}

static variant_total *total_of(run_summary *s, const char *name) {
    variant_total *row;
    for (size_t i = 0; i < s->num_totals; i++) {
        if (strcmp(s->totals[i].name, name) == 0) {
            return &s->totals[i];
        }
    }
    row = grow((void **)&s->totals, &s->num_totals, sizeof *row);
    if (row != NULL) {
        snprintf(row->name, sizeof row->name, "%s", name);
    }
    return row;
}

void summary_add(run_summary *s, const variant_total *plan) {
    variant_total *row;
    if (!hold(s)) {
        return;
    }
    row = total_of(s, plan->name);
    if (row != NULL) {
        row->plans++;
        row->runs += plan->runs;
        row->run_ns += plan->run_ns;
        row->samples += plan->samples;
        row->differing += plan->differing;
        row->shadow_ns += plan->shadow_ns;
        row->guarded += plan->guarded;
        row->guard_ns += plan->guard_ns;
        row->asynchronous |= plan->asynchronous;
    }
    pthread_mutex_unlock(&s->mutex);
}

void summary_refused(run_summary *s, const char *name, const char *reason) {
    refusal *row = NULL;
    if (!hold(s)) {
        return;
    }
    for (size_t i = 0; i < s->num_refusals && row == NULL; i++) {
        if (strcmp(s->refusals[i].name, name) == 0 && strcmp(s->refusals[i].reason, reason) == 0) {
            row = &s->refusals[i];
        }
    }
    if (row == NULL) {
        row = grow((void **)&s->refusals, &s->num_refusals, sizeof *row);
        if (row != NULL) {
            snprintf(row->name, sizeof row->name, "%s", name);
            snprintf(row->reason, sizeof row->reason, "%s", reason);
        }
    }
    if (row != NULL) {
        row->plans++;
    }
    pthread_mutex_unlock(&s->mutex);
}

int summary_first_report(run_summary *s, const char *name, opreg_op op, const problem_any *problem) {
    reported *row;
    int first = 1;
    if (!hold(s)) {
        return 1;
    }
    for (size_t i = 0; i < s->num_reported && first; i++) {
        first = s->reported[i].op != op || strcmp(s->reported[i].name, name) != 0 ||
                memcmp(&s->reported[i].problem, problem, sizeof *problem) != 0;
    }
    row = first ? grow((void **)&s->reported, &s->num_reported, sizeof *row) : NULL;
    if (row != NULL) {
        snprintf(row->name, sizeof row->name, "%s", name);
        row->op = op;
        row->problem = *problem;
    }
    pthread_mutex_unlock(&s->mutex);
    return first;
}

static int by_runs(const void *left, const void *right) {
    const variant_total *a = left, *b = right;
    return a->runs != b->runs ? (a->runs > b->runs ? -1 : 1) : strcmp(a->name, b->name);
}

static int by_plans(const void *left, const void *right) {
    const refusal *a = left, *b = right;
    return a->plans != b->plans ? (a->plans > b->plans ? -1 : 1) : strcmp(a->name, b->name);
}

static void print_total(const variant_total *t, void (*line)(void *, const char *), void *user) {
    char text[512];
    snprintf(text, sizeof text, "v1 total %s plans=%llu runs=%llu %s=%.3f ms", t->name,
             (unsigned long long)t->plans, (unsigned long long)t->runs,
             t->asynchronous ? "enqueue" : "time", (double)t->run_ns / 1e6);
    line(user, text);
    if (t->samples > 0) {
        snprintf(text, sizeof text,
                 "v1 shadow %s compared=%llu of %llu differing=%llu cost=%.3f ms, %.3f ms a "
                 "comparison",
                 t->name, (unsigned long long)t->samples, (unsigned long long)t->runs,
                 (unsigned long long)t->differing, (double)t->shadow_ns / 1e6,
                 (double)t->shadow_ns / 1e6 / (double)t->samples);
        line(user, text);
    }
    if (t->guarded > 0) {
        snprintf(text, sizeof text, "v1 guard %s runs=%llu cost=%.3f ms, %.3f ms a run", t->name,
                 (unsigned long long)t->guarded, (double)t->guard_ns / 1e6,
                 (double)t->guard_ns / 1e6 / (double)t->guarded);
        line(user, text);
    }
}

void summary_print(run_summary *s, void (*line)(void *user, const char *text), void *user) {
    char text[512];
    if (s->num_totals > 0) {
        qsort(s->totals, s->num_totals, sizeof *s->totals, by_runs);
    }
    if (s->num_refusals > 0) {
        qsort(s->refusals, s->num_refusals, sizeof *s->refusals, by_plans);
    }
    for (size_t i = 0; i < s->num_totals; i++) {
        print_total(&s->totals[i], line, user);
    }
    for (size_t i = 0; i < s->num_refusals; i++) {
        snprintf(text, sizeof text, "v1 refused %s plans=%llu \"%s\"", s->refusals[i].name,
                 (unsigned long long)s->refusals[i].plans, s->refusals[i].reason);
        line(user, text);
    }
}
