/* SPDX-License-Identifier: MIT
 * test_floats.c - f16 and bf16 conversions are exact one way and nearest-even the other, over every
 * code, every midpoint between two codes, and both neighbours of each. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "formats/format.h"

static int is_nan_f32(uint32_t bits) {
    return (bits & 0x7fffffffu) > 0x7f800000u;
}

/* The value of an f16 code in double arithmetic, from the definition of binary16. */
static double f16_by_definition(uint32_t h) {
    int exponent = (int)(h >> 10 & 31u), mantissa = (int)(h & 0x3ffu);
    double magnitude = exponent == 0 ? ldexp(mantissa, -24) : ldexp(1024 + mantissa, exponent - 25);
    return h & 0x8000u ? -magnitude : magnitude;
}

static void every_f16_code_widens_exactly(void **state) {
    (void)state;
    for (uint32_t h = 0; h < 0x10000u; h++) {
        uint32_t got = bits_of(f16_to_f32(h)), magnitude = h & 0x7fffu;
        if (magnitude > 0x7c00u) {
            if (!is_nan_f32(got)) {
                fail_msg("f16 %04x is NaN, widened to %08x", h, got);
            }
            continue;
        }
        uint32_t want = magnitude == 0x7c00u ? 0x7f800000u | (h & 0x8000u) << 16
                                             : bits_of((float)f16_by_definition(h));
        if (got != want) {
            fail_msg("f16 %04x widened to %08x, exact is %08x", h, got, want);
        }
    }
}

static void every_bf16_code_is_the_upper_half_of_an_f32(void **state) {
    (void)state;
    for (uint32_t h = 0; h < 0x10000u; h++) {
        assert_int_equal(bits_of(bf16_to_f32(h)), h << 16);
    }
}

/* f32 bits to the nearest f16 by a search over all codes of one sign: the argument for
 * f32_to_f16 that shares nothing with it. */
static uint32_t f16_by_search(float f) {
    uint32_t low = 0, high = 0x7c00u, sign = bits_of(f) >> 16 & 0x8000u;
    double x = fabs((double)f);
    while (high - low > 1u) { /* low's value <= x < high's; code 0x7c00 stands for 65536 */
        uint32_t middle = (low + high) / 2u;
        if (f16_by_definition(middle) <= x) {
            low = middle;
        } else {
            high = middle;
        }
    }
    double below = x - f16_by_definition(low);
    double above = f16_by_definition(high) - x; /* the definition without Inf: 0x7c00 is 65536 */
    if (above < below || (above == below && (low & 1u))) {
        return sign | high;
    }
    return sign | low;
}

static void check_f32_to_f16(uint32_t bits) {
    uint32_t got = f32_to_f16(float_of(bits));
    if (is_nan_f32(bits)) {
        if ((got & 0x7e00u) != 0x7e00u || (got >> 15) != (bits >> 31)) {
            fail_msg("NaN %08x became %04x, not a quiet NaN of its sign", bits, got);
        }
        return;
    }
    uint32_t want = f16_by_search(float_of(bits));
    if (got != want) {
        fail_msg("f32 %08x became f16 %04x, nearest even is %04x", bits, got, want);
    }
}

static void f32_to_f16_is_nearest_even_at_every_code_and_midpoint(void **state) {
    (void)state;
    for (uint32_t h = 0; h < 0x7c00u; h++) {
        double value = f16_by_definition(h), next = f16_by_definition(h + 1u);
        uint32_t code = bits_of((float)value), middle = bits_of((float)((value + next) / 2));
        assert_true((double)float_of(middle) == (value + next) / 2);
        for (uint32_t sign = 0; sign < 2u; sign++) {
            for (uint32_t step = 0; step < 3u; step++) {
                if (code + step > 0u) {
                    check_f32_to_f16((code + step - 1u) | sign << 31);
                }
                check_f32_to_f16((middle + step - 1u) | sign << 31);
            }
        }
    }
}

static void f32_to_f16_is_nearest_even_on_a_sample_of_all_f32(void **state) {
    (void)state;
    for (uint64_t bits = 0; bits <= 0xffffffffu; bits += 4099u) {
        check_f32_to_f16((uint32_t)bits);
    }
    static const uint32_t edges[] = {0x477fefffu, 0x477ff000u, 0x477fffffu, 0x47800000u,
                                     0x7f7fffffu, 0x7f800000u, 0xff800000u, 0x7f800001u,
                                     0x7fc00000u, 0xffffffffu, 0x33000000u, 0x33000001u,
                                     0x32ffffffu, 0x00000001u, 0x80000000u};
    for (size_t i = 0; i < sizeof edges / sizeof edges[0]; i++) {
        check_f32_to_f16(edges[i]);
    }
}

static void every_f16_and_bf16_code_survives_a_round_trip(void **state) {
    (void)state;
    for (uint32_t h = 0; h < 0x10000u; h++) {
        uint32_t f16 = (h & 0x7fffu) > 0x7c00u ? h | 0x200u : h; /* NaN comes back quiet */
        uint32_t bf16 = (h & 0x7fffu) > 0x7f80u ? h | 0x40u : h;
        if (f32_to_f16(f16_to_f32(h)) != f16 || f32_to_bf16(bf16_to_f32(h)) != bf16) {
            fail_msg("code %04x: f16 came back as %04x, bf16 as %04x", h, f32_to_f16(f16_to_f32(h)),
                     f32_to_bf16(bf16_to_f32(h)));
        }
    }
}

/* Nearest even over bf16, whose neighbours are f32 values with an empty lower half.  The one above
 * the largest finite code counts as 2^128, in double. */
static void check_f32_to_bf16(uint32_t bits) {
    uint32_t got = f32_to_bf16(float_of(bits)), low = bits >> 16;
    if (is_nan_f32(bits)) {
        if ((got & 0x7fc0u) != 0x7fc0u || (got >> 15) != (bits >> 31)) {
            fail_msg("NaN %08x became %04x, not a quiet NaN of its sign", bits, got);
        }
        return;
    }
    double x = fabs((double)float_of(bits)), below = fabs((double)bf16_to_f32(low));
    double above = (low & 0x7fffu) >= 0x7f7fu ? 0x1p128 : fabs((double)bf16_to_f32(low + 1u));
    uint32_t want = low;
    if (bits << 16 != 0 && (above - x < x - below || (above - x == x - below && (low & 1u)))) {
        want = low + 1u;
    }
    if (got != want) {
        fail_msg("f32 %08x became bf16 %04x, nearest even is %04x", bits, got, want);
    }
}

static void f32_to_bf16_is_nearest_even_at_every_code_and_midpoint(void **state) {
    (void)state;
    for (uint32_t h = 0; h < 0x10000u; h++) {
        static const uint32_t lower[] = {0, 1, 0x7fff, 0x8000, 0x8001, 0xffff, 0x1234};
        for (size_t i = 0; i < sizeof lower / sizeof lower[0]; i++) {
            check_f32_to_bf16(h << 16 | lower[i]);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_f16_code_widens_exactly),
        cmocka_unit_test(every_bf16_code_is_the_upper_half_of_an_f32),
        cmocka_unit_test(f32_to_f16_is_nearest_even_at_every_code_and_midpoint),
        cmocka_unit_test(f32_to_f16_is_nearest_even_on_a_sample_of_all_f32),
        cmocka_unit_test(every_f16_and_bf16_code_survives_a_round_trip),
        cmocka_unit_test(f32_to_bf16_is_nearest_even_at_every_code_and_midpoint),
    };
    return cmocka_run_group_tests_name("floats", tests, NULL, NULL);
}
