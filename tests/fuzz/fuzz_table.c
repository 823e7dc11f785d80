/* SPDX-License-Identifier: MIT
 * fuzz_table.c - attention over block tables, lengths and indptrs of any values touches only what is
 * its own, in every variant, and every variant gives the same bits. */
#include "fuzz.h"

#define MAX_BUFS 12

/* The same floats; one NaN is as good as another (numerics.md). */
static int same_floats(const float *a, const float *b, uint64_t bytes) {
    for (uint64_t i = 0; i < bytes / sizeof *a; i++) {
        uint32_t left, right;
        memcpy(&left, &a[i], sizeof left);
        memcpy(&right, &b[i], sizeof right);
        if (left != right && (a[i] == a[i] || b[i] == b[i])) {
            fprintf(stderr, "element %llu: %g (%08x) and %g (%08x)\n", (unsigned long long)i,
                    (double)a[i], left, (double)b[i], right);
            return 0;
        }
    }
    return 1;
}

/* Runs the plan over the buffers with outputs of their own, which the caller frees. */
static void run_plan(const opreg_plan *plan, opreg_buf *bufs, const uint64_t *bytes) {
    opreg_args args = {.struct_size = sizeof args, .num_bufs = OPREG_ATTN_BUFS, .bufs = bufs};
    void *workspace;
    args.workspace.bytes = opreg_plan_workspace(plan);
    workspace = fuzz_exact((size_t)args.workspace.bytes);
    args.workspace.ptr = args.workspace.bytes > 0 ? workspace : NULL;
    bufs[OPREG_ATTN_OUT].ptr = bytes[OPREG_ATTN_OUT] > 0 ? fuzz_exact((size_t)bytes[OPREG_ATTN_OUT]) : NULL;
    bufs[OPREG_ATTN_LSE].ptr = bytes[OPREG_ATTN_LSE] > 0 ? fuzz_exact((size_t)bytes[OPREG_ATTN_LSE]) : NULL;
    if (bytes[OPREG_ATTN_OUT] > 0) { /* a row that no request has is not written */
        memset(bufs[OPREG_ATTN_OUT].ptr, 0x55, (size_t)bytes[OPREG_ATTN_OUT]);
    }
    if (bytes[OPREG_ATTN_LSE] > 0) {
        memset(bufs[OPREG_ATTN_LSE].ptr, 0x55, (size_t)bytes[OPREG_ATTN_LSE]);
    }
    FUZZ_CHECK(opreg_plan_run(plan, &args) == OPREG_OK);
    free(workspace);
}

static void run_problem(const opreg_paged_attn_decode *p, fuzz_input *in) {
    static const char *const kernels[] = {"cpu/reference_attention", "cpu/avx2_attention",
                                          "cpu/avx512_attention"};
    opreg_device dev;
    opreg_registry *reg = fuzz_registry(&dev);
    opreg_buf bufs[MAX_BUFS] = {{NULL, 0}};
    uint64_t bytes[MAX_BUFS] = {0};
    void *first_out = NULL, *first_lse = NULL;
    /* the values that steer come first in the input, the caches last */
    static const uint32_t order[] = {OPREG_ATTN_LENS,  OPREG_ATTN_INDPTR,  OPREG_ATTN_Q_INDPTR,
                                     OPREG_ATTN_TABLE, OPREG_ATTN_K_SCALE, OPREG_ATTN_V_SCALE,
                                     OPREG_ATTN_SINKS, OPREG_ATTN_Q,       OPREG_ATTN_K,
                                     OPREG_ATTN_V};
    for (uint32_t i = 0; i < OPREG_ATTN_BUFS; i++) {
        FUZZ_CHECK(opreg_problem_buffer(OPREG_OP_PAGED_ATTN_DECODE, p, i, &bytes[i]) == OPREG_OK);
        bufs[i].bytes = bytes[i];
    }
    for (size_t i = 0; i < sizeof order / sizeof order[0]; i++) {
        if (bytes[order[i]] > 0) {
            bufs[order[i]].ptr = fuzz_bytes(in, (size_t)bytes[order[i]]);
        }
    }
    for (size_t i = 0; i < sizeof kernels / sizeof kernels[0]; i++) {
        opreg_plan *plan = NULL;
        if (opreg_plan_create_named(reg, &dev, OPREG_OP_PAGED_ATTN_DECODE, p, kernels[i], &plan) !=
            OPREG_OK) {
            FUZZ_CHECK(i > 0);
            continue;
        }
        run_plan(plan, bufs, bytes);
        if (i == 0) {
            first_out = bufs[OPREG_ATTN_OUT].ptr;
            first_lse = bufs[OPREG_ATTN_LSE].ptr;
        } else {
            FUZZ_CHECK(same_floats(first_out, bufs[OPREG_ATTN_OUT].ptr, bytes[OPREG_ATTN_OUT]));
            FUZZ_CHECK(same_floats(first_lse, bufs[OPREG_ATTN_LSE].ptr, bytes[OPREG_ATTN_LSE]));
            free(bufs[OPREG_ATTN_OUT].ptr);
            free(bufs[OPREG_ATTN_LSE].ptr);
        }
        opreg_plan_destroy(plan);
    }
    free(first_out);
    free(first_lse);
    for (size_t i = 0; i < sizeof order / sizeof order[0]; i++) {
        free(bufs[order[i]].ptr);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char *const types[] = {"f32", "f16", "bf16", "f8_e4m3"};
    fuzz_input in = {data, size};
    opreg_paged_attn_decode p;
    uint8_t flags = fuzz_u8(&in), kv = fuzz_u8(&in);
    int32_t block = fuzz_range(&in, 1, 9), blocks = fuzz_range(&in, 1, 5);
    int32_t seqs = fuzz_range(&in, 0, 3), max_q = flags & 2 ? fuzz_range(&in, 1, 4) : 1;
    int32_t stride = fuzz_range(&in, 1, 4);
    char text[400];
    snprintf(text, sizeof text,
             "seqs=%d hq=2 hk=%d d=64 len=%d kv=%s block=%d blocks=%d table_stride=%d max_q=%d tokens=%d "
             "window=%d softcap=%d",
             seqs, kv & 8 ? 1 : 2, fuzz_range(&in, 1, stride * block), types[kv & 3], block, blocks,
             stride, max_q, flags & 2 ? seqs * max_q : seqs, fuzz_u8(&in) % 8, flags & 16 ? 5 : 0);
    FUZZ_CHECK(opreg_problem_parse(OPREG_OP_PAGED_ATTN_DECODE, text, &p) == OPREG_OK);
    p.flags = (flags & 1 ? OPREG_PF_CSR : 0) | (flags & 2 ? OPREG_PF_Q_INDPTR : 0) |
              (flags & 4 ? OPREG_PF_SINKS : 0) | (flags & 8 ? OPREG_PF_LSE : 0);
    FUZZ_CHECK(opreg_problem_check(OPREG_OP_PAGED_ATTN_DECODE, &p) == OPREG_OK);
    run_problem(&p, &in);
    return 0;
}
