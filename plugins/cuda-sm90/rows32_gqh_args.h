/* SPDX-License-Identifier: MIT
 * rows32_gqh_args.h - parameters and shared memory of rows32_gqh. */
#ifndef OPREG_SM90_ROWS32_GQH_ARGS_H
#define OPREG_SM90_ROWS32_GQH_ARGS_H

#include "gqh_shared_args.h"

/* ROWS32_GQH_WIDTH(name, rows of x, parts of eight weight rows a lane has, superblocks at a time, most
 * waves).  The least that holds a call's rows of x is launched, the last for more; of two for as many,
 * the first where a block's parts are one round of its waves. */
#define ROWS32_GQH_WIDTHS(name)                                                                    \
    ROWS32_GQH_WIDTH(name, 1, 1, 2, 20)                                                            \
    ROWS32_GQH_WIDTH(name, 1, 3, 1, 12)                                                            \
    ROWS32_GQH_WIDTH(name, 2, 2, 1, 16)                                                            \
    ROWS32_GQH_WIDTH(name, 3, 3, 1, 12)                                                            \
    ROWS32_GQH_WIDTH(name, 4, 3, 1, 12)                                                            \
    ROWS32_GQH_WIDTH(name, 5, 2, 1, 12)                                                            \
    ROWS32_GQH_WIDTH(name, 6, 2, 1, 12)                                                            \
    ROWS32_GQH_WIDTH(name, 8, 2, 1, 12)
#define ROWS32_GQH_FORMATS                                                                         \
    ROWS32_GQH_WIDTHS(gqh4)                                                                        \
    ROWS32_GQH_WIDTHS(gqh3)                                                                        \
    ROWS32_GQH_WIDTHS(gqh2_h)                                                                      \
    ROWS32_GQH_WIDTHS(gqh2_c)
#define ROWS32_GQH_COUNT 8 /* widths of a format                                                   */
#define ROWS32_GQH_MOST  8
#define GQH_TEAM         2 /* waves that have a task                                               */
#define GQH_TEAM_SUMS  128 /* floats they exchange for a part and a row of x                       */

/* Shared memory: the front, from where the block's begins; at the address GQH_TABLE an entry of 256
 * bytes for each byte of codes; then x. */
#define GQH_FRONT     (GQH_TABLE - 4096u)
#define GQH_X_FLOATS  288u   /* of a superblock: 8 pieces of 32 values, 4 apart for the banks          */
#define GQH_SCALES    256u   /* floats; 16 ratios follow them in the front, then gates, then sums     */
#define GQH_GATES     (GQH_SCALES + 16u)

typedef struct gqh_args {
    matmul_args base;
    uint32_t superblocks, chunk; /* of a row; of x in shared memory at a time                       */
    uint32_t gates;              /* floats of gates in the front                                    */
    uint32_t waves;              /* that take tasks; others help with tables and x                  */
    uint32_t chained;
} gqh_args;

#endif /* OPREG_SM90_ROWS32_GQH_ARGS_H */
