/* SPDX-License-Identifier: MIT
 * split_host.c - split_attention and tensor_attention: parts of runs of segments, then their tree.
 */
#include "kernels.h"
#include "split_args.h"

#include <stdio.h>

#define MOST_PARTS 1024

#define SPLIT_PART(dim, heads, name, kv, element, blocks)                                          \
    {dim, heads, kv, blocks, SPLIT_PART_BYTES(dim, heads, element)},
#define SPLIT_MERGE(dim) {dim, 0, 0, 0, 0},
#define SPLIT_TENSOR(dim, name, kv, element, where, tiles)                                         \
    {dim, -1, kv, 0, SPLIT_TENSOR_BYTES(dim, element, TENSOR_WAVES(dim, tensor_##where), tiles)},
#define TENSOR_MERGE(dim) {dim, -2, 0, 0, 0},
#define SPLIT_HALF(dim, name, kv, element) {dim, -3, kv, 0, SPLIT_HALF_BYTES(element)},
static const struct split_kernel {
    int32_t dim, heads; /* heads 0: the merge; -1: tensor_attention; -2: its merge; -3: halves */
    uint32_t kv, blocks, shared;
} kernels[] = {
#include "split_list.inc"
};
#undef SPLIT_PART
#undef SPLIT_MERGE
#undef SPLIT_TENSOR
#undef TENSOR_MERGE
#undef SPLIT_HALF

static uint32_t symbol_of(int32_t dim, int32_t heads, uint32_t kv) {
    for (uint32_t i = 0; i < sizeof kernels / sizeof kernels[0]; i++) {
        if (kernels[i].dim == dim && kernels[i].heads == heads && kernels[i].kv == kv) {
            return SM90_FIRST_SPLIT + i;
        }
    }
    return UINT32_MAX;
}

static const struct split_kernel *kernel_of(uint32_t symbol) {
    return &kernels[symbol - SM90_FIRST_SPLIT];
}

static int64_t segments_of(const opreg_paged_attn_decode *p) {
    return ((int64_t)p->max_seq_len + 255) / 256;
}

static int64_t parts_of(int64_t segments, int32_t run_shift) {
    return (segments + (1 << run_shift) - 1) >> run_shift;
}

static int32_t chunks_of(const opreg_paged_attn_decode *p, int32_t heads) {
    return (p->q_heads / p->kv_heads + heads - 1) / heads;
}

/* Query heads that one block takes of a group: all four read a key once, but a short call has more
 * blocks, which then find their keys in the L2, with fewer; one of head_dim 256 is as good as two.
 */
static int32_t heads_of(const opreg_paged_attn_decode *p, uint32_t units) {
    int32_t group = p->q_heads / p->kv_heads, heads = group > 2 ? 4 : group;
    int64_t blocks = segments_of(p) * p->tokens * p->kv_heads * (p->head_dim == 256 ? 2 : 1);
    while (heads > 1 && blocks * chunks_of(p, heads) < (int64_t)units) {
        heads /= 2;
    }
    return heads;
}

/* Segments that a block takes one after another, as a power of two: the fewest with which all
 * blocks are on the device at once. */
static int32_t run_shift_of(const opreg_paged_attn_decode *p, int32_t heads, uint32_t slots) {
    int64_t segments = segments_of(p),
            rows = (int64_t)p->tokens * p->kv_heads * chunks_of(p, heads);
    int32_t shift = 0;
    while (shift < SPLIT_LEVELS(p->head_dim) &&
           (parts_of(segments, shift) * rows > (int64_t)slots ||
            parts_of(segments, shift) > MOST_PARTS)) {
        shift++;
    }
    return shift;
}

/* Bytes of an element of the caches. */
static int64_t element_of(uint32_t kv) {
    return kv == OPREG_F32 ? 4 : kv == OPREG_F8_E4M3 ? 1 : 2;
}

static int rows_are_aligned(const opreg_paged_attn_decode *p) {
    int64_t all = p->k_block_stride | p->k_slot_stride | p->k_head_stride | p->v_block_stride |
                  p->v_slot_stride | p->v_head_stride;
    return (all * element_of(p->kv_dtype) & 15) == 0;
}

/* Whether every row's distance from its cache's base is a 32-bit number of 8 bytes. */
static int offsets_fit(const opreg_paged_attn_decode *p, int64_t block, int64_t slot,
                       int64_t head) {
    int64_t most = ((int64_t)8 << 32) / element_of(p->kv_dtype);
    int64_t blocks = p->num_blocks > 0 ? p->num_blocks : 1, slots = p->block_size,
            heads = p->kv_heads;
    return block >= 0 && slot >= 0 && head >= 0 && block <= most / blocks && slot <= most / slots &&
           head <= most / heads && block * blocks + slot * slots + head * heads <= most;
}

opreg_status split_attention_supports(const opreg_device *dev, const void *problem,
                                      char reason[128]) {
    const opreg_paged_attn_decode *p = problem;
    (void)dev;
    if (symbol_of(p->head_dim, 0, 0) == UINT32_MAX) {
        snprintf(reason, 128, "head_dim %d is not one of 64 128 256", p->head_dim);
    } else if (!rows_are_aligned(p)) {
        snprintf(reason, 128, "a cache stride is not a multiple of 16 bytes");
    } else if (!offsets_fit(p, p->k_block_stride, p->k_slot_stride, p->k_head_stride) ||
               !offsets_fit(p, p->v_block_stride, p->v_slot_stride, p->v_head_stride)) {
        snprintf(reason, 128, "a cache of %d pages is larger than 32 GiB", p->num_blocks);
    } else if (segments_of(p) >> SPLIT_LEVELS(p->head_dim) > MOST_PARTS - 1) {
        snprintf(reason, 128, "max_seq_len %d is above %d", p->max_seq_len,
                 ((MOST_PARTS - 1) << SPLIT_LEVELS(p->head_dim)) * 256);
    } else if (p->tokens > 65535) {
        snprintf(reason, 128, "%d tokens are more than a grid can hold", p->tokens);
    } else {
        return OPREG_OK;
    }
    return OPREG_E_UNSUPPORTED;
}

/* A bound on parts, whatever the device. */
static uint64_t part_count(const opreg_paged_attn_decode *p) {
    int64_t parts = segments_of(p) * (p->head_dim == 256 ? 2 : 1);
    return (uint64_t)p->tokens * (uint64_t)p->q_heads *
           (uint64_t)(parts > MOST_PARTS ? MOST_PARTS : parts);
}

static uint64_t align256(uint64_t bytes) {
    return (bytes + 255u) & ~(uint64_t)255u;
}

uint64_t split_attention_workspace(const opreg_device *dev, const void *problem) {
    const opreg_paged_attn_decode *p = problem;
    (void)dev;
    return align256(part_count(p) * (uint64_t)p->head_dim * 4u) + 2u * align256(part_count(p) * 4u);
}

static int32_t shift_of(int32_t value) {
    for (int32_t shift = 0; shift < 31; shift++) {
        if (value == 1 << shift) {
            return shift;
        }
    }
    return -1;
}

/* Caches at multiples of 16 bytes, which is what rows are copied by. */
static int caches_are_aligned(const opreg_call *call) {
    return (((uintptr_t)call->bufs[OPREG_ATTN_K].ptr | (uintptr_t)call->bufs[OPREG_ATTN_V].ptr) &
            15u) == 0;
}

/* What both variants have in common. */
static split_args args_of(const opreg_paged_attn_decode *p, const opreg_call *call,
                          uint32_t chained) {
    split_args args = {.chained = chained, .block_shift = shift_of(p->block_size)};
    int64_t element = element_of(p->kv_dtype);
    attention_args_fill(&args.base, p, call);
    args.k_block8 = (uint32_t)(p->k_block_stride * element / 8);
    args.k_slot8 = (uint32_t)(p->k_slot_stride * element / 8);
    args.k_head8 = (uint32_t)(p->k_head_stride * element / 8);
    args.v_block8 = (uint32_t)(p->v_block_stride * element / 8);
    args.v_slot8 = (uint32_t)(p->v_slot_stride * element / 8);
    args.v_head8 = (uint32_t)(p->v_head_stride * element / 8);
    return args;
}

/* Parts of `keys` positions, which are in the workspace. */
static void fill_parts(split_args *args, const opreg_paged_attn_decode *p, const opreg_call *call,
                       int32_t keys) {
    uint8_t *workspace = call->workspace.ptr;
    uint64_t o_bytes = align256(part_count(p) * (uint64_t)p->head_dim * 4u);
    args->o = (float *)(void *)workspace;
    args->m = (float *)(void *)(workspace + o_bytes);
    args->l = (float *)(void *)(workspace + o_bytes + align256(part_count(p) * 4u));
    args->part_keys = keys;
    args->parts = (int32_t)(((int64_t)p->max_seq_len + keys - 1) / keys);
}

/* Parts, then their tree, which is launched while the parts are computed and waits for them. */
static opreg_status run_both(const gpu_plan *plan, const opreg_paged_attn_decode *p,
                             const opreg_call *call, const gpu_launch *part,
                             const split_args *args) {
    gpu_launch merge = {symbol_of(p->head_dim, 0, 0), 1, 1, 1, SPLIT_MERGE_THREADS, 0, 1};
    opreg_status status = gpu_run(call->host, plan->device, part, args, call->stream);
    if (status != OPREG_OK || args->parts <= 1) {
        return status;
    }
    merge.grid_x = (uint32_t)p->q_heads;
    merge.grid_y = (uint32_t)p->tokens;
    if (args->parts <= 64) { /* several heads a block; merge_few */
        uint32_t runs = args->parts <= 8 ? 1 : args->parts <= 16 ? 2 : args->parts <= 32 ? 4 : 8;
        uint32_t row = (uint32_t)p->head_dim / 4u * runs;
        merge.block = row > SPLIT_FEW_THREADS ? row : SPLIT_FEW_THREADS;
        merge.grid_x = (merge.grid_x + merge.block / row - 1u) / (merge.block / row);
        merge.shared = merge.block * 16u;
        if (runs == 1 && kernel_of(part->symbol)->heads == -1) {
            merge.symbol = symbol_of(p->head_dim, -2, 0);
            merge.shared = 0;
        }
    } else {
        merge.shared = (uint32_t)(4 * args->parts + ((args->parts + 7) / 8 + 3) * p->head_dim) * 4u;
    }
    return gpu_run(call->host, plan->device, &merge, args, call->stream);
}

/* Shared bytes of a chained launch.  Its blocks come while those of the call ahead still leave, one
 * multiprocessor after another: no more may fit on one than it has of them when all are there. */
static uint32_t evenly_spread(const gpu_launch *part, uint32_t units) {
    uint64_t blocks = (uint64_t)part->grid_x * part->grid_y * part->grid_z;
    uint32_t share = blocks < 8u * (uint64_t)units ? (uint32_t)((blocks + units - 1u) / units) : 8u;
    uint32_t bytes = SPLIT_SHARE_BYTES(share);
    return bytes > part->shared ? bytes : part->shared;
}

/* Half a segment for a block of four heads: where that is a block for a third of the
 * multiprocessors or more, but for no more than there are, which leaves runs of one segment. */
static int takes_halves(const opreg_paged_attn_decode *p, uint32_t units) {
    int64_t blocks = 2 * segments_of(p) * p->tokens * p->kv_heads * chunks_of(p, 4);
    return symbol_of(p->head_dim, -3, p->kv_dtype) != UINT32_MAX &&
           p->q_heads / p->kv_heads > 2 && blocks <= (int64_t)units && 3 * blocks >= (int64_t)units;
}

opreg_status split_attention_run(void *state, const void *problem, const opreg_call *call) {
    const opreg_paged_attn_decode *p = problem;
    const gpu_plan *plan = state;
    uint32_t units = gpu_units(plan->device);
    int32_t heads = heads_of(p, units);
    uint32_t symbol = symbol_of(p->head_dim, heads, p->kv_dtype);
    const struct split_kernel *kernel = kernel_of(symbol);
    gpu_launch part = {symbol, 1, 1, 1, (uint32_t)p->head_dim, kernel->shared, plan->chained};
    split_args args;
    if (!caches_are_aligned(call)) { /* the same bits */
        return base_attention_run(state, problem, call);
    }
    if (p->tokens == 0) {
        return OPREG_OK;
    }
    args = args_of(p, call, plan->chained);
    args.run_shift = run_shift_of(p, heads, units * kernel->blocks);
    fill_parts(&args, p, call, 256 << args.run_shift);
    if (takes_halves(p, units)) {
        heads = 4;
        args.halves = 1;
        args.parts *= 2;
        part.symbol = symbol_of(p->head_dim, -3, p->kv_dtype);
        part.shared = kernel_of(part.symbol)->shared;
    }
    part.grid_x = (uint32_t)(p->kv_heads * chunks_of(p, heads));
    part.grid_y = args.parts > 1 ? (uint32_t)args.parts : 1u; /* a row of no keys too */
    part.grid_z = (uint32_t)p->tokens;
    if (plan->chained) {
        part.shared = evenly_spread(&part, units);
    }
    return run_both(plan, p, call, &part, &args);
}

opreg_status tensor_attention_supports(const opreg_device *dev, const void *problem,
                                       char reason[128]) {
    const opreg_paged_attn_decode *p = problem;
    if (p->kv_dtype == OPREG_F32) {
        snprintf(reason, 128, "cache dtype %u is not one of bf16 f16 f8_e4m3", p->kv_dtype);
        return OPREG_E_UNSUPPORTED;
    }
    return split_attention_supports(dev, problem, reason);
}

uint64_t tensor_attention_workspace(const opreg_device *dev, const void *problem) {
    return split_attention_workspace(dev, problem);
}

/* Keys that a cluster's waves take at a time. */
static int64_t keys_of_cluster(uint32_t cluster) {
    return (int64_t)cluster * TENSOR_WAVES(128, tensor_alone) * TENSOR_KEYS;
}

/* Blocks that share a row of keys: as many as are on the device at once and have keys.  Two alone on
 * their multiprocessors are faster than four where each wave has some groups. */
static uint32_t cluster_of(const opreg_paged_attn_decode *p, int64_t rows, uint32_t units) {
    uint32_t cluster = 1;
    while (cluster < TENSOR_MOST_CLUSTER && rows * cluster * 2 <= (int64_t)units &&
           keys_of_cluster(cluster) < p->max_seq_len) {
        cluster *= 2;
    }
    return cluster == 4 && 4 * keys_of_cluster(2) <= p->max_seq_len ? 2 : cluster;
}

/* A part is a group of keys for each of four waves; where that is more blocks than multiprocessors,
 * eight waves have a multiprocessor for themselves and one group or more.  Where those would leave
 * a third of the device idle, or rows are too many, it is split_attention. */
static opreg_status run_tensor_parts(void *state, const opreg_paged_attn_decode *p,
                                     const opreg_call *call) {
    const gpu_plan *plan = state;
    int64_t units = gpu_units(plan->device), heads = chunks_of(p, TENSOR_HEADS);
    int64_t rows = (int64_t)p->tokens * p->kv_heads * heads, len = p->max_seq_len, keys = 128;
    int aligned = caches_are_aligned(call);
    enum tensor_where where = aligned ? tensor_paired : tensor_unaligned;
    gpu_launch part = {0, (uint32_t)(p->kv_heads * heads), (uint32_t)p->tokens, 1, 0, 0,
                       plan->chained};
    split_args args = args_of(p, call, plan->chained);
    if (rows * ((len + keys - 1) / keys) > units) {
        where = aligned ? tensor_alone : tensor_alone_unaligned;
        do {
            keys *= 2;
        } while (keys < len && rows * ((len + keys - 1) / keys) > units);
        int64_t blocks = rows * ((len + keys - 1) / keys);
        if (blocks > units || 3 * blocks < 2 * units) {
            return split_attention_run(state, p, call);
        }
    }
    fill_parts(&args, p, call, (int32_t)keys);
    part.symbol = symbol_of(256, -1, p->kv_dtype) + (uint32_t)where;
    part.block = 32u * TENSOR_WAVES(256, where);
    part.shared = kernel_of(part.symbol)->shared;
    part.grid_z = args.parts > 1 ? (uint32_t)args.parts : 1u; /* a row of no keys too */
    return run_both(plan, p, call, &part, &args);
}

/* Where each wave has some groups, a block has its multiprocessor for itself and more tiles; else two
 * share it, which may be of two calls.  More than two blocks a cluster are not alone: some clusters
 * would not find a place.  Few rows of many keys leave half of the device idle: split_attention is
 * faster. */
opreg_status tensor_attention_run(void *state, const void *problem, const opreg_call *call) {
    const opreg_paged_attn_decode *p = problem;
    const gpu_plan *plan = state;
    uint32_t units = gpu_units(plan->device), heads = (uint32_t)chunks_of(p, TENSOR_HEADS);
    int64_t rows = (int64_t)p->tokens * p->kv_heads * heads;
    uint32_t cluster = cluster_of(p, rows, units), symbol;
    int several = 4 * keys_of_cluster(cluster) <= p->max_seq_len;
    enum tensor_where where;
    gpu_launch launch = {0, (uint32_t)p->kv_heads * heads, (uint32_t)p->tokens, cluster,
                         32u * TENSOR_WAVES(128, tensor_alone), 0, plan->chained};
    split_args args;
    if (p->tokens == 0) {
        return OPREG_OK;
    }
    if (p->head_dim == 256) {
        return run_tensor_parts(state, p, call);
    }
    if (cluster > 2 && several) {
        return split_attention_run(state, problem, call);
    }
    where = rows * cluster <= units && several ? tensor_alone : tensor_paired;
    where = caches_are_aligned(call) ? where : tensor_unaligned;
    symbol = symbol_of(p->head_dim, -1, p->kv_dtype) + (uint32_t)where;
    args = args_of(p, call, plan->chained);
    launch.symbol = symbol;
    launch.shared = kernel_of(symbol)->shared;
    return gpu_run_clusters(call->host, plan->device, &launch, cluster, &args, call->stream);
}
