/* SPDX-License-Identifier: MIT
 * test_dots.c - the row dots of every weight format: integer sums exactly, the canonical order
 * within its derived error of the exact dot and within the stated tolerance of the golden dot.
 *
 * The exact side comes from value(), which test_formats proves on golden vectors, in double. */
#include "vectors.h"

#include <math.h>

#include "formats/act.h"

enum { FORMATS = 64, MAX_K = 4096, MAX_BLOCK = 256 };

/* What ran, by the row of the format table. */
static struct { size_t units, dots, golden; } ran[FORMATS];

/* ---- probes: bytes that make a format's scales 1 or 0 -------------------------------------------
 */

typedef struct probe_byte {
    int at;
    uint8_t keep, set; /* byte = byte & keep | set */
} probe_byte;

/* With these bytes in place each weight is an exact integer times 1 / factor, and the sum of
 * factor * weight * code over a unit is what n[which] must be; the other n is scaled by 0.
 * The IQ1 formats split that sum: it is 8 * n[0] + n[1]. */
typedef struct probe {
    uint32_t format, dialect;
    int which;
    int factor;
    probe_byte bytes[4]; /* a row with offset 0 after the first is no row */
} probe;

enum { IQ1_SPLIT = 2 };

#define ONE_F16(o)                                                                                 \
    {(o), 0, 0x00}, {                                                                              \
        (o) + 1, 0, 0x3c                                                                           \
    }
#define ZERO_F16(o)                                                                                \
    {(o), 0, 0x00}, {                                                                              \
        (o) + 1, 0, 0x00                                                                           \
    }
#define ONE_E4M3 0x40 /* half-scale: 8 * 2^(8 - 11) */

