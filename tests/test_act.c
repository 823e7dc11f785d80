/* SPDX-License-Identifier: MIT
 * test_act.c - activations are quantized to the golden codes, scales and sums, and blocks that have
 * no finite scale get the values that the numerics page gives them. */
#include "vectors.h"

#include <math.h>

#include "formats/act.h"

enum { Q8_0_BYTES = 34, Q8_K_BYTES = 292 };

static size_t blocks_run;

/* Compares one block with its golden bytes; what names it in a message. */
static void check_q8_0(const char *what, size_t block, const uint8_t *x, const uint8_t *golden) {
    float values[32], scale;
    int8_t q[32];
    int16_t sums[2];
    for (size_t i = 0; i < 32; i++) {
        values[i] = vectors_f32(x, i);
    }
    scale = act_q8_0(values, q, sums);
    if (!vectors_same(scale, f16_to_f32(load_u16(golden)))) {
        fail_msg("%s block %zu: scale %a, golden %a", what, block, (double)scale,
                 (double)f16_to_f32(load_u16(golden)));
    }
    for (size_t i = 0; i < 32; i++) {
        if (q[i] != (int8_t)golden[2 + i]) {
            fail_msg("%s block %zu code %zu: got %d, golden %d", what, block, i, q[i],
                     (int8_t)golden[2 + i]);
        }
    }
    for (size_t j = 0; j < 2; j++) {
        int sum = 0;
        for (size_t i = 0; i < 16; i++) {
            sum += (int8_t)golden[2 + 16 * j + i];
        }
        assert_int_equal(sums[j], sum);
    }
    blocks_run++;
}

static void check_q8_k(const char *what, size_t block, const uint8_t *x, const uint8_t *golden) {
    float values[256], scale;
    int8_t q[256];
    int16_t sums[16];
    for (size_t i = 0; i < 256; i++) {
        values[i] = vectors_f32(x, i);
    }
    scale = act_q8_k(values, q, sums);
    if (!vectors_same(scale, vectors_f32(golden, 0))) {
        fail_msg("%s block %zu: scale %a, golden %a", what, block, (double)scale,
                 (double)vectors_f32(golden, 0));
    }
    for (size_t i = 0; i < 256; i++) {
        if (q[i] != (int8_t)golden[4 + i]) {
            fail_msg("%s block %zu code %zu: got %d, golden %d", what, block, i, q[i],
                     (int8_t)golden[4 + i]);
        }
    }
    for (size_t j = 0; j < 16; j++) {
        int golden_sum = (int16_t)load_u16(golden + 260 + 2 * j);
        if (sums[j] != golden_sum) {
            fail_msg("%s block %zu sum %zu: got %d, golden %d", what, block, j, sums[j],
                     golden_sum);
        }
    }
    blocks_run++;
}

static void special_rows_have_the_golden_codes(void **state) {
    const json_t *quant = vectors_get(vectors_json("manifest.json"), "activation_quant");
    const json_t *names = vectors_get(quant, "rows");
    size_t bytes;
    const uint8_t *x = vectors_array(vectors_get(quant, "input"), &bytes);
    const uint8_t *q8_0 = vectors_array(vectors_get(quant, "Q8_0"), &bytes);
    const uint8_t *q8_k = vectors_array(vectors_get(quant, "Q8_K"), &bytes);
    (void)state;
    assert_int_equal(json_array_size(names), 23);
    for (size_t row = 0; row < json_array_size(names); row++) {
        const char *name = json_string_value(json_array_get(names, row));
        for (size_t b = 0; b < 8; b++) {
            check_q8_0(name, b, x + 1024 * row + 128 * b, q8_0 + (8 * row + b) * Q8_0_BYTES);
        }
        check_q8_k(name, 0, x + 1024 * row, q8_k + row * Q8_K_BYTES);
    }
}

static void activation_rows_have_the_golden_codes(void **state) {
    const json_t *rows = vectors_get(vectors_json("manifest.json"), "activation_rows");
    const json_t *encodings = vectors_get(rows, "encodings");
    size_t bytes;
    const uint8_t *x = vectors_array(vectors_get(encodings, "F32"), &bytes);
    size_t values = bytes / 4;
    const uint8_t *q8_0 = vectors_array(vectors_get(encodings, "Q8_0"), &bytes);
    (void)state;
    assert_int_equal(bytes, values / 32 * Q8_0_BYTES);
    const uint8_t *q8_k = vectors_array(vectors_get(encodings, "Q8_K"), &bytes);
    assert_int_equal(bytes, values / 256 * Q8_K_BYTES);
    for (size_t b = 0; b < values / 32; b++) {
        check_q8_0("activations", b, x + 128 * b, q8_0 + b * Q8_0_BYTES);
    }
    for (size_t b = 0; b < values / 256; b++) {
        check_q8_k("activations", b, x + 1024 * b, q8_k + b * Q8_K_BYTES);
    }
}

