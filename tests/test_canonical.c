/* SPDX-License-Identifier: MIT
 * test_canonical.c - the shared float sequences against double precision.
 *
 * Every 127th f32 by default, 4 seconds; `test_canonical --full` takes every one, 10 minutes. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "canonical.h"

static uint64_t stride = 127;

/* Distance of two neighbours of binary32 at a value that is in its range. */
static double ulp_at(double value) {
    int exponent;
    frexp(value, &exponent);
    return ldexp(1.0, exponent - 24 < -149 ? -149 : exponent - 24);
}

/* Error of got in ulp of the exact value; a value past the largest f32 must be Inf. */
static double error_ulp(float got, double exact) {
    if (fabs(exact) >= 0x1.ffffffp127) {
        return (double)got == copysign((double)INFINITY, exact) ? 0.0 : 1e9;
    }
    return isfinite(got) ? fabs((double)got - exact) / ulp_at(exact) : 1e9;
}

typedef struct worst {
    double error;
    float at;
} worst;

static worst search(float (*function)(float), double (*truth)(double), float low, float high) {
    worst found = {-1.0, 0.0f};
    for (uint64_t bits = 0; bits < 0x100000000u; bits += stride) {
        float x = float_of((uint32_t)bits);
        double exact, error;
        if (!(x >= low && x <= high)) {
            continue;
        }
        exact = truth((double)x);
        error = exact == 0.0 ? (function(x) == 0.0f ? 0.0 : 1e9) : error_ulp(function(x), exact);
        if (error > found.error) {
            found.error = error;
            found.at = x;
        }
    }
    return found;
}

static void expect_within(worst found, const char *name) {
    if (found.error < 0.0 || found.error > 1.5) {
        fail_msg("%s is %g ulp off at %a", name, found.error, (double)found.at);
    }
}

/* exp(-104.28) is half of the smallest subnormal: below, 0 is right; the clamp of -104 gives 0. */
static void exp_is_within_a_unit_and_a_half_over_all_f32(void **state) {
    (void)state;
    expect_within(search(canonical_exp, exp, -INFINITY, INFINITY), "exp");
}

static void tanh_is_within_a_unit_and_a_half_over_all_f32(void **state) {
    (void)state;
    expect_within(search(canonical_tanh, tanh, -INFINITY, INFINITY), "tanh");
}

static void log_is_within_a_unit_and_a_half_over_all_positive_f32(void **state) {
    (void)state;
    expect_within(search(canonical_log, log, 0x1p-149f, 0x1.fffffep127f), "log");
}

static void special_values_pass_through_the_functions(void **state) {
    (void)state;
    assert_true(isnan(canonical_exp(NAN)) && isnan(canonical_tanh(NAN)) &&
                isnan(canonical_log(NAN)));
    assert_true(canonical_exp(INFINITY) == INFINITY && canonical_exp(-INFINITY) == 0.0f);
    assert_true(canonical_exp(0.0f) == 1.0f && canonical_exp(-0.0f) == 1.0f);
    assert_true(canonical_tanh(INFINITY) == 1.0f && canonical_tanh(-INFINITY) == -1.0f);
    assert_int_equal(bits_of(canonical_tanh(-0.0f)), 0x80000000u);
    assert_true(canonical_log(INFINITY) == INFINITY && canonical_log(0.0f) == -INFINITY);
    assert_true(canonical_log(-0.0f) == -INFINITY && isnan(canonical_log(-1.0f)));
    assert_int_equal(bits_of(canonical_log(1.0f)), 0u);
}

static void tanh_is_odd_to_the_bit(void **state) {
    (void)state;
    for (uint64_t bits = 0; bits < 0x7f800000u; bits += 65537) {
        float x = float_of((uint32_t)bits);
        assert_int_equal(bits_of(canonical_tanh(-x)), bits_of(canonical_tanh(x)) ^ 0x80000000u);
    }
}

static double exact_silu(double x) {
    return x / (1.0 + exp(-x));
}

static double exact_gelu(double x) {
    return 0.5 * x * (1.0 + tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)));
}

