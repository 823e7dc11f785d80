/* SPDX-License-Identifier: MIT
 * rows16.h - the CPU's prepared weight layout "rows16" and the tile kernels that read it.
 *
 * Sixteen rows stand side by side, so a vector lane is a row and the canonical order of a row never
 * crosses lanes.  Of a tile of 16 rows and nb blocks a row:
 *   the f16 fields: for block b and field f, 16 values of 2 bytes at (b * F + f) * 32;
 *   padding to 64 bytes;
 *   the body (the block without its f16 fields): for block b and chunk c, 16 chunks of 4 bytes at
 *   (b * C + c) * 64.
 * F, C and where the fields stand are in the table of rows16_layout.c.  Rows past n are zero. */
#ifndef OPREG_CPU_ROWS16_H
#define OPREG_CPU_ROWS16_H

#include "opreg/opreg_plugin.h"

#define ROWS16_LAYOUT 1u /* its id */
#define ROWS16_TILE   16 /* rows of a tile                                                       */

/* The layout row of the plugin's table, and the formats it takes (0 ends). */
extern const opreg_layout rows16_layout;
extern const uint32_t rows16_formats[];

/* Bytes of one expert's weights; 0 when the format has no such layout. */
uint64_t rows16_bytes(uint32_t format, int64_t n, int64_t k);

/* Start of tile t of an expert, and the bytes of a tile. */
const uint8_t *rows16_tile(const opreg_weight_view *view, int64_t expert, int64_t t);

/* Copies the stored bytes of one block out of a prepared weight. */
void rows16_block(const opreg_weight_view *view, int64_t expert, int64_t row, int64_t block,
                  uint8_t *out);

/* The quantized activations of one column: planes at the start of its row. */
typedef struct rows16_column {
    const int8_t *q;
    const float *d;
    const int16_t *s;
} rows16_column;

#define ROWS16_COLUMNS 8 /* most columns of one call of a tile kernel */

/* out[c][r] = the f32 result of row r of the tile with column c, before bias.  blocks: of a row. */
typedef void (*rows16_tile_fn)(const uint8_t *tile, int64_t blocks, const rows16_column *columns,
                               int count, float out[][ROWS16_TILE]);

/* Null when the format has none.  May be called on any machine; what it returns may not. */
rows16_tile_fn rows16_tile_avx2(uint32_t format);
rows16_tile_fn rows16_tile_avx512(uint32_t format);

#endif /* OPREG_CPU_ROWS16_H */
