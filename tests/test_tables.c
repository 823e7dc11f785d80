/* SPDX-License-Identifier: MIT
 * test_tables.c - the tables that were compiled hold what their csv files say. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "formats/scales.h"
#include "formats/tables/e8m0_half_scale.h"
#include "formats/tables/gqh2c_codebook.h"
#include "formats/tables/gqh2c_signs.h"
#include "formats/tables/gqh2h_grid.h"
#include "formats/tables/gqh3_grid.h"
#include "formats/tables/gqh4_grid.h"
#include "formats/tables/gqh_e4m3_lut.h"
#include "formats/tables/gqh_ratio.h"
#include "formats/tables/iq1s_grid.h"
#include "formats/tables/iq2s_grid.h"
#include "formats/tables/iq2xs_grid.h"
#include "formats/tables/iq2xxs_grid.h"
#include "formats/tables/iq3s_grid.h"
#include "formats/tables/iq3xxs_grid.h"
#include "formats/tables/ksigns_iq2xs.h"
#include "formats/tables/kvalues_fp4.h"
#include "formats/tables/kvalues_iq4nl.h"
#include "formats/tables/rocmfp2_levels.h"
#include "formats/tables/rocmfp3_levels.h"
#include "formats/tables/rocmfp4_codebook.h"
#include "formats/tables/rocmfp6_levels.h"
#include "formats/tables/ue4m3_half_scale.h"

/* What column `column` of row `row` of a table is, as the csv would write it. */
typedef long long (*table_cell)(int row, int column);

static long long bits(float value) {
    return (long long)bits_of(value);
}
static long long byte(uint64_t word, int j) {
    return (long long)(word >> 8 * j & 255u);
}

#define CELL(name, expression)                                                                     \
    static long long cell_##name(int row, int column) {                                            \
        (void)column;                                                                              \
        return expression;                                                                         \
    }
CELL(kvalues_iq4nl, kvalues_iq4nl[row])
CELL(kvalues_fp4, kvalues_fp4[row])
CELL(rocmfp4_codebook, rocmfp4_codebook[row])
CELL(rocmfp3_levels, rocmfp3_levels[row])
CELL(rocmfp2_levels, rocmfp2_levels[row])
CELL(rocmfp6_levels, rocmfp6_levels[row])
CELL(ksigns_iq2xs, ksigns_iq2xs[row])
CELL(gqh2c_signs, gqh2c_signs[row])
CELL(ue4m3_half_scale, bits(ue4m3_half_scale[row]))
CELL(e8m0_half_scale, bits(e8m0_half_scale[row]))
CELL(gqh_ratio, bits(gqh_ratio[row]))
CELL(gqh2h_grid, bits(gqh2h_grid[row][column]))
CELL(gqh3_grid, bits(gqh3_grid[row][column]))
CELL(gqh4_grid, bits(gqh4_grid[row][column]))
CELL(iq1s_grid, (long long)(iq1s_grid[row] >> (8 * (column & 3) + 4 * (column >> 2)) & 15u) - 1)
CELL(iq2xxs_grid, byte(iq2xxs_grid[row], column))
CELL(iq2xs_grid, byte(iq2xs_grid[row], column))
CELL(iq2s_grid, byte(iq2s_grid[row], column))
CELL(iq3xxs_grid, byte(iq3xxs_grid[row], column))
CELL(iq3s_grid, byte(iq3s_grid[row], column))
CELL(gqh2c_codebook, byte(gqh2c_codebook[row], column))
/* the two NaN of the csv have no literal; the function that GQH uses has them */
CELL(gqh_e4m3_lut, (row & 127) == 127 ? bits(e4m3_signed((uint32_t)row)) : bits(gqh_e4m3_lut[row]))

/* Compares `rows` rows of `columns` columns; every row of the csv must be there and no other. */
static void compare(const char *name, int rows, int columns, table_cell cell) {
    char path[4096], line[1024];
    FILE *file;
    int row = 0, column;
    (void)snprintf(path, sizeof path, OPREG_TEST_TABLES "/%s.csv", name);
    file = fopen(path, "r");
    if (file == NULL) {
        fail_msg("%s does not open", path);
    }
    assert_non_null(fgets(line, sizeof line, file));
    assert_int_equal(line[0], '#');
    for (; fgets(line, sizeof line, file) != NULL; row++) {
        char *at = line;
        assert_int_equal(strtoll(at, &at, 0), row);
        assert_true(row < rows);
        for (column = 0; column < columns; column++) {
            long long wanted, got = cell(row, column);
            assert_int_equal(*at, ',');
            wanted = strtoll(at + 1, &at, 0);
            if (got != wanted) {
                fail_msg("%s[%d][%d] is %lld, the csv says %lld", name, row, column, got, wanted);
            }
        }
    }
    assert_int_equal(row, rows);
    (void)fclose(file);
}

