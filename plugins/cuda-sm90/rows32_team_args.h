/* SPDX-License-Identifier: MIT
 * rows32_team_args.h - parameters and shared memory of rows32_team. */
#ifndef OPREG_SM90_ROWS32_TEAM_ARGS_H
#define OPREG_SM90_ROWS32_TEAM_ARGS_H

#include "records_args.h"
#include "rows32_args.h"

#define TEAM_WAVES 8
#define TEAMS      2 /* of a block; each takes tiles of its own, x is common                        */
#define TEAM_THREADS (32 * TEAM_WAVES * TEAMS)
#define TEAM_DEPTH 3 /* at most: groups of weights a wave has on the way or in use                  */
#define TEAM_COLUMN 36 /* floats from one column's 32 sums to the next: banks stay apart            */
#define TEAM_SUMS_BYTES (TEAM_WAVES * 8 * TEAM_COLUMN * 4)

/* Shared memory: 8 columns of x, `apart` bytes each; each wave's `depth` groups; each team's sums. */
typedef struct team_args {
    matmul_args base;
    const uint8_t *records;
    uint32_t groups, depth, apart;
    uint32_t chained;
} team_args;

#endif /* OPREG_SM90_ROWS32_TEAM_ARGS_H */
