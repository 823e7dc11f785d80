/* SPDX-License-Identifier: MIT
 * check.c - one case of one variant, run with different surroundings and compared. */
#include "check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "oracle.h"

int problem_set_layout(job *of, uint32_t layout) {
    switch (of->op) {
    case OPREG_OP_MATMUL_BT_QUANT: of->problem.matmul.layout = layout; return 1;
    case OPREG_OP_MOE_MATMUL:
    case OPREG_OP_MOE_GLU:
    case OPREG_OP_MOE_DOWN: of->problem.moe.layout = layout; return 1;
    case OPREG_OP_MOE_FFN:
        of->problem.ffn.layout = layout;
        of->problem.ffn.down_layout = layout;
        return 1;
    default: return 0;
    }
}

int check_run(const reference *ref, const variant *v, const opreg_plan *plan, const job *of,
              surroundings around, uint8_t *const outputs[JOB_BUFS], finding *f) {
    session s;
    opreg_status status;
    int ok;
    if (!session_open(ref->reg, v->where, plan, of, around, &s, f)) {
        return 0;
    }
    status = session_run(&s);
    if (status != OPREG_OK) {
        finding_set(f, "status", "opreg_plan_run: %s: %s", opreg_status_name(status),
                    opreg_last_error());
    }
    if (s.allocations > 0) {
        finding_set(f, "allocation", "the run allocated memory %llu times: all it needs is its workspace",
                    (unsigned long long)s.allocations);
    }
    ok = session_read(&s, outputs, f) && status == OPREG_OK;
    session_close(&s);
    return ok;
}

opreg_status reference_run(const reference *ref, job *of, finding *f) {
    static const surroundings around = {0, 0, 0, 0, 1, 0, 0};
    variant v;
    opreg_plan *plan = NULL;
    uint8_t *outputs[JOB_BUFS];
    opreg_status status;
    memset(&v, 0, sizeof v);
    v.where = ref->where;
    status = opreg_plan_create_named(ref->reg, &ref->where->device, of->op, &of->problem,
                                     ref->names[of->op], &plan);
    if (status != OPREG_OK) {
        return status;
    }
    if (outputs_alloc(of, outputs)) {
        check_run(ref, &v, plan, of, around, outputs, f);
        for (uint32_t i = 0; i < of->num_bufs; i++) {
            if (of->bufs[i].role == JOB_OUTPUT) {
                memcpy(of->bufs[i].data, outputs[i], of->bufs[i].bytes);
            }
        }
        outputs_free(outputs);
    }
    opreg_plan_destroy(plan);
    return OPREG_OK;
}

void reference_outputs(const job *of, uint8_t *outputs[JOB_BUFS]) {
    for (uint32_t i = 0; i < JOB_BUFS; i++) {
        outputs[i] = of->bufs[i].role == JOB_OUTPUT ? of->bufs[i].data : NULL;
    }
}

/* An owned element that holds the pattern of the fill, whatever the fill. */
static int never_written(const job *of, uint8_t *const a[JOB_BUFS], uint8_t *const b[JOB_BUFS],
                         finding *f) {
    for (uint32_t i = 0; i < of->num_bufs; i++) {
        const job_buffer *out = &of->bufs[i];
        uint32_t size = element_bytes(out->dtype);
        for (uint64_t at = 0; out->role == JOB_OUTPUT && at + size <= out->bytes; at += size) {
            uint32_t same = 0;
            for (uint32_t byte = 0; byte < size; byte++) {
                same += a[i][at + byte] == region_pattern(0, at + byte) &&
                        b[i][at + byte] == region_pattern(1, at + byte);
            }
            if (same == size && (out->owned == NULL || out->owned[at] == 1)) {
                finding_set(f, "unwritten", "output %u: element %llu is not written", i,
                            (unsigned long long)(at / size));
                return 1;
            }
        }
    }
    return 0;
}

/* A variant with a band alone may be far off where data are not gaussian, but what is an ordinary number
 * for the reference is a number.  Outliers and extreme scales may go over what it computes in. */
static void check_finite(const job *of, uint8_t *const a[JOB_BUFS], finding *f) {
    if (of->data == DATA_OUTLIER || of->data == DATA_EXTREME || of->data == DATA_NONFINITE) {
        return;
    }
    for (uint32_t i = 0; i < of->num_bufs; i++) {
        const job_buffer *out = &of->bufs[i];
        uint32_t size = element_bytes(out->dtype);
        float most = out->dtype == OPREG_F16 ? 30000.0f : 0x1p100f;
        for (uint64_t at = 0; out->role == JOB_OUTPUT && out->dtype <= OPREG_BF16 && at + size <= out->bytes;
             at += size) {
            float want = element_load(out->dtype, out->data + at);
            float got = element_load(out->dtype, a[i] + at);
            if ((out->owned == NULL || out->owned[at] == 1) && fabsf(want) <= most && !isfinite(got)) {
                finding_set(f, "finite", "output %u: element %llu is %g, for the reference %g", i,
                            (unsigned long long)(at / size), (double)got, (double)want);
                return;
            }
        }
    }
}

