/* SPDX-License-Identifier: MIT
 * rows32_args.h - parameters of the kernels over the layout rows32. */
#ifndef OPREG_SM90_ROWS32_ARGS_H
#define OPREG_SM90_ROWS32_ARGS_H

#include "baseline_args.h"

typedef struct rows32_args {
    matmul_args base; /* x: elements, or codes where scales is not null; prepared weights            */
    uint32_t groups;  /* of a row                                                                   */
    uint32_t chained; /* 1: waits for the launch ahead before it reads x                            */
} rows32_args;

/* Shared memory of one block, in bytes from its start; what is not needed has no length. */
typedef struct rows32_shared {
    uint32_t codes, scales, sums, table, reduction, end;
} rows32_shared;

#endif /* OPREG_SM90_ROWS32_ARGS_H */
