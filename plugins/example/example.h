/* SPDX-License-Identifier: MIT
 * example.h - what the files of this plugin share. */
#ifndef EXAMPLE_H
#define EXAMPLE_H

#include "opreg/opreg_plugin.h"

#include "canonical.h"
#include "formats/act.h"
#include "formats/q8_0.h"

extern const opreg_device_io host_memory;

/* Quantizes 32 elements of x from element first on; returns their scale. */
static inline float quantize_block(const void *x, int64_t first, uint32_t dtype, int8_t codes[32],
                                   int16_t sums[2]) {
    float values[32];
    for (int i = 0; i < 32; i++) {
        values[i] = canonical_load(x, first + i, dtype);
    }
    return act_q8_0(values, codes, sums);
}

/* The term of one weight block. */
static inline float block_term(const uint8_t *block, const int8_t codes[32], const int16_t sums[2],
                               float scale) {
    const opreg_side none = {.tensor_scale = 1.0f};
    int32_t dots[2];
    q8_0_sums(block, 0, codes, sums, &none, dots);
    return q8_0_term(block, 0, dots, scale, &none);
}

/* What both variants take: OPREG_OK, or OPREG_E_UNSUPPORTED with the reason. */
opreg_status matmul_supports(const opreg_device *dev, const void *problem, char reason[128]);
uint64_t matmul_workspace(const opreg_device *dev, const void *problem);
opreg_status matmul_run(void *state, const void *problem, const opreg_call *call);

opreg_status matmul_shared_supports(const opreg_device *dev, const void *problem, char reason[128]);
uint64_t matmul_shared_workspace(const opreg_device *dev, const void *problem);
opreg_status matmul_shared_run(void *state, const void *problem, const opreg_call *call);

#endif /* EXAMPLE_H */
