/* SPDX-License-Identifier: MIT
 * gqh_lanes_stored.cuh - how a wave reads a superblock of four neighbouring rows (a quad) of a GQH format as it is
 * stored, at any address.
 *
 * A superblock's codes are neighbours, so each lane loads those of its eight weights.  Four bytes come as the
 * whole words around them: ahead of a superblock's codes there are scales, and the weight's last
 * superblock goes by bytes, so nothing outside the weight is read.  The last quad ends with the last row;
 * rows that the quad before it has too are not stored again. */
#ifndef OPREG_SM90_GQH_LANES_STORED_CUH
#define OPREG_SM90_GQH_LANES_STORED_CUH

#include "gqh_lanes_formats.cuh"

/* From the superblock of the weight's first row on: of the quad's first row, and of its row lane % 4. */
struct stored_place {
    uint32_t row, head;
    bool last; /* whether the weight ends with the quad                                              */
};

template <int BYTES> struct stored_quad {
    typedef stored_place place;
    static const bool turned = false;
    static const int step = BYTES;

    static __device__ __forceinline__ uint32_t first_row(const matmul_args &a, uint32_t quad) {
        uint32_t last = (uint32_t)a.n - 4u;
        return quad * 4u < last ? quad * 4u : last;
    }
    static __device__ __forceinline__ stored_place aim(const matmul_args &a, uint32_t quad) {
        uint32_t row_bytes = (uint32_t)a.row_bytes, row = first_row(a, quad) * row_bytes;
        return {row, row + (lane_index() & 3u) * row_bytes, quad * 4u + 4u >= (uint32_t)a.n};
    }
    static __device__ __forceinline__ void load_scale(const uint8_t *data, const stored_place &p,
                                                      gqh_wire *w) {
        const uint8_t *head = data + p.head;
        w->ratio = weights1(head + 1 + (lane_index() >> 2));
        w->scale = weights1(head);
    }
    static __device__ __forceinline__ void scales(const gqh_wire &w, const uint32_t *,
                                                  float tensor_scale, float *out) {
        ratio_scales<false>(w.ratio, w.scale, tensor_scale, out);
    }
    /* The words around four bytes of each row, which are `ahead` behind the superblock of the first; end:
     * of the weight's last superblock. */
    static __device__ __forceinline__ void load_words(const uint8_t *row, uint32_t ahead,
                                                      uint32_t row_bytes, bool end, gqh_wire *w) {
        const uint8_t *at = row + ahead;
        w->place = (uint32_t)(uintptr_t)at;
#pragma unroll
        for (uint32_t r = 0; r < 4u; r++, at += row_bytes) {
            const uint8_t *word = (const uint8_t *)((uintptr_t)at & ~(uintptr_t)3);
            w->word[r] = weights4(word);
            if (!end) {
                w->more[r] = weights4(word + 4);
            }
        }
        if (end) {
            const uint8_t *behind = row + 3u * row_bytes + BYTES;
            at = row + ahead;
#pragma unroll
            for (uint32_t r = 0; r < 4u; r++, at += row_bytes) {
                const uint8_t *word = (const uint8_t *)((uintptr_t)at & ~(uintptr_t)3) + 4;
                w->more[r] = 0u;
#pragma unroll 1
                for (uint32_t i = 0; i < 4u && word + i < behind; i++) {
                    w->more[r] |= weights1(word + i) << 8u * i;
                }
            }
        }
    }
    static __device__ __forceinline__ uint32_t four_bytes(const gqh_wire &w, uint32_t row_bytes,
                                                          uint32_t r) {
        return __funnelshift_r(w.word[r], w.more[r], 8u * (w.place + r * row_bytes));
    }
};

