/* SPDX-License-Identifier: MIT
 * test_dots.c - the row dots of every weight format: the canonical order bit for bit as an
 * independent model has it, within its derived error of the exact dot, and within the stated
 * tolerance of the golden dot.
 *
 * The exact side comes from value(), which test_formats proves on golden vectors, in double. */
#include "rows.h"

#include <math.h>

/* What ran, by the row of the format table. */
static struct { size_t dots, golden, modelled; } ran[FORMATS];

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

/* dots.tsv was written by a model of docs/numerics.md in Python that shares no code with this. */
static uint32_t modelled_bits(const char *format, size_t row) {
    static FILE *file;
    char line[128], name[32];
    unsigned long number, bits;
    if (file == NULL) {
        file = fopen(OPREG_TEST_DATA "/canonical/dots.tsv", "r");
        assert_non_null(file);
    }
    rewind(file);
    while (fgets(line, sizeof line, file) != NULL) {
        if (sscanf(line, "%31s %lu %lx", name, &number, &bits) == 3 && strcmp(name, format) == 0 &&
            number == row) {
            return (uint32_t)bits;
        }
    }
    fail_msg("dots.tsv has no row %zu of %s", row, format);
    return 0;
}

static void check_bits(const row_case *row, const char *what, size_t at, const json_t *section) {
    float want = float_of(modelled_bits(row->format->name, at)), y = canonical_dot(row);
    (void)section;
    if (!vectors_same(y, want)) {
        fail_msg("%s row %zu (%s): %a, the model has %a", row->format->name, at, what, (double)y,
                 (double)want);
    }
    ran[row->table_row].modelled++;
}

static void its_canonical_dot_has_the_bits_of_the_model(void **state) {
    each_row(state, check_bits);
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
        if (ran[row].dots != dots || ran[row].modelled != dots ||
            ran[row].golden != (has_golden_dot(f) ? dots : 0)) {
            fail_msg("never-run: %s has %zu exact, %zu golden, %zu modelled dots", f->name,
                     ran[row].dots, ran[row].golden, ran[row].modelled);
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
    TEST(#name, its_canonical_dot_is_within_the_bound_of_the_exact_dot),                           \
        TEST(#name, its_canonical_dot_is_within_tolerance_of_the_golden_dot),                      \
        TEST(#name, its_canonical_dot_has_the_bits_of_the_model),                                  \
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
        printf("%-14s %2zu exact, %2zu golden, %2zu modelled dots\n", format_at(row)->name,
               ran[row].dots, ran[row].golden, ran[row].modelled);
    }
    return failed;
}
