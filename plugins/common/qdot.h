/* SPDX-License-Identifier: MIT
 * qdot.h - host side of the qdot kernels (qdot.cuh): a plugin puts QDOT_SYMBOLS(image) right after the
 * formats' baselines in its gpu_program. */
#ifndef OPREG_PLUGINS_QDOT_H
#define OPREG_PLUGINS_QDOT_H

#include "baseline.h"
#include "qdot_args.h"

extern const uint32_t qdot_formats[];     /* 0 ends                                                */
extern const uint32_t qdot_256_formats[]; /* those of 256 weights a unit, 0 ends                   */

/* The first symbol after the qdot kernels. */
uint32_t qdot_end_symbol(void);

BASELINE_DECLARE(qdot_gemv)
BASELINE_DECLARE(qdot_splitk)
BASELINE_DECLARE(qdot_grouped)
BASELINE_DECLARE(qdot_grouped_glu)
BASELINE_DECLARE(qdot_grouped_down)

#endif /* OPREG_PLUGINS_QDOT_H */