/* Fills a block with value at `at` and ones elsewhere, and says what both encodings make of it. */
static void quantize_with(float fill, int at, float value, float scale[2], int8_t q[2][256],
                          int16_t sums[2][16]) {
    float x[256];
    for (int i = 0; i < 256; i++) {
        x[i] = fill;
    }
    x[at] = value;
    memset(q, 0x55, 2 * sizeof *q);
    memset(sums, 0x55, 2 * sizeof *sums);
    scale[0] = act_q8_0(x + at / 32 * 32, q[0], sums[0]);
    scale[1] = act_q8_k(x, q[1], sums[1]);
}

static void assert_no_codes(int8_t q[2][256], int16_t sums[2][16]) {
    for (int i = 0; i < 256; i++) {
        assert_int_equal(q[0][i & 31], 0);
        assert_int_equal(q[1][i], 0);
        assert_int_equal(sums[0][i & 1], 0);
        assert_int_equal(sums[1][i & 15], 0);
    }
}

static void a_block_with_inf_or_nan_has_scale_nan_and_no_codes(void **state) {
    static const uint32_t bad[] = {0x7f800000u, 0xff800000u, 0x7fc00000u, 0xffc00001u, 0x7f800001u};
    static const int places[] = {0, 31, 100, 255};
    float scale[2];
    int8_t q[2][256];
    int16_t sums[2][16];
    (void)state;
    for (size_t b = 0; b < sizeof bad / sizeof bad[0]; b++) {
        for (size_t p = 0; p < 4; p++) {
            quantize_with(1.0f, places[p], float_of(bad[b]), scale, q, sums);
            if (scale[0] == scale[0] || scale[1] == scale[1]) {
                fail_msg("bits %08x at %d: scales %a and %a", bad[b], places[p], (double)scale[0],
                         (double)scale[1]);
            }
            assert_no_codes(q, sums);
        }
    }
}

static void a_block_without_a_finite_reciprocal_is_all_zero(void **state) {
    /* 127 * 2^-128 and below: 1 / (max / 127) and 127 / max are 2^128 and more */
    static const float tiny[] = {0.0f, -0.0f, 0x1p-149f, -0x1p-149f, 0x1p-126f, -0x1.fcp-122f};
    float scale[2];
    int8_t q[2][256];
    int16_t sums[2][16];
    (void)state;
    for (size_t t = 0; t < sizeof tiny / sizeof tiny[0]; t++) {
        quantize_with(0.0f, 77, tiny[t], scale, q, sums);
        if (bits_of(scale[0]) != 0 || bits_of(scale[1]) != 0) {
            fail_msg("max %a: scales %a and %a", (double)tiny[t], (double)scale[0],
                     (double)scale[1]);
        }
        assert_no_codes(q, sums);
    }
    /* twice that has one */
    quantize_with(0.0f, 77, 0x1.fcp-121f, scale, q, sums);
    assert_int_equal(q[0][77 % 32], 127);
    assert_int_equal(q[1][77], -127);
    assert_true(scale[1] == -0x1p-127f);
}

static void halves_go_away_from_zero_in_q8_0_and_to_even_in_q8_k(void **state) {
    /* the scale is 1 or -1: codes are the rounded values */
    static const float x[8] = {127.0f, 0.5f, -0.5f, 1.5f, -1.5f, 2.5f, -2.5f, 126.5f};
    static const int away[8] = {127, 1, -1, 2, -2, 3, -3, 127};
    static const int even[8] = {-127, 0, 0, -2, 2, -2, 2, -126};
    float block[256] = {0};
    int8_t q[256];
    int16_t sums[16];
    (void)state;
    memcpy(block, x, sizeof x);
    assert_true(act_q8_0(block, q, sums) == 1.0f);
    for (int i = 0; i < 8; i++) {
        assert_int_equal(q[i], away[i]);
    }
    assert_int_equal(sums[0], 127 + 127);
    assert_true(act_q8_k(block, q, sums) == -1.0f);
    for (int i = 0; i < 8; i++) {
        assert_int_equal(q[i], even[i]);
    }
}

static void the_first_of_equal_magnitudes_gives_q8_k_its_sign(void **state) {
    float block[256] = {0};
    int8_t q[256];
    int16_t sums[16];
    (void)state;
    block[40] = -3.0f;
    block[41] = 3.0f;
    assert_true(act_q8_k(block, q, sums) > 0.0f);
    assert_int_equal(q[40], -127);
    assert_int_equal(q[41], 127);
    block[39] = 3.0f;
    assert_true(act_q8_k(block, q, sums) < 0.0f);
    assert_int_equal(q[39], -127);
}

static void golden_blocks_were_run(void **state) {
    (void)state;
    assert_int_equal(blocks_run, 23 * 9 + 12288 / 32 + 12288 / 256);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(special_rows_have_the_golden_codes),
        cmocka_unit_test(activation_rows_have_the_golden_codes),
        cmocka_unit_test(a_block_with_inf_or_nan_has_scale_nan_and_no_codes),
        cmocka_unit_test(a_block_without_a_finite_reciprocal_is_all_zero),
        cmocka_unit_test(halves_go_away_from_zero_in_q8_0_and_to_even_in_q8_k),
        cmocka_unit_test(the_first_of_equal_magnitudes_gives_q8_k_its_sign),
        cmocka_unit_test(golden_blocks_were_run),
    };
    return cmocka_run_group_tests_name("activations", tests, NULL, NULL);
}
