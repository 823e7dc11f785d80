/* SPDX-License-Identifier: MIT
 * rows32_short_args.h - the block of rows32_short. */
#ifndef OPREG_SM90_ROWS32_SHORT_ARGS_H
#define OPREG_SM90_ROWS32_SHORT_ARGS_H

#include "rows32_args.h"

#define SHORT_TILES   4 /* of a block, two waves each                                                 */
#define SHORT_THREADS (64 * SHORT_TILES)
#define SHORT_GROUPS  8 /* of a row, at most                                                          */
#define SHORT_MOST    5 /* of a row where it was faster than rows32_one                               */

/* Dynamic shared memory: the tiles; x as rows32_one has it; the format's table. */

#endif /* OPREG_SM90_ROWS32_SHORT_ARGS_H */
