/* SPDX-License-Identifier: MIT
 * operators.c - states each problem, and runs its plan. */
#include "operators.h"

#include <string.h>

static opreg_buf buffer(const void *pointer, int64_t bytes) {
    opreg_buf out = {(void *)(uintptr_t)pointer, (uint64_t)bytes};
    return out;
}

static int64_t floats(int64_t count) { return count * (int64_t)sizeof(float); }

/* ---- matrices ------------------------------------------------------------------------------- */

static opreg_matmul_bt_quant matmul_problem(const plans *p, const matrix *w, int64_t m) {
    opreg_matmul_bt_quant problem = {.struct_size = sizeof problem,
                                     .x_dtype = w->act_dtype,
                                     .b_dtype = w->format,
                                     .y_dtype = OPREG_F32,
                                     .m = m,
                                     .n = w->n,
                                     .k = w->k,
                                     .x_stride = w->k,
                                     .y_stride = w->n,
                                     .layout = w->layout,
                                     .level = p->level,
                                     .flags = p->flags};
    return problem;
}

static opreg_moe_matmul moe_problem(const plans *p, const matrix *w, int64_t tokens,
                                    int32_t top_k) {
    opreg_moe_matmul problem = {.struct_size = sizeof problem,
                                .x_dtype = w->act_dtype,
                                .b_dtype = w->format,
                                .y_dtype = OPREG_F32,
                                .tokens = tokens,
                                .n = w->n,
                                .k = w->k,
                                .experts = (int32_t)w->experts,
                                .top_k = top_k,
                                .x_stride = w->k,
                                .y_stride = w->n,
                                .x_rows = OPREG_X_BY_TOKEN,
                                .layout = w->layout,
                                .level = p->level,
                                .flags = p->flags};
    return problem;
}

opreg_weight *tensor_open(machine *m, const gguf *file, const gguf_tensor *tensor,
                          const void **placed, reason *why) {
    opreg_format_row format = {.struct_size = sizeof format};
    opreg_weight_desc desc = {.struct_size = sizeof desc, .layout = OPREG_LAYOUT_STORED};
    opreg_weight *weight = NULL;
    if (opreg_format_by_ggml_type((int32_t)tensor->type, &format) != OPREG_OK) {
        refuse(why, "tensor '%s': %s", tensor->name, opreg_last_error());
        return NULL;
    }
    *placed = machine_place(m, gguf_data(file, tensor), tensor->bytes, why);
    if (!*placed) {
        return NULL;
    }
    desc.format = format.format;
    desc.k = tensor->ne[0];
    desc.n = tensor->ne[1];
    desc.experts = tensor->ne[2];
    desc.data = buffer(*placed, (int64_t)tensor->bytes);
    if (opreg_weight_create(m->registry, &m->device, &desc, &weight) != OPREG_OK) {
        refuse(why, "tensor '%s': %s", tensor->name, opreg_last_error());
        return NULL;
    }
    return weight;
}

/* Lays the weight out as the plan wants it; the stored one is not needed then. */
static int prepare(machine *m, matrix *w, const opreg_plan *plan, const void *placed,
                   const char *name, reason *why) {
    opreg_buf memory = {NULL, opreg_plan_layout_bytes(plan)};
    opreg_weight *prepared;
    w->layout = opreg_plan_layout(plan);
    if (w->layout == OPREG_LAYOUT_STORED) {
        return 1;
    }
    memory.ptr = machine_alloc(m, memory.bytes, why);
    if (!memory.ptr) {
        return 0;
    }
    if (opreg_weight_prepare(plan, w->weight, memory, m->stream, &prepared) != OPREG_OK) {
        return refuse(why, "preparing '%s': %s", name, opreg_last_error());
    }
    if (!machine_wait(m, why)) {
        opreg_weight_destroy(prepared);
        return 0;
    }
    opreg_weight_destroy(w->weight);
    machine_unplace(m, placed);
    w->weight = prepared;
    return 1;
}

