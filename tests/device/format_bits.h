/* SPDX-License-Identifier: MIT
 * format_bits.h - one unit of weights with its activations, and what a device makes of it. */
#ifndef OPREG_TESTS_FORMAT_BITS_H
#define OPREG_TESTS_FORMAT_BITS_H

#include "opreg/opreg_plugin.h"

typedef struct unit_case {
    uint32_t format;
    int32_t part, count, weight; /* of the unit, its length, and one weight of the block */
    uint8_t block[256];
    float x[256];
    opreg_side side;
} unit_case;

typedef struct unit_result {
    float value, y, scale;
    int32_t n[2];
    int8_t q[256];
    int16_t q_sums[16];
} unit_result;

#ifdef __cplusplus
extern "C"
#endif
    /* 0, or the driver's error number. */
    int
    device_units(const unit_case *cases, int count, unit_result *results);

#endif /* OPREG_TESTS_FORMAT_BITS_H */
