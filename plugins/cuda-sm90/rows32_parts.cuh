/* SPDX-License-Identifier: MIT
 * rows32_parts.cuh - few rows of x, each against short rows of the layout rows32, in the canonical
 * order, with one block a multiprocessor and room for the next launch's beside it.
 *
 * The tiles of all entries are dealt evenly: a block has neighbouring ones, of two entries at the
 * most.  One wave has them copied to shared memory, as many as fit at once, before x is there;
 * teams of two waves take them in turn, two parts of eight rows a wave.  Lane (g, t) = (lane / 4,
 * lane % 4) has row g ^ 2t of each part and unit t of each group: so lanes that read 16 bytes in
 * one turn meet in no bank, units are added up in the lane, and two exchanges end the tree. */
#ifndef OPREG_SM90_ROWS32_PARTS_CUH
#define OPREG_SM90_ROWS32_PARTS_CUH

#include "rows32_part_dots.cuh"
#include "rows32_route.cuh"

/* One row of x: its weights and its output. */
struct parts_entry {
    int32_t expert, x_row, dst; /* expert: -1 where zeros are stored; dst: -1 where nothing is */
};

/* The block's tiles: `count`, from tile `first` of an entry on; those from `turn` on the next's. */
struct parts_block {
    uint32_t first, count, turn;
    parts_entry entry[2];
};

DEVICE parts_entry entry_of(const parts_block &b, bool second) {
    return {second ? b.entry[1].expert : b.entry[0].expert,
            second ? b.entry[1].x_row : b.entry[0].x_row, second ? b.entry[1].dst : b.entry[0].dst};
}

/* Of a grouped call; the whole wave, which asks for the route at once. */
DEVICE parts_block parts_of_route(const parts_args &args) {
    const route_view &r = args.base.route;
    parts_block b;
    uint32_t lane = lane_index(), groups = r.header->groups, entries = r.header->entries;
    int32_t start[2], expert[2], token[2], dst[2];
#pragma unroll
    for (uint32_t i = 0; i < 2u; i++) {
        uint32_t at = lane + 32u * i;
        start[i] = at <= r.cap_groups ? r.group_start[at] : 0;
        expert[i] = at < r.cap_groups ? r.group_expert[at] : -1;
        token[i] = at < r.cap_entries ? r.entry_token[at] : -1;
        dst[i] = at < r.cap_entries ? r.entry_dst[at] : -1;
    }
    groups = groups < r.cap_groups ? groups : r.cap_groups;
    entries = entries < r.cap_entries ? entries : r.cap_entries;
    uint32_t begin, end;
    deal_tiles(args, entries, &begin, &end);
    uint32_t e = begin / args.tiles;
    b.first = begin - e * args.tiles;
    b.count = end - begin;
    b.turn = args.tiles - b.first;
#pragma unroll
    for (uint32_t k = 0; k < 2u; k++, e++) {
        uint32_t low = wave_ballot(lane <= groups && start[0] <= (int32_t)e);
        uint32_t high = wave_ballot(lane + 32u <= groups && start[1] <= (int32_t)e);
        uint32_t g = (uint32_t)(count_bits(low) + count_bits(high)) - 1u;
        int32_t x = wave_read((uint32_t)(g < 32u ? expert[0] : expert[1]), (int)(g & 31u));
        int32_t to = wave_read((uint32_t)(e < 32u ? dst[0] : dst[1]), (int)(e & 31u));
        int32_t of = wave_read((uint32_t)(e < 32u ? token[0] : token[1]), (int)(e & 31u));
        bool there = e < entries && g < groups && to >= 0 && to < (int32_t)r.cap_entries;
        b.entry[k].dst = there ? to : -1;
        b.entry[k].expert = there && entry_lives(args.base, x, of) ? x : -1;
        b.entry[k].x_row = args.base.by_dst ? to : of;
    }
    return b;
}

DEVICE parts_block parts_of_row(const parts_args &args) {
    parts_block b;
    uint32_t end;
    deal_tiles(args, 1, &b.first, &end);
    b.count = end - b.first;
    b.turn = b.count;
    b.entry[0] = b.entry[1] = {0, 0, 0};
    return b;
}

/* The wave that brings tiles, in turn to the slots. */
template <class F>
DEVICE void bring_tiles(const parts_args &args, const parts_block &b, uint8_t *slots,
                        parts_barriers *barriers) {
    uint32_t bytes = args.groups * (32u * F::bytes), slot = 0, round = 0;
    for (uint32_t i = 0; i < b.count; i++) {
        bool second = i >= b.turn;
        int32_t expert = entry_of(b, second).expert;
        uint64_t *full = &barriers->full[round & 1u][slot];
        if (round > 0u) {
            barrier_wait(&barriers->empty[slot], (round - 1u) & 1u);
        }
        if (lane_index() == 0u) {
            if (expert >= 0) {
                const uint8_t *from = tile_of<F>(args.base, 0, expert,
                                                 second ? i - b.turn : b.first + i);
                barrier_expect(full, bytes);
                bulk_copy(slots + slot * bytes, from, bytes, full);
            } else {
                barrier_arrive(full);
            }
        }
        slot++;
        round += slot == args.slots;
        slot = slot == args.slots ? 0u : slot;
    }
}

