/* SPDX-License-Identifier: MIT
 * stored_kernels.cuh - the kernels of one image: each format of the list with one and with eight
 * columns. */
#include "stored_eight.cuh"
#include "stored_one.cuh"

#define STORED_ONE(name, waves, groups)                                                            \
    KERNEL __launch_bounds__(STORED_THREADS, 1)                                                    \
        stored_##name##_one_w##waves(const __grid_constant__ stored_args args) {                   \
        stored_one<rows_##name, waves, groups>(args);                                              \
    }
#define STORED_EIGHT(name, by)                                                                     \
    KERNEL __launch_bounds__(STORED_EIGHT_THREADS_##by, 1)                                       \
        stored_##name##_eight(const __grid_constant__ stored_args args) {                          \
        stored_eight<rows_##name>(args);                                                           \
    }
#define STORED_MAKE32(name, by)                                                                    \
    STORED_ONE(name, 8, 1) STORED_ONE(name, 4, 2) STORED_EIGHT(name, by)
#define STORED_MAKE256(name, by)                                                                   \
    STORED_ONE(name, 8, 1) STORED_ONE(name, 4, 1) STORED_EIGHT(name, by)
