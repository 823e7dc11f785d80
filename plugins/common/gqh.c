/* SPDX-License-Identifier: MIT
 * gqh.c - what the GQH variants take, and which kernel of a format a call gets. */
#include "gqh.h"
#include "tiny_n.h"

#include <stdio.h>

/* From this many rows of W a unit (work-group processor) on, one row a wave with deep loads is the
 * faster form; below, four rows a wave fill the device better.  The published table for the R9700
 * changes at 10240 rows on its 32 units; never measured by us. */
#define DEEP_ROWS_PER_UNIT 320

#define MAX_N INT32_MAX
#define MAX_K (1 << 24) /* offsets inside a row are 32 bits wide                                   */

const uint32_t gqh_formats[] = {OPREG_GQH4, OPREG_GQH3, OPREG_GQH2_H, OPREG_GQH2_C, 0};

/* Kernels of a format: deep, wide, then 2 to GQH_MOST_COLUMNS columns. */
enum { KERNEL_DEEP, KERNEL_WIDE, KERNELS = GQH_MOST_COLUMNS + 1 };

static uint32_t symbol_of(uint32_t format, uint32_t kernel) {
    uint32_t at = 0;
    while (gqh_formats[at] != format) {
        at++;
    }
    return tiny_n_end_symbol() + KERNELS * at + kernel;
}

static opreg_status check(const opreg_matmul_bt_quant *p, int64_t m_min, int64_t m_max,
                          char reason[128]) {
    const gpu_format *format = gpu_format_find(p->b_dtype);
    if (p->b_dtype != OPREG_GQH4 && p->b_dtype != OPREG_GQH3 && p->b_dtype != OPREG_GQH2_H &&
        p->b_dtype != OPREG_GQH2_C) {
        snprintf(reason, 128, "weight format %s is not gqh4, gqh3, gqh2_h or gqh2_c",
                 format != NULL ? format->name : "unknown");
        return OPREG_E_UNSUPPORTED;
    }
    if (p->m < m_min || p->m > m_max) {
        snprintf(reason, 128, "m %lld is not %lld to %lld", (long long)p->m, (long long)m_min,
                 (long long)m_max);
        return OPREG_E_UNSUPPORTED;
    }
    if (p->n > MAX_N || p->k < 256 || p->k > MAX_K) {
        snprintf(reason, 128, "n %lld, k %lld: n is above 2^31 or k not 256 to 2^24",
                 (long long)p->n, (long long)p->k);
        return OPREG_E_UNSUPPORTED;
    }
    return OPREG_OK;
}

opreg_status gqh_gemv_supports(const opreg_device *dev, const void *problem, char reason[128]) {
    (void)dev;
    return check(problem, 0, 1, reason);
}

uint64_t gqh_gemv_workspace(const opreg_device *dev, const void *problem) {
    return base_matmul_workspace(dev, problem);
}

opreg_status gqh_gemv_run(void *state, const void *problem, const opreg_call *call) {
    const opreg_matmul_bt_quant *p = problem;
    const gpu_plan *plan = state;
    int deep = p->n >= (int64_t)DEEP_ROWS_PER_UNIT * gpu_units(plan->device);
    matmul_shape shape = {.symbol = symbol_of(p->b_dtype, deep ? KERNEL_DEEP : KERNEL_WIDE),
                          .outputs = GQH_THREADS / 32 * (deep ? 1 : GQH_ROWS),
                          .threads = GQH_THREADS,
                          .rows = 1};
    return gpu_matmul_run(state, problem, call, &shape);
}

opreg_status gqh_cols_supports(const opreg_device *dev, const void *problem, char reason[128]) {
    (void)dev;
    return check(problem, 2, GQH_MOST_COLUMNS, reason);
}

uint64_t gqh_cols_workspace(const opreg_device *dev, const void *problem) {
    return base_matmul_workspace(dev, problem);
}

opreg_status gqh_cols_run(void *state, const void *problem, const opreg_call *call) {
    const opreg_matmul_bt_quant *p = problem;
    matmul_shape shape = {.symbol = symbol_of(p->b_dtype, (uint32_t)p->m),
                          .outputs = GQH_THREADS / 32 * GQH_COLUMN_ROWS,
                          .threads = GQH_THREADS,
                          .rows = (uint32_t)p->m};
    return gpu_matmul_run(state, problem, call, &shape);
}
