/* SPDX-License-Identifier: MIT
 * model.c - reads the sizes and finds the tensors of a GGUF model. */
#include "model.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "opreg/opreg.h"

#define MOST 1048576 /* no size of a model that this engine runs is larger */

/* What is known while a file is read. */
typedef struct reading {
    model *m;
    reason *why;
    size_t used; /* tensors that were asked for and found */
} reading;

static int type_known(void *user, uint32_t id, gguf_type *out) {
    opreg_format_row row = {.struct_size = sizeof row};
    (void)user;
    memset(out, 0, sizeof *out);
    if (id > INT32_MAX || opreg_format_by_ggml_type((int32_t)id, &row) != OPREG_OK) {
        return 0;
    }
    out->name = opreg_dtype_name(row.format);
    out->block_values = row.block_values;
    out->block_bytes = row.block_bytes;
    return 1;
}

static const char *key_of(const model *m, const char *name, char out[128]) {
    snprintf(out, 128, "%s.%s", m->family, name);
    return out;
}

/* A size from the file; fallback below 0 makes the key required. */
static int read_size(reading *r, const char *name, int32_t fallback, int32_t *out) {
    char key[128];
    uint64_t value;
    if (!gguf_integer(r->m->file, key_of(r->m, name, key), &value)) {
        if (fallback < 0) {
            return refuse(r->why, "the file has no integer '%s'", key);
        }
        value = (uint64_t)fallback;
    }
    if (value > MOST) {
        return refuse(r->why, "'%s' is %" PRIu64 ", more than %d", key, value, MOST);
    }
    *out = (int32_t)value;
    return 1;
}

static void read_float(reading *r, const char *name, float *out) {
    char key[128];
    gguf_float(r->m->file, key_of(r->m, name, key), out);
}

/* The tensor, or null.  Its shape must be [k, n, experts] where those are above 0. */
static int find_tensor(reading *r, const char *name, int64_t k, int64_t n, int64_t experts,
                       const gguf_tensor **out) {
    const gguf_tensor *t = gguf_tensor_named(r->m->file, name);
    *out = t;
    if (!t) {
        return 1;
    }
    r->used++;
    if (t->ne[0] != k || t->ne[1] != n || t->ne[2] != experts || t->ne[3] != 1) {
        return refuse(r->why,
                      "tensor '%s' is %" PRId64 " x %" PRId64 " x %" PRId64 ", not %" PRId64
                      " x %" PRId64 " x %" PRId64,
                      name, t->ne[0], t->ne[1], t->ne[2], k, n, experts);
    }
    return 1;
}

static int need_tensor(reading *r, const char *name, int64_t k, int64_t n, int64_t experts,
                       const gguf_tensor **out) {
    if (!find_tensor(r, name, k, n, experts, out)) {
        return 0;
    }
    return *out ? 1 : refuse(r->why, "the file has no tensor '%s'", name);
}

static int is_family(const model *m, const char *name) {
    return strcmp(m->family, name) == 0;
}

