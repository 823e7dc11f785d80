/* SPDX-License-Identifier: MIT
 * engine.c - opens an engine: weights prepared for their plans, tables, memory. */
#include "engine.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "parts.h"

/* A vector of the file as f32 on the device: row 0 of a table with one row. */
static int open_vector(engine *e, const gguf_tensor *tensor, float **out, reason *why) {
    static const int32_t zero = 0;
    opreg_step_gather step = {.struct_size = sizeof step, .scale = 1.0f, .rows = 1};
    const void *placed, *first;
    opreg_weight *weight;
    int made;
    if (!tensor) {
        return 1;
    }
    *out = machine_alloc(&e->on, (uint64_t)tensor->ne[0] * sizeof(float), why);
    weight = *out ? tensor_open(&e->on, e->m->file, tensor, &placed, why) : NULL;
    first = weight ? machine_place(&e->on, &zero, sizeof zero, why) : NULL;
    step.table = weight ? opreg_weight_view_get(weight) : NULL;
    step.ids = first;
    step.y = *out;
    made = first && MACHINE_STEP(&e->on, gather, &step, why) && machine_wait(&e->on, why);
    opreg_weight_destroy(weight);
    if (made) {
        machine_unplace(&e->on, first);
        machine_unplace(&e->on, placed);
    }
    return made;
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
    uint64_t bytes;
    float *cosines, *sines;
    int made;
    out->pairs = e->m->rotary_dims / 2;
    bytes = (uint64_t)(positions * out->pairs) * sizeof(float);
    cosines = malloc(bytes);
    sines = malloc(bytes);
    out->cosines = machine_alloc(&e->on, bytes, why);
    out->sines = machine_alloc(&e->on, bytes, why);
    made = out->cosines && out->sines;
    if (made && (!cosines || !sines)) {
        made = refuse(why, "no memory for %d positions", (int)positions);
    }
    for (int32_t i = 0; made && i < out->pairs; i++) {
        double step = scale * pow(base, -2.0 * i / e->m->rotary_dims);
        if (factors) {
            step /= factors[i];
        }
        for (int64_t position = 0; position < positions; position++) {
            double angle = (double)position * step;
            cosines[position * out->pairs + i] = (float)cos(angle);
            sines[position * out->pairs + i] = (float)sin(angle);
        }
    }
    made = made && machine_upload(&e->on, out->cosines, cosines, bytes, why) &&
           machine_upload(&e->on, out->sines, sines, bytes, why);
    free(cosines);
    free(sines);
    return made;
}

static int open_rotaries(engine *e, reason *why) {
    const gguf_tensor *tensor = e->m->rotary_factors;
    float *factors = tensor ? malloc(tensor->bytes) : NULL;
    int opened;
    if (tensor && (!factors || tensor->type != 0)) {
        free(factors);
        return refuse(why, "'%s' is not f32, or there is no memory for it", tensor->name);
    }
    if (tensor) {
        memcpy(factors, gguf_data(e->m->file, tensor), tensor->bytes);
    }
    opened = open_rotary(e, e->m->rotary_base, e->m->rotary_scale, factors, &e->global, why) &&
             (e->m->window == 0 || open_rotary(e, e->m->local_base, 1.0f, NULL, &e->local, why));
    free(factors);
    return opened;
}

static float *floats(engine *e, int64_t count, reason *why) {
    return machine_alloc(&e->on, (uint64_t)count * sizeof(float), why);
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
    e->moe.ids = machine_alloc(&e->on, (uint64_t)pairs * sizeof(int32_t), why);
    e->moe.weights = floats(e, pairs, why);
    e->moe.route_bytes = layout.bytes;
    e->moe.route = machine_alloc(&e->on, layout.bytes, why);
    e->moe.inner = floats(e, pairs * m->inter, why);
    e->moe.rows = floats(e, pairs * m->hidden, why);
    e->router = floats(e, (int64_t)e->options.batch * m->experts, why);
    return e->moe.ids && e->moe.weights && e->moe.route && e->moe.inner && e->moe.rows && e->router;
}

/* The arrays, one behind the other from base; the table last, of which a pass uses the beginning. */
static placement_arrays arrays_at(const engine *e, void *base) {
    int64_t batch = e->options.batch;
    placement_arrays at = {.places = base};
    at.ids = (int32_t *)(at.places + batch);
    at.positions = at.ids + batch;
    at.logit_tokens = at.positions + batch;
    at.lengths = at.logit_tokens + batch;
    at.starts = at.lengths + batch;
    at.table = at.starts + batch + 1;
    return at;
}

