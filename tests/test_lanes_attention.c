/* SPDX-License-Identifier: MIT
 * test_lanes_attention.c - the attention variants of the vector units have the reference's bits. */
#include "cpu_harness.h"

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

typedef struct shape {
    const char *name;
    int32_t seqs, q_heads, kv_heads, head_dim, block_size, longest, window, max_q;
    float softcap;
    uint32_t kv_dtype, flags;
    int hostile;
} shape;

static const shape shapes[] = {
    {"plain", 2, 4, 4, 64, 16, 300, 0, 1, 0.0f, OPREG_F16, 0, 0},
    {"gqa 4 bf16", 2, 8, 2, 128, 16, 1100, 0, 1, 0.0f, OPREG_BF16, OPREG_PF_LSE, 0},
    {"gqa 16", 1, 16, 1, 96, 32, 520, 0, 1, 0.0f, OPREG_F32, OPREG_PF_SINKS | OPREG_PF_LSE, 0},
    {"gqa 6 of d 256", 1, 6, 1, 256, 16, 257, 0, 1, 30.0f, OPREG_F16, OPREG_PF_SINKS, 0},
    {"odd head", 3, 3, 1, 81, 5, 90, 0, 1, 0.0f, OPREG_BF16, 0, 0},
    {"fp8", 2, 4, 2, 64, 16, 700, 0, 1, 0.0f, OPREG_F8_E4M3, OPREG_PF_LSE, 0},
    {"window", 2, 4, 2, 64, 16, 900, 130, 1, 0.0f, OPREG_F16, 0, 0},
    {"tokens", 3, 4, 2, 64, 16, 260, 0, 5, 0.0f, OPREG_F16, OPREG_PF_Q_INDPTR, 0},
    {"one head, 13 segments", 1, 2, 1, 64, 16, 3201, 0, 1, 0.0f, OPREG_F16, OPREG_PF_LSE, 0},
    {"one head, a window", 1, 3, 1, 80, 16, 2900, 1000, 1, 0.0f, OPREG_BF16, OPREG_PF_SINKS, 0},
    {"hostile", 4, 4, 2, 64, 16, 400, 0, 1, 0.0f, OPREG_BF16, OPREG_PF_SINKS | OPREG_PF_LSE, 1},
};

static void fill(void *array, int64_t count, uint32_t dtype, float size) {
    for (int64_t i = 0; i < count; i++) {
        if (dtype == OPREG_F8_E4M3) {
            uint8_t byte = (uint8_t)random_bits();
            ((uint8_t *)array)[i] = (byte & 0x7f) == 0x7f ? 0x38 : byte;
        } else {
            canonical_store(array, i, dtype, size * random_gaussian());
        }
    }
}

