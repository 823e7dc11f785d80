/* SPDX-License-Identifier: MIT
 * test_sample.c - what the engine's draws promise: the distribution, the seed, the greedy end. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "sample.h"

#define VOCAB 6
#define DRAWS 200000

static const float logits[VOCAB] = {1.0f, -2.0f, 3.0f, 0.5f, 3.0f, -INFINITY};

/* The probabilities of a softmax at a temperature. */
static void softmax(float temperature, double out[VOCAB]) {
    double total = 0;
    for (int i = 0; i < VOCAB; i++) {
        out[i] = exp((double)logits[i] / (double)temperature);
        total += out[i];
    }
    for (int i = 0; i < VOCAB; i++) {
        out[i] /= total;
    }
}

static void counts_of(float temperature, uint64_t seed, int64_t counts[VOCAB]) {
    for (int i = 0; i < VOCAB; i++) {
        counts[i] = 0;
    }
    for (int i = 0; i < DRAWS; i++) {
        int32_t id = sample(logits, VOCAB, temperature, &seed);
        assert_in_range(id, 0, VOCAB - 1);
        counts[id]++;
    }
}

static void draws_follow_the_softmax_at_the_temperature(void **state) {
    static const float temperatures[] = {0.5f, 1.0f, 2.0f, 10.0f};
    (void)state;
    for (size_t t = 0; t < sizeof temperatures / sizeof *temperatures; t++) {
        int64_t counts[VOCAB];
        double want[VOCAB];
        counts_of(temperatures[t], 1 + t, counts);
        softmax(temperatures[t], want);
        for (int i = 0; i < VOCAB; i++) {
            /* five deviations of a binomial count: 1 in 10^6 for a right sampler, which is fixed by
             * the seed */
            double deviation = sqrt(DRAWS * want[i] * (1.0 - want[i]));
            if (fabs((double)counts[i] - DRAWS * want[i]) > 5.0 * deviation) {
                fail_msg("temperature %g: token %d was drawn %lld times, not about %.0f",
                         (double)temperatures[t], i, (long long)counts[i], DRAWS * want[i]);
            }
        }
    }
}

static void a_token_without_probability_is_never_drawn(void **state) {
    int64_t counts[VOCAB];
    (void)state;
    counts_of(100.0f, 9, counts);
    assert_int_equal(counts[5], 0);
}

static void temperature_0_takes_the_first_of_the_most_likely(void **state) {
    uint64_t random = 5;
    (void)state;
    assert_int_equal(sample(logits, VOCAB, 0.0f, &random), 2);
    assert_int_equal(random, 5); /* and draws nothing */
}

static void a_temperature_that_is_no_number_is_greedy(void **state) {
    uint64_t random = 5;
    (void)state;
    assert_int_equal(sample(logits, VOCAB, NAN, &random), 2);
    assert_int_equal(sample(logits, VOCAB, -1.0f, &random), 2);
}

static void a_tiny_temperature_draws_among_the_most_likely_only(void **state) {
    int64_t counts[VOCAB];
    (void)state;
    counts_of(1e-3f, 3, counts);
    assert_int_equal(counts[2] + counts[4], DRAWS);
    assert_in_range(counts[2], DRAWS / 2 - 1200, DRAWS / 2 + 1200);
}

static void one_seed_gives_one_sequence(void **state) {
    uint64_t a = 7, b = 7, c = 8;
    int differ = 0;
    (void)state;
    for (int i = 0; i < 100; i++) {
        int32_t id = sample(logits, VOCAB, 1.5f, &a);
        assert_int_equal(id, sample(logits, VOCAB, 1.5f, &b));
        differ += id != sample(logits, VOCAB, 1.5f, &c);
    }
    assert_in_range(differ, 20, 100);
}

/* splitmix64 from 42, a uniform in [0, 1), the first token whose running sum of probabilities is
 * over it: worked out apart from the code, in Python with 50 digits. */
static void the_sequence_of_a_seed_is_known(void **state) {
    static const int32_t known[16] = {4, 1, 2, 2, 0, 4, 2, 4, 2, 3, 2, 2, 2, 2, 4, 2};
    uint64_t random = 42;
    (void)state;
    for (int i = 0; i < 16; i++) {
        assert_int_equal(sample(logits, VOCAB, 2.0f, &random), known[i]);
    }
}

static void a_log_probability_is_that_of_the_softmax(void **state) {
    double want[VOCAB];
    (void)state;
    softmax(1.0f, want);
    for (int i = 0; i < VOCAB - 1; i++) {
        assert_true(fabs(sample_log_probability(logits, VOCAB, i) - log(want[i])) < 1e-12);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(draws_follow_the_softmax_at_the_temperature),
        cmocka_unit_test(a_token_without_probability_is_never_drawn),
        cmocka_unit_test(temperature_0_takes_the_first_of_the_most_likely),
        cmocka_unit_test(a_temperature_that_is_no_number_is_greedy),
        cmocka_unit_test(a_tiny_temperature_draws_among_the_most_likely_only),
        cmocka_unit_test(one_seed_gives_one_sequence),
        cmocka_unit_test(the_sequence_of_a_seed_is_known),
        cmocka_unit_test(a_log_probability_is_that_of_the_softmax),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
