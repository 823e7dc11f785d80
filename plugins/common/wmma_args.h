/* SPDX-License-Identifier: MIT
 * wmma_args.h - launch shapes of the wmma_tile kernels, for host and device. */
#ifndef OPREG_PLUGINS_WMMA_ARGS_H
#define OPREG_PLUGINS_WMMA_ARGS_H

#define WMMA_THREADS 128 /* four waves */
#define WMMA_TILES   2 /* of 16 rows of x a wave; its tile of W has 16 rows                       */

#endif /* OPREG_PLUGINS_WMMA_ARGS_H */