struct gqh4_stored : stored_quad<137>, gqh4_levels {
    static __device__ __forceinline__ void load(const matmul_args &a, const uint8_t *data,
                                                const stored_place &p, bool end, gqh_wire *w) {
        load_scale(data, p, w);
        load_words(data + p.row, 9u + 4u * lane_index(), (uint32_t)a.row_bytes, end && p.last, w);
    }
    static __device__ __forceinline__ void codes(const gqh_wire &w, uint32_t row_bytes,
                                                 uint32_t *out) {
#pragma unroll
        for (uint32_t r = 0; r < 4u; r++) {
            out[r] = four_bytes(w, row_bytes, r);
        }
    }
};

struct gqh3_stored : stored_quad<105>, gqh3_levels {
    static __device__ __forceinline__ void load(const matmul_args &a, const uint8_t *data,
                                                const stored_place &p, bool, gqh_wire *w) {
        const uint8_t *low = data + p.row + 9u + 2u * lane_index();
        const uint8_t *high = data + p.row + 73u + lane_index();
        load_scale(data, p, w);
#pragma unroll
        for (uint32_t r = 0; r < 4u; r++, low += (uint32_t)a.row_bytes, high += (uint32_t)a.row_bytes) {
            w->word[r] = weights1(low);
            w->more[r] = weights1(low + 1);
            w->extra[r] = weights1(high);
        }
    }
    static __device__ __forceinline__ void codes(const gqh_wire &w, uint32_t, uint32_t *out) {
#pragma unroll
        for (uint32_t r = 0; r < 4u; r++) {
            out[r] = entries(w.word[r] | w.more[r] << 16, w.extra[r]);
        }
    }
};

struct gqh2_h_stored : stored_quad<73>, gqh2_h_levels {
    static __device__ __forceinline__ void load(const matmul_args &a, const uint8_t *data,
                                                const stored_place &p, bool, gqh_wire *w) {
        const uint8_t *at = data + p.row + 9u + 2u * lane_index();
        load_scale(data, p, w);
#pragma unroll
        for (uint32_t r = 0; r < 4u; r++, at += (uint32_t)a.row_bytes) {
            w->word[r] = weights1(at);
            w->more[r] = weights1(at + 1);
        }
    }
    static __device__ __forceinline__ void codes(const gqh_wire &w, uint32_t, uint32_t *out) {
#pragma unroll
        for (uint32_t r = 0; r < 4u; r++) {
            out[r] = w.word[r] | w.more[r] << 8;
        }
    }
};

/* Four numbers of codebook rows, then a word of sign numbers and the ratio, for each 32 weights. */
struct gqh2_c_stored : stored_quad<66>, gqh2_c_levels {
    static __device__ __forceinline__ void load(const matmul_args &a, const uint8_t *data,
                                                const stored_place &p, bool end, gqh_wire *w) {
        uint32_t group = 2u + (lane_index() >> 2) * 8u;
        const uint8_t *at = data + p.row + group + (lane_index() & 3u);
        w->scale = weights1(data + p.head);
        w->ratio = weights1(data + p.head + 1u); /* the scale's upper byte                          */
#pragma unroll
        for (uint32_t r = 0; r < 4u; r++, at += (uint32_t)a.row_bytes) {
            w->extra[r] = weights1(at);
        }
        load_words(data + p.row, group + 4u, (uint32_t)a.row_bytes, end && p.last, w);
    }
    static __device__ __forceinline__ void codes(const gqh_wire &w, uint32_t row_bytes,
                                                 uint32_t *out) {
#pragma unroll
        for (uint32_t r = 0; r < 4u; r++) {
            out[r] = row_codes(w.extra[r], four_bytes(w, row_bytes, r), lane_index() & 3u);
        }
    }
    static __device__ __forceinline__ void scales(const gqh_wire &w, const uint32_t *codes, float,
                                                  float *out) {
        uint32_t scale = w.scale | w.ratio << 8;
#pragma unroll
        for (int r = 0; r < 4; r++) {
            out[r] = half_to_float(wave_read(scale, r)) * ratio_of(codes[r] >> 28);
        }
    }
};

#endif /* OPREG_SM90_GQH_LANES_STORED_CUH */
