/* SPDX-License-Identifier: MIT
 * compare.c - every variant against the CPU reference on a device, bit by bit, or where it declares a band
 * of its own within that: `sm90-compare [WORD]` runs the lines that contain WORD.  Exit status 77 without
 * a device. */
#include "device.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* --parse: only checks that every line is a problem. */
static int dry;
static int64_t passed, failed, refused;

/* A band is of gate's and up's power, most of which a clamp keeps from the outputs, so their NMSE says
 * nothing about it: sm90-kit holds such pairs to the band. */
static int is_clamped(opreg_op op, const problem_any *p) {
    return op == OPREG_OP_MATMUL_BT_QUANT && p->matmul.glu != OPREG_GLU_NONE &&
           p->matmul.glu_limit > 0;
}

/* Operators whose chained kernels differ from plain ones in more than when they wait. */
static int reads_early(opreg_op op, const problem_any *p) {
    return op == OPREG_OP_PAGED_ATTN_DECODE || op == OPREG_OP_MOE_DOWN ||
           (op == OPREG_OP_MATMUL_BT_QUANT && p->matmul.m == 1);
}

static void one(rig *r, opreg_op op, const char *text) {
    rig_case c;
    if (dry) {
        problem_any problem;
        if (opreg_problem_parse(op, text, &problem) != OPREG_OK ||
            problem_check(op, &problem, NULL) != OPREG_OK) {
            printf("FAILED no problem: %s: %s\n", text, opreg_last_error());
            failed++;
        }
        passed++;
        return;
    }
    if (!rig_make(r, op, text, &c)) {
        failed++;
        return;
    }
    rig_poison(r, &c);
    if (rig_run_cpu(r, &c) != OPREG_OK) {
        printf("FAILED on the CPU: %s\n", text);
        failed++;
    }
    for (uint32_t k = 0; k < r->gpu.num_kernels; k++) {
        const opreg_kernel *kernel = r->gpu.kernels[k];
        char reason[128] = "", name[256];
        if (kernel->op != op ||
            (kernel->level != OPREG_LEVEL_CANONICAL && !(kernel->band > 0))) {
            continue;
        }
        for (int prepared = 0; prepared < 2; prepared++) {
            if (prepared ? kernel->layout == OPREG_LAYOUT_STORED || c.prepared[0].data == NULL ||
                               (c.num_weights > 1 && c.prepared[c.num_weights - 1].data == NULL)
                         : kernel->layout != OPREG_LAYOUT_STORED &&
                               kernel->layout != OPREG_LAYOUT_ANY) {
                continue;
            }
            if (kernel->supports(&r->device, &c.problem, reason) != OPREG_OK) {
                refused++;
                continue;
            }
            if (kernel->band > 0 && is_clamped(op, &c.problem)) {
                continue;
            }
            if (kernel->formats != NULL) {
                int listed = 0;
                for (const uint32_t *f = kernel->formats; *f != 0; f++) {
                    listed |= *f == c.view[0].format;
                }
                if (!listed) {
                    continue;
                }
            }
            for (r->chained = 0; r->chained < (reads_early(op, &c.problem) ? 2 : 1);
                 r->chained++) {
                for (uint32_t i = 0; i < c.num_bufs; i++) {
                    if (c.shape[i].output && c.host[i].bytes != 0) {
                        r->gpu.io->fill(&r->host, &r->device, c.device[i].ptr, 0xff,
                                        c.host[i].bytes, NULL);
                    }
                }
                snprintf(name, sizeof name, "%s%s%s %s", kernel->name, prepared ? " rows32" : "",
                         r->chained ? " chained" : "", text);
                int behind = r->chained && op != OPREG_OP_PAGED_ATTN_DECODE; /* a call of its own */
                if ((behind && rig_run_gpu(r, &c, kernel, prepared, NULL) != OPREG_OK) ||
                    rig_run_gpu(r, &c, kernel, prepared, NULL) != OPREG_OK ||
                    (kernel->band > 0 ? !(rig_error(r, &c) <= kernel->band)
                                      : rig_compare(r, &c, name) != 0)) {
                    printf("FAILED %s\n", name);
                    failed++;
                } else {
                    passed++;
                }
            }
            r->chained = 0;
        }
    }
    rig_drop(r, &c);
}

