/* SPDX-License-Identifier: MIT
 * Split attention for the head dims, cache types and head groups of split_list.inc. */
#include "split_half.cuh"

#define SPLIT_PART(dim, heads, name, kv, element, blocks)                                          \
    static_assert(sizeof(split_shared<dim, heads, kv>) <= SPLIT_PART_BYTES(dim, heads, element));  \
    extern "C" __global__ void __launch_bounds__(dim, blocks)                                      \
        split_part_d##dim##_h##heads##_##name(const __grid_constant__ split_args args) {           \
        split_part<dim, heads, kv>(args);                                                          \
    }
#define SPLIT_MERGE(dim)                                                                           \
    KERNEL __launch_bounds__(SPLIT_FEW_MOST_THREADS, 1)                                            \
        split_merge_d##dim(const __grid_constant__ split_args args) {                              \
        split_merge<dim>(args);                                                                    \
    }
#define SPLIT_HALF(dim, name, kv, element)                                                         \
    static_assert(sizeof(half_shared<kv>) <= SPLIT_HALF_BYTES(element));                           \
    extern "C" __global__ void __launch_bounds__(dim, 2)                                           \
        split_half_d##dim##_##name(const __grid_constant__ split_args args) {                      \
        split_half<kv>(args);                                                                      \
    }
#define SPLIT_TENSOR(...)
#define TENSOR_MERGE(...)
#include "split_list.inc"