static void compare(const opreg_kernel *variant, const shape *s) {
    int32_t pages = (s->longest + s->block_size - 1) / s->block_size;
    int32_t tokens = (s->flags & OPREG_PF_Q_INDPTR) != 0 ? s->seqs * s->max_q - 1 : s->seqs;
    int64_t row = (int64_t)s->kv_heads * s->head_dim;
    opreg_paged_attn_decode p = {.struct_size = sizeof p,
                                 .q_dtype = OPREG_F32,
                                 .out_dtype = OPREG_F32,
                                 .kv_dtype = s->kv_dtype,
                                 .seqs = s->seqs,
                                 .tokens = tokens,
                                 .max_q = s->max_q,
                                 .q_heads = s->q_heads,
                                 .kv_heads = s->kv_heads,
                                 .head_dim = s->head_dim,
                                 .block_size = s->block_size,
                                 .num_blocks = pages * s->seqs,
                                 .table_stride = pages,
                                 .max_seq_len = s->longest,
                                 .window = s->window,
                                 .scale = 0.125f,
                                 .softcap = s->softcap,
                                 .q_stride = (int64_t)s->q_heads * s->head_dim,
                                 .out_stride = (int64_t)s->q_heads * s->head_dim,
                                 .k_block_stride = s->block_size * row,
                                 .k_slot_stride = row,
                                 .k_head_stride = s->head_dim,
                                 .v_block_stride = s->block_size * row,
                                 .v_slot_stride = s->head_dim,
                                 .v_head_stride = (int64_t)s->block_size * s->head_dim,
                                 .flags = s->flags};
    int64_t cache = (int64_t)p.num_blocks * p.k_block_stride, outs = tokens * p.out_stride;
    void *k = malloc((size_t)cache * 4), *v = malloc((size_t)cache * 4);
    float *q = malloc((size_t)(tokens * p.q_stride) * 4), *sinks = malloc((size_t)s->q_heads * 4);
    float scales[2][16], *out[2], *lse[2];
    int32_t *table = malloc((size_t)(s->seqs * pages) * 4), lens[8], indptr[9];
    opreg_buf bufs[OPREG_ATTN_BUFS] = {{NULL, 0}};
    fill(k, cache, s->kv_dtype, 1.0f);
    fill(v, cache, s->kv_dtype, 1.0f);
    fill(q, tokens * p.q_stride, OPREG_F32, 1.0f);
    fill(sinks, s->q_heads, OPREG_F32, 2.0f);
    for (int i = 0; i < 16; i++) {
        scales[0][i] = 0.01f * (float)(i + 1);
        scales[1][i] = 0.02f * (float)(i + 1);
    }
    for (int32_t i = 0; i < s->seqs * pages; i++) {
        table[i] =
            s->hostile && i % 5 == 2 ? (i % 2 == 0 ? -1 : INT32_MAX) : (i * 7 + 3) % p.num_blocks;
    }
    for (int32_t i = 0; i <= s->seqs; i++) {
        lens[i % 8] = i == 0 ? s->longest : s->longest - 37 * i;
        indptr[i] = i * s->max_q < tokens ? i * s->max_q : tokens;
    }
    if (s->hostile) {
        lens[1] = 0;
        lens[2] = INT32_MAX;
        lens[3] = 1;
    }
    bufs[OPREG_ATTN_Q].ptr = q;
    bufs[OPREG_ATTN_K].ptr = k;
    bufs[OPREG_ATTN_V].ptr = v;
    bufs[OPREG_ATTN_TABLE].ptr = table;
    bufs[OPREG_ATTN_LENS].ptr = lens;
    bufs[OPREG_ATTN_Q_INDPTR].ptr = indptr;
    bufs[OPREG_ATTN_SINKS].ptr = sinks;
    bufs[OPREG_ATTN_K_SCALE].ptr = scales[0];
    bufs[OPREG_ATTN_V_SCALE].ptr = scales[1];
    for (int i = 0; i < 2; i++) {
        const opreg_kernel *kernel = i == 0 ? baseline_of(OPREG_OP_PAGED_ATTN_DECODE) : variant;
        opreg_call call = {.struct_size = sizeof call,
                           .host = &harness_host,
                           .bufs = bufs,
                           .num_bufs = OPREG_ATTN_BUFS};
        call.workspace.bytes = kernel->workspace(&device, &p);
        call.workspace.ptr = malloc(call.workspace.bytes + 1);
        memset(call.workspace.ptr, 0xff, call.workspace.bytes);
        out[i] = malloc((size_t)outs * 4);
        lse[i] = malloc((size_t)(tokens * s->q_heads) * 4);
        memset(out[i], 0xff, (size_t)outs * 4);
        memset(lse[i], 0xff, (size_t)(tokens * s->q_heads) * 4);
        bufs[OPREG_ATTN_OUT].ptr = out[i];
        bufs[OPREG_ATTN_LSE].ptr = lse[i];
        assert_int_equal(kernel->run(NULL, &p, &call), OPREG_OK);
        free(call.workspace.ptr);
    }
    for (int64_t i = 0; i < outs; i++) {
        if (element_bits(out[0], i, OPREG_F32) != element_bits(out[1], i, OPREG_F32)) {
            fail_msg("%s, %s: element %d is %a, not %a", variant->name, s->name, (int)i,
                     (double)out[1][i], (double)out[0][i]);
        }
    }
    if (memcmp(lse[0], lse[1], (size_t)(tokens * s->q_heads) * 4) != 0) {
        fail_msg("%s, %s: lse differs", variant->name, s->name);
    }
    for (int i = 0; i < 2; i++) {
        free(out[i]);
        free(lse[i]);
    }
    free(k);
    free(v);
    free(q);
    free(sinks);
    free(table);
}

static void check_variant(const char *name) {
    const opreg_kernel *kernel = kernel_named(name);
    opreg_paged_attn_decode p = {.struct_size = sizeof p, .head_dim = 64};
    char reason[128];
    if (kernel->supports(&device, &p, reason) != OPREG_OK) {
        print_message("skipped: %s\n", reason);
        skip();
    }
    random_state = 5;
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        compare(kernel, &shapes[i]);
    }
}

static void avx2_attention_has_the_bits_of_the_reference(void **state) {
    (void)state;
    check_variant("avx2_attention");
}

static void avx512_attention_has_the_bits_of_the_reference(void **state) {
    (void)state;
    check_variant("avx512_attention");
}

static void a_head_dim_above_256_is_refused_with_the_number(void **state) {
    opreg_paged_attn_decode p = {.struct_size = sizeof p, .head_dim = 257};
    char reason[128] = "";
    (void)state;
    assert_int_equal(kernel_named("avx2_attention")->supports(&device, &p, reason),
                     OPREG_E_UNSUPPORTED);
    assert_true(strstr(reason, "257") != NULL || strstr(reason, "no AVX2") != NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(avx2_attention_has_the_bits_of_the_reference),
        cmocka_unit_test(avx512_attention_has_the_bits_of_the_reference),
        cmocka_unit_test(a_head_dim_above_256_is_refused_with_the_number),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
