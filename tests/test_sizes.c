/* SPDX-License-Identifier: MIT
 * test_sizes.c - no product of sizes overflows: a row for each one, and the ladders of size_ladder.h
 * over the CPU's variants (tests/driver climbs them for the GPU plugins). */
#include "size_ladder.h"

static captured said;

/* A product past 64 bits each, and what the refusal says of it. */
static const struct {
    opreg_op op;
    const char *problem, *text;
} products[] = {
    {OPREG_OP_QUANTIZE_ACT, "q=q8_0 m=1152921504606846976 k=32", "x: 1152921504606846976 rows"},
    {OPREG_OP_QUANTIZE_ACT, "q=q8_0 m=2 k=32 x_stride=576460752303423488", "x: 2 rows"},
    {OPREG_OP_MATMUL_BT_QUANT, "b=q4_0 m=1 n=1152921504606846976 k=32", "the bytes of 1 experts"},
    {OPREG_OP_MATMUL_BT_QUANT, "b=f32 m=1 n=2 k=2305843009213693952", "the bytes of 1 experts"},
    {OPREG_OP_MATMUL_BT_QUANT, "b=q4_0 m=288230376151711744 n=1 k=32", "x: 288230376151711744 rows"},
    {OPREG_OP_MATMUL_BT_QUANT, "b=q4_0 m=2 n=1 k=32 x_stride=576460752303423488", "x: 2 rows"},
    {OPREG_OP_MATMUL_BT_QUANT, "b=q4_0 m=2 n=1 k=32 y_stride=576460752303423488", "y: 2 rows"},
    {OPREG_OP_MATMUL_BT_QUANT, "b=f16 m=0 n=1152921504606846976 k=1", "bias: 1 rows"},
    {OPREG_OP_MOE_ROUTE, "tokens=2147483648 top_k=1 experts=1", "2147483648"},
    {OPREG_OP_MOE_ROUTE, "tokens=65536 top_k=65536 experts=1", "65536"},
    {OPREG_OP_MOE_ROUTE, "tokens=2 top_k=1 experts=1 ids_stride=576460752303423488", "ids: 2 rows"},
    {OPREG_OP_MOE_ROUTE, "tokens=2 top_k=1 experts=1 weights_stride=576460752303423488",
     "weights: 2 rows"},
    {OPREG_OP_MOE_MATMUL, "b=q4_0 tokens=1 top_k=1 n=4294967296 k=32 experts=2147483647",
     "the bytes of 2147483647 experts"},
    {OPREG_OP_MOE_MATMUL, "b=q4_0 tokens=2 top_k=1 n=1 k=32 experts=1 x_stride=576460752303423488",
     "x: 2 rows"},
    {OPREG_OP_MOE_MATMUL,
     "b=q4_0 tokens=1 top_k=2 n=1 k=32 experts=1 rows=dst x_stride=576460752303423488", "x: 2 rows"},
    {OPREG_OP_MOE_MATMUL, "b=q4_0 tokens=1 top_k=2 n=1 k=32 experts=1 y_stride=576460752303423488",
     "y: 2 rows"},
    {OPREG_OP_MOE_COMBINE, "tokens=1 top_k=2 n=1 x_stride=576460752303423488", "rows: 2 rows"},
    {OPREG_OP_MOE_COMBINE, "tokens=2 top_k=1 n=1 y_stride=576460752303423488", "y: 2 rows"},
    {OPREG_OP_MOE_COMBINE, "tokens=2 top_k=1 n=1 weights_stride=576460752303423488",
     "weights: 2 rows"},
    {OPREG_OP_MOE_FFN, "b=q4_0 glu=silu tokens=1 hidden=32 inter=1152921504606846976 experts=1 top_k=1",
     "the bytes of 1 experts"},
    {OPREG_OP_MOE_FFN,
     "b=f16 down=f32 glu=silu tokens=1 hidden=2147483648 inter=2147483647 experts=1 top_k=1",
     "the bytes of 1 experts"},
    {OPREG_OP_MOE_FFN,
     "b=q4_0 glu=silu tokens=1 hidden=32 inter=9007199254740992 experts=1 top_k=64",
     "h: 64 rows"},
    {OPREG_OP_MOE_FFN,
     "b=q4_0 glu=silu tokens=1 hidden=9007199254740992 inter=32 experts=1 top_k=64",
     "the rows of down: 64 rows"},
    {OPREG_OP_MOE_FFN,
     "b=q4_0 glu=silu tokens=2 hidden=32 inter=32 experts=1 top_k=1 x_stride=576460752303423488",
     "x: 2 rows"},
    {OPREG_OP_MOE_FFN,
     "b=q4_0 glu=silu tokens=2 hidden=32 inter=32 experts=1 top_k=1 y_stride=576460752303423488",
     "y: 2 rows"},
    {OPREG_OP_MOE_FFN,
     "b=q4_0 glu=silu tokens=2 hidden=32 inter=32 experts=1 top_k=1 "
     "weights_stride=576460752303423488",
     "weights: 2 rows"},
    {OPREG_OP_PAGED_ATTN_DECODE, "seqs=2 hq=1 hk=1 d=64 len=16 q_stride=576460752303423488",
     "q: 2 rows"},
    {OPREG_OP_PAGED_ATTN_DECODE, "seqs=2 hq=1 hk=1 d=64 len=16 out_stride=576460752303423488",
     "out: 2 rows"},
    {OPREG_OP_PAGED_ATTN_DECODE,
     "seqs=1 hq=1 hk=1 d=64 len=16 blocks=4 k_block_stride=576460752303423488", "the k cache"},
    {OPREG_OP_PAGED_ATTN_DECODE,
     "seqs=1 hq=1 hk=1 d=64 len=16 blocks=4 v_slot_stride=576460752303423488", "the v cache"},
    {OPREG_OP_PAGED_ATTN_DECODE,
     "seqs=1 hq=2 hk=2 d=64 len=16 blocks=4 v_head_stride=576460752303423488", "the v cache"},
};

