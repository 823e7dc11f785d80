/* SPDX-License-Identifier: MIT
 * test_sm90.c - what can be promised of the plugin without its device. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "driver.h"
#include "rows32_host.h"
#include "rows32_parts_host.h"
#include "stored_args.h"
#include "stored_host.h"

opreg_status opreg_cuda_sm90_entry(const opreg_host *host, opreg_plugin *out);

static char last_line[512];

static void keep_line(void *user, opreg_log_level level, const char *line) {
    (void)user;
    (void)level;
    snprintf(last_line, sizeof last_line, "%s", line);
}

static void keep_error(void *user, const char *format, ...) {
    va_list args;
    (void)user;
    va_start(args, format);
    vsnprintf(last_line, sizeof last_line, format, args);
    va_end(args);
}

static const opreg_host host = {.struct_size = sizeof host,
                                .abi_major = OPREG_ABI_MAJOR,
                                .log = keep_line,
                                .error = keep_error};

static opreg_plugin entered(void) {
    opreg_plugin plugin = {.struct_size = sizeof plugin};
    assert_int_equal(opreg_cuda_sm90_entry(&host, &plugin), OPREG_OK);
    return plugin;
}

static const opreg_kernel *kernel_named(const opreg_plugin *plugin, const char *name) {
    for (uint32_t i = 0; i < plugin->num_kernels; i++) {
        if (strcmp(plugin->kernels[i]->name, name) == 0) {
            return plugin->kernels[i];
        }
    }
    fail_msg("no kernel %s", name);
    return NULL;
}

static void a_machine_without_the_driver_has_no_device_and_the_log_says_why(void **state) {
    opreg_plugin plugin = entered();
    char text[256];
    size_t count = 99;
    (void)state;
    if (driver_load(text, sizeof text) == 0) {
        skip(); /* this machine has the driver */
    }
    assert_non_null(strstr(text, "libcuda.so.1"));
    assert_int_equal(plugin.probe(&host, NULL, 0, &count), OPREG_OK);
    assert_int_equal(count, 0);
    assert_non_null(strstr(last_line, "libcuda.so.1"));
    plugin.shutdown(&host);
}

static void an_older_host_is_refused(void **state) {
    opreg_host other = host;
    opreg_plugin plugin = {.struct_size = sizeof plugin};
    (void)state;
    other.abi_major = OPREG_ABI_MAJOR + 1u;
    assert_int_equal(opreg_cuda_sm90_entry(&other, &plugin), OPREG_E_ABI);
}

static void a_plan_on_a_device_that_is_not_open_is_refused(void **state) {
    opreg_plugin plugin = entered();
    opreg_device device = {.struct_size = sizeof device, .kind = OPREG_CUDA, .ordinal = 77};
    void *plan = NULL;
    (void)state;
    assert_int_equal(
        kernel_named(&plugin, "base_matmul")->prepare(&host, &device, NULL, &plan), OPREG_E_ARG);
    assert_null(plan);
    assert_non_null(strstr(last_line, "77"));
}

static void a_prepared_group_holds_every_stored_byte_once(void **state) {
    (void)state;
    for (const uint32_t *format = prepared_formats; *format != 0; format++) {
        int32_t values = 0;
        const prepared_shape *shape = prepared_shape_find(*format, &values);
        uint32_t group = shape->block_bytes * shape->blocks;
        uint8_t *seen = calloc(32u * group, 1);
        assert_non_null(seen);
        assert_int_equal(shape->block_bytes, (uint32_t)gpu_format_find(*format)->bytes);
        assert_int_equal(values, gpu_format_find(*format)->values * (int32_t)shape->blocks);
        for (uint32_t row = 0; row < 32; row++) {
            for (uint32_t i = 0; i < group; i++) {
                uint32_t p = prepared_position(shape, i / shape->block_bytes,
                                               i % shape->block_bytes);
                uint32_t at = prepared_offset(group, row, p);
                if (at >= 32u * group || seen[at]++ != 0) {
                    fail_msg("%s: row %u byte %u goes to %u, which is taken or outside",
                             gpu_format_find(*format)->name, row, i, at);
                }
            }
        }
        free(seen);
    }
}

