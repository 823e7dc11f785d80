/* SPDX-License-Identifier: MIT
 * cases_far.c - the shapes of the cases far out. */
#include "cases_far.h"

#include "opreg/opreg_test.h"

static const int64_t far_n[] = {1153, 1601, 1280, 2065, 4099, 1361, 2048, 1249};
static const int64_t far_rows[] = {65, 257, 129, 513, 96, 400};
/* around the multiples of large tiles */
static const int64_t tile_n[] = {257, 511, 1025, 512, 255, 513, 1023, 256, 1024};
static const int64_t huge_n[] = {8209, 16411, 65553};

uint32_t cases_far(opreg_op op, uint32_t flags) {
    /* by operator: the sample, the whole, a few */
    static const uint32_t counts[OPREG_OP_COUNT + 1][3] = {
        {0, 0, 0}, {2, 8, 1}, {4, 16, 1}, {3, 12, 1}, {3, 12, 1},
        {3, 12, 1}, {3, 12, 1}, {2, 8, 1}, {2, 9, 1}, {8, 40, 4},
    };
    uint32_t column = flags & OPREG_KIT_FULL ? 1 : flags & OPREG_KIT_QUICK ? 2 : 0;
    return (uint32_t)op <= OPREG_OP_COUNT ? counts[op][column] : 0;
}

static uint32_t turn_of(const case_key *key) { return key->index - CASE_FAR; }

static uint32_t axis_of(const case_key *key, uint32_t axes) {
    return (turn_of(key) + key->format + (uint32_t)key->seed) % axes;
}

static int64_t between(int64_t value, int64_t low, int64_t high) {
    return value < low ? low : value > high ? high : value;
}

void far_quantize(const case_key *key, opreg_quantize_act *p) {
    static const int64_t rows[] = {515, 129, 1025, 260};
    p->m = PICK(key, "far rows", rows);
    p->k = p->q_dtype == OPREG_Q8_K ? 256 : 64;
}

void far_matmul(const case_key *key, int64_t step, opreg_matmul_bt_quant *p) {
    static const int64_t narrow[] = {17, 33, 5};
    static const int64_t blocks[] = {1, 2, 1, 3}, more_blocks[] = {4, 16, 8, 32, 64};
    int beyond = turn_of(key) >= cases_far(OPREG_OP_MATMUL_BT_QUANT, OPREG_KIT_FULL);
    int64_t block = beyond ? PICK(key, "more k", more_blocks) : PICK(key, "far k", blocks);
    p->k = step == 1 ? 40 * block : step * block;
    switch (axis_of(key, 4)) {
    case 0: /* many rows of weights, one of x */
        p->m = 1 + (int64_t)(turn_of(key) / 4 % 2);
        p->n = turn_of(key) >= 4 && !beyond ? PICK(key, "huge n", huge_n) : PICK(key, "far n", far_n);
        p->k = p->n > 10000 ? (step == 1 ? 40 : step) : p->k;
        break;
    case 1: /* many rows of weights, a few of x: about three million products */
        p->n = PICK(key, "far n", far_n);
        p->m = between(3000000 / (p->n * p->k), 2, 33);
        break;
    case 2: /* the edges of tiles, all of them over a few formats */
        p->n = tile_n[axis_of(key, sizeof tile_n / sizeof tile_n[0])];
        p->m = 1 + (int64_t)(turn_of(key) + key->format) % 4;
        break;
    default: /* many rows of x */
        p->m = PICK(key, "far rows", far_rows);
        p->n = between(3000000 / (p->m * p->k), 3, PICK(key, "far narrow", narrow));
        break;
    }
}

int32_t far_experts(const case_key *key) {
    static const int64_t experts[] = {257, 384, 512, 300};
    return (int32_t)PICK(key, "far experts", experts);
}

