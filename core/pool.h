/* SPDX-License-Identifier: MIT
 * pool.h - the built-in threads behind parallel_for.  Which thread does which index is never
 * visible in a result: a task depends on its index alone. */
#ifndef OPREG_POOL_H
#define OPREG_POOL_H

#include <stdint.h>

#include "opreg/opreg.h"

typedef struct pool pool;

/* threads: of which the caller of pool_run is one; 0: one per processor this process may use.
 * Starts none yet.  E_NOMEM. */
opreg_status pool_create(uint32_t threads, pool **out);

/* Starts the threads, so that no run has to; what cannot be started is done without.  Call under the
 * registry's lock. */
void pool_start(pool *p);

/* Stops and joins the threads; no pool_run may be in flight.  Null is fine.  In a forked child, where
 * they are gone, only the memory is freed. */
void pool_destroy(pool *p);

/* Runs task(arg, i) for i in [0, count).  Takes no lock and allocates nothing.  Several callers may
 * be inside at once, and a task may call it again.  Serial in a forked child. */
void pool_run(pool *p, int64_t count, void (*task)(void *arg, int64_t i), void *arg);

/* Threads that a run may use, the caller included. */
uint32_t pool_threads(const pool *p);

/* Puts this thread's float unit into the standard state (nearest, no flush to zero), which the bits
 * of the CPU backend depend on, and returns what float_leave puts back. */
uint32_t float_enter(void);
void float_leave(uint32_t before);

#endif /* OPREG_POOL_H */
