/* SPDX-License-Identifier: MIT
 * mix_int8_host.c - dense and grouped matrices of ROCmFP2_MIX with int8 activations. */
#include "kernels.h"
#include "mix_int8_args.h"

#include <stdio.h>

enum mix_int8_method { MIX_INT8_GLU, MIX_INT8_ROWS };

static opreg_status mix_int8_supports(uint32_t format, uint32_t layout, int64_t experts, int64_t n,
                                      int64_t k, char reason[128]) {
    if (format != OPREG_ROCMFP2_MIX) {
        snprintf(reason, 128, "weight format %u is not rocmfp2_mix", format);
    } else if (layout != OPREG_LAYOUT_ANY && layout != PREPARED_ROWS32) {
        snprintf(reason, 128, "weight layout %u is not rows32, %u", layout, PREPARED_ROWS32);
    } else if (k % 64 != 0 || k > MIX_INT8_MOST_K) {
        snprintf(reason, 128, "k %lld is not a multiple of 64 up to %d", (long long)k,
                 MIX_INT8_MOST_K);
    } else {
        return gpu_sizes_fit(experts, n, k, reason);
    }
    return OPREG_E_UNSUPPORTED;
}

/* grid_y: groups or rows at a time. */
static opreg_status mix_int8_run(const opreg_call *call, const gpu_plan *plan, rows32_args *args,
                                 uint32_t grid_y) {
    uint32_t pair = args->base.pair, per_block = MIX_INT8_STREAMS / (pair ? 2u : 1u);
    uint32_t waves = pair ? MIX_INT8_GLU_WAVES : MIX_INT8_ROWS_WAVES;
    uint32_t tiles = (uint32_t)((args->base.n + 31) / 32);
    gpu_launch l = {SM90_FIRST_MIX_INT8 + (pair ? MIX_INT8_GLU : MIX_INT8_ROWS),
                    (tiles + per_block - 1) / per_block,
                    grid_y < 65535u ? grid_y : 65535u,
                    1,
                    waves * 32u,
                    MIX_INT8_SHARED(waves, args->base.k),
                    plan->chained};
    args->groups = (uint32_t)(args->base.k / 64);
    args->chained = plan->chained;
    return gpu_run(call->host, plan->device, &l, args, call->stream);
}

/* ---- dense ---------------------------------------------------------------------------------------- */

opreg_status mix_matmul_int8_supports(const opreg_device *dev, const void *problem,
                                      char reason[128]) {
    const opreg_matmul_bt_quant *p = problem;
    (void)dev;
    return mix_int8_supports(p->b_dtype, p->layout, 1, p->n, p->k, reason);
}

opreg_status mix_matmul_int8_run(void *state, const void *problem, const opreg_call *call) {
    const opreg_matmul_bt_quant *p = problem;
    rows32_args args = {.groups = 0};
    rows32_dense_args(p, call, &args.base);
    return mix_int8_run(call, state, &args, (uint32_t)(p->m < 65535 ? p->m : 65535));
}

/* ---- grouped -------------------------------------------------------------------------------------- */

static opreg_status grouped_run(void *state, const void *problem, const opreg_call *call) {
    const opreg_moe_matmul *p = problem;
    rows32_args args = {.groups = 0};
    rows32_moe_args(p, call, &args.base);
    return mix_int8_run(call, state, &args, rows32_moe_groups(&args.base));
}

#define MIX_INT8_STAGE(name)                                                                       \
    opreg_status name##_supports(const opreg_device *dev, const void *problem, char reason[128]) { \
        const opreg_moe_matmul *p = problem;                                                       \
        (void)dev;                                                                                 \
        return mix_int8_supports(p->b_dtype, p->layout, p->experts, p->n, p->k, reason);           \
    }                                                                                              \
    GPU_NO_WORKSPACE(name)                                                                         \
    opreg_status name##_run(void *state, const void *problem, const opreg_call *call) {            \
        return grouped_run(state, problem, call);                                                  \
    }
GPU_NO_WORKSPACE(mix_matmul_int8)
MIX_INT8_STAGE(mix_moe_matmul_int8)
MIX_INT8_STAGE(mix_glu_int8)
MIX_INT8_STAGE(mix_down_int8)
