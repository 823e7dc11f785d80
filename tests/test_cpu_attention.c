/* SPDX-License-Identifier: MIT
 * test_cpu_attention.c - paged_attn_decode of the CPU backend: against the order said again by
 * hand, bit by bit, and against a softmax in double precision. */
#include "attention_case.h"

/* Every combination of dtypes, and of dimensions, layouts and options, in a seeded mix. */
static void every_option_has_the_bits_of_the_order_by_hand(void **state) {
    const int32_t dims[] = {64, 128, 80, 256, 65, 96, 512, 576 / 3};
    (void)state;
    random_state = 31;
    for (int i = 0; i < 36; i++) {
        attn_shape s = {.seqs = 2,
                        .q_heads = i % 3 ? 4 : 6,
                        .kv_heads = 2,
                        .d = dims[i % 8],
                        .block_size = i % 5 ? 16 : 7,
                        .blocks_per_row = i % 7 ? 20 : 75,
                        .q_dtype = float_dtypes[i % 3],
                        .kv_dtype = cache_dtypes[i % 4],
                        .out_dtype = float_dtypes[i / 3 % 3],
                        .hnd = i / 4 % 2};
        attn_case c = attn_make(&s);
        opreg_paged_attn_decode *p = &c.problem;
        p->window = i % 4 == 1 ? 37 : i % 4 == 2 ? 300 : 0;
        p->softcap = i % 3 == 1 ? 1.5f : 0.0f;
        p->flags |= (i / 2 % 2 ? OPREG_PF_SINKS : 0) | (i % 5 ? OPREG_PF_LSE : 0);
        if (i % 6 >= 3) {
            p->flags |= OPREG_PF_Q_INDPTR;
            p->max_q = 8;
            c.q_indptr[1] = (int32_t)random_below(7) + 2;
            p->tokens = c.q_indptr[2] = c.q_indptr[1] + 1 + i % 8;
        }
        if (i % 2) {
            to_csr(&c);
        }
        attn_run(&c);
        expect_case_by_hand(&c);
        attn_free(&c);
    }
}

/* One segment, one more position, odd counts of segments: 3, 5, 6, 7, 9, 17. */
static void segments_merge_as_a_tree_at_every_length(void **state) {
    const int32_t lengths[] = {1,    8,    255,  256,  257,  512,  640, 1280,
                               1281, 1400, 1536, 1700, 2050, 2305, 4352};
    (void)state;
    random_state = 32;
    for (int i = 0; i < 15; i += 3) {
        attn_case c = plain_case(64, 272);
        memcpy(c.lens, lengths + i, 3 * sizeof(int32_t));
        attn_run(&c);
        expect_case_by_hand(&c);
        attn_free(&c);
    }
}

static void csr_tables_give_the_bits_of_dense_ones(void **state) {
    attn_case c;
    float *dense, *dense_lse;
    (void)state;
    random_state = 33;
    c = plain_case(128, 20);
    c.lens[1] = 160; /* a full last page */
    attn_run(&c);
    dense = c.out;
    dense_lse = c.lse;
    c.out = malloc(out_bytes(&c));
    c.lse = malloc(lse_bytes(&c));
    to_csr(&c);
    attn_run(&c);
    assert_memory_equal(dense, c.out, out_bytes(&c));
    assert_memory_equal(dense_lse, c.lse, lse_bytes(&c));
    free(dense);
    free(dense_lse);
    attn_free(&c);
}

/* NMSE 1e-6 against a softmax over all keys in double (the order's own error is about 1e-13). */
static void results_stay_in_the_band_of_double_precision(void **state) {
    (void)state;
    random_state = 43;
    for (int d = 0; d < 4; d++) {
        attn_shape s = {4, 8, 2, 128, 16, 60, OPREG_F32, OPREG_F32, OPREG_F32, 0};
        double error = 0.0, power = 0.0;
        attn_case c;
        s.kv_dtype = cache_dtypes[d];
        c = attn_make(&s);
        c.problem.flags = OPREG_PF_LSE | OPREG_PF_SINKS;
        c.problem.softcap = d % 2 ? 4.0f : 0.0f;
        c.problem.window = d / 2 ? 333 : 0;
        attn_run(&c);
        for (int64_t t = 0; t < 4; t++) {
            for (int64_t head = 0; head < 8; head++) {
                hand h = {&c, t, head, c.table + t * 60, 0, c.lens[t]};
                double sum = exp((double)c.sinks[head]), row[128] = {0};
                int fp8 = s.kv_dtype == OPREG_F8_E4M3;
                h.begin = c.problem.window > 0 && h.end > 333 ? h.end - 333 : 0;
                for (int64_t i = h.begin; i < h.end; i++) {
                    double score = 0.0, weight;
                    for (int64_t e = 0; e < 128; e++) {
                        score += (double)hand_q(&h, e) * (double)hand_k(&h, i, e);
                    }
                    score *= (double)c.problem.scale;
                    score *= fp8 ? (double)c.k_scale[head / 4] : 1.0;
                    score = d % 2 ? 4.0 * tanh(score / 4.0) : score;
                    weight = exp(score);
                    sum += weight;
                    for (int64_t e = 0; e < 128; e++) {
                        row[e] += weight * (double)hand_v(&h, i, e);
                    }
                }
                for (int64_t e = 0; e < 128; e++) {
                    double exact = row[e] / sum * (fp8 ? (double)c.v_scale[head / 4] : 1.0);
                    double got =
                        (double)((float *)c.out)[t * c.problem.out_stride + head * 128 + e];
                    error += (got - exact) * (got - exact);
                    power += exact * exact;
                }
                assert_true(fabs((double)c.lse[t * 8 + head] - log(sum)) <= 1e-5);
            }
        }
        if (!(error <= 1e-6 * power)) {
            fail_msg("cache dtype %u: NMSE %.3g", s.kv_dtype, error / power);
        }
        attn_free(&c);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_option_has_the_bits_of_the_order_by_hand),
        cmocka_unit_test(segments_merge_as_a_tree_at_every_length),
        cmocka_unit_test(csr_tables_give_the_bits_of_dense_ones),
        cmocka_unit_test(results_stay_in_the_band_of_double_precision),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
