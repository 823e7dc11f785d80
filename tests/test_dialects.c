/* SPDX-License-Identifier: MIT
 * test_dialects.c - the readings and the order of roundings that no golden vector shows: the four
 * of ROCMFP2, the device reading of ROCMFP4, and the folds of the formats with f32 activations. */
#include "vectors.h"

#include <math.h>

static void assert_bits(float got, float want, const char *what, int at) {
    if (bits_of(got) != bits_of(want)) {
        fail_msg("%s %d: %a, not %a", what, at, (double)got, (double)want);
    }
}

/* Bytes that differ from one another, the same in every run. */
static void fill(uint8_t *bytes, size_t count, uint32_t seed) {
    for (size_t i = 0; i < count; i++) {
        seed = seed * 1664525u + 1013904223u;
        bytes[i] = (uint8_t)(seed >> 24);
    }
}

/* ---- scale bytes ------------------------------------------------------------------------------
 */

static void rocmfp2_levels_follow_the_dialect(void **state) {
    static const struct {
        uint32_t dialect;
        float weights[4]; /* codes 0..3 with scales 0.5 and 0.25, one each for two halves */
    } rows[] = {
        {OPREG_DIALECT_ROCMFP2_PLAIN, {-0.5f, 0.0f, 0.5f, 1.0f}},
        {OPREG_DIALECT_ROCMFP2_SIGNBIT, {-0.5f, 0.0f, 0.5f, 1.0f}},
        {OPREG_DIALECT_DEFAULT, {-0.5f, 0.0f, 0.5f, 1.0f}},
        {OPREG_DIALECT_ROCMFP2_S40, {-2.0f, -0.5f, 0.5f, 2.0f}},
        {OPREG_DIALECT_ROCMFP2_AFFINE, {-0.25f, 0.25f, 0.75f, 1.25f}}, /* code * 0.5 - 0.25 */
    };
    uint8_t block[10] = {0xe4, 0, 0, 0, 0xe4, 0, 0, 0, 0x38, 0x30}; /* codes 0 1 2 3, twice */
    const format_info *format = format_by_id(OPREG_ROCMFP2);
    (void)state;
    for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++) {
        opreg_side side = {.tensor_scale = 1.0f, .dialect = rows[r].dialect};
        int affine = rows[r].dialect == OPREG_DIALECT_ROCMFP2_AFFINE;
        for (int i = 0; i < 4; i++) {
            float first = rows[r].weights[i], second = affine ? first : first * 0.5f;
            assert_bits(format->value(block, i, &side), first, "first half", i);
            assert_bits(format->value(block, i + 16, &side), second, "second half", i);
        }
    }
}

static void bit_7_of_a_rocmfp2_scale_negates_or_is_refused(void **state) {
    const format_info *format = format_by_id(OPREG_ROCMFP2);
    (void)state;
    for (uint32_t dialect = 0; dialect <= OPREG_DIALECT_ROCMFP2_S40; dialect++) {
        opreg_side side = {.tensor_scale = 1.0f, .dialect = dialect};
        int negates = dialect == OPREG_DIALECT_DEFAULT || dialect == OPREG_DIALECT_ROCMFP2_SIGNBIT;
        for (int at = 8; at < 10; at++) {
            uint8_t block[10] = {3}; /* weight 0 is code 3, weight 16 code 0 */
            block[4] = 3;
            for (int byte = 0; byte < 256; byte++) {
                int valid = (negates ? byte & 127 : byte) <= 0x7e;
                block[at] = (uint8_t)byte;
                if ((format->invalid(block, &side) == NULL) != valid) {
                    fail_msg("dialect %u, scale byte %d is %s", dialect, byte,
                             valid ? "refused" : "accepted");
                }
            }
        }
    }
    uint8_t block[10] = {3, 0, 0, 0, 3, 0, 0, 0, 0xb8, 0x38};
    opreg_side side = {.tensor_scale = 1.0f};
    assert_bits(format->value(block, 0, &side), -1.0f, "weight", 0);
    assert_bits(format->value(block, 16, &side), 1.0f, "weight", 16);
    block[0] = 1; /* level 0 under a negated scale */
    assert_bits(format->value(block, 0, &side), -0.0f, "weight", 0);
}

static void the_device_reading_of_rocmfp4_refuses_nothing(void **state) {
    static const uint32_t formats[2] = {OPREG_ROCMFP4, OPREG_ROCMFP4_FAST};
    (void)state;
    for (int f = 0; f < 2; f++) {
        const format_info *format = format_by_id(formats[f]);
        opreg_side host = {.tensor_scale = 1.0f};
        opreg_side device = {.tensor_scale = 1.0f, .dialect = OPREG_DIALECT_ROCMFP4_HIP};
        for (int byte = 0; byte < 256; byte++) {
            uint8_t block[18] = {1}, low[18] = {1}; /* weight 0 is level 1 */
            block[16] = (uint8_t)byte;
            low[16] = (uint8_t)(byte & 127);
            float scale = (byte & 127) == 127 ? 240.0f : format->value(low, 0, &host);
            assert_bits(format->value(block, 0, &device), scale, "device, scale byte", byte);
            assert_bits(format->value(block, 0, &host), byte > 0x7e ? 0.0f : scale,
                        "host, scale byte", byte);
            assert_null(format->invalid(block, &device));
            assert_int_equal(format->invalid(block, &host) == NULL, byte <= 0x7e);
        }
    }
}

