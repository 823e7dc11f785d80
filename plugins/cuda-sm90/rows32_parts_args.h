/* SPDX-License-Identifier: MIT
 * rows32_parts_args.h - the formats, the kernels and the parameters of rows32_parts. */
#ifndef OPREG_SM90_ROWS32_PARTS_ARGS_H
#define OPREG_SM90_ROWS32_PARTS_ARGS_H

#include "baseline_args.h"

#define ROWS32_PARTS_FORMATS(X)                                                                    \
    X(IQ4_NL, iq4_nl) X(MXFP4, mxfp4) X(ROCMFP4_FAST, rocmfp4_fast) X(Q2_0, q2_0)

/* Kernels of a format. */
enum parts_method {
    PARTS_GROUPED,
    PARTS_ROW,
    PARTS_LONG,
    PARTS_METHODS
};

#define PARTS_TEAMS        7 /* of two waves, a tile each; one more wave brings tiles */
#define PARTS_THREADS      (64 * PARTS_TEAMS + 32)
#define PARTS_LONG_WAVES   16
#define PARTS_LONG_THREADS (32 * PARTS_LONG_WAVES + 32)
#define PARTS_GROUPS       8  /* of a row or of a stage, at most */
#define PARTS_SLOTS        24 /* for tiles or stages, at most */
#define PARTS_ENTRIES      62 /* of a grouped call, at most: a wave asks for its route at once */
#define PARTS_LONG_SUMS    8192u
#define PARTS_SHARED       (112u * 1024u) /* of a block, but for its barriers */
#define PARTS_X(groups)    ((groups) * 160u) /* of a row of x: codes, scales, sums */

typedef struct parts_args {
    matmul_args base; /* x: elements, or codes where scales is not null; prepared weights */
    uint32_t groups;  /* of a row */
    uint32_t tiles;   /* of an expert */
    uint32_t slots;
    uint32_t chained; /* 1: waits for the launch ahead before it reads x */
    uint32_t early;   /* 1: reads the route before it waits */
    uint32_t reserved;
} parts_args;

/* Dynamic shared memory: the slots; then a row of x, grouped calls two. */

#endif /* OPREG_SM90_ROWS32_PARTS_ARGS_H */
