/* SPDX-License-Identifier: MIT
 * gqh_args.h - launch shapes of the GQH kernels, for host and device. */
#ifndef OPREG_PLUGINS_GQH_ARGS_H
#define OPREG_PLUGINS_GQH_ARGS_H

#define GQH_THREADS 128      /* four waves                                                         */
#define GQH_ROWS 4           /* rows of W of a wave for one row of x                               */
#define GQH_COLUMN_ROWS 3    /* rows of W of a wave for several                                    */
#define GQH_MOST_COLUMNS 8

#endif /* OPREG_PLUGINS_GQH_ARGS_H */
