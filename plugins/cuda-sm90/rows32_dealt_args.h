/* SPDX-License-Identifier: MIT
 * rows32_dealt_args.h - parameters and shared memory of rows32_dealt. */
#ifndef OPREG_SM90_ROWS32_DEALT_ARGS_H
#define OPREG_SM90_ROWS32_DEALT_ARGS_H

#include "records_args.h"
#include "rows32_args.h"

#define DEALT_WORKERS   16
#define DEALT_FINISHERS 4
#define DEALT_THREADS   (32 * (DEALT_WORKERS + DEALT_FINISHERS))
#define DEALT_PARTS     2  /* blocks of a cluster, which share a row: groups u, u + 2, ..            */
#define DEALT_DEPTH     4  /* at most: groups of weights a worker has on the way or in use           */
#define DEALT_BUFFERS   2  /* at most: rows of a team whose sums are kept                            */
#define DEALT_COLUMN    36 /* floats from one column's 32 sums to the next: banks stay apart         */

/* Of a block: lists of a row; accumulators of a list; bytes of a list's sums, and of what a finisher
 * gets from the other block. */
#define DEALT_LISTS(unit)      ((unit) == 256 ? 8 : 4)
#define DEALT_KEPT(unit)       ((unit) == 256 ? 1 : 4)
#define DEALT_SUM_BYTES(unit)  (DEALT_KEPT(unit) * 8 * DEALT_COLUMN * 4)
#define DEALT_PART_BYTES(unit) (DEALT_KEPT(unit) * 1024)

/* Bytes of tables that are not the format's own: see rows32_dealt_words.cuh. */
#define DEALT_TABLE_IQ2_XXS ROWS32_SPREAD_TABLE(256, 128)
#define DEALT_TABLE_IQ3_S   ROWS32_SPREAD_TABLE(512, 0)

/* Shared memory: 8 columns of x, `apart` bytes each; each worker's `depth` groups; from `sums` on the
 * sums of `buffers` rows of each team, from `parts` on DEALT_PART_BYTES for each finisher and weight, from
 * `tables` on the format's. */
typedef struct dealt_args {
    matmul_args base;
    uint32_t groups, depth, apart, buffers;
    uint32_t sums, parts, tables;
    uint32_t chained, early; /* early: groups of a worker asked for ahead of x                     */
    uint32_t reserved;
} dealt_args;

#endif /* OPREG_SM90_ROWS32_DEALT_ARGS_H */
