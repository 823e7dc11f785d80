/* SPDX-License-Identifier: MIT
 * parallel.h - a loop over all threads, for the checks that the command makes itself. */
#ifndef OPREG_TOOLS_PARALLEL_H
#define OPREG_TOOLS_PARALLEL_H

#include <stdint.h>

/* Runs task(arg, i) for i in [0, count) on up to `threads` threads and returns when all are done.
 */
void parallel_run(unsigned threads, int64_t count, void (*task)(void *arg, int64_t i), void *arg);

/* Processors that this process may use, at least 1. */
unsigned parallel_threads(void);

#endif /* OPREG_TOOLS_PARALLEL_H */
