/* SPDX-License-Identifier: MIT
 * Defects that other engines' RDNA kernels had or have, each a promise here.  The kernels are the
 * plugin's own sources, compiled for the CPU; their compiler and device are proven elsewhere. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "device.h"

static rig r;

/* After each output; the emulated device's memory is the host's and every allocation has more. */
enum { GUARD = 0x5a, GUARD_BYTES = 64 };

/* Weights begin on odd bytes here: rows of a file begin anywhere. */
static void move_weights(rig_case *c, int by) {
    for (uint32_t i = 0; i < c->num_weights; i++) {
        c->device_view[i].data = (const uint8_t *)c->device_view[i].data + by;
    }
}

/* The variant gives the reference's bits on the case as it stands in host memory. */
static void assert_same_bits(rig_case *c, const char *variant, const char *text) {
    const opreg_kernel *kernel = rig_kernel(&r.gpu, variant);
    char reason[128] = "";
    assert_non_null(kernel);
    if (kernel->supports(&r.device, &c->problem, reason) != OPREG_OK) {
        fail_msg("%s refuses %s: %s", variant, text, reason);
    }
    for (uint32_t i = 0; i < c->num_bufs; i++) {
        if (!c->shape[i].output) {
            rig_up(&r, c->device[i].ptr, c->host[i].ptr, c->host[i].bytes);
        }
    }
    move_weights(c, 1);
    for (uint32_t i = 0; i < c->num_weights; i++) {
        rig_up(&r, (void *)(uintptr_t)c->device_view[i].data, c->view[i].data, c->view[i].bytes);
    }
    rig_poison(&r, c); /* what is not written is not equal */
    for (uint32_t i = 0; i < c->num_bufs; i++) {
        if (c->shape[i].output && c->host[i].bytes != 0) {
            memset((uint8_t *)c->device[i].ptr + c->host[i].bytes, GUARD, GUARD_BYTES);
        }
    }
    assert_int_equal(rig_run_cpu(&r, c), OPREG_OK);
    assert_int_equal(rig_run_gpu(&r, c, kernel, 0, NULL), OPREG_OK);
    assert_int_equal(rig_compare(&r, c, text), 0);
    move_weights(c, -1);
    for (uint32_t i = 0; i < c->num_bufs; i++) {
        for (int b = 0; c->shape[i].output && c->host[i].bytes != 0 && b < GUARD_BYTES; b++) {
            assert_int_equal(((const uint8_t *)c->device[i].ptr)[c->host[i].bytes + (uint64_t)b],
                             GUARD);
        }
    }
}

static void run(const char *variant, opreg_op op, const char *text) {
    rig_case c;
    assert_true(rig_make(&r, op, text, &c));
    assert_same_bits(&c, variant, text);
    rig_drop(&r, &c);
}

static opreg_status answer(const char *variant, opreg_op op, const char *text, char reason[128]) {
    problem_any problem;
    assert_int_equal(opreg_problem_parse(op, text, &problem), OPREG_OK);
    return rig_kernel(&r.gpu, variant)->supports(&r.device, &problem, reason);
}

static void a_split_of_32768_weights_and_more_has_the_right_sums(void **state) {
    (void)state;
    run("qdot_splitk", OPREG_OP_MATMUL_BT_QUANT, "m=1 n=3 k=32768 b=q4_k x=f32 y=bf16");
    run("qdot_splitk", OPREG_OP_MATMUL_BT_QUANT, "m=2 n=2 k=33024 b=q6_k x=bf16 y=f32");
    run("qdot_gemv", OPREG_OP_MATMUL_BT_QUANT, "m=1 n=3 k=32768 b=q4_k x=f32 y=f32");
}

