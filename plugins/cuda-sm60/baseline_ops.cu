/* SPDX-License-Identifier: MIT
 * The baselines without weights, and the kernels that pack prepared weights. */
#include "baseline_ops.cuh"
#include "baseline_attention.cuh"
