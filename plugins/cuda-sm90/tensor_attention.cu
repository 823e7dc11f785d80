/* SPDX-License-Identifier: MIT
 * Tensor attention for the head dims and cache types of split_list.inc. */
#include "tensor_attention.cuh"

#define SPLIT_PART(...)
#define SPLIT_MERGE(...)
#define SPLIT_TENSOR(dim, name, kv, element, blocks)                                               \
    static_assert(sizeof(tensor_shared<dim, element>) <= SPLIT_TENSOR_BYTES(dim, element));        \
    extern "C" __global__ void __launch_bounds__(32 * TENSOR_WAVES, blocks)                        \
        tensor_part_d##dim##_##name(const __grid_constant__ split_args args) {                     \
        tensor_part<dim, kv>(args);                                                                \
    }
#include "split_list.inc"