/* Two runs differed: which of the things that must not matter did? */
static void blame(const reference *ref, const variant *v, const opreg_plan *plan, const job *of,
                  uint8_t *const a[JOB_BUFS], const char *difference,
                  finding *f) {
    static const struct {
        const char *check, *words;
        surroundings with;
    } suspects[] = {
        {"determinism", "two runs of the same call differ", {0, 0, 0, 0, 1, 0, 0}},
        {"determinism", "three runs of the same call differ", {0, 0, 0, 0, 1, 0, 0}},
        {"workspace", "the contents of the workspace matter", {0, 1, 0, 0, 1, 0, 0}},
        {"unused-slots", "slots that must not matter do (NaN against huge)", {0, 0, 1, 0, 1, 0, 0}},
        {"slack", "bytes around a buffer or weight matter", {0, 0, 0, 1, 1, 0, 0}},
        {"stale-output", "what the output held before matters", {1, 0, 0, 0, 1, 0, 0}},
        {"alignment", "where a buffer lies matters", {0, 0, 0, 0, 0, 0, 0}},
        {"alignment", "a base that is off by one element matters", {0, 0, 0, 0, 1, 1, 0}},
    };
    uint8_t *again[JOB_BUFS];
    char detail[320];
    if (!outputs_alloc(of, again)) {
        return;
    }
    for (size_t i = 0; i < sizeof suspects / sizeof suspects[0]; i++) {
        if (check_run(ref, v, plan, of, suspects[i].with, again, f) &&
            !outputs_equal(of, a, again, detail)) {
            finding_set(f, suspects[i].check, "%s: %.240s", suspects[i].words, detail);
            break;
        }
        if (f->check != NULL) {
            break;
        }
    }
    outputs_free(again);
    finding_set(f, "determinism", "%.300s", difference);
}

static void compare_runs(const reference *ref, const variant *v, const opreg_plan *plan,
                         const case_key *key, const job *of,
                         uint8_t *const a[JOB_BUFS], uint8_t *const b[JOB_BUFS], finding *f) {
    int canonical = v->row.level == OPREG_LEVEL_CANONICAL;
    uint8_t *want[JOB_BUFS];
    char detail[320];
    if (never_written(of, a, b, f)) {
        return;
    }
    if (!outputs_equal(of, a, b, detail) &&
        (canonical || (v->row.kernel_flags & OPREG_KF_DETERMINISTIC))) {
        blame(ref, v, plan, of, a, detail, f);
        return;
    }
    if (canonical) {
        check_composition(ref, of, a, f);
    }
    reference_outputs(of, want);
    if (canonical && f->check == NULL && !outputs_equal(of, a, want, detail)) {
        finding_set(f, "bits", "not the reference's bits: %.290s", detail);
        return;
    }
    if (!canonical) {
        check_finite(of, a, f);
    }
    if (!canonical || v->is_reference) {
        (void)(oracle_check(of, &v->row, a, f) && oracle_check(of, &v->row, b, f));
    }
    if (f->check == NULL && (v->row.kernel_flags & OPREG_KF_WIDTH_INVARIANT) &&
        (!canonical || key->index % 5 == 0)) {
        check_width(ref, v, of, key->index, a, f);
    }
    if (f->check == NULL && (v->row.kernel_flags & OPREG_KF_GRAPH_SAFE) && key->index % 2 == 0) {
        check_graph(ref, v, plan, key, of, f);
    }
    if (f->check == NULL && key->index % 4 == 1) {
        check_threads(ref, v, plan, key, of, f);
    }
    if (f->check == NULL && key->index % 8 == 5 && of->num_weights > 0) {
        check_weights(ref, v, plan, key, of, f);
    }
}

/* A second plan of the same problem: what is asked of supports and workspace is pure. */
static void check_plan(const reference *ref, const variant *v, const job *of, const opreg_plan *plan,
                       finding *f) {
    opreg_plan *again = NULL;
    opreg_status status = opreg_plan_create_named(ref->reg, &v->where->device, of->op, &of->problem,
                                                  v->name, &again);
    if (status != OPREG_OK) {
        finding_set(f, "plan", "a plan was made, the next of the same problem was not: %s: %s",
                    opreg_status_name(status), opreg_last_error());
    } else if (opreg_plan_workspace(again) != opreg_plan_workspace(plan) ||
               opreg_plan_layout(again) != opreg_plan_layout(plan)) {
        finding_set(f, "plan", "two plans of one problem want %llu and %llu bytes of workspace, and "
                               "layouts %u and %u",
                    (unsigned long long)opreg_plan_workspace(plan),
                    (unsigned long long)opreg_plan_workspace(again),
                    (unsigned)opreg_plan_layout(plan), (unsigned)opreg_plan_layout(again));
    }
    opreg_plan_destroy(again);
}

check_result check_case(const reference *ref, const variant *v, const case_key *key, const job *of,
                        uint32_t layout, finding *f) {
    static const surroundings first = {0, 0, 0, 0, 1, 0, 0};
    surroundings second = {1, 1, 1, 1, 0, key->index % 3, 0};
    job placed = *of; /* shares everything but the layout; never cleared */
    uint8_t *a[JOB_BUFS], *b[JOB_BUFS];
    opreg_plan *plan = NULL;
    opreg_status status;
    placed.prepare = problem_set_layout(&placed, layout) && layout != OPREG_LAYOUT_STORED;
    status = opreg_plan_create_named(ref->reg, &v->where->device, of->op, &placed.problem, v->name,
                                     &plan);
    if (status == OPREG_E_UNSUPPORTED) {
        return CHECK_REFUSED;
    }
    if (status != OPREG_OK) {
        finding_set(f, "plan", "opreg_plan_create_named: %s: %s", opreg_status_name(status),
                    opreg_last_error());
        return CHECK_FAILED;
    }
    check_plan(ref, v, &placed, plan, f);
    if (f->check == NULL && outputs_alloc(&placed, a)) {
        if (outputs_alloc(&placed, b)) {
            if (check_run(ref, v, plan, &placed, first, a, f) &&
                check_run(ref, v, plan, &placed, second, b, f)) {
                compare_runs(ref, v, plan, key, &placed, a, b, f);
            }
            outputs_free(b);
        }
        outputs_free(a);
    }
    opreg_plan_destroy(plan);
    return f->check == NULL ? CHECK_PASSED : CHECK_FAILED;
}
