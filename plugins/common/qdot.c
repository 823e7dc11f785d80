/* SPDX-License-Identifier: MIT
 * qdot.c - what the qdot variants take, and their launches. */
#include "qdot.h"

#include <stdio.h>

#define MAX_ROWS 8            /* rows of x: beyond, weights should be read once for several         */
#define NARROW_N 2048         /* up to here a block works on QDOT_ROWS outputs                      */
#define MAX_ROW_BYTES (1 << 30) /* offsets inside a row are 32 bits wide                            */

#define QDOT_FORMAT(NAME, name, sums) OPREG_##NAME,
const uint32_t qdot_formats[] = {
#include "qdot_list.inc"
    0};
#undef QDOT_FORMAT

#define QDOT_FORMAT(NAME, name, sums)
#define QDOT_FORMAT_256(NAME, name, sums) OPREG_##NAME,
const uint32_t qdot_256_formats[] = {
#include "qdot_list.inc"
    0};
#undef QDOT_FORMAT
#undef QDOT_FORMAT_256

#define OPREG_FORMAT(NAME, ...) FORMAT_##NAME,
enum {
#include "formats/formats.inc"
    FORMATS
};
#undef OPREG_FORMAT

static uint32_t index_in(const uint32_t *formats, uint32_t id) {
    uint32_t at = 0;
    while (formats[at] != id && formats[at] != 0) {
        at++;
    }
    return at;
}

/* After the baselines: gemv, fused and grouped of every format, then splitk of those of 256. */
static uint32_t gemv_symbol(uint32_t format) {
    return BASE_FIRST_FORMAT + FORMATS + 3 * index_in(qdot_formats, format);
}

static uint32_t fused_symbol(uint32_t format) { return gemv_symbol(format) + 1; }

static uint32_t grouped_symbol(uint32_t format) { return gemv_symbol(format) + 2; }

static uint32_t splitk_symbol(uint32_t format) {
    return BASE_FIRST_FORMAT + FORMATS + 3 * index_in(qdot_formats, 0) +
           index_in(qdot_256_formats, format);
}

uint32_t qdot_end_symbol(void) { return splitk_symbol(0); }

static opreg_status check(const uint32_t *formats, uint32_t format, int64_t k, int64_t n,
                          char reason[128]) {
    const gpu_format *f = gpu_format_find(format);
    if (formats[index_in(formats, format)] == 0) {
        snprintf(reason, 128, "weight format %s is not one of this variant's",
                 f != NULL ? f->name : "unknown");
        return OPREG_E_UNSUPPORTED;
    }
    if (k / f->values * f->bytes > MAX_ROW_BYTES || k > MAX_ROW_BYTES || n > INT32_MAX) {
        snprintf(reason, 128, "n %lld, k %lld: a row is longer than 1 GiB or n above 2^31",
                 (long long)n, (long long)k);
        return OPREG_E_UNSUPPORTED;
    }
    return OPREG_OK;
}

static opreg_status check_dense(const uint32_t *formats, const opreg_matmul_bt_quant *p,
                                char reason[128]) {
    if (p->m > MAX_ROWS) {
        snprintf(reason, 128, "m %lld is above %d", (long long)p->m, MAX_ROWS);
        return OPREG_E_UNSUPPORTED;
    }
    return check(formats, p->b_dtype, p->k, p->n, reason);
}

opreg_status qdot_gemv_supports(const opreg_device *dev, const void *problem, char reason[128]) {
    (void)dev;
    return check_dense(qdot_formats, problem, reason);
}

uint64_t qdot_gemv_workspace(const opreg_device *dev, const void *problem) {
    return base_matmul_workspace(dev, problem);
}

opreg_status qdot_gemv_run(void *state, const void *problem, const opreg_call *call) {
    const opreg_matmul_bt_quant *p = problem;
    matmul_shape shape = {.symbol = gemv_symbol(p->b_dtype),
                          .outputs = QDOT_THREADS / 32 * QDOT_ROWS,
                          .threads = QDOT_THREADS,
                          .rows = 1};
    int given = p->x_dtype == OPREG_Q8_0 || p->x_dtype == OPREG_Q8_K;
    if (p->m == 1 && !given && p->k <= QDOT_FUSED_K && p->n <= QDOT_FUSED_N) {
        const gpu_format *format = gpu_format_find(p->b_dtype);
        shape = (matmul_shape){.symbol = fused_symbol(p->b_dtype),
                               .outputs = QDOT_FUSED_THREADS / 32 * QDOT_ROWS,
                               .threads = QDOT_FUSED_THREADS,
                               .rows = 1,
                               .shared = (uint32_t)QDOT_FUSED_SHARED(p->k, format->unit),
                               .takes_x = 1};
    }
    return gpu_matmul_run(state, problem, call, &shape);
}

opreg_status qdot_splitk_supports(const opreg_device *dev, const void *problem, char reason[128]) {
    const opreg_matmul_bt_quant *p = problem;
    (void)dev;
    if (p->n > NARROW_N) {
        snprintf(reason, 128, "n %lld is above %d", (long long)p->n, NARROW_N);
        return OPREG_E_UNSUPPORTED;
    }
    return check_dense(qdot_256_formats, p, reason);
}

uint64_t qdot_splitk_workspace(const opreg_device *dev, const void *problem) {
    return base_matmul_workspace(dev, problem);
}

opreg_status qdot_splitk_run(void *state, const void *problem, const opreg_call *call) {
    const opreg_matmul_bt_quant *p = problem;
    matmul_shape shape = {.symbol = splitk_symbol(p->b_dtype),
                          .outputs = QDOT_ROWS,
                          .threads = 32 * (uint32_t)QDOT_SPLITK_WAVES(p->k / 256),
                          .rows = 1};
    return gpu_matmul_run(state, problem, call, &shape);
}

#define GROUPED(name, stage)                                                                       \
    opreg_status name##_supports(const opreg_device *dev, const void *problem, char reason[128]) { \
        const opreg_moe_matmul *p = problem;                                                       \
        (void)dev;                                                                                 \
        return check(qdot_formats, p->b_dtype, p->k, p->n, reason);                                \
    }                                                                                              \
    uint64_t name##_workspace(const opreg_device *dev, const void *problem) {                      \
        return stage##_workspace(dev, problem);                                                    \
    }                                                                                              \
    opreg_status name##_run(void *state, const void *problem, const opreg_call *call) {            \
        const opreg_moe_matmul *p = problem;                                                       \
        matmul_shape shape = {.symbol = grouped_symbol(p->b_dtype),                                \
                              .outputs = QDOT_THREADS / 32 * QDOT_ROWS,                            \
                              .threads = QDOT_THREADS,                                             \
                              .rows = 1};                                                          \
        return gpu_moe_run(state, problem, call, &shape);                                          \
    }
GROUPED(qdot_grouped, base_moe_matmul)
GROUPED(qdot_grouped_glu, base_moe_glu)
GROUPED(qdot_grouped_down, base_moe_down)
