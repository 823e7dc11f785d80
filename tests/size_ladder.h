/* SPDX-License-Identifier: MIT
 * size_ladder.h - every size of every operator doubled until the library refuses it.
 *
 * A size product that overflows shows as a step down: whatever grows with a size at most doubles when
 * the size does, and what doubles past 64 bits comes back smaller.  So on each rung every buffer's
 * bytes, and each variant's workspace and layout bytes, must be at least those of the rung below, and
 * the last rung must be refused with a reason.  Each size is tried alone and beside each other one at
 * 2^10, 2^20 and 2^31. */
#ifndef SIZE_LADDER_H
#define SIZE_LADDER_H

#include "registry_harness.h"

#define LADDER_SIZES 6
#define LADDER_VARIANTS 64

typedef struct ladder_row {
    opreg_op op;
    const char *rest;                /* keys that stay                                              */
    const char *keys[LADDER_SIZES];  /* sizes                                                       */
    int64_t least[LADDER_SIZES];
} ladder_row;

static const ladder_row ladder_rows[] = {
    {OPREG_OP_QUANTIZE_ACT, "q=q8_0", {"m", "k", "x_stride"}, {1, 256, 256}},
    {OPREG_OP_QUANTIZE_ACT, "q=q8_k x=f16", {"m", "k", "x_stride"}, {1, 256, 256}},
    {OPREG_OP_MATMUL_BT_QUANT, "b=q4_k", {"m", "n", "k"}, {1, 64, 256}},
    {OPREG_OP_MATMUL_BT_QUANT, "b=q4_0", {"m", "n", "k", "x_stride", "y_stride"}, {1, 1, 32, 32, 1}},
    {OPREG_OP_MATMUL_BT_QUANT, "b=f16", {"m", "n", "k"}, {1, 64, 256}},
    {OPREG_OP_MATMUL_BT_QUANT, "b=gqh4", {"m", "n", "k"}, {1, 64, 256}},
    {OPREG_OP_MATMUL_BT_QUANT, "b=q6_k glu=silu", {"m", "n", "k"}, {1, 64, 256}},
    {OPREG_OP_MATMUL_BT_QUANT, "b=q4_k x=q8_k", {"m", "n", "k"}, {1, 64, 256}},
    {OPREG_OP_MOE_ROUTE, "", {"tokens", "top_k", "experts", "ids_stride", "weights_stride"},
     {1, 1, 1, 1, 1}},
    {OPREG_OP_MOE_MATMUL, "b=q4_k", {"tokens", "n", "k", "experts", "top_k"}, {1, 64, 256, 1, 1}},
    {OPREG_OP_MOE_MATMUL, "b=q4_0 rows=dst", {"tokens", "n", "k", "experts", "top_k"},
     {1, 1, 32, 1, 1}},
    {OPREG_OP_MOE_GLU, "b=rocmfp2_mix glu=silu", {"tokens", "n", "k", "experts", "top_k"},
     {1, 64, 256, 1, 1}},
    {OPREG_OP_MOE_DOWN, "b=q6_k rows=dst", {"tokens", "n", "k", "experts", "top_k"},
     {1, 64, 256, 1, 1}},
    {OPREG_OP_MOE_COMBINE, "", {"tokens", "n", "top_k", "x_stride", "y_stride", "weights_stride"},
     {1, 1, 1, 1, 1, 1}},
    {OPREG_OP_MOE_FFN, "b=q4_k down=q6_k glu=silu",
     {"tokens", "hidden", "inter", "experts", "top_k"}, {1, 256, 256, 1, 1}},
    {OPREG_OP_PAGED_ATTN_DECODE, "d=64 block=16 blocks=4",
     {"seqs", "hq", "hk", "len", "table_stride", "q_stride"}, {1, 1, 1, 16, 1, 64}},
    {OPREG_OP_PAGED_ATTN_DECODE, "seqs=4 hq=8 d=256 len=256 table_stride=16",
     {"block", "blocks", "hk", "k_block_stride", "v_slot_stride", "k_head_stride"},
     {16, 4, 1, 4096, 256, 256}},
};

typedef struct ladder_rung {
    uint64_t buffers[16];
    uint32_t num_buffers;
    struct {
        char kernel[64];
        uint64_t workspace, layout;
        int taken;
    } variants[LADDER_VARIANTS];
    size_t num_variants;
} ladder_rung;