#define COMPARE(name, rows, columns) compare(#name, rows, columns, cell_##name)

static void every_table_holds_the_rows_of_its_csv(void **state) {
    (void)state;
    COMPARE(kvalues_iq4nl, 16, 1);
    COMPARE(kvalues_fp4, 16, 1);
    COMPARE(rocmfp4_codebook, 16, 1);
    COMPARE(rocmfp3_levels, 8, 1);
    COMPARE(rocmfp2_levels, 4, 1);
    COMPARE(rocmfp6_levels, 64, 1);
    COMPARE(ksigns_iq2xs, 128, 1);
    COMPARE(gqh2c_signs, 128, 1);
    COMPARE(ue4m3_half_scale, 127, 1);
    COMPARE(e8m0_half_scale, 255, 1);
    COMPARE(gqh_ratio, 16, 1);
    COMPARE(gqh2h_grid, 12, 4);
    COMPARE(gqh3_grid, 12, 8);
    COMPARE(gqh4_grid, 12, 16);
    COMPARE(iq1s_grid, 2048, 8);
    COMPARE(iq2xxs_grid, 256, 8);
    COMPARE(iq2xs_grid, 512, 8);
    COMPARE(iq2s_grid, 1024, 8);
    COMPARE(iq3xxs_grid, 256, 4);
    COMPARE(iq3s_grid, 512, 4);
    COMPARE(gqh2c_codebook, 256, 8);
    COMPARE(gqh_e4m3_lut, 256, 1);
}

static void scale_arithmetic_gives_the_bits_of_the_tables(void **state) {
    uint32_t code;
    (void)state;
    for (code = 0; code < 256; code++) {
        float unsigned_half = (code & 127u) == 127u ? 240.0f : ue4m3_half_scale[code & 127u];
        assert_int_equal(bits(ue4m3_half_7bit(code)), bits(unsigned_half));
        assert_int_equal(bits(ue4m3_half(code)), bits(code > 0x7e ? 0.0f : unsigned_half));
        if ((code & 127u) != 127u) {
            assert_int_equal(bits(e4m3_signed(code)), bits(gqh_e4m3_lut[code]));
            assert_int_equal(bits(e4m3_half_nvfp4_signed(code)), bits(gqh_e4m3_lut[code] * 0.5f));
        }
        if (code < 255) {
            assert_int_equal(bits(e8m0_half(code)), bits(e8m0_half_scale[code]));
        }
    }
}

static void scale_bytes_above_7e_follow_each_dialect(void **state) {
    (void)state;
    assert_int_equal(bits(ue4m3_half(0x7f)), bits(0.0f));
    assert_int_equal(bits(ue4m3_half(0x80)), bits(0.0f));
    assert_int_equal(bits(ue4m3_half(0xff)), bits(0.0f));
    assert_int_equal(bits(ue4m3_half_7bit(0x7f)), bits(240.0f));
    assert_int_equal(bits(ue4m3_half_7bit(0x80)), bits(0.0f));
    assert_int_equal(bits(ue4m3_half_7bit(0xff)), bits(240.0f));
    assert_int_equal(bits(ue4m3_half_nvfp4_host(0x7f)), bits(0.0f));
    assert_int_equal(bits(ue4m3_half_nvfp4_host(0x80)), bits(0.0f));
    assert_int_equal(bits(ue4m3_half_nvfp4_host(0xff)), bits(240.0f));
    assert_int_equal(bits(e4m3_half_nvfp4_signed(0x7f)), bits(0.0f));
    assert_int_equal(bits(e4m3_half_nvfp4_signed(0xff)), bits(0.0f));
    assert_int_equal(bits(e4m3_half_nvfp4_signed(0xfe)), bits(-224.0f));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_table_holds_the_rows_of_its_csv),
        cmocka_unit_test(scale_arithmetic_gives_the_bits_of_the_tables),
        cmocka_unit_test(scale_bytes_above_7e_follow_each_dialect),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
