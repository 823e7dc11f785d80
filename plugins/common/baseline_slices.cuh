/* SPDX-License-Identifier: MIT
 * baseline_slices.cuh - the baseline of integer-dot formats by four-wide byte dots: the lane that owns
 * an accumulator adds the slices of its units one after another.  Stored weights only. */
#ifndef OPREG_PLUGINS_BASELINE_SLICES_CUH
#define OPREG_PLUGINS_BASELINE_SLICES_CUH

#include "baseline_formats.cuh"
#include "slices.cuh"

#define SLICE_WEIGHTS 32

/* Two neighbouring sums of 16 codes. */
DEVICE void load_sums(const uint8_t *p, int32_t *s) {
    uint32_t pair;
    load_words<1>(p, &pair);
    s[0] = (int16_t)pair;
    s[1] = (int32_t)pair >> 16;
}

template <class F>
DEVICE float dot_slices(const matmul_args &a, const weight_row &w, const activation_row &x,
                        const opreg_side *side) {
    float sum = 0.0f;
    int64_t units = a.k / F::unit;
    for (int64_t u = lane_index(); u < units; u += WAVE) {
        int part;
        int32_t n[2] = {0, 0};
        const uint8_t *block = stored_unit<F>(w.tile, u, &part);
        const uint8_t *codes = (const uint8_t *)x.x + u * F::unit;
        const uint8_t *sums = (const uint8_t *)(x.sums + u * (F::unit / 16));
        uint32_t yd;
#pragma unroll 1
        for (int j = 0; j < F::unit / SLICE_WEIGHTS; j++) {
            uint32_t q[8];
            int32_t s[2];
            load_words<8>(codes + SLICE_WEIGHTS * j, q);
            load_sums(sums + 4 * j, s);
            F::slice(block, part + j, q, s, side, n);
        }
        load_words<1>((const uint8_t *)(x.scales + u), &yd);
        sum = sum + F::term(block, part, n, float_of(yd), side);
    }
    return sum;
}

/* A format's type for baseline_matmul and for the variants over slices. */
#define BASELINE_SLICES(NAME, name, values_, bytes_, unit_, final_)                                \
    struct name##_format {                                                                         \
        static const int values = values_, bytes = bytes_, unit = unit_;                           \
        DEVICE_MEMBER float last(float sum) { return (final_) == 1.0f ? sum : sum * (final_); }    \
        DEVICE_MEMBER void slice(const uint8_t *block, int j, const uint32_t *q,                   \
                                 const int32_t *sums, const opreg_side *side, int32_t *n) {        \
            name##_slice<byte_dots>(block, j, q, sums, side, n);                                   \
        }                                                                                          \
        DEVICE_MEMBER float term(const uint8_t *block, int part, const int32_t *n, float yd,       \
                                 const opreg_side *side) {                                         \
            return name##_term(block, part, n, yd, side);                                          \
        }                                                                                          \
        DEVICE_MEMBER float dot(const matmul_args &a, const weight_row &w,                         \
                                const activation_row &x, const opreg_side *side) {                 \
            return dot_slices<name##_format>(a, w, x, side);                                       \
        }                                                                                          \
    };

#endif /* OPREG_PLUGINS_BASELINE_SLICES_CUH */
