/* SPDX-License-Identifier: MIT
 * product.h - 16 rows of weights times a few rows of activations: what every matmul is made of. */
#ifndef OPREG_CPU_PRODUCT_H
#define OPREG_CPU_PRODUCT_H

#include "cpu/activations.h"
#include "cpu/rows16.h"

/* How a variant finds the tile kernel of a format. Null: the reference. */
typedef rows16_tile_fn (*tile_finder)(uint32_t format);

typedef struct product {
    activations x;
    const format_info *format;
    rows16_tile_fn tile; /* null: the reference */
    uint32_t glu;
    float glu_alpha, glu_limit;
    const opreg_weight_view *weights[2]; /* the second only with a glu */
    int64_t n;
} product;

#define PRODUCT_N ROWS16_TILE    /* rows of weights of one call      */
#define PRODUCT_M ROWS16_COLUMNS /* most rows of activations of one  */

/* out[c][r] = glu or plain result of weight row 16 * tile + r with row rows[c] of x, in f32, before
 * bias.  Rows of weights past n are left alone. */
void product_tile(const product *job, int64_t expert, int64_t tile, const int64_t *rows, int count,
                  float out[][PRODUCT_N]);

/* Weight rows of a tile. */
static inline int product_rows(const product *job, int64_t tile) {
    int64_t left = job->n - tile * PRODUCT_N;
    return left < PRODUCT_N ? (int)left : PRODUCT_N;
}

static inline int64_t product_tiles(int64_t n) {
    return (n + PRODUCT_N - 1) / PRODUCT_N;
}

#endif /* OPREG_CPU_PRODUCT_H */
