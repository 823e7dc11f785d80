/* SPDX-License-Identifier: MIT
 * forward.c - one pass over the layers for the tokens of a batch. */
#include <stdlib.h>
#include <string.h>

#include "parts.h"

/* ---- where the tokens belong ------------------------------------------------------------------ */

static int check_parts(const engine *e, const engine_part *parts, int32_t num_parts, reason *why) {
    int64_t tokens = 0;
    for (int32_t i = 0; i < num_parts; i++) {
        const engine_part *part = &parts[i];
        if (part->sequence < 0 || part->sequence >= e->options.sequences) {
            return refuse(why, "sequence %d is not one of 0..%d", part->sequence,
                          e->options.sequences - 1);
        }
        for (int32_t j = 0; j < i; j++) {
            if (parts[j].sequence == part->sequence) {
                return refuse(why, "sequence %d is named twice", part->sequence);
            }
        }
        if (part->count < 1 || part->logits < 0 || part->logits > part->count) {
            return refuse(why, "part %d has %d tokens and wants %d rows of logits", i, part->count,
                          part->logits);
        }
        tokens += part->count;
        if (tokens > e->options.batch) {
            return refuse(why, "more than %d tokens in one batch", e->options.batch);
        }
        for (int32_t j = 0; j < part->count; j++) {
            if (part->tokens[j] < 0 || part->tokens[j] >= e->m->vocab) {
                return refuse(why, "token %d is not one of 0..%d", part->tokens[j],
                              e->m->vocab - 1);
            }
        }
        if (engine_length(e, part->sequence) + (int64_t)part->count > e->options.positions) {
            return refuse(why, "sequence %d would have more than %d positions", part->sequence,
                          e->options.positions);
        }
    }
    return tokens > 0 ? 1 : refuse(why, "no tokens");
}

/* A request of attention: count tokens from the batch's next, all of one sequence. */
static void place_request(engine *e, int32_t sequence, int32_t count, int32_t length) {
    placement_arrays *at = &e->place.at;
    pass_shape *shape = &e->place.shape;
    const cache_sequence *s = &e->kv.sequences[sequence];
    int32_t *row = at->table + (int64_t)shape->requests * e->kv.num_pages;
    memcpy(row, s->pages, (size_t)s->num_pages * sizeof *row);
    at->lengths[shape->requests++] = length;
    at->starts[shape->requests] = at->starts[shape->requests - 1] + count;
    shape->max_q = count > shape->max_q ? count : shape->max_q;
}

static void place_part(engine *e, const engine_part *part) {
    placement_arrays *at = &e->place.at;
    pass_shape *shape = &e->place.shape;
    int32_t first = engine_length(e, part->sequence) - part->count;
    for (int32_t i = 0; i < part->count; i++) {
        int32_t token = shape->tokens++;
        at->ids[token] = part->tokens[i];
        at->positions[token] = first + i;
        at->places[token] = cache_place(&e->kv, part->sequence, first + i);
        if (i >= part->count - part->logits) {
            at->logit_tokens[shape->logit_rows++] = token;
        }
    }
    for (int32_t i = 0; i < part->count; i += ENGINE_MAX_Q) {
        int32_t left = part->count - i, count = left < ENGINE_MAX_Q ? left : ENGINE_MAX_Q;
        place_request(e, part->sequence, count, first + i + count);
    }
}

/* Takes pages for all parts, or for none. */
static int place_tokens(engine *e, const engine_part *parts, int32_t num_parts, reason *why) {
    memset(&e->place.shape, 0, sizeof e->place.shape);
    e->place.at.starts[0] = 0;
    for (int32_t i = 0; i < num_parts; i++) {
        if (!cache_grow(&e->kv, parts[i].sequence, parts[i].count, why)) {
            while (i-- > 0) {
                engine_truncate(e, parts[i].sequence,
                                engine_length(e, parts[i].sequence) - parts[i].count);
            }
            return 0;
        }
    }
    for (int32_t i = 0; i < num_parts; i++) {
        place_part(e, &parts[i]);
    }
    return 1;
}

/* ---- the layers ------------------------------------------------------------------------------- */

static int embed(engine *e, reason *why) {
    opreg_step_gather step = {.struct_size = sizeof step,
                              .scale = e->m->embedding_scale,
                              .table = opreg_weight_view_get(e->embedding),
                              .ids = e->place.seen.ids,
                              .y = e->x,
                              .rows = e->place.shape.tokens};
    return MACHINE_STEP(&e->on, gather, &step, why);
}