static void a_row_that_ends_inside_a_group_has_room_for_all_of_it(void **state) {
    opreg_plugin plugin = entered();
    opreg_device device = {.struct_size = sizeof device};
    opreg_matmul_bt_quant matmul = {.n = 576, .k = 576, .layout = OPREG_LAYOUT_ANY};
    const uint64_t groups = 5, rows = 64;
    char reason[128] = "";
    (void)state;
    assert_int_equal(prepared_groups(OPREG_Q4_0, 576), groups);
    assert_int_equal(prepared_groups(OPREG_Q4_0, 512), 4);
    assert_int_equal(prepared_rows32.bytes(&device, OPREG_Q4_0, 3, 33, 576), 3 * rows * groups * 72);
    assert_int_equal(prepared_rows32.bytes(&device, OPREG_Q2_0, 1, 33, 576), rows * groups * 36);
    assert_int_equal(prepared_rows32.bytes(&device, OPREG_Q2_0, 1, 33, 32), 0);
    assert_int_equal(prepared_rows32.bytes(&device, OPREG_Q4_K, 1, 33, 576), 0);
    for (const uint32_t *format = rows32_formats; *format != 0; format++) {
        int small = rows32_format_find(*format)->unit == 32u;
        matmul.b_dtype = *format;
        for (matmul.m = 1; matmul.m <= 512; matmul.m *= 8) {
            const opreg_kernel *kernel =
                kernel_named(&plugin, matmul.m == 1 ? "rows32_one" : "rows32_eight");
            assert_int_equal(kernel->supports(&device, &matmul, reason),
                             small ? OPREG_OK : OPREG_E_UNSUPPORTED);
        }
    }
}

static void kernels_over_rows32_agree_with_the_layout(void **state) {
    (void)state;
    for (const uint32_t *format = rows32_formats; *format != 0; format++) {
        const rows32_format *f = rows32_format_find(*format);
        int32_t values = 0;
        assert_non_null(prepared_shape_find(*format, &values));
        assert_int_equal(values, f->values);
        assert_int_equal((int32_t)f->unit, gpu_format_find(*format)->unit);
    }
}

static void assert_symbol_named(uint32_t symbol, const char *name) {
    assert_true(symbol < sm90_program.num_symbols);
    assert_string_equal(sm90_program.symbols[symbol].name, name);
}

static void assert_symbol(uint32_t symbol, const char *format, const char *kernel) {
    char name[64];
    snprintf(name, sizeof name, "rows32_%s_%s", format, kernel);
    assert_symbol_named(symbol, name);
}

static void assert_stored_symbol(const char *format, enum stored_method method,
                                 const char *kernel) {
    char name[64];
    uint32_t id = 0;
    for (const uint32_t *f = rows32_formats; *f != 0; f++) {
        id = strcmp(gpu_format_find(*f)->name, format) == 0 ? *f : id;
    }
    snprintf(name, sizeof name, "stored_%s_%s", format, kernel);
    assert_symbol_named(stored_symbol(id, method), name);
}

static void a_format_launches_the_kernels_named_after_it(void **state) {
    (void)state;
    for (const uint32_t *format = rows32_formats; *format != 0; format++) {
        const rows32_format *f = rows32_format_find(*format);
        const char *name = gpu_format_find(*format)->name;
        assert_symbol(f->symbol + ROWS32_ONE_W8, name, "one_w8");
        assert_symbol(f->symbol + ROWS32_EIGHT_W8, name, "eight_w8");
        if (f->unit == 256u) {
            assert_symbol(f->symbol + ROWS32_ONE_W4, name, "one_w4");
            assert_symbol(f->symbol + ROWS32_ONE_W16, name, "one_w16");
        }
        uint32_t next = f->symbol + (f->unit == 256u ? ROWS32_ONE_W16 : ROWS32_EIGHT_W8) + 1u;
        if (f->spread_waves != 0) {
            assert_symbol(next, name, f->spread_waves == ROWS32_RING_WAVES ? "ring" : "spread");
            next++;
        }
        if (f->stages != 0) {
            assert_symbol(next, name, "stream");
        }
        if (f->team != 0) {
            assert_symbol(f->team, name, "team");
        }
        if (rows32_dealt_symbol(f) != 0) {
            assert_symbol(rows32_dealt_symbol(f), name, "dealt");
        }
        assert_stored_symbol(name, STORED_ONE_W8, "one_w8");
        assert_stored_symbol(name, STORED_EIGHT, "eight");
        assert_stored_symbol(name, STORED_ONE_W4, "one_w4");
        if (f->team != 0) {
            assert_stored_symbol(name, STORED_TEAM, "team");
        } else {
            assert_int_equal(stored_symbol(*format, STORED_TEAM), UINT32_MAX);
        }
        assert_symbol(f->more + ROWS32_SHORT, name, "short");
        assert_symbol(f->more + ROWS32_WIDE16, name, "wide16");
        assert_symbol(f->more + ROWS32_WIDE32, name, "wide32");
        assert_symbol(f->more + ROWS32_INT64, name, "int64");
        assert_symbol(f->more + ROWS32_INT128, name, "int128");
        if (f->unit == 256u) {
            assert_symbol(f->more + ROWS32_TILED, name, "tiled");
        }
    }
    assert_string_equal(sm90_program.symbols[SM90_RECORDS].name, "rows32_records");
}