/* ---- folds ------------------------------------------------------------------------------------
 */

static void make_x(float *x, int count) {
    for (int i = 0; i < count; i++) {
        x[i] = (float)((i * 37) % 101 - 50) * 0x1.91p-3f; /* products need more than 24 bits */
    }
}

static void a_mix_fold_adds_levels_first_and_scales_each_half_once(void **state) {
    static const uint32_t formats[2] = {OPREG_ROCMFP3_MIX, OPREG_ROCMFP2_MIX};
    float x[32];
    (void)state;
    make_x(x, 32);
    for (int f = 0; f < 2; f++) {
        const format_info *format = format_by_id(formats[f]);
        opreg_side side = {.tensor_scale = 1.0f, .mode = 1};
        int width = f == 0 ? 3 : 2;
        for (int i = 0; i < 16; i++) {
            side.levels[i] = bf16_to_f32(f32_to_bf16((float)(i - 7) * 0x1.3p-1f));
        }
        for (uint32_t seed = 1; seed <= 40; seed++) {
            uint8_t block[14];
            fill(block, sizeof block, seed);
            float want = 0.75f;
            for (int half = 0; half < 2; half++) {
                uint32_t meta = block[4 * width + half];
                float h = 0.0f, scale;
                meta = block[4 * width + half] = (uint8_t)((meta & 0x87u) | 0x40u);
                scale = ldexpf((float)(8 + (meta & 7u)), 8 - 11);
                for (int i = 16 * half; i < 16 * half + 16; i++) {
                    int code = 0;
                    for (int bit = 0; bit < width; bit++) {
                        int p = i * width + bit;
                        code |= (block[p >> 3] >> (p & 7) & 1) << bit;
                    }
                    h = fmaf(side.levels[(meta >> 7 << width) + (uint32_t)code], x[i], h);
                }
                want = fmaf(scale, h, want);
            }
            assert_bits(format->fold(block, 0, x, 32, 0.75f, &side), want, format->name, (int)seed);
        }
    }
}

static void a_gqh_fold_adds_levels_first_and_scales_eight_weights_once(void **state) {
    static const uint32_t formats[4] = {OPREG_GQH3, OPREG_GQH2_H, OPREG_GQH4, OPREG_GQH2_C};
    float x[256];
    (void)state;
    make_x(x, 256);
    for (int f = 0; f < 4; f++) {
        const format_info *format = format_by_id(formats[f]);
        /* tensor scale 1 and a power of two: value / scale is the level, exactly */
        opreg_side side = {.tensor_scale = 1.0f};
        const float *grid = f == 0 ? gqh3_grid[5] : f == 1 ? gqh2h_grid[5] : gqh4_grid[5];
        memcpy(side.levels, grid, sizeof(float) * (f == 0 ? 8 : f == 1 ? 4 : 16));
        uint8_t block[137], plain[137];
        fill(block, sizeof block, 99);
        block[0] = f == 3 ? 0x33 : 0x2d;
        block[1] = 0x2c;
        memcpy(plain, block, sizeof plain);
        plain[0] = f == 3 ? 0x00 : 0x38; /* 1 */
        plain[1] = f == 3 ? 0x3c : plain[1];
        if (f == 3) {
            for (int k = 0; k < 8; k++) {
                plain[2 + 8 * k + 7] |= 0xf0; /* ratio 15 of 15 */
            }
        } else {
            memset(plain + 1, 0xff, 8);
        }
        for (int part = 0; part < 32; part++) {
            uint32_t ratio = f == 3 ? (uint32_t)block[2 + 8 * (part >> 2) + 7] >> 4
                                    : (uint32_t)block[1 + (part >> 2)] >> 4 * (part >> 1 & 1) & 15u;
            float d = f == 3 ? f16_to_f32(load_u16(block)) : 0x1.ap-2f;
            float scale = d * ((float)ratio / 15.0f), h = 0.0f;
            for (int i = 8 * part; i < 8 * part + 8; i++) {
                h = fmaf(format->value(plain, i, &side), x[i], h);
            }
            assert_bits(format->fold(block, part, x + 8 * part, 8, -0.375f, &side),
                        fmaf(scale, h, -0.375f), format->name, part);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rocmfp2_levels_follow_the_dialect),
        cmocka_unit_test(bit_7_of_a_rocmfp2_scale_negates_or_is_refused),
        cmocka_unit_test(the_device_reading_of_rocmfp4_refuses_nothing),
        cmocka_unit_test(a_mix_fold_adds_levels_first_and_scales_each_half_once),
        cmocka_unit_test(a_gqh_fold_adds_levels_first_and_scales_eight_weights_once),
    };
    return cmocka_run_group_tests_name("dialects", tests, NULL, NULL);
}
