/* SPDX-License-Identifier: MIT
 * test_problem.c - problems: their texts, their rules and their buffers. */
#include "problem.h"

#include <locale.h>

#include "registry_harness.h"

static const struct {
    opreg_op op;
    const char *text;
} samples[] = {
    {OPREG_OP_QUANTIZE_ACT, "m=3 k=512 q=q8_k x=bf16 x_stride=600"},
    {OPREG_OP_MATMUL_BT_QUANT, "m=1 n=4096 k=4096 b=q4_k x=f32 y=f32"},
    {OPREG_OP_MATMUL_BT_QUANT, "n=8 k=64 b=rocmfp2 dialect=rocmfp2_s40 level=int flags=bias+graph_safe"},
    {OPREG_OP_MATMUL_BT_QUANT, "n=8 k=256 b=q6_k x=q8_k glu=swiglu_oai layout=3"},
    {OPREG_OP_MATMUL_BT_QUANT, "n=8 k=256 b=f16 glu=silu_clamped limit=10.5 x_stride=300 m=0"},
    {OPREG_OP_MOE_ROUTE, "tokens=7 top_k=2 experts=8 form=pairs"},
    {OPREG_OP_MOE_MATMUL, "tokens=4 n=64 k=256 experts=8 top_k=2 b=q8_0 rows=dst layout=stored"},
    {OPREG_OP_MOE_GLU, "tokens=4 n=64 k=256 experts=8 top_k=2 b=mxfp4 glu=gelu_tanh"},
    {OPREG_OP_MOE_DOWN, "tokens=4 n=64 k=256 experts=8 top_k=2 b=q2_k y=bf16"},
    {OPREG_OP_MOE_COMBINE, "tokens=4 n=64 top_k=2 weights_stride=5"},
    {OPREG_OP_MOE_FFN, "tokens=4 hidden=256 inter=512 experts=8 top_k=2 b=q4_k down=q6_k"},
    {OPREG_OP_PAGED_ATTN_DECODE, "seqs=3 hq=32 hk=8 d=128 len=1000"},
    {OPREG_OP_PAGED_ATTN_DECODE,
     "seqs=2 hq=8 hk=8 d=64 len=100 kv=f8_e4m3 window=64 softcap=30 max_q=4 tokens=5 "
     "flags=csr+q_indptr+sinks+lse block=32 q=bf16 out=f32"},
};
#define SAMPLES (sizeof samples / sizeof samples[0])

static void a_printed_problem_is_read_back_byte_for_byte(void **state) {
    (void)state;
    for (size_t i = 0; i < SAMPLES; i++) {
        for (int brief = 0; brief < 2; brief++) {
            problem_any first, again;
            char text[PROBLEM_TEXT_BYTES];
            memset(&first, 0, sizeof first);
            memset(&again, 0, sizeof again);
            assert_works(opreg_problem_parse(samples[i].op, samples[i].text, &first));
            assert_works(opreg_problem_check(samples[i].op, &first));
            assert_true(problem_text(samples[i].op, &first, brief, text, sizeof text) < sizeof text);
            assert_works(opreg_problem_parse(samples[i].op, text, &again));
            if (memcmp(&first, &again, sizeof first) != 0) {
                fail_msg("%s: %s", samples[i].text, text);
            }
        }
    }
}

static void a_printed_problem_has_every_field(void **state) {
    opreg_matmul_bt_quant p = matmul_of("m=2 n=32 k=256 b=q4_k");
    char text[PROBLEM_TEXT_BYTES];
    (void)state;
    opreg_problem_print(OPREG_OP_MATMUL_BT_QUANT, &p, text, sizeof text);
    assert_string_equal(text, "m=2 n=32 k=256 b=q4_k dialect=default x=f32 y=f32 glu=none alpha=0 "
                              "limit=0 x_stride=256 y_stride=32 layout=any level=any flags=none");
}

static void a_brief_text_leaves_defaults_out(void **state) {
    problem_any p;
    char text[PROBLEM_TEXT_BYTES];
    (void)state;
    memset(&p, 0, sizeof p);
    p.matmul = matmul_of("m=2 n=32 k=256 b=q4_k y_stride=40");
    problem_text(OPREG_OP_MATMUL_BT_QUANT, &p, 1, text, sizeof text);
    assert_string_equal(text, "m=2 n=32 k=256 b=q4_k x=f32 y=f32 y_stride=40");
}

