/* SPDX-License-Identifier: MIT
 * The kit's cases are valid problems with buffers of exactly the size they need, repeat from a seed,
 * and meet every edge they are for. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "cases.h"
#include "cases_far.h"
#include "formats/formats.h"
#include "opreg/opreg_test.h"

static int takes_weights(uint32_t op) {
    return op == OPREG_OP_MATMUL_BT_QUANT || (op >= OPREG_OP_MOE_MATMUL && op != OPREG_OP_MOE_COMBINE &&
                                              op <= OPREG_OP_MOE_FFN);
}

static void check_one(const case_key *key) {
    job of;
    char text[1024];
    if (!case_make(key, &of)) {
        fail_msg("%s %s case %u cannot be made", opreg_op_name(key->op), opreg_dtype_name(key->format),
                 key->index);
    }
    opreg_problem_print(of.op, &of.problem, text, sizeof text);
    if (opreg_problem_check(of.op, &of.problem) != OPREG_OK) {
        fail_msg("%s case %u: %s: %s", opreg_op_name(of.op), key->index, text, opreg_last_error());
    }
    for (uint32_t i = 0; i < of.num_bufs; i++) {
        uint64_t bytes = 0;
        assert_int_equal(opreg_problem_buffer(of.op, &of.problem, i, &bytes), OPREG_OK);
        if (of.bufs[i].role != JOB_ABSENT && of.bufs[i].bytes != bytes) {
            fail_msg("%s case %u buffer %u: %llu bytes, the problem wants %llu: %s",
                     opreg_op_name(of.op), key->index, i, (unsigned long long)of.bufs[i].bytes,
                     (unsigned long long)bytes, text);
        }
    }
    job_clear(&of);
}

static void every_case_is_a_valid_problem_with_exact_buffers(void **state) {
    (void)state;
    for (uint32_t op = 1; op <= OPREG_OP_COUNT; op++) {
        for (size_t f = 0; f < (takes_weights(op) ? format_count() : 1); f++) {
            uint32_t format = takes_weights(op) ? format_at(f)->id : 0;
            for (uint32_t i = 0; i < cases_count((opreg_op)op, format, 0); i++) {
                case_key key = {(opreg_op)op, format, i, 0, 7};
                check_one(&key);
            }
            for (uint32_t i = 0; i < cases_far((opreg_op)op, OPREG_KIT_FULL); i++) {
                case_key key = {(opreg_op)op, format, CASE_FAR + i, 0, 7};
                check_one(&key);
            }
        }
    }
}

static void a_seed_repeats_a_case_byte_for_byte(void **state) {
    case_key key = {OPREG_OP_MATMUL_BT_QUANT, OPREG_Q4_K, 5, 0, 99};
    job a, b;
    (void)state;
    assert_true(case_make(&key, &a));
    assert_true(case_make(&key, &b));
    assert_memory_equal(&a.problem, &b.problem, sizeof a.problem);
    assert_memory_equal(a.weights[0].data, b.weights[0].data, a.weights[0].bytes);
    job_clear(&b);
    key.seed++;
    assert_true(case_make(&key, &b));
    assert_true(memcmp(&a.problem, &b.problem, sizeof a.problem) != 0 ||
                memcmp(a.weights[0].data, b.weights[0].data, a.weights[0].bytes) != 0);
    job_clear(&a);
    job_clear(&b);
}

static void other_data_leaves_the_problem_and_the_weights_alone(void **state) {
    case_key key = {OPREG_OP_MOE_MATMUL, OPREG_Q8_0, 0, 0, 99};
    job a, b;
    (void)state;
    assert_true(case_make(&key, &a));
    key.salt = 1;
    assert_true(case_make(&key, &b));
    assert_memory_equal(&a.problem, &b.problem, sizeof a.problem);
    assert_memory_equal(a.weights[0].data, b.weights[0].data, a.weights[0].bytes);
    assert_memory_not_equal(a.bufs[OPREG_MOE_X].data, b.bufs[OPREG_MOE_X].data,
                            a.bufs[OPREG_MOE_X].bytes);
    job_clear(&a);
    job_clear(&b);
}

static void every_m_and_all_nine_dtype_pairs_are_met_by_each_format(void **state) {
    (void)state;
    for (size_t f = 0; f < format_count(); f++) {
        uint32_t pairs[4][4] = {{0}};
        int met[65] = {0};
        for (uint32_t i = 0; i < cases_count(OPREG_OP_MATMUL_BT_QUANT, 0, 0); i++) {
            case_key key = {OPREG_OP_MATMUL_BT_QUANT, format_at(f)->id, i, 0, 3};
            job of;
            assert_true(case_make(&key, &of));
            if (of.problem.matmul.x_dtype <= OPREG_BF16) {
                pairs[of.problem.matmul.x_dtype][of.problem.matmul.y_dtype]++;
            }
            met[of.problem.matmul.m]++;
            job_clear(&of);
        }
        for (uint32_t x = OPREG_F32; x <= OPREG_BF16; x++) {
            for (uint32_t y = OPREG_F32; y <= OPREG_BF16; y++) {
                assert_int_not_equal(pairs[x][y], 0);
            }
        }
        for (size_t m = 0; m < sizeof m_edges / sizeof m_edges[0]; m++) {
            if (met[m_edges[m]] == 0) {
                fail_msg("%s: no case with M = %d", format_at(f)->name, (int)m_edges[m]);
            }
        }
    }
}

static void pairs_from_0_to_130_are_all_routed(void **state) {
    int met[131] = {0};
    (void)state;
    for (uint32_t i = 0; i < cases_count(OPREG_OP_MOE_ROUTE, 0, 0); i++) {
        case_key key = {OPREG_OP_MOE_ROUTE, 0, i, 0, 3};
        job of;
        assert_true(case_make(&key, &of));
        met[of.problem.route.tokens * of.problem.route.top_k]++;
        job_clear(&of);
    }
    for (int i = 0; i <= 130; i++) {
        if (met[i] == 0) {
            fail_msg("no case with %d pairs", i);
        }
    }
}

/* What was met: below 0, over the limit, less than the one before. */
enum { NEGATIVE, BEYOND, DESCENDING, WAYS };

