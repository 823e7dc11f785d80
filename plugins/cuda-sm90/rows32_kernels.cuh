/* SPDX-License-Identifier: MIT
 * rows32_kernels.cuh - the kernels of one image: each format of the list with one and with eight
 * columns, and several numbers of waves where its units are 256. */
#include "rows32_crossed.cuh"
#include "rows32_ring.cuh"
#include "rows32_spread.cuh"
#include "rows32_stream.cuh"

/* blocks a multiprocessor that registers must leave room for; 0 where the compiler decides */
template <class F> struct resident_blocks { static const int least = 0; };
template <> struct resident_blocks<rows_q4_0> { static const int least = 5; };

#define ROWS32_KERNEL(name, method, waves)                                                         \
    KERNEL __launch_bounds__(32 * waves, resident_blocks<rows_##name>::least)                      \
        rows32_##name##_##method##_w##waves(const __grid_constant__ rows32_args args) {            \
        rows32_##method<rows_##name, waves>(args);                                                 \
    }
/* sixteen waves, of few tiles: a block has a multiprocessor for itself, and its registers         */
#define ROWS32_KERNEL_ALONE(name, method, waves)                                                   \
    KERNEL __launch_bounds__(32 * waves, 1)                                                        \
        rows32_##name##_##method##_w##waves(const __grid_constant__ rows32_args args) {            \
        rows32_##method<rows_##name, waves>(args);                                                 \
    }
/* eight columns: two blocks a multiprocessor at least, so that one fills the other's waits */
#define ROWS32_KERNEL_EIGHT(name, waves)                                                           \
    KERNEL __launch_bounds__(32 * waves, 2)                                                        \
        rows32_##name##_eight_w##waves(const __grid_constant__ rows32_args args) {                 \
        rows32_eight<rows_##name, waves>(args);                                                    \
    }
#define ROWS32_KERNEL_SPREAD(name, waves) ROWS32_KERNEL_SPREAD_##waves(name)
#define ROWS32_KERNEL_SPREAD_0(name)
#define ROWS32_KERNEL_SPREAD_16(name)                                                              \
    KERNEL __launch_bounds__(32 * ROWS32_RING_WAVES, ROWS32_RING_BLOCKS_##name)                    \
        rows32_##name##_ring(const __grid_constant__ rows32_args args) {                           \
        rows32_ring<rows_##name>(args);                                                            \
    }
#define ROWS32_KERNEL_SPREAD_28(name) ROWS32_SPREAD_OF(name, 28)
#define ROWS32_KERNEL_SPREAD_32(name) ROWS32_SPREAD_OF(name, 32)
#define ROWS32_SPREAD_OF(name, waves)                                                              \
    KERNEL KERNEL_THREADS(32 * waves)                                                              \
        rows32_##name##_spread(const __grid_constant__ rows32_args args) {                         \
        rows32_spread<rows_##name, waves>(args);                                                   \
    }
#define ROWS32_KERNEL_STREAM(name, stages) ROWS32_KERNEL_STREAM_##stages(name)
#define ROWS32_KERNEL_STREAM_0(name)
#define ROWS32_KERNEL_STREAM_2(name) ROWS32_STREAM_OF(name, 2)
#define ROWS32_KERNEL_STREAM_4(name) ROWS32_STREAM_OF(name, 4)
#define ROWS32_STREAM_OF(name, stages)                                                             \
    KERNEL __launch_bounds__(32 * ROWS32_STREAM_WAVES, ROWS32_STREAM_BLOCKS)                       \
        rows32_##name##_stream(const __grid_constant__ rows32_args args) {                         \
        rows32_stream<rows_##name, stages>(args);                                                  \
    }
/* the arguments are expanded before they are pasted */
#define ROWS32_MAYBE_SPREAD(name, waves) ROWS32_KERNEL_SPREAD(name, waves)
#define ROWS32_MAYBE_STREAM(name, stages) ROWS32_KERNEL_STREAM(name, stages)
#define ROWS32_MAKE32(name)                                                                        \
    ROWS32_KERNEL(name, one, 8)                                                                    \
    ROWS32_KERNEL_EIGHT(name, 8) ROWS32_MAYBE_SPREAD(name, ROWS32_SPREAD_WAVES_##name)                   \
    ROWS32_MAYBE_STREAM(name, ROWS32_STREAM_STAGES_##name)
#define ROWS32_MAKE256(name)                                                                       \
    ROWS32_KERNEL(name, one, 4)                                                                    \
    ROWS32_KERNEL(name, one, 8)                                                                    \
    ROWS32_KERNEL_ALONE(name, one, 16)                                                             \
    ROWS32_KERNEL_EIGHT(name, 8) ROWS32_MAYBE_SPREAD(name, ROWS32_SPREAD_WAVES_##name)                   \
    ROWS32_MAYBE_STREAM(name, ROWS32_STREAM_STAGES_##name)
