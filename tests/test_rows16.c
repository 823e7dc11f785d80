/* SPDX-License-Identifier: MIT
 * test_rows16.c - the layout rows16 gives stored bytes back, and its variants have the reference's
 * bits. */
#include "cpu_harness.h"

#include "cpu/rows16.h"

static const opreg_device device = {.struct_size = sizeof device, .kind = OPREG_CPU};

static const opreg_kernel *kernel_named(const char *name) {
    opreg_plugin plugin = {.struct_size = sizeof plugin};
    assert_int_equal(opreg_cpu_entry(&harness_host, &plugin), OPREG_OK);
    for (uint32_t i = 0; i < plugin.num_kernels; i++) {
        if (strcmp(plugin.kernels[i]->name, name) == 0) {
            return plugin.kernels[i];
        }
    }
    fail_msg("no kernel %s", name);
    return NULL;
}

/* The weight packed, in memory that the caller frees through view.data. */
static opreg_weight_view packed(const test_weight *w) {
    opreg_weight_view view = w->view;
    uint64_t bytes = rows16_layout.bytes(&device, view.format, view.experts, view.n, view.k);
    void *data = aligned_alloc(256, (size_t)(bytes + 255) / 256 * 256);
    assert_true(bytes >= view.bytes);
    memset(data, 0xa5, (size_t)bytes);
    assert_int_equal(rows16_layout.pack(&harness_host, &device, &w->view, data, NULL), OPREG_OK);
    view.layout = ROWS16_LAYOUT;
    view.data = data;
    view.bytes = bytes;
    view.expert_stride = (int64_t)(bytes / (uint64_t)view.experts);
    return view;
}

static void run(const opreg_kernel *kernel, const void *problem, const opreg_buf *bufs,
                uint32_t num_bufs, const opreg_weight_view *const *weights, uint32_t num_weights) {
    uint64_t bytes = kernel->workspace(&device, problem);
    void *workspace = aligned_alloc(256, (size_t)(bytes + 256) / 256 * 256);
    opreg_call call = {.struct_size = sizeof call,
                       .num_bufs = num_bufs,
                       .num_weights = num_weights,
                       .host = &harness_host,
                       .bufs = bufs,
                       .weights = weights,
                       .workspace = {workspace, bytes}};
    assert_int_equal(kernel->run(NULL, problem, &call), OPREG_OK);
    free(workspace);
}

static void a_prepared_weight_gives_its_stored_bytes_back(void **state) {
    (void)state;
    random_state = 1;
    for (const uint32_t *f = rows16_formats; *f != 0; f++) {
        const format_info *format = format_by_id(*f);
        test_weight w = weight_make(format, 3, 37, 3 * 256);
        opreg_weight_view view = packed(&w);
        uint8_t *back = malloc((size_t)w.view.bytes), block[256];
        assert_int_equal(rows16_layout.unpack(&harness_host, &device, &view, back, NULL), OPREG_OK);
        if (memcmp(back, w.data, (size_t)w.view.bytes) != 0) {
            fail_msg("%s is not given back", format->name);
        }
        rows16_block(&view, 2, 36, 1, block);
        assert_memory_equal(
            block, w.data + 2 * w.view.expert_stride + 36 * w.view.row_bytes + format->bytes,
            (size_t)format->bytes);
        free(back);
        free((void *)(uintptr_t)view.data);
        weight_free(&w);
    }
}

static void a_format_without_the_layout_has_no_bytes(void **state) {
    (void)state;
    assert_int_equal(rows16_layout.bytes(&device, OPREG_IQ2_S, 1, 16, 256), 0);
    assert_int_equal(rows16_layout.bytes(&device, OPREG_Q4_K, 1, 16, 255), 0);
    assert_int_equal(rows16_layout.bytes(&device, OPREG_Q4_K, 1, INT64_MAX / 2, INT64_C(1) << 40),
                     0);
}