int matrix_open(plans *p, const gguf *file, const gguf_tensor *tensor, matrix *out, reason *why) {
    opreg_format_row format = {.struct_size = sizeof format};
    const opreg_plan *plan;
    const void *placed;
    memset(out, 0, sizeof *out);
    if (!tensor) {
        return 1;
    }
    out->weight = tensor_open(p->on, file, tensor, &placed, why);
    if (!out->weight) {
        return 0;
    }
    opreg_format_by_ggml_type((int32_t)tensor->type, &format);
    out->format = format.format;
    out->act_dtype = format.act_dtype;
    out->k = tensor->ne[0];
    out->n = tensor->ne[1];
    out->experts = tensor->ne[2];
    out->layout = OPREG_LAYOUT_ANY;
    if (tensor->dims > 2) {
        opreg_moe_matmul problem = moe_problem(p, out, 1, 1);
        plan = plans_get(p, OPREG_OP_MOE_MATMUL, &problem, why);
    } else {
        opreg_matmul_bt_quant problem = matmul_problem(p, out, 1);
        plan = plans_get(p, OPREG_OP_MATMUL_BT_QUANT, &problem, why);
    }
    if (plan && prepare(p->on, out, plan, placed, tensor->name, why)) {
        return 1;
    }
    matrix_close(out);
    return 0;
}

void matrix_close(matrix *w) {
    opreg_weight_destroy(w->weight);
    memset(w, 0, sizeof *w);
}

/* ---- activations ---------------------------------------------------------------------------- */

int input_open(input *in, machine *on, int64_t m, int64_t k, reason *why) {
    uint64_t values = (uint64_t)((m * k + 255) / 256 * 256);
    memset(in, 0, sizeof *in);
    in->codes = machine_alloc(on, values, why);
    in->scales = machine_alloc(on, values / 32 * sizeof(float), why);
    in->sums = machine_alloc(on, values / 16 * sizeof(int16_t), why);
    return in->codes && in->scales && in->sums;
}

void input_set(input *in, const float *x, int64_t m, int64_t k) {
    in->x = x;
    in->m = m;
    in->k = k;
    in->made = OPREG_F32;
}

/* Matrices that share an input share its planes. */
static int quantize(plans *p, input *in, uint32_t dtype, reason *why) {
    opreg_quantize_act problem = {.struct_size = sizeof problem,
                                  .x_dtype = OPREG_F32,
                                  .q_dtype = dtype,
                                  .level = p->level,
                                  .m = in->m,
                                  .k = in->k,
                                  .x_stride = in->k,
                                  .flags = p->flags};
    int64_t values = in->m * in->k, block = dtype == OPREG_Q8_K ? 256 : 32;
    opreg_buf bufs[OPREG_QUANTIZE_BUFS] = {buffer(in->codes, values),
                                           buffer(in->scales, floats(values / block)),
                                           buffer(in->sums, values / 16 * 2),
                                           buffer(in->x, floats(values))};
    if (dtype == OPREG_F32 || dtype == in->made) {
        return 1;
    }
    in->made = dtype;
    return plans_run(p, OPREG_OP_QUANTIZE_ACT, &problem, bufs, OPREG_QUANTIZE_BUFS, NULL, 0, why);
}

/* The buffers of x in an operator's list: values or codes, then at scales the other planes. */
static void place_input(const input *in, uint32_t dtype, opreg_buf *x, opreg_buf *scales,
                        opreg_buf *sums) {
    int64_t values = in->m * in->k;
    *x = buffer(in->x, floats(values));
    if (dtype != OPREG_F32) {
        *x = buffer(in->codes, values);
        *scales = buffer(in->scales, floats(values / (dtype == OPREG_Q8_K ? 256 : 32)));
        *sums = buffer(in->sums, values / 16 * 2);
    }
}

/* ---- products ------------------------------------------------------------------------------- */