static int read_sizes(reading *r) {
    model *m = r->m;
    char key[128];
    const char *scaling;
    uint64_t length;
    float factor = 1.0f, epsilon = 0.0f;
    if (!read_size(r, "block_count", -1, &m->layers) ||
        !read_size(r, "embedding_length", -1, &m->hidden) ||
        !read_size(r, "attention.head_count", -1, &m->heads) ||
        !read_size(r, "attention.head_count_kv", m->heads, &m->kv_heads) ||
        !read_size(r, "context_length", 4096, &m->context) ||
        !read_size(r, "expert_count", 0, &m->experts) ||
        !read_size(r, "expert_used_count", 0, &m->experts_used)) {
        return 0;
    }
    if (m->layers < 1 || m->hidden < 1 || m->heads < 1 || m->kv_heads < 1 || m->context < 1 ||
        m->heads % m->kv_heads != 0) {
        return refuse(r->why, "%d layers, %d wide, %d heads over %d: not a model", m->layers,
                      m->hidden, m->heads, m->kv_heads);
    }
    if (m->experts > 0 && (m->experts_used < 1 || m->experts_used > m->experts)) {
        return refuse(r->why, "%d of %d experts a token", m->experts_used, m->experts);
    }
    if (!read_size(r, "attention.key_length", m->hidden / m->heads, &m->head_dim) ||
        !read_size(r, "rope.dimension_count", m->head_dim, &m->rotary_dims)) {
        return 0;
    }
    {
        int32_t value_dim;
        if (!read_size(r, "attention.value_length", m->head_dim, &value_dim)) {
            return 0;
        }
        if (value_dim != m->head_dim) {
            return refuse(r->why, "keys have %d dimensions a head, values %d; they must agree",
                          m->head_dim, value_dim);
        }
    }
    if (m->rotary_dims < 2 || m->rotary_dims % 2 != 0 || m->rotary_dims > m->head_dim) {
        return refuse(r->why, "%d rotary dimensions in a head of %d", m->rotary_dims, m->head_dim);
    }
    if (m->experts > 0 && is_family(m, "qwen3moe")) {
        if (!read_size(r, "expert_feed_forward_length", -1, &m->inter)) {
            return 0;
        }
    } else if (!read_size(r, "feed_forward_length", -1, &m->inter)) {
        return 0;
    }
    read_float(r, "attention.layer_norm_rms_epsilon", &epsilon);
    m->norm_epsilon = epsilon;
    m->rotary_base = 10000.0f;
    read_float(r, "rope.freq_base", &m->rotary_base);
    m->rotary_scale = 1.0f;
    if (gguf_string(m->file, key_of(m, "rope.scaling.type", key), &scaling, &length)) {
        if (length == 6 && memcmp(scaling, "linear", 6) == 0) {
            read_float(r, "rope.scaling.factor", &factor);
            m->rotary_scale = 1.0f / factor;
        } else if (!(length == 4 && memcmp(scaling, "none", 4) == 0)) {
            return refuse(r->why, "rotary scaling '%.*s'; this engine has linear alone",
                          (int)(length < 32 ? length : 32), scaling);
        }
    }
    m->attention_scale = 1.0f / sqrtf((float)m->head_dim);
    m->embedding_scale = 1.0f;
    m->glu = OPREG_GLU_SILU;
    m->rotary_halves = !is_family(m, "llama");
    return 1;
}

/* Gemma 3: five local layers, then a global one; the file may say another rhythm. */
static int read_gemma(reading *r) {
    model *m = r->m;
    int32_t pattern = 0;
    m->glu = OPREG_GLU_GELU_TANH;
    m->embedding_scale = sqrtf((float)m->hidden);
    if (m->layers == 62) { /* the 27B model alone scales by its width */
        m->attention_scale = 1.0f / sqrtf((float)(m->hidden / m->heads));
    }
    read_float(r, "final_logit_softcapping", &m->logit_cap);
    m->local_base = 10000.0f;
    read_float(r, "rope.freq_base_swa", &m->local_base);
    if (!read_size(r, "attention.sliding_window", 0, &m->window) ||
        !read_size(r, "attention.sliding_window_pattern", 6, &pattern)) {
        return 0;
    }
    for (int32_t i = 0; i < m->layers; i++) {
        m->layer[i].local = m->window > 0 && pattern > 0 && i % pattern < pattern - 1;
    }
    return 1;
}

static int find_layer(reading *r, int32_t index) {
    model *m = r->m;
    model_layer *layer = &m->layer[index];
    int64_t q = (int64_t)m->heads * m->head_dim, kv = (int64_t)m->kv_heads * m->head_dim;
    struct {
        const char *name;
        const gguf_tensor **out;
        int64_t k, n, experts;
        int needed;
    } rows[] = {
        {"attn_norm.weight", &layer->attn_norm, m->hidden, 1, 1, 1},
        {"attn_q.weight", &layer->q, m->hidden, q, 1, 1},
        {"attn_k.weight", &layer->k, m->hidden, kv, 1, 1},
        {"attn_v.weight", &layer->v, m->hidden, kv, 1, 1},
        {"attn_q.bias", &layer->q_bias, q, 1, 1, 0},
        {"attn_k.bias", &layer->k_bias, kv, 1, 1, 0},
        {"attn_v.bias", &layer->v_bias, kv, 1, 1, 0},
        {"attn_output.weight", &layer->out, q, m->hidden, 1, 1},
        {"attn_output.bias", &layer->out_bias, m->hidden, 1, 1, 0},
        {"attn_q_norm.weight", &layer->q_norm, m->head_dim, 1, 1, 0},
        {"attn_k_norm.weight", &layer->k_norm, m->head_dim, 1, 1, 0},
        {"post_attention_norm.weight", &layer->attn_post_norm, m->hidden, 1, 1, 0},
        {"post_ffw_norm.weight", &layer->ffn_post_norm, m->hidden, 1, 1, 0},
        {"ffn_norm.weight", &layer->ffn_norm, m->hidden, 1, 1, 1},
        {"ffn_gate.weight", &layer->gate, m->hidden, m->inter, 1, m->experts == 0},
        {"ffn_up.weight", &layer->up, m->hidden, m->inter, 1, m->experts == 0},
        {"ffn_down.weight", &layer->down, m->inter, m->hidden, 1, m->experts == 0},
        {"ffn_gate_inp.weight", &layer->router, m->hidden, m->experts, 1, m->experts > 0},
        {"ffn_gate_exps.weight", &layer->gate, m->hidden, m->inter, m->experts, m->experts > 0},
        {"ffn_up_exps.weight", &layer->up, m->hidden, m->inter, m->experts, m->experts > 0},
        {"ffn_down_exps.weight", &layer->down, m->inter, m->hidden, m->experts, m->experts > 0},
    };
    size_t dense = 14, router = 17;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char name[128];
        snprintf(name, sizeof name, "blk.%d.%s", (int)index, rows[i].name);
        if (i >= (m->experts > 0 ? dense : router) && !rows[i].needed) {
            continue; /* of the other kind of layer */
        }
        if (!(rows[i].needed
                  ? need_tensor(r, name, rows[i].k, rows[i].n, rows[i].experts, rows[i].out)
                  : find_tensor(r, name, rows[i].k, rows[i].n, rows[i].experts, rows[i].out))) {
            return 0;
        }
    }
    return 1;
}

