/* SPDX-License-Identifier: MIT
 * test_cpu_api.c - the CPU backend as an engine sees it: through a registry, its plans and its own
 * threads, with the bits of the kernels run by themselves. */
#include "cpu_harness.h"

typedef struct engine {
    opreg_registry *reg;
    opreg_device device;
} engine;

static void works(opreg_status status) {
    if (status != OPREG_OK) {
        fail_msg("%s: %s", opreg_status_name(status), opreg_last_error());
    }
}

static engine engine_open(uint32_t threads) {
    const opreg_config config = {.struct_size = sizeof config,
                                 .flags = OPREG_CF_NO_ENV | OPREG_CF_NO_INSTALLED,
                                 .threads = threads};
    engine e = {.reg = NULL};
    works(opreg_create(&config, &e.reg));
    assert_int_equal(opreg_devices(e.reg, &e.device, sizeof e.device, 1), 1);
    assert_int_equal(e.device.kind, OPREG_CPU);
    return e;
}

static opreg_weight *weight_of(const engine *e, const test_weight *w) {
    const opreg_weight_desc desc = {.struct_size = sizeof desc,
                                    .format = w->format->id,
                                    .experts = w->view.experts,
                                    .n = w->view.n,
                                    .k = w->view.k,
                                    .data = {w->data, w->view.bytes}};
    opreg_weight *out = NULL;
    works(opreg_weight_create(e->reg, &e->device, &desc, &out));
    return out;
}

/* Plans, checks that the CPU's reference was taken, and runs with the bytes each buffer must have.
 */
static void plan_and_run(const engine *e, opreg_op op, const void *problem, opreg_buf *bufs,
                         uint32_t num_bufs, const opreg_weight *const *weights,
                         uint32_t num_weights) {
    opreg_plan *plan = NULL;
    opreg_args args = {.struct_size = sizeof args,
                       .num_bufs = num_bufs,
                       .bufs = bufs,
                       .weights = weights,
                       .num_weights = num_weights};
    works(opreg_plan_create(e->reg, &e->device, op, problem, &plan));
    assert_int_equal(opreg_plan_level(plan), OPREG_LEVEL_CANONICAL);
    assert_int_equal(strncmp(opreg_plan_kernel(plan), "cpu/reference_", 14), 0);
    for (uint32_t i = 0; i < num_bufs; i++) {
        if (bufs[i].ptr != NULL) {
            works(opreg_problem_buffer(op, problem, i, &bufs[i].bytes));
        }
    }
    args.workspace.bytes = opreg_plan_workspace(plan);
    args.workspace.ptr = aligned_alloc(256, (size_t)(args.workspace.bytes + 256) / 256 * 256);
    works(opreg_plan_run(plan, &args));
    free(args.workspace.ptr);
    opreg_plan_destroy(plan);
}

static void a_planned_matmul_has_the_kernels_bits_on_any_number_of_threads(void **state) {
    test_weight w;
    float x[4 * 512], expected[4 * 300], y[4 * 300];
    opreg_matmul_bt_quant p;
    const opreg_weight_view *view = &w.view;
    opreg_buf bufs[OPREG_MATMUL_BUFS] = {{expected, 0}, {x, 0}};
    (void)state;
    random_state = 51;
    works(opreg_problem_parse(OPREG_OP_MATMUL_BT_QUANT, "m=4 n=300 k=512 b=q4_k x=f32 y=f32", &p));
    w = weight_make(format_by_id(OPREG_Q4_K), 1, 300, 512);
    for (int i = 0; i < 4 * 512; i++) {
        x[i] = random_gaussian();
    }
    run_baseline(OPREG_OP_MATMUL_BT_QUANT, &p, bufs, OPREG_MATMUL_BUFS, &view, 1);
    bufs[0].ptr = y;
    for (uint32_t threads = 1; threads <= 5; threads += 2) {
        engine e = engine_open(threads);
        opreg_weight *weight = weight_of(&e, &w);
        const opreg_weight *weights[] = {weight};
        memset(y, 0xff, sizeof y);
        plan_and_run(&e, OPREG_OP_MATMUL_BT_QUANT, &p, bufs, OPREG_MATMUL_BUFS, weights, 1);
        assert_memory_equal(y, expected, sizeof y);
        opreg_weight_destroy(weight);
        works(opreg_destroy(e.reg));
    }
    weight_free(&w);
}