static void every_number_of_waves_that_share_an_output_gives_the_same_bits(void **state) {
    (void)state;
    run("qdot_splitk", OPREG_OP_MATMUL_BT_QUANT, "m=1 n=17 k=256 b=q5_k x=f32 y=f32");
    run("qdot_splitk", OPREG_OP_MATMUL_BT_QUANT, "m=1 n=9 k=2048 b=q3_k x=f32 y=f32");
    run("qdot_splitk", OPREG_OP_MATMUL_BT_QUANT, "m=3 n=5 k=2560 b=iq2_s x=f32 y=f32");
    run("qdot_splitk", OPREG_OP_MATMUL_BT_QUANT, "m=1 n=3 k=7168 b=q4_k x=f32 y=f32");
    run("qdot_splitk", OPREG_OP_MATMUL_BT_QUANT, "m=2 n=3 k=1280 b=q4_k x=f32 y=f32 glu=silu");
    run("qdot_splitk", OPREG_OP_MATMUL_BT_QUANT, "m=1 n=5 k=4352 b=q2_k x=f32 y=f32");
}

static void heads_24_over_4_are_all_written(void **state) {
    (void)state;
    run("paged_gqa", OPREG_OP_PAGED_ATTN_DECODE,
        "seqs=1 tokens=1 hq=24 hk=4 d=256 block=16 blocks=40 len=600 q=f32 kv=bf16 out=f32");
    run("paged_gqa", OPREG_OP_PAGED_ATTN_DECODE,
        "seqs=2 tokens=2 hq=24 hk=4 d=128 block=16 blocks=40 len=300 q=bf16 kv=f16 out=bf16");
}

static void a_ratio_of_16_fits_the_shared_memory_that_the_kernel_names(void **state) {
    (void)state;
    run("paged_gqa", OPREG_OP_PAGED_ATTN_DECODE,
        "seqs=1 tokens=1 hq=16 hk=1 d=256 block=16 blocks=40 len=520 q=bf16 kv=bf16 out=bf16");
}

