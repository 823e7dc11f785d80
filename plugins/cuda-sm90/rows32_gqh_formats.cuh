/* SPDX-License-Identifier: MIT
 * rows32_gqh_formats.cuh - how a lane reads 32 weights of a GQH format from the layout rows32, and
 * their levels from a table in shared memory.
 *
 * The table has 256 bytes for each byte of codes, in several copies, so that lanes which look up
 * different bytes never meet in a bank; the address is the byte put between two others.  Below, piece
 * is one of the eight runs of 32 weights of a superblock. */
#ifndef OPREG_SM90_ROWS32_GQH_FORMATS_CUH
#define OPREG_SM90_ROWS32_GQH_FORMATS_CUH

#include "formats/scales.h"
#include "gqh_shared.cuh"
#include "formats/tables/gqh_ratio.h"
#include "rows32_gqh_args.h"

/* 32 weights of a row as they are loaded: codes, the two ratios, the superblock's scale. */
struct gqh_wire {
    uint32_t codes[4], ratio, scale;
};

/* Where a lane's bytes of one row are, from the weight's first byte on. */
struct gqh_place {
    uint32_t codes, ratio, scale;
};

/* What GQH4, GQH3 and GQH2_H share; entries of level pairs or quads take the lower 128 bytes, pairs of
 * ratios the upper. */
struct gqh_ratios {
    static __device__ __forceinline__ void load_scale(const uint8_t *data, const gqh_place &p,
                                                      gqh_wire *w) {
        w->ratio = weights1(data + p.ratio);
        w->scale = weights1(data + p.scale);
    }
    static __device__ __forceinline__ float scale_entry(uint32_t code, const opreg_side *side) {
        return e4m3_signed(code) * side->tensor_scale;
    }
    /* Scales of 16 weights each. */
    static __device__ __forceinline__ float2 scales(const gqh_wire &w, const float *front) {
        float d = front[w.scale];
        uint32_t slot = GQH_TABLE + 128u + (lane_index() & 15u) * 8u;
        float2 ratio = *(const float2 *)shared_at(gqh_entry(w.ratio, 0, slot));
        return make_float2(d * ratio.x, d * ratio.y);
    }
    static __device__ __forceinline__ float4 ratios(uint32_t entry) {
        float low = gqh_ratio[entry & 15u], high = gqh_ratio[entry >> 4];
        return make_float4(low, high, low, high);
    }
};

/* Codes in two words a 32 weights, those of half a 16-byte piece. */
DEVICE uint32_t half_piece(uint32_t row, uint32_t piece) {
    return (piece >> 1) * 512u + row * 16u + (piece & 1u) * 8u;
}

DEVICE void load_two(const uint8_t *at, gqh_wire *w) {
    uint2 v = weights8(at);
    w->codes[0] = v.x, w->codes[1] = v.y;
}

/* A byte is two codes. */
struct rows_gqh4 : gqh_ratios {
    static const int bytes = 137;
    static __device__ __forceinline__ gqh_place place(uint32_t tile, uint32_t row, uint32_t piece) {
        return {tile + piece * 512u + row * 16u, tile + 128u * 32u + row * 8u + piece,
                tile + 136u * 32u + row};
    }
    static __device__ __forceinline__ void load(const uint8_t *data, const gqh_place &p, uint32_t,
                                                gqh_wire *w) {
        uint4 v = weights16(data + p.codes);
        w->codes[0] = v.x, w->codes[1] = v.y, w->codes[2] = v.z, w->codes[3] = v.w;
        load_scale(data, p, w);
    }
    /* The 16 bytes that fill an entry's lower or upper half. */
    static __device__ __forceinline__ float4 fill(uint32_t entry, uint32_t upper,
                                                  const opreg_side *side) {
        float first = side->levels[entry & 15u], second = side->levels[entry >> 4];
        return upper ? ratios(entry) : make_float4(first, second, first, second);
    }
    static __device__ __forceinline__ void arrange(gqh_wire *) {}
    /* Levels of weights 8i .. 8i + 7, after arrange. */
    static __device__ __forceinline__ void levels(const gqh_wire &w, int i, float *out) {
        uint32_t slot = GQH_TABLE + (lane_index() & 15u) * 8u;
#pragma unroll
        for (int j = 0; j < 4; j++) {
            float2 v = *(const float2 *)shared_at(gqh_entry(w.codes[i], j, slot));
            out[2 * j] = v.x, out[2 * j + 1] = v.y;
        }
    }
};

/* Bits 0 .. 3 of an entry's number are the lower bits of two codes, 4 and 5 their upper ones; 6 and 7
 * do not count. */