static void meet(const int32_t *values, int64_t count, int64_t limit, int met[WAYS]) {
    for (int64_t i = 0; i < count; i++) {
        met[NEGATIVE] |= values[i] < 0;
        met[BEYOND] |= values[i] > limit;
        met[DESCENDING] |= i > 0 && values[i] < values[i - 1];
    }
}

static const int32_t *integers(const job *of, uint32_t index) {
    return (const int32_t *)(const void *)of->bufs[index].data;
}

static void expect_all(const char *what, const int met[WAYS]) {
    if (!met[NEGATIVE] || !met[BEYOND] || !met[DESCENDING]) {
        fail_msg("%s: negative %d, beyond %d, descending %d", what, met[NEGATIVE], met[BEYOND],
                 met[DESCENDING]);
    }
}

static void attention_meets_hostile_lengths_and_index_pointers(void **state) {
    int lens[WAYS] = {0}, pages[WAYS] = {0}, indptr[WAYS] = {0}, tokens[WAYS] = {0}, empty = 0;
    (void)state;
    for (uint32_t i = 0; i < cases_count(OPREG_OP_PAGED_ATTN_DECODE, 0, 0); i++) {
        case_key key = {OPREG_OP_PAGED_ATTN_DECODE, 0, i, 0, 3};
        job of;
        assert_true(case_make(&key, &of));
        const opreg_paged_attn_decode *p = &of.problem.attn;
        const int32_t *length = integers(&of, OPREG_ATTN_LENS);
        if (p->flags & OPREG_PF_CSR) {
            const int32_t *ptr = integers(&of, OPREG_ATTN_INDPTR);
            meet(length, p->seqs, p->block_size, pages);
            meet(ptr, p->seqs + 1, p->table_stride, indptr);
            for (int32_t s = 0; s < p->seqs; s++) {
                empty |= length[s] == 0 && ptr[s + 1] > ptr[s];
            }
        } else {
            meet(length, p->seqs, p->max_seq_len, lens);
        }
        if (p->flags & OPREG_PF_Q_INDPTR) {
            meet(integers(&of, OPREG_ATTN_Q_INDPTR), p->seqs + 1, p->tokens, tokens);
        }
        job_clear(&of);
    }
    expect_all("seq_lens", lens);
    expect_all("last_page_len", pages);
    expect_all("indptr", indptr);
    expect_all("q_indptr", tokens);
    assert_true(empty);
}

