/* SPDX-License-Identifier: MIT
 * test_stack.c - a run of the CPU fits on the stack that opreg.h says, 512 KiB: every variant on a
 * thread of that size, with everything that may watch a run switched on. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdlib.h>

#include "registry_harness.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define STACK_BYTES (8u << 20) /* their frames are several times as large                            */
#else
#define STACK_BYTES (512u << 10)
#endif
#define MAX_BUFS     12
#define MAX_VARIANTS 16

typedef struct job {
    const opreg_plan *plan;
    const opreg_args *args;
    opreg_status status;
    char said[512];
} job;

static void *run_job(void *argument) {
    job *j = argument;
    j->status = opreg_plan_run(j->plan, j->args);
    snprintf(j->said, sizeof j->said, "%s", opreg_last_error());
    return NULL;
}

static void *zeros(uint64_t bytes) {
    size_t size = (size_t)(bytes + 511) / 256 * 256;
    void *block = aligned_alloc(256, size);
    assert_non_null(block);
    memset(block, 0, size);
    return block;
}

/* One variant: its weights in its layout, then a run on a small thread. */
static void run_variant(opreg_registry *reg, const opreg_device *cpu, opreg_op op, const char *text,
                        const char *kernel, const opreg_weight_desc *desc, uint32_t num_weights) {
    static opreg_paged_attn_decode problem; /* the largest                                           */
    opreg_plan *plan = NULL;
    opreg_weight *weights[3] = {NULL}, *stored = NULL;
    void *prepared[3] = {NULL};
    opreg_buf bufs[MAX_BUFS];
    uint32_t count = 0;
    opreg_args args = {.struct_size = sizeof args, .bufs = bufs, .num_weights = num_weights,
                       .weights = (const opreg_weight *const *)weights};
    job j = {.args = &args, .status = OPREG_E_ARG};
    pthread_attr_t attributes;
    pthread_t thread;
    assert_works(opreg_problem_parse(op, text, &problem));
    assert_works(opreg_plan_create_named(reg, cpu, op, &problem, kernel, &plan));
    for (uint32_t w = 0; w < num_weights; w++) {
        opreg_buf dst = {NULL, opreg_plan_layout_bytes(plan)};
        dst.ptr = prepared[w] = zeros(dst.bytes);
        assert_works(opreg_weight_create(reg, cpu, desc, &stored));
        assert_works(opreg_weight_prepare_at(plan, w, stored, dst, NULL, &weights[w]));
        opreg_weight_destroy(stored);
    }
    for (; count < MAX_BUFS; count++) {
        if (opreg_problem_buffer(op, &problem, count, &bufs[count].bytes) != OPREG_OK) {
            break;
        }
        bufs[count].ptr = bufs[count].bytes > 0 ? zeros(bufs[count].bytes) : NULL;
    }
    if (op == OPREG_OP_PAGED_ATTN_DECODE) {
        *(int32_t *)bufs[OPREG_ATTN_LENS].ptr = 1000;
    }
    args.num_bufs = count;
    args.workspace = (opreg_buf){zeros(opreg_plan_workspace(plan)), opreg_plan_workspace(plan)};
    j.plan = plan;
    assert_int_equal(pthread_attr_init(&attributes), 0);
    assert_int_equal(pthread_attr_setstacksize(&attributes, STACK_BYTES), 0);
    assert_int_equal(pthread_create(&thread, &attributes, run_job, &j), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    if (j.status != OPREG_OK) {
        fail_msg("%s %s: %s", kernel, text, j.said);
    }
    pthread_attr_destroy(&attributes);
    for (uint32_t i = 0; i < count; i++) {
        free(bufs[i].ptr);
    }
    for (uint32_t w = 0; w < num_weights; w++) {
        opreg_weight_destroy(weights[w]);
        free(prepared[w]);
    }
    free(args.workspace.ptr);
    opreg_plan_destroy(plan);
}

static const struct {
    opreg_op op;
    const char *problem;
    uint32_t num_weights, format;
    int64_t experts, n, k;
} rows[] = {
    {OPREG_OP_QUANTIZE_ACT, "m=4 k=1024 q=q8_k", 0, 0, 0, 0, 0},
    {OPREG_OP_MATMUL_BT_QUANT, "m=9 n=64 k=1024 b=q5_k y=bf16", 1, OPREG_Q5_K, 1, 64, 1024},
    {OPREG_OP_MATMUL_BT_QUANT, "m=3 n=64 k=1024 b=q6_k glu=silu", 2, OPREG_Q6_K, 1, 64, 1024},
    {OPREG_OP_MATMUL_BT_QUANT, "m=3 n=64 k=1024 b=iq3_s", 1, OPREG_IQ3_S, 1, 64, 1024},
    {OPREG_OP_MOE_ROUTE, "tokens=64 top_k=8 experts=128", 0, 0, 0, 0, 0},
    {OPREG_OP_MOE_MATMUL, "tokens=4 top_k=2 experts=8 n=64 k=256 b=q5_k", 1, OPREG_Q5_K, 8, 64, 256},
    {OPREG_OP_MOE_GLU, "tokens=4 top_k=2 experts=8 n=64 k=256 b=q4_k", 2, OPREG_Q4_K, 8, 64, 256},
    {OPREG_OP_MOE_DOWN, "tokens=4 top_k=2 experts=8 n=64 k=256 b=q6_k rows=dst", 1, OPREG_Q6_K, 8, 64,
     256},
    {OPREG_OP_MOE_COMBINE, "tokens=4 top_k=2 n=1024", 0, 0, 0, 0, 0},
    {OPREG_OP_MOE_FFN, "tokens=4 top_k=2 experts=8 hidden=256 inter=256 b=q4_k", 3, OPREG_Q4_K, 8, 256,
     256},
    {OPREG_OP_PAGED_ATTN_DECODE, "seqs=1 hq=8 hk=2 d=256 len=1024 kv=f8_e4m3", 0, 0, 0, 0, 0},
    {OPREG_OP_PAGED_ATTN_DECODE, "seqs=1 hq=4 hk=1 d=512 len=1024 kv=f16 softcap=30", 0, 0, 0, 0, 0},
};

static void every_variant_runs_on_a_thread_of_the_promised_stack(void **state) {
    static captured said;
    opreg_registry *reg = quiet_registry(&said);
    opreg_device cpu;
    (void)state;
    assert_int_equal(opreg_devices(reg, &cpu, sizeof cpu, 1), 1);
    assert_works(opreg_enable(reg, "cpu", "fast"));
    assert_works(opreg_enable(reg, "trace", "run"));
    assert_works(opreg_enable(reg, "guard", "on"));
    assert_works(opreg_enable(reg, "shadow", "1/1"));
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        static opreg_paged_attn_decode problem;
        opreg_candidate variants[MAX_VARIANTS];
        size_t count = 0;
        opreg_weight_desc desc = {.struct_size = sizeof desc, .format = rows[i].format,
                                  .experts = rows[i].experts, .n = rows[i].n, .k = rows[i].k};
        opreg_format_row format = {.struct_size = sizeof format};
        if (rows[i].num_weights > 0) {
            assert_works(opreg_format_by_id(rows[i].format, &format));
            desc.data.bytes = (uint64_t)(desc.experts * desc.n * (desc.k / format.block_values)) *
                              format.block_bytes;
            desc.data.ptr = zeros(desc.data.bytes);
        }
        assert_works(opreg_problem_parse(rows[i].op, rows[i].problem, &problem));
        assert_works(opreg_explain(reg, &cpu, rows[i].op, &problem, variants, sizeof variants[0],
                                   MAX_VARIANTS, &count));
        assert_true(count > 0 && count <= MAX_VARIANTS);
        for (size_t v = 0; v < count; v++) {
            char kernel[128];
            snprintf(kernel, sizeof kernel, "%s/%s", variants[v].plugin, variants[v].kernel);
            if (variants[v].verdict == OPREG_OK) {
                run_variant(reg, &cpu, rows[i].op, rows[i].problem, kernel, &desc,
                            rows[i].num_weights);
            }
        }
        free(desc.data.ptr);
    }
    assert_works(opreg_destroy(reg));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_variant_runs_on_a_thread_of_the_promised_stack),
    };
    return cmocka_run_group_tests_name("stack", tests, NULL, NULL);
}