static const probe probes[] = {
    {OPREG_Q4_0, 0, 0, 1, {ONE_F16(0)}},
    {OPREG_Q4_1, 0, 0, 1, {ONE_F16(0), ZERO_F16(2)}},
    {OPREG_Q4_1, 0, 1, 1, {ZERO_F16(0), ONE_F16(2)}},
    {OPREG_Q5_0, 0, 0, 1, {ONE_F16(0)}},
    {OPREG_Q5_1, 0, 0, 1, {ONE_F16(0), ZERO_F16(2)}},
    {OPREG_Q5_1, 0, 1, 1, {ZERO_F16(0), ONE_F16(2)}},
    {OPREG_Q8_0, 0, 0, 1, {ONE_F16(0)}},
    {OPREG_IQ4_NL, 0, 0, 1, {ONE_F16(0)}},
    {OPREG_MXFP4, 0, 0, 1, {{0, 0, 128}}},
    {OPREG_NVFP4, 0, 0, 1, {{0, 0, ONE_E4M3}, {1, 0, 0}, {2, 0, ONE_E4M3}, {3, 0, 0}}},
    {OPREG_NVFP4, 0, 1, 1, {{0, 0, 0}, {1, 0, ONE_E4M3}, {2, 0, 0}, {3, 0, ONE_E4M3}}},
    {OPREG_Q1_0, 0, 0, 1, {ONE_F16(0)}},
    {OPREG_Q2_0, 0, 0, 1, {ONE_F16(0)}},
    {OPREG_Q2_K, 0, 0, 1, {ONE_F16(80), ZERO_F16(82)}},
    {OPREG_Q2_K, 0, 1, -1, {ZERO_F16(80), ONE_F16(82)}},
    {OPREG_Q3_K, 0, 0, 1, {ONE_F16(108)}},
    {OPREG_Q4_K, 0, 0, 1, {ONE_F16(0), ZERO_F16(2)}},
    {OPREG_Q4_K, 0, 1, -1, {ZERO_F16(0), ONE_F16(2)}},
    {OPREG_Q5_K, 0, 0, 1, {ONE_F16(0), ZERO_F16(2)}},
    {OPREG_Q5_K, 0, 1, -1, {ZERO_F16(0), ONE_F16(2)}},
    {OPREG_Q6_K, 0, 0, 1, {ONE_F16(208)}},
    {OPREG_IQ4_XS, 0, 0, 1, {ONE_F16(0)}},
    {OPREG_IQ2_XXS, 0, 0, 8, {ONE_F16(0)}},
    {OPREG_IQ2_XS, 0, 0, 8, {ONE_F16(0)}},
    {OPREG_IQ2_S, 0, 0, 8, {ONE_F16(0)}},
    {OPREG_IQ3_XXS, 0, 0, 4, {ONE_F16(0)}},
    {OPREG_IQ3_S, 0, 0, 1, {ONE_F16(0)}},
    {OPREG_IQ1_S, 0, IQ1_SPLIT, 8, {ONE_F16(0)}},
    {OPREG_IQ1_M,
     0,
     IQ1_SPLIT,
     8,
     {{49, 0x0f, 0}, {51, 0x0f, 0}, {53, 0x0f, 0xc0}, {55, 0x0f, 0x30}}},
    {OPREG_ROCMFP4, 0, 0, 1, {{16, 0, ONE_E4M3}, {17, 0, 0}}},
    {OPREG_ROCMFP4, 0, 1, 1, {{16, 0, 0}, {17, 0, ONE_E4M3}}},
    {OPREG_ROCMFP4_FAST, 0, 0, 1, {{16, 0, ONE_E4M3}}},
    {OPREG_ROCMFP6, 0, 0, 1, {{24, 0, ONE_E4M3}, {25, 0, 0}}},
    {OPREG_ROCMFP6, 0, 1, 1, {{24, 0, 0}, {25, 0, ONE_E4M3}}},
    {OPREG_ROCMFP8, 0, 0, 1, {{32, 0, ONE_E4M3}}},
    {OPREG_ROCMFP3, 0, 0, 1, {{12, 0, ONE_E4M3}, {13, 0, 0}}},
    {OPREG_ROCMFP3, 0, 1, 1, {{12, 0, 0}, {13, 0, ONE_E4M3}}},
    {OPREG_ROCMFP2, 0, 0, 1, {{8, 0, ONE_E4M3}, {9, 0, 0}}},
    {OPREG_ROCMFP2, 0, 1, 1, {{8, 0, 0}, {9, 0, ONE_E4M3}}},
    {OPREG_ROCMFP2, OPREG_DIALECT_ROCMFP2_AFFINE, 0, 1, {{8, 0, ONE_E4M3}, {9, 0, 0}}},
    {OPREG_ROCMFP2, OPREG_DIALECT_ROCMFP2_AFFINE, 1, -1, {{8, 0, 0}, {9, 0, ONE_E4M3}}},
    {OPREG_ROCMFP2, OPREG_DIALECT_ROCMFP2_S40, 0, 1, {{8, 0, ONE_E4M3}, {9, 0, 0}}},
    {OPREG_ROCMFP2, OPREG_DIALECT_ROCMFP2_S40, 1, 1, {{8, 0, 0}, {9, 0, ONE_E4M3}}},
};

static void probe_apply(const probe *p, const uint8_t *block, int bytes, uint8_t *out) {
    memcpy(out, block, (size_t)bytes);
    for (int i = 0; i < 4; i++) {
        const probe_byte *b = &p->bytes[i];
        if (i == 0 || b->at != 0) {
            out[b->at] = (uint8_t)((out[b->at] & b->keep) | b->set);
        }
    }
}

/* ---- rows
 * ------------------------------------------------------------------------------------------ */

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