struct rows_gqh3 : gqh_ratios {
    static const int bytes = 105;
    static __device__ __forceinline__ gqh_place place(uint32_t tile, uint32_t row, uint32_t piece) {
        return {tile + half_piece(row, piece), tile + 96u * 32u + row * 8u + piece,
                tile + 104u * 32u + row};
    }
    static __device__ __forceinline__ void load(const uint8_t *data, const gqh_place &p,
                                                uint32_t piece, gqh_wire *w) {
        uint32_t high = 64u * 32u + (piece >> 2) * 512u + (piece & 3u) * 4u - half_piece(0u, piece);
        load_two(data + p.codes, w);
        w->codes[2] = weights4(data + (p.codes + high));
        load_scale(data, p, w);
    }
    static __device__ __forceinline__ float4 fill(uint32_t entry, uint32_t upper,
                                                  const opreg_side *side) {
        float first = side->levels[(entry & 3u) | (entry >> 2 & 4u)];
        float second = side->levels[(entry >> 2 & 3u) | (entry >> 3 & 4u)];
        return upper ? ratios(entry) : make_float4(first, second, first, second);
    }
    /* Of 16 weights, words 2h and 2h + 1: bytes of weights 4j and 4j + 1, of 4j + 2 and 4j + 3. */
    static __device__ __forceinline__ void arrange(gqh_wire *w) {
        uint32_t low[2] = {w->codes[0], w->codes[1]}, high = w->codes[2];
#pragma unroll
        for (int h = 0; h < 2; h++) {
            uint32_t twice = __byte_perm(high, 0u, h ? 0x3322u : 0x1100u);
            uint32_t four = (twice & 0x000f000fu) | (twice >> 4 & 0x0f000f00u);
            w->codes[2 * h] = (low[h] & 0x0f0f0f0fu) | (four << 4 & 0xf0f0f0f0u);
            w->codes[2 * h + 1] = (low[h] >> 4 & 0x0f0f0f0fu) | (four << 2 & 0xf0f0f0f0u);
        }
    }
    static __device__ __forceinline__ void levels(const gqh_wire &w, int i, float *out) {
        uint32_t slot = GQH_TABLE + (lane_index() & 15u) * 8u;
#pragma unroll
        for (int j = 0; j < 4; j++) {
            uint32_t word = w.codes[i / 2 * 2 + (j & 1)];
            float2 v = *(const float2 *)shared_at(gqh_entry(word, (i & 1) * 2 + j / 2, slot));
            out[2 * j] = v.x, out[2 * j + 1] = v.y;
        }
    }
};

/* A byte is four codes. */
struct rows_gqh2_h : gqh_ratios {
    static const int bytes = 73;
    static __device__ __forceinline__ gqh_place place(uint32_t tile, uint32_t row, uint32_t piece) {
        return {tile + half_piece(row, piece), tile + 64u * 32u + row * 8u + piece,
                tile + 72u * 32u + row};
    }
    static __device__ __forceinline__ void load(const uint8_t *data, const gqh_place &p, uint32_t,
                                                gqh_wire *w) {
        load_two(data + p.codes, w);
        load_scale(data, p, w);
    }
    static __device__ __forceinline__ float4 fill(uint32_t entry, uint32_t upper,
                                                  const opreg_side *side) {
        return upper ? ratios(entry)
                     : make_float4(side->levels[entry & 3u], side->levels[entry >> 2 & 3u],
                                   side->levels[entry >> 4 & 3u], side->levels[entry >> 6]);
    }
    static __device__ __forceinline__ void arrange(gqh_wire *) {}
    static __device__ __forceinline__ void levels(const gqh_wire &w, int i, float *out) {
        uint32_t slot = GQH_TABLE + (lane_index() & 7u) * 16u;
#pragma unroll
        for (int j = 0; j < 2; j++) {
            float4 v =
                *(const float4 *)shared_at(gqh_entry(w.codes[i / 2], (i & 1) * 2 + j, slot));
            out[4 * j] = v.x, out[4 * j + 1] = v.y, out[4 * j + 2] = v.z, out[4 * j + 3] = v.w;
        }
    }
};

/* Four numbers of codebook rows, then a word of sign indices and the ratio.  A table entry is the
 * magnitudes of a row, its halves 128 bytes apart. */
struct rows_gqh2_c {
    static const int bytes = 66;
    static __device__ __forceinline__ gqh_place place(uint32_t tile, uint32_t row, uint32_t piece) {
        return {tile + half_piece(row, piece), 0u, tile + 64u * 32u + row * 2u};
    }
    static __device__ __forceinline__ void load(const uint8_t *data, const gqh_place &p, uint32_t,
                                                gqh_wire *w) {
        load_two(data + p.codes, w);
        w->scale = weights2(data + p.scale);
    }
    static __device__ __forceinline__ float scale_entry(uint32_t, const opreg_side *) {
        return 0.0f;
    }
    static __device__ __forceinline__ float2 scales(const gqh_wire &w, const float *front) {
        float scale = half_to_float(w.scale) * front[GQH_SCALES + (w.codes[1] >> 28)];
        return make_float2(scale, scale);
    }
    static __device__ __forceinline__ float4 fill(uint32_t entry, uint32_t upper,
                                                  const opreg_side *) {
        return codebook_half(entry, upper);
    }
    static __device__ __forceinline__ void arrange(gqh_wire *) {}
    static __device__ __forceinline__ void levels(const gqh_wire &w, int i, float *out) {
        uint32_t at = gqh_entry(w.codes[0], i, GQH_TABLE + (lane_index() & 7u) * 16u);
        signed_levels(at, w.codes[1] >> 7 * i & 127u, out);
    }
};

#endif /* OPREG_SM90_ROWS32_GQH_FORMATS_CUH */
