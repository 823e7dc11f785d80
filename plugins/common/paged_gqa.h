/* SPDX-License-Identifier: MIT
 * paged_gqa.h - host side of the paged_gqa kernels (paged_gqa.cuh): a plugin puts the kernels of
 * paged_gqa_list.inc right after qdot's in its gpu_program. */
#ifndef OPREG_PLUGINS_PAGED_GQA_H
#define OPREG_PLUGINS_PAGED_GQA_H

#include "baseline.h"
#include "paged_gqa_args.h"

/* The first symbol after the paged_gqa kernels. */
uint32_t paged_gqa_end_symbol(void);

BASELINE_DECLARE(paged_gqa)

#endif /* OPREG_PLUGINS_PAGED_GQA_H */
