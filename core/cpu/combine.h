/* SPDX-License-Identifier: MIT
 * combine.h - the weighted sum of each token's rows. */
#ifndef OPREG_CPU_COMBINE_H
#define OPREG_CPU_COMBINE_H

#include "cpu/cpu.h"

/* y[t] = sum over slots, ascending from +0, of weights[t, slot] * rows[t * top_k + slot]. */
void combine_rows(const opreg_host *host, const opreg_moe_combine *problem, void *y,
                  const void *rows, const float *weights);

#endif /* OPREG_CPU_COMBINE_H */
