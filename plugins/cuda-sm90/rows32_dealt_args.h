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
#define DEALT_SLOTS     48 /* at most: groups of weights that are on the way or in use               */
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

/* Shared memory: 8 columns of x, `apart` bytes each; each team's `slots` groups; from `sums` on the
 * sums of `buffers` rows of each team, from `parts` on DEALT_PART_BYTES for each team and weight, from
 * `tables` on the format's. */
typedef struct dealt_args {
    matmul_args base;
    uint32_t groups, slots, apart, buffers; /* slots: of a team, no fewer than its waves             */
    uint32_t sums, parts, tables;
    uint32_t chained;
    uint32_t waves, teams;   /* of a team: one a list; teams: each has a finisher                   */
    uint32_t team_of;        /* wave * team_of / 65536 is the wave's team                           */
    uint32_t tiles_each, teams_more; /* of a cluster's team; teams that have one more               */
    uint32_t more;           /* clusters that have one more                                         */
    uint32_t column_bits;    /* 1 << column_bits is m or above it                                   */
    uint32_t shift, span;    /* slots modulo waves; where a wave's groups of a row end               */
    uint32_t tile_step;      /* from a tile of a team to its next, in pieces of 16 bytes            */
} dealt_args;

#endif /* OPREG_SM90_ROWS32_DEALT_ARGS_H */
