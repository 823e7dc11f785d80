/* SPDX-License-Identifier: MIT
 * mix_int8_args.h - what the host knows of the kernels of mix_int8.cu; their parameters are rows32_args. */
#ifndef OPREG_SM90_MIX_INT8_ARGS_H
#define OPREG_SM90_MIX_INT8_ARGS_H

#define MIX_INT8_GLU_WAVES  16  /* of a block                                                       */
#define MIX_INT8_ROWS_WAVES 8   /* the same, of one matrix                                          */
#define MIX_INT8_STREAMS    4   /* of weights in a lane                                             */
#define MIX_INT8_SLOTS      2   /* groups of every stream in a ring                                 */
#define MIX_INT8_RECORD     640 /* bytes of a group of 32 rows                                      */
#define MIX_INT8_MOST_K     16384

/* Bytes of shared memory: rings, sums of the waves, two books, x and its scales. */
#define MIX_INT8_SHARED(waves, k)                                                                  \
    (uint32_t)((waves) * MIX_INT8_STREAMS * (MIX_INT8_SLOTS * MIX_INT8_RECORD + 128) + 32 + (k) +  \
               (k) / 8)

#endif /* OPREG_SM90_MIX_INT8_ARGS_H */
