/* SPDX-License-Identifier: MIT
 * bench_cases.c - problems of a bench: their text, those without --problem, and what they cost. */
#include <stdlib.h>
#include <string.h>

#include "bench.h"

static const char *const default_problems[] = {
    "m=1 n=4096 k=4096 b=q4_0",
    "m=1 n=4096 k=4096 b=q4_1",
    "m=1 n=4096 k=4096 b=q8_0",
    "m=1 n=4096 k=4096 b=q4_k",
    "m=1 n=4096 k=4096 b=q5_k",
    "m=1 n=4096 k=4096 b=q6_k",
    "m=1 n=4096 k=4096 b=iq4_nl",
    "m=4 n=4096 k=4096 b=q4_k",
    "quantize_act m=1 k=4096 q=q8_0",
    "quantize_act m=1 k=4096 q=q8_k",
    "moe_matmul tokens=1 n=768 k=2048 experts=128 top_k=8 b=q4_k",
    "moe_glu tokens=1 n=768 k=2048 experts=128 top_k=8 b=q4_k",
    "moe_down tokens=1 n=2048 k=768 experts=128 top_k=8 b=q6_k",
    "moe_ffn tokens=1 hidden=2048 inter=768 experts=128 top_k=8 b=q4_k down=q6_k",
    "moe_route tokens=1 top_k=8 experts=128",
    "moe_combine tokens=1 n=2048 top_k=8",
    "paged_attn_decode seqs=1 hq=32 hk=8 d=128 len=4096",
    "paged_attn_decode seqs=8 hq=32 hk=8 d=128 len=1024",
};

int bench_case_parse(const char *text, opreg_op op, bench_case *out) {
    size_t word = strcspn(text, " =");
    char name[64];
    memset(out, 0, sizeof *out);
    out->op = op;
    if (text[word] != '=' && word > 0 && word < sizeof name) {
        memcpy(name, text, word);
        name[word] = '\0';
        if (opreg_op_by_name(name)) {
            out->op = opreg_op_by_name(name);
            text += word;
        }
    }
    out->problem.struct_size = (uint32_t)opreg_problem_size(out->op);
    return opreg_problem_parse(out->op, text, &out->problem) == OPREG_OK &&
           opreg_problem_check(out->op, &out->problem) == OPREG_OK;
}

bench_case *bench_default_cases(opreg_op op, size_t *count) {
    const size_t all = sizeof default_problems / sizeof *default_problems;
    bench_case *cases = calloc(all, sizeof *cases);
    *count = 0;
    for (size_t i = 0; cases && i < all; i++) {
        bench_case *c = &cases[*count];
        *count += bench_case_parse(default_problems[i], OPREG_OP_MATMUL_BT_QUANT, c) &&
                  (op == 0 || c->op == op);
    }
    return cases;
}

/* ---- cost ---- */

static double size_of(uint32_t dtype) {
    return dtype == OPREG_F32 ? 4 : dtype == OPREG_F8_E4M3 ? 1 : 2;
}

/* Bytes of an activation, those of a scale and of sums shared out where x is planes. */
static double activation(uint32_t dtype) {
    return dtype == OPREG_Q8_0   ? 1 + 4.0 / 32 + 2.0 / 16
           : dtype == OPREG_Q8_K ? 1 + 4.0 / 256 + 2.0 / 16
                                 : size_of(dtype);
}

int64_t bench_entries(const bench_case *c) {
    switch (c->op) {
    case OPREG_OP_MOE_ROUTE:
        return c->problem.route.tokens * c->problem.route.top_k;
    case OPREG_OP_MOE_MATMUL:
    case OPREG_OP_MOE_GLU:
    case OPREG_OP_MOE_DOWN:
        return c->problem.moe.tokens * c->problem.moe.top_k;
    case OPREG_OP_MOE_COMBINE:
        return c->problem.combine.tokens * c->problem.combine.top_k;
    case OPREG_OP_MOE_FFN:
        return c->problem.ffn.tokens * c->problem.ffn.top_k;
    default:
        return 0;
    }
}

/* Experts that the entries reach at most. */
static int64_t experts_used(const bench_case *c) {
    int64_t experts = c->op == OPREG_OP_MOE_FFN     ? c->problem.ffn.experts
                      : c->op == OPREG_OP_MOE_ROUTE ? c->problem.route.experts
                                                    : c->problem.moe.experts;
    int64_t entries = bench_entries(c);
    return entries < experts ? entries : experts;
}

