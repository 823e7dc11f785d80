/* SPDX-License-Identifier: MIT
 * test_encode.c - what the encoders write is valid and as near to the weights as its step allows.
 */
#include "vectors.h"

#include <math.h>

#include "formats/encode.h"

/* A uniform quantizer of L levels over [-max, max] has an NMSE of (max / L)^2 / 3 over the mean
 * square: for blocks of gaussian weights, max near 2.1 sigma, 1.5 / L^2.  Allowed is twice that, as
 * scales are rounded too and nothing is searched. */
#define LEVELS(l) (3.0 / ((l) * (l)))
static const struct {
    const char *name;
    double nmse;
    double step; /* the smallest that the format has: step^2 / 12 more a weight */
} limits[] = {
    {"f32", 0, 0},
    {"f16", 0x1p-22 / 3, 0}, /* at most half a unit of the last place, relative */
    {"bf16", 0x1p-16 / 3, 0},
    {"q4_0", LEVELS(16), 0},
    {"q4_1", LEVELS(16), 0},
    {"q5_0", LEVELS(32), 0},
    {"q5_1", LEVELS(32), 0},
    {"q8_0", LEVELS(255), 0},
    {"iq4_nl", LEVELS(16), 0},
    {"mxfp4", 0.03, 0}, /* the top level is 12 of a step that may be twice what is needed */
    {"nvfp4", 0.015, 0},
    {"q1_0", 0.37, 0}, /* 1 - 2 / pi for the sign of a gaussian */
    {"q2_0", LEVELS(4), 0},
    {"q2_k", LEVELS(4), 0},
    {"q3_k", LEVELS(8), 0},
    {"q4_k", LEVELS(16), 0},
    {"q5_k", LEVELS(32), 0},
    {"q6_k", LEVELS(64), 0},
    {"iq4_xs", LEVELS(16), 0},
    /* levels that are not even, or a scale grid of an eighth, cost what they win by the search */
    {"rocmfp4", LEVELS(16), 0x1p-10},
    {"rocmfp4_fast", LEVELS(16), 0x1p-10},
    {"rocmfp6", LEVELS(63), 0x1p-10},
    {"rocmfp8", LEVELS(255), 0x1p-10},
    {"rocmfp3", LEVELS(7), 0x1p-10},
    {"rocmfp2", LEVELS(4), 0x1p-10},
};

/* Sum of twelve uniform numbers less six: near a gaussian of sigma 1. */
static float gaussian(uint32_t *seed) {
    double sum = -6;
    for (int i = 0; i < 12; i++) {
        *seed = *seed * 1664525u + 1013904223u;
        sum += (double)(*seed >> 8) * 0x1p-24;
    }
    return (float)sum;
}

enum { WEIGHTS = 4096 };

static double encoded_nmse(const format_info *format, float scale, uint8_t *blocks) {
    static float weights[WEIGHTS];
    uint32_t seed = 7;
    double error = 0, power = 0;
    for (int i = 0; i < WEIGHTS; i++) {
        weights[i] = scale * gaussian(&seed);
    }
    assert_int_equal(format_encode(format->id, weights, WEIGHTS, blocks), 1);
    opreg_side side = {.tensor_scale = 1.0f};
    for (int i = 0; i < WEIGHTS; i++) {
        const uint8_t *block = blocks + i / format->values * format->bytes;
        if (format->invalid(block, &side) != NULL) {
            fail_msg("%s, sigma %g: block of weight %d is invalid: %s", format->name, (double)scale,
                     i, format->invalid(block, &side));
        }
        double off = (double)format->value(block, i % format->values, &side) - (double)weights[i];
        error += off * off;
        power += (double)weights[i] * (double)weights[i];
    }
    return error / power;
}

static void encoded_weights_are_near(void **state) {
    (void)state;
    for (size_t l = 0; l < sizeof limits / sizeof limits[0]; l++) {
        static uint8_t blocks[4 * WEIGHTS + 1];
        const format_info *format = format_by_name(limits[l].name);
        size_t bytes = (size_t)(WEIGHTS / format->values * format->bytes);
        for (int s = 0; s < 3; s++) {
            static const float sigma[] = {1.0f, 0.02f, 40.0f};
            blocks[bytes] = 0xa5;
            double nmse = encoded_nmse(format, sigma[s], blocks);
            double step = limits[l].step / (double)sigma[s],
                   limit = limits[l].nmse + step * step / 12;
            if (!(nmse <= limit) || blocks[bytes] != 0xa5) {
                fail_msg("%s, sigma %g: nmse %g, limit %g", limits[l].name, (double)sigma[s], nmse,
                         limit);
            }
        }
    }
}

