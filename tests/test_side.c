/* SPDX-License-Identifier: MIT
 * test_side.c - side data becomes one record an expert, or is refused with a reason. */
#include "vectors.h"

#include "formats/side.h"

#define EXPERTS 3

static void assert_bits(float got, float want) {
    if (bits_of(got) != bits_of(want)) {
        fail_msg("%a, not %a", (double)got, (double)want);
    }
}

static opreg_weight_desc weight(uint32_t format, int64_t experts, const void *side,
                                uint64_t side_bytes) {
    opreg_weight_desc desc = {.struct_size = sizeof desc};
    desc.format = format;
    desc.experts = experts;
    desc.side = side;
    desc.side_bytes = side_bytes;
    return desc;
}

/* The weight is refused, and the text has `words` in it. */
static void assert_refused(const opreg_weight_desc *desc, const char *words) {
    opreg_side rows[EXPERTS];
    assert_int_equal(side_decode(desc, rows), OPREG_E_ARG);
    if (strstr(opreg_last_error(), words) == NULL) {
        fail_msg("\"%s\" is not in \"%s\"", words, opreg_last_error());
    }
    assert_int_equal(side_decode(desc, NULL), OPREG_E_ARG);
}

static void put_bf16(uint8_t *p, float value) {
    uint32_t bits = f32_to_bf16(value);
    p[0] = (uint8_t)bits;
    p[1] = (uint8_t)(bits >> 8);
}

/* E modes, `gap` bytes of 0 for each, then E * 2 books of k levels: expert e's book b has the level
 * 10 e + 100 b + i.  Returns the size. */
static uint64_t make_mix(uint8_t *bytes, uint32_t experts, uint32_t k, uint32_t gap,
                         const uint8_t *modes) {
    uint8_t *p = bytes + experts * (1 + gap);
    memset(bytes, 0, experts * (1 + gap));
    memcpy(bytes, modes, experts);
    for (uint32_t e = 0; e < experts; e++) {
        for (uint32_t i = 0; i < 2 * k; i++, p += 2) {
            put_bf16(p, (float)(10 * e + 100 * (i / k) + i % k));
        }
    }
    return (uint64_t)(p - bytes);
}

static void a_gqh_header_gives_the_scale_and_the_grid_of_its_code(void **state) {
    const uint8_t side[5] = {0, 0, 0xc0, 0x3f, 7}; /* 1.5, code 7 */
    opreg_side rows[EXPERTS];
    opreg_weight_desc desc = weight(OPREG_GQH4, EXPERTS, side, sizeof side);
    (void)state;
    assert_int_equal(side_decode(&desc, rows), OPREG_OK);
    for (int e = 0; e < EXPERTS; e++) {
        assert_bits(rows[e].tensor_scale, 1.5f);
        assert_int_equal(rows[e].mode, 0);
        for (int i = 0; i < 16; i++) {
            assert_bits(rows[e].levels[i], gqh4_grid[7][i]);
        }
    }
    desc.format = OPREG_GQH3;
    assert_int_equal(side_decode(&desc, rows), OPREG_OK);
    for (int i = 0; i < 16; i++) {
        assert_bits(rows[0].levels[i], i < 8 ? gqh3_grid[7][i] : 0.0f);
    }
    desc.format = OPREG_GQH2_H;
    assert_int_equal(side_decode(&desc, rows), OPREG_OK);
    for (int i = 0; i < 16; i++) {
        assert_bits(rows[0].levels[i], i < 4 ? gqh2h_grid[7][i] : 0.0f);
    }
}

static void a_gqh_header_out_of_range_is_refused(void **state) {
    uint8_t side[6] = {0, 0, 0x80, 0x3f, 12, 0};
    opreg_weight_desc desc = weight(OPREG_GQH3, 1, side, 5);
    (void)state;
    assert_refused(&desc, "grid_code is 12");
    side[4] = 11;
    assert_int_equal(side_decode(&desc, NULL), OPREG_OK);
    desc.side_bytes = 4;
    assert_refused(&desc, "4 bytes, not 5");
    desc.side_bytes = 6;
    assert_refused(&desc, "6 bytes, not 5");
    desc.side_bytes = 5;
    side[3] = 0xbf;
    assert_refused(&desc, "tensor_scale is -1");
    memcpy(side, "\0\0\200\177", 4);
    assert_refused(&desc, "tensor_scale is inf");
    memcpy(side, "\0\0\300\177", 4);
    assert_refused(&desc, "tensor_scale is nan");
    memcpy(side, "\0\0\0\0", 4);
    assert_refused(&desc, "tensor_scale is 0");
    memcpy(side, "\1\0\0\0", 4); /* the smallest subnormal is a scale */
    assert_int_equal(side_decode(&desc, NULL), OPREG_OK);
}

