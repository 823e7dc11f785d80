/* SPDX-License-Identifier: MIT
 * folds.h - row dots of the formats that are dotted with f32 activations. */
#ifndef OPREG_CPU_FOLDS_H
#define OPREG_CPU_FOLDS_H

#include "cpu/cpu.h"

/* Folds a stored row of k weights into the 32 accumulators, by the canonical order. */
typedef void (*fold_row)(const uint8_t *row, const float *x, int64_t k, const opreg_side *side,
                         float accumulators[32]);

/* Null for a format with integer dots. */
fold_row fold_row_of(uint32_t format);

#endif /* OPREG_CPU_FOLDS_H */
