/* SPDX-License-Identifier: MIT
 * paged_gqa_args.h - parameters and shapes of the paged_gqa kernels, for host and device. */
#ifndef OPREG_PLUGINS_PAGED_GQA_ARGS_H
#define OPREG_PLUGINS_PAGED_GQA_ARGS_H

#include "baseline_args.h"

/* A part block has eight strands of one wave for each GQA_SLICE elements of a head. */
#define GQA_SLICE(dim)    ((dim) < 128 ? (dim) : 128)
#define GQA_THREADS(dim)  (256 * ((dim) / GQA_SLICE(dim)))
#define GQA_MERGE_THREADS 256
#define GQA_MOST_SEGMENTS                                                                          \
    1024 /* eight waves merge up to 128 each                                 */

/* Shared bytes of a part block: queries or weights, dots or elements, factors, the strands' tree.
 * Static in the kernel; dynamic for compilers whose static memory ends at 48 KiB (GQA_DYNAMIC 1).
 */
#ifndef GQA_DYNAMIC
#define GQA_DYNAMIC 0
#endif
#define GQA_GROUPS(dim) (256 / GQA_SLICE(dim))
#define GQA_MORE(a, b)  ((a) > (b) ? (a) : (b))
#define GQA_SHARED(dim, heads)                                                                     \
    (1024u * (heads) +                                                                             \
     4u * GQA_MORE(256u * (heads) * ((dim) / GQA_SLICE(dim)),                                      \
                   ((heads) > GQA_GROUPS(dim) ? 16u : 8u) * GQA_GROUPS(dim) * (dim)) +             \
     256u * (heads) + 32u)

typedef struct gqa_args {
    attention_args base;
    float *o, *m, *l; /* parts [tokens, q_heads, segments]; m is NaN where a part has no key */
    int32_t segments; /* of max_seq_len */
    int32_t reserved;
} gqa_args;

#endif /* OPREG_PLUGINS_PAGED_GQA_ARGS_H */
