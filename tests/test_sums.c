/* SPDX-License-Identifier: MIT
 * test_sums.c - the integer sums of every unit of the golden rows are exact, and its term is their
 * rounded value where the scales are 1.
 *
 * The exact side comes from value(), which test_formats proves on golden vectors. */
#include "rows.h"

#include <math.h>

/* Sums that ran, by the row of the format table. */
static size_t ran[FORMATS];

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
            ran[row->table_row]++;
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

static void no_format_is_never_run(void **state) {
    (void)state;
    for (size_t row = 0; row < format_count(); row++) {
        const format_info *f = format_at(row);
        if ((ran[row] > 0) != (f->kind == FORMAT_SUMS)) {
            fail_msg("never-run: %s has %zu integer sums", f->name, ran[row]);
        }
    }
}

#define OPREG_FORMAT(ID, name, ...)                                                                \
    {"{" #name "} its_integer_sums_are_exact", its_integer_sums_are_exact, NULL, NULL,             \
     (char[]){#name}},

/* With --counts, also prints what ran. */
int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
#include "formats/formats.inc"
        cmocka_unit_test(no_format_is_never_run),
    };
    int failed = cmocka_run_group_tests_name("sums", tests, NULL, NULL);
    for (size_t row = 0; argc > 1 && strcmp(argv[1], "--counts") == 0 && row < format_count();
         row++) {
        printf("%-14s %5zu integer sums\n", format_at(row)->name, ran[row]);
    }
    return failed;
}
