/* SPDX-License-Identifier: MIT
 * mix_args.h - what the host knows of the kernels over the MIX formats; their parameters are
 * rows32_args. */
#ifndef OPREG_SM90_MIX_ARGS_H
#define OPREG_SM90_MIX_ARGS_H

#define MIX_THREADS 512u    /* of a block                                                           */
#define MIX_STREAMS 4u      /* of weights in a lane                                                 */
#define MIX_SUMS (1024u * MIX_STREAMS) /* floats in shared memory of a team                         */
#define MIX_GLU_TEAMS 1u    /* of a block, two tiles of gate and up each                            */
#define MIX_ROWS_TEAMS 2u   /* of a block, four tiles each                                          */
#define MIX2_TABLE 65536u   /* bytes of the table of a matrix                                      */
#define MIX3_TABLE 16384u
#define MIX_MOST_SHARED (224u * 1024u)

#endif /* OPREG_SM90_MIX_ARGS_H */
