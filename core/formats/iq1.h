/* SPDX-License-Identifier: MIT
 * iq1.h - the grid that IQ1_S and IQ1_M share: levels -1, 0, 1, moved by an eighth either way. */
#ifndef OPREG_FORMAT_IQ1_H
#define OPREG_FORMAT_IQ1_H

#include "formats/iq.h"
#include "formats/tables/iq1s_grid.h"

/* Level j of grid row `index`, 11 bits. */
OPREG_FN int iq1_level(uint32_t index, int j) {
    return (int)(iq1s_grid[index] >> (8 * (j & 3) + 4 * (j >> 2)) & 15u) - 1;
}

OPREG_FN int32_t iq1_dot(uint32_t index, const int8_t *q) {
    int32_t dot = 0;
    for (int j = 0; j < 8; j++) {
        dot += iq1_level(index, j) * q[j];
    }
    return dot;
}

/* n counts eighths: 8 * (level sum) + (delta sum), one rounding to f32. */
OPREG_FN float iq1_term(float d, const int32_t n[2], float yd) {
    return d * yd * (float)(8 * n[0] + n[1]);
}

#endif /* OPREG_FORMAT_IQ1_H */
