/* SPDX-License-Identifier: MIT
 * rows32_wide_args.h - parameters and shared memory of rows32_wide. */
#ifndef OPREG_SM90_ROWS32_WIDE_ARGS_H
#define OPREG_SM90_ROWS32_WIDE_ARGS_H

#include "records_args.h"
#include "rows32_args.h"

#define WIDE_WAVES   8
#define WIDE_THREADS (32 * WIDE_WAVES)
#define WIDE_DEPTH   3  /* at most: groups of weights and x that a wave has on the way or in use      */
#define WIDE_COLUMN  36 /* floats from one column's 32 sums to the next: banks stay apart             */
#define WIDE_SUMS_BYTES(nt) (WIDE_WAVES * 8 * (nt) * WIDE_COLUMN * 4)

/* Shared memory: each wave's `depth` groups of weights and x; the waves' sums; the format's table. */
typedef struct wide_args {
    matmul_args base;
    const uint8_t *records; /* as blocks, units in their own order                                   */
    uint32_t groups, depth;
    uint32_t chained, reserved;
} wide_args;

#endif /* OPREG_SM90_ROWS32_WIDE_ARGS_H */