static void every_mix_form_gives_the_experts_their_books(void **state) {
    static const struct {
        uint32_t format, k, gap;
    } forms[] = {{OPREG_ROCMFP2_MIX, 4, 0}, {OPREG_ROCMFP3_MIX, 8, 0}, {OPREG_ROCMFP3_MIX, 8, 1}};
    static const uint8_t modes[EXPERTS] = {1, 0, 1};
    static const float fixed4[4] = {-1, 0, 1, 2}, fixed8[8] = {0, 1, 2, 4, -0.0f, -1, -2, -4};
    (void)state;
    for (size_t f = 0; f < sizeof forms / sizeof forms[0]; f++) {
        uint8_t bytes[EXPERTS * 34];
        opreg_side rows[EXPERTS];
        uint32_t k = forms[f].k;
        uint64_t size = make_mix(bytes, EXPERTS, k, forms[f].gap, modes);
        opreg_weight_desc desc = weight(forms[f].format, EXPERTS, bytes, size);
        assert_int_equal(side_decode(&desc, rows), OPREG_OK);
        for (uint32_t e = 0; e < EXPERTS; e++) {
            assert_int_equal(rows[e].mode, modes[e]);
            assert_bits(rows[e].tensor_scale, 1.0f);
            for (uint32_t i = 0; i < 2 * k; i++) {
                float fixed = k == 4 ? fixed4[i % k] : fixed8[i % k];
                assert_bits(rows[e].levels[i],
                            modes[e] ? (float)(10 * e + 100 * (i / k) + i % k) : fixed);
            }
            for (uint32_t i = 2 * k; i < 16; i++) {
                assert_bits(rows[e].levels[i], 0.0f);
            }
        }
    }
}

static void one_codebook_serves_every_expert(void **state) {
    static const uint32_t formats[2] = {OPREG_ROCMFP2_MIX, OPREG_ROCMFP3_MIX};
    (void)state;
    for (uint32_t f = 0; f < 2; f++) {
        uint32_t k = 4 << f;
        uint8_t bytes[36] = {1, 0xff, 0xff, 0xff};
        opreg_side rows[EXPERTS];
        opreg_weight_desc desc = weight(formats[f], EXPERTS, bytes, 4 + 4 * k);
        for (uint32_t i = 0; i < 2 * k; i++) {
            put_bf16(bytes + 4 + 2 * i, (float)i);
        }
        assert_int_equal(side_decode(&desc, rows), OPREG_OK);
        for (uint32_t e = 0; e < EXPERTS; e++) {
            assert_int_equal(rows[e].mode, 1);
            assert_bits(rows[e].levels[2 * k - 1], (float)(2 * k - 1));
        }
    }
}

static void bad_mix_side_data_is_refused(void **state) {
    uint8_t modes[EXPERTS] = {1, 1, 1}, bytes[EXPERTS * 34 + 1] = {0};
    uint64_t size = make_mix(bytes, EXPERTS, 8, 1, modes);
    opreg_weight_desc desc = weight(OPREG_ROCMFP3_MIX, EXPERTS, bytes, size);
    (void)state;
    bytes[2] = 2;
    assert_refused(&desc, "expert 2 has mode 2");
    bytes[2] = 1;
    bytes[EXPERTS + 1] = 1;
    assert_refused(&desc, "expert 1 has rotation 1");
    bytes[EXPERTS + 1] = 0;
    desc.side_bytes = size + 1;
    assert_refused(&desc, "103 bytes");
    desc.side_bytes = size - 1;
    assert_refused(&desc, "101 bytes");
    desc.side_bytes = size;
    desc.experts = EXPERTS - 1;
    assert_refused(&desc, "each of 2 experts");
    desc.experts = INT64_MAX;
    assert_refused(&desc, "102 bytes");
    desc.experts = 0;
    assert_refused(&desc, "experts is 0");
    desc.experts = -1;
    assert_refused(&desc, "experts is -1");
    desc.experts = EXPERTS;
    /* expert 1, book 1, level 3 */
    uint8_t *level = bytes + 2 * EXPERTS + 32 * 1 + 16 * 1 + 2 * 3;
    put_bf16(level, 112.0f); /* equal to level 2 */
    assert_refused(&desc, "expert 1, book 1, level 3 is 112, not above");
    bytes[1] = 0;
    assert_int_equal(side_decode(&desc, NULL), OPREG_OK); /* mode 0 reads no book */
    level[1] = 0x7f;
    level[0] = 0x80;
    assert_refused(&desc, "expert 1, book 1, level 3 is Inf or NaN");
}