static void a_gqh_format_launches_the_kernels_named_after_it(void **state) {
    static const char *const widths[ROWS32_GQH_COUNT] = {
        "x1_p1", "x1_p3", "x2_p2", "x3_p3", "x4_p3", "x5_p2", "x6_p2", "x8_p2"};
    uint32_t symbol = SM90_FIRST_GQH, moe = SM90_FIRST_GQH_MOE;
    char name[64];
    (void)state;
    for (const uint32_t *format = gqh_formats; *format != 0; format++) {
        for (uint32_t w = 0; w < ROWS32_GQH_COUNT; w++) {
            assert_symbol(symbol++, gpu_format_find(*format)->name, widths[w]);
        }
        snprintf(name, sizeof name, "%s_moe", gpu_format_find(*format)->name);
        assert_symbol_named(moe++, name);
    }
    assert_int_equal(symbol, SM90_FIRST_GQH_STORED);
    assert_int_equal(moe, SM90_RECORDS);
    for (const uint32_t *format = gqh_formats; *format != 0; format++) {
#define GQH_WIDTH(any, columns, quads, ahead, waves)                                               \
    snprintf(name, sizeof name, "%s_stored_x%d_q%d", gpu_format_find(*format)->name, columns, quads); \
    assert_symbol_named(symbol++, name);
        GQH_WIDTHS(any)
#undef GQH_WIDTH
    }
    assert_int_equal(symbol, SM90_FIRST_GQH_MOE);
}

static void formats_of_parts_launch_the_kernels_named_after_them(void **state) {
    uint32_t found = 0;
    (void)state;
    for (const uint32_t *format = rows32_formats; *format != 0; format++) {
        uint32_t symbol = rows32_parts_symbol(rows32_format_find(*format));
        const char *name = gpu_format_find(*format)->name;
        if (symbol != 0) {
            assert_symbol(symbol + PARTS_GROUPED, name, "parts_moe");
            assert_symbol(symbol + PARTS_ROW, name, "parts");
            assert_symbol(symbol + PARTS_LONG, name, "parts_long");
            found++;
        }
    }
    assert_int_equal(SM90_FIRST_PARTS + PARTS_METHODS * found, SM90_FIRST_STORED);
}

static void few_entries_of_short_rows_go_one_by_one(void **state) {
    const rows32_format *f = rows32_format_find(OPREG_IQ4_NL);
    opreg_moe_matmul down = {.tokens = 4, .top_k = 10, .experts = 512, .n = 2560, .k = 640};
    (void)state;
    assert_true(rows32_parts_takes(f, &down, 132));
    assert_false(rows32_parts_takes(f, &down, 32)); /* a block would meet three entries */
    assert_false(rows32_parts_takes(rows32_format_find(OPREG_Q4_K), &down, 132));
    down.glu = OPREG_GLU_SILU;
    assert_false(rows32_parts_takes(f, &down, 132));
    down.glu = OPREG_GLU_NONE;
    down.k = 1024;
    assert_true(rows32_parts_takes(f, &down, 132));
    down.k = 1056;
    assert_false(rows32_parts_takes(f, &down, 132));
    down.k = 640;
    down.experts = 39; /* some share an expert */
    assert_false(rows32_parts_takes(f, &down, 132));
    down.experts = 512;
    down.tokens = 7; /* the route of a block's entries is a wave's two loads */
    assert_false(rows32_parts_takes(f, &down, 132));
    down.tokens = 1;
    down.n = (int64_t)1 << 31;
    assert_false(rows32_parts_takes(f, &down, 132));
    down.n = 256; /* fewer tiles than multiprocessors */
    assert_false(rows32_parts_takes(f, &down, 132));
}

