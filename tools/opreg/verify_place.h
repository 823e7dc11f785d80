/* SPDX-License-Identifier: MIT
 * verify_place.h - a tensor of opreg verify on one device: its buffers, its route, one run. */
#ifndef OPREG_TOOLS_VERIFY_PLACE_H
#define OPREG_TOOLS_VERIFY_PLACE_H

#include "verify.h"

/* Everything about a tensor that no device changes. */
typedef struct job {
    verify_session *v;
    const model_weight *weight;
    const char *op_name;
    opreg_op op;
    int64_t n, first_row; /* the rows that are run                                                */
    int64_t top_k;        /* 0: a plain matrix                                                    */
    float *x;             /* [VERIFY_MAX_M, k]                                                    */
    int32_t *ids;         /* [VERIFY_MAX_M, top_k]                                                */
    float *route_weights;
    truth_entry *entries; /* all of M = VERIFY_MAX_M, sorted by expert                            */
    truth truth;
    float *reference[2]; /* bits of M = 1 and VERIFY_MAX_M                                        */
    float *y;
    uint8_t *route[2], *route_seen;
    uint64_t route_bytes;
} job;

/* The tensor on one device. */
typedef struct place {
    const device *where;
    opreg_buf data, x, y, ids, route_weights, route;
    opreg_weight *weight;
} place;

int64_t verify_y_rows(const job *j, int64_t m); /* of y for m tokens */

/* 0 with opreg_last_error set; verify_close is due either way. */
int verify_open(const job *j, const device *d, place *p);
void verify_close(place *p);

/* Builds the route of m tokens in p->route, by the variant that a plan takes. */
opreg_status verify_route(const job *j, place *p, int64_t m);

/* Runs into j->y, the output filled with NaN before.  *median_us is of the run, or of several when
 * timed is set. */
opreg_status verify_run(const job *j, place *p, const arm *a, int64_t m, int timed,
                        double *median_us);

#endif /* OPREG_TOOLS_VERIFY_PLACE_H */
