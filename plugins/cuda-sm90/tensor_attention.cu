/* SPDX-License-Identifier: MIT
 * Tensor attention for the head dims and cache types of split_list.inc. */
#include "tensor_attention.cuh"

#define SPLIT_PART(...)
#define SPLIT_MERGE(...)
#define SPLIT_TENSOR(dim, name, kv, element, few, many)                                            \
    static_assert(sizeof(tensor_shared<dim, TENSOR_WAVES>) +                                       \
                      TENSOR_WAVES * (few)*tensor_wave<dim, kv, few, many>::tile <=                \
                  SPLIT_TENSOR_BYTES(dim, element, few));                                          \
    extern "C" __global__ void __launch_bounds__(32 * TENSOR_WAVES, 2)                             \
        tensor_d##dim##_##name(const __grid_constant__ split_args args) {                          \
        tensor_attend<dim, kv, TENSOR_WAVES, few, many>(args);                                     \
    }
#include "split_list.inc"
