/* SPDX-License-Identifier: MIT
 * folds.c - one row function for each f32-activation format of formats.inc, around its fold. */
#include "cpu/folds.h"

#include "formats/bf16.h"
#include "formats/f16.h"
#include "formats/f32.h"
#include "formats/gqh2_c.h"
#include "formats/gqh2_h.h"
#include "formats/gqh3.h"
#include "formats/gqh4.h"
#include "formats/rocmfp2_mix.h"
#include "formats/rocmfp3_mix.h"

/* A block of one value is smaller than a unit, whose last one in a row may then be short; other
 * blocks are whole units. */
#define ROW_SUMS(ID, name, values, bytes, unit)
#define ROW_FOLD(ID, name, values, bytes, unit)                                                    \
    CPU_HOT static void name##_row(const uint8_t *row, const float *x, int64_t k,                  \
                                   const opreg_side *side, float accumulators[32]) {               \
        for (int64_t u = 0, first = 0; first < k; u++, first += unit) {                            \
            const uint8_t *block = row + first / values * bytes;                                   \
            int part = (int)(first % values / unit);                                               \
            int count = k - first < unit ? (int)(k - first) : unit;                                \
            accumulators[u % 32] =                                                                 \
                name##_fold(block, part, x + first, count, accumulators[u % 32], side);            \
        }                                                                                          \
    }
#define OPREG_FORMAT(ID, name, type, values, bytes, act, unit, kind, final, side)                  \
    ROW_##kind(ID, name, values, bytes, unit)
#include "formats/formats.inc"
#undef OPREG_FORMAT

#define CASE_SUMS(ID, name)
#define CASE_FOLD(ID, name)                                                                        \
    case OPREG_##ID:                                                                               \
        return name##_row;
#define OPREG_FORMAT(ID, name, type, values, bytes, act, unit, kind, final, side)                  \
    CASE_##kind(ID, name)

fold_row fold_row_of(uint32_t format) {
    switch (format) {
#include "formats/formats.inc"
    default:
        return NULL;
    }
}
