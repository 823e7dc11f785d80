/* SPDX-License-Identifier: MIT
 * wmma.c - what wmma_tile takes, and its launch. */
#include "wmma.h"
#include "paged_gqa.h"

#include <stdio.h>

#define FEWEST_ROWS   16        /* rows of x that fill a tile */
#define MAX_ROW_BYTES (1 << 30) /* offsets inside a row are 32 bits wide */

#define WMMA_FORMAT(NAME, name, halves, sums) OPREG_##NAME,
const uint32_t wmma_formats[] = {
#include "wmma_list.inc"
    0};
#undef WMMA_FORMAT

static uint32_t index_of(uint32_t format) {
    uint32_t at = 0;
    while (wmma_formats[at] != format && wmma_formats[at] != 0) {
        at++;
    }
    return at;
}

uint32_t wmma_end_symbol(void) {
    return paged_gqa_end_symbol() + index_of(0);
}

opreg_status wmma_tile_supports(const opreg_device *dev, const void *problem, char reason[128]) {
    const opreg_matmul_bt_quant *p = problem;
    const gpu_format *format = gpu_format_find(p->b_dtype);
    (void)dev;
    if (wmma_formats[index_of(p->b_dtype)] == 0) {
        snprintf(reason, 128, "weight format %s is not one of this variant's",
                 format != NULL ? format->name : "unknown");
    } else if (p->m < FEWEST_ROWS) {
        snprintf(reason, 128, "m %lld is below %d", (long long)p->m, FEWEST_ROWS);
    } else if (p->k / format->values * format->bytes > MAX_ROW_BYTES || p->k > MAX_ROW_BYTES ||
               p->n > INT32_MAX) {
        snprintf(reason, 128, "n %lld, k %lld: a row is longer than 1 GiB or n above 2^31",
                 (long long)p->n, (long long)p->k);
    } else {
        return OPREG_OK;
    }
    return OPREG_E_UNSUPPORTED;
}

uint64_t wmma_tile_workspace(const opreg_device *dev, const void *problem) {
    return base_matmul_workspace(dev, problem);
}

opreg_status wmma_tile_run(void *state, const void *problem, const opreg_call *call) {
    const opreg_matmul_bt_quant *p = problem;
    matmul_shape shape = {.symbol = paged_gqa_end_symbol() + index_of(p->b_dtype),
                          .outputs = WMMA_THREADS / 32 * 16,
                          .threads = WMMA_THREADS,
                          .rows = 16 * WMMA_TILES};
    return gpu_matmul_run(state, problem, call, &shape);
}
