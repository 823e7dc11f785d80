/* SPDX-License-Identifier: MIT
 * test_cpu_attention_bounds.c - what paged_attn_decode of the CPU backend must not read, trust or
 * write. */
#include "attention_case.h"

static void set_element(void *array, int64_t i, uint32_t dtype, int huge) {
    if (dtype == OPREG_F8_E4M3) {
        ((uint8_t *)array)[i] = huge ? 0x7e : 0x7f;
    } else {
        canonical_store(array, i, dtype, huge ? 6e4f : NAN);
    }
}

/* Everything that no visible position names holds NaN, then huge values; table entries past the
 * used pages are wild. */
static void slots_that_must_not_matter_change_no_bit(void **state) {
    (void)state;
    random_state = 34;
    for (int d = 0; d < 4; d++) {
        attn_shape s = {3, 4, 2, 64, 16, 12, OPREG_BF16, OPREG_F32, OPREG_F32, d % 2};
        attn_case c;
        float *first = NULL;
        uint8_t *visible;
        s.kv_dtype = cache_dtypes[d];
        c = attn_make(&s);
        c.problem.flags = OPREG_PF_LSE;
        c.problem.window = d >= 2 ? 50 : 0;
        visible = calloc((size_t)c.problem.num_blocks * 16, 1);
        for (int r = 0; r < 3; r++) {
            int low = c.problem.window > 0 && c.lens[r] > 50 ? c.lens[r] - 50 : 0;
            for (int i = low; i < c.lens[r]; i++) {
                visible[c.table[r * 12 + i / 16] * 16 + i % 16] = 1;
            }
            for (int i = (c.lens[r] + 15) / 16; i < 12; i++) {
                c.table[r * 12 + i] = i % 2 ? INT32_MAX : INT32_MIN;
            }
        }
        for (int fill = 0; fill < 2; fill++) {
            for (int64_t i = 0; i < c.problem.num_blocks * 16; i++) {
                for (int64_t e = 0; e < 2 * 64 && !visible[i]; e++) {
                    int64_t at = i / 16 * c.problem.k_block_stride +
                                 i % 16 * c.problem.k_slot_stride +
                                 e / 64 * c.problem.k_head_stride + e % 64;
                    set_element(c.k, at, s.kv_dtype, fill);
                    set_element(c.v, at + i / 16 * 8, s.kv_dtype, fill);
                }
            }
            attn_run(&c);
            if (fill == 0) {
                for (int64_t i = 0; i < 3 * 4; i++) {
                    assert_true(isfinite(c.lse[i]));
                }
                first = malloc(out_bytes(&c));
                memcpy(first, c.out, out_bytes(&c));
            } else {
                assert_memory_equal(first, c.out, out_bytes(&c));
                expect_case_by_hand(&c);
            }
        }
        free(first);
        free(visible);
        attn_free(&c);
    }
}

static void expect_zero_row(const attn_case *c, int64_t token) {
    const opreg_paged_attn_decode *p = &c->problem;
    for (int64_t e = 0; e < p->q_heads * p->head_dim; e++) {
        assert_int_equal(bits_of(((float *)c->out)[token * p->out_stride + e]), 0);
    }
    for (int64_t h = 0; h < p->q_heads; h++) {
        assert_true(c->lse[token * p->q_heads + h] == -INFINITY);
    }
}

static void a_row_without_a_key_is_zero_and_its_lse_minus_infinity(void **state) {
    attn_case c;
    (void)state;
    random_state = 35;
    c = plain_case(64, 4);
    c.problem.flags |= OPREG_PF_SINKS;
    c.lens[0] = 0;
    c.lens[1] = -5;
    for (int i = 0; i < 4; i++) { /* every page of request 2 is masked */
        c.table[8 + i] = i % 2 ? -1 : c.problem.num_blocks;
    }
    attn_run(&c);
    for (int64_t token = 0; token < 3; token++) {
        expect_zero_row(&c, token);
    }
    attn_free(&c);
}

/* A seq_len of 3 with 5 query tokens: the first two are before the sequence. */
static void tokens_before_the_sequence_are_zero_rows(void **state) {
    attn_case c;
    (void)state;
    random_state = 36;
    c = plain_case(64, 4);
    c.problem.flags |= OPREG_PF_Q_INDPTR;
    c.problem.max_q = 5;
    c.problem.tokens = 7;
    c.q_indptr[1] = 5;
    c.q_indptr[2] = 6;
    c.q_indptr[3] = 7;
    c.lens[0] = 3;
    attn_run(&c);
    expect_zero_row(&c, 0);
    expect_zero_row(&c, 1);
    expect_case_by_hand(&c);
    attn_free(&c);
}

static void a_length_past_the_bound_is_clamped(void **state) {
    attn_case c;
    float *bound;
    (void)state;
    random_state = 37;
    c = plain_case(64, 8);
    c.problem.max_seq_len = 100;
    c.lens[0] = c.lens[1] = c.lens[2] = 100;
    attn_run(&c);
    bound = c.out;
    c.out = malloc(out_bytes(&c));
    c.lens[0] = 101;
    c.lens[1] = INT32_MAX;
    attn_run(&c);
    assert_memory_equal(bound, c.out, out_bytes(&c));
    free(bound);
    attn_free(&c);
}

