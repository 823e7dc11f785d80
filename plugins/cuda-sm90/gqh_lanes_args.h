/* SPDX-License-Identifier: MIT
 * gqh_lanes_args.h - parameters and shapes of the kernels in which a lane has an accumulator. */
#ifndef OPREG_SM90_GQH_LANES_ARGS_H
#define OPREG_SM90_GQH_LANES_ARGS_H

#include "gqh_shared_args.h"

/* GQH_WIDTH(name, rows of x, quads of weight rows that a wave has at a time, superblocks at a time, most
 * waves).  The least that holds a call's rows of x is launched, the last for more; of several for as many,
 * the first whose waves hold a block's quads at once.  A pair takes even quads, half of each matrix. */
#define GQH_WIDTHS(name)                                                                           \
    GQH_WIDTH(name, 1, 1, 2, 16)                                                                   \
    GQH_WIDTH(name, 1, 3, 1, 12)                                                                   \
    GQH_WIDTH(name, 1, 2, 1, 16)                                                                   \
    GQH_WIDTH(name, 2, 1, 2, 12)                                                                   \
    GQH_WIDTH(name, 2, 3, 1, 12)                                                                   \
    GQH_WIDTH(name, 2, 2, 1, 12)                                                                   \
    GQH_WIDTH(name, 3, 1, 2, 12)                                                                   \
    GQH_WIDTH(name, 3, 2, 1, 12)                                                                   \
    GQH_WIDTH(name, 4, 1, 2, 12)                                                                   \
    GQH_WIDTH(name, 4, 2, 1, 12)
#define GQH_WIDTH_COUNT 10
#define GQH_STORED_FORMATS                                                                         \
    GQH_WIDTHS(gqh4)                                                                               \
    GQH_WIDTHS(gqh3)                                                                               \
    GQH_WIDTHS(gqh2_h)                                                                             \
    GQH_WIDTHS(gqh2_c)
#define GQH_MOST 4 /* rows of x of a pass                                                          */
#define GQH_MOE_WAVES 12
#define GQH_MOE_AHEAD 1

#define GQH_X_BYTES 1024u /* of a superblock of a row of x in shared memory                         */

typedef struct gqh_lanes_args {
    matmul_args base;
    uint32_t superblocks, chunk; /* of a row; of x in shared memory at a time                       */
    uint32_t waves;              /* that take tasks; others help with tables and x                  */
    uint32_t chained;
} gqh_lanes_args;

#endif /* OPREG_SM90_GQH_LANES_ARGS_H */
