/* SPDX-License-Identifier: MIT
 * qdot_args.h - launch shapes of the qdot kernels, for host and device. */
#ifndef OPREG_PLUGINS_QDOT_ARGS_H
#define OPREG_PLUGINS_QDOT_ARGS_H

#define QDOT_THREADS 128       /* four waves                                                       */
#define QDOT_ROWS 2            /* outputs of one wave                                              */
#define QDOT_SPLITK_THREADS 256 /* eight waves for one output: wave w owns four accumulators        */

#endif /* OPREG_PLUGINS_QDOT_ARGS_H */