static void printing_returns_the_length_that_was_needed(void **state) {
    opreg_matmul_bt_quant p = matmul_of("n=32 k=256 b=q4_k");
    char text[PROBLEM_TEXT_BYTES], cut[11];
    size_t length = opreg_problem_print(OPREG_OP_MATMUL_BT_QUANT, &p, text, sizeof text);
    (void)state;
    assert_int_equal(length, strlen(text));
    assert_int_equal(opreg_problem_print(OPREG_OP_MATMUL_BT_QUANT, &p, cut, sizeof cut), length);
    assert_int_equal(strlen(cut), sizeof cut - 1);
    assert_int_equal(opreg_problem_print(OPREG_OP_MATMUL_BT_QUANT, &p, NULL, 0), length);
    assert_int_equal(opreg_problem_print(OPREG_OP_MATMUL_BT_QUANT, &p, NULL, 10), length);
}

static void numbers_do_not_follow_the_locale(void **state) {
    opreg_paged_attn_decode p;
    char text[PROBLEM_TEXT_BYTES];
    (void)state;
    if (setlocale(LC_NUMERIC, "de_DE.UTF-8") == NULL) {
        skip(); /* no locale with another decimal mark */
    }
    assert_works(opreg_problem_parse(OPREG_OP_PAGED_ATTN_DECODE,
                                     "hq=8 hk=8 d=64 len=10 softcap=2.5", &p));
    opreg_problem_print(OPREG_OP_PAGED_ATTN_DECODE, &p, text, sizeof text);
    setlocale(LC_NUMERIC, "C");
    assert_true(p.softcap == 2.5f);
    assert_text(text, "softcap=2.5");
}

static void a_wrong_key_or_value_is_named(void **state) {
    static const struct {
        const char *text, *part;
    } rows[] = {
        {"n=1 k=256 b=q4_k foo=1", "has no key \"foo\"; its keys: m n k b"},
        {"n=1 k=256 b=q4_q", "b is \"q4_q\""},
        {"n=1x k=256 b=q4_k", "n is \"1x\", it must be a whole number"},
        {"n=1 k=256 b=q4_k n=2", "n is there twice"},
        {"n=1 k=256", "b=... is missing"},
        {"n=1 k=256 b=q4_k glu=relu", "one of none silu"},
        {"n=1 k=256 b=q4_k flags=lsf", "it must be one of deterministic"},
        {"n=1 k=256 b=q4_k level", "is not key=value"},
        {"n=99999999999999999999 k=256 b=q4_k", "n is \"99999999999999999999\""},
        {"n= k=256 b=q4_k", "n is \"\""},
        {"n=1 k=256 b=q4_k alpha=", "alpha is \"\""},
    };
    opreg_matmul_bt_quant p;
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        assert_failed(opreg_problem_parse(OPREG_OP_MATMUL_BT_QUANT, rows[i].text, &p), OPREG_E_ARG,
                      rows[i].part);
    }
}

static void a_flag_of_another_operator_is_refused(void **state) {
    opreg_matmul_bt_quant p = matmul_of("n=1 k=256 b=q4_k flags=lse");
    (void)state;
    assert_failed(opreg_problem_check(OPREG_OP_MATMUL_BT_QUANT, &p), OPREG_E_ARG,
                  "matmul_bt_quant does not know 0x100");
}

