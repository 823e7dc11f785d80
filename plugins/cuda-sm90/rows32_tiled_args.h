/* SPDX-License-Identifier: MIT
 * rows32_tiled_args.h - parameters and shared memory of rows32_tiled. */
#ifndef OPREG_SM90_ROWS32_TILED_ARGS_H
#define OPREG_SM90_ROWS32_TILED_ARGS_H

#include "rows32_args.h"

#define TILED_ROWS      128 /* weight rows of a block: four tiles of 32, a warpgroup has two        */
#define TILED_COLUMNS   64  /* rows of x of a block: eight blocks of records                        */
#define TILED_WAVES     8
#define TILED_THREADS   (32 * TILED_WAVES)
#define TILED_STAGES    4   /* at most                                                              */
#define TILED_MOST_UNITS 0xfffff /* of a row: unit_order.cuh                                     */
#define TILED_KEPT_BYTES (TILED_ROWS * TILED_COLUMNS * 4)

/* Shared memory: `stages` of weights and x, `kept` sets of outputs (levels of the tree of partial
 * sums from 1 on), the format's table, the order of a row's units. */
typedef struct tiled_args {
    matmul_args base;
    const uint8_t *records;
    float *gates;            /* of every block, where gate and up are one call                      */
    uint32_t units, levels;  /* of a row, of the tree                                               */
    uint32_t stages, kept;   /* stages: 2 at least                                                  */
    uint32_t chained, reserved;
} tiled_args;

#endif /* OPREG_SM90_ROWS32_TILED_ARGS_H */
