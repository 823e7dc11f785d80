/* SPDX-License-Identifier: MIT
 * Tensor attention for the head dims and cache types of split_list.inc. */
#include "tensor_attention.cuh"

#define SPLIT_PART(...)
#define SPLIT_MERGE(...)
#define SPLIT_TENSOR(dim, name, kv, element, where, tiles)                                         \
    static_assert(sizeof(tensor_shared<dim, TENSOR_WAVES(dim)>) +                                  \
                      TENSOR_WAVES(dim) * tensor_wave<dim, kv, tiles, true>::ring_bytes <=         \
                  SPLIT_TENSOR_BYTES(dim, element, tiles));                                        \
    extern "C" __global__ void __launch_bounds__(32 * TENSOR_WAVES(dim), 2)                        \
        tensor_d##dim##_##name##_##where(const __grid_constant__ split_args args) {                \
        tensor_attend<dim, kv, TENSOR_WAVES(dim), tiles, tensor_##where != tensor_unaligned>(      \
            args);                                                                                 \
    }
#include "split_list.inc"
