/* SPDX-License-Identifier: MIT
 * canonical_bits.h - the functions of canonical.h over all f32, as one digest for each 2^20 inputs.
 */
#ifndef OPREG_TESTS_CANONICAL_BITS_H
#define OPREG_TESTS_CANONICAL_BITS_H

#include "canonical.h"

#define CHUNKS     4096
#define CHUNK_SIZE (1u << 20)
#define FUNCTIONS  9
#define FUNCTION_NAMES                                                                             \
    "exp", "tanh", "log", "silu", "gelu_tanh", "swiglu_oai", "score", "to f16", "to bf16"

/* Bits of function `which` at x, every NaN the same. */
OPREG_FN uint32_t function_bits(int which, float x) {
    float y = x;
    switch (which) {
    case 0:
        y = canonical_exp(x);
        break;
    case 1:
        y = canonical_tanh(x);
        break;
    case 2:
        y = canonical_log(x);
        break;
    case 3:
        y = canonical_glu(OPREG_GLU_SILU, x, 1.25f, 0.0f, 0.0f);
        break;
    case 4:
        y = canonical_glu(OPREG_GLU_GELU_TANH, x, 0.7f, 0.0f, 0.0f);
        break;
    case 5:
        y = canonical_glu(OPREG_GLU_SWIGLU_OAI, x, x * 0.3f, 1.702f, 7.0f);
        break;
    case 6:
        y = canonical_score(x, 0.37f, 0.088f, 30.0f);
        break;
    case 7:
        return x != x ? 0x7e00u : f32_to_f16(x);
    default:
        return x != x ? 0x7fc0u : f32_to_bf16(x);
    }
    return y != y ? 0x7fc00000u : bits_of(y);
}

/* What an input adds to its chunk's digest; digests do not depend on the order of the inputs. */
OPREG_FN uint64_t digest_part(int which, uint32_t input) {
    uint64_t z = ((uint64_t)input << 32 | function_bits(which, float_of(input))) + 1u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

#ifdef __cplusplus
extern "C"
#endif
    /* Digests of every chunk; 0, or the driver's error number. */
    int
    device_digests(int which, uint64_t digests[CHUNKS]);

#endif /* OPREG_TESTS_CANONICAL_BITS_H */
