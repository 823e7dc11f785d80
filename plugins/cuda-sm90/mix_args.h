/* SPDX-License-Identifier: MIT
 * mix_args.h - what the host knows of the kernels over the MIX formats; their parameters are
 * rows32_args. */
#ifndef OPREG_SM90_MIX_ARGS_H
#define OPREG_SM90_MIX_ARGS_H

#define MIX_THREADS     512u
#define MIX_GLU_ROWS    4u /* of weights a lane: gate and up of two tiles */
#define MIX_ROWS_FIRST  4u /* tiles of one matrix of the first eight waves, and of the others: */
#define MIX_ROWS_SECOND 3u /* seven, so that 7168 rows of four experts are 128 blocks */

#define MIX2_GROUP  640   /* bytes of 64 weights of a tile's rows */
#define MIX3_GROUP  896
#define MIX2_TABLE  65536 /* bytes of the tables of a matrix */
#define MIX3_TABLE  32768
#define MIX3_FLOATS 16384 /* where those of f32 begin */

#define MIX_SUMS  4096u   /* bytes of a tile's accumulators, and of its four sums of eight of them */
#define MIX_PARTS 512u
#define MIX_MOST_SHARED (227u * 1024u)

/* Bytes of a block's shared memory; group: of a tile's group. */
#define MIX_GLU_SHARED(table, group, k)                                                            \
    (2u * (table) + MIX_GLU_ROWS * (16u * (group) + MIX_PARTS) + (uint32_t)(k) * 4u)
#define MIX_ROWS_SHARED(table, group, k)                                                           \
    ((table) + (MIX_ROWS_FIRST + MIX_ROWS_SECOND) * (8u * (group) + MIX_PARTS + MIX_SUMS) +        \
     (uint32_t)(k) * 4u)

#endif /* OPREG_SM90_MIX_ARGS_H */