/* Rows of 64 are kept as rows of 128: the matrix is twice what its weights are. */
static void eight_columns_go_in_one_launch_while_32_bits_count_the_matrix(void **state) {
    const rows32_format *f = rows32_format_find(OPREG_Q8_0);
    (void)state;
    assert_true(rows32_deals(f, 14336, 4096, 1));
    assert_true(rows32_deals(f, 505000000, 64, 1));
    assert_false(rows32_deals(f, 505400000, 64, 1));
    assert_false(rows32_deals(f, INT64_MAX - 31, 64, 1));
    assert_false(rows32_deals(f, 14336, 0, 1));
}

static void a_row_goes_by_parts_where_blocks_have_alike_many_tiles(void **state) {
    static const struct {
        uint32_t format;
        int64_t n, k;
        int takes;
    } calls[] = {{OPREG_Q2_0, 32768, 1024, 1},         {OPREG_Q2_0, 9216, 2560, 1},
                 {OPREG_IQ4_NL, 14336, 4096, 0},       {OPREG_IQ4_NL, 32768, 1024, 1},
                 {OPREG_ROCMFP4_FAST, 4096, 8192, 1},  {OPREG_ROCMFP4_FAST, 151936, 2560, 0},
                 {OPREG_ROCMFP4_FAST, 32768, 1024, 1}, {OPREG_Q4_0, 32768, 1024, 0}};
    (void)state;
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        opreg_matmul_bt_quant matmul = {.m = 1, .n = calls[i].n, .k = calls[i].k};
        const rows32_format *f = rows32_format_find(calls[i].format);
        assert_int_equal(rows32_parts_takes_row(f, &matmul, 132), calls[i].takes);
        matmul.m = 2;
        assert_false(rows32_parts_takes_row(f, &matmul, 132));
    }
}

static void gqh_takes_any_rows_and_pairs_whose_gates_fit(void **state) {
    opreg_plugin plugin = entered();
    opreg_device device = {.struct_size = sizeof device, .units = 132};
    opreg_matmul_bt_quant matmul = {.n = 17408, .k = 5120, .layout = OPREG_LAYOUT_ANY};
    const opreg_kernel *gqh = kernel_named(&plugin, "rows32_gqh");
    const opreg_kernel *stored = kernel_named(&plugin, "stored_gqh");
    char reason[128] = "";
    (void)state;
    for (const uint32_t *format = gqh_formats; *format != 0; format++) {
        matmul.b_dtype = *format;
        for (matmul.m = 0; matmul.m <= 512; matmul.m = 2 * matmul.m + 1) {
            matmul.glu = OPREG_GLU_NONE;
            assert_int_equal(gqh->supports(&device, &matmul, reason), OPREG_OK);
            assert_int_equal(stored->supports(&device, &matmul, reason), OPREG_OK);
            matmul.glu = OPREG_GLU_SILU;
            assert_int_equal(gqh->supports(&device, &matmul, reason), OPREG_OK);
            assert_int_equal(stored->supports(&device, &matmul, reason), OPREG_OK);
        }
    }
    matmul.n = 1 << 21;
    matmul.k = 256;
    assert_int_equal(stored->supports(&device, &matmul, reason), OPREG_OK);
    assert_int_equal(gqh->supports(&device, &matmul, reason), OPREG_E_UNSUPPORTED);
    assert_string_equal(reason, "n 2097152: gates do not fit in shared memory");
    matmul.glu = OPREG_GLU_NONE;
    assert_int_equal(gqh->supports(&device, &matmul, reason), OPREG_OK);
    matmul.k = 1 << 20;
    assert_int_equal(gqh->supports(&device, &matmul, reason), OPREG_E_UNSUPPORTED);
    assert_string_equal(reason, "n 2097152, k 1048576: a weight above 4 GiB");
    assert_int_equal(stored->supports(&device, &matmul, reason), OPREG_E_UNSUPPORTED);
    assert_string_equal(reason, "n 2097152, k 1048576: a weight may be above 4 GiB");
    matmul.b_dtype = OPREG_Q4_K;
    assert_int_equal(gqh->supports(&device, &matmul, reason), OPREG_E_UNSUPPORTED);
    assert_non_null(strstr(reason, "is not gqh4"));
}