static void heads_without_a_kernel_are_refused_by_their_number(void **state) {
    static const char *const texts[][2] = {
        {"96", "seqs=1 tokens=1 hq=8 hk=2 d=96 block=16 blocks=9 len=70 kv=bf16"},
        {"17", "seqs=1 tokens=1 hq=17 hk=1 d=64 block=16 blocks=9 len=70 kv=bf16"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        char reason[128] = "";
        assert_int_equal(answer("paged_gqa", OPREG_OP_PAGED_ATTN_DECODE, texts[i][1], reason),
                         OPREG_E_UNSUPPORTED);
        assert_non_null(strstr(reason, texts[i][0]));
    }
}

static void f16_outputs_are_rounded_as_the_reference_rounds(void **state) {
    (void)state;
    run("qdot_gemv", OPREG_OP_MATMUL_BT_QUANT, "m=1 n=19 k=512 b=q4_k x=f32 y=f16");
    run("qdot_splitk", OPREG_OP_MATMUL_BT_QUANT, "m=1 n=19 k=512 b=q6_k x=f16 y=f16");
    run("wmma_tile", OPREG_OP_MATMUL_BT_QUANT, "m=17 n=18 k=512 b=q4_k x=f32 y=f16");
    run("gqh_cols", OPREG_OP_MATMUL_BT_QUANT, "m=3 n=7 k=512 b=gqh4 x=f32 y=f16");
    run("paged_gqa", OPREG_OP_PAGED_ATTN_DECODE,
        "seqs=1 tokens=1 hq=4 hk=2 d=64 block=16 blocks=9 len=70 q=f32 kv=bf16 out=f16");
}

static void ids_out_of_range_give_zero_rows(void **state) {
    static const struct {
        opreg_op op;
        const char *variant, *text;
    } grouped[] = {
        {OPREG_OP_MOE_MATMUL, "qdot_grouped",
         "tokens=100 n=6 k=256 experts=4 top_k=2 b=q4_k x=f32 y=f32"},
        {OPREG_OP_MOE_GLU, "qdot_grouped_glu",
         "tokens=60 n=5 k=256 experts=4 top_k=2 b=iq3_s x=f32 y=f32 glu=silu"},
        {OPREG_OP_MOE_DOWN, "qdot_grouped_down",
         "tokens=60 n=5 k=256 experts=4 top_k=2 b=q6_k x=f32 y=f32"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof grouped / sizeof grouped[0]; i++) {
        rig_case c;
        opreg_route_header *header;
        int32_t *experts;
        int found = 0;
        assert_true(rig_make(&r, grouped[i].op, grouped[i].text, &c));
        header = c.host[OPREG_MOE_ROUTE_BUF].ptr;
        experts = (int32_t *)(void *)(header + 1);
        for (uint32_t g = 0; g < header->groups; g++) {
            found |= experts[g] == -1;
        }
        assert_true(found); /* the case has such ids */
        assert_same_bits(&c, grouped[i].variant, grouped[i].text);
        experts[0] = 1 << 30; /* and an expert that no route of ours would name */
        assert_same_bits(&c, grouped[i].variant, grouped[i].text);
        rig_drop(&r, &c);
    }
}

static void variants_of_few_rows_refuse_39_with_the_number(void **state) {
    static const char *const few[] = {"qdot_gemv", "qdot_splitk", "gqh_gemv", "gqh_cols",
                                      "tiny_n_gemv"};
    static const char *const texts[] = {"m=39 n=64 k=2560 b=q4_k", "m=39 n=64 k=2560 b=q4_k",
                                        "m=39 n=64 k=2560 b=gqh4", "m=39 n=64 k=2560 b=gqh4",
                                        "m=39 n=64 k=2560 b=bf16"};
    (void)state;
    for (size_t i = 0; i < sizeof few / sizeof few[0]; i++) {
        char reason[128] = "";
        assert_int_equal(answer(few[i], OPREG_OP_MATMUL_BT_QUANT, texts[i], reason),
                         OPREG_E_UNSUPPORTED);
        assert_non_null(strstr(reason, "39"));
    }
    run("wmma_tile", OPREG_OP_MATMUL_BT_QUANT, "m=39 n=20 k=512 b=q4_k x=f32 y=f32");
}

static void weights_of_any_width_and_address_have_the_reference_bits(void **state) {
    (void)state;
    run("tiny_n_gemv", OPREG_OP_MATMUL_BT_QUANT, "m=7 n=3 k=33 b=f16 x=bf16 y=f32 x_stride=40");
    run("tiny_n_gemv", OPREG_OP_MATMUL_BT_QUANT, "m=1 n=64 k=1031 b=bf16 x=f32 y=f16");
}

static void more_query_tokens_than_8_are_no_problem_of_decode(void **state) {
    problem_any problem;
    (void)state;
    assert_int_equal(
        opreg_problem_parse(OPREG_OP_PAGED_ATTN_DECODE,
                            "seqs=1 tokens=64 max_q=64 hq=16 hk=4 d=128 block=16 blocks=40 len=300 "
                            "kv=bf16",
                            &problem),
        OPREG_OK);
    assert_int_not_equal(problem_check(OPREG_OP_PAGED_ATTN_DECODE, &problem, NULL), OPREG_OK);
}

static void pages_that_are_not_there_are_masked(void **state) {
    const char *text = "seqs=1 tokens=1 hq=8 hk=2 d=128 block=16 blocks=40 len=300 kv=bf16";
    rig_case c;
    int32_t *table;
    (void)state;
    assert_true(rig_make(&r, OPREG_OP_PAGED_ATTN_DECODE, text, &c));
    table = c.host[OPREG_ATTN_TABLE].ptr;
    table[0] = -1;
    table[3] = c.problem.attn.num_blocks;
    table[17] = INT32_MIN;
    assert_same_bits(&c, "paged_gqa", text);
    for (int32_t i = 0; i < c.problem.attn.table_stride; i++) {
        table[i] = -1; /* no key is left */
    }
    assert_same_bits(&c, "paged_gqa", text);
    rig_drop(&r, &c);
}

/* The scale of a row's first block becomes a NaN. */
static void spoil_row(rig_case *c, int64_t row) {
    uint8_t *block = (uint8_t *)(uintptr_t)c->view[0].data + row * c->view[0].row_bytes;
    if (c->view[0].format == OPREG_IQ1_M) { /* a nibble at the top of each of four halves */
        static const uint8_t nibbles[4] = {0x10, 0x00, 0xe0, 0x70};
        for (int i = 0; i < 4; i++) {
            block[49 + 2 * i] = (uint8_t)((block[49 + 2 * i] & 0x0f) | nibbles[i]);
        }
    } else { /* the block's first f16 */
        memcpy(block, "\x01\x7e", 2);
    }
}

static void a_nan_scale_stays_in_its_own_row(void **state) {
    static const char *const formats[] = {"iq2_xxs", "iq2_xs", "iq2_s", "iq3_xxs",
                                          "iq3_s",   "iq1_s",  "iq1_m", "iq4_xs"};
    static const char *const variants[] = {"qdot_gemv", "qdot_splitk", "wmma_tile"};
    (void)state;
    for (size_t i = 0; i < 6 * (sizeof formats / sizeof formats[0]); i++) {
        char text[96];
        rig_case c;
        int64_t bad = 2 + (int64_t)i % 2, rows = 0; /* either row of a wave's pair */
        const char *format = formats[i / 6], *variant = variants[i / 2 % 3];
        int m = i / 2 % 3 == 2 ? 16 : 1;
        if (m == 16 && strcmp(format, "iq1_m") == 0) {
            continue; /* not one of the tiles' formats */
        }
        snprintf(text, sizeof text, "m=%d n=6 k=1024 b=%s x=f32 y=f32", m, format);
        assert_true(rig_make(&r, OPREG_OP_MATMUL_BT_QUANT, text, &c));
        spoil_row(&c, bad);
        assert_same_bits(&c, variant, text);
        for (int n = 0; n < 6; n++) {
            float y = ((const float *)c.host[OPREG_MATMUL_Y].ptr)[n];
            rows += y != y;
        }
        assert_int_equal(rows, 1);
        rig_drop(&r, &c);
    }
}

/* The quantizer of quantize_act is also qdot_gemv's prologue. */
static void the_first_of_equal_maxima_decides_the_codes(void **state) {
    const char *text = "m=1 k=768 q=q8_k x=f32";
    rig_case c;
    float *x;
    (void)state;
    assert_true(rig_make(&r, OPREG_OP_QUANTIZE_ACT, text, &c));
    x = c.host[OPREG_QUANTIZE_X].ptr;
    x[5] = 9.0f, x[200] = -9.0f;             /* in two lanes */
    x[256 + 32] = -7.0f, x[256 + 33] = 7.0f; /* in one */
    for (int i = 0; i < 256; i++) {
        x[512 + i] = i % 2 != 0 ? 1.0f : -1.0f;
    }
    assert_same_bits(&c, "base_quantize", text);
    rig_drop(&r, &c);
}

static void each_width_of_gqh_cols_has_a_kernel_of_its_own(void **state) {
    static const char *const formats[] = {"gqh4", "gqh3", "gqh2_h", "gqh2_c"};
    char reason[128];
    (void)state;
    for (int m = 2; m <= 8; m++) {
        char text[96];
        snprintf(text, sizeof text, "m=%d n=14 k=768 b=%s x=%s y=f32", m, formats[m % 4],
                 m % 3 == 0   ? "f32"
                 : m % 3 == 1 ? "f16"
                              : "bf16");
        run("gqh_cols", OPREG_OP_MATMUL_BT_QUANT, text);
    }
    assert_int_equal(answer("gqh_cols", OPREG_OP_MATMUL_BT_QUANT, "m=9 n=14 k=768 b=gqh4", reason),
                     OPREG_E_UNSUPPORTED);
    assert_int_equal(answer("gqh_cols", OPREG_OP_MATMUL_BT_QUANT, "m=1 n=14 k=768 b=gqh4", reason),
                     OPREG_E_UNSUPPORTED);
}

/* The control of the test above: the kernel of one column fewer leaves the last one, and that is
 * seen. */
static void a_width_that_its_kernel_does_not_cover_is_seen(void **state) {
    const opreg_kernel *kernel = rig_kernel(&r.gpu, "gqh_cols");
    (void)state;
    for (int m = 3; m <= 8; m++) {
        char text[96];
        rig_case c;
        snprintf(text, sizeof text, "m=%d n=6 k=512 b=gqh4 x=f32 y=f32", m);
        assert_true(rig_make(&r, OPREG_OP_MATMUL_BT_QUANT, text, &c));
        rig_poison(&r, &c);
        assert_int_equal(rig_run_cpu(&r, &c), OPREG_OK);
        c.problem.matmul.m--;
        assert_int_equal(rig_run_gpu(&r, &c, kernel, 0, NULL), OPREG_OK);
        c.problem.matmul.m++;
        assert_int_equal(rig_compare(&r, &c, NULL), 6);
        rig_drop(&r, &c);
    }
}

static void gate_and_up_are_one_call_in_every_form_of_gqh(void **state) {
    (void)state;
    run("gqh_gemv", OPREG_OP_MATMUL_BT_QUANT, "m=1 n=14 k=768 b=gqh3 x=f32 y=f32 glu=silu");
    run("gqh_gemv", OPREG_OP_MATMUL_BT_QUANT, "m=1 n=641 k=512 b=gqh4 x=bf16 y=f32 glu=silu");
    run("gqh_cols", OPREG_OP_MATMUL_BT_QUANT, "m=5 n=6 k=512 b=gqh2_c x=f32 y=f32 glu=silu");
}

static void byte_tiles_give_the_reference_bits_of_every_format(void **state) {
    static const char *const formats[] = {"q8_0",    "q2_k",   "q3_k",    "q4_k",   "q5_k",
                                          "q6_k",    "iq4_xs", "iq2_xxs", "iq2_xs", "iq2_s",
                                          "iq3_xxs", "iq3_s",  "iq1_s"};
    (void)state;
    for (size_t i = 0; i < sizeof formats / sizeof formats[0]; i++) {
        char text[96];
        snprintf(text, sizeof text, "m=%d n=%d k=%d b=%s x=f32 y=f32", i % 2 ? 16 : 37,
                 i % 3 ? 17 : 16, i == 3 ? 8448 : 768, formats[i]);
        run("wmma_tile", OPREG_OP_MATMUL_BT_QUANT, text);
    }
    run("wmma_tile", OPREG_OP_MATMUL_BT_QUANT, "m=16 n=16 k=512 b=q5_k x=f32 y=f32 glu=silu");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_split_of_32768_weights_and_more_has_the_right_sums),
        cmocka_unit_test(every_number_of_waves_that_share_an_output_gives_the_same_bits),
        cmocka_unit_test(heads_24_over_4_are_all_written),
        cmocka_unit_test(a_ratio_of_16_fits_the_shared_memory_that_the_kernel_names),
        cmocka_unit_test(heads_without_a_kernel_are_refused_by_their_number),
        cmocka_unit_test(f16_outputs_are_rounded_as_the_reference_rounds),
        cmocka_unit_test(ids_out_of_range_give_zero_rows),
        cmocka_unit_test(variants_of_few_rows_refuse_39_with_the_number),
        cmocka_unit_test(weights_of_any_width_and_address_have_the_reference_bits),
        cmocka_unit_test(more_query_tokens_than_8_are_no_problem_of_decode),
        cmocka_unit_test(pages_that_are_not_there_are_masked),
        cmocka_unit_test(a_nan_scale_stays_in_its_own_row),
        cmocka_unit_test(the_first_of_equal_maxima_decides_the_codes),
        cmocka_unit_test(each_width_of_gqh_cols_has_a_kernel_of_its_own),
        cmocka_unit_test(a_width_that_its_kernel_does_not_cover_is_seen),
        cmocka_unit_test(gate_and_up_are_one_call_in_every_form_of_gqh),
        cmocka_unit_test(byte_tiles_give_the_reference_bits_of_every_format),
    };
    rig_open(&r);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