/* Fills a rung; 0 when the problem is refused. */
static inline int ladder_climb(opreg_registry *reg, const opreg_device *dev, opreg_op op,
                               const void *problem, const char *text, ladder_rung *rung) {
    static opreg_candidate rows[LADDER_VARIANTS];
    opreg_status status = opreg_problem_check(op, problem);
    if (status != OPREG_OK) {
        if (opreg_last_error()[0] == '\0') {
            fail_msg("%s %s: refused without a reason", opreg_op_name(op), text);
        }
        return 0;
    }
    memset(rung, 0, sizeof *rung);
    while (rung->num_buffers < 16 &&
           opreg_problem_buffer(op, problem, rung->num_buffers,
                                &rung->buffers[rung->num_buffers]) == OPREG_OK) {
        rung->num_buffers++;
    }
    assert_true(rung->num_buffers > 0);
    assert_works(opreg_explain(reg, dev, op, problem, rows, sizeof rows[0], LADDER_VARIANTS,
                               &rung->num_variants));
    assert_true(rung->num_variants <= LADDER_VARIANTS);
    for (size_t i = 0; i < rung->num_variants; i++) {
        char name[112];
        opreg_plan *plan = NULL;
        snprintf(name, sizeof name, "%s/%s", rows[i].plugin, rows[i].kernel);
        snprintf(rung->variants[i].kernel, sizeof rung->variants[i].kernel, "%s", rows[i].kernel);
        rung->variants[i].taken = rows[i].verdict == OPREG_OK;
        if (!rung->variants[i].taken) {
            continue;
        }
        assert_works(opreg_plan_create_named(reg, dev, op, problem, name, &plan));
        rung->variants[i].workspace = opreg_plan_workspace(plan);
        rung->variants[i].layout = opreg_plan_layout_bytes(plan);
        opreg_plan_destroy(plan);
    }
    return 1;
}

static inline void ladder_compare(opreg_op op, const char *text, const ladder_rung *below,
                                  const ladder_rung *rung) {
    for (uint32_t i = 0; i < rung->num_buffers; i++) {
        if (rung->buffers[i] < below->buffers[i]) {
            fail_msg("%s %s: buffer %u needs %llu bytes, with half the size %llu",
                     opreg_op_name(op), text, i, (unsigned long long)rung->buffers[i],
                     (unsigned long long)below->buffers[i]);
        }
    }
    for (size_t i = 0; i < rung->num_variants; i++) {
        for (size_t j = 0; j < below->num_variants; j++) {
            if (strcmp(rung->variants[i].kernel, below->variants[j].kernel) != 0 ||
                !rung->variants[i].taken || !below->variants[j].taken) {
                continue;
            }
            if ((rung->variants[i].workspace < below->variants[j].workspace &&
                 rung->variants[i].workspace != 0) || /* 0: a method that needs none */
                rung->variants[i].layout < below->variants[j].layout) {
                fail_msg("%s %s: %s needs %llu + %llu bytes, with half the size %llu + %llu",
                         opreg_op_name(op), text, rung->variants[i].kernel,
                         (unsigned long long)rung->variants[i].workspace,
                         (unsigned long long)rung->variants[i].layout,
                         (unsigned long long)below->variants[j].workspace,
                         (unsigned long long)below->variants[j].layout);
            }
        }
    }
}

/* Doubles size `which` of a row, the other one standing at its least times 2^up. */
static inline void ladder(opreg_registry *reg, const opreg_device *dev, const ladder_row *row,
                          int which, int other, int up) {
    static ladder_rung rungs[2];
    union {
        opreg_paged_attn_decode attention;
        opreg_moe_ffn ffn;
        opreg_matmul_bt_quant matmul;
    } problem;
    int refused = 0, before = 0;
    for (int step = 0; step < 63 && !refused; step++) {
        char text[400];
        int length = snprintf(text, sizeof text, "%s", row->rest);
        int64_t value = row->least[which];
        if (value > INT64_MAX >> step) {
            break;
        }
        for (int i = 0; i < LADDER_SIZES && row->keys[i] != NULL; i++) {
            int64_t size = i == which ? value << step : row->least[i];
            if (i == other) {
                size = size > INT64_MAX >> up ? INT64_MAX : size << up;
            }
            if (strstr(row->keys[i], "stride") != NULL && i != which && i != other) {
                continue; /* packed */
            }
            length += snprintf(text + length, sizeof text - (size_t)length, " %s=%lld",
                               row->keys[i], (long long)size);
        }
        refused = opreg_problem_parse(row->op, text, &problem) != OPREG_OK; /* not an int32 */
        if (!refused) {
            int climbed = ladder_climb(reg, dev, row->op, &problem, text, &rungs[step % 2]);
            refused = before && !climbed; /* a smaller one may be refused where a stride is short */
            if (before && climbed) {
                ladder_compare(row->op, text, &rungs[(step + 1) % 2], &rungs[step % 2]);
            }
            before = climbed;
        }
    }
}

/* All ladders on a device. */
static inline void climb_all_ladders(opreg_registry *reg, const opreg_device *dev) {
    static const int ups[] = {10, 20, 31};
    for (size_t r = 0; r < sizeof ladder_rows / sizeof ladder_rows[0]; r++) {
        for (int i = 0; i < LADDER_SIZES && ladder_rows[r].keys[i] != NULL; i++) {
            ladder(reg, dev, &ladder_rows[r], i, -1, 0);
            for (int j = 0; j < LADDER_SIZES && ladder_rows[r].keys[j] != NULL; j++) {
                for (int up = 0; up < 3 && j != i; up++) {
                    ladder(reg, dev, &ladder_rows[r], i, j, ups[up]);
                }
            }
        }
    }
}

#endif /* SIZE_LADDER_H */