static void a_contradiction_is_refused_with_the_numbers(void **state) {
    static const struct {
        opreg_op op;
        const char *text;
        opreg_status status;
        const char *part;
    } rows[] = {
        {OPREG_OP_MATMUL_BT_QUANT, "n=4 k=255 b=q4_k", OPREG_E_SHAPE, "255 is not a multiple of the q4_k block, 256"},
        {OPREG_OP_MATMUL_BT_QUANT, "n=4 k=0 b=q4_k", OPREG_E_SHAPE, "k is 0, it must be at least 1"},
        {OPREG_OP_MATMUL_BT_QUANT, "m=-1 n=4 k=256 b=q4_k", OPREG_E_SHAPE, "m is -1"},
        {OPREG_OP_MATMUL_BT_QUANT, "n=4 k=256 b=q4_k x_stride=255", OPREG_E_SHAPE, "at least k, 256"},
        {OPREG_OP_MATMUL_BT_QUANT, "n=4 k=256 b=q4_k y_stride=3", OPREG_E_SHAPE, "at least n, 4"},
        {OPREG_OP_MATMUL_BT_QUANT, "n=4 k=256 b=q4_k y=q4_k", OPREG_E_ARG, "y dtype q4_k"},
        {OPREG_OP_MATMUL_BT_QUANT, "n=4 k=256 b=q8_k", OPREG_E_ARG, "quantized activations"},
        {OPREG_OP_MATMUL_BT_QUANT, "n=4 k=256 b=4096", OPREG_E_ARG, "plugin format id 4096"},
        {OPREG_OP_MATMUL_BT_QUANT, "n=4 k=256 b=q4_k x=q8_0", OPREG_E_SHAPE, "dotted with q8_k"},
        {OPREG_OP_MATMUL_BT_QUANT, "n=4 k=256 b=f16 x=q8_0", OPREG_E_SHAPE, "dotted with f32"},
        {OPREG_OP_MATMUL_BT_QUANT, "n=4 k=256 b=q4_k x=q8_k x_stride=512", OPREG_E_SHAPE, "planes are packed"},
        {OPREG_OP_MATMUL_BT_QUANT, "n=4 k=256 b=q4_k dialect=nvfp4_host", OPREG_E_SHAPE, "not a reading of format q4_k"},
        {OPREG_OP_MATMUL_BT_QUANT, "n=4 k=256 b=q4_k glu=silu flags=bias", OPREG_E_SHAPE, "has no bias"},
        {OPREG_OP_MATMUL_BT_QUANT, "n=4 k=256 b=q4_k glu=silu limit=1", OPREG_E_SHAPE, "glu_limit is 1"},
        {OPREG_OP_MATMUL_BT_QUANT, "n=4 k=256 b=q4_k glu=silu_clamped limit=0", OPREG_E_SHAPE, "glu_limit is 0"},
        {OPREG_OP_MATMUL_BT_QUANT, "n=4 k=256 b=q4_k glu=swiglu_oai alpha=inf", OPREG_E_SHAPE, "glu_alpha is inf"},
        {OPREG_OP_MATMUL_BT_QUANT, "n=9000000000000000000 k=256 b=q4_k", OPREG_E_SHAPE, "overflow"},
        {OPREG_OP_MATMUL_BT_QUANT, "m=4000000000 x_stride=4000000000 n=4 k=256 b=q4_k", OPREG_E_SHAPE, "overflow"},
        {OPREG_OP_QUANTIZE_ACT, "k=48 q=q8_0", OPREG_E_SHAPE, "multiple of the q8_0 block, 32"},
        {OPREG_OP_QUANTIZE_ACT, "k=256 q=q4_k", OPREG_E_ARG, "not one of q8_0 q8_k"},
        {OPREG_OP_MOE_ROUTE, "tokens=2000000000 top_k=2 experts=8", OPREG_E_SHAPE, "does not fit in 32 bits"},
        {OPREG_OP_MOE_ROUTE, "tokens=2 top_k=2 experts=8 ids_stride=1", OPREG_E_SHAPE, "at least top_k, 2"},
        {OPREG_OP_MOE_ROUTE, "tokens=2 top_k=2 experts=8 form=pairs ids_stride=3", OPREG_E_SHAPE, "pairs are packed"},
        {OPREG_OP_MOE_ROUTE, "tokens=2 top_k=0 experts=8", OPREG_E_SHAPE, "top_k >= 1"},
        {OPREG_OP_MOE_MATMUL, "n=4 k=256 experts=8 top_k=2 b=q4_k glu=silu", OPREG_E_SHAPE, "has no glu"},
        {OPREG_OP_MOE_GLU, "n=4 k=256 experts=8 top_k=2 b=q4_k glu=none", OPREG_E_SHAPE, "needs a glu"},
        {OPREG_OP_MOE_DOWN, "n=4 k=256 experts=8 top_k=2 b=q4_k rows=token", OPREG_E_SHAPE, "OPREG_X_BY_DST"},
        {OPREG_OP_MOE_FFN, "hidden=256 inter=128 experts=8 top_k=2 b=q4_k", OPREG_E_SHAPE, "inter 128 is not a multiple"},
        {OPREG_OP_MOE_FFN, "tokens=1000000000 top_k=2 hidden=256 inter=1099511627776 experts=1 b=q4_k", OPREG_E_SHAPE, "h: 2000000000 rows of 1099511627776 elements overflow"},
        {OPREG_OP_PAGED_ATTN_DECODE, "hq=6 hk=4 d=64 len=10", OPREG_E_SHAPE, "not a multiple of kv_heads 4"},
        {OPREG_OP_PAGED_ATTN_DECODE, "hq=4 hk=4 d=32 len=10", OPREG_E_SHAPE, "head_dim 32 is not in 64..512"},
        {OPREG_OP_PAGED_ATTN_DECODE, "hq=4 hk=4 d=64 len=10 scale=0", OPREG_E_SHAPE, "scale is 0"},
        {OPREG_OP_PAGED_ATTN_DECODE, "hq=4 hk=4 d=64 len=10 scale=nan", OPREG_E_SHAPE, "scale is"},
        {OPREG_OP_PAGED_ATTN_DECODE, "hq=4 hk=4 d=64 len=10 softcap=-1", OPREG_E_SHAPE, "softcap is -1"},
        {OPREG_OP_PAGED_ATTN_DECODE, "hq=4 hk=4 d=64 len=10 tokens=2", OPREG_E_SHAPE, "must be seqs 1"},
        {OPREG_OP_PAGED_ATTN_DECODE, "hq=4 hk=4 d=64 len=10 max_q=9 flags=q_indptr", OPREG_E_SHAPE, "1 to 8 query tokens"},
        {OPREG_OP_PAGED_ATTN_DECODE, "hq=4 hk=4 d=64 len=100 table_stride=2", OPREG_E_SHAPE, "more than a table row holds"},
        {OPREG_OP_PAGED_ATTN_DECODE, "hq=4 hk=4 d=64 len=10 kv=q4_k", OPREG_E_ARG, "kv dtype q4_k"},
        {OPREG_OP_PAGED_ATTN_DECODE, "hq=4 hk=4 d=64 len=10 k_slot_stride=8", OPREG_E_SHAPE, "k_slot_stride is 8"},
        {OPREG_OP_PAGED_ATTN_DECODE, "seqs=2000000000 table_stride=2000000000 hq=4 hk=4 d=64 len=10", OPREG_E_SHAPE, "overflow"},
    };
    problem_any p;
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        memset(&p, 0, sizeof p);
        assert_works(opreg_problem_parse(rows[i].op, rows[i].text, &p));
        if (opreg_problem_check(rows[i].op, &p) != rows[i].status ||
            strstr(opreg_last_error(), rows[i].part) == NULL) {
            fail_msg("%s: \"%s\" instead of \"%s\"", rows[i].text, opreg_last_error(),
                     rows[i].part);
        }
    }
}

