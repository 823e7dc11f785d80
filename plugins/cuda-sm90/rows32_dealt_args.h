/* SPDX-License-Identifier: MIT
 * rows32_dealt_args.h - parameters and shared memory of rows32_dealt. */
#ifndef OPREG_SM90_ROWS32_DEALT_ARGS_H
#define OPREG_SM90_ROWS32_DEALT_ARGS_H

#include "records_args.h"
#include "rows32_args.h"

#define DEALT_WAVES   16
#define DEALT_THREADS (32 * DEALT_WAVES)
#define DEALT_DEPTH   3  /* at most: groups of weights a wave has on the way or in use                */
#define DEALT_BUFFERS 8  /* at most: tiles whose sums are kept                                       */
#define DEALT_LISTS   16u
#define DEALT_COLUMN  36 /* floats from one column's 32 sums to the next: banks stay apart             */
#define DEALT_SUM_BYTES (8u * DEALT_COLUMN * 4u) /* of a list                                        */

/* Shared memory: 8 columns of x, `apart` bytes each; each wave's `depth` groups; the sums of the lists of
 * `buffers` tiles. */
typedef struct dealt_args {
    matmul_args base;
    const uint8_t *records;
    uint32_t groups, depth, apart, buffers;
    uint32_t chained, reserved;
} dealt_args;

#endif /* OPREG_SM90_ROWS32_DEALT_ARGS_H */