/* Runs the named variant over prepared weights and the baseline over both layouts. */
static void compare_matmul(const opreg_kernel *variant, const format_info *format, int64_t m,
                           int64_t n, int64_t k, uint32_t glu) {
    opreg_matmul_bt_quant p = {.struct_size = sizeof p,
                               .x_dtype = OPREG_F32,
                               .b_dtype = format->id,
                               .y_dtype = OPREG_F32,
                               .glu = glu,
                               .m = m,
                               .n = n,
                               .k = k,
                               .x_stride = k,
                               .y_stride = n,
                               .flags = glu == OPREG_GLU_NONE ? OPREG_PF_BIAS : 0u};
    test_weight w[2] = {weight_make(format, 1, n, k), weight_make(format, 1, n, k)};
    opreg_weight_view tiled[2] = {packed(&w[0]), packed(&w[1])};
    const opreg_weight_view *stored[2] = {&w[0].view, &w[1].view};
    const opreg_weight_view *prepared[2] = {&tiled[0], &tiled[1]};
    uint32_t num_weights = glu == OPREG_GLU_NONE ? 1 : 2;
    float *x = malloc((size_t)(m * k) * 4), *bias = malloc((size_t)n * 4);
    float *y[3];
    opreg_buf bufs[OPREG_MATMUL_BUFS] = {{NULL, 0}};
    for (int64_t i = 0; i < m * k; i++) {
        x[i] = random_gaussian();
    }
    for (int64_t i = 0; i < n; i++) {
        bias[i] = random_gaussian();
    }
    bufs[OPREG_MATMUL_X].ptr = x;
    bufs[OPREG_MATMUL_BIAS].ptr = bias;
    for (int i = 0; i < 3; i++) {
        y[i] = malloc((size_t)(m * n) * 4);
        memset(y[i], 0xff, (size_t)(m * n) * 4);
        bufs[OPREG_MATMUL_Y].ptr = y[i];
        run(i < 2 ? baseline_of(OPREG_OP_MATMUL_BT_QUANT) : variant, &p, bufs, OPREG_MATMUL_BUFS,
            i == 0 ? stored : prepared, num_weights);
    }
    for (int i = 1; i < 3; i++) {
        for (int64_t j = 0; j < m * n; j++) {
            if (bits_of(y[i][j]) != bits_of(y[0][j])) {
                fail_msg("%s %s m%d n%d k%d: element %d is %a, not %a",
                         i == 1 ? "baseline" : variant->name, format->name, (int)m, (int)n, (int)k,
                         (int)j, (double)y[i][j], (double)y[0][j]);
            }
        }
    }
    for (int i = 0; i < 3; i++) {
        free(y[i]);
    }
    for (int i = 0; i < 2; i++) {
        weight_free(&w[i]);
        free((void *)(uintptr_t)tiled[i].data);
    }
    free(x);
    free(bias);
}

static void check_variant(const char *name) {
    const opreg_kernel *kernel = kernel_named(name);
    char reason[128];
    opreg_matmul_bt_quant p = {.struct_size = sizeof p, .b_dtype = OPREG_Q4_0};
    if (kernel->supports(&device, &p, reason) != OPREG_OK) {
        print_message("skipped: %s\n", reason);
        skip();
    }
    random_state = 2;
    for (const uint32_t *f = rows16_formats; *f != 0; f++) {
        const format_info *format = format_by_id(*f);
        int64_t unit = format->values;
        compare_matmul(kernel, format, 1, 33, unit, OPREG_GLU_NONE);
        compare_matmul(kernel, format, 1, 16, 33 * unit, OPREG_GLU_NONE);
        compare_matmul(kernel, format, 2, 1, 5 * unit, OPREG_GLU_NONE);
        compare_matmul(kernel, format, 3, 17, 32 * unit, OPREG_GLU_SILU);
        compare_matmul(kernel, format, 7, 31, 40 * unit, OPREG_GLU_NONE);
        compare_matmul(kernel, format, 66, 15, 3 * unit, OPREG_GLU_NONE);
    }
}