/* moe_route makes the route that moe_ffn reads, both planned. */
static void a_planned_route_and_ffn_have_the_kernels_bits(void **state) {
    int32_t ids[6] = {2, 0, -1, 2, 1, 9};
    float router[6] = {.5f, .25f, 9.0f, 1.0f, .75f, 2.0f}, x[3 * 256];
    float expected[3 * 256], y[3 * 256];
    _Alignas(16) uint8_t route[1024];
    test_weight w[3];
    const opreg_weight_view *views[3] = {&w[0].view, &w[1].view, &w[2].view};
    opreg_moe_route r;
    opreg_moe_ffn p;
    opreg_buf route_bufs[OPREG_ROUTE_BUFS] = {{route, 0}, {ids, 0}, {router, 0}};
    opreg_buf bufs[OPREG_FFN_BUFS] = {{expected, 0}, {x, 0}, {route, 0}, {router, 0}};
    (void)state;
    random_state = 52;
    works(opreg_problem_parse(OPREG_OP_MOE_ROUTE, "tokens=3 top_k=2 experts=3", &r));
    works(opreg_problem_parse(OPREG_OP_MOE_FFN,
                              "tokens=3 hidden=256 inter=512 experts=3 top_k=2 b=q8_0 down=q6_k "
                              "x=f32 y=f32 glu=silu",
                              &p));
    w[0] = weight_make(format_by_id(OPREG_Q8_0), 3, 512, 256);
    w[1] = weight_make(format_by_id(OPREG_Q8_0), 3, 512, 256);
    w[2] = weight_make(format_by_id(OPREG_Q6_K), 3, 256, 512);
    for (int i = 0; i < 3 * 256; i++) {
        x[i] = random_gaussian();
    }
    for (uint32_t threads = 1; threads <= 3; threads += 2) {
        engine e = engine_open(threads);
        opreg_weight *weights[3];
        memset(route, 0xff, sizeof route);
        plan_and_run(&e, OPREG_OP_MOE_ROUTE, &r, route_bufs, OPREG_ROUTE_BUFS, NULL, 0);
        run_baseline(OPREG_OP_MOE_FFN, &p, bufs, OPREG_FFN_BUFS, views, 3);
        for (int i = 0; i < 3; i++) {
            weights[i] = weight_of(&e, &w[i]);
        }
        bufs[0].ptr = y;
        memset(y, 0xff, sizeof y);
        plan_and_run(&e, OPREG_OP_MOE_FFN, &p, bufs, OPREG_FFN_BUFS,
                     (const opreg_weight *const *)weights, 3);
        assert_memory_equal(y, expected, sizeof y);
        bufs[0].ptr = expected;
        for (int i = 0; i < 3; i++) {
            opreg_weight_destroy(weights[i]);
        }
        works(opreg_destroy(e.reg));
    }
    for (int i = 0; i < 3; i++) {
        weight_free(&w[i]);
    }
}

static void a_planned_attention_has_the_kernels_bits_on_any_number_of_threads(void **state) {
    static float q[2 * 4 * 64], expected[2 * 4 * 64], out[2 * 4 * 64], cache[2][40 * 16 * 2 * 64];
    int32_t table[40], lens[2] = {300, 17};
    opreg_paged_attn_decode p;
    opreg_buf bufs[OPREG_ATTN_BUFS] = {{expected, 0}, {q, 0},     {cache[0], 0},
                                       {cache[1], 0}, {table, 0}, {lens, 0}};
    (void)state;
    random_state = 53;
    works(opreg_problem_parse(OPREG_OP_PAGED_ATTN_DECODE,
                              "seqs=2 hq=4 hk=2 d=64 len=320 kv=f32 q=f32 out=f32 block=16 "
                              "blocks=40 table_stride=20",
                              &p));
    for (int i = 0; i < 40; i++) {
        table[i] = 39 - i;
    }
    for (int i = 0; i < 2 * 4 * 64; i++) {
        q[i] = random_gaussian();
    }
    for (int i = 0; i < 40 * 16 * 2 * 64; i++) {
        cache[0][i] = random_gaussian();
        cache[1][i] = random_gaussian();
    }
    run_baseline(OPREG_OP_PAGED_ATTN_DECODE, &p, bufs, OPREG_ATTN_BUFS, NULL, 0);
    bufs[0].ptr = out;
    for (uint32_t threads = 1; threads <= 5; threads += 2) {
        engine e = engine_open(threads);
        memset(out, 0xff, sizeof out);
        plan_and_run(&e, OPREG_OP_PAGED_ATTN_DECODE, &p, bufs, OPREG_ATTN_BUFS, NULL, 0);
        assert_memory_equal(out, expected, sizeof out);
        works(opreg_destroy(e.reg));
    }
}

