/* SPDX-License-Identifier: MIT
 * rocmfp.h - what the ROCmFP formats share: half scales, packed codes and two-scale terms. */
#ifndef OPREG_FORMAT_ROCMFP_H
#define OPREG_FORMAT_ROCMFP_H

#include "formats/dot.h"
#include "formats/scales.h"

/* Code i of `width` bits in a run of codes, lowest bit first.  Reads one byte past the code's
 * first: the scale bytes follow the codes. */
OPREG_FN uint32_t code_at(const uint8_t *codes, int i, int width) {
    return load_u16(codes + (i * width >> 3)) >> (i * width & 7) & ((1u << width) - 1u);
}

/* 3-bit codes: 0, 1, 2, 4 and, with bit 2, their negatives; code 4 is 0. */
OPREG_FN int rocmfp3_level(uint32_t code) {
    int magnitude = 1 << (code & 3u) >> 1;
    return code & 4u ? -magnitude : magnitude;
}

/* The term of 32 weights with a scale per half of 16. */
OPREG_FN float two_scale_term(float first, float second, const int32_t n[2], float yd) {
    return first * yd * (float)n[0] + second * yd * (float)n[1];
}

#if !OPREG_ON_DEVICE
/* Null when both bytes are scales. */
OPREG_FN const char *rocmfp_scales_invalid(uint32_t first, uint32_t second) {
    return first > 0x7eu || second > 0x7eu ? "scale byte is above 0x7e" : NULL;
}
#endif

#endif /* OPREG_FORMAT_ROCMFP_H */
