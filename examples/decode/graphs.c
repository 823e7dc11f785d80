/* SPDX-License-Identifier: MIT
 * graphs.c - finds the graph of a shape, or captures it. */
#include "graphs.h"

#include <string.h>

void graphs_drop(graphs *g, const machine *m) {
    for (int32_t i = 0; i < g->count; i++) {
        if (g->rows[i].graph) {
            m->io->graph_destroy(m->host, &m->device, g->rows[i].graph);
        }
    }
    memset(g, 0, sizeof *g);
}

/* The capture has begun.  A pass that fails leaves no graph. */
static int capture(const machine *m, void **graph, int (*enqueue)(void *user, reason *why),
                   void *user, reason *why) {
    reason ignored;
    int enqueued = enqueue(user, why);
    int ended = machine_done(m->io->capture_end(m->host, &m->device, m->stream, graph), "capture",
                             enqueued ? why : &ignored);
    if (ended && !enqueued) {
        m->io->graph_destroy(m->host, &m->device, *graph);
        *graph = NULL;
    }
    return ended && enqueued;
}

int graphs_run(graphs *g, const plans *p, const pass_shape *shape,
               int (*enqueue)(void *user, reason *why), void *user, reason *why) {
    const machine *m = p->on;
    int32_t i = 0;
    opreg_status status;
    if (g->absent || !(p->flags & OPREG_PF_GRAPH_SAFE)) {
        return enqueue(user, why);
    }
    if (g->moves != p->moves) {
        graphs_drop(g, m);
        g->moves = p->moves;
    }
    while (i < g->count && memcmp(&g->rows[i].shape, shape, sizeof *shape) != 0) {
        i++;
    }
    if (i == g->count) {
        if (g->count < GRAPHS_MOST) {
            g->rows[g->count++].shape = *shape;
        }
        return enqueue(user, why);
    }
    if (!g->rows[i].graph) {
        status = m->io->capture_begin(m->host, &m->device, m->stream);
        if (status == OPREG_E_UNSUPPORTED) {
            g->absent = 1;
            return enqueue(user, why);
        }
        if (!machine_done(status, "capture", why) ||
            !capture(m, &g->rows[i].graph, enqueue, user, why)) {
            return 0;
        }
    }
    return machine_done(m->io->graph_launch(m->host, &m->device, g->rows[i].graph, m->stream),
                        "graph", why);
}
