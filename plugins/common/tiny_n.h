/* SPDX-License-Identifier: MIT
 * tiny_n.h - host side of the tiny_n_gemv kernels (tiny_n.cuh): a plugin puts those of bf16 and f16
 * right after wmma_tile's kernels in its gpu_program. */
#ifndef OPREG_PLUGINS_TINY_N_H
#define OPREG_PLUGINS_TINY_N_H

#include "baseline.h"
#include "tiny_n_args.h"

extern const uint32_t tiny_n_formats[]; /* 0 ends */

/* The first symbol after the tiny_n_gemv kernels. */
uint32_t tiny_n_end_symbol(void);

BASELINE_DECLARE(tiny_n_gemv)

#endif /* OPREG_PLUGINS_TINY_N_H */
