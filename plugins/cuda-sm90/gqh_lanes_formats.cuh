/* SPDX-License-Identifier: MIT
 * gqh_lanes_formats.cuh - levels and scales of GQH weights for a lane that has eight weights of a
 * superblock.
 *
 * Levels come from a table in shared memory with 256 bytes for each byte of codes: the address is the
 * byte put between two others.  An entry's levels take 128 bytes in several copies, so that lanes which
 * look up different bytes never meet in a bank; gate and up have a half each. */
#ifndef OPREG_SM90_GQH_LANES_FORMATS_CUH
#define OPREG_SM90_GQH_LANES_FORMATS_CUH

#include "gqh_lanes_args.h"
#include "gqh_shared.cuh"

/* ---- loads -------------------------------------------------------------------------------------- */

/* What a lane loads of a superblock of four neighbouring rows. */
struct gqh_wire {
    uint32_t word[4], more[4], extra[4], ratio, scale, place;
};

/* ---- scales ------------------------------------------------------------------------------------- */

/* Bits 0 .. 3 over 15, rounded as gqh_ratio is. */
DEVICE float ratio_of(uint32_t code) {
    float r = float_of((code & 15u) | 0x4b000000u) - 0x1p23f;
    return CANONICAL_FMA(r, 0x1.111112p-4f, r * -0x1.dddddep-29f);
}

/* Scales of four rows, of formats with an e4m3 scale and a ratio of 16 weights: `ratio`, of four lanes,
 * and `scale` are of row lane % 4.  turned: value i is of row i ^ lane % 4. */
template <bool turned>
DEVICE void ratio_scales(uint32_t ratio, uint32_t scale, float tensor_scale, float *out) {
    uint32_t lane = lane_index(), mine = ratio | scale << 8, other = wave_xor(mine, 2), halves;
    uint32_t low = turned || !(lane & 2u) ? mine : other;
    uint32_t high = turned || !(lane & 2u) ? other : mine;
    uint32_t shift = (lane & 2u) * 2u;
    asm("{.reg .b16 a, b; mov.b32 {a, b}, %1; cvt.rn.f16x2.e4m3x2 %0, a;}"
        : "=r"(halves)
        : "r"(__byte_perm(low, high, 0x0051u)));
    float first = half_to_float(halves & 0xffffu) * tensor_scale * ratio_of(low >> shift);
    float second = half_to_float(halves >> 16) * tensor_scale * ratio_of(high >> shift);
    float first1 = wave_xor(first, 1), second1 = wave_xor(second, 1);
    bool odd = !turned && (lane & 1u) != 0u;
    out[0] = odd ? first1 : first, out[1] = odd ? first : first1;
    out[2] = odd ? second1 : second, out[3] = odd ? second : second1;
}

/* ---- levels ------------------------------------------------------------------------------------- */

/* What the lanes of a wave have of a tensor's levels. */
struct gqh_grid {
    static const bool both = false; /* whether an entry needs both halves of its 256 bytes           */
    static __device__ __forceinline__ float ask(const opreg_side *side) {
        return side->levels[lane_index() & 15u];
    }
};

/* An entry is two weights. */
struct gqh_pairs : gqh_grid {
    static const uint32_t copies = 16;
    static __device__ __forceinline__ void levels(uint32_t codes, uint32_t slot, float *out) {
#pragma unroll
        for (int j = 0; j < 4; j++) {
            float2 v = *(const float2 *)shared_at(gqh_entry(codes, j, slot));
            out[2 * j] = v.x, out[2 * j + 1] = v.y;
        }
    }
};

struct gqh4_levels : gqh_pairs {
    /* The 16 bytes that fill an entry's lower or upper half; the whole wave. */
    static __device__ __forceinline__ float4 fill(uint32_t entry, uint32_t, float level) {
        float first = wave_read(level, (int)(entry & 15u)), second = wave_read(level, (int)(entry >> 4));
        return make_float4(first, second, first, second);
    }
};

/* Bits 0 .. 3 of an entry's number are the lower bits of two codes, 4 and 5 their upper ones; 6 and 7
 * do not count. */
struct gqh3_levels : gqh_pairs {
    /* Eight weights' entries, of their lower bits in bytes 0 and 2 and eight upper ones. */
    static __device__ __forceinline__ uint32_t entries(uint32_t low, uint32_t high) {
        uint32_t twice = high | high << 12;
        return ((low | low << 4) & 0x0f0f0f0fu) | ((twice << 4 | twice << 10) & 0x30303030u);
    }
    static __device__ __forceinline__ float4 fill(uint32_t entry, uint32_t, float level) {
        float first = wave_read(level, (int)((entry & 3u) | (entry >> 2 & 4u)));
        float second = wave_read(level, (int)((entry >> 2 & 3u) | (entry >> 3 & 4u)));
        return make_float4(first, second, first, second);
    }
};

/* An entry is four weights, of which codes have two. */
struct gqh2_h_levels : gqh_grid {
    static const uint32_t copies = 8;
    static __device__ __forceinline__ float4 fill(uint32_t entry, uint32_t, float level) {
        return make_float4(wave_read(level, (int)(entry & 3u)), wave_read(level, (int)(entry >> 2 & 3u)),
                           wave_read(level, (int)(entry >> 4 & 3u)), wave_read(level, (int)(entry >> 6)));
    }
    static __device__ __forceinline__ void levels(uint32_t codes, uint32_t slot, float *out) {
#pragma unroll
        for (int j = 0; j < 2; j++) {
            float4 v = *(const float4 *)shared_at(gqh_entry(codes, j, slot));
            out[4 * j] = v.x, out[4 * j + 1] = v.y, out[4 * j + 2] = v.z, out[4 * j + 3] = v.w;
        }
    }
};

/* Codes: the number of a codebook row, in bits 8 .. 14 that of the signs, in 28 .. 31 the ratio.  An
 * entry is the eight magnitudes of a row, four in each half of its bytes. */
struct gqh2_c_levels {
    static const bool both = true;
    static const uint32_t copies = 8;
    /* Of the number and of the word of its 32 weights, of which it is the i-th. */
    static __device__ __forceinline__ uint32_t row_codes(uint32_t number, uint32_t word, uint32_t i) {
        return number | (word >> 7u * i & 127u) << 8 | (word & 0xf0000000u);
    }
    static __device__ __forceinline__ float ask(const opreg_side *) { return 0.0f; }
    static __device__ __forceinline__ float4 fill(uint32_t entry, uint32_t upper, float) {
        return codebook_half(entry, upper);
    }
    static __device__ __forceinline__ void levels(uint32_t codes, uint32_t slot, float *out) {
        signed_levels(gqh_entry(codes, 0, slot), codes >> 8 & 127u, out);
    }
};

#endif /* OPREG_SM90_GQH_LANES_FORMATS_CUH */
