/* SPDX-License-Identifier: MIT
 * Tensor attention for the head dims and cache types of split_list.inc. */
#include "tensor_attention.cuh"

#define SPLIT_PART(...)
#define SPLIT_MERGE(...)
#define SPLIT_HALF(...)
#define SPLIT_TENSOR(dim, name, kv, element, where, tiles)                                         \
    TENSOR_KERNEL(dim, name, kv, element, where, tiles, TENSOR_WAVES(dim, tensor_##where))
#define TENSOR_KERNEL(dim, name, kv, element, where, tiles, waves)                                 \
    static_assert(sizeof(tensor_shared<dim, waves>) +                                              \
                      waves * tensor_wave<dim, kv, tiles, true>::ring_bytes <=                     \
                  SPLIT_TENSOR_BYTES(dim, element, waves, tiles));                                 \
    extern "C" __global__ void __launch_bounds__(32 * waves, dim * waves <= 1024 ? 2 : 1)          \
        tensor_d##dim##_##name##_##where(const __grid_constant__ split_args args) {                \
        tensor_attend<dim, kv, waves, tiles,                                                       \
                      tensor_##where == tensor_paired || tensor_##where == tensor_alone>(args);    \
    }
#define TENSOR_MERGE(dim)                                                                          \
    KERNEL __launch_bounds__(SPLIT_FEW_THREADS, 8)                                                 \
        tensor_merge_d##dim(const __grid_constant__ split_args args) {                             \
        split_merge_short<dim>(args);                                                              \
    }
#include "split_list.inc"
