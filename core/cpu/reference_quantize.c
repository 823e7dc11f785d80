/* SPDX-License-Identifier: MIT
 * reference_quantize.c - quantize_act: the formats' own activation rule, row by row. */
#include "cpu/activations.h"
#include "cpu/kernels.h"

opreg_status reference_quantize_supports(const opreg_device *dev, const void *problem,
                                         char reason[128]) {
    (void)dev;
    (void)problem;
    (void)reason;
    return OPREG_OK;
}

uint64_t reference_quantize_workspace(const opreg_device *dev, const void *problem) {
    (void)dev;
    (void)problem;
    return 0;
}

opreg_status reference_quantize_run(void *state, const void *problem, const opreg_call *call) {
    const opreg_quantize_act *p = problem;
    const activation_source source = {
        .dtype = p->x_dtype,
        .rows = p->m,
        .k = p->k,
        .stride = p->x_stride,
        .x = call->bufs[OPREG_QUANTIZE_X].ptr,
    };
    (void)state;
    activations_quantize(call->host, p->q_dtype, &source, call->bufs[OPREG_QUANTIZE_CODES].ptr,
                         call->bufs[OPREG_QUANTIZE_SCALES].ptr,
                         call->bufs[OPREG_QUANTIZE_SUMS].ptr);
    return OPREG_OK;
}
