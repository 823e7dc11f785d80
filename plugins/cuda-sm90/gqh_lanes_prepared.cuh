/* SPDX-License-Identifier: MIT
 * gqh_lanes_prepared.cuh - how a wave reads a superblock of four neighbouring rows (a quad) of a GQH format from
 * the layout rows32.
 *
 * Lane 4 * piece + row loads 32 weights, one of the eight pieces of a superblock, of one row; then the four
 * lanes of a piece exchange them, and each has eight weights of every row. */
#ifndef OPREG_SM90_GQH_LANES_PREPARED_CUH
#define OPREG_SM90_GQH_LANES_PREPARED_CUH

#include "gqh_lanes_formats.cuh"

/* Lanes of a piece have four words each of their rows; afterwards word i is word lane % 4 of row
 * i ^ lane % 4. */
DEVICE void turn_words(const uint32_t *w, uint32_t *out) {
    bool one = (lane_index() & 1u) != 0u, two = (lane_index() & 2u) != 0u;
    uint32_t own = one ? w[1] : w[0], own2 = one ? w[3] : w[2]; /* of words 0 and 1, of 2 and 3      */
    uint32_t next = wave_xor(one ? w[0] : w[1], 1), next2 = wave_xor(one ? w[2] : w[3], 1);
    out[0] = two ? own2 : own;
    out[1] = two ? next2 : next;
    out[2] = wave_xor(two ? own : own2, 2);
    out[3] = wave_xor(two ? next : next2, 2);
}

/* Where a lane's bytes of one row are, from the superblock's first byte on. */
struct prepared_place {
    uint32_t codes, ratio, scale;
};

/* Codes in two words a 32 weights, those of half a 16-byte piece. */
DEVICE uint32_t half_piece(uint32_t row, uint32_t piece) {
    return (piece >> 1) * 512u + row * 16u + (piece & 1u) * 8u;
}

template <int BYTES> struct prepared_quad {
    typedef prepared_place place;
    static const bool turned = true;
    static const int step = 32 * BYTES; /* from a superblock to the next                             */

    static __device__ __forceinline__ uint32_t first_row(const matmul_args &, uint32_t quad) {
        return quad * 4u;
    }
    static __device__ __forceinline__ uint32_t tile(const matmul_args &a, uint32_t quad) {
        return quad / 8u * 32u * (uint32_t)a.row_bytes;
    }
    static __device__ __forceinline__ uint32_t row(uint32_t quad) {
        return quad % 8u * 4u + (lane_index() & 3u);
    }
    static __device__ __forceinline__ uint32_t piece() { return lane_index() >> 2; }
    static __device__ __forceinline__ void load_two(const uint8_t *at, gqh_wire *w) {
        uint2 v = weights8(at);
        w->word[0] = v.x, w->word[1] = v.y;
    }
    static __device__ __forceinline__ void load_scale(const uint8_t *data, const prepared_place &p,
                                                      gqh_wire *w) {
        w->ratio = weights1(data + p.ratio);
        w->scale = weights1(data + p.scale);
    }
    static __device__ __forceinline__ void scales(const gqh_wire &w, const uint32_t *,
                                                  float tensor_scale, float *out) {
        ratio_scales<true>(w.ratio, w.scale, tensor_scale, out);
    }
};

struct gqh4_prepared : prepared_quad<137>, gqh4_levels {
    static __device__ __forceinline__ prepared_place aim(const matmul_args &a, uint32_t quad) {
        uint32_t t = tile(a, quad), r = row(quad);
        return {t + piece() * 512u + r * 16u, t + 128u * 32u + r * 8u + piece(), t + 136u * 32u + r};
    }
    static __device__ __forceinline__ void load(const matmul_args &, const uint8_t *data,
                                                const prepared_place &p, bool, gqh_wire *w) {
        uint4 v = weights16(data + p.codes);
        w->word[0] = v.x, w->word[1] = v.y, w->word[2] = v.z, w->word[3] = v.w;
        load_scale(data, p, w);
    }
    static __device__ __forceinline__ void codes(const gqh_wire &w, uint32_t, uint32_t *out) {
        turn_words(w.word, out);
    }
};