static void every_product_of_sizes_is_refused_by_name(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof products / sizeof products[0]; i++) {
        union {
            opreg_paged_attn_decode attention;
            opreg_moe_ffn ffn;
            opreg_matmul_bt_quant matmul;
        } problem;
        opreg_status status;
        if (opreg_problem_parse(products[i].op, products[i].problem, &problem) != OPREG_OK) {
            fail_msg("%s: %s", products[i].problem, opreg_last_error());
        }
        status = opreg_problem_check(products[i].op, &problem);
        if (status != OPREG_E_SHAPE || strstr(opreg_last_error(), products[i].text) == NULL) {
            fail_msg("%s %s: %s \"%s\"", opreg_op_name(products[i].op), products[i].problem,
                     opreg_status_name(status), status == OPREG_OK ? "" : opreg_last_error());
        }
    }
}

/* Sizes of weights, whose bytes the caller states. */
static void every_product_of_a_weight_is_refused_by_name(void **state) {
    static const struct {
        uint32_t format;
        int64_t experts, n, k, stride;
        const char *text;
    } rows[] = {
        {OPREG_F32, 1, 1, INT64_MAX, 0, "overflow 64 bits"},                    /* a row           */
        {OPREG_Q4_0, 1, (int64_t)1 << 60, 32, 0, "overflow 64 bits"},           /* an expert       */
        {OPREG_Q4_0, INT32_MAX, (int64_t)1 << 32, 32, 0, "overflow 64 bits"},   /* all             */
        {OPREG_Q4_0, 3, 1, 32, INT64_MAX / 2 + 1, "bytes apart, overflow"},     /* experts apart   */
        {OPREG_Q4_0, 2, 1, 32, INT64_MAX, "bytes apart, overflow"},             /* the last's end  */
        {OPREG_Q4_0, INT64_MAX, 1, 32, 0, "experts >= 1"},
        {OPREG_Q4_0, INT32_MAX, 0, 32, 0, "at most"}, /* side records without bytes                */
    };
    opreg_registry *reg = quiet_registry(&said);
    opreg_device cpu;
    (void)state;
    assert_int_equal(opreg_devices(reg, &cpu, sizeof cpu, 1), 1);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        unsigned char block[18] = {0};
        opreg_weight *weight = NULL;
        opreg_weight_desc desc = {.struct_size = sizeof desc, .format = rows[i].format,
                                  .experts = rows[i].experts, .n = rows[i].n, .k = rows[i].k,
                                  .expert_stride = rows[i].stride, .data = {block, UINT64_MAX}};
        assert_failed(opreg_weight_create(reg, &cpu, &desc, &weight), OPREG_E_SHAPE, rows[i].text);
        assert_null(weight);
    }
    assert_works(opreg_destroy(reg));
}

#if defined(__SANITIZE_ADDRESS__)
/* As the C library does: too much is null, not an end. */
const char *__asan_default_options(void);
__attribute__((visibility("default"))) const char *__asan_default_options(void) {
    return "allocator_may_return_null=1";
}
#endif

static void memory_of_all_addresses_is_no_memory(void **state) {
    opreg_registry *reg = quiet_registry(&said);
    const opreg_device_io *io;
    const opreg_host *host;
    opreg_device cpu;
    void *block = NULL;
    (void)state;
    assert_int_equal(opreg_devices(reg, &cpu, sizeof cpu, 1), 1);
    assert_works(opreg_device_io_get(reg, &cpu, &io, &host));
    for (uint64_t less = 0; less < 1024; less += 64) {
        assert_failed(io->alloc(host, &cpu, UINT64_MAX - less, &block), OPREG_E_NOMEM, "no host");
    }
    assert_null(block);
    assert_works(opreg_destroy(reg));
}

static void a_plan_too_large_to_watch_is_no_memory_and_no_plan(void **state) {
    opreg_registry *reg = quiet_registry(&said);
    opreg_quantize_act problem;
    opreg_plan *plan = NULL;
    opreg_device cpu;
    (void)state;
    assert_int_equal(opreg_devices(reg, &cpu, sizeof cpu, 1), 1);
    assert_works(opreg_enable(reg, "guard", "on"));
    assert_works(opreg_problem_parse(OPREG_OP_QUANTIZE_ACT, "q=q8_0 m=18014398509481983 k=32", &problem));
    assert_failed(opreg_plan_create(reg, &cpu, OPREG_OP_QUANTIZE_ACT, &problem, &plan), OPREG_E_NOMEM,
                  "no memory to watch 18014398509481983 rows");
    assert_null(plan);
    assert_works(opreg_destroy(reg));
    assert_no_text(said.text, "v1 total");
}

static void no_size_of_the_cpu_overflows(void **state) {
    opreg_registry *reg = quiet_registry(&said);
    opreg_device cpu;
    (void)state;
    assert_works(opreg_enable(reg, "cpu", "fast"));
    assert_int_equal(opreg_devices(reg, &cpu, sizeof cpu, 1), 1);
    climb_all_ladders(reg, &cpu);
    assert_works(opreg_destroy(reg));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_product_of_sizes_is_refused_by_name),
        cmocka_unit_test(every_product_of_a_weight_is_refused_by_name),
        cmocka_unit_test(memory_of_all_addresses_is_no_memory),
        cmocka_unit_test(a_plan_too_large_to_watch_is_no_memory_and_no_plan),
        cmocka_unit_test(no_size_of_the_cpu_overflows),
    };
    return cmocka_run_group_tests_name("sizes", tests, NULL, NULL);
}