static void side_data_that_is_missing_or_too_much_is_refused(void **state) {
    const uint8_t side[5] = {0, 0, 0x80, 0x3f, 0};
    opreg_weight_desc desc = weight(OPREG_GQH4, 1, NULL, 0);
    (void)state;
    assert_refused(&desc, "needs side data");
    desc.format = OPREG_ROCMFP2_MIX;
    assert_refused(&desc, "needs side data");
    desc = weight(OPREG_Q4_K, 1, side, 5);
    assert_refused(&desc, "q4_k has no side data");
    desc = weight(OPREG_GQH4, 1, NULL, 5);
    assert_refused(&desc, "null with side_bytes 5");
    desc = weight(OPREG_GQH4, 1, side, 0);
    assert_refused(&desc, "set with side_bytes 0");
    desc = weight(9999, 1, NULL, 0);
    assert_refused(&desc, "format 9999");
}

static void only_nvfp4_has_a_tensor_scale_outside_its_side_data(void **state) {
    opreg_side row;
    opreg_weight_desc desc = weight(OPREG_NVFP4, 1, NULL, 0);
    (void)state;
    assert_int_equal(side_decode(&desc, &row), OPREG_OK);
    assert_bits(row.tensor_scale, 1.0f);
    desc.tensor_scale = 0.25f;
    assert_int_equal(side_decode(&desc, &row), OPREG_OK);
    assert_bits(row.tensor_scale, 0.25f);
    desc.tensor_scale = float_of(0x7fc00000u);
    assert_refused(&desc, "tensor_scale is Inf or NaN");
    desc.format = OPREG_MXFP4;
    desc.tensor_scale = 1.0f;
    assert_int_equal(side_decode(&desc, &row), OPREG_OK);
    desc.tensor_scale = 0.25f;
    assert_refused(&desc, "mxfp4 has none");
}

static void a_dialect_belongs_to_its_format(void **state) {
    opreg_side row;
    (void)state;
    for (uint32_t dialect = 0; dialect <= OPREG_DIALECT_ROCMFP4_HIP + 1; dialect++) {
        static const struct {
            uint32_t format, first, last, standard;
        } rules[] = {
            {OPREG_ROCMFP2, OPREG_DIALECT_ROCMFP2_PLAIN, OPREG_DIALECT_ROCMFP2_S40,
             OPREG_DIALECT_ROCMFP2_SIGNBIT},
            {OPREG_NVFP4, OPREG_DIALECT_NVFP4_HOST, OPREG_DIALECT_NVFP4_SIGNED,
             OPREG_DIALECT_NVFP4_HOST},
            {OPREG_ROCMFP4, OPREG_DIALECT_ROCMFP4_HIP, OPREG_DIALECT_ROCMFP4_HIP, 0},
            {OPREG_ROCMFP4_FAST, OPREG_DIALECT_ROCMFP4_HIP, OPREG_DIALECT_ROCMFP4_HIP, 0},
            {OPREG_Q8_0, 1, 0, 0},
        };
        for (size_t r = 0; r < sizeof rules / sizeof rules[0]; r++) {
            opreg_weight_desc desc = weight(rules[r].format, 1, NULL, 0);
            desc.dialect = dialect;
            if (dialect == 0 || (dialect >= rules[r].first && dialect <= rules[r].last)) {
                assert_int_equal(side_decode(&desc, &row), OPREG_OK);
                assert_int_equal(row.dialect, dialect == 0 ? rules[r].standard : dialect);
            } else {
                assert_refused(&desc, "dialect");
            }
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_gqh_header_gives_the_scale_and_the_grid_of_its_code),
        cmocka_unit_test(a_gqh_header_out_of_range_is_refused),
        cmocka_unit_test(every_mix_form_gives_the_experts_their_books),
        cmocka_unit_test(one_codebook_serves_every_expert),
        cmocka_unit_test(bad_mix_side_data_is_refused),
        cmocka_unit_test(side_data_that_is_missing_or_too_much_is_refused),
        cmocka_unit_test(only_nvfp4_has_a_tensor_scale_outside_its_side_data),
        cmocka_unit_test(a_dialect_belongs_to_its_format),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