static int find_tensors(reading *r) {
    model *m = r->m;
    const gguf_tensor *embedding = gguf_tensor_named(m->file, "token_embd.weight");
    if (!embedding || embedding->ne[1] < 1 || embedding->ne[1] > MOST) {
        return refuse(r->why, "the file has no tensor 'token_embd.weight' with 1..%d rows", MOST);
    }
    m->vocab = (int32_t)embedding->ne[1];
    if (!need_tensor(r, "token_embd.weight", m->hidden, m->vocab, 1, &m->embedding) ||
        !need_tensor(r, "output_norm.weight", m->hidden, 1, 1, &m->output_norm) ||
        !find_tensor(r, "output.weight", m->hidden, m->vocab, 1, &m->output) ||
        !find_tensor(r, "rope_freqs.weight", m->rotary_dims / 2, 1, 1, &m->rotary_factors)) {
        return 0;
    }
    if (!m->output) {
        m->output = m->embedding;
    }
    for (int32_t i = 0; i < m->layers; i++) {
        if (!find_layer(r, i)) {
            return 0;
        }
    }
    if (r->used != gguf_num_tensors(m->file)) { /* to ignore one would be to print garbage */
        return refuse(r->why, "the file has %zu tensors, of which this engine knows %zu",
                      gguf_num_tensors(m->file), r->used);
    }
    return 1;
}

static int read_family(reading *r) {
    static const char *const families[] = {"llama", "qwen2", "qwen3", "gemma3", "qwen3moe"};
    const char *name;
    uint64_t length;
    if (!gguf_string(r->m->file, "general.architecture", &name, &length)) {
        return refuse(r->why, "the file has no 'general.architecture'");
    }
    for (size_t i = 0; i < sizeof families / sizeof families[0]; i++) {
        if (length == strlen(families[i]) && memcmp(name, families[i], (size_t)length) == 0) {
            snprintf(r->m->family, sizeof r->m->family, "%s", families[i]);
            return 1;
        }
    }
    return refuse(r->why, "family '%.*s' is not one of llama qwen2 qwen3 gemma3 qwen3moe",
                  (int)(length < 32 ? length : 32), name);
}

int model_open(const char *path, model *out, reason *why) {
    reading r = {out, why, 0};
    gguf_error error;
    memset(out, 0, sizeof *out);
    out->file = gguf_open(path, type_known, NULL, &error);
    if (!out->file) {
        return refuse(why, "%s: at byte %" PRIu64 ": %s", path, error.offset, error.text);
    }
    if (!read_family(&r) || !read_sizes(&r)) {
        model_close(out);
        return 0;
    }
    out->layer = calloc((size_t)out->layers, sizeof *out->layer);
    if (!out->layer) {
        refuse(why, "no memory for %d layers", out->layers);
    } else if ((!is_family(out, "gemma3") || read_gemma(&r)) && find_tensors(&r)) {
        return 1;
    }
    model_close(out);
    return 0;
}

void model_close(model *m) {
    gguf_close(m->file);
    free(m->layer);
    memset(m, 0, sizeof *m);
}