/* x += delta, normed first where delta_weight is not null; normed = norm(x) where weight is not. */
static int add_and_norm(engine *e, const float *delta, const float *delta_weight,
                        const float *weight, reason *why) {
    opreg_step_norm step = {.struct_size = sizeof step,
                            .epsilon = e->m->norm_epsilon,
                            .rows = e->place.shape.tokens,
                            .n = e->m->hidden,
                            .x = e->x,
                            .x_rows = e->place.shape.tokens,
                            .delta = delta,
                            .delta_weight = delta ? delta_weight : NULL,
                            .weight = weight,
                            .y = weight ? e->normed : NULL};
    return MACHINE_STEP(&e->on, norm, &step, why);
}

/* Norms and rotates the heads of q and k, and puts k and v into the cache. */
static int finish_heads(engine *e, int32_t index, reason *why) {
    const model *m = e->m;
    const layer_weights *w = &e->layers[index];
    const rotary *angles = m->layer[index].local ? &e->local : &e->global;
    opreg_step_heads step = {.struct_size = sizeof step,
                             .kv_dtype = OPREG_F16,
                             .tokens = e->place.shape.tokens,
                             .q_heads = m->heads,
                             .kv_heads = m->kv_heads,
                             .head_dim = m->head_dim,
                             .pairs = angles->pairs,
                             .halves = m->rotary_halves,
                             .positions_most = e->options.positions,
                             .epsilon = m->norm_epsilon,
                             .q = e->q,
                             .k = e->k,
                             .v = e->v,
                             .q_weight = w->q_norm,
                             .k_weight = w->k_norm,
                             .cosines = angles->cosines,
                             .sines = angles->sines,
                             .positions = e->place.seen.positions,
                             .places = e->place.seen.places,
                             .k_cache = e->kv.keys[index],
                             .v_cache = e->kv.values[index],
                             .cache_elements = (int64_t)(e->kv.layer_bytes / sizeof(uint16_t)),
                             .head_stride = m->head_dim};
    return MACHINE_STEP(&e->on, heads, &step, why);
}

/* delta = attention over the normed rows. */
static int attention_block(engine *e, int32_t index, reason *why) {
    const model *m = e->m;
    const layer_weights *w = &e->layers[index];
    int32_t tokens = e->place.shape.tokens;
    attention a = {.heads = m->heads,
                   .requests = e->place.shape.requests,
                   .tokens = tokens,
                   .max_q = e->place.shape.max_q,
                   .max_length = e->options.positions,
                   .window = m->layer[index].local ? m->window : 0,
                   .table_stride = e->kv.num_pages,
                   .scale = m->attention_scale,
                   .table = e->place.seen.table,
                   .lengths = e->place.seen.lengths,
                   .starts = e->place.seen.starts};
    input_set(&e->in, e->normed, tokens, m->hidden);
    if (!multiply(&e->p, &w->q, &e->in, w->q_bias, e->q, why) ||
        !multiply(&e->p, &w->k, &e->in, w->k_bias, e->k, why) ||
        !multiply(&e->p, &w->v, &e->in, w->v_bias, e->v, why) || !finish_heads(e, index, why) ||
        !attend(&e->p, &a, &e->kv, index, e->q, e->attended, why)) {
        return 0;
    }
    input_set(&e->in, e->attended, tokens, (int64_t)m->heads * m->head_dim);
    return multiply(&e->p, &w->out, &e->in, w->out_bias, e->delta, why);
}

/* delta = feed-forward network of the normed rows. */
static int feed_forward_block(engine *e, int32_t index, reason *why) {
    const model *m = e->m;
    const layer_weights *w = &e->layers[index];
    int32_t tokens = e->place.shape.tokens;
    opreg_step_experts step = {.struct_size = sizeof step,
                               .tokens = tokens,
                               .experts = m->experts,
                               .top_k = m->experts_used,
                               .logits = e->router,
                               .ids = e->moe.ids,
                               .weights = e->moe.weights};
    input_set(&e->in, e->normed, tokens, m->hidden);
    if (m->experts == 0) {
        if (!multiply_glu(&e->p, &w->gate, &w->up, m->glu, &e->in, e->inner, e->spare, why)) {
            return 0;
        }
        input_set(&e->in, e->inner, tokens, m->inter);
        return multiply(&e->p, &w->down, &e->in, NULL, e->delta, why);
    }
    if (!multiply(&e->p, &w->router, &e->in, NULL, e->router, why) ||
        !MACHINE_STEP(&e->on, experts, &step, why)) {
        return 0;
    }
    e->moe.gate = &w->gate;
    e->moe.up = &w->up;
    e->moe.down = &w->down;
    return run_experts(&e->p, &e->moe, &e->in, e->delta, why);
}