void far_moe(const case_key *key, int64_t step, opreg_moe_matmul *p) {
    static const int64_t tokens[] = {129, 193, 257};
    p->k = step == 1 ? 40 : step;
    switch (axis_of(key, 3)) {
    case 0: /* many rows of weights */
        p->n = turn_of(key) >= 3 ? PICK(key, "far n", far_n) : 1153 + 16 * (int64_t)(key->format % 5);
        p->tokens = p->top_k = 2;
        p->experts = 3;
        break;
    case 1: /* many experts and groups */
        p->n = 5;
        p->tokens = 41;
        p->top_k = 8;
        p->experts = far_experts(key);
        break;
    default: /* many entries */
        p->n = 3;
        p->tokens = PICK(key, "far tokens", tokens);
        p->top_k = 8;
        p->experts = 12;
        break;
    }
}

void far_combine(const case_key *key, opreg_moe_combine *p) {
    if (axis_of(key, 2) == 0) {
        p->tokens = 3;
        p->n = PICK(key, "far n", far_n);
    } else {
        p->tokens = PICK(key, "far rows", far_rows) * 2;
        p->n = 9;
    }
}

void far_ffn(const case_key *key, int64_t hidden_step, int64_t inter_step, opreg_moe_ffn *p) {
    int64_t one;
    p->hidden = hidden_step * ((64 + hidden_step - 1) / hidden_step);
    p->inter = inter_step * ((32 + inter_step - 1) / inter_step);
    one = 3 * p->hidden * p->inter;
    p->experts = 3;
    p->top_k = 1 + (int32_t)(turn_of(key) % 2);
    switch (axis_of(key, 3)) {
    case 0: /* long rows in and out, or between: one token */
        if (turn_of(key) % 2) {
            p->inter = inter_step * ((1153 + inter_step - 1) / inter_step);
        } else {
            p->hidden = hidden_step * ((1153 + hidden_step - 1) / hidden_step);
        }
        p->tokens = 2;
        break;
    case 1: /* many experts, as far as 6 million weights go */
        p->experts = (int32_t)between(6000000 / one, 24, far_experts(key));
        p->tokens = between(6000000 / one, 17, 41);
        p->top_k = 2;
        break;
    default: /* many tokens */
        p->tokens = between(6000000 / one, 33, PICK(key, "far rows", far_rows));
        p->top_k = 1;
        break;
    }
}

int64_t far_pairs(const case_key *key, int32_t top_k) {
    static const int64_t tokens[] = {129, 513, 260, 1030};
    int64_t count = PICK(key, "far tokens", tokens);
    return top_k * (count * top_k > 4200 ? 4200 / top_k : count);
}

far_axis far_attention_axis(const case_key *key) { return (far_axis)axis_of(key, FAR_AXES); }

void far_attention(const case_key *key, opreg_paged_attn_decode *p, int32_t *length, int32_t *spare) {
    static const int64_t many_heads[] = {0x2008, 0x1010, 0x4008, 0x2808, 0x0c0c, 0x4001};
    static const int64_t many_seqs[] = {33, 65, 130, 40};
    static const int64_t lengths[] = {5001, 8193, 6144};
    static const int64_t dims[] = {64, 128};
    int64_t pair = PICK(key, "far heads", many_heads);
    p->head_dim = (int32_t)PICK(key, "far dim", dims);
    p->window = 0;
    p->q_heads = 2;
    p->kv_heads = 1;
    p->seqs = 2;
    p->max_q = 1;
    *length = *spare = 0;
    switch (far_attention_axis(key)) {
    case FAR_HEADS:
        p->q_heads = (int32_t)(pair >> 8);
        p->kv_heads = (int32_t)(pair & 255);
        break;
    case FAR_SEQS:
        p->seqs = (int32_t)PICK(key, "far seqs", many_seqs);
        p->max_q = 1 + (int32_t)(turn_of(key) / FAR_AXES % 2);
        break;
    case FAR_POSITIONS:
        p->seqs = 1;
        p->head_dim = 64;
        p->block_size = p->block_size < 7 ? 16 : p->block_size;
        *length = (int32_t)PICK(key, "far length", lengths);
        break;
    default: /* pages numbered beyond 16 bits in a full run */
        p->head_dim = 64;
        p->block_size = 1;
        *spare = turn_of(key) >= FAR_AXES ? 66000 : 5000;
        break;
    }
}