static void null_and_unknown_operators_are_refused(void **state) {
    opreg_matmul_bt_quant p = matmul_of("n=1 k=256 b=q4_k");
    (void)state;
    assert_failed(opreg_problem_check(OPREG_OP_MATMUL_BT_QUANT, NULL), OPREG_E_ARG, "null");
    assert_failed(opreg_problem_check((opreg_op)0, &p), OPREG_E_ARG, "0 is not an operator");
    assert_failed(opreg_problem_check((opreg_op)10, &p), OPREG_E_ARG, "10 is not an operator");
    p.struct_size = 0;
    assert_failed(opreg_problem_check(OPREG_OP_MATMUL_BT_QUANT, &p), OPREG_E_ARG, "struct_size 0");
    p.struct_size = 4097;
    assert_failed(opreg_problem_check(OPREG_OP_MATMUL_BT_QUANT, &p), OPREG_E_ARG,
                  "struct_size 4097, more than any opreg takes (4096)");
}

static void a_longer_struct_is_fine_while_its_new_bytes_are_zero(void **state) {
    struct {
        opreg_matmul_bt_quant known;
        uint64_t newer;
    } p = {matmul_of("n=1 k=256 b=q4_k"), 0};
    (void)state;
    p.known.struct_size = sizeof p;
    assert_works(opreg_problem_check(OPREG_OP_MATMUL_BT_QUANT, &p));
    p.newer = 1;
    assert_failed(opreg_problem_check(OPREG_OP_MATMUL_BT_QUANT, &p), OPREG_E_ARG, "newer opreg");
}