/* Every GLU kind near its exact value, relative to what cancels inside. */
static void gated_units_follow_their_formulas(void **state) {
    (void)state;
    for (int i = -400; i <= 400; i++) {
        float g = (float)i * 0.03f, u = 1.7f - (float)i * 0.02f;
        double limit_g = fmin((double)g, 3.0), limit_u = fmax(-3.0, fmin((double)u, 3.0));
        double silu = canonical_glu(OPREG_GLU_SILU, g, u, 0.0f, 0.0f);
        double clamped = canonical_glu(OPREG_GLU_SILU_CLAMPED, g, u, 0.0f, 3.0f);
        double gelu = canonical_glu(OPREG_GLU_GELU_TANH, g, u, 0.0f, 0.0f);
        double oai = canonical_glu(OPREG_GLU_SWIGLU_OAI, g, u, 1.702f, 3.0f);
        double scale = fabs((double)g) * (fabs((double)u) + 1.0) * 1e-6;
        assert_true(fabs(silu - exact_silu((double)g) * (double)u) <= scale);
        assert_true(fabs(clamped - exact_silu(limit_g) * limit_u) <= scale);
        assert_true(fabs(gelu - exact_gelu((double)g) * (double)u) <= scale);
        assert_true(fabs(oai - limit_g / (1.0 + exp(-(double)1.702f * limit_g)) *
                                   (limit_u + 1.0)) <= scale);
    }
}

/* Powers of two make the order visible: in another order the small ones are lost. */
static void the_trees_add_in_their_own_order(void **state) {
    float far[32], near[32], expected;
    (void)state;
    for (int i = 0; i < 32; i++) {
        far[i] = near[i] = (float)(1 << (i % 13)) * 1.000001f + (float)i * 1e-7f;
    }
    {
        float a[16], b[8], c[4];
        for (int l = 0; l < 16; l++) {
            a[l] = far[l] + far[l + 16];
        }
        for (int l = 0; l < 8; l++) {
            b[l] = a[l] + a[l + 8];
        }
        for (int l = 0; l < 4; l++) {
            c[l] = b[l] + b[l + 4];
        }
        expected = (c[0] + c[2]) + (c[1] + c[3]);
    }
    assert_int_equal(bits_of(canonical_tree(far)), bits_of(expected));
    {
        float a[16], b[8], c[4];
        for (int l = 0; l < 16; l++) {
            a[l] = near[2 * l] + near[2 * l + 1];
        }
        for (int l = 0; l < 8; l++) {
            b[l] = a[2 * l] + a[2 * l + 1];
        }
        for (int l = 0; l < 4; l++) {
            c[l] = b[2 * l] + b[2 * l + 1];
        }
        expected = (c[0] + c[1]) + (c[2] + c[3]);
    }
    assert_int_equal(bits_of(canonical_tree_near(near)), bits_of(expected));
}

/* Value of a finite e4m3 byte, by its definition. */
static double e4m3(int byte) {
    int exponent = byte >> 3 & 15, mantissa = byte & 7;
    double value = exponent == 0 ? ldexp(mantissa, -9) : ldexp(8 + mantissa, exponent - 10);
    return byte & 0x80 ? -value : value;
}

static void every_fp8_byte_has_its_value(void **state) {
    (void)state;
    for (int byte = 0; byte < 256; byte++) {
        uint8_t element = (uint8_t)byte;
        float value = canonical_load(&element, 0, OPREG_F8_E4M3);
        if ((byte & 0x7f) == 0x7f) {
            assert_true(isnan(value));
        } else {
            assert_true((double)value == e4m3(byte));
            assert_int_equal(signbit(value) != 0, byte >> 7);
        }
    }
}

static void elements_load_what_was_stored(void **state) {
    const uint32_t dtypes[] = {OPREG_F32, OPREG_F16, OPREG_BF16};
    (void)state;
    for (int d = 0; d < 3; d++) {
        float array[4] = {0};
        canonical_store(array, 1, dtypes[d], -1.5f);
        canonical_store(array, 3, dtypes[d], INFINITY);
        assert_true(canonical_load(array, 1, dtypes[d]) == -1.5f);
        assert_true(canonical_load(array, 3, dtypes[d]) == INFINITY);
        assert_true(canonical_load(array, 0, dtypes[d]) == 0.0f);
        assert_true(canonical_load(array, 2, dtypes[d]) == 0.0f);
    }
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exp_is_within_a_unit_and_a_half_over_all_f32),
        cmocka_unit_test(tanh_is_within_a_unit_and_a_half_over_all_f32),
        cmocka_unit_test(log_is_within_a_unit_and_a_half_over_all_positive_f32),
        cmocka_unit_test(special_values_pass_through_the_functions),
        cmocka_unit_test(tanh_is_odd_to_the_bit),
        cmocka_unit_test(gated_units_follow_their_formulas),
        cmocka_unit_test(the_trees_add_in_their_own_order),
        cmocka_unit_test(every_fp8_byte_has_its_value),
        cmocka_unit_test(elements_load_what_was_stored),
    };
    if (argc > 1 && strcmp(argv[1], "--full") == 0) {
        stride = 1;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
