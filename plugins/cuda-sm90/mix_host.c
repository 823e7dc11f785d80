/* SPDX-License-Identifier: MIT
 * mix_host.c - mix_glu: moe_glu over ROCmFP2_MIX and ROCmFP3_MIX. */
#include "kernels.h"

#include <stdio.h>

opreg_status mix_glu_supports(const opreg_device *dev, const void *problem, char reason[128]) {
    const opreg_moe_matmul *p = problem;
    (void)dev;
    if (p->b_dtype != OPREG_ROCMFP2_MIX && p->b_dtype != OPREG_ROCMFP3_MIX) {
        snprintf(reason, 128, "weight format %u is not rocmfp2_mix or rocmfp3_mix", p->b_dtype);
    } else if (p->layout != OPREG_LAYOUT_ANY && p->layout != PREPARED_ROWS32) {
        snprintf(reason, 128, "weight layout %u is not rows32, %u", p->layout, PREPARED_ROWS32);
    } else if (p->k % 64 != 0 || p->k > 16384) {
        snprintf(reason, 128, "k %lld is not a multiple of 64 up to 16384", (long long)p->k);
    } else if (p->experts + 1 > 65535) {
        snprintf(reason, 128, "%d experts are more than a grid can hold", p->experts);
    } else {
        return gpu_sizes_fit(p->experts, p->n, p->k, reason);
    }
    return OPREG_E_UNSUPPORTED;
}

uint64_t mix_glu_workspace(const opreg_device *dev, const void *problem) {
    (void)dev;
    (void)problem;
    return 0;
}

opreg_status mix_glu_run(void *state, const void *problem, const opreg_call *call) {
    const opreg_moe_matmul *p = problem;
    const gpu_plan *plan = state;
    uint32_t symbol = SM90_FIRST_MIX + (p->b_dtype == OPREG_ROCMFP3_MIX ? 1u : 0u);
    gpu_launch launch = {symbol, 1, 1, 1, 512, 0, plan->chained};
    rows32_args args = {.groups = (uint32_t)(p->k / 64), .chained = plan->chained};
    rows32_moe_args(p, call, &args.base);
    launch.grid_x = (uint32_t)((p->n + 31) / 32);
    launch.grid_y = args.base.route.cap_groups;
    launch.shared = (uint32_t)p->k * 4u;
    return gpu_run(call->host, plan->device, &launch, &args, call->stream);
}
