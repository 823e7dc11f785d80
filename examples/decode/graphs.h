/* SPDX-License-Identifier: MIT
 * graphs.h - passes of one shape, captured once and launched again where the device has graphs. */
#ifndef DECODE_GRAPHS_H
#define DECODE_GRAPHS_H

#include "plans.h"

/* All that the launches of a pass depend on; the rest of it is data on the device. */
typedef struct pass_shape {
    int32_t tokens, requests, max_q, logit_rows, choose;
} pass_shape;

#define GRAPHS_MOST 32

typedef struct graphs {
    struct {
        pass_shape shape;
        void *graph; /* null: the shape has come up once, which made its plans */
    } rows[GRAPHS_MOST];
    int32_t count;
    int absent;     /* 1: the device's driver has no graphs */
    uint32_t moves; /* of the plans' workspace when they were captured */
} graphs;

/* Enqueues the pass: the first of a shape directly, the second while it is captured, and that graph
 * from then on; each directly where there are no graphs.  enqueue(user) puts the pass on the machine's stream. */
int graphs_run(graphs *g, const plans *p, const pass_shape *shape,
               int (*enqueue)(void *user, reason *why), void *user, reason *why);

/* Forgets all, because memory that they use has moved. */
void graphs_drop(graphs *g, const machine *m);

#endif /* DECODE_GRAPHS_H */
