/* SPDX-License-Identifier: MIT
 * paged_gqa.c - paged_gqa: what it takes, its workspace, a launch for the parts and one for their
 * tree. */
#include "paged_gqa.h"
#include "qdot.h"

#include <stdio.h>

#define MERGE UINT32_MAX /* in place of a cache dtype */

#define GQA_PART(dim, heads, name, kv) {dim, heads, kv},
#define GQA_MERGE(dim)                 {dim, 0, MERGE},
static const struct {
    int32_t dim, heads;
    uint32_t kv;
} kernels[] = {
#include "paged_gqa_list.inc"
};
#undef GQA_PART
#undef GQA_MERGE

enum { KERNELS = sizeof kernels / sizeof kernels[0] };

uint32_t paged_gqa_end_symbol(void) {
    return qdot_end_symbol() + KERNELS;
}

/* The first kernel for so many query heads of a KV head; KERNELS: there is none. */
static uint32_t kernel_for(int32_t dim, int32_t heads, uint32_t kv) {
    uint32_t i = 0;
    while (i < KERNELS &&
           (kernels[i].dim != dim || kernels[i].kv != kv || kernels[i].heads < heads)) {
        i++;
    }
    return i;
}

static int32_t ratio_of(const opreg_paged_attn_decode *p) {
    return p->q_heads / p->kv_heads;
}

static int64_t segments_of(const opreg_paged_attn_decode *p) {
    return ((int64_t)p->max_seq_len + 255) / 256;
}

opreg_status paged_gqa_supports(const opreg_device *dev, const void *problem, char reason[128]) {
    const opreg_paged_attn_decode *p = problem;
    (void)dev;
    if (kernel_for(p->head_dim, 0, MERGE) == KERNELS) {
        snprintf(reason, 128, "head_dim %d is not 64, 128 or 256", p->head_dim);
    } else if (kernel_for(p->head_dim, 0, p->kv_dtype) == KERNELS) {
        snprintf(reason, 128, "cache dtype %u is not bf16 or f16", p->kv_dtype);
    } else if (kernel_for(p->head_dim, ratio_of(p), p->kv_dtype) == KERNELS) {
        snprintf(reason, 128, "%d query heads of a KV head are more than 16", ratio_of(p));
    } else if (segments_of(p) > GQA_MOST_SEGMENTS) {
        snprintf(reason, 128, "max_seq_len %d is above %d", p->max_seq_len,
                 GQA_MOST_SEGMENTS * 256);
    } else if (p->tokens > 65535 || p->kv_heads > 65535) {
        snprintf(reason, 128, "%d tokens or %d KV heads are more than 65535", p->tokens,
                 p->kv_heads);
    } else {
        return OPREG_OK;
    }
    return OPREG_E_UNSUPPORTED;
}

static uint64_t align256(uint64_t bytes) {
    return (bytes + 255u) & ~(uint64_t)255u;
}

/* Elements, then maxima, then sums of every part. */
typedef struct part_offsets {
    uint64_t m, l, end;
} part_offsets;

static part_offsets parts_of(const opreg_paged_attn_decode *p) {
    uint64_t count = (uint64_t)p->tokens * (uint64_t)p->q_heads * (uint64_t)segments_of(p);
    part_offsets at;
    at.m = align256(count * (uint64_t)p->head_dim * 4u);
    at.l = at.m + align256(count * 4u);
    at.end = at.l + align256(count * 4u);
    return at;
}

uint64_t paged_gqa_workspace(const opreg_device *dev, const void *problem) {
    (void)dev;
    return parts_of(problem).end;
}

opreg_status paged_gqa_run(void *state, const void *problem, const opreg_call *call) {
    const opreg_paged_attn_decode *p = problem;
    const gpu_plan *plan = state;
    uint8_t *workspace = call->workspace.ptr;
    part_offsets at = parts_of(p);
    uint32_t first = qdot_end_symbol();
    uint32_t kernel = kernel_for(p->head_dim, ratio_of(p), p->kv_dtype);
    uint32_t heads = (uint32_t)kernels[kernel].heads, dim = (uint32_t)p->head_dim;
    gqa_args args = {.o = (float *)(void *)workspace,
                     .m = (float *)(void *)(workspace + at.m),
                     .l = (float *)(void *)(workspace + at.l),
                     .segments = (int32_t)segments_of(p)};
    gpu_launch part = {.symbol = first + kernel,
                       .grid_x = (uint32_t)args.segments,
                       .grid_y = (uint32_t)p->kv_heads,
                       .grid_z = (uint32_t)p->tokens,
                       .block = (uint32_t)GQA_THREADS(p->head_dim),
                       .shared = GQA_DYNAMIC ? GQA_SHARED(dim, heads) : 0u};
    gpu_launch merge = {.symbol = first + kernel_for(p->head_dim, 0, MERGE),
                        .grid_x = (uint32_t)p->q_heads,
                        .grid_y = (uint32_t)p->tokens,
                        .grid_z = 1,
                        .block = GQA_MERGE_THREADS};
    opreg_status status = OPREG_OK;
    if (p->tokens == 0) {
        return OPREG_OK;
    }
    attention_args_fill(&args.base, p, call);
    if (args.segments > 0) {
        status = gpu_run(call->host, plan->device, &part, &args, call->stream);
    }
    return status != OPREG_OK ? status
                              : gpu_run(call->host, plan->device, &merge, &args, call->stream);
}
