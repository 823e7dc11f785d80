/* SPDX-License-Identifier: MIT
 * nvfp4.h - 64 weights in 36 bytes: four UE4M3 scales, then 16 nibbles for each. */
#ifndef OPREG_FORMAT_NVFP4_H
#define OPREG_FORMAT_NVFP4_H

#include "formats/format.h"
#include "formats/scales.h"
#include "formats/tables/kvalues_fp4.h"

/* Scale of 16 weights.  Projects disagree on bytes 0x7f and up, so the dialect decides. */
OPREG_FN float nvfp4_scale(uint32_t byte, const opreg_side *side) {
    return side->dialect == OPREG_DIALECT_NVFP4_SIGNED ? e4m3_half_nvfp4_signed(byte)
                                                       : ue4m3_half_nvfp4_host(byte);
}

/* Without the tensor scale, which multiplies the finished dot. */
OPREG_FN float nvfp4_value(const uint8_t *block, int i, const opreg_side *side) {
    int s = i >> 4, t = i & 15;
    int code = block[4 + 8 * s + (t & 7)] >> (t & 8 ? 4 : 0) & 15;
    return (float)kvalues_fp4[code] * nvfp4_scale(block[s], side);
}

/* n[h] is the dot of the 16 weights that share a scale. */
OPREG_FN void nvfp4_sums(const uint8_t *block, int part, const int8_t *q, const int16_t *q_sums,
                         const opreg_side *side, int32_t n[2]) {
    const uint8_t *codes = block + 4 + 16 * part;
    (void)q_sums;
    (void)side;
    for (int h = 0; h < 2; h++) {
        int32_t dot = 0;
        for (int t = 0; t < 8; t++) {
            dot += kvalues_fp4[codes[8 * h + t] & 15] * q[16 * h + t];
            dot += kvalues_fp4[codes[8 * h + t] >> 4] * q[16 * h + t + 8];
        }
        n[h] = dot;
    }
}

OPREG_FN float nvfp4_term(const uint8_t *block, int part, const int32_t n[2], float yd,
                          const opreg_side *side) {
    float first = nvfp4_scale(block[2 * part], side) * yd * (float)n[0];
    float second = nvfp4_scale(block[2 * part + 1], side) * yd * (float)n[1];
    return first + second;
}

#if !OPREG_ON_DEVICE
/* Every scale byte has a meaning in either dialect. */
OPREG_FN const char *nvfp4_invalid(const uint8_t *block, const opreg_side *side) {
    (void)block;
    (void)side;
    return NULL;
}
#endif

#endif /* OPREG_FORMAT_NVFP4_H */
