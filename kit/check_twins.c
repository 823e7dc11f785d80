/* SPDX-License-Identifier: MIT
 * check_twins.c - checks that need two jobs of one problem: replayed graphs, runs at the same time, and a
 * weight in the place of another. */
#include <pthread.h>
#include <string.h>

#include "check.h"
#include "oracle.h"

#define ROUNDS 4

static uint32_t layout_of(const job *of) {
    return of->op == OPREG_OP_MATMUL_BT_QUANT ? of->problem.matmul.layout
           : of->op == OPREG_OP_MOE_FFN       ? of->problem.ffn.layout
                                              : of->problem.moe.layout;
}

/* The same problem with other data, and by salt other weights: 0 where those would ask for another
 * problem. */
static int twin_make(const reference *ref, const case_key *key, uint32_t salt, const job *of,
                     job *twin, finding *f) {
    case_key other = *key;
    opreg_status status;
    other.salt = salt;
    if (of->bufs[0].bytes == 0 || !case_make(&other, twin)) {
        return 0;
    }
    status = reference_run(ref, twin, f);
    twin->prepare = of->prepare;
    (void)problem_set_layout(twin, layout_of(of));
    if (status != OPREG_OK || memcmp(&twin->problem, &of->problem, sizeof of->problem) != 0) {
        job_clear(twin);
        return 0;
    }
    return 1;
}

/* A result against the truth that its level has. */
static void hold(const variant *v, const job *of, uint8_t *const got[JOB_BUFS], const char *check,
                 const char *words, finding *f) {
    uint8_t *want[JOB_BUFS];
    char detail[320];
    if (v->row.level != OPREG_LEVEL_CANONICAL) {
        oracle_check(of, &v->row, got, f);
        return;
    }
    reference_outputs(of, want);
    if (!outputs_equal(of, got, want, detail)) {
        finding_set(f, check, "%s: %.240s", words, detail);
    }
}

/* ---- graphs --------------------------------------------------------------------------------------- */

static opreg_status capture(session *s, void **graph) {
    const place *w = s->where;
    opreg_status run, status = w->io->capture_begin(w->host, &w->device, w->stream);
    if (status != OPREG_OK) {
        return status;
    }
    run = session_run(s);
    status = w->io->capture_end(w->host, &w->device, w->stream, graph);
    return run != OPREG_OK ? run : status;
}

static void replay(const variant *v, session *s, const job *jobs[2], uint8_t *const got[JOB_BUFS],
                   finding *f) {
    const place *w = v->where;
    void *graph = NULL;
    opreg_status status = capture(s, &graph);
    for (int i = 0; status == OPREG_OK && i < 2 && f->check == NULL; i++) {
        if (i == 1 && !session_rewrite(s, jobs[1], f)) {
            break;
        }
        status = w->io->graph_launch(w->host, &w->device, graph, w->stream);
        if (status == OPREG_OK && session_read(s, got, f)) {
            hold(v, jobs[i], got, "graph",
                 i == 0 ? "the captured run" : "the captured run with new data", f);
        }
    }
    if (status != OPREG_OK) {
        finding_set(f, "graph", "claims graph-safe, but: %s: %s", opreg_status_name(status),
                    opreg_last_error());
    }
    if (graph != NULL) {
        w->io->graph_destroy(w->host, &w->device, graph);
    }
}

void check_graph(const reference *ref, const variant *v, const opreg_plan *plan,
                 const case_key *key, const job *of, finding *f) {
    static const surroundings around = {0, 0, 0, 0, 1, 0, 1};
    const job *jobs[2] = {of, NULL};
    uint8_t *got[JOB_BUFS];
    job twin;
    session s;
    if (v->where->io->capture_begin == NULL || !twin_make(ref, key, 1, of, &twin, f)) {
        return;
    }
    jobs[1] = &twin;
    if (outputs_alloc(of, got)) {
        if (session_open(ref->reg, v->where, plan, of, around, &s, f)) {
            replay(v, &s, jobs, got, f);
            session_close(&s);
        }
        outputs_free(got);
    }
    job_clear(&twin);
}

/* ---- at the same time ------------------------------------------------------------------------------- */

