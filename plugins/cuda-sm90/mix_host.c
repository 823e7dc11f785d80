/* SPDX-License-Identifier: MIT
 * mix_host.c - dense and grouped matrices of ROCmFP2_MIX and ROCmFP3_MIX. */
#include "kernels.h"
#include "mix_args.h"

#include <stdio.h>

/* Symbols of each format from SM90_FIRST_MIX on. */
enum mix_method { MIX_GLU, MIX_ROWS, MIX_METHODS };

/* Bytes of a block's shared memory. */
static uint32_t mix_shared(uint32_t three, uint32_t pair, int64_t k) {
    uint32_t table = three ? MIX3_TABLE : MIX2_TABLE, group = three ? MIX3_GROUP : MIX2_GROUP;
    return pair ? MIX_GLU_SHARED(table, group, k) : MIX_ROWS_SHARED(table, group, k);
}

static opreg_status mix_supports(uint32_t format, uint32_t layout, int64_t experts, int64_t n,
                                 int64_t k, uint32_t glu, char reason[128]) {
    if (format != OPREG_ROCMFP2_MIX && format != OPREG_ROCMFP3_MIX) {
        snprintf(reason, 128, "weight format %u is not rocmfp2_mix or rocmfp3_mix", format);
    } else if (layout != OPREG_LAYOUT_ANY && layout != PREPARED_ROWS32) {
        snprintf(reason, 128, "weight layout %u is not rows32, %u", layout, PREPARED_ROWS32);
    } else if (k % 64 != 0 || k > 16384 ||
               mix_shared(format == OPREG_ROCMFP3_MIX, glu != OPREG_GLU_NONE, k) >
                   MIX_MOST_SHARED) {
        snprintf(reason, 128,
                 "k %lld is not a multiple of 64 up to 16384 (gate and up of rocmfp2_mix: 14528)",
                 (long long)k);
    } else {
        return gpu_sizes_fit(experts, n, k, reason);
    }
    return OPREG_E_UNSUPPORTED;
}

/* grid_y: groups or rows at a time. */
static opreg_status mix_run(const opreg_call *call, const gpu_plan *plan, uint32_t format,
                            rows32_args *args, uint32_t grid_y) {
    uint32_t three = format == OPREG_ROCMFP3_MIX, pair = args->base.pair;
    uint32_t per_block = pair ? MIX_GLU_ROWS / 2u : MIX_ROWS_FIRST + MIX_ROWS_SECOND;
    uint32_t tiles = (uint32_t)((args->base.n + 31) / 32);
    gpu_launch l = {SM90_FIRST_MIX + three * MIX_METHODS + (pair ? MIX_GLU : MIX_ROWS),
                    (tiles + per_block - 1) / per_block,
                    grid_y < 65535u ? grid_y : 65535u,
                    1,
                    MIX_THREADS,
                    mix_shared(three, pair, args->base.k),
                    plan->chained};
    args->groups = (uint32_t)(args->base.k / 64);
    args->chained = plan->chained;
    return gpu_run(call->host, plan->device, &l, args, call->stream);
}

/* ---- dense ---------------------------------------------------------------------------------------- */

opreg_status mix_matmul_supports(const opreg_device *dev, const void *problem, char reason[128]) {
    const opreg_matmul_bt_quant *p = problem;
    (void)dev;
    return mix_supports(p->b_dtype, p->layout, 1, p->n, p->k, p->glu, reason);
}

opreg_status mix_matmul_run(void *state, const void *problem, const opreg_call *call) {
    const opreg_matmul_bt_quant *p = problem;
    rows32_args args = {.groups = 0};
    rows32_dense_args(p, call, &args.base);
    return mix_run(call, state, p->b_dtype, &args, (uint32_t)(p->m < 65535 ? p->m : 65535));
}

/* ---- grouped -------------------------------------------------------------------------------------- */

static opreg_status grouped_run(void *state, const void *problem, const opreg_call *call) {
    const opreg_moe_matmul *p = problem;
    rows32_args args = {.groups = 0};
    rows32_moe_args(p, call, &args.base);
    return mix_run(call, state, p->b_dtype, &args, rows32_moe_groups(&args.base));
}

#define MIX_STAGE(name)                                                                            \
    opreg_status name##_supports(const opreg_device *dev, const void *problem, char reason[128]) { \
        const opreg_moe_matmul *p = problem;                                                       \
        (void)dev;                                                                                 \
        return mix_supports(p->b_dtype, p->layout, p->experts, p->n, p->k, p->glu, reason);        \
    }                                                                                              \
    GPU_NO_WORKSPACE(name)                                                                         \
    opreg_status name##_run(void *state, const void *problem, const opreg_call *call) {            \
        return grouped_run(state, problem, call);                                                  \
    }
GPU_NO_WORKSPACE(mix_matmul)
MIX_STAGE(mix_moe_matmul)
MIX_STAGE(mix_glu)
MIX_STAGE(mix_down)