int multiply(plans *p, const matrix *w, input *in, const float *bias, float *y, reason *why) {
    opreg_matmul_bt_quant problem = matmul_problem(p, w, in->m);
    opreg_buf bufs[OPREG_MATMUL_BUFS] = {{0}};
    const opreg_weight *weight = w->weight;
    if (!quantize(p, in, w->act_dtype, why)) {
        return 0;
    }
    bufs[OPREG_MATMUL_Y] = buffer(y, floats(in->m * w->n));
    place_input(in, w->act_dtype, &bufs[OPREG_MATMUL_X], &bufs[OPREG_MATMUL_X_SCALES],
                &bufs[OPREG_MATMUL_X_SUMS]);
    if (bias) {
        problem.flags |= OPREG_PF_BIAS;
        bufs[OPREG_MATMUL_BIAS] = buffer(bias, floats(w->n));
    }
    return plans_run(p, OPREG_OP_MATMUL_BT_QUANT, &problem, bufs, OPREG_MATMUL_BUFS, &weight, 1,
                     why);
}

int multiply_glu(plans *p, const matrix *gate, const matrix *up, uint32_t glu, input *in, float *y,
                 float *spare, reason *why) {
    opreg_matmul_bt_quant problem = matmul_problem(p, gate, in->m);
    opreg_buf bufs[OPREG_MATMUL_BUFS] = {{0}};
    const opreg_weight *weights[2] = {gate->weight, up->weight};
    if (gate->format != up->format || gate->layout != up->layout) {
        opreg_step_glu step = {.struct_size = sizeof step,
                               .glu = glu,
                               .count = in->m * gate->n,
                               .gate = y,
                               .up = spare,
                               .y = y};
        return multiply(p, gate, in, NULL, y, why) && multiply(p, up, in, NULL, spare, why) &&
               MACHINE_STEP(p->on, glu, &step, why);
    }
    if (!quantize(p, in, gate->act_dtype, why)) {
        return 0;
    }
    problem.glu = glu;
    bufs[OPREG_MATMUL_Y] = buffer(y, floats(in->m * gate->n));
    place_input(in, gate->act_dtype, &bufs[OPREG_MATMUL_X], &bufs[OPREG_MATMUL_X_SCALES],
                &bufs[OPREG_MATMUL_X_SUMS]);
    return plans_run(p, OPREG_OP_MATMUL_BT_QUANT, &problem, bufs, OPREG_MATMUL_BUFS, weights, 2,
                     why);
}

/* ---- experts -------------------------------------------------------------------------------- */

static int route(plans *p, const experts *e, int64_t tokens, reason *why) {
    opreg_moe_route problem = {.struct_size = sizeof problem,
                               .form = OPREG_ROUTE_TOPK,
                               .tokens = tokens,
                               .top_k = e->top_k,
                               .experts = e->count,
                               .ids_stride = e->top_k,
                               .weights_stride = e->top_k,
                               .level = p->level,
                               .flags = p->flags};
    int64_t pairs = tokens * e->top_k;
    opreg_buf bufs[] = {buffer(e->route, (int64_t)e->route_bytes), buffer(e->ids, pairs * 4),
                        buffer(e->weights, floats(pairs))};
    return plans_run(p, OPREG_OP_MOE_ROUTE, &problem, bufs, 3, NULL, 0, why);
}

/* inner = glu(x * gate^T) * (x * up^T), a row an entry of the route. */
static int expert_gates(plans *p, const experts *e, input *in, reason *why) {
    opreg_moe_matmul problem = moe_problem(p, e->gate, in->m, e->top_k);
    opreg_buf bufs[OPREG_MOE_BUFS] = {{0}};
    const opreg_weight *weights[2] = {e->gate->weight, e->up->weight};
    if (!quantize(p, in, e->gate->act_dtype, why)) {
        return 0;
    }
    problem.glu = e->glu;
    bufs[OPREG_MOE_Y] = buffer(e->inner, floats(in->m * e->top_k * e->gate->n));
    bufs[OPREG_MOE_ROUTE_BUF] = buffer(e->route, (int64_t)e->route_bytes);
    place_input(in, e->gate->act_dtype, &bufs[OPREG_MOE_X], &bufs[OPREG_MOE_X_SCALES],
                &bufs[OPREG_MOE_X_SUMS]);
    return plans_run(p, OPREG_OP_MOE_GLU, &problem, bufs, OPREG_MOE_BUFS, weights, 2, why);
}

