/* SPDX-License-Identifier: MIT
 * scales.h - one-byte scale encodings as arithmetic, which on a device is cheaper than a table.
 * tests/test_tables.c compares every byte with the tables. */
#ifndef OPREG_FORMATS_SCALES_H
#define OPREG_FORMATS_SCALES_H

#include "formats/format.h"

/* Half of an unsigned e4m3 value, 7 bits, every code a number: 0x7F is 240.  With the code in an
 * f32's exponent and mantissa, one exact product serves normal and subnormal codes alike. */
OPREG_FN float ue4m3_half_7bit(uint32_t code) {
    return float_of((code & 127u) << 20) * 0x1p+119f;
}

/* ROCmFP and MIX: 0..0x7E, and 0 above (such bytes are refused before they get here). */
OPREG_FN float ue4m3_half(uint32_t code) {
    return code > 0x7eu ? 0.0f : ue4m3_half_7bit(code);
}

/* OPREG_DIALECT_NVFP4_HOST: bit 7 ignored, but for 0xFF, which is 240 while 0x7F is 0. */
OPREG_FN float ue4m3_half_nvfp4_host(uint32_t code) {
    return code == 0x7fu ? 0.0f : ue4m3_half_7bit(code);
}

/* OPREG_DIALECT_NVFP4_SIGNED: bit 7 is the sign; 0x7F and 0xFF are 0, 0x80 is -0. */
OPREG_FN float e4m3_half_nvfp4_signed(uint32_t code) {
    float half = ue4m3_half_7bit(code);
    return (code & 127u) == 127u ? 0.0f : float_of(bits_of(half) | (code & 128u) << 24);
}

/* GQH: the full signed e4m3 value; 0x80 is -0.  0x7F and 0xFF, which are refused, are NaN. */
OPREG_FN float e4m3_signed(uint32_t code) {
    float value = float_of((code & 127u) << 20) * 0x1p+120f;
    uint32_t bits = (code & 127u) == 127u ? 0x7ff00000u : bits_of(value);
    return float_of(bits | (code & 128u) << 24);
}

/* MXFP4: 2^(code - 128), f32 subnormals for 0 and 1.  0xFF, which is refused, is 2^127. */
OPREG_FN float e8m0_half(uint32_t code) {
    return float_of(code < 2u ? 0x00200000u << code : (code - 1u) << 23);
}

#endif /* OPREG_FORMATS_SCALES_H */
