/* SPDX-License-Identifier: MIT
 * small_engine.h - a decode loop of one layer, as an engine runs it: plans that are kept, buffers that
 * are used again, results that feed the next step.  Public API only, on the CPU. */
#ifndef SMALL_ENGINE_H
#define SMALL_ENGINE_H

#include "opreg/opreg.h"

/* Makes the plans and weights, runs some steps of 1 and of 4 tokens, frees everything.  The status of
 * the first call that fails, with its text.  The result of all steps is folded into *digest. */
opreg_status small_engine_run(opreg_registry *reg, uint64_t *digest);

#endif /* SMALL_ENGINE_H */
