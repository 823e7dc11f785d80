/* SPDX-License-Identifier: MIT
 * tiny_n_gemv for bf16 and f16 weights. */
#include "tiny_n.cuh"

TINY_N_KERNEL(BF16, bf16)
TINY_N_KERNEL(F16, f16)
