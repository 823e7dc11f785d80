/* SPDX-License-Identifier: MIT
 * split_args.h - parameters of the split attention kernels. */
#ifndef OPREG_SM90_SPLIT_ARGS_H
#define OPREG_SM90_SPLIT_ARGS_H

#include "baseline_args.h"

#define SPLIT_MERGE_THREADS 256

typedef struct split_args {
    attention_args base;
    float *o, *m, *l; /* parts [tokens, q_heads, segments]; m is NaN where a part has no key       */
    int32_t segments; /* of max_seq_len                                                            */
    int32_t reserved;
} split_args;

#endif /* OPREG_SM90_SPLIT_ARGS_H */