static void stored_gqh_takes_four_rows_and_more_of_stored_weights(void **state) {
    opreg_plugin plugin = entered();
    opreg_device device = {.struct_size = sizeof device, .units = 132};
    opreg_matmul_bt_quant matmul = {.b_dtype = OPREG_GQH3,
                                    .m = 1,
                                    .n = 4,
                                    .k = 256,
                                    .layout = OPREG_LAYOUT_STORED};
    const opreg_kernel *stored = kernel_named(&plugin, "stored_gqh");
    char reason[128] = "";
    (void)state;
    assert_int_equal(stored->supports(&device, &matmul, reason), OPREG_OK);
    matmul.n = 3;
    assert_int_equal(stored->supports(&device, &matmul, reason), OPREG_E_UNSUPPORTED);
    assert_string_equal(reason, "n 3 is less than four rows");
    matmul.n = 4;
    matmul.layout = PREPARED_ROWS32;
    assert_int_equal(stored->supports(&device, &matmul, reason), OPREG_E_UNSUPPORTED);
    assert_non_null(strstr(reason, "is not the stored one"));
}

static void gqh_by_group_takes_every_gqh_format_of_the_layout_rows32(void **state) {
    static const char *const names[] = {"gqh_moe_matmul", "gqh_moe_glu", "gqh_moe_down"};
    opreg_plugin plugin = entered();
    opreg_device device = {.struct_size = sizeof device, .units = 132};
    char reason[128] = "";
    (void)state;
    for (size_t v = 0; v < 3; v++) {
        const opreg_kernel *gqh = kernel_named(&plugin, names[v]);
        opreg_moe_matmul moe = {.tokens = 3, .top_k = 8, .experts = 128, .n = 768, .k = 2048};
        for (const uint32_t *format = gqh_formats; *format != 0; format++) {
            moe.b_dtype = *format;
            moe.layout = OPREG_LAYOUT_ANY;
            assert_int_equal(gqh->supports(&device, &moe, reason), OPREG_OK);
            moe.layout = OPREG_LAYOUT_STORED;
            assert_int_equal(gqh->supports(&device, &moe, reason), OPREG_E_UNSUPPORTED);
        }
        moe.b_dtype = OPREG_IQ4_NL;
        moe.layout = OPREG_LAYOUT_ANY;
        assert_int_equal(gqh->supports(&device, &moe, reason), OPREG_E_UNSUPPORTED);
        assert_non_null(strstr(reason, "is not gqh4"));
    }
}

static void a_refusal_names_the_number(void **state) {
    opreg_plugin plugin = entered();
    opreg_device device = {.struct_size = sizeof device};
    opreg_matmul_bt_quant matmul = {.b_dtype = OPREG_Q4_0,
                                    .m = 1,
                                    .n = 64,
                                    .k = 80,
                                    .layout = OPREG_LAYOUT_ANY};
    opreg_paged_attn_decode attention = {.q_heads = 8,
                                         .kv_heads = 2,
                                         .head_dim = 80,
                                         .kv_dtype = OPREG_BF16,
                                         .block_size = 16,
                                         .max_seq_len = 100};
    char reason[128] = "";
    (void)state;
    assert_int_equal(kernel_named(&plugin, "rows32_one")->supports(&device, &matmul, reason),
                     OPREG_E_UNSUPPORTED);
    assert_non_null(strstr(reason, "80"));
    matmul.k = 96;
    assert_int_equal(kernel_named(&plugin, "rows32_one")->supports(&device, &matmul, reason),
                     OPREG_OK);
    matmul.m = 5;
    assert_int_equal(kernel_named(&plugin, "rows32_one")->supports(&device, &matmul, reason),
                     OPREG_E_UNSUPPORTED);
    assert_non_null(strstr(reason, "5"));
    assert_int_equal(kernel_named(&plugin, "split_attention")->supports(&device, &attention, reason),
                     OPREG_E_UNSUPPORTED);
    assert_string_equal(reason, "head_dim 80 is not one of 64 128 256");
    attention.head_dim = 64;
    attention.kv_dtype = OPREG_F8_E4M3;
    attention.v_slot_stride = 8;
    assert_int_equal(kernel_named(&plugin, "split_attention")->supports(&device, &attention, reason),
                     OPREG_E_UNSUPPORTED);
    assert_string_equal(reason, "a cache stride is not a multiple of 16 bytes");
    attention.v_slot_stride = 16;
    assert_int_equal(kernel_named(&plugin, "split_attention")->supports(&device, &attention, reason),
                     OPREG_OK);
    assert_int_equal(
        kernel_named(&plugin, "tensor_attention")->supports(&device, &attention, reason),
        OPREG_OK);
    attention.kv_dtype = OPREG_F32;
    assert_int_equal(
        kernel_named(&plugin, "tensor_attention")->supports(&device, &attention, reason),
        OPREG_E_UNSUPPORTED);
    assert_non_null(strstr(reason, "is not one of bf16 f16 f8_e4m3"));
    attention.kv_dtype = OPREG_F16;
    attention.head_dim = 256;
    assert_int_equal(
        kernel_named(&plugin, "tensor_attention")->supports(&device, &attention, reason),
        OPREG_OK);
    attention.head_dim = 64;
    attention.kv_dtype = OPREG_BF16;
    attention.k_block_stride = 1 << 20;
    attention.num_blocks = 1 << 15;
    assert_int_equal(kernel_named(&plugin, "split_attention")->supports(&device, &attention, reason),
                     OPREG_E_UNSUPPORTED);
    assert_string_equal(reason, "a cache of 32768 pages is larger than 32 GiB");
}

