/* SPDX-License-Identifier: MIT
 * session.h - one job placed on one device, run there as often as wanted. */
#ifndef OPREG_KIT_SESSION_H
#define OPREG_KIT_SESSION_H

#include "job.h"
#include "memory.h"

/* The first thing that was wrong; check is null while nothing is. */
typedef struct finding {
    const char *check; /* name of the check                                                         */
    char detail[320];
} finding;

/* Notes a finding, if it is the first; printf format. */
void finding_set(finding *f, const char *check, const char *format, ...);

/* What surrounds the data of a run: each must not matter. */
typedef struct surroundings {
    uint32_t outputs, scratch, loose, guards; /* fill 0 or 1 of each                                */
    int at_end;                               /* host: the end of every buffer at a guard page      */
    uint32_t shift;                           /* device: extra elements of misalignment             */
    uint32_t keep_weights;                    /* 1: experts that are not used keep their bytes      */
} surroundings;

typedef struct session {
    place *where;
    const opreg_plan *plan;
    const job *of;
    surroundings around;
    region bufs[JOB_BUFS], stored[JOB_WEIGHTS], prepared[JOB_WEIGHTS], scratch;
    opreg_weight *weights[JOB_WEIGHTS], *laid_out[JOB_WEIGHTS];
    int mode_changed;     /* the thread's float mode is another after a run                         */
    uint64_t allocations; /* that the process made during the runs; 0 where nobody counts           */
} session;

/* 0 with a finding where the device or the library refuses something it must take. */
int session_open(opreg_registry *reg, place *where, const opreg_plan *plan, const job *of,
                 surroundings around, session *out, finding *f);

/* Enqueues one run. */
opreg_status session_run(session *s);

/* Waits, checks guards, inputs and what must stay unwritten, and copies the outputs of the job to
 * outputs[i], which the caller owns (null: not wanted). */
int session_read(session *s, uint8_t *const outputs[JOB_BUFS], finding *f);

/* Puts another job's weights at the addresses of this one's, with handles of their own. */
int session_reweigh(opreg_registry *reg, session *s, const job *other, finding *f);

/* Puts another job's buffers in place of this one's: same problem, other data. */
int session_rewrite(session *s, const job *other, finding *f);

void session_close(session *s);

/* Room for every output of a job: 0 when out of memory. */
int outputs_alloc(const job *of, uint8_t *outputs[JOB_BUFS]);
void outputs_free(uint8_t *outputs[JOB_BUFS]);

#endif /* OPREG_KIT_SESSION_H */
