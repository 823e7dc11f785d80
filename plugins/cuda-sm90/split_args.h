/* SPDX-License-Identifier: MIT
 * split_args.h - parameters of the kernels of split_attention and tensor_attention. */
#ifndef OPREG_SM90_SPLIT_ARGS_H
#define OPREG_SM90_SPLIT_ARGS_H

#include "baseline_args.h"

#define SPLIT_MERGE_THREADS 256
#define SPLIT_FEW_MOST_THREADS 512
#define SPLIT_FEW_THREADS 128
/* A block takes a run of up to 2^levels segments. */
#define SPLIT_LEVELS(dim) ((dim) == 256 ? 2 : 4)

typedef struct split_args {
    attention_args base;
    float *o, *m, *l;  /* parts [tokens, q_heads, parts]; m is NaN where a part has no key       */
    int32_t parts;     /* of max_seq_len, a part being part_keys positions                       */
    int32_t run_shift; /* a run is 2^run_shift segments                                          */
    int32_t block_shift; /* of block_size, or -1 where that is no power of two */
    /* strides in 8 bytes */
    uint32_t k_block8, k_slot8, k_head8, v_block8, v_slot8, v_head8;
    uint32_t chained; /* 1: waits for the launch ahead before it reads what that may have written */
    int32_t part_keys;
    int32_t halves; /* 1: two parts have the same part_keys positions, four strands each */
} split_args;

/* Shared bytes with which no more than `blocks` of a kernel are on a multiprocessor at once. */
#define SPLIT_SHARE_BYTES(blocks) (233472u / ((blocks) + 1u) - 1024u + 128u)
/* Shared bytes of a block of WAVES waves beside its slots for rows. */
#define SPLIT_EXCHANGE_BYTES(dim, heads, waves)                                                    \
    (((waves) + SPLIT_LEVELS(dim)) * (heads) * (dim)*4 + SPLIT_LEVELS(dim) * (waves)*32 * 8 +      \
     (waves) * ((heads)*8 + 4) + 16)
#define SPLIT_PART_BYTES(dim, heads, element)                                                      \
    ((dim) / 32 * 4096 * (element) + 8 * ((heads)*8 + 4) * 4 + 8 * 16 * 4 + 128 + 2 * (dim) +      \
     SPLIT_EXCHANGE_BYTES(dim, heads, (dim) / 32))
/* Shared bytes of a block of half a segment. */
#define SPLIT_HALF_BYTES(element) (24 * 256 * 8 * (element) + 4 * (4 * 40 + 16) * 4 + 256)
#define TENSOR_HEADS        4
#define TENSOR_MOST_CLUSTER 8
#define TENSOR_KEYS         32 /* that a wave takes at a time */
/* Blocks that share a multiprocessor by two, those of caches that do not begin at multiples of 16
 * bytes, and those that have it for themselves.  The order of the sums is the same; at head_dim 256
 * blocks alone have more waves, so another order, and such caches a kernel of their own there. */
enum tensor_where { tensor_paired, tensor_unaligned, tensor_alone, tensor_alone_unaligned };
#define TENSOR_WAVES(dim, where) ((dim) == 256 && (where) < tensor_alone ? 4 : 8)
/* A row in shared memory: 16 bytes more keep rows apart in the banks. */
#define TENSOR_ROW(bytes) ((bytes) + 16)
/* Shared bytes of a block whose waves have so many tiles of 16 rows. */
#define SPLIT_TENSOR_BYTES(dim, element, waves, tiles)                                             \
    ((waves) * (tiles)*16 * TENSOR_ROW((element) * (dim)) +                                        \
     2 * TENSOR_HEADS * TENSOR_ROW(2 * (dim)) +                                                    \
     4 * TENSOR_HEADS * (1 + 3 * (waves) + (dim) + 2 * TENSOR_MOST_CLUSTER) + 128)

#endif /* OPREG_SM90_SPLIT_ARGS_H */
