/* SPDX-License-Identifier: MIT
 * staged_args.h - parameters of the staged kernels.  Read by C and by the device compiler. */
#ifndef OPREG_SM60_STAGED_ARGS_H
#define OPREG_SM60_STAGED_ARGS_H

#include "baseline_args.h"

#define STAGED_THREADS     256u
#define STAGED_LOADS       3u /* 16-byte loads of a thread in flight */
#define STAGED_MOST_SHARED (48u * 1024u)

/* A block computes tiles of `rows` weight rows.  A part is 32 weights of a row.  Thread t has part
 * t mod width (and, where a row has more parts than a block threads, + width, ...), whose
 * activations it holds in registers, and takes the tile's rows t / width, + lanes, ... */
typedef struct staged_args {
    matmul_args base;
    uint32_t rows, tiles;
    uint32_t parts; /* of a row: k / 32                                                     */
    uint32_t width, lanes; /* width * lanes <= STAGED_THREADS */
    uint32_t matrices; /* 2 for gate and up: a tile is all rows of one, then all of the other  */
    uint32_t matrix_bytes;  /* rows * row_bytes: a multiple of 16  */
    uint32_t result_stride; /* 4-byte results of one row in shared memory                       */
    uint32_t row_step,
        result_step;     /* from a thread's row to its next: bytes of the tile, results */
    uint32_t full_tiles; /* those of `rows` rows */
    uint32_t pieces; /* of 16 bytes, of a tile; 0 where they are more than STAGED_LOADS a thread */
    uint32_t grid_bytes; /* from a block's tile to its next */
} staged_args;

#endif /* OPREG_SM60_STAGED_ARGS_H */
