/* SPDX-License-Identifier: MIT
 * tiny_n.c - what tiny_n_gemv takes, and its launch. */
#include "tiny_n.h"
#include "wmma.h"

#include <stdio.h>

#define MOST_N 64
#define MOST_M 8
#define MOST_K                                                                                     \
    (1 << 28) /* offsets inside a row are 32 bits wide                                  */

const uint32_t tiny_n_formats[] = {OPREG_BF16, OPREG_F16, 0};

uint32_t tiny_n_end_symbol(void) {
    return wmma_end_symbol() + 2;
}

opreg_status tiny_n_gemv_supports(const opreg_device *dev, const void *problem, char reason[128]) {
    const opreg_matmul_bt_quant *p = problem;
    const gpu_format *format = gpu_format_find(p->b_dtype);
    (void)dev;
    if (p->b_dtype != OPREG_BF16 && p->b_dtype != OPREG_F16) {
        snprintf(reason, 128, "weight format %s is not bf16 or f16",
                 format != NULL ? format->name : "unknown");
    } else if (p->n > MOST_N || p->m > MOST_M || p->k > MOST_K) {
        snprintf(reason, 128, "m %lld, n %lld, k %lld: above %d, %d or %d", (long long)p->m,
                 (long long)p->n, (long long)p->k, MOST_M, MOST_N, MOST_K);
    } else {
        return OPREG_OK;
    }
    return OPREG_E_UNSUPPORTED;
}

uint64_t tiny_n_gemv_workspace(const opreg_device *dev, const void *problem) {
    return base_matmul_workspace(dev, problem);
}

opreg_status tiny_n_gemv_run(void *state, const void *problem, const opreg_call *call) {
    const opreg_matmul_bt_quant *p = problem;
    matmul_shape shape = {.symbol = wmma_end_symbol() + (p->b_dtype == OPREG_F16),
                          .outputs = TINY_N_THREADS / 32,
                          .threads = TINY_N_THREADS,
                          .rows = 1};
    return gpu_matmul_run(state, problem, call, &shape);
}
