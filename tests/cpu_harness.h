/* SPDX-License-Identifier: MIT
 * cpu_harness.h - runs the CPU backend's kernels without a registry: a host whose threads the test
 * chooses, guarded workspaces, random weights of every format. */
#ifndef CPU_HARNESS_H
#define CPU_HARNESS_H

#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cpu/cpu.h"

/* ---- random numbers: one splitmix64, seeded by each test ----------------------------------------
 */

static uint64_t random_state;

static inline uint64_t random_bits(void) {
    uint64_t z = random_state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static inline double random_unit(void) {
    return ((double)(random_bits() >> 12) + 0.5) * 0x1p-52;
}

static inline float random_gaussian(void) {
    double radius = sqrt(-2.0 * log(random_unit())), angle = 6.283185307179586 * random_unit();
    return (float)(radius * cos(angle));
}

static inline int64_t random_below(int64_t limit) {
    return (int64_t)(random_bits() % (uint64_t)limit);
}

/* ---- a host -------------------------------------------------------------------------------------
 */

typedef enum host_order { HOST_ASCENDING, HOST_DESCENDING, HOST_THREADS } host_order;

static host_order current_order = HOST_ASCENDING;

typedef struct thread_share {
    int64_t first, count, step;
    void (*task)(void *arg, int64_t i);
    void *arg;
} thread_share;

static void *run_share(void *argument) {
    const thread_share *share = argument;
    for (int64_t i = share->first; i < share->count; i += share->step) {
        share->task(share->arg, i);
    }
    return NULL;
}

static void host_parallel(void *ctx, int64_t count, void (*task)(void *arg, int64_t i), void *arg) {
    pthread_t threads[3];
    thread_share shares[3];
    (void)ctx;
    if (current_order == HOST_THREADS) {
        for (int t = 0; t < 3; t++) {
            thread_share share = {t, count, 3, task, arg};
            shares[t] = share;
            assert_int_equal(pthread_create(&threads[t], NULL, run_share, &shares[t]), 0);
        }
        for (int t = 0; t < 3; t++) {
            pthread_join(threads[t], NULL);
        }
        return;
    }
    for (int64_t i = 0; i < count; i++) {
        task(arg, current_order == HOST_ASCENDING ? i : count - 1 - i);
    }
}

static void host_error(void *ctx, const char *format, ...) {
    (void)ctx;
    (void)format;
}

static const opreg_host harness_host = {
    .struct_size = sizeof(opreg_host),
    .abi_major = OPREG_ABI_MAJOR,
    .error = host_error,
    .parallel_for = host_parallel,
};

/* ---- running one kernel -------------------------------------------------------------------------
 */

static inline const opreg_kernel *baseline_of(opreg_op op) {
    opreg_plugin plugin = {.struct_size = sizeof plugin};
    assert_int_equal(opreg_cpu_entry(&harness_host, &plugin), OPREG_OK);
    for (uint32_t i = 0; i < plugin.num_kernels; i++) {
        if (plugin.kernels[i]->op == (uint32_t)op &&
            (plugin.kernels[i]->flags & OPREG_KF_BASELINE) != 0) {
            return plugin.kernels[i];
        }
    }
    fail_msg("operator %d has no baseline", (int)op);
    return NULL;
}

#define GUARD_BYTES 64u

/* Runs the baseline with a workspace of exactly the declared bytes between guards, filled with
 * bytes that read as NaN.  The problem must pass opreg_problem_check. */
static inline void run_baseline(opreg_op op, const void *problem, const opreg_buf *bufs,
                                uint32_t num_bufs, const opreg_weight_view *const *weights,
                                uint32_t num_weights) {
    const opreg_kernel *kernel = baseline_of(op);
    const opreg_device device = {.struct_size = sizeof device, .kind = OPREG_CPU};
    char reason[128] = "";
    uint64_t bytes = kernel->workspace(&device, problem);
    uint8_t *memory = aligned_alloc(256, (size_t)(bytes + 256 + 256 + 255) / 256 * 256);
    opreg_call call = {
        .struct_size = sizeof call,
        .num_bufs = num_bufs,
        .num_weights = num_weights,
        .host = &harness_host,
        .bufs = bufs,
        .weights = weights,
        .workspace = {bytes == 0 ? NULL : memory + 256, bytes},
    };
    if (opreg_problem_check(op, problem) != OPREG_OK) {
        fail_msg("%s", opreg_last_error());
    }
    assert_int_equal(kernel->supports(&device, problem, reason), OPREG_OK);
    memset(memory, 0xff, (size_t)bytes + 512);
    assert_int_equal(kernel->run(NULL, problem, &call), OPREG_OK);
    for (uint64_t i = 0; i < 256; i++) {
        assert_int_equal(memory[i], 0xff);
        assert_int_equal(memory[256 + bytes + i], 0xff);
    }
    free(memory);
}

/* ---- weights ------------------------------------------------------------------------------------
 */

typedef struct test_weight {
    opreg_weight_view view;
    const format_info *format;
    uint8_t *data;
    opreg_side *side;
} test_weight;

static inline void write_float_weight(uint8_t *out, const format_info *format) {
    float w = random_gaussian();
    uint32_t bits = format->id == OPREG_F32   ? bits_of(w)
                    : format->id == OPREG_F16 ? f32_to_f16(w)
                                              : f32_to_bf16(w);
    for (int i = 0; i < format->bytes; i++) {
        out[i] = (uint8_t)(bits >> 8 * i);
    }
}

/* Random bytes that the format accepts, with every weight below 2^12 and one above 2^-12. */
static inline void write_block(uint8_t *out, const format_info *format, const opreg_side *side) {
    for (int attempt = 0; attempt < 200000; attempt++) {
        float largest = 0.0f;
        for (int i = 0; i < format->bytes; i++) {
            out[i] = (uint8_t)random_bits();
        }
        if (format->invalid(out, side) != NULL) {
            continue;
        }
        for (int i = 0; i < format->values; i++) {
            largest = fmaxf(largest, fabsf(format->value(out, i, side)));
        }
        if (largest < 0x1p12f && largest > 0x1p-12f) {
            return;
        }
    }
    fail_msg("no valid random block of %s", format->name);
}

static inline test_weight weight_make(const format_info *format, int64_t experts, int64_t n,
                                      int64_t k) {
    test_weight w = {.format = format};
    int64_t blocks = k / format->values, row_bytes = blocks * format->bytes;
    w.data = malloc((size_t)(experts * n * row_bytes) + 1);
    w.side = calloc((size_t)experts, sizeof *w.side);
    for (int64_t expert = 0; expert < experts; expert++) {
        w.side[expert].tensor_scale = 1.0f;
        if (format->side == FORMAT_SIDE_SCALE || format->side == FORMAT_SIDE_GQH) {
            w.side[expert].tensor_scale = 0.7f + 0.1f * (float)expert;
        }
        w.side[expert].mode = format->side == FORMAT_SIDE_MIX4 || format->side == FORMAT_SIDE_MIX8;
        for (int i = 0; i < 16; i++) {
            w.side[expert].levels[i] = ((float)i - 7.4f) * 0.13f;
        }
        for (int64_t b = 0; b < n * blocks; b++) {
            uint8_t *block = w.data + (expert * n * blocks + b) * format->bytes;
            if (format->values == 1) {
                write_float_weight(block, format);
            } else {
                write_block(block, format, &w.side[expert]);
            }
        }
    }
    w.view.struct_size = sizeof w.view;
    w.view.format = format->id;
    w.view.experts = experts;
    w.view.n = n;
    w.view.k = k;
    w.view.row_bytes = row_bytes;
    w.view.expert_stride = n * row_bytes;
    w.view.data = w.data;
    w.view.bytes = (uint64_t)(experts * n * row_bytes);
    w.view.side = w.side;
    return w;
}

static inline void weight_free(test_weight *w) {
    free(w->data);
    free(w->side);
}

/* Decoded weight, with NVFP4's tensor scale, in double. */
static inline double weight_value(const test_weight *w, int64_t expert, int64_t n, int64_t k) {
    const opreg_side *side = &w->side[expert];
    const uint8_t *row = w->data + expert * w->view.expert_stride + n * w->view.row_bytes;
    int64_t values = w->format->values;
    double value =
        (double)w->format->value(row + k / values * w->format->bytes, (int)(k % values), side);
    return w->format->side == FORMAT_SIDE_SCALE ? value * (double)side->tensor_scale : value;
}

/* ---- the canonical order, said again ------------------------------------------------------------
 */

/* a[l] += a[l xor s] for s = 16, 8, 4, 2, 1, seen from lane l. */
static inline float tree_from(const float *a, int lane, int s) {
    return s == 32 ? a[lane] : tree_from(a, lane, 2 * s) + tree_from(a, lane ^ s, 2 * s);
}

static const uint32_t float_dtypes[] = {OPREG_F32, OPREG_F16, OPREG_BF16};

static inline size_t element_size(uint32_t dtype) {
    return dtype == OPREG_F32 ? 4 : dtype == OPREG_F8_E4M3 ? 1 : 2;
}

/* Bits of an element, every NaN the same. */
static inline uint32_t element_bits(const void *array, int64_t i, uint32_t dtype) {
    float value = canonical_load(array, i, dtype);
    return value != value ? 0x7fc00000u : bits_of(value);
}

#endif /* CPU_HARNESS_H */