static void stored_weights_have_a_kernel_for_rows_of_any_blocks(void **state) {
    opreg_plugin plugin = entered();
    opreg_device device = {.struct_size = sizeof device};
    const opreg_kernel *stored = kernel_named(&plugin, "stored_rows");
    opreg_matmul_bt_quant matmul = {.n = 33, .layout = OPREG_LAYOUT_STORED};
    char reason[128] = "";
    (void)state;
    for (const uint32_t *format = rows32_formats; *format != 0; format++) {
        matmul.b_dtype = *format;
        for (matmul.m = 1; matmul.m <= 8; matmul.m++) {
            matmul.k = gpu_format_find(*format)->values * 19;
            assert_int_equal(stored->supports(&device, &matmul, reason), OPREG_OK);
            matmul.k = 28672;
            assert_int_equal(stored->supports(&device, &matmul, reason), OPREG_OK);
        }
    }
    matmul.m = 1;
    matmul.k = 1 << 19;
    assert_int_equal(stored->supports(&device, &matmul, reason), OPREG_E_UNSUPPORTED);
    assert_non_null(strstr(reason, "524288"));
    matmul.k = 4096;
    matmul.layout = PREPARED_ROWS32;
    assert_int_equal(stored->supports(&device, &matmul, reason), OPREG_E_UNSUPPORTED);
    assert_string_equal(reason, "weight layout 1 is not the stored one");
}

static void many_rows_of_x_have_a_kernel_whatever_the_format(void **state) {
    opreg_plugin plugin = entered();
    opreg_device device = {.struct_size = sizeof device};
    opreg_matmul_bt_quant matmul = {.n = 8192, .k = 28672, .layout = OPREG_LAYOUT_ANY};
    const opreg_kernel *eight = kernel_named(&plugin, "rows32_eight");
    const opreg_kernel *tiled = kernel_named(&plugin, "rows32_tiled");
    char reason[128] = "";
    (void)state;
    for (const uint32_t *format = rows32_formats; *format != 0; format++) {
        int large = rows32_format_find(*format)->unit == 256u;
        matmul.b_dtype = *format;
        matmul.m = 256;
        assert_int_equal(eight->supports(&device, &matmul, reason), OPREG_OK);
        matmul.m = 257;
        assert_int_equal(eight->supports(&device, &matmul, reason),
                         large ? OPREG_E_UNSUPPORTED : OPREG_OK);
        assert_int_equal(tiled->supports(&device, &matmul, reason),
                         large ? OPREG_OK : OPREG_E_UNSUPPORTED);
    }
    matmul.b_dtype = OPREG_Q4_K;
    assert_int_equal(eight->supports(&device, &matmul, reason), OPREG_E_UNSUPPORTED);
    assert_string_equal(reason, "m 257 is above 256");
}

static void large_tiles_are_for_calls_that_fill_the_device(void **state) {
    (void)state;
    assert_true(rows32_wide_wins(4096, 33, 132));
    assert_true(rows32_wide_wins(4096, 128, 132));
    assert_false(rows32_wide_wins(4096, 256, 132));
    assert_false(rows32_wide_wins(14336, 64, 132));
    for (int64_t n = 32; n < 200000; n += 1984) {
        assert_true(rows32_wide_wins(n, ROWS32_WIDE_MOST, 132));
    }
}