int main(int argc, char **argv) {
    static const char *const dtypes[3] = {"f32", "f16", "bf16"};
    const char *word = argc > 1 ? argv[1] : "";
    rig r;
    char text[512];
    dry = strcmp(word, "--parse") == 0;
    if (!dry) {
        rig_open(&r);
    }
#define TRY(op, ...)                                                                               \
    do {                                                                                           \
        snprintf(text, sizeof text, __VA_ARGS__);                                                  \
        if (dry || strstr(text, word) != NULL || strstr(opreg_op_name(op), word) != NULL) {               \
            one(&r, op, text);                                                                     \
        }                                                                                          \
    } while (0)
    for (int x = 0; x < 3; x++) {
        TRY(OPREG_OP_QUANTIZE_ACT, "m=3 k=%d x=%s q=q8_0", 32 * 21, dtypes[x]);
        TRY(OPREG_OP_QUANTIZE_ACT, "m=3 k=%d x=%s q=q8_k", 256 * 5, dtypes[x]);
        TRY(OPREG_OP_MOE_COMBINE, "x=%s y=%s top_k=4 tokens=5 n=300", dtypes[x],
            dtypes[(x + 1) % 3]);
    }
    for (size_t f = 0; f < format_count(); f++) {
        const format_info *info = format_at(f);
        int64_t widths[] = {1, 2, 3, 4, 5, 7, 8, 9, 17};
        int64_t block = info->values < 32 ? 32 : info->values, few = block * 5, more = 256 * 37;
        int64_t k128 = 128 * 45 / block * block;
        for (size_t w = 0; w < sizeof widths / sizeof widths[0]; w++) {
            TRY(OPREG_OP_MATMUL_BT_QUANT, "m=%lld n=70 k=%lld b=%s x=%s y=%s",
                (long long)widths[w], (long long)(w % 2 ? k128 : more), info->name, dtypes[w % 3],
                dtypes[(w / 3) % 3]);
        }
        TRY(OPREG_OP_MATMUL_BT_QUANT, "m=1 n=33 k=%lld b=%s x=f32 y=f32 flags=bias",
            (long long)few, info->name);
        for (size_t w = 0; w < 7; w++) { /* no whole groups of units of 32, an odd number of rows */
            TRY(OPREG_OP_MATMUL_BT_QUANT, "m=%lld n=61 k=%lld b=%s x=%s y=%s flags=bias",
                (long long)widths[w], (long long)block * 19, info->name, dtypes[(w + 1) % 3],
                dtypes[w % 3]);
        }
        /* several parts of eight rows a block of rows32_spread */
        TRY(OPREG_OP_MATMUL_BT_QUANT, "m=1 n=2777 k=%lld b=%s x=f32 y=f32 flags=bias",
            (long long)block * 8, info->name);
        /* two blocks a multiprocessor of rows32_stream, some with two tiles */
        TRY(OPREG_OP_MATMUL_BT_QUANT, "m=1 n=8500 k=%lld b=%s x=f32 y=f32 flags=bias",
            (long long)block * (block < 256 ? 37 : 19), info->name);
        /* two steps of 32 units, an odd number of units in one */
        TRY(OPREG_OP_MATMUL_BT_QUANT, "m=1 n=2180 k=9728 b=%s x=f32 y=f32", info->name);
        TRY(OPREG_OP_MATMUL_BT_QUANT, "m=1 n=2180 k=%lld b=%s x=bf16 y=f32", (long long)block * 7,
            info->name);
        TRY(OPREG_OP_MATMUL_BT_QUANT, "m=2 n=65 k=%lld b=%s x=f32 y=f32 glu=silu", (long long)more,
            info->name);
        TRY(OPREG_OP_MATMUL_BT_QUANT,
            "m=1 n=64 k=%lld b=%s x=bf16 y=f32 glu=swiglu_oai alpha=1.702 limit=7",
            (long long)more, info->name);
        /* lists dealt to waves: several tiles a block, eight lists of one group, gate and up */
        TRY(OPREG_OP_MATMUL_BT_QUANT, "m=7 n=40000 k=%lld b=%s x=f32 y=f32 flags=bias",
            (long long)(block > 256 ? block : 256), info->name);
        TRY(OPREG_OP_MATMUL_BT_QUANT, "m=8 n=4300 k=2560 b=%s x=f32 y=f32 glu=silu", info->name);
        TRY(OPREG_OP_MATMUL_BT_QUANT, "m=5 n=4300 k=%lld b=%s x=bf16 y=f16 flags=bias",
            (long long)block * (block < 256 ? 147 : 37), info->name);
        if (info->act_dtype != OPREG_F32) {
            TRY(OPREG_OP_MATMUL_BT_QUANT, "m=6 n=4256 k=%lld b=%s x=%s y=f32",
                (long long)block * (block < 256 ? 37 : 5), info->name,
                opreg_dtype_name(info->act_dtype));
        }
        TRY(OPREG_OP_MATMUL_BT_QUANT, "m=130 n=200 k=%lld b=%s x=f32 y=f32", (long long)more,
            info->name);
        TRY(OPREG_OP_MATMUL_BT_QUANT, "m=33 n=160 k=%lld b=%s x=bf16 y=f16 flags=bias",
            (long long)block * 16, info->name);
        TRY(OPREG_OP_MATMUL_BT_QUANT, "m=65 n=130 k=8192 b=%s x=f32 y=f32 glu=silu", info->name);
        TRY(OPREG_OP_MATMUL_BT_QUANT, "m=3 n=40 k=20480 b=%s x=f32 y=f32", info->name);
        if (info->act_dtype != OPREG_F32) {
            TRY(OPREG_OP_MATMUL_BT_QUANT, "m=12 n=65 k=%lld b=%s x=%s y=f32", (long long)more,
                info->name, opreg_dtype_name(info->act_dtype));
            TRY(OPREG_OP_MATMUL_BT_QUANT, "m=1 n=2180 k=%lld b=%s x=%s y=f32", (long long)more,
                info->name, opreg_dtype_name(info->act_dtype));
            TRY(OPREG_OP_MATMUL_BT_QUANT, "m=1 n=2180 k=9728 b=%s x=%s y=f32", info->name,
                opreg_dtype_name(info->act_dtype));
        }
        if (block <= 64) { /* the last group of a row is short */
            static const int counts[] = {1, 2, 3, 5, 8, 12, 33, 70};
            for (size_t w = 0; w < sizeof counts / sizeof counts[0]; w++) {
                TRY(OPREG_OP_MATMUL_BT_QUANT, "m=%d n=70 k=%lld b=%s x=%s y=f32", counts[w],
                    (long long)(w % 2 ? 576 : block * 49), info->name, dtypes[w % 3]);
            }
            TRY(OPREG_OP_MATMUL_BT_QUANT, "m=1 n=2777 k=576 b=%s x=f32 y=f32 flags=bias",
                info->name);
            TRY(OPREG_OP_MATMUL_BT_QUANT, "m=2 n=65 k=576 b=%s x=f32 y=f32 glu=silu", info->name);
            TRY(OPREG_OP_MOE_MATMUL, "tokens=3 top_k=2 experts=5 n=40 k=576 b=%s x=f32 y=f32",
                info->name);
            TRY(OPREG_OP_MOE_GLU, "tokens=9 top_k=4 experts=6 n=72 k=576 b=%s x=f16 y=f32 glu=silu",
                info->name);
            TRY(OPREG_OP_MOE_DOWN,
                "tokens=33 top_k=2 experts=40 n=1056 k=576 b=%s x=f32 y=f32 rows=dst", info->name);
            if (info->act_dtype != OPREG_F32) {
                for (int m = 1; m <= 21; m += 4) {
                    TRY(OPREG_OP_MATMUL_BT_QUANT, "m=%d n=65 k=576 b=%s x=q8_0 y=f32", m,
                        info->name);
                }
            }
        }
        TRY(OPREG_OP_MOE_MATMUL, "tokens=3 top_k=2 experts=5 n=40 k=%lld b=%s x=f32 y=f32",
            (long long)block * 8, info->name);
        TRY(OPREG_OP_MOE_GLU,
            "tokens=9 top_k=4 experts=6 n=72 k=%lld b=%s x=f16 y=f32 glu=gelu_tanh",
            (long long)256 * 5, info->name);
        TRY(OPREG_OP_MOE_GLU, "tokens=1 top_k=4 experts=6 n=64 k=%lld b=%s x=f32 y=f32 glu=silu",
            (long long)7168, info->name);
        TRY(OPREG_OP_MOE_DOWN, "tokens=5 top_k=3 experts=6 n=96 k=%lld b=%s x=f32 y=f32 rows=dst",
            (long long)(block > 128 ? 256 : 640), info->name);
        TRY(OPREG_OP_MOE_DOWN,
            "tokens=33 top_k=2 experts=40 n=1056 k=%lld b=%s x=f32 y=f32 rows=dst",
            (long long)(block > 128 ? 512 : 640), info->name);
        if (block <= 64) { /* blocks with tiles of two entries, and with more than fit at once */
            TRY(OPREG_OP_MOE_DOWN,
                "tokens=1 top_k=10 experts=10 n=2592 k=640 b=%s x=f32 y=f32 rows=dst", info->name);
            TRY(OPREG_OP_MOE_DOWN,
                "tokens=6 top_k=10 experts=60 n=1056 k=1024 b=%s x=bf16 y=f32 rows=dst",
                info->name);
            TRY(OPREG_OP_MOE_MATMUL, "tokens=2 top_k=4 experts=40 n=1000 k=576 b=%s x=f32 y=bf16",
                info->name);
            TRY(OPREG_OP_MATMUL_BT_QUANT, "m=1 n=33792 k=1024 b=%s x=bf16 y=f32 flags=bias",
                info->name);
            TRY(OPREG_OP_MATMUL_BT_QUANT, "m=1 n=8440 k=4160 b=%s x=f32 y=f16 flags=bias",
                info->name);
            if (info->act_dtype != OPREG_F32) {
                TRY(OPREG_OP_MATMUL_BT_QUANT, "m=1 n=8440 k=4160 b=%s x=q8_0 y=f32", info->name);
                TRY(OPREG_OP_MOE_DOWN,
                    "tokens=2 top_k=10 experts=20 n=1056 k=640 b=%s x=q8_0 y=f32 rows=dst",
                    info->name);
            }
        }
        TRY(OPREG_OP_MOE_FFN,
            "tokens=5 top_k=3 experts=6 hidden=256 inter=256 b=%s down=%s x=f32 y=bf16 glu=silu",
            info->name, format_at((f + 5) % format_count())->name);
    }
    TRY(OPREG_OP_MOE_ROUTE, "tokens=1 top_k=4 experts=8 form=topk");
    TRY(OPREG_OP_MOE_ROUTE, "tokens=0 top_k=4 experts=8 form=topk");
    TRY(OPREG_OP_MOE_ROUTE, "tokens=700 top_k=10 experts=512 form=topk");
    TRY(OPREG_OP_MOE_ROUTE, "tokens=33 top_k=8 experts=16 form=pairs");
    {
        static const int dims[] = {64, 80, 96, 128, 192, 256, 512};
        static const char *const kv[] = {"bf16", "f16", "f32", "f8_e4m3"};
        for (size_t d = 0; d < 7; d++) {
            for (int t = 0; t < 4; t++) {
                TRY(OPREG_OP_PAGED_ATTN_DECODE,
                    "q=%s out=%s kv=%s seqs=3 hq=8 hk=%d d=%d block=16 "
                    "blocks=90 table_stride=80 len=1200 scale=0.09",
                    dtypes[t % 3], dtypes[(t + 1) % 3], kv[t], t == 1 ? 8 : t == 2 ? 1 : 2,
                    dims[d]);
                TRY(OPREG_OP_PAGED_ATTN_DECODE,
                    "q=f32 out=f32 kv=%s seqs=3 tokens=12 max_q=4 hq=6 hk=2 d=%d "
                    "block=32 blocks=90 table_stride=64 len=2048 scale=0.09 "
                    "softcap=30 window=700 flags=q_indptr+sinks+lse",
                    kv[t], dims[d]);
                TRY(OPREG_OP_PAGED_ATTN_DECODE,
                    "q=bf16 out=f32 kv=%s seqs=1 tokens=3 max_q=3 hq=6 hk=2 d=%d "
                    "block=32 blocks=40 table_stride=32 len=1000 scale=0.09 "
                    "softcap=30 window=700 flags=q_indptr+sinks+lse",
                    kv[t], dims[d]);
                TRY(OPREG_OP_PAGED_ATTN_DECODE,
                    "q=bf16 out=f32 kv=%s seqs=4 hq=16 hk=1 d=%d block=64 "
                    "blocks=300 table_stride=200 len=9000 scale=0.09 flags=csr+lse",
                    kv[t], dims[d]);
            }
            for (int t = 0; t < 4; t++) { /* a block for most multiprocessors, alone on it */
                TRY(OPREG_OP_PAGED_ATTN_DECODE,
                    "q=%s out=bf16 kv=%s seqs=40 hq=8 hk=2 d=%d block=16 blocks=300 table_stride=80 "
                    "len=1200 scale=0.09",
                    dtypes[t % 3], kv[t], dims[d]);
            }
            for (int len = 15000; len <= 60000; len *= 4) { /* parts of up to 64, and more */
                TRY(OPREG_OP_PAGED_ATTN_DECODE,
                    "q=bf16 out=f32 kv=bf16 seqs=1 hq=4 hk=1 d=%d block=64 blocks=1000 "
                    "table_stride=950 len=%d scale=0.09 flags=sinks+lse",
                    dims[d], len);
            }
        }
    }
    printf("compare: %" PRId64 " passed, %" PRId64 " failed, %" PRId64 " refused\n", passed, failed,
           refused);
    return failed != 0 || passed == 0;
}
