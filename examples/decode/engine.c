/* SPDX-License-Identifier: MIT
 * engine.c - opens an engine: weights prepared for their plans, tables, memory. */
#include "engine.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "parts.h"
#include "rows.h"

/* A vector of the file as f32; stays null for an absent tensor. */
static int open_vector(engine *e, const gguf_tensor *tensor, float **out, reason *why) {
    if (!tensor) {
        return 1;
    }
    *out = malloc((size_t)tensor->ne[0] * sizeof(float));
    if (!*out) {
        return refuse(why, "no memory for '%s'", tensor->name);
    }
    if (!row_decode(tensor->type, gguf_data(e->m->file, tensor), tensor->ne[0], *out)) {
        return refuse(why, "tensor '%s' has a type that vectors do not have", tensor->name);
    }
    return 1;
}

static int open_layer(engine *e, int32_t index, reason *why) {
    const model_layer *from = &e->m->layer[index];
    layer_weights *to = &e->layers[index];
    const struct {
        const gguf_tensor *tensor;
        matrix *out;
    } matrices[] = {{from->q, &to->q},       {from->k, &to->k},   {from->v, &to->v},
                    {from->out, &to->out},   {from->gate, &to->gate}, {from->up, &to->up},
                    {from->down, &to->down}, {from->router, &to->router}};
    const struct {
        const gguf_tensor *tensor;
        float **out;
    } vectors[] = {{from->attn_norm, &to->attn_norm},
                   {from->q_bias, &to->q_bias},
                   {from->k_bias, &to->k_bias},
                   {from->v_bias, &to->v_bias},
                   {from->out_bias, &to->out_bias},
                   {from->q_norm, &to->q_norm},
                   {from->k_norm, &to->k_norm},
                   {from->attn_post_norm, &to->attn_post_norm},
                   {from->ffn_norm, &to->ffn_norm},
                   {from->ffn_post_norm, &to->ffn_post_norm}};
    for (size_t i = 0; i < sizeof matrices / sizeof matrices[0]; i++) {
        if (!matrix_open(&e->p, e->m->file, matrices[i].tensor, matrices[i].out, why)) {
            return 0;
        }
    }
    for (size_t i = 0; i < sizeof vectors / sizeof vectors[0]; i++) {
        if (!open_vector(e, vectors[i].tensor, vectors[i].out, why)) {
            return 0;
        }
    }
    if (e->m->experts > 0 && (to->gate.format != to->up.format)) {
        return refuse(why, "layer %d: the experts' gate and up have two formats", (int)index);
    }
    return 1;
}

/* The one table of angles, made on the host in double: a device reads it, and has the same bits. */
static int open_rotary(engine *e, float base, float scale, const float *factors, rotary *out,
                       reason *why) {
    int64_t positions = e->options.positions;
    out->pairs = e->m->rotary_dims / 2;
    out->cosines = malloc((size_t)(positions * out->pairs) * sizeof(float));
    out->sines = malloc((size_t)(positions * out->pairs) * sizeof(float));
    if (!out->cosines || !out->sines) {
        return refuse(why, "no memory for %d positions", (int)positions);
    }
    for (int32_t i = 0; i < out->pairs; i++) {
        double step = scale * pow(base, -2.0 * i / e->m->rotary_dims);
        if (factors) {
            step /= factors[i];
        }
        for (int64_t position = 0; position < positions; position++) {
            double angle = (double)position * step;
            out->cosines[position * out->pairs + i] = (float)cos(angle);
            out->sines[position * out->pairs + i] = (float)sin(angle);
        }
    }
    return 1;
}

static int open_rotaries(engine *e, reason *why) {
    float *factors = NULL;
    int opened = open_vector(e, e->m->rotary_factors, &factors, why) &&
                 open_rotary(e, e->m->rotary_base, e->m->rotary_scale, factors, &e->global, why) &&
                 (e->m->window == 0 ||
                  open_rotary(e, e->m->local_base, 1.0f, NULL, &e->local, why));
    free(factors);
    return opened;
}

static float *floats(int64_t count) {
    return aligned_alloc(256, (size_t)((count * (int64_t)sizeof(float) + 255) / 256 * 256));
}

static int open_experts(engine *e, reason *why) {
    const model *m = e->m;
    int64_t pairs = (int64_t)e->options.batch * m->experts_used;
    opreg_route_layout layout = {.struct_size = sizeof layout};
    if (m->experts == 0) {
        return 1;
    }
    if (opreg_route_layout_get(e->options.batch, m->experts_used, m->experts, &layout) !=
        OPREG_OK) {
        return refuse(why, "%s", opreg_last_error());
    }
    e->moe.glu = m->glu;
    e->moe.count = m->experts;
    e->moe.top_k = m->experts_used;
    e->moe.ids = malloc((size_t)pairs * sizeof(int32_t));
    e->moe.weights = floats(pairs);
    e->moe.route_bytes = layout.bytes;
    e->moe.route = aligned_alloc(256, (size_t)((layout.bytes + 255) / 256 * 256));
    e->moe.inner = floats(pairs * m->inter);
    e->moe.rows = floats(pairs * m->hidden);
    e->router = floats((int64_t)e->options.batch * m->experts);
    if (!e->moe.ids || !e->moe.weights || !e->moe.route || !e->moe.inner || !e->moe.rows ||
        !e->router) {
        return refuse(why, "no memory for %d tokens with experts", (int)e->options.batch);
    }
    return 1;
}

