/* SPDX-License-Identifier: MIT
 * The baselines without weights. */
#include "baseline_attention.cuh"
#include "baseline_ops.cuh"
