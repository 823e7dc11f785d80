/* SPDX-License-Identifier: MIT
 * eight.cuh - eight neighbouring f32, f16 or bf16 elements by 16-byte loads. */
#ifndef OPREG_PLUGINS_EIGHT_CUH
#define OPREG_PLUGINS_EIGHT_CUH

#include "device.h"

#include "opreg/opreg.h"

/* As they are stored: T is OPREG_F32, OPREG_F16 or OPREG_BF16. */
template <uint32_t T> struct eight_elements {
    static const int words = T == OPREG_F32 ? 8 : 4, bytes = 4 * words;
    uint32_t w[words];
};

template <uint32_t T> DEVICE void load_eight(const uint8_t *from, eight_elements<T> *out) {
    load_words<eight_elements<T>::words>(from, out->w);
}

/* Element i, widened. */
template <uint32_t T> DEVICE float element_of(const eight_elements<T> &of, int i) {
    const int words = eight_elements<T>::words;
    if (T == OPREG_F32) {
        return float_of(of.w[i % words]);
    }
    uint32_t half = of.w[i / 2 % words] >> 16 * (i & 1);
    return T == OPREG_F16 ? half_to_float(half) : float_of(half << 16);
}

/* Runs statement(TYPE) where TYPE is the constant that dtype equals. */
#define FOR_ELEMENT_TYPE(dtype, statement)                                                         \
    if ((dtype) == OPREG_F32) {                                                                    \
        statement(OPREG_F32);                                                                      \
    } else if ((dtype) == OPREG_F16) {                                                             \
        statement(OPREG_F16);                                                                      \
    } else {                                                                                       \
        statement(OPREG_BF16);                                                                     \
    }

#endif /* OPREG_PLUGINS_EIGHT_CUH */
