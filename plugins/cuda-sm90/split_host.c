/* SPDX-License-Identifier: MIT
 * split_host.c - split_attention: parts of 256 positions, then their tree. */
#include "kernels.h"
#include "split_args.h"

#include <stdio.h>

#define MOST_SEGMENTS 1024

#define SPLIT_PART(dim, heads, name, kv, blocks) {dim, heads, kv},
#define SPLIT_MERGE(dim) {dim, 0, 0},
static const struct {
    int32_t dim, heads; /* heads 0: the merge                                                      */
    uint32_t kv;
} parts[] = {
#include "split_list.inc"
};
#undef SPLIT_PART
#undef SPLIT_MERGE

static uint32_t symbol_of(int32_t dim, int32_t heads, uint32_t kv) {
    for (uint32_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        if (parts[i].dim == dim && parts[i].heads == heads && parts[i].kv == kv) {
            return SM90_FIRST_SPLIT + i;
        }
    }
    return UINT32_MAX;
}

static int64_t segments_of(const opreg_paged_attn_decode *p) {
    return ((int64_t)p->max_seq_len + 255) / 256;
}

/* Query heads that one block takes of a group: all four read a key once, but a short call has more
 * blocks, which then find their keys in the L2, with fewer. */
static int32_t heads_of(const opreg_paged_attn_decode *p, uint32_t units) {
    int32_t group = p->q_heads / p->kv_heads, heads = group > 2 ? 4 : group;
    int64_t blocks = segments_of(p) * p->tokens * p->kv_heads * ((group + heads - 1) / heads);
    while (heads > 1 && blocks < 2 * (int64_t)units) {
        heads /= 2;
        blocks *= 2;
    }
    return heads;
}

static int multiples_of_8(const opreg_paged_attn_decode *p) {
    int64_t all = p->k_block_stride | p->k_slot_stride | p->k_head_stride | p->v_block_stride |
                  p->v_slot_stride | p->v_head_stride;
    return (all & 7) == 0;
}

opreg_status split_attention_supports(const opreg_device *dev, const void *problem,
                                      char reason[128]) {
    const opreg_paged_attn_decode *p = problem;
    (void)dev;
    if (symbol_of(p->head_dim, 0, 0) == UINT32_MAX) {
        snprintf(reason, 128, "head_dim %d is not one of 64 128 256", p->head_dim);
    } else if (symbol_of(p->head_dim, 1, p->kv_dtype) == UINT32_MAX) {
        snprintf(reason, 128, "cache dtype %u is not one of bf16 f16 f8_e4m3", p->kv_dtype);
    } else if (!multiples_of_8(p)) {
        snprintf(reason, 128, "a cache stride is not a multiple of 8 elements");
    } else if (segments_of(p) > MOST_SEGMENTS) {
        snprintf(reason, 128, "max_seq_len %d is above %d", p->max_seq_len, MOST_SEGMENTS * 256);
    } else if (p->tokens > 65535 || p->q_heads > 65535) {
        snprintf(reason, 128, "%d tokens or %d heads are more than a grid can hold", p->tokens,
                 p->q_heads);
    } else {
        return OPREG_OK;
    }
    return OPREG_E_UNSUPPORTED;
}

static uint64_t part_count(const opreg_paged_attn_decode *p) {
    return (uint64_t)p->tokens * (uint64_t)p->q_heads * (uint64_t)segments_of(p);
}

static uint64_t align256(uint64_t bytes) { return (bytes + 255u) & ~(uint64_t)255u; }

uint64_t split_attention_workspace(const opreg_device *dev, const void *problem) {
    const opreg_paged_attn_decode *p = problem;
    (void)dev;
    return align256(part_count(p) * (uint64_t)p->head_dim * 4u) + 2u * align256(part_count(p) * 4u);
}

opreg_status split_attention_run(void *state, const void *problem, const opreg_call *call) {
    const opreg_paged_attn_decode *p = problem;
    const gpu_plan *plan = state;
    uint8_t *workspace = call->workspace.ptr;
    uint64_t o_bytes = align256(part_count(p) * (uint64_t)p->head_dim * 4u);
    int32_t heads = heads_of(p, gpu_units(plan->device)), group = p->q_heads / p->kv_heads;
    split_args args = {.segments = (int32_t)segments_of(p)};
    gpu_launch part = {symbol_of(p->head_dim, heads, p->kv_dtype), 1, 1, 1, 1, 0, 0};
    gpu_launch merge = {symbol_of(p->head_dim, 0, 0), 1, 1, 1, SPLIT_MERGE_THREADS, 0, 0};
    opreg_status status = OPREG_OK;
    if (p->tokens == 0) {
        return OPREG_OK;
    }
    attention_args_fill(&args.base, p, call);
    args.o = (float *)(void *)workspace;
    args.m = (float *)(void *)(workspace + o_bytes);
    args.l = (float *)(void *)(workspace + o_bytes + align256(part_count(p) * 4u));
    part.grid_x = (uint32_t)args.segments;
    part.grid_y = (uint32_t)(p->kv_heads * ((group + heads - 1) / heads));
    part.grid_z = (uint32_t)p->tokens;
    part.block = (uint32_t)p->head_dim;
    merge.grid_x = (uint32_t)p->q_heads;
    merge.grid_y = (uint32_t)p->tokens;
    merge.shared = (uint32_t)(4 * args.segments + (args.segments + 7) / 8 * p->head_dim) * 4u;
    if (args.segments > 0) {
        status = gpu_run(call->host, plan->device, &part, &args, call->stream);
    }
    return status != OPREG_OK
               ? status
               : gpu_run(call->host, plan->device, &merge, &args, call->stream);
}