static int expert_downs(plans *p, const experts *e, int64_t tokens, reason *why) {
    opreg_moe_matmul problem = moe_problem(p, e->down, tokens, e->top_k);
    int64_t pairs = tokens * e->top_k;
    const opreg_weight *weight = e->down->weight;
    opreg_buf bufs[] = {buffer(e->rows, floats(pairs * e->down->n)),
                        buffer(e->inner, floats(pairs * e->down->k)),
                        buffer(e->route, (int64_t)e->route_bytes)};
    problem.x_dtype = OPREG_F32;
    problem.x_rows = OPREG_X_BY_DST;
    return plans_run(p, OPREG_OP_MOE_DOWN, &problem, bufs, 3, &weight, 1, why);
}

int run_experts(plans *p, const experts *e, input *in, float *y, reason *why) {
    int64_t n = e->down->n, pairs = in->m * e->top_k;
    opreg_moe_combine problem = {.struct_size = sizeof problem,
                                 .x_dtype = OPREG_F32,
                                 .y_dtype = OPREG_F32,
                                 .top_k = e->top_k,
                                 .tokens = in->m,
                                 .n = n,
                                 .x_stride = n,
                                 .y_stride = n,
                                 .weights_stride = e->top_k,
                                 .level = p->level,
                                 .flags = p->flags};
    opreg_buf bufs[OPREG_COMBINE_BUFS] = {buffer(y, floats(in->m * n)),
                                          buffer(e->rows, floats(pairs * n)),
                                          buffer(e->weights, floats(pairs))};
    return route(p, e, in->m, why) && expert_gates(p, e, in, why) &&
           expert_downs(p, e, in->m, why) &&
           plans_run(p, OPREG_OP_MOE_COMBINE, &problem, bufs, OPREG_COMBINE_BUFS, NULL, 0, why);
}

/* ---- attention ------------------------------------------------------------------------------ */

int attend(plans *p, const attention *a, const cache *c, int32_t layer, const float *q, float *out,
           reason *why) {
    int64_t head = c->head_dim, slot = head * c->kv_heads, page = slot * c->page_size;
    int64_t width = a->heads * head, tables = (int64_t)a->requests * a->table_stride;
    opreg_paged_attn_decode problem = {.struct_size = sizeof problem,
                                       .q_dtype = OPREG_F32,
                                       .out_dtype = OPREG_F32,
                                       .kv_dtype = OPREG_F16,
                                       .seqs = a->requests,
                                       .tokens = a->tokens,
                                       .max_q = a->max_q,
                                       .q_heads = a->heads,
                                       .kv_heads = c->kv_heads,
                                       .head_dim = c->head_dim,
                                       .block_size = c->page_size,
                                       .num_blocks = c->num_pages,
                                       .table_stride = a->table_stride,
                                       .max_seq_len = a->max_length,
                                       .window = a->window,
                                       .scale = a->scale,
                                       .level = p->level,
                                       .q_stride = width,
                                       .out_stride = width,
                                       .k_block_stride = page,
                                       .k_slot_stride = slot,
                                       .k_head_stride = head,
                                       .v_block_stride = page,
                                       .v_slot_stride = slot,
                                       .v_head_stride = head,
                                       .flags = p->flags | OPREG_PF_Q_INDPTR};
    opreg_buf bufs[OPREG_ATTN_BUFS] = {{0}};
    bufs[OPREG_ATTN_OUT] = buffer(out, floats(a->tokens * width));
    bufs[OPREG_ATTN_Q] = buffer(q, floats(a->tokens * width));
    bufs[OPREG_ATTN_K] = buffer(c->keys[layer], (int64_t)c->layer_bytes);
    bufs[OPREG_ATTN_V] = buffer(c->values[layer], (int64_t)c->layer_bytes);
    bufs[OPREG_ATTN_TABLE] = buffer(a->table, tables * 4);
    bufs[OPREG_ATTN_LENS] = buffer(a->lengths, (int64_t)a->requests * 4);
    bufs[OPREG_ATTN_Q_INDPTR] = buffer(a->starts, ((int64_t)a->requests + 1) * 4);
    return plans_run(p, OPREG_OP_PAGED_ATTN_DECODE, &problem, bufs, OPREG_ATTN_BUFS, NULL, 0, why);
}