static void a_shorter_struct_is_read_as_if_the_rest_were_zero(void **state) {
    opreg_matmul_bt_quant p = matmul_of("n=1 k=256 b=q4_k");
    (void)state;
    p.struct_size = offsetof(opreg_matmul_bt_quant, flags);
    p.flags = 0xffffffffu; /* not there for the library */
    assert_works(opreg_problem_check(OPREG_OP_MATMUL_BT_QUANT, &p));
}

static uint64_t bytes_of(opreg_op op, const char *text, uint32_t index) {
    problem_any p;
    uint64_t bytes = 12345;
    memset(&p, 0, sizeof p);
    assert_works(opreg_problem_parse(op, text, &p));
    assert_works(opreg_problem_buffer(op, &p, index, &bytes));
    return bytes;
}

static void buffers_end_with_the_last_element_of_the_last_row(void **state) {
    const char *text = "m=3 n=8 k=256 b=q4_k x=bf16 x_stride=300 y_stride=10";
    (void)state;
    assert_int_equal(bytes_of(OPREG_OP_MATMUL_BT_QUANT, text, OPREG_MATMUL_Y), (2 * 10 + 8) * 4);
    assert_int_equal(bytes_of(OPREG_OP_MATMUL_BT_QUANT, text, OPREG_MATMUL_X), (2 * 300 + 256) * 2);
    assert_int_equal(bytes_of(OPREG_OP_MATMUL_BT_QUANT, text, OPREG_MATMUL_BIAS), 0);
    assert_int_equal(bytes_of(OPREG_OP_MATMUL_BT_QUANT, text, OPREG_MATMUL_X_SCALES), 0);
}

static void planes_have_codes_scales_and_sums(void **state) {
    const char *text = "m=2 n=8 k=512 b=q4_k x=q8_k";
    (void)state;
    assert_int_equal(bytes_of(OPREG_OP_MATMUL_BT_QUANT, text, OPREG_MATMUL_X), 2 * 512);
    assert_int_equal(bytes_of(OPREG_OP_MATMUL_BT_QUANT, text, OPREG_MATMUL_X_SCALES), 2 * 2 * 4);
    assert_int_equal(bytes_of(OPREG_OP_MATMUL_BT_QUANT, text, OPREG_MATMUL_X_SUMS), 2 * 32 * 2);
    assert_int_equal(bytes_of(OPREG_OP_QUANTIZE_ACT, "m=2 k=512 q=q8_0", OPREG_QUANTIZE_SCALES),
                     2 * 16 * 4);
}

static void attention_buffers_follow_its_flags(void **state) {
    const char *dense = "seqs=3 hq=8 hk=2 d=64 len=100 kv=f16";
    const char *all = "seqs=3 hq=8 hk=2 d=64 len=100 kv=f8_e4m3 flags=csr+q_indptr+sinks+lse";
    const opreg_op op = OPREG_OP_PAGED_ATTN_DECODE;
    (void)state;
    assert_int_equal(bytes_of(op, dense, OPREG_ATTN_OUT), 3 * 8 * 64 * 4);
    assert_int_equal(bytes_of(op, dense, OPREG_ATTN_K), 21 * 16 * 2 * 64 * 2);
    assert_int_equal(bytes_of(op, dense, OPREG_ATTN_TABLE), 3 * 7 * 4);
    assert_int_equal(bytes_of(op, dense, OPREG_ATTN_LENS), 3 * 4);
    for (uint32_t i = OPREG_ATTN_INDPTR; i < OPREG_ATTN_BUFS; i++) {
        assert_int_equal(bytes_of(op, dense, i), 0);
    }
    assert_int_equal(bytes_of(op, all, OPREG_ATTN_TABLE), 21 * 4);
    assert_int_equal(bytes_of(op, all, OPREG_ATTN_INDPTR), 4 * 4);
    assert_int_equal(bytes_of(op, all, OPREG_ATTN_Q_INDPTR), 4 * 4);
    assert_int_equal(bytes_of(op, all, OPREG_ATTN_SINKS), 8 * 4);
    assert_int_equal(bytes_of(op, all, OPREG_ATTN_K_SCALE), 2 * 4);
    assert_int_equal(bytes_of(op, all, OPREG_ATTN_LSE), 3 * 8 * 4);
}

static void a_buffer_index_past_the_end_is_refused(void **state) {
    opreg_matmul_bt_quant p = matmul_of("n=1 k=256 b=q4_k");
    uint64_t bytes;
    (void)state;
    assert_failed(opreg_problem_buffer(OPREG_OP_MATMUL_BT_QUANT, &p, 5, &bytes), OPREG_E_ARG,
                  "buffers 0 to 4, not 5");
}