static void routes_meet_hostile_starts_counts_and_destinations(void **state) {
    int starts[WAYS] = {0}, groups_over = 0, entries_over = 0, fewer = 0, twice = 0;
    (void)state;
    for (size_t f = 0; f < format_count(); f++) {
        for (uint32_t i = 0; i < cases_count(OPREG_OP_MOE_MATMUL, 0, 0); i++) {
            case_key key = {OPREG_OP_MOE_MATMUL, format_at(f)->id, i, 0, 3};
            opreg_route_layout layout = {.struct_size = sizeof layout};
            job of;
            assert_true(case_make(&key, &of));
            const opreg_moe_matmul *p = &of.problem.moe;
            opreg_route_layout_get(p->tokens, p->top_k, p->experts, &layout);
            const int32_t *route = integers(&of, OPREG_MOE_ROUTE_BUF);
            const int32_t *dst = route + layout.entry_dst / 4;
            const uint32_t groups = (uint32_t)route[0], entries = (uint32_t)route[1];
            if (groups <= layout.cap_groups) {
                meet(route + layout.group_start / 4, groups + 1, entries, starts);
            }
            groups_over |= groups > layout.cap_groups;
            entries_over |= entries > layout.cap_entries;
            fewer |= entries < layout.cap_entries;
            for (uint32_t a = 0; a < layout.cap_entries; a++) {
                for (uint32_t b = 0; b < a; b++) {
                    twice |= dst[a] == dst[b] && dst[a] >= 0 && dst[a] < p->tokens * p->top_k;
                }
            }
            job_clear(&of);
        }
    }
    expect_all("group_start", starts);
    assert_true(groups_over);
    assert_true(entries_over);
    assert_true(fewer);
    assert_true(twice);
}

/* Farther than the edges of tiles and the small counts of the other cases go. */
static void far_cases_of_a_quick_run_reach_every_axis(void **state) {
    int64_t n = 0, m = 0, experts = 0, entries = 0, heads = 0, seqs = 0, length = 0, pages = 0;
    (void)state;
    for (uint32_t op = 1; op <= OPREG_OP_COUNT; op++) {
        for (size_t f = 0; f < (takes_weights(op) ? format_count() : 1); f++) {
            for (uint32_t i = 0; i < cases_far((opreg_op)op, OPREG_KIT_QUICK); i++) {
                case_key key = {(opreg_op)op, takes_weights(op) ? format_at(f)->id : 0, CASE_FAR + i,
                                0, 11};
                job of;
                assert_true(case_make(&key, &of));
                if (op == OPREG_OP_MATMUL_BT_QUANT) {
                    n = of.problem.matmul.n > n ? of.problem.matmul.n : n;
                    m = of.problem.matmul.m > m ? of.problem.matmul.m : m;
                } else if (op == OPREG_OP_MOE_MATMUL) {
                    int64_t pairs = of.problem.moe.tokens * of.problem.moe.top_k;
                    experts = of.problem.moe.experts > experts ? of.problem.moe.experts : experts;
                    entries = pairs > entries ? pairs : entries;
                } else if (op == OPREG_OP_PAGED_ATTN_DECODE) {
                    const opreg_paged_attn_decode *p = &of.problem.attn;
                    heads = p->kv_heads > heads ? p->kv_heads : heads;
                    seqs = p->seqs > seqs ? p->seqs : seqs;
                    length = p->max_seq_len > length ? p->max_seq_len : length;
                    pages = p->num_blocks > pages ? p->num_blocks : pages;
                }
                job_clear(&of);
            }
        }
    }
    assert_true(n > 1120 && m > 64 && experts > 256 && entries > 1000);
    assert_true(heads >= 8 && seqs > 32 && length > 4096 && pages > 4096);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_case_is_a_valid_problem_with_exact_buffers),
        cmocka_unit_test(far_cases_of_a_quick_run_reach_every_axis),
        cmocka_unit_test(a_seed_repeats_a_case_byte_for_byte),
        cmocka_unit_test(other_data_leaves_the_problem_and_the_weights_alone),
        cmocka_unit_test(every_m_and_all_nine_dtype_pairs_are_met_by_each_format),
        cmocka_unit_test(pairs_from_0_to_130_are_all_routed),
        cmocka_unit_test(attention_meets_hostile_lengths_and_index_pointers),
        cmocka_unit_test(routes_meet_hostile_starts_counts_and_destinations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