struct gqh3_prepared : prepared_quad<105>, gqh3_levels {
    static __device__ __forceinline__ prepared_place aim(const matmul_args &a, uint32_t quad) {
        uint32_t t = tile(a, quad), r = row(quad);
        return {t + half_piece(r, piece()), t + 96u * 32u + r * 8u + piece(), t + 104u * 32u + r};
    }
    static __device__ __forceinline__ void load(const matmul_args &, const uint8_t *data,
                                                const prepared_place &p, bool, gqh_wire *w) {
        uint32_t high = 64u * 32u + (piece() >> 2) * 512u + (piece() & 3u) * 4u -
                        half_piece(0u, piece());
        load_two(data + p.codes, w);
        w->word[2] = weights4(data + (p.codes + high));
        load_scale(data, p, w);
    }
    static __device__ __forceinline__ void codes(const gqh_wire &w, uint32_t, uint32_t *out) {
        uint32_t c[4];
#pragma unroll
        for (int h = 0; h < 2; h++) { /* of 16 weights: entries of pairs 0, 2, .. and of 1, 3, ..    */
            uint32_t low = w.word[h];
            uint32_t twice = __byte_perm(w.word[2], 0u, h ? 0x3322u : 0x1100u);
            uint32_t four = (twice & 0x000f000fu) | (twice >> 4 & 0x0f000f00u);
            uint32_t even = (low & 0x0f0f0f0fu) | (four << 4 & 0xf0f0f0f0u);
            uint32_t odd = (low >> 4 & 0x0f0f0f0fu) | (four << 2 & 0xf0f0f0f0u);
            c[2 * h] = __byte_perm(even, odd, 0x5140u);
            c[2 * h + 1] = __byte_perm(even, odd, 0x7362u);
        }
        turn_words(c, out);
    }
};

struct gqh2_h_prepared : prepared_quad<73>, gqh2_h_levels {
    static __device__ __forceinline__ prepared_place aim(const matmul_args &a, uint32_t quad) {
        uint32_t t = tile(a, quad), r = row(quad);
        return {t + half_piece(r, piece()), t + 64u * 32u + r * 8u + piece(), t + 72u * 32u + r};
    }
    static __device__ __forceinline__ void load(const matmul_args &, const uint8_t *data,
                                                const prepared_place &p, bool, gqh_wire *w) {
        load_two(data + p.codes, w);
        load_scale(data, p, w);
    }
    static __device__ __forceinline__ void codes(const gqh_wire &w, uint32_t, uint32_t *out) {
        uint32_t c[4] = {w.word[0], w.word[0] >> 16, w.word[1], w.word[1] >> 16};
        turn_words(c, out);
    }
};

/* Four numbers of codebook rows, then a word of sign numbers and the ratio. */
struct gqh2_c_prepared : prepared_quad<66>, gqh2_c_levels {
    static __device__ __forceinline__ prepared_place aim(const matmul_args &a, uint32_t quad) {
        uint32_t t = tile(a, quad), r = row(quad);
        return {t + half_piece(r, piece()), 0u, t + 64u * 32u + r * 2u};
    }
    static __device__ __forceinline__ void load(const matmul_args &, const uint8_t *data,
                                                const prepared_place &p, bool, gqh_wire *w) {
        load_two(data + p.codes, w);
        w->scale = weights2(data + p.scale);
    }
    static __device__ __forceinline__ void codes(const gqh_wire &w, uint32_t, uint32_t *out) {
        uint32_t c[4];
#pragma unroll
        for (uint32_t j = 0; j < 4u; j++) {
            c[j] = row_codes(w.word[0] >> 8u * j & 255u, w.word[1], j);
        }
        turn_words(c, out);
    }
    static __device__ __forceinline__ void scales(const gqh_wire &w, const uint32_t *codes, float,
                                                  float *out) {
        uint32_t d[4] = {w.scale, wave_xor(w.scale, 1)};
        d[2] = wave_xor(d[0], 2), d[3] = wave_xor(d[1], 2);
#pragma unroll
        for (int r = 0; r < 4; r++) {
            out[r] = half_to_float(d[r]) * ratio_of(codes[r] >> 28);
        }
    }
};

#endif /* OPREG_SM90_GQH_LANES_PREPARED_CUH */
