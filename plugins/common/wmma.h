/* SPDX-License-Identifier: MIT
 * wmma.h - host side of the wmma_tile kernels (wmma.cuh): a plugin puts the kernels of
 * wmma_list.inc right after paged_gqa's kernels in its gpu_program. */
#ifndef OPREG_PLUGINS_WMMA_H
#define OPREG_PLUGINS_WMMA_H

#include "baseline.h"
#include "wmma_args.h"

extern const uint32_t wmma_formats[]; /* 0 ends */

/* The first symbol after the wmma_tile kernels. */
uint32_t wmma_end_symbol(void);

BASELINE_DECLARE(wmma_tile)

#endif /* OPREG_PLUGINS_WMMA_H */
