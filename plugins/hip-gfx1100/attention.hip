/* SPDX-License-Identifier: MIT
 * paged_gqa for the head dims, ratios and caches of paged_gqa_list.inc. */
#include "paged_gqa.cuh"

#define GQA_PART(dim, heads, name, kv)                                                             \
    KERNEL KERNEL_THREADS(GQA_THREADS(dim)) gqa_d##dim##_h##heads##_##name(const gqa_args args) {  \
        gqa_part<dim, heads, kv>(args);                                                            \
    }
#define GQA_MERGE(dim)                                                                             \
    KERNEL KERNEL_THREADS(GQA_MERGE_THREADS) gqa_merge_d##dim(const gqa_args args) {               \
        gqa_merge<dim>(args);                                                                      \
    }
#include "paged_gqa_list.inc"
