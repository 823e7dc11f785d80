/* SPDX-License-Identifier: MIT
 * split_host.c - split attention: what it takes, parts of 256 positions, then their tree. */
#include "kernels.h"
#include "program.h"
#include "split_args.h"

#include <stdio.h>

enum split_arithmetic { split_f32, split_f16x2 };

#define SPLIT_PART(dim, heads, name, arithmetic, kv, blocks) {dim, heads, arithmetic, kv},
static const struct {
    int32_t dim, heads;
    uint32_t arithmetic, kv;
} parts[] = {
#include "split_list.inc"
};
#undef SPLIT_PART

static uint32_t symbol_of(int32_t dim, int32_t heads, uint32_t arithmetic, uint32_t kv) {
    for (uint32_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        if (parts[i].dim == dim && parts[i].heads == heads && parts[i].arithmetic == arithmetic &&
            parts[i].kv == kv) {
            return SM60_FIRST_SPLIT + i;
        }
    }
    return UINT32_MAX;
}

static int64_t segments_of(const opreg_paged_attn_decode *p) {
    return ((int64_t)p->max_seq_len + 255) / 256;
}

/* Query heads of a block: all of a group read a key once, but a short call has more blocks with
 * fewer. */
static int32_t heads_of(const opreg_paged_attn_decode *p, uint32_t units) {
    int32_t group = p->q_heads / p->kv_heads, most = p->head_dim == 256 ? 2 : 4;
    int32_t heads = group > 2 ? most : group;
    int64_t blocks = segments_of(p) * p->tokens * p->kv_heads * ((group + heads - 1) / heads);
    for (; heads > 1 && blocks < 2 * (int64_t)units; blocks *= 2) {
        heads /= 2;
    }
    return heads;
}

static opreg_status supports(const opreg_paged_attn_decode *p, uint32_t arithmetic,
                             char reason[128]) {
    const int64_t strides = p->k_block_stride | p->k_slot_stride | p->k_head_stride |
                            p->v_block_stride | p->v_slot_stride | p->v_head_stride;
    if (symbol_of(p->head_dim, 1, arithmetic, OPREG_F16) == UINT32_MAX) {
        snprintf(reason, 128, "head_dim %d is not one of 64 128 256", p->head_dim);
    } else if (symbol_of(p->head_dim, 1, arithmetic, p->kv_dtype) == UINT32_MAX) {
        snprintf(reason, 128, "cache dtype %u is not %s", p->kv_dtype,
                 arithmetic == split_f32 ? "one of bf16 f16" : "f16");
    } else if ((strides & 7) != 0) {
        snprintf(reason, 128, "a cache stride is not a multiple of 8 elements");
    } else if (segments_of(p) > SPLIT_MOST_SEGMENTS) {
        snprintf(reason, 128, "max_seq_len %d is above %d", p->max_seq_len,
                 SPLIT_MOST_SEGMENTS * 256);
    } else if (p->tokens > 65535 || p->q_heads > 65535) {
        snprintf(reason, 128, "%d tokens or %d heads are more than a grid holds", p->tokens,
                 p->q_heads);
    } else {
        return OPREG_OK;
    }
    return OPREG_E_UNSUPPORTED;
}

static uint64_t align256(uint64_t bytes) {
    return (bytes + 255u) & ~(uint64_t)255u;
}

static uint64_t part_count(const opreg_paged_attn_decode *p) {
    return (uint64_t)p->tokens * (uint64_t)p->q_heads * (uint64_t)segments_of(p);
}

static uint64_t o_bytes(const opreg_paged_attn_decode *p) {
    return align256(part_count(p) * (uint64_t)p->head_dim * 4u);
}

static uint64_t workspace(const opreg_paged_attn_decode *p) {
    return o_bytes(p) + 2u * align256(part_count(p) * 4u);
}

static opreg_status run(void *state, const opreg_paged_attn_decode *p, uint32_t arithmetic,
                        const opreg_call *call) {
    const gpu_plan *plan = state;
    uint8_t *m = (uint8_t *)call->workspace.ptr + o_bytes(p);
    int32_t heads = heads_of(p, gpu_units(plan->device)), group = p->q_heads / p->kv_heads;
    split_args args = {.segments = (int32_t)segments_of(p)};
    gpu_launch part = {
        symbol_of(p->head_dim, heads, arithmetic, p->kv_dtype), 1, 1, 1, SPLIT_THREADS, 0, 0};
    gpu_launch merge = {SM60_SPLIT_MERGE, 1, 1, 1, SPLIT_MERGE_THREADS, 0, 0};
    opreg_status status = OPREG_OK;
    if (p->tokens == 0) {
        return OPREG_OK;
    }
    attention_args_fill(&args.base, p, call);
    args.o = call->workspace.ptr;
    args.m = (float *)(void *)m;
    args.l = (float *)(void *)(m + align256(part_count(p) * 4u));
    part.grid_x = (uint32_t)args.segments;
    part.grid_y = (uint32_t)(p->kv_heads * ((group + heads - 1) / heads));
    part.grid_z = (uint32_t)p->tokens;
    merge.grid_x = (uint32_t)p->q_heads;
    merge.grid_y = (uint32_t)p->tokens;
    merge.shared = 4u * 4u * (uint32_t)args.segments;
    if (args.segments > 0) {
        status = gpu_run(call->host, plan->device, &part, &args, call->stream);
    }
    return status != OPREG_OK ? status
                              : gpu_run(call->host, plan->device, &merge, &args, call->stream);
}

#define SPLIT_VARIANT(name)                                                                        \
    opreg_status name##_supports(const opreg_device *dev, const void *problem, char reason[128]) { \
        (void)dev;                                                                                 \
        return supports(problem, name, reason);                                                    \
    }                                                                                              \
    uint64_t name##_workspace(const opreg_device *dev, const void *problem) {                      \
        (void)dev;                                                                                 \
        return workspace(problem);                                                                 \
    }                                                                                              \
    opreg_status name##_run(void *state, const void *problem, const opreg_call *call) {            \
        return run(state, problem, name, call);                                                    \
    }
SPLIT_VARIANT(split_f32)
SPLIT_VARIANT(split_f16x2)
