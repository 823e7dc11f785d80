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

/* Those of each eighth piece from `at` on, behind both addresses, that begin below `end`. */
template <uint32_t at, uint32_t most> DEVICE void copy_pieces(uint32_t shared, const uint8_t *global,
                                                              int32_t end) {
    if constexpr (at < most) {
        if ((int32_t)at < end) {
            copy_piece<at>(shared, global);
        }
        copy_pieces<at + 128u, most>(shared, global, end);
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
 * tile.  Eight lanes copy a row. */
template <class F, int WAVES> struct stored_stream {
    static const int stage_bytes = STORED_STAGE(F::bytes, WAVES);
    static const uint32_t pitch = STORED_PITCH(F::bytes, WAVES), piece = F::bytes * WAVES;
    static const uint32_t rows_apart = 4u * WAVES; /* of the rows that a thread copies */

    const stored_args &args;
    uint8_t *stages;
    uint32_t tiles, apart, segments; /* apart: from one tile of the team to the next */
    uint32_t tile, which, segment, slot; /* of the next stage to copy */
    uint32_t used;                       /* slot of the next stage to use */
    const uint8_t *source;               /* of the thread's first row in that stage */
    uint32_t rows;                       /* of its tile; 33 where the next tile has rows too */

    __device__ __forceinline__ stored_stream(const stored_args &args_, uint8_t *stages_,
                                             uint32_t first, uint32_t apart_)
        : args(args_), stages(stages_), tiles((uint32_t)((args_.base.n + 31) / 32)), apart(apart_),
          segments((args_.groups + WAVES - 1u) / WAVES), tile(first), which(0u), segment(0u),
          slot(0u), used(0u), rows(0u) {
        begin_tile();
    }

    __device__ __forceinline__ uint32_t team_thread() const {
        return thread_index() % (32u * WAVES);
    }
    __device__ __forceinline__ uint32_t first_row() const { return team_thread() / 8u; }
    __device__ __forceinline__ void barrier() const {
        asm volatile("bar.sync %0, %1;" ::"r"(thread_index() / (32u * WAVES) + 1u),
                     "n"(32 * WAVES)
                     : "memory");
    }

    /* Bytes into its first piece at which a row of a stage begins. */
    __device__ __forceinline__ uint32_t shift_of(uint32_t from) const {
        return args.loose || STORED_ALIGN(F::bytes) == 16 ? 0u : from & 15u;
    }

    __device__ __forceinline__ void begin_tile() {
        const matmul_args &a = args.base;
        int64_t left = a.n - (int64_t)tile * 32;
        rows = left < 33 ? (uint32_t)left : 33u;
        source = a.data[which] + ((int64_t)tile * 32 + first_row()) * a.row_bytes;
    }

    /* A piece that is not all inside the weight goes by bytes. */
    __device__ __forceinline__ void copy_row(uint8_t *to, const uint8_t *from, uint32_t length,
                                             bool is_first, bool is_last) const {
        uint32_t lane = thread_index() % 8u, shift = shift_of((uint32_t)(uintptr_t)from);
        uint32_t all = shift + length, whole = all;
        const uint8_t *first = from - shift;
        bool ends = is_last && segment + 1u == segments && all % 16u != 0u;
        bool begins = is_first && segment == 0u && shift != 0u;
        if (ends) {
            whole = all & ~15u;
        }
        uint32_t shared = (uint32_t)__cvta_generic_to_shared(to) + 16u * lane;
        const uint8_t *global = first + 16u * lane;
        int32_t end = (int32_t)(whole - 16u * lane);
        asm volatile("" : "+r"(shared), "+l"(global)); /* once, not for each piece */
        if (!begins || lane != 0u) {
            copy_pieces<0, 128>(shared, global, end);
        }
        copy_pieces<128, pitch>(shared, global, end);
        if (begins || ends) {
#pragma unroll 1
            for (uint32_t i = lane; i < 16u; i += 8u) {
                if (begins && i >= shift && i < all) {
                    to[i] = first[i];
                }
                if (ends && whole + i >= shift && whole + i < all) {
                    to[whole + i] = first[whole + i];
                }
            }
        }
    }

    /* The same where rows are moved. */
    __device__ __forceinline__ void move_row(uint8_t *to, const uint8_t *from, uint32_t length,
                                             bool is_first, bool is_last) const {
        uint32_t lane = thread_index() % 8u, odd = (uint32_t)(uintptr_t)from & 3u;
        if (!is_first && !is_last) {
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
        if (tile < tiles) {
            const matmul_args &a = args.base;
            uint32_t left = (uint32_t)a.row_bytes - segment * piece;
            uint32_t length = left < piece ? left : piece;
            uint8_t *to = stages + slot * stage_bytes + first_row() * pitch;
            const uint8_t *from = source;
#pragma unroll
            for (uint32_t i = 0; i < 32u; i += rows_apart) {
                uint32_t row = first_row() + i;
                if (row < rows) {
                    bool is_first = tile == 0u && row == 0u, is_last = row + 1u == rows && rows < 33u;
                    if (args.loose) {
                        move_row(to + i * pitch, from, length, is_first, is_last);
                    } else {
                        copy_row(to + i * pitch, from, length, is_first, is_last);
                    }
                }
                from += (int64_t)rows_apart * a.row_bytes;
            }
            slot = slot + 1u == args.depth ? 0u : slot + 1u;
            source += piece;
            segment++;
            if (segment == segments) {
                segment = 0u;
                which++;
                if (which == (a.pair ? 2u : 1u)) {
                    which = 0u;
                    tile += apart;
                }
                begin_tile();
            }
        }
        end_copies_of_stage();
    }

    __device__ __forceinline__ void start() {
        for (uint32_t i = 0; i < args.ahead; i++) {
            copy_next();
        }
    }

    /* Waits for the next stage to use; this lane's row of the wave's group in it.  w, t, s: weight,
     * tile and segment of the stage. */
    __device__ __forceinline__ const uint8_t *next(uint32_t w, uint32_t t, uint32_t s) {
        uint32_t lane = lane_index(), wave = wave_index() % WAVES;
        const uint8_t *stage = stages + used * stage_bytes;
        uint32_t from = (uint32_t)(uintptr_t)args.base.data[w] + s * piece +
                        (32u * t + lane) * (uint32_t)args.base.row_bytes;
        used = used + 1u == args.depth ? 0u : used + 1u;
        wait_for_stage(args.ahead);
        barrier();
        return stage + lane * pitch + shift_of(from) + wave * F::bytes;
    }
};

#endif /* OPREG_SM90_STORED_STREAM_CUH */
