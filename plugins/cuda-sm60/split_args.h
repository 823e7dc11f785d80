/* SPDX-License-Identifier: MIT
 * split_args.h - parameters of the split attention kernels.  Read by C and by the device compiler.
 */
#ifndef OPREG_SM60_SPLIT_ARGS_H
#define OPREG_SM60_SPLIT_ARGS_H

#include "baseline_args.h"

#define SPLIT_THREADS       256u /* of a block that computes parts: a wave is a strand */
#define SPLIT_MERGE_THREADS 128u
#define SPLIT_MOST_SEGMENTS 1024

typedef struct split_args {
    attention_args base;
    float *o, *m, *l; /* parts [tokens, q_heads, segments]; m is NaN where a part has no key */
    int32_t segments; /* of max_seq_len */
    int32_t reserved;
} split_args;

#endif /* OPREG_SM60_SPLIT_ARGS_H */