/* Positions that a query sees, all of a call's, and those that the call must read of each cache. */
static void attention_cost(const opreg_paged_attn_decode *p, bench_cost *out) {
    double length = p->max_seq_len, rows = p->tokens, seen = length;
    if (p->window > 0 && p->window < p->max_seq_len) {
        seen = p->window;
        length = seen + p->max_q - 1 < length ? seen + p->max_q - 1 : length;
    }
    out->bytes = 2.0 * p->seqs * length * p->kv_heads * p->head_dim * size_of(p->kv_dtype) +
                 rows * p->q_heads * p->head_dim * (size_of(p->q_dtype) + size_of(p->out_dtype));
    out->operations = 4.0 * rows * p->q_heads * p->head_dim * seen;
}

bench_cost bench_cost_of(const bench_case *c) {
    bench_cost out = {0, 0, -1, -1, -1, 0};
    problem_weight weights[PROBLEM_MAX_WEIGHTS];
    uint32_t num_weights = problem_weights(c->op, &c->problem, weights);
    const problem_any *p = &c->problem;
    double entries = (double)bench_entries(c), x = 0, y = 0, rows = entries;
    switch (c->op) {
    case OPREG_OP_QUANTIZE_ACT:
        out.m = p->quantize.m;
        out.k = p->quantize.k;
        out.bytes = (double)(out.m * out.k) *
                    (size_of(p->quantize.x_dtype) + activation(p->quantize.q_dtype));
        break;
    case OPREG_OP_MATMUL_BT_QUANT:
        out.m = p->matmul.m;
        rows = (double)out.m;
        x = rows * (double)p->matmul.k * activation(p->matmul.x_dtype);
        y = rows * (double)p->matmul.n * size_of(p->matmul.y_dtype) +
            ((p->matmul.flags & OPREG_PF_BIAS) != 0 ? 4.0 * (double)p->matmul.n : 0.0);
        break;
    case OPREG_OP_MOE_ROUTE: {
        opreg_route_layout layout = {.struct_size = sizeof layout};
        opreg_route_layout_get(p->route.tokens, p->route.top_k, p->route.experts, &layout);
        out.m = p->route.tokens;
        out.bytes = (double)layout.bytes + 8.0 * entries;
        break;
    }
    case OPREG_OP_MOE_MATMUL:
    case OPREG_OP_MOE_GLU:
    case OPREG_OP_MOE_DOWN:
        out.m = p->moe.tokens;
        x = (p->moe.x_rows == OPREG_X_BY_TOKEN ? (double)out.m : entries) * (double)p->moe.k *
            activation(p->moe.x_dtype);
        y = entries * (double)p->moe.n * size_of(p->moe.y_dtype);
        break;
    case OPREG_OP_MOE_COMBINE:
        out.m = p->combine.tokens;
        out.n = p->combine.n;
        out.bytes = (double)out.n * (entries * size_of(p->combine.x_dtype) +
                                     (double)out.m * size_of(p->combine.y_dtype));
        out.operations = 2.0 * entries * (double)out.n;
        break;
    case OPREG_OP_MOE_FFN:
        out.m = p->ffn.tokens;
        x = (double)(out.m * p->ffn.hidden) * size_of(p->ffn.x_dtype);
        y = (double)(out.m * p->ffn.hidden) * size_of(p->ffn.y_dtype);
        break;
    case OPREG_OP_PAGED_ATTN_DECODE:
        attention_cost(&p->attn, &out);
        break;
    }
    for (uint32_t i = 0; i < num_weights; i++) {
        opreg_format_row format = {.struct_size = sizeof format};
        double used = bench_entries(c) > 0 ? (double)experts_used(c) : 1.0;
        opreg_format_by_id(weights[i].format, &format);
        out.bytes +=
            used * (double)(weights[i].n * weights[i].k) / format.block_values * format.block_bytes;
        out.operations += 2.0 * rows * (double)(weights[i].n * weights[i].k);
    }
    if (num_weights > 0) {
        out.n = weights[0].n;
        out.k = weights[0].k;
        out.format = weights[0].format;
        out.bytes += x + y;
    }
    return out;
}
