/* SPDX-License-Identifier: MIT
 * stored_stream.cuh - stored weight rows through shared memory, a team's tiles one after another, each
 * in stages that are copied while the stage before is used.
 *
 * A piece of 16 bytes is copied as it lies in global memory, so a row of a stage begins as many bytes
 * into its first piece as the stored row does; `loose` rows are moved to a whole piece instead.
 * Nothing outside the weight is read. */
#ifndef OPREG_SM90_STORED_STREAM_CUH
#define OPREG_SM90_STORED_STREAM_CUH

#include "stored_read.cuh"

/* Sixteen bytes, so many behind both addresses. */
template <uint32_t behind> DEVICE void copy_piece(uint32_t shared, const uint8_t *global) {
    asm volatile("cp.async.cg.shared.global [%0 + %2], [%1 + %2], 16;" ::"r"(shared),
                 "l"(__cvta_generic_to_global(global)), "n"(behind)
                 : "memory");
}

/* Each eighth piece from `at` on, behind both addresses, of a row of which `sure` bytes are there at
 * the least and that ends `end` bytes behind the first. */
template <uint32_t at, uint32_t sure, uint32_t most>
DEVICE void copy_pieces(uint32_t shared, const uint8_t *global, int32_t end) {
    if constexpr (at < most) {
        if (at + 112u < sure || (int32_t)at < end) {
            copy_piece<at>(shared, global);
        }
        copy_pieces<at + 128u, sure, most>(shared, global, end);
    }
}

DEVICE void end_copies_of_stage() { asm volatile("cp.async.commit_group;" ::: "memory"); }

/* Until less than `ahead` stages of this thread are on their way. */
DEVICE void wait_for_stage(uint32_t ahead) {
    if (ahead <= 1u) {
        asm volatile("cp.async.wait_group 0;" ::: "memory");
    } else if (ahead == 2u) {
        asm volatile("cp.async.wait_group 1;" ::: "memory");
    } else {
        asm volatile("cp.async.wait_group 2;" ::: "memory");
    }
}

/* The stages of one team in the order of use: along the rows of a tile, gate before up, then the next
 * tile.  A stage has GROUPS groups for each wave: wave, wave + WAVES, ..  Where WAVES is 1 a wave is a
 * stream of its own beside seven others of the same tiles.  Eight lanes copy a row.
 * SINGLE: a stage is all there is, and is free when the next one is asked for. */