/* Brings the block's rows of x to shared memory; all waves but one. */
template <class F>
DEVICE void bring_rows(const parts_args &args, const parts_block &b, uint8_t *rows) {
    const matmul_args &a = args.base;
    int64_t element = a.x_dtype == OPREG_F32 ? 4 : 2;
    bool aligned = (((uintptr_t)a.x | (uintptr_t)(a.x_stride * element)) & 15u) == 0u;
    uint32_t each = (args.groups + 1u) / 2u, needed = (b.turn < b.count ? 2u : 1u) * each;
#pragma unroll 1
    for (uint32_t i = wave_index(); i < needed; i += 2u * PARTS_TEAMS) {
        bool second = i >= each;
        uint32_t j = second ? i - each : i;
        parts_entry entry = entry_of(b, second);
        if (entry.expert >= 0) {
            part_x x = part_row(rows + (second ? PARTS_X(args.groups) : 0u), args.groups);
            float v[8];
            if (a.scales == 0) {
                load_part(a, entry.x_row, aligned, j, v);
            }
            keep_part<F>(a, entry.x_row, args.groups, j, v, x);
        }
    }
}

/* Grid (blocks): dense, one a multiprocessor, some without a tile; grouped, as many as there are tiles at
 * the most. */
template <class F, bool grouped> DEVICE void rows32_parts(const parts_args &args) {
    extern __shared__ __align__(128) uint8_t shared[];
    __shared__ parts_barriers barriers;
    const matmul_args &a = args.base;
    uint32_t bytes = args.groups * (32u * F::bytes), wave = wave_index(), lane = lane_index();
    uint8_t *rows = shared + args.slots * bytes;
    if (thread_index() < args.slots) {
        barrier_start(&barriers.full[0][thread_index()], 1);
        barrier_start(&barriers.full[1][thread_index()], 1);
        barrier_start(&barriers.empty[thread_index()], 2 * WAVE);
    }
    barriers_started();
    if (!grouped || args.early) {
        let_next_launch_start();
    }
    if (grouped && args.chained && !args.early) {
        wait_for_launch_ahead();
    }
    parts_block b = grouped ? parts_of_route(args) : parts_of_row(args);
    __syncthreads();
    if (wave == 2u * PARTS_TEAMS) {
        bring_tiles<F>(args, b, shared, &barriers);
        return;
    }
    if (args.chained) {
        wait_for_launch_ahead();
    }
    if (grouped && !args.early) {
        let_next_launch_start(); /* see rows32_route.cuh */
    }
    bring_rows<F>(args, b, rows);
    asm volatile("bar.sync 1, %0;" ::"n"(64 * PARTS_TEAMS) : "memory");
    part_lane<F> own;
    own.start(wave % 2u * 16u + ((lane >> 2) ^ 2u * (lane & 3u)));
    uint32_t team = wave / 2u, slot = team, round = 0, odd = lane & 1u;
    uint32_t teams = args.slots < PARTS_TEAMS ? args.slots : PARTS_TEAMS;
    uint32_t row = held(wave % 2u * 16u + odd * 8u + ((lane >> 2) ^ 2u * odd)); /* to be stored */
    for (uint32_t i = team; team < teams && i < b.count; i += teams) {
        bool second = i >= b.turn;
        parts_entry entry = entry_of(b, second);
        int64_t n = (int64_t)(second ? i - b.turn : b.first + i) * 32 + row;
        float value = 0.0f;
        /* the round ahead of it may still be on its way to another team: it has its own barrier */
        barrier_wait(&barriers.full[round & 1u][slot], round >> 1 & 1u);
        if (entry.expert >= 0) {
            uint32_t x = shared_address(rows) + (second ? PARTS_X(args.groups) : 0u);
            float sums[2];
            own.dialect = part_dot<F>::dialects ? a.side[0][entry.expert].dialect : 0u;
            part_sums<F>(own, shared_address(shared) + slot * bytes, x, args.groups, sums);
            value = odd ? sums[1] : sums[0];
        }
        barrier_arrive(&barriers.empty[slot]);
        if (!grouped && a.bias != 0 && n < a.n) {
            value = value + a.bias[n];
        }
        if ((lane & 2u) == 0u && entry.dst >= 0 && n < a.n) {
            store_output(a, entry.dst, n, value);
        }
        slot += teams;
        round += slot >= args.slots;
        slot -= slot >= args.slots ? args.slots : 0u;
    }
}

#endif /* OPREG_SM90_ROWS32_PARTS_CUH */
