/* SPDX-License-Identifier: MIT
 * check.h - one case of one variant: run it several ways and hold it to what it declares. */
#ifndef OPREG_KIT_CHECK_H
#define OPREG_KIT_CHECK_H

#include "cases.h"
#include "session.h"

/* A variant on a device. */
typedef struct variant {
    opreg_kernel_row row;
    char name[112]; /* "plugin/kernel"                                                              */
    place *where;
    int is_reference; /* the CPU backend's baseline: the oracle is always asked                     */
} variant;

/* The reference of every operator: the CPU backend's baseline and its device. */
typedef struct reference {
    opreg_registry *reg;
    place *where;
    char names[OPREG_OP_COUNT + 1][112]; /* "" where there is none                                  */
} reference;

/* Fills the job's outputs (bufs[i].data) with what the reference writes.  OPREG_E_UNSUPPORTED and
 * other statuses as opreg_plan_create_named; a finding when the run itself was bad. */
opreg_status reference_run(const reference *ref, job *of, finding *f);

typedef enum check_result { CHECK_PASSED, CHECK_FAILED, CHECK_REFUSED } check_result;

/* Runs the case.  layout: of the weights, OPREG_LAYOUT_ANY lets the plan choose.  The job carries the
 * reference's outputs. */
check_result check_case(const reference *ref, const variant *v, const case_key *key, const job *of,
                        uint32_t layout, finding *f);

/* 1 when the operator takes weights, whose layout (of all of them) is then set in the problem. */
int problem_set_layout(job *of, uint32_t layout);

/* ---- its parts ---------------------------------------------------------------------------------- */

/* What the reference wrote for the job, by buffer. */
void reference_outputs(const job *of, uint8_t *outputs[JOB_BUFS]);

/* One run from nothing: place, run, read back.  0 with a finding when something was wrong. */
int check_run(const reference *ref, const variant *v, const opreg_plan *plan, const job *of,
              surroundings around, uint8_t *const outputs[JOB_BUFS], finding *f);

/* A row, chosen by pick, of the results `a` against a call with that row alone. */
void check_width(const reference *ref, const variant *v, const job *of, uint32_t pick,
                 uint8_t *const a[JOB_BUFS], finding *f);

/* The results `a` of moe_ffn against the reference's stages; nothing for another operator. */
void check_composition(const reference *ref, const job *of, uint8_t *const a[JOB_BUFS],
                       finding *f);

/* Capture once, launch on this job's data, then on other data in the same buffers. */
void check_graph(const reference *ref, const variant *v, const opreg_plan *plan,
                 const case_key *key, const job *of, finding *f);

/* A run, then one with another weight at the same address. */
void check_weights(const reference *ref, const variant *v, const opreg_plan *plan,
                   const case_key *key, const job *of, finding *f);

/* One plan, two jobs at once: two threads on the host, two streams elsewhere. */
void check_threads(const reference *ref, const variant *v, const opreg_plan *plan,
                   const case_key *key, const job *of, finding *f);

#endif /* OPREG_KIT_CHECK_H */
