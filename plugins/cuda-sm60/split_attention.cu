/* SPDX-License-Identifier: MIT
 * One kernel for each part of split_list.inc, and the merge. */
#include "split_attention.cuh"

#define SPLIT_PART(dim, heads, name, arithmetic, kv, blocks)                                       \
    SPLIT_PART_KERNEL(dim, heads, name, arithmetic, kv, blocks)
#include "split_list.inc"
