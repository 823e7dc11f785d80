/* SPDX-License-Identifier: MIT
 * The steps between operators. */
#include "steps.cuh"