typedef struct runner {
    session s;
    opreg_status status;
} runner;

static void *run_rounds(void *arg) {
    runner *r = arg;
    for (int i = 0; r->status == OPREG_OK && i < ROUNDS; i++) {
        r->status = session_run(&r->s);
    }
    return NULL;
}

static void run_both(runner both[2], int is_cpu) {
    pthread_t thread;
    if (is_cpu && pthread_create(&thread, NULL, run_rounds, &both[0]) == 0) {
        run_rounds(&both[1]);
        pthread_join(thread, NULL);
        return;
    }
    for (int i = 0; i < 2 * ROUNDS; i++) { /* the streams overlap on the device */
        if (both[i % 2].status == OPREG_OK) {
            both[i % 2].status = session_run(&both[i % 2].s);
        }
    }
}

/* A second stream, and the part of the arena that the first session leaves. */
static opreg_status second_place(const place *first, place *out) {
    *out = *first;
    if (first->is_cpu) {
        return OPREG_OK;
    }
    out->arena = first->arena + first->arena_used;
    out->arena_bytes = first->arena_bytes - first->arena_used;
    out->arena_used = 0;
    return first->io->stream_create(first->host, &first->device, &out->stream);
}

void check_threads(const reference *ref, const variant *v, const opreg_plan *plan,
                   const case_key *key, const job *of, finding *f) {
    static const surroundings around = {0, 0, 0, 0, 1, 0, 1};
    runner both[2];
    uint8_t *got[JOB_BUFS];
    place other;
    job twin;
    if (!twin_make(ref, key, 1, of, &twin, f)) {
        return;
    }
    memset(both, 0, sizeof both);
    if (outputs_alloc(of, got)) {
        if (session_open(ref->reg, v->where, plan, of, around, &both[0].s, f)) {
            if (second_place(v->where, &other) == OPREG_OK) {
                if (session_open(ref->reg, &other, plan, &twin, around, &both[1].s, f)) {
                    run_both(both, v->where->is_cpu);
                    for (int i = 0; i < 2; i++) {
                        if (both[i].status != OPREG_OK) {
                            finding_set(f, "threads", "one of two runs at the same time: %s",
                                        opreg_status_name(both[i].status));
                        } else if (session_read(&both[i].s, got, f)) {
                            hold(v, i == 0 ? of : &twin, got, "threads",
                                 "two runs of one plan at the same time", f);
                        }
                    }
                    session_close(&both[1].s);
                }
                if (!other.is_cpu) {
                    other.io->stream_destroy(other.host, &other.device, other.stream);
                }
            }
            session_close(&both[0].s);
        }
        outputs_free(got);
    }
    job_clear(&twin);
}

/* ---- one weight after another ------------------------------------------------------------------------ */

/* 1 when weights of the other job fit in the place of this one's. */
static int weights_fit(const job *of, const job *other) {
    int fit = 1;
    for (uint32_t i = 0; i < of->num_weights; i++) {
        fit &= of->weights[i].bytes == other->weights[i].bytes &&
               of->weights[i].expert_stride == other->weights[i].expert_stride;
    }
    return fit;
}

void check_weights(const reference *ref, const variant *v, const opreg_plan *plan,
                   const case_key *key, const job *of, finding *f) {
    static const surroundings around = {0, 0, 0, 0, 1, 0, 0};
    uint8_t *got[JOB_BUFS];
    job twin;
    session s;
    if (!twin_make(ref, key, CASE_OTHER_WEIGHTS, of, &twin, f)) {
        return;
    }
    if (weights_fit(of, &twin) && outputs_alloc(of, got)) {
        if (session_open(ref->reg, v->where, plan, of, around, &s, f)) {
            if (session_run(&s) == OPREG_OK && session_reweigh(ref->reg, &s, &twin, f) &&
                session_rewrite(&s, &twin, f) && session_run(&s) == OPREG_OK &&
                session_read(&s, got, f)) {
                hold(v, &twin, got, "weights", "another weight in the place of the one before", f);
            }
            session_close(&s);
        }
        outputs_free(got);
    }
    job_clear(&twin);
}
