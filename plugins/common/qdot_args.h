/* SPDX-License-Identifier: MIT
 * qdot_args.h - launch shapes of the qdot kernels, for host and device. */
#ifndef OPREG_PLUGINS_QDOT_ARGS_H
#define OPREG_PLUGINS_QDOT_ARGS_H

#define QDOT_THREADS 128       /* four waves                                                       */
#define QDOT_ROWS 2            /* outputs of one wave                                              */

/* Waves of qdot_splitk that share QDOT_ROWS outputs: one for each four superblocks, at most eight. */
#define QDOT_SPLITK_MOST_WAVES   8
#define QDOT_SPLITK_WAVES(units)                                                                   \
    ((units) > 28 ? QDOT_SPLITK_MOST_WAVES : (units) > 4 ? ((units) + 3) / 4 : 1)

/* qdot_gemv that quantizes x itself: each block the whole row, so rows are bounded by shared memory
 * and blocks by the work that is done again. */
#define QDOT_FUSED_THREADS 256
#define QDOT_FUSED_K       16384
#define QDOT_FUSED_N       16384

/* Shared memory of a row of x with units of `unit`: codes, scales, sums of 16. */
#define QDOT_FUSED_SHARED(k, unit) ((k) + (k) / (unit) * 4 + (k) / 16 * 2)

#endif /* OPREG_PLUGINS_QDOT_ARGS_H */