/* What the layer before added is added by the norm of the next. */
static int layers(engine *e, reason *why) {
    const float *delta = NULL, *delta_weight = NULL;
    for (int32_t i = 0; i < e->m->layers; i++) {
        const layer_weights *w = &e->layers[i];
        if (!add_and_norm(e, delta, delta_weight, w->attn_norm, why) ||
            !attention_block(e, i, why) ||
            !add_and_norm(e, e->delta, w->attn_post_norm, w->ffn_norm, why) ||
            !feed_forward_block(e, i, why)) {
            return 0;
        }
        delta = e->delta;
        delta_weight = w->ffn_post_norm;
    }
    return add_and_norm(e, delta, delta_weight, NULL, why);
}

static int write_logits(engine *e, reason *why) {
    const model *m = e->m;
    int64_t rows = e->place.shape.logit_rows;
    opreg_step_norm norm = {.struct_size = sizeof norm,
                            .epsilon = m->norm_epsilon,
                            .rows = rows,
                            .n = m->hidden,
                            .x = e->x,
                            .x_rows = e->place.shape.tokens,
                            .weight = e->output_norm,
                            .index = e->place.seen.logit_tokens,
                            .y = e->normed};
    opreg_step_cap cap = {.struct_size = sizeof cap,
                          .cap = m->logit_cap,
                          .count = rows * m->vocab,
                          .x = e->logits};
    opreg_step_argmax argmax = {.struct_size = sizeof argmax,
                                .rows = rows,
                                .n = m->vocab,
                                .x = e->logits,
                                .ids = e->choices};
    if (rows == 0) {
        return 1;
    }
    input_set(&e->in, e->normed, rows, m->hidden);
    return MACHINE_STEP(&e->on, norm, &norm, why) &&
           multiply(&e->p, &e->output, &e->in, NULL, e->logits, why) &&
           (m->logit_cap == 0.0f || MACHINE_STEP(&e->on, cap, &cap, why)) &&
           (!e->place.shape.choose || MACHINE_STEP(&e->on, argmax, &argmax, why));
}

/* ---- a pass ----------------------------------------------------------------------------------- */

static int enqueue(void *user, reason *why) {
    engine *e = user;
    return embed(e, why) && layers(e, why) && write_logits(e, why);
}

static int make_room(engine *e, int64_t rows, reason *why) {
    if (rows <= e->logits_capacity) {
        return 1;
    }
    graphs_drop(&e->captured, &e->on);
    machine_free(&e->on, e->logits);
    free(e->host_logits);
    e->logits_capacity = 0;
    e->logits = machine_alloc(&e->on, (uint64_t)(rows * e->m->vocab) * sizeof(float), why);
    e->host_logits = malloc((size_t)(rows * e->m->vocab) * sizeof(float));
    if (!e->host_logits) {
        return refuse(why, "no memory for %d rows of logits", (int)rows);
    }
    e->logits_capacity = e->logits ? rows : 0;
    return e->logits != NULL;
}

/* One copy to the device, the layers, and one copy back. */
static int run_pass(engine *e, reason *why) {
    const pass_shape *shape = &e->place.shape;
    int64_t rows = shape->logit_rows;
    const char *end = (const char *)(e->place.at.table + (int64_t)shape->requests * e->kv.num_pages);
    uint64_t bytes = (uint64_t)(end - (const char *)e->place.host);
    if (!make_room(e, rows, why) ||
        !machine_upload(&e->on, e->place.device, e->place.host, bytes, why) ||
        !graphs_run(&e->captured, &e->p, shape, enqueue, e, why)) {
        return 0;
    }
    if (rows == 0) {
        return machine_wait(&e->on, why);
    }
    return shape->choose ? machine_download(&e->on, e->host_choices, e->choices,
                                            (uint64_t)rows * sizeof(int32_t), why)
                         : machine_download(&e->on, e->host_logits, e->logits,
                                            (uint64_t)(rows * e->m->vocab) * sizeof(float), why);
}

static int decode(engine *e, const engine_part *parts, int32_t num_parts, int32_t choose,
                  reason *why) {
    if (!check_parts(e, parts, num_parts, why) || !place_tokens(e, parts, num_parts, why)) {
        return 0;
    }
    e->place.shape.choose = choose;
    if (run_pass(e, why)) {
        return 1;
    }
    for (int32_t i = 0; i < num_parts; i++) {
        engine_truncate(e, parts[i].sequence,
                        engine_length(e, parts[i].sequence) - parts[i].count);
    }
    return 0;
}

int engine_decode(engine *e, const engine_part *parts, int32_t num_parts, const float **logits,
                  reason *why) {
    if (!decode(e, parts, num_parts, 0, why)) {
        return 0;
    }
    *logits = e->host_logits;
    return 1;
}

int engine_choose(engine *e, const engine_part *parts, int32_t num_parts, const int32_t **ids,
                  reason *why) {
    if (!decode(e, parts, num_parts, 1, why)) {
        return 0;
    }
    *ids = e->host_choices;
    return 1;
}