static void tiles_in_any_order_are_cut_so_that_the_device_is_full(void **state) {
    static const struct {
        int64_t m, n;
        uint32_t glu, sets, parts;
    } calls[] = {{512, 4096, OPREG_GLU_NONE, 2, 1},  {256, 4096, OPREG_GLU_NONE, 1, 1},
                 {128, 4096, OPREG_GLU_NONE, 1, 2},  {64, 4096, OPREG_GLU_NONE, 0, 1},
                 {64, 14336, OPREG_GLU_NONE, 1, 1},  {17, 4096, OPREG_GLU_NONE, 0, 1},
                 {128, 4096, OPREG_GLU_SILU, 0, 1}};
    (void)state;
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        opreg_matmul_bt_quant matmul = {
            .m = calls[i].m, .n = calls[i].n, .k = 4096, .glu = calls[i].glu};
        rows32_cut cut = rows32_int_cut(rows32_format_find(OPREG_Q4_K), &matmul, 132);
        assert_int_equal(cut.sets, calls[i].sets);
        assert_int_equal(cut.parts, calls[i].parts);
    }
}

static void rows_of_x_have_room_as_records_and_as_blocks(void **state) {
    opreg_plugin plugin = entered();
    opreg_device device = {.struct_size = sizeof device};
    opreg_matmul_bt_quant matmul = {.b_dtype = OPREG_Q4_K, .m = 8, .n = 64, .x_dtype = OPREG_F32};
    const opreg_kernel *eight = kernel_named(&plugin, "rows32_eight");
    const rows32_format *q4_k = rows32_format_find(OPREG_Q4_K);
    (void)state;
    for (matmul.k = 4096; matmul.k <= 28672; matmul.k *= 7) {
        for (matmul.m = 1; matmul.m <= ROWS32_WIDE_MOST; matmul.m++) {
            uint64_t bytes = eight->workspace(&device, &matmul);
            assert_true(matmul.m > 8 || bytes >= rows32_records_bytes(q4_k, matmul.m, matmul.k));
            assert_int_equal(bytes, rows32_blocks_bytes(q4_k, matmul.m, matmul.k));
        }
    }
    assert_int_equal(rows32_blocks_bytes(q4_k, 9, 4096), 64 / 8 * (4096 / 256) * 2336);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_machine_without_the_driver_has_no_device_and_the_log_says_why),
        cmocka_unit_test(an_older_host_is_refused),
        cmocka_unit_test(a_plan_on_a_device_that_is_not_open_is_refused),
        cmocka_unit_test(a_prepared_group_holds_every_stored_byte_once),
        cmocka_unit_test(a_row_that_ends_inside_a_group_has_room_for_all_of_it),
        cmocka_unit_test(kernels_over_rows32_agree_with_the_layout),
        cmocka_unit_test(a_format_launches_the_kernels_named_after_it),
        cmocka_unit_test(a_gqh_format_launches_the_kernels_named_after_it),
        cmocka_unit_test(formats_of_parts_launch_the_kernels_named_after_them),
        cmocka_unit_test(few_entries_of_short_rows_go_one_by_one),
        cmocka_unit_test(eight_columns_go_in_one_launch_while_32_bits_count_the_matrix),
        cmocka_unit_test(a_row_goes_by_parts_where_blocks_have_alike_many_tiles),
        cmocka_unit_test(gqh_takes_any_rows_and_pairs_whose_gates_fit),
        cmocka_unit_test(stored_gqh_takes_four_rows_and_more_of_stored_weights),
        cmocka_unit_test(gqh_by_group_takes_every_gqh_format_of_the_layout_rows32),
        cmocka_unit_test(a_refusal_names_the_number),
        cmocka_unit_test(stored_weights_have_a_kernel_for_rows_of_any_blocks),
        cmocka_unit_test(many_rows_of_x_have_a_kernel_whatever_the_format),
        cmocka_unit_test(large_tiles_are_for_calls_that_fill_the_device),
        cmocka_unit_test(tiles_in_any_order_are_cut_so_that_the_device_is_full),
        cmocka_unit_test(rows_of_x_have_room_as_records_and_as_blocks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