/* A weight that is a level of a book times a scale comes back, in whichever book it is. */
static void mix_weights_on_a_level_come_back(void **state) {
    static const uint32_t formats[2] = {OPREG_ROCMFP3_MIX, OPREG_ROCMFP2_MIX};
    (void)state;
    for (int f = 0; f < 2; f++) {
        const format_info *format = format_by_id(formats[f]);
        int count = f == 0 ? 8 : 4;
        for (uint32_t mode = 0; mode < 2; mode++) {
            opreg_side side = {.tensor_scale = 1.0f, .mode = mode};
            float weights[64];
            uint8_t blocks[2 * 14 + 1] = {0};
            for (int i = 0; i < 2 * count; i++) { /* mode 0 has one book, twice */
                int c = i % count;
                side.levels[i] = (float)(2 * c - count + 1) + (mode && i >= count ? 0.25f : 0.0f);
            }
            for (int i = 0; i < 64; i++) { /* halves of 16: book 0, book 1, ... */
                weights[i] = 0.375f * side.levels[(i >> 4 & 1) * count + i % count];
            }
            blocks[2 * format->bytes] = 0xa5;
            assert_int_equal(format_encode_mix(format->id, &side, weights, 64, blocks), 1);
            assert_int_equal(blocks[2 * format->bytes], 0xa5);
            for (int i = 0; i < 64; i++) {
                const uint8_t *block = blocks + i / 32 * format->bytes;
                assert_null(format->invalid(block, &side));
                if (!vectors_same(format->value(block, i % 32, &side), weights[i])) {
                    fail_msg("%s, mode %u: weight %d is %a, not %a", format->name, mode, i,
                             (double)format->value(block, i % 32, &side), (double)weights[i]);
                }
            }
        }
        assert_int_equal(format_encode(format->id, NULL, 0, NULL), 0); /* it needs the levels */
    }
    assert_int_equal(format_encode_mix(OPREG_ROCMFP3, NULL, NULL, 0, NULL), 0);
}

/* The few scales that are tried are enough that no other scale byte would be better. */
static void the_scale_is_the_best_of_all(void **state) {
    const format_info *format = format_by_id(OPREG_ROCMFP4_FAST);
    uint32_t seed = 11;
    (void)state;
    for (int b = 0; b < 200; b++) {
        float weights[32];
        uint8_t block[17];
        opreg_side side = {.tensor_scale = 1.0f};
        double least = INFINITY, got = 0;
        for (int i = 0; i < 32; i++) {
            weights[i] = gaussian(&seed);
        }
        assert_int_equal(format_encode(format->id, weights, 32, block), 1);
        for (int i = 0; i < 32; i++) {
            double off = (double)format->value(block, i, &side) - (double)weights[i];
            got += off * off;
        }
        for (int scale = 0; scale < 0x7f; scale++) {
            double error = 0;
            for (int i = 0; i < 32; i++) {
                double nearest = INFINITY;
                for (int code = 0; code < 16; code++) {
                    uint8_t probe[17] = {(uint8_t)code};
                    probe[16] = (uint8_t)scale;
                    double off = (double)format->value(probe, 0, &side) - (double)weights[i];
                    nearest = off * off < nearest ? off * off : nearest;
                }
                error += nearest;
            }
            least = error < least ? error : least;
        }
        if (got > least * (1 + 1e-9)) {
            fail_msg("block %d: error %g, another scale has %g", b, got, least);
        }
    }
}

static void zeros_stay_zero(void **state) {
    (void)state;
    for (size_t l = 0; l < sizeof limits / sizeof limits[0]; l++) {
        static const float zeros[256];
        uint8_t blocks[1024];
        opreg_side side = {.tensor_scale = 1.0f};
        const format_info *format = format_by_name(limits[l].name);
        assert_int_equal(format_encode(format->id, zeros, 256, blocks), 1);
        for (int i = 0; i < 256; i++) {
            const uint8_t *block = blocks + i / format->values * format->bytes;
            if (format->value(block, i % format->values, &side) != 0.0f ||
                format->invalid(block, &side)) {
                fail_msg("%s makes weight %d of zeros something else", format->name, i);
            }
        }
    }
}

/* The float formats and Q8_0 have one rule only. */
static void q8_0_and_float_blocks_are_the_golden_ones(void **state) {
    static const char *const names[] = {"f32", "f16", "bf16", "q8_0"};
    (void)state;
    for (size_t n = 0; n < 4; n++) {
        const format_info *format = format_by_name(names[n]);
        static float weights[WEIGHTS];
        static uint8_t blocks[4 * WEIGHTS];
        size_t bytes;
        const json_t *section =
            vectors_get(vectors_get(vectors_format(names[n]), "sections"), "quantized");
        const uint8_t *input = vectors_array(vectors_get(section, "input"), &bytes);
        size_t count = bytes / 4;
        for (size_t i = 0; i < count; i++) {
            weights[i] = vectors_f32(input, i);
        }
        assert_int_equal(format_encode(format->id, weights, (int64_t)count, blocks), 1);
        const uint8_t *golden = vectors_array(vectors_get(section, "encoded"), &bytes);
        for (size_t i = 0; i < bytes; i++) {
            if (blocks[i] != golden[i]) {
                fail_msg("%s byte %zu: %02x, golden %02x", names[n], i, blocks[i], golden[i]);
            }
        }
    }
}

static void formats_without_an_encoder_say_so(void **state) {
    int encoders = 0;
    (void)state;
    for (size_t i = 0; i < format_count(); i++) {
        encoders += format_can_encode(format_at(i)->id);
    }
    assert_int_equal(encoders, sizeof limits / sizeof limits[0]);
    assert_int_equal(format_can_encode(OPREG_IQ1_S), 0);
    assert_int_equal(format_can_encode(OPREG_GQH3), 0);
    assert_int_equal(format_can_encode(0), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(encoded_weights_are_near),
        cmocka_unit_test(mix_weights_on_a_level_come_back),
        cmocka_unit_test(the_scale_is_the_best_of_all),
        cmocka_unit_test(zeros_stay_zero),
        cmocka_unit_test(q8_0_and_float_blocks_are_the_golden_ones),
        cmocka_unit_test(formats_without_an_encoder_say_so),
    };
    return cmocka_run_group_tests_name("encode", tests, NULL, NULL);
}