template <class F, int WAVES, int GROUPS, bool SINGLE = false> struct stored_stream {
    static const uint32_t pitch = STORED_PITCH(F::bytes, WAVES * GROUPS);
    static const uint32_t stage_bytes = STORED_STAGE(F::bytes, WAVES * GROUPS);
    static const uint32_t piece = F::bytes * WAVES * GROUPS;
    static const uint32_t rows_apart = 4u * WAVES; /* of the rows that a thread copies */
    static const uint32_t EVERY = WAVES == 1 ? 8u : 1u; /* segments: eight waves share a row */

    const stored_args &args;
    uint8_t *stages;
    uint32_t tile, which, segment, slot; /* of the next stage to copy */
    uint32_t used;                       /* slot of the next stage to use */
    const uint8_t *source;               /* of the thread's first row in that stage */
    uint32_t rows;                       /* of its tile; 33 where the next tile has rows too */

    __device__ __forceinline__ stored_stream(const stored_args &args_, uint8_t *stages_,
                                             uint32_t first)
        : args(args_), stages(stages_), tile(first), which(0u), slot(0u), used(0u) {
        tile = first_segment() < segments() ? tile : args.tiles;
        segment = first_segment();
        find_source();
    }

    __device__ __forceinline__ uint32_t segments() const { /* of a row */
        return (args.groups + WAVES * GROUPS - 1u) / (WAVES * GROUPS);
    }
    /* The team's first of a row; it has every EVERYth. */
    __device__ __forceinline__ uint32_t first_segment() const {
        return WAVES == 1 ? wave_index() % EVERY : 0u;
    }
    __device__ __forceinline__ uint32_t team_thread() const {
        return thread_index() % (32u * WAVES);
    }
    __device__ __forceinline__ uint32_t first_row() const { return team_thread() / 8u; }
    __device__ __forceinline__ void barrier() const {
        if (WAVES == 1) {
            __syncwarp();
            return;
        }
        asm volatile("bar.sync %0, %1;" ::"r"(thread_index() / (32u * WAVES) + 1u),
                     "n"(32 * WAVES)
                     : "memory");
    }

    /* Bytes into its first piece at which a row of a stage begins. */
    __device__ __forceinline__ uint32_t shift_of(uint32_t from) const {
        return args.loose || STORED_ALIGN(F::bytes) == 16 ? 0u : from & 15u;
    }

    /* Sets source and rows. */
    __device__ __forceinline__ void find_source() {
        const matmul_args &a = args.base;
        int64_t left = a.n - (int64_t)tile * 32;
        rows = left < 33 ? (uint32_t)left : 33u;
        source = a.data[which] + ((int64_t)tile * 32 + first_row()) * a.row_bytes + segment * piece;
    }

    /* sure: bytes that the row has at the least. */
    template <uint32_t sure>
    __device__ __forceinline__ void copy_inside(uint8_t *to, const uint8_t *from,
                                                uint32_t length) const {
        uint32_t lane = thread_index() % 8u, shift = shift_of((uint32_t)(uintptr_t)from);
        uint32_t shared = (uint32_t)__cvta_generic_to_shared(to) + 16u * lane;
        const uint8_t *global = from - shift + 16u * lane;
        asm volatile("" : "+r"(shared), "+l"(global)); /* once, not for each piece */
        copy_pieces<0, sure, pitch>(shared, global, (int32_t)(shift + length - 16u * lane));
    }

    /* A first or last row of the weight: a piece that is not all inside goes by bytes. */
    __device__ __forceinline__ void copy_edge(uint8_t *to, const uint8_t *from, uint32_t length,
                                              const uint8_t *begin, const uint8_t *end) const {
        uint32_t lane = thread_index() % 8u, shift = shift_of((uint32_t)(uintptr_t)from);
        uint32_t all = shift + length, last = all - 1u & ~15u;
        const uint8_t *first = from - shift;
        bool begins = first < begin, ends = first + last + 16 > end;
#pragma unroll 1
        for (uint32_t at = 16u * lane; at < all; at += 128u) {
            if (!(begins && at == 0u) && !(ends && at == last)) {
                copy_piece<0>((uint32_t)__cvta_generic_to_shared(to) + at, first + at);
            }
        }
#pragma unroll 1
        for (uint32_t i = lane; i < 16u; i += 8u) {
            if (begins && i >= shift && i < all) {
                to[i] = first[i];
            }
            if (ends && last + i >= shift && last + i < all) {
                to[last + i] = first[last + i];
            }
        }
    }

    /* The same where rows are moved. */
    __device__ __forceinline__ void move_row(uint8_t *to, const uint8_t *from, uint32_t length,
                                             bool edge) const {
        uint32_t lane = thread_index() % 8u, odd = (uint32_t)(uintptr_t)from & 3u;
        if (!edge) {
#pragma unroll 4
            for (uint32_t at = 4u * lane; at < length; at += 32u) {
                const uint32_t *words = (const uint32_t *)(from + at - odd);
                *(uint32_t *)(to + at) = __funnelshift_r(words[0], words[1], 8u * odd);
            }
        } else {
#pragma unroll 4
            for (uint32_t at = lane; at < length; at += 8u) {
                to[at] = from[at];
            }
        }
    }

    /* Asks for the next stage, if there is one. */
    __device__ __forceinline__ void copy_next() {
        if (tile < args.tiles) {
            if (SINGLE) { /* not worth its registers in between */
                find_source();
            }
            const matmul_args &a = args.base;
            uint8_t *to = stages + slot * stage_bytes + first_row() * pitch;
            uint32_t left = (uint32_t)a.row_bytes - segment * piece;
            int64_t step = (int64_t)rows_apart * a.row_bytes;
            if (tile != 0u && rows == 33u && args.loose == 0u && left >= piece) {
#pragma unroll
                for (uint32_t i = 0; i < 32u / rows_apart; i++) {
                    copy_inside<piece>(to + i * rows_apart * pitch, source + i * step, piece);
                }
            } else {
                uint32_t length = left < piece ? left : piece;
                const uint8_t *begin = a.data[which], *end = begin + a.n * a.row_bytes;
#pragma unroll 1
                for (uint32_t i = 0; i < 32u / rows_apart; i++) {
                    uint32_t row = first_row() + i * rows_apart;
                    bool edge = (tile == 0u && row == 0u) || (row + 1u == rows && rows < 33u);
                    uint8_t *place = to + i * rows_apart * pitch;
                    const uint8_t *from = source + i * step;
                    if (row >= rows) {
                        break;
                    }
                    if (args.loose != 0u) {
                        move_row(place, from, length, edge);
                    } else if (edge) {
                        copy_edge(place, from, length, begin, end);
                    } else {
                        copy_inside<0>(place, from, length);
                    }
                }
            }
            slot = SINGLE || slot + 1u == args.depth ? 0u : slot + 1u;
            source += EVERY * piece;
            segment += EVERY;
            if (segment >= segments()) {
                segment = first_segment();
                which++;
                if (which == (a.pair ? 2u : 1u)) {
                    which = 0u;
                    tile += args.streams;
                }
                find_source();
            }
        }
        end_copies_of_stage();
    }

    __device__ __forceinline__ void start() {
        for (uint32_t i = 0; i < (SINGLE ? 1u : args.ahead); i++) {
            copy_next();
        }
    }

    /* Waits for the next stage to use; this lane's row of the wave's first group in it.  w, t, s: weight,
     * tile and segment of the stage. */
    __device__ __forceinline__ const uint8_t *next(uint32_t w, uint32_t t, uint32_t s) {
        uint32_t lane = lane_index(), wave = wave_index() % WAVES;
        const uint8_t *stage = stages + used * stage_bytes;
        uint32_t from = (uint32_t)(uintptr_t)args.base.data[w] + s * piece +
                        (32u * t + lane) * (uint32_t)args.base.row_bytes;
        used = SINGLE || used + 1u == args.depth ? 0u : used + 1u;
        wait_for_stage(SINGLE ? 1u : args.ahead);
        barrier();
        return stage + lane * pitch + shift_of(from) + wave * F::bytes;
    }
};

#endif /* OPREG_SM90_STORED_STREAM_CUH */
