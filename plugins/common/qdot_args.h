/* SPDX-License-Identifier: MIT
 * qdot_args.h - launch shapes of the qdot kernels, for host and device. */
#ifndef OPREG_PLUGINS_QDOT_ARGS_H
#define OPREG_PLUGINS_QDOT_ARGS_H

#define QDOT_THREADS 128       /* four waves                                                       */
#define QDOT_ROWS 2            /* outputs of one wave                                              */
#define QDOT_SPLITK_THREADS 256 /* eight waves                                                      */

/* Waves of qdot_splitk that share an output: one for each four superblocks, rounded up to a power of
 * two, and at most eight. */
#define QDOT_SPLITK_WAVES(units) ((units) > 16 ? 8 : (units) > 8 ? 4 : (units) > 4 ? 2 : 1)

/* qdot_gemv that quantizes x itself: each block the whole row, so rows are bounded by shared memory
 * and blocks by the work that is done again. */
#define QDOT_FUSED_THREADS 256
#define QDOT_FUSED_K       16384
#define QDOT_FUSED_N       16384

/* Shared memory of a row of x with units of `unit`: codes, scales, sums of 16. */
#define QDOT_FUSED_SHARED(k, unit) ((k) + (k) / (unit) * 4 + (k) / 16 * 2)

#endif /* OPREG_PLUGINS_QDOT_ARGS_H */