static int open_placement(engine *e, reason *why) {
    uint64_t batch = (uint64_t)e->options.batch;
    uint64_t bytes = batch * 8 + (batch * 5 + 1 + batch * (uint64_t)e->kv.num_pages) * 4;
    e->place.host = calloc(1, bytes);
    e->place.device = machine_alloc(&e->on, bytes, why);
    if (!e->place.host) {
        return refuse(why, "no memory for %d tokens", (int)e->options.batch);
    }
    if (!e->place.device) {
        return 0;
    }
    e->place.at = arrays_at(e, e->place.host);
    e->place.seen = arrays_at(e, e->place.device);
    return 1;
}

static int open_memory(engine *e, reason *why) {
    const model *m = e->m;
    int64_t batch = e->options.batch, heads = (int64_t)m->heads * m->head_dim;
    int64_t kv = (int64_t)m->kv_heads * m->head_dim, widest = m->hidden;
    widest = heads > widest ? heads : widest;
    widest = m->inter > widest ? m->inter : widest;
    e->x = floats(e, batch * m->hidden, why);
    e->normed = floats(e, batch * m->hidden, why);
    e->delta = floats(e, batch * m->hidden, why);
    e->q = floats(e, batch * heads, why);
    e->attended = floats(e, batch * heads, why);
    e->k = floats(e, batch * kv, why);
    e->v = floats(e, batch * kv, why);
    e->inner = floats(e, batch * m->inter, why);
    e->spare = floats(e, batch * m->inter, why);
    e->choices = machine_alloc(&e->on, (uint64_t)batch * sizeof(int32_t), why);
    e->host_choices = malloc((size_t)batch * sizeof(int32_t));
    if (!e->host_choices) {
        return refuse(why, "no memory for %d tokens", (int)batch);
    }
    return e->x && e->normed && e->delta && e->q && e->attended && e->k && e->v && e->inner &&
           e->spare && e->choices && input_open(&e->in, &e->on, batch, widest, why) &&
           open_experts(e, why) && open_placement(e, why);
}

static int open_weights(engine *e, reason *why) {
    const void *placed;
    e->layers = calloc((size_t)e->m->layers, sizeof *e->layers);
    if (!e->layers) {
        return refuse(why, "no memory for %d layers", (int)e->m->layers);
    }
    for (int32_t i = 0; i < e->m->layers; i++) {
        if (!open_layer(e, i, why)) {
            return 0;
        }
    }
    e->embedding = tensor_open(&e->on, e->m->file, e->m->embedding, &placed, why);
    return e->embedding && open_vector(e, e->m->output_norm, &e->output_norm, why) &&
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
    e->p.on = &e->on;
    e->p.level = options->level;
    if (options->sequences < 1 || options->positions < 1 || options->batch < 1) {
        refuse(why, "sequences, positions and batch must be at least 1");
    } else if (machine_open(&e->on, registry, options->device, why)) {
        e->p.flags = e->on.io->capture_begin && !options->no_graphs ? OPREG_PF_GRAPH_SAFE : 0;
        if (cache_open(&e->kv, &e->on, m->layers, m->kv_heads, m->head_dim, ENGINE_PAGE,
                       (options->positions + ENGINE_PAGE - 1) / ENGINE_PAGE, options->sequences,
                       why) &&
            open_weights(e, why) && open_rotaries(e, why) && open_memory(e, why) &&
            machine_wait(&e->on, why)) {
            return e;
        }
    }
    engine_close(e);
    return NULL;
}

static void close_layer(layer_weights *layer) {
    matrix *matrices[] = {&layer->q,  &layer->k,    &layer->v,   &layer->out,
                          &layer->up, &layer->gate, &layer->down, &layer->router};
    for (size_t i = 0; i < sizeof matrices / sizeof matrices[0]; i++) {
        matrix_close(matrices[i]);
    }
}

void engine_close(engine *e) {
    if (!e) {
        return;
    }
    graphs_drop(&e->captured, &e->on);
    for (int32_t i = 0; e->layers && i < e->m->layers; i++) {
        close_layer(&e->layers[i]);
    }
    matrix_close(&e->output);
    opreg_weight_destroy(e->embedding);
    plans_close(&e->p);
    cache_close(&e->kv);
    machine_close(&e->on);
    free(e->layers);
    free(e->place.host);
    free(e->host_logits);
    free(e->host_choices);
    free(e);
}

int32_t engine_length(const engine *e, int32_t sequence) {
    return e->kv.sequences[sequence].length;
}

void engine_truncate(engine *e, int32_t sequence, int32_t length) {
    cache_truncate(&e->kv, sequence, length);
}

const char *engine_kernel(const engine *e, size_t index) { return plans_kernel(&e->p, index); }