static void a_used_page_outside_the_cache_is_masked(void **state) {
    attn_case c;
    (void)state;
    random_state = 38;
    c = plain_case(64, 30);
    for (int r = 0; r < 3; r++) {
        c.lens[r] = 470;
        c.table[r * 30] = c.problem.num_blocks;
        c.table[r * 30 + 5] = -1;
        c.table[r * 30 + 17] = INT32_MAX;
        c.table[r * 30 + 29] = INT32_MIN;
    }
    attn_run(&c);
    expect_case_by_hand(&c);
    attn_free(&c);
}

/* Token i of n tokens has the bits of a call with one token and a seq_len shorter by n - 1 - i. */
static void a_token_does_not_depend_on_the_tokens_beside_it(void **state) {
    attn_case many, one;
    (void)state;
    random_state = 39;
    many = plain_case(128, 24);
    many.problem.seqs = 1;
    many.problem.flags |= OPREG_PF_Q_INDPTR;
    many.problem.max_q = many.problem.tokens = many.q_indptr[1] = 8;
    many.lens[0] = 301;
    attn_run(&many);
    one = many;
    one.problem.flags = OPREG_PF_LSE;
    one.problem.max_q = one.problem.tokens = 1;
    one.out = malloc(out_bytes(&many));
    one.lse = malloc(lse_bytes(&many));
    for (int64_t i = 0; i < 8; i++) {
        one.q = (float *)many.q + i * many.problem.q_stride;
        one.lens[0] = 301 - 7 + (int32_t)i;
        attn_run(&one);
        assert_memory_equal(one.out, (float *)many.out + i * many.problem.out_stride, 4 * 128 * 4);
        assert_memory_equal(one.lse, many.lse + i * 4, 4 * 4);
    }
    free(one.out);
    free(one.lse);
    attn_free(&many);
}

static void threads_and_their_order_change_no_bit(void **state) {
    attn_case c;
    float *first;
    (void)state;
    random_state = 40;
    c = plain_case(128, 40);
    attn_run(&c);
    first = c.out;
    for (int order = HOST_DESCENDING; order <= HOST_THREADS; order++) {
        current_order = (host_order)order;
        c.out = malloc(out_bytes(&c));
        attn_run(&c);
        assert_memory_equal(first, c.out, out_bytes(&c));
        free(c.out);
    }
    current_order = HOST_ASCENDING;
    c.out = first;
    attn_free(&c);
}

static void gaps_between_rows_of_out_are_not_written(void **state) {
    (void)state;
    random_state = 41;
    for (int d = 0; d < 3; d++) {
        attn_case c = plain_case(64, 3);
        size_t size = element_size(float_dtypes[d]), row;
        c.problem.out_dtype = float_dtypes[d];
        attn_run(&c);
        row = (size_t)c.problem.out_stride * size;
        for (size_t i = 0; i < out_bytes(&c); i++) {
            if (i % row >= 4 * 64 * size) {
                assert_int_equal(((uint8_t *)c.out)[i], 0xff);
            }
        }
        attn_free(&c);
    }
}

/* Tables of random bytes: no read outside (a sanitizer's business), every row written. */
static void hostile_tables_leave_no_row_unwritten(void **state) {
    (void)state;
    random_state = 42;
    for (int round = 0; round < 120; round++) {
        attn_case c = plain_case(64, 6);
        int32_t *arrays[] = {c.table, c.lens, c.indptr, c.q_indptr};
        const int counts[] = {18, 3, 4, 4};
        c.problem.flags |= (round % 2 ? OPREG_PF_CSR : 0) | (round % 3 ? OPREG_PF_Q_INDPTR : 0);
        c.problem.table_stride = round % 2 ? 18 : 6;
        if (round % 3) {
            c.problem.max_q = 4;
            c.problem.tokens = 9;
        }
        for (int a = 0; a < 4; a++) {
            for (int i = 0; i < counts[a]; i++) {
                arrays[a][i] = (int32_t)(random_below(4) ? random_below(24) - 4
                                                         : (int64_t)(random_bits() >> 32));
            }
        }
        attn_run(&c);
        for (int64_t t = 0; t < c.problem.tokens; t++) {
            for (int64_t e = 0; e < 4 * 64; e++) {
                assert_true(isfinite(((float *)c.out)[t * c.problem.out_stride + e]));
            }
        }
        attn_free(&c);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slots_that_must_not_matter_change_no_bit),
        cmocka_unit_test(a_row_without_a_key_is_zero_and_its_lse_minus_infinity),
        cmocka_unit_test(tokens_before_the_sequence_are_zero_rows),
        cmocka_unit_test(a_length_past_the_bound_is_clamped),
        cmocka_unit_test(a_used_page_outside_the_cache_is_masked),
        cmocka_unit_test(a_token_does_not_depend_on_the_tokens_beside_it),
        cmocka_unit_test(threads_and_their_order_change_no_bit),
        cmocka_unit_test(gaps_between_rows_of_out_are_not_written),
        cmocka_unit_test(hostile_tables_leave_no_row_unwritten),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
