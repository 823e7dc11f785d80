/* SPDX-License-Identifier: MIT
 * rows.h - the golden rows of a format with their activations, and their dot in the canonical
 * order, written as docs/numerics.md says it. */
#ifndef OPREG_TESTS_ROWS_H
#define OPREG_TESTS_ROWS_H

#include "vectors.h"

#include "formats/act.h"

enum { FORMATS = 64, MAX_K = 4096, MAX_BLOCK = 256 };

/* One golden row and its activations, as f32 and as planes. */
typedef struct row_case {
    const format_info *format;
    size_t table_row;
    const uint8_t *blocks;
    int k, units;
    opreg_side side;
    float x[MAX_K];
    float dequantized[MAX_K];
    int8_t q[MAX_K];
    int16_t sums[MAX_K / 16];
    float scale[MAX_K / 32]; /* one for each unit's activations */
} row_case;

static inline void quantize_row(row_case *row) {
    int block = row->format->act_dtype == OPREG_Q8_K ? 256 : 32;
    if (row->format->kind == FORMAT_FOLD) {
        memcpy(row->dequantized, row->x, sizeof row->x);
        return;
    }
    for (int b = 0; b < row->k / block; b++) {
        int at = b * block;
        row->scale[b] = block == 256 ? act_q8_k(row->x + at, row->q + at, row->sums + at / 16)
                                     : act_q8_0(row->x + at, row->q + at, row->sums + at / 16);
        for (int i = at; i < at + block; i++) {
            row->dequantized[i] = row->scale[b] * (float)row->q[i];
        }
    }
}

/* Block and part of unit u. */
static inline const uint8_t *unit_of(const row_case *row, int u, int *part) {
    const format_info *f = row->format;
    if (f->values == 1) {
        *part = 0;
        return row->blocks + (size_t)u * (size_t)f->unit * (size_t)f->bytes;
    }
    *part = u % (f->values / f->unit);
    return row->blocks + (size_t)(u / (f->values / f->unit)) * (size_t)f->bytes;
}

/* The dot in the canonical order, without a tensor scale after the tree. */
static inline float canonical_dot(const row_case *row) {
    const format_info *f = row->format;
    float acc[32] = {0};
    for (int u = 0; u < row->units; u++) {
        int part, at = u * f->unit;
        const uint8_t *block = unit_of(row, u, &part);
        if (f->kind == FORMAT_FOLD) {
            int count = row->k - at < f->unit ? row->k - at : f->unit;
            acc[u & 31] = f->fold(block, part, row->x + at, count, acc[u & 31], &row->side);
        } else {
            int32_t n[2];
            f->sums(block, part, row->q + at, row->sums + at / 16, &row->side, n);
            acc[u & 31] += f->term(block, part, n, row->scale[u], &row->side);
        }
    }
    for (int step = 16; step > 0; step /= 2) {
        for (int l = 0; l < step; l++) {
            acc[l] += acc[l + step];
        }
    }
    return f->final_factor == 1.0f ? acc[0] : acc[0] * f->final_factor;
}

/* Calls check for every row of a format's rowdot section. */
static inline void each_row(void **state, void (*check)(const row_case *row, const char *what,
                                                        size_t at, const json_t *section)) {
    static row_case row; /* too large for the stack of some systems                               */
    const format_info *format = format_by_name(*state);
    const json_t *acts = vectors_get(vectors_json("manifest.json"), "activation_rows");
    const json_t *lengths = vectors_get(acts, "k");
    size_t bytes, offset = 0;
    if (format == NULL) {
        fail_msg("%s is in formats.inc but not in the table", (const char *)*state);
    }
    const uint8_t *x = vectors_array(vectors_get(vectors_get(acts, "encodings"), "F32"), &bytes);
    json_t *entry = vectors_format(format->name), *rows;
    const json_t *section = vectors_get(entry, "rowdot");
    const uint8_t *encoded = vectors_array(vectors_get(section, "encoded"), &bytes);
    rows = vectors_get(section, "rows");
    for (size_t at = 0; at < json_array_size(rows); at++) {
        const json_t *about = json_array_get(rows, at);
        size_t act = (size_t)json_integer_value(json_array_get(about, 0)), x_at = 0;
        size_t owner = (size_t)json_integer_value(json_array_get(about, 2));
        for (size_t a = 0; a < act; a++) {
            x_at += (size_t)json_integer_value(json_array_get(lengths, a));
        }
        row.format = format;
        row.table_row = (size_t)(format - format_at(0));
        row.k = (int)json_integer_value(json_array_get(lengths, act));
        row.units = (row.k + format->unit - 1) / format->unit;
        row.blocks = encoded + offset;
        row.side = vectors_side(format, entry, owner, OPREG_DIALECT_DEFAULT);
        offset += (size_t)(row.k / format->values) * (size_t)format->bytes;
        assert_true(offset <= bytes && row.k <= MAX_K);
        for (int i = 0; i < row.k; i++) {
            row.x[i] = vectors_f32(x, x_at + (size_t)i);
        }
        quantize_row(&row);
        check(&row, json_string_value(json_array_get(about, 1)), at, section);
    }
    assert_int_equal(offset, bytes);
}

#endif /* OPREG_TESTS_ROWS_H */