static void avx2_has_the_bits_of_the_reference(void **state) {
    (void)state;
    check_variant("rows16_avx2_matmul");
}

static void avx512_has_the_bits_of_the_reference(void **state) {
    (void)state;
    check_variant("rows16_avx512_matmul");
}

/* Codes at their ends: where a narrow integer would saturate, it does here. */
static void the_largest_codes_do_not_saturate(void **state) {
    const char *const names[] = {"rows16_avx2_matmul", "rows16_avx512_matmul"};
    (void)state;
    for (size_t v = 0; v < 2; v++) {
        const opreg_kernel *kernel = kernel_named(names[v]);
        char reason[128];
        opreg_matmul_bt_quant p = {.struct_size = sizeof p,
                                   .x_dtype = OPREG_F32,
                                   .y_dtype = OPREG_F32,
                                   .m = 1,
                                   .n = 16,
                                   .k = 256,
                                   .x_stride = 256,
                                   .y_stride = 16,
                                   .b_dtype = OPREG_Q4_0};
        if (kernel->supports(&device, &p, reason) != OPREG_OK) {
            continue;
        }
        for (const uint32_t *f = rows16_formats; *f != 0; f++) {
            for (int sign = 0; sign < 2; sign++) {
                test_weight w = weight_make(format_by_id(*f), 1, 16, 256);
                const format_info *format = w.format;
                opreg_weight_view tiled;
                const opreg_weight_view *stored[1] = {&w.view}, *prepared[1] = {&tiled};
                float x[256], y[2][16];
                opreg_buf bufs[OPREG_MATMUL_BUFS] = {{NULL, 0}};
                for (int64_t i = 0; i < (int64_t)w.view.bytes; i++) {
                    w.data[i] = *f == OPREG_Q8_0 || *f == OPREG_Q6_K ? 0x80 : 0xff;
                }
                for (int64_t b = 0; b < 16 * 256 / format->values; b++) { /* finite scales */
                    uint8_t *block = w.data + b * format->bytes;
                    uint8_t *d = *f == OPREG_Q6_K ? block + 208 : block;
                    d[0] = 0x01;
                    d[1] = 0x3c;
                    if (*f == OPREG_Q4_1 || *f == OPREG_Q4_K || *f == OPREG_Q5_K) {
                        d[2] = 0x03;
                        d[3] = 0x38;
                    }
                    if (*f == OPREG_Q6_K) {
                        memset(block, 0xff, 192);
                    }
                }
                for (int i = 0; i < 256; i++) {
                    x[i] = sign == 0 ? 1.0f : -1.0f;
                }
                tiled = packed(&w);
                p.b_dtype = *f;
                bufs[OPREG_MATMUL_X].ptr = x;
                bufs[OPREG_MATMUL_Y].ptr = y[0];
                run(baseline_of(OPREG_OP_MATMUL_BT_QUANT), &p, bufs, OPREG_MATMUL_BUFS, stored, 1);
                bufs[OPREG_MATMUL_Y].ptr = y[1];
                run(kernel, &p, bufs, OPREG_MATMUL_BUFS, prepared, 1);
                if (memcmp(y[0], y[1], sizeof y[0]) != 0) {
                    fail_msg("%s %s: %a, not %a", names[v], format->name, (double)y[1][0],
                             (double)y[0][0]);
                }
                free((void *)(uintptr_t)tiled.data);
                weight_free(&w);
            }
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_prepared_weight_gives_its_stored_bytes_back),
        cmocka_unit_test(a_format_without_the_layout_has_no_bytes),
        cmocka_unit_test(avx2_has_the_bits_of_the_reference),
        cmocka_unit_test(avx512_has_the_bits_of_the_reference),
        cmocka_unit_test(the_largest_codes_do_not_saturate),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
