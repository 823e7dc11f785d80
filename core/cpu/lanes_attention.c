/* SPDX-License-Identifier: MIT
 * lanes_attention.c - the attention variants of the vector units. */
#include "cpu/attention.h"
#include "cpu/kernels.h"
#include "cpu/processor.h"

#include <stdio.h>

static opreg_status check(const char *missing, const opreg_paged_attn_decode *p, char reason[128]) {
    if (missing != NULL) {
        snprintf(reason, 128, "this processor has no %s", missing);
        return OPREG_E_UNSUPPORTED;
    }
    if (p->head_dim > ATTENTION_LANES_MAX_DIM) {
        snprintf(reason, 128, "head_dim %d is above %d", (int)p->head_dim, ATTENTION_LANES_MAX_DIM);
        return OPREG_E_UNSUPPORTED;
    }
    return OPREG_OK;
}

static uint64_t parts_bytes(const opreg_paged_attn_decode *p) {
    int64_t splits = attention_cut_of(p).splits;
    return splits > 1 ? (uint64_t)p->tokens * (uint64_t)p->q_heads * (uint64_t)splits *
                            sizeof(attention_part)
                      : 0;
}

static opreg_status run(const opreg_paged_attn_decode *p, const opreg_call *call,
                        attention_tasks tasks) {
    attention_job job = {p, call->bufs, attention_cut_of(p), call->workspace.ptr};
    call->host->parallel_for(call->host->ctx, job.cut.units * job.cut.splits, tasks.attend, &job);
    if (job.cut.splits > 1) {
        call->host->parallel_for(call->host->ctx, job.cut.units, tasks.combine, &job);
    }
    return OPREG_OK;
}

#define VARIANT(ISA)                                                                               \
    opreg_status ISA##_attention_supports(const opreg_device *dev, const void *problem,            \
                                          char reason[128]) {                                      \
        (void)dev;                                                                                 \
        return check(processor_lacks_##ISA(), problem, reason);                                    \
    }                                                                                              \
    uint64_t ISA##_attention_workspace(const opreg_device *dev, const void *problem) {             \
        (void)dev;                                                                                 \
        return parts_bytes(problem);                                                               \
    }                                                                                              \
    opreg_status ISA##_attention_run(void *state, const void *problem, const opreg_call *call) {   \
        (void)state;                                                                               \
        return run(problem, call, attention_tasks_##ISA());                                        \
    }

VARIANT(avx2)
VARIANT(avx512)
