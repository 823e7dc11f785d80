/* SPDX-License-Identifier: MIT
 * forward.c - one pass over the layers for the tokens of a batch. */
#include <stdlib.h>
#include <string.h>

#include "parts.h"
#include "rows.h"
#include "steps.h"

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
    placement *place = &e->place;
    const cache_sequence *s = &e->kv.sequences[sequence];
    int32_t *row = place->table + (int64_t)place->requests * e->kv.num_pages;
    memcpy(row, s->pages, (size_t)s->num_pages * sizeof *row);
    place->lengths[place->requests++] = length;
    place->starts[place->requests] = place->starts[place->requests - 1] + count;
    place->max_q = count > place->max_q ? count : place->max_q;
}

static void place_part(engine *e, const engine_part *part) {
    placement *place = &e->place;
    int32_t first = engine_length(e, part->sequence) - part->count;
    for (int32_t i = 0; i < part->count; i++) {
        int32_t token = place->tokens++;
        place->ids[token] = part->tokens[i];
        place->positions[token] = first + i;
        place->sequences[token] = part->sequence;
        if (i >= part->count - part->logits) {
            place->logit_tokens[place->logit_rows++] = token;
        }
    }
    for (int32_t i = 0; i < part->count; i += ENGINE_MAX_Q) {
        int32_t left = part->count - i, count = left < ENGINE_MAX_Q ? left : ENGINE_MAX_Q;
        place_request(e, part->sequence, count, first + i + count);
    }
}

/* Takes pages for all parts, or for none. */
static int place_tokens(engine *e, const engine_part *parts, int32_t num_parts, reason *why) {
    placement *place = &e->place;
    place->tokens = place->requests = place->max_q = place->logit_rows = 0;
    place->starts[0] = 0;
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

/* ---- steps over rows -------------------------------------------------------------------------- */

static void norm_rows(const float *x, int64_t rows, int64_t n, float epsilon, const float *weight,
                      float *y) {
    for (int64_t r = 0; r < rows; r++) {
        float factor = step_norm_factor(x + r * n, n, epsilon);
        for (int64_t k = 0; k < n; k++) {
            y[r * n + k] = step_norm(x[r * n + k], factor, weight[k]);
        }
    }
}

static void add_rows(float *x, const float *delta, int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        x[i] = x[i] + delta[i];
    }
}

static void rotate_heads(const engine *e, const rotary *angles, float *x, int32_t heads) {
    int32_t pairs = angles->pairs, halves = e->m->rotary_halves;
    for (int32_t t = 0; t < e->place.tokens; t++) {
        const float *cosines = angles->cosines + (int64_t)e->place.positions[t] * pairs;
        const float *sines = angles->sines + (int64_t)e->place.positions[t] * pairs;
        for (int32_t h = 0; h < heads; h++) {
            float *head = x + ((int64_t)t * heads + h) * e->m->head_dim;
            for (int32_t i = 0; i < pairs; i++) {
                step_rotate(&head[halves ? i : 2 * i], &head[halves ? i + pairs : 2 * i + 1],
                            cosines[i], sines[i]);
            }
        }
    }
}

static void store_heads(const engine *e, const float *x, uint16_t *array) {
    int64_t width = (int64_t)e->m->kv_heads * e->m->head_dim;
    for (int32_t t = 0; t < e->place.tokens; t++) {
        int64_t at = cache_place(&e->kv, e->place.sequences[t], e->place.positions[t]);
        for (int64_t i = 0; i < width; i++) {
            canonical_store(array, at + i, OPREG_F16, x[t * width + i]);
        }
    }
}

/* ---- the layers ------------------------------------------------------------------------------- */

static int embed(engine *e, reason *why) {
    const model *m = e->m;
    uint64_t row_bytes = m->embedding->bytes / (uint64_t)m->vocab;
    for (int32_t t = 0; t < e->place.tokens; t++) {
        const uint8_t *row =
            gguf_data(m->file, m->embedding) + (uint64_t)e->place.ids[t] * row_bytes;
        float *x = e->x + (int64_t)t * m->hidden;
        if (!row_decode(m->embedding->type, row, m->hidden, x)) {
            return refuse(why, "embeddings of this type are not decoded");
        }
        for (int32_t i = 0; i < m->hidden; i++) {
            x[i] = x[i] * m->embedding_scale;
        }
    }
    return 1;
}