static void a_route_has_its_arrays_in_order_and_aligned(void **state) {
    opreg_route_layout l = {.struct_size = sizeof l};
    (void)state;
    assert_works(opreg_route_layout_get(5, 3, 8, &l));
    assert_int_equal(l.cap_entries, 15);
    assert_int_equal(l.cap_groups, 9);
    assert_int_equal(l.group_expert, 16);
    assert_int_equal(l.group_start, 16 + 48);
    assert_int_equal(l.entry_token, 64 + 48);
    assert_int_equal(l.entry_dst, 112 + 64);
    assert_int_equal(l.entry_weight, 176 + 64);
    assert_int_equal(l.bytes, 240 + 64);
}

static void a_route_of_no_tokens_has_one_group_of_room(void **state) {
    opreg_route_layout l = {.struct_size = sizeof l};
    (void)state;
    assert_works(opreg_route_layout_get(0, 3, 8, &l));
    assert_int_equal(l.cap_entries, 0);
    assert_int_equal(l.cap_groups, 1);
}

static void operators_have_names_and_sizes(void **state) {
    (void)state;
    for (int op = 1; op <= (int)OPREG_OP_COUNT; op++) {
        assert_int_equal(opreg_op_by_name(opreg_op_name((opreg_op)op)), op);
        assert_true(opreg_problem_size((opreg_op)op) > 0);
        assert_true(opreg_problem_size((opreg_op)op) <= PROBLEM_MAX_BYTES);
    }
    assert_string_equal(opreg_op_name((opreg_op)0), "?");
    assert_int_equal(opreg_op_by_name("nothing"), 0);
    assert_int_equal(opreg_problem_size((opreg_op)10), 0);
}

static void formats_are_found_by_id_name_and_gguf_type(void **state) {
    opreg_format_row a = {.struct_size = sizeof a}, b = a, c = a;
    (void)state;
    assert_works(opreg_format_by_id(OPREG_Q4_K, &a));
    assert_works(opreg_format_by_name("q4_k", &b));
    assert_works(opreg_format_by_ggml_type(12, &c));
    assert_memory_equal(&a, &b, sizeof a);
    assert_memory_equal(&a, &c, sizeof a);
    assert_int_equal(a.block_values, 256);
    assert_int_equal(a.block_bytes, 144);
    assert_int_equal(a.act_dtype, OPREG_Q8_K);
    assert_failed(opreg_format_by_name("q4_z", &a), OPREG_E_ARG, "q4_z");
    assert_failed(opreg_format_by_ggml_type(-1, &a), OPREG_E_ARG, "-1");
    assert_string_equal(opreg_dtype_name(OPREG_F8_E4M3), "f8_e4m3");
    assert_string_equal(opreg_dtype_name(999), "?");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_printed_problem_is_read_back_byte_for_byte),
        cmocka_unit_test(a_printed_problem_has_every_field),
        cmocka_unit_test(a_brief_text_leaves_defaults_out),
        cmocka_unit_test(printing_returns_the_length_that_was_needed),
        cmocka_unit_test(numbers_do_not_follow_the_locale),
        cmocka_unit_test(a_wrong_key_or_value_is_named),
        cmocka_unit_test(a_flag_of_another_operator_is_refused),
        cmocka_unit_test(a_contradiction_is_refused_with_the_numbers),
        cmocka_unit_test(null_and_unknown_operators_are_refused),
        cmocka_unit_test(a_longer_struct_is_fine_while_its_new_bytes_are_zero),
        cmocka_unit_test(a_shorter_struct_is_read_as_if_the_rest_were_zero),
        cmocka_unit_test(buffers_end_with_the_last_element_of_the_last_row),
        cmocka_unit_test(planes_have_codes_scales_and_sums),
        cmocka_unit_test(attention_buffers_follow_its_flags),
        cmocka_unit_test(a_buffer_index_past_the_end_is_refused),
        cmocka_unit_test(a_route_has_its_arrays_in_order_and_aligned),
        cmocka_unit_test(a_route_of_no_tokens_has_one_group_of_room),
        cmocka_unit_test(operators_have_names_and_sizes),
        cmocka_unit_test(formats_are_found_by_id_name_and_gguf_type),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