/* An empty call is right, and touches nothing. */
static void no_rows_are_nothing_to_do(void **state) {
    opreg_matmul_bt_quant p;
    test_weight w;
    engine e = engine_open(1);
    opreg_buf bufs[OPREG_MATMUL_BUFS] = {{NULL, 0}};
    opreg_weight *weight;
    const opreg_weight *weights[1];
    (void)state;
    random_state = 54;
    works(opreg_problem_parse(OPREG_OP_MATMUL_BT_QUANT, "m=0 n=3 k=32 b=q8_0 x=f32 y=f32", &p));
    w = weight_make(format_by_id(OPREG_Q8_0), 1, 3, 32);
    weights[0] = weight = weight_of(&e, &w);
    plan_and_run(&e, OPREG_OP_MATMUL_BT_QUANT, &p, bufs, OPREG_MATMUL_BUFS, weights, 1);
    opreg_weight_destroy(weight);
    works(opreg_destroy(e.reg));
    weight_free(&w);
}

static void weights_alike_that_want_two_layouts_are_not_mixed_up(void **state) {
    engine e = engine_open(1);
    test_weight w = weight_make(format_by_id(OPREG_Q4_K), 2, 256, 256);
    opreg_weight *stored = weight_of(&e, &w), *prepared = NULL;
    opreg_moe_ffn p = {.struct_size = sizeof p, .x_dtype = OPREG_F32, .y_dtype = OPREG_F32,
                       .b_dtype = OPREG_Q4_K, .down_dtype = OPREG_Q4_K, .glu = OPREG_GLU_SILU,
                       .tokens = 1, .hidden = 256, .inter = 256, .experts = 2, .top_k = 1,
                       .x_stride = 256, .y_stride = 256, .weights_stride = 1, .down_layout = 1};
    opreg_plan *plan = NULL;
    opreg_buf dst = {aligned_alloc(256, 1 << 18), 1 << 18};
    (void)state;
    works(opreg_plan_create(e.reg, &e.device, OPREG_OP_MOE_FFN, &p, &plan));
    assert_int_equal(opreg_weight_prepare(plan, stored, dst, NULL, &prepared), OPREG_E_ARG);
    assert_non_null(strstr(opreg_last_error(), "the layouts 0 and 1"));
    assert_null(prepared);
    assert_int_equal(opreg_weight_prepare_at(plan, 3, stored, dst, NULL, &prepared), OPREG_E_ARG);
    assert_non_null(strstr(opreg_last_error(), "no index 3"));
    for (uint32_t index = 0; index < 3; index++) {
        works(opreg_weight_prepare_at(plan, index, stored, dst, NULL, &prepared));
        assert_int_equal(opreg_weight_view_get(prepared)->layout, index == 2 ? 1 : 0);
        opreg_weight_destroy(prepared);
    }
    p.down_layout = OPREG_LAYOUT_STORED; /* another shape than the plan's down */
    p.hidden = p.x_stride = p.y_stride = 512;
    opreg_plan_destroy(plan);
    works(opreg_plan_create(e.reg, &e.device, OPREG_OP_MOE_FFN, &p, &plan));
    assert_int_equal(opreg_weight_prepare_at(plan, 2, stored, dst, NULL, &prepared), OPREG_E_ARG);
    assert_non_null(strstr(opreg_last_error(), "has this format, dialect, shape"));
    opreg_plan_destroy(plan);
    opreg_weight_destroy(stored);
    works(opreg_destroy(e.reg));
    free(dst.ptr);
    weight_free(&w);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_planned_matmul_has_the_kernels_bits_on_any_number_of_threads),
        cmocka_unit_test(a_planned_route_and_ffn_have_the_kernels_bits),
        cmocka_unit_test(a_planned_attention_has_the_kernels_bits_on_any_number_of_threads),
        cmocka_unit_test(no_rows_are_nothing_to_do),
        cmocka_unit_test(weights_alike_that_want_two_layouts_are_not_mixed_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