static int open_placement(engine *e, reason *why) {
    size_t batch = (size_t)e->options.batch;
    placement *place = &e->place;
    place->ids = calloc(batch, sizeof(int32_t));
    place->positions = calloc(batch, sizeof(int32_t));
    place->sequences = calloc(batch, sizeof(int32_t));
    place->logit_tokens = calloc(batch, sizeof(int32_t));
    place->table = calloc(batch * (size_t)e->kv.num_pages, sizeof(int32_t));
    place->lengths = calloc(batch, sizeof(int32_t));
    place->starts = calloc(batch + 1, sizeof(int32_t));
    if (!place->ids || !place->positions || !place->sequences || !place->logit_tokens ||
        !place->table || !place->lengths || !place->starts) {
        return refuse(why, "no memory for %d tokens", (int)e->options.batch);
    }
    return 1;
}

static int open_memory(engine *e, reason *why) {
    const model *m = e->m;
    int64_t batch = e->options.batch, heads = (int64_t)m->heads * m->head_dim;
    int64_t kv = (int64_t)m->kv_heads * m->head_dim, widest = m->hidden;
    widest = heads > widest ? heads : widest;
    widest = m->inter > widest ? m->inter : widest;
    e->x = floats(batch * m->hidden);
    e->normed = floats(batch * m->hidden);
    e->delta = floats(batch * m->hidden);
    e->q = floats(batch * heads);
    e->attended = floats(batch * heads);
    e->k = floats(batch * kv);
    e->v = floats(batch * kv);
    e->inner = floats(batch * m->inter);
    e->spare = floats(batch * m->inter);
    if (!e->x || !e->normed || !e->delta || !e->q || !e->attended || !e->k || !e->v || !e->inner ||
        !e->spare) {
        return refuse(why, "no memory for %d tokens", (int)batch);
    }
    return input_open(&e->in, batch, widest, why) && open_experts(e, why) &&
           open_placement(e, why);
}

static int open_weights(engine *e, reason *why) {
    e->layers = calloc((size_t)e->m->layers, sizeof *e->layers);
    if (!e->layers) {
        return refuse(why, "no memory for %d layers", (int)e->m->layers);
    }
    for (int32_t i = 0; i < e->m->layers; i++) {
        if (!open_layer(e, i, why)) {
            return 0;
        }
    }
    return open_vector(e, e->m->output_norm, &e->output_norm, why) &&
           matrix_open(&e->p, e->m->file, e->m->output, &e->output, why);
}

engine *engine_open(const model *m, opreg_registry *registry, const engine_options *options,
                    reason *why) {
    engine *e = calloc(1, sizeof *e);
    if (!e) {
        refuse(why, "no memory");
        return NULL;
    }
    e->m = m;
    e->options = *options;
    e->p.registry = registry;
    e->p.level = options->level;
    if (options->sequences < 1 || options->positions < 1 || options->batch < 1) {
        refuse(why, "sequences, positions and batch must be at least 1");
    } else if (opreg_devices(registry, &e->p.device, sizeof e->p.device, 1) < 1 ||
               e->p.device.kind != OPREG_CPU) {
        refuse(why, "the registry's first device is not the CPU");
    } else if (cache_open(&e->kv, m->layers, m->kv_heads, m->head_dim, ENGINE_PAGE,
                          (options->positions + ENGINE_PAGE - 1) / ENGINE_PAGE,
                          options->sequences, why) &&
               open_weights(e, why) && open_rotaries(e, why) && open_memory(e, why)) {
        return e;
    }
    engine_close(e);
    return NULL;
}

static void close_layer(layer_weights *layer) {
    matrix *matrices[] = {&layer->q,  &layer->k,    &layer->v,   &layer->out,
                          &layer->up, &layer->gate, &layer->down, &layer->router};
    float *vectors[] = {layer->attn_norm, layer->q_bias, layer->k_bias, layer->v_bias,
                        layer->out_bias,  layer->q_norm, layer->k_norm, layer->attn_post_norm,
                        layer->ffn_norm,  layer->ffn_post_norm};
    for (size_t i = 0; i < sizeof matrices / sizeof matrices[0]; i++) {
        matrix_close(matrices[i]);
    }
    for (size_t i = 0; i < sizeof vectors / sizeof vectors[0]; i++) {
        free(vectors[i]);
    }
}

void engine_close(engine *e) {
    if (!e) {
        return;
    }
    for (int32_t i = 0; e->layers && i < e->m->layers; i++) {
        close_layer(&e->layers[i]);
    }
    matrix_close(&e->output);
    plans_close(&e->p);
    cache_close(&e->kv);
    input_close(&e->in);
    {
        void *memory[] = {e->layers,          e->output_norm,      e->global.cosines,
                          e->global.sines,    e->local.cosines,    e->local.sines,
                          e->place.ids,       e->place.positions,  e->place.sequences,
                          e->place.table,     e->place.lengths,    e->place.starts,
                          e->x,               e->normed,           e->q,
                          e->k,               e->v,                e->attended,
                          e->delta,           e->inner,            e->spare,
                          e->router,          e->moe.ids,          e->moe.weights,
                          e->moe.route,       e->moe.inner,        e->moe.rows,
                          e->logits,          e->place.logit_tokens};
        for (size_t i = 0; i < sizeof memory / sizeof memory[0]; i++) {
            free(memory[i]);
        }
    }
    free(e);
}

int32_t engine_length(const engine *e, int32_t sequence) {
    return e->kv.sequences[sequence].length;
}

void engine_truncate(engine *e, int32_t sequence, int32_t length) {
    cache_truncate(&e->kv, sequence, length);
}

const char *engine_kernel(const engine *e, size_t index) { return plans_kernel(&e->p, index); }