static void quantize_row(row_case *row) {
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
static const uint8_t *unit_of(const row_case *row, int u, int *part) {
    const format_info *f = row->format;
    if (f->values == 1) {
        *part = 0;
        return row->blocks + (size_t)u * (size_t)f->unit * (size_t)f->bytes;
    }
    *part = u % (f->values / f->unit);
    return row->blocks + (size_t)(u / (f->values / f->unit)) * (size_t)f->bytes;
}

/* The dot in the canonical order, without a tensor scale after the tree. */
static float canonical_dot(const row_case *row) {
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

/* Formats whose weight is a sum or difference of two products: where each product's scale is. */
static const struct {
    uint32_t format, dialect;
    int first_at, second_at, bytes;
} two_products[] = {
    {OPREG_Q4_1, 0, 0, 2, 2},   {OPREG_Q5_1, 0, 0, 2, 2},
    {OPREG_Q2_K, 0, 80, 82, 2}, {OPREG_Q4_K, 0, 0, 2, 2},
    {OPREG_Q5_K, 0, 0, 2, 2},   {OPREG_ROCMFP2, OPREG_DIALECT_ROCMFP2_AFFINE, 8, 9, 1},
};

/* |first product| + |second product| of a weight, |weight| where there is only one. */
static double magnitude_of(const row_case *row, const uint8_t *block, int i) {
    const format_info *f = row->format;
    for (size_t t = 0; t < sizeof two_products / sizeof two_products[0]; t++) {
        if (two_products[t].format == f->id && two_products[t].dialect == row->side.dialect) {
            uint8_t first[MAX_BLOCK], second[MAX_BLOCK];
            size_t bytes = (size_t)two_products[t].bytes;
            memcpy(first, block, (size_t)f->bytes);
            memcpy(second, block, (size_t)f->bytes);
            memset(first + two_products[t].second_at, 0, bytes);
            memset(second + two_products[t].first_at, 0, bytes);
            return fabs((double)f->value(first, i, &row->side)) +
                   fabs((double)f->value(second, i, &row->side));
        }
    }
    return fabs((double)f->value(block, i, &row->side));
}

/* The exact dot (in double) of the weights with x, and S: the same sum over magnitudes. */
static void exact_dot(const row_case *row, const float *x, double *dot, double *magnitude) {
    const format_info *f = row->format;
    *dot = *magnitude = 0;
    for (int i = 0; i < row->k; i++) {
        const uint8_t *block = row->blocks + (size_t)(i / f->values) * (size_t)f->bytes;
        *dot += (double)f->value(block, i % f->values, &row->side) * (double)x[i];
        *magnitude += magnitude_of(row, block, i % f->values) * fabs((double)x[i]);
    }
}

/* Calls check for every row of a format's rowdot section. */
static void each_row(void **state, void (*check)(const row_case *row, const char *what, size_t at,
                                                 const json_t *section)) {
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

/* ---- the promises
 * ---------------------------------------------------------------------------------- */

static void check_integers(const row_case *row, const char *what, size_t at,
                           const json_t *section) {
    const format_info *f = row->format;
    int probed = 0;
    (void)section;
    for (size_t p = 0; p < sizeof probes / sizeof probes[0]; p++) {
        if (probes[p].format != f->id) {
            continue;
        }
        probed = 1;
        opreg_side side = row->side;
        side.dialect = probes[p].dialect;
        for (int u = 0; u < row->units; u++) {
            uint8_t block[MAX_BLOCK];
            int part, start = u * f->unit, first = start % f->values;
            int64_t want = 0;
            int32_t n[2];
            probe_apply(&probes[p], unit_of(row, u, &part), f->bytes, block);
            f->sums(block, part, row->q + start, row->sums + start / 16, &side, n);
            for (int i = 0; i < f->unit; i++) {
                double level = (double)f->value(block, first + i, &side) * probes[p].factor;
                assert_true(level == rint(level));
                want += (int64_t)level * row->q[start + i];
            }
            int64_t got =
                probes[p].which == IQ1_SPLIT ? 8 * (int64_t)n[0] + n[1] : n[probes[p].which];
            if (got != want) {
                fail_msg("%s row %zu (%s) unit %d sum %d, dialect %u: got %lld, exact %lld",
                         f->name, at, what, u, probes[p].which, side.dialect, (long long)got,
                         (long long)want);
            }
            /* what the sum becomes: float(n) by scales of 1, and nothing from the other sum */
            float term = f->term(block, part, n, 1.0f, &side);
            float rounded = (float)want * (probes[p].factor == -1 ? -1.0f : 1.0f);
            if (term != rounded) {
                fail_msg("%s row %zu (%s) unit %d sum %d, dialect %u: term %a, want %a", f->name,
                         at, what, u, probes[p].which, side.dialect, (double)term, (double)rounded);
            }
            ran[row->table_row].units++;
        }
    }
    if (!probed) {
        fail_msg("%s has no probe: its integer sums are not tested", f->name);
    }
}

static void its_integer_sums_are_exact(void **state) {
    const format_info *format = format_by_name(*state);
    if (format != NULL && format->kind == FORMAT_FOLD) {
        return; /* has no integer sums                                                            */
    }
    each_row(state, check_integers);
}

/* Roundings on the way of one product to the result, in units of 2^-24 of S.
 * Integer dots: the float of the integer, the scale product, their product and for two products
 * their sum (4, and the f32 weight of the exact side has up to 3), units/32 additions, 5 of the
 * tree and a final factor: within units/32 + 12, the bound of the numerics page.
 * Folds: values alone take unit fmaf a unit; MIX 16 in a half and 2 a block; GQH 8 in a group and
 * one a unit; then 5 of the tree, and 2 of the f32 weight of the exact side. */
static double roundings(const format_info *f, int units) {
    int deep = (units + 31) / 32;
    if (f->kind == FORMAT_SUMS) {
        return units / 32.0 + 12;
    }
    if (f->values == 1) {
        return f->unit * deep + 7;
    }
    return f->unit == 32 ? 2 * deep + 16 + 7 : deep + 8 + 7;
}

/* What products below the normals may lose: 2^-149 of a scale product, times its integer; in a fold
 * 2^-149 of a sum times a scale under 256, and of the exact side's f32 weight times x. */
static double underflow(const row_case *row) {
    const format_info *f = row->format;
    double lost = 0;
    for (int u = 0; u < row->units && f->kind == FORMAT_SUMS; u++) {
        int32_t n[2];
        int part, at = u * f->unit;
        const uint8_t *block = unit_of(row, u, &part);
        f->sums(block, part, row->q + at, row->sums + at / 16, &row->side, n);
        lost += 8 * fabs((double)n[0]) + fabs((double)n[1]);
    }
    for (int i = 0; i < row->k && f->kind == FORMAT_FOLD; i++) {
        lost += 256 + fabs((double)row->x[i]);
    }
    return lost * 0x1p-149;
}

static void check_oracle(const row_case *row, const char *what, size_t at, const json_t *section) {
    double exact, magnitude, raw, raw_magnitude, y = (double)canonical_dot(row);
    exact_dot(row, row->dequantized, &exact, &magnitude);
    exact_dot(row, row->x, &raw, &raw_magnitude);
    double bound = roundings(row->format, row->units) * 0x1p-24 * magnitude + underflow(row);
    if (!(fabs(y - exact) <= bound)) {
        fail_msg("%s row %zu (%s): %a, exact %a, off by %.3g of %.3g", row->format->name, at, what,
                 y, exact, fabs(y - exact), bound);
    }
    /* the golden double dot of raw activations: these are the right weights and activations */
    size_t bytes;
    double golden = vectors_f64(vectors_array(vectors_get(section, "f64_dot_f32act"), &bytes), at);
    if (!(fabs(raw - golden) <= row->k * 0x1p-53 * raw_magnitude)) {
        fail_msg("%s row %zu (%s): double dot %a, golden %a", row->format->name, at, what, raw,
                 golden);
    }
    ran[row->table_row].dots++;
}

static void its_canonical_dot_is_within_the_bound_of_the_exact_dot(void **state) {
    each_row(state, check_oracle);
}

static void check_golden(const row_case *row, const char *what, size_t at, const json_t *section) {
    const format_info *f = row->format;
    const char *key =
        f->side == FORMAT_SIDE_MIX4 || f->side == FORMAT_SIDE_MIX8 ? "f32_fold" : "result";
    const json_t *result = json_object_get(section, key);
    if (result == NULL || f->values == 1) {
        return; /* no such golden, or one that rounds its activations, which we do not */
    }
    size_t bytes;
    double golden = (double)vectors_f32(vectors_array(result, &bytes), at), exact, magnitude;
    double y = (double)canonical_dot(row);
    exact_dot(row, row->dequantized, &exact, &magnitude);
    /* sequential: one addition a unit, or for the fold a product and an addition a weight */
    double bound = ((f->kind == FORMAT_FOLD ? row->k : row->units) + 24) * 0x1p-24 * magnitude;
    if (f->id == OPREG_Q4_1 || f->id == OPREG_Q5_1) {
        bound += 0x1p-10 * magnitude; /* golden multiplies m by an f16 sum */
    }
    if (!(fabs(y - golden) <= bound)) {
        fail_msg("%s row %zu (%s): %a, golden %a, off by %.3g of %.3g", f->name, at, what, y,
                 golden, fabs(y - golden), bound);
    }
    ran[row->table_row].golden++;
}

static void its_canonical_dot_is_within_tolerance_of_the_golden_dot(void **state) {
    each_row(state, check_golden);
}

static void check_nan(const row_case *row, const char *what, size_t at, const json_t *section) {
    static row_case changed;
    (void)section;
    changed = *row;
    changed.x[row->k - 1] = float_of(0x7fc00000u);
    quantize_row(&changed);
    float y = canonical_dot(&changed);
    if (y == y) {
        fail_msg("%s row %zu (%s): %a with a NaN among the activations", row->format->name, at,
                 what, (double)y);
    }
}

static void a_nan_activation_makes_its_dot_nan(void **state) {
    each_row(state, check_nan);
}

static void a_float_row_may_end_inside_a_unit(void **state) {
    static const char *const names[] = {"f32", "f16", "bf16"};
    static row_case row;
    (void)state;
    for (size_t f = 0; f < 3; f++) {
        uint8_t weights[4 * 300 + 4];
        for (row.k = 1; row.k <= 300; row.k += 13) {
            int want = 0;
            memset(weights, 0xff, sizeof weights); /* NaN past the end */
            row.format = format_by_name(names[f]);
            row.units = (row.k + 7) / 8;
            row.blocks = weights;
            for (int i = 0; i < row.k; i++) {
                float w = (float)(i % 15 - 7);
                uint32_t bits = f == 0 ? bits_of(w) : f == 1 ? f32_to_f16(w) : f32_to_bf16(w);
                for (int b = 0; b < row.format->bytes; b++) {
                    weights[i * row.format->bytes + b] = (uint8_t)(bits >> 8 * b);
                }
                row.x[i] = (float)(i % 11);
                want += (i % 15 - 7) * (i % 11);
            }
            row.x[row.k] = float_of(0x7fc00000u);
            float y = canonical_dot(&row);
            if (y != (float)want) {
                fail_msg("%s with k %d: %a, want %d", names[f], row.k, (double)y, want);
            }
        }
    }
}

/* ROCmFP6, 8, 3 and 2 have no host dot upstream, GQH has no dot at all, F16 and BF16 round their
 * activations: those have the exact dot only. */
static int has_golden_dot(const format_info *f) {
    return f->values > 1 && f->id != OPREG_ROCMFP6 && f->id != OPREG_ROCMFP8 &&
           f->id != OPREG_ROCMFP3 && f->id != OPREG_ROCMFP2 && f->id != OPREG_GQH3 &&
           f->id != OPREG_GQH2_H && f->id != OPREG_GQH2_C && f->id != OPREG_GQH4;
}

static void no_format_is_never_run(void **state) {
    (void)state;
    for (size_t row = 0; row < format_count(); row++) {
        const format_info *f = format_at(row);
        size_t dots = f->kind == FORMAT_SUMS ? 20 : 10;
        if (ran[row].dots != dots || ran[row].golden != (has_golden_dot(f) ? dots : 0) ||
            (ran[row].units > 0) != (f->kind == FORMAT_SUMS)) {
            fail_msg("never-run: %s has %zu integer sums, %zu exact dots, %zu golden dots", f->name,
                     ran[row].units, ran[row].dots, ran[row].golden);
        }
    }
}

#define TEST(name, promise)                                                                        \
    {                                                                                              \
        "{" name "} " #promise, promise, NULL, NULL, (char[]) {                                    \
            name                                                                                   \
        }                                                                                          \
    }
#define OPREG_FORMAT(ID, name, ...)                                                                \
    TEST(#name, its_integer_sums_are_exact),                                                       \
        TEST(#name, its_canonical_dot_is_within_the_bound_of_the_exact_dot),                       \
        TEST(#name, its_canonical_dot_is_within_tolerance_of_the_golden_dot),                      \
        TEST(#name, a_nan_activation_makes_its_dot_nan),

/* With --counts, also prints what ran. */
int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
#include "formats/formats.inc"
        cmocka_unit_test(a_float_row_may_end_inside_a_unit),
        cmocka_unit_test(no_format_is_never_run),
    };
    int failed = cmocka_run_group_tests_name("dots", tests, NULL, NULL);
    for (size_t row = 0; argc > 1 && strcmp(argv[1], "--counts") == 0 && row < format_count();
         row++) {
        printf("%-14s %5zu integer sums, %2zu exact dots, %2zu golden dots\n", format_at(row)->name,
               ran[row].units, ran[row].dots, ran[row].golden);
    }
    return failed;
}
