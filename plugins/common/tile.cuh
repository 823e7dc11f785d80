/* SPDX-License-Identifier: MIT
 * tile.cuh - sums of 16 x 16 x 16 products of signed bytes, on the matrix unit where there is one.
 *
 * A lane gives 16 bytes of row lane % 16 of a, and of row lane % 16 of b; c[i] is the sum of a's
 * row tile_row(i) with b's row lane % 16. */
#ifndef OPREG_PLUGINS_TILE_CUH
#define OPREG_PLUGINS_TILE_CUH

#include "device.h"

#if !defined(OPREG_EMULATED_DEVICE)
struct byte_tile {
    int32_t c[8];
};

#if defined(__CUDACC__)
DEVICE uint32_t tile_row(int i) {
    return 2u * (uint32_t)i + (lane_index() >> 4);
}
DEVICE void tile_multiply(const uint32_t *a, const uint32_t *b, byte_tile *t) {
    for (int i = 0; i < 8; i++) {
        for (int w = 0; w < 4; w++) {
            t->c[i] = dot4(wave_read(a[w], (int)tile_row(i)), b[w], t->c[i]);
        }
    }
}
#else
typedef int32_t tile_words2 __attribute__((ext_vector_type(2)));
typedef int32_t tile_words4 __attribute__((ext_vector_type(4)));
typedef int32_t tile_words8 __attribute__((ext_vector_type(8)));
#if defined(__GFX12__) /* a half wave has eight bytes of its rows and eight neighbouring rows of c \
                        */
DEVICE uint32_t tile_row(int i) {
    return (uint32_t)i + 8u * (lane_index() >> 4);
}
/* The words of this half wave, by a mask: a choice of addresses would put them into memory. */
DEVICE tile_words2 tile_half(const uint32_t *w) {
    uint32_t high = 0u - (lane_index() >> 4);
    return tile_words2{(int32_t)((w[0] & ~high) | (w[2] & high)),
                       (int32_t)((w[1] & ~high) | (w[3] & high))};
}
DEVICE void tile_multiply(const uint32_t *a, const uint32_t *b, byte_tile *t) {
    tile_words8 c = __builtin_bit_cast(tile_words8, *t);
    c = __builtin_amdgcn_wmma_i32_16x16x16_iu8_w32_gfx12(true, tile_half(a), true, tile_half(b), c,
                                                         false);
    *t = __builtin_bit_cast(byte_tile, c);
}
#else                  /* both half waves have all bytes, and every second row of c                  */
DEVICE uint32_t tile_row(int i) {
    return 2u * (uint32_t)i + (lane_index() >> 4);
}
DEVICE tile_words4 tile_whole(const uint32_t *w) {
    return tile_words4{(int32_t)w[0], (int32_t)w[1], (int32_t)w[2], (int32_t)w[3]};
}
DEVICE void tile_multiply(const uint32_t *a, const uint32_t *b, byte_tile *t) {
    tile_words8 c = __builtin_bit_cast(tile_words8, *t);
    c = __builtin_amdgcn_wmma_i32_16x16x16_iu8_w32(true, tile_whole(a), true, tile_whole(b), c,
                                                   false);
    *t = __builtin_bit_cast(byte_tile, c);
}
#endif
#endif
#endif

#endif /* OPREG_PLUGINS_TILE_CUH */