/* delta = attention over the normed rows. */
static int attention_block(engine *e, int32_t index, reason *why) {
    const model *m = e->m;
    const layer_weights *w = &e->layers[index];
    int32_t local = m->layer[index].local, tokens = e->place.tokens;
    const rotary *angles = local ? &e->local : &e->global;
    attention a = {.heads = m->heads,
                   .requests = e->place.requests,
                   .tokens = tokens,
                   .max_q = e->place.max_q,
                   .max_length = e->options.positions,
                   .window = local ? m->window : 0,
                   .table_stride = e->kv.num_pages,
                   .scale = m->attention_scale,
                   .table = e->place.table,
                   .lengths = e->place.lengths,
                   .starts = e->place.starts};
    input_set(&e->in, e->normed, tokens, m->hidden);
    if (!multiply(&e->p, &w->q, &e->in, w->q_bias, e->q, why) ||
        !multiply(&e->p, &w->k, &e->in, w->k_bias, e->k, why) ||
        !multiply(&e->p, &w->v, &e->in, w->v_bias, e->v, why)) {
        return 0;
    }
    if (w->q_norm) {
        norm_rows(e->q, (int64_t)tokens * m->heads, m->head_dim, m->norm_epsilon, w->q_norm, e->q);
    }
    if (w->k_norm) {
        norm_rows(e->k, (int64_t)tokens * m->kv_heads, m->head_dim, m->norm_epsilon, w->k_norm,
                  e->k);
    }
    rotate_heads(e, angles, e->q, m->heads);
    rotate_heads(e, angles, e->k, m->kv_heads);
    store_heads(e, e->k, e->kv.keys[index]);
    store_heads(e, e->v, e->kv.values[index]);
    if (!attend(&e->p, &a, &e->kv, index, e->q, e->attended, why)) {
        return 0;
    }
    input_set(&e->in, e->attended, tokens, (int64_t)m->heads * m->head_dim);
    return multiply(&e->p, &w->out, &e->in, w->out_bias, e->delta, why);
}

/* delta = feed-forward network of the normed rows. */
static int feed_forward_block(engine *e, int32_t index, reason *why) {
    const model *m = e->m;
    const layer_weights *w = &e->layers[index];
    int32_t tokens = e->place.tokens;
    input_set(&e->in, e->normed, tokens, m->hidden);
    if (m->experts == 0) {
        if (!multiply_glu(&e->p, &w->gate, &w->up, m->glu, &e->in, e->inner, e->spare, why)) {
            return 0;
        }
        input_set(&e->in, e->inner, tokens, m->inter);
        return multiply(&e->p, &w->down, &e->in, NULL, e->delta, why);
    }
    if (!multiply(&e->p, &w->router, &e->in, NULL, e->router, why)) {
        return 0;
    }
    for (int32_t t = 0; t < tokens; t++) {
        float *p = e->router + (int64_t)t * m->experts;
        step_softmax(p, m->experts);
        step_top_experts(p, m->experts, m->experts_used, e->moe.ids + t * m->experts_used,
                         e->moe.weights + t * m->experts_used);
    }
    e->moe.gate = &w->gate;
    e->moe.up = &w->up;
    e->moe.down = &w->down;
    return run_experts(&e->p, &e->moe, &e->in, e->delta, why);
}

static int layers(engine *e, reason *why) {
    const model *m = e->m;
    int64_t tokens = e->place.tokens, count = tokens * m->hidden;
    for (int32_t i = 0; i < m->layers; i++) {
        const layer_weights *w = &e->layers[i];
        norm_rows(e->x, tokens, m->hidden, m->norm_epsilon, w->attn_norm, e->normed);
        if (!attention_block(e, i, why)) {
            return 0;
        }
        if (w->attn_post_norm) {
            norm_rows(e->delta, tokens, m->hidden, m->norm_epsilon, w->attn_post_norm, e->delta);
        }
        add_rows(e->x, e->delta, count);
        norm_rows(e->x, tokens, m->hidden, m->norm_epsilon, w->ffn_norm, e->normed);
        if (!feed_forward_block(e, i, why)) {
            return 0;
        }
        if (w->ffn_post_norm) {
            norm_rows(e->delta, tokens, m->hidden, m->norm_epsilon, w->ffn_post_norm, e->delta);
        }
        add_rows(e->x, e->delta, count);
    }
    return 1;
}

static int write_logits(engine *e, reason *why) {
    const model *m = e->m;
    int64_t rows = e->place.logit_rows;
    if (rows > e->logits_capacity) {
        free(e->logits);
        e->logits_capacity = 0;
        e->logits = aligned_alloc(
            256, (size_t)((rows * m->vocab * (int64_t)sizeof(float) + 255) / 256 * 256));
        if (!e->logits) {
            return refuse(why, "no memory for %d rows of logits", (int)rows);
        }
        e->logits_capacity = rows;
    }
    if (rows == 0) {
        return 1;
    }
    for (int64_t r = 0; r < rows; r++) {
        norm_rows(e->x + (int64_t)e->place.logit_tokens[r] * m->hidden, 1, m->hidden,
                  m->norm_epsilon, e->output_norm, e->normed + r * m->hidden);
    }
    input_set(&e->in, e->normed, rows, m->hidden);
    if (!multiply(&e->p, &e->output, &e->in, NULL, e->logits, why)) {
        return 0;
    }
    for (int64_t i = 0; m->logit_cap != 0.0f && i < rows * m->vocab; i++) {
        e->logits[i] = step_cap(e->logits[i], m->logit_cap);
    }
    return 1;
}

int engine_decode(engine *e, const engine_part *parts, int32_t num_parts, const float **logits,
                  reason *why) {
    if (!check_parts(e, parts, num_parts, why) || !place_tokens(e, parts, num_parts, why)) {
        return 0;
    }
    if (embed(e, why) && layers(e, why) && write_logits(e, why)) {
        *logits = e->logits;
        return 1;
    }
    for (int32_t i = 0; i < num_parts; i++) {
        engine_truncate(e, parts[i].sequence,
                        engine_length(e, parts[i].sequence) - parts[i].count);
    }
    return 0;
}
