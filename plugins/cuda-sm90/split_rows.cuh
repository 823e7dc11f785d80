/* SPDX-License-Identifier: MIT
 * split_rows.cuh - which segments, heads and keys a block of split attention has, and where the
 * rows of a position lie. */
#ifndef OPREG_SM90_SPLIT_ROWS_CUH
#define OPREG_SM90_SPLIT_ROWS_CUH

#include "attention.cuh"
#include "split_args.h"
#include "tensor.cuh"

/* What a block works on: grid (KV heads * chunks of HEADS query heads, parts, tokens). */
struct split_place {
    visible_keys keys;
    int32_t token, part, kv_head, first_head, last_head; /* last_head: of the KV head's group */
    int32_t run, first, end; /* segments: of the run, with keys           */
};

/* False where the run has no key. */
template <int HEADS> DEVICE bool find_place(const split_args &args, split_place *out) {
    const attention_args &a = args.base;
    int32_t group = a.q_heads / a.kv_heads, chunks = (group + HEADS - 1) / HEADS;
    out->token = (int32_t)block_z();
    out->part = (int32_t)block_y();
    out->kv_head = (int32_t)block_x() / chunks;
    out->first_head = out->kv_head * group + (int32_t)block_x() % chunks * HEADS;
    out->last_head = out->kv_head * group + group - 1;
    out->keys = keys_of_token(a, out->token);
    out->run = out->part << args.run_shift;
    int32_t from = out->keys.begin / CANONICAL_SEGMENT;
    int32_t to = (out->keys.end + CANONICAL_SEGMENT - 1) / CANONICAL_SEGMENT;
    out->first = out->run > from ? out->run : from;
    out->end = out->run + (1 << args.run_shift);
    out->end = out->end < to ? out->end : to;
    return out->first < out->end;
}

/* Waits for the launch ahead where the first `count` positions of the run have a row of the
 * request's own queries, which that launch may write. */
DEVICE void wait_where_new(const split_args &args, const split_place &place, int32_t count) {
    int32_t end = place.first * CANONICAL_SEGMENT + count;
    if (args.chained != 0u && end > place.keys.end - args.base.max_q) {
        wait_for_launch_ahead();
    }
}

/* The page of a position that the token sees, or -1. */
DEVICE int32_t page_in_view(const split_args &args, const visible_keys &keys, int32_t position) {
    if (position < keys.begin || position >= keys.end) {
        return -1;
    }
    int32_t index =
        args.block_shift >= 0 ? position >> args.block_shift : position / args.base.block_size;
    if (index >= keys.pages) {
        return -1;
    }
    int32_t page = keys.table[index];
    return page >= 0 && page < args.base.num_blocks ? page : -1;
}

/* Where the rows of K and V of a position lie in their caches, in 8 bytes. */
struct row_offsets {
    uint32_t k, v;
};

DEVICE row_offsets rows_at(const split_args &args, int32_t kv_head, int32_t position,
                           int32_t page) {
    uint32_t at = (uint32_t)position, of = page < 0 ? 0u : (uint32_t)page;
    uint32_t slot = args.block_shift >= 0 ? at & (uint32_t)(args.base.block_size - 1)
                                          : at % (uint32_t)args.base.block_size;
    uint32_t head = (uint32_t)kv_head;
    return {of * args.k_block8 + slot * args.k_slot8 + head * args.k_head8,
            of * args.v_block8 + slot * args.v_slot8 + head * args.v_head8};
}

/* Starts a copy of BYTES to shared memory; zeros where `there` is false, and nothing is read. */
template <int BYTES> DEVICE void copy_later(uint32_t to, const uint8_t *from, bool there) {
    static_assert(BYTES == 8 || BYTES == 16);
    int bytes = there ? BYTES : 0;
    if constexpr (BYTES == 16) {
        asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(to),
                     "l"(__cvta_generic_to_global(from)), "r"(bytes)
                     : "memory");
    } else {
        asm volatile("cp.async.ca.shared.global.L2::128B [%0], [%1], 8, %2;" ::"r"(to),
                     "l"(__cvta_generic_to_global(from)), "r"(bytes)
                     : "memory");
    }
}
/* What was started since the last call is one group. */
DEVICE void close_copies() {
    asm volatile("cp.async.commit_group;" ::: "memory");
}
/* All groups of this thread but the `open` latest have arrived. */
template <int open> DEVICE void wait_for_copies() {
    asm volatile("cp.async.wait_group %0;" ::"n"(open) : "memory");
}

#endif /* OPREG_SM90_SPLIT_ROWS_CUH */
