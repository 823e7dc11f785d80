/* SPDX-License-Identifier: MIT
 * rows.h - rows of stored weights as f32: embeddings and norms. */
#ifndef DECODE_ROWS_H
#define DECODE_ROWS_H

#include <stdint.h>

/* Decodes count weights of a row of this GGUF type.  0: the type is not among those that models
 * use for embeddings. */
int row_decode(uint32_t ggml_type, const uint8_t *row, int64_t count, float *out);

#endif /* DECODE_ROWS_H */
