/* SPDX-License-Identifier: MIT
 * model.h - a model as its GGUF file describes it: sizes, families' differences, tensors. */
#ifndef DECODE_MODEL_H
#define DECODE_MODEL_H

#include <stdint.h>

#include "gguf.h"
#include "reason.h"

/* One decoder layer.  Pointers into the file; null where the family has none. */
typedef struct model_layer {
    const gguf_tensor *attn_norm, *q, *k, *v, *q_bias, *k_bias, *v_bias, *out, *out_bias;
    const gguf_tensor *q_norm, *k_norm;             /* of a head: qwen3, gemma3                  */
    const gguf_tensor *attn_post_norm, *ffn_post_norm; /* gemma3                                */
    const gguf_tensor *ffn_norm, *gate, *up, *down; /* with experts: [k, n, experts]             */
    const gguf_tensor *router;                      /* null in a dense layer                     */
    int local; /* sliding window, and the rotary base of local layers */
} model_layer;

typedef struct model {
    gguf *file;
    char family[16];
    int32_t layers, hidden, inter, heads, kv_heads, head_dim, vocab, context;
    int32_t rotary_dims; /* of a head, from its start                                            */
    int rotary_halves;   /* 1: pairs (i, i + dims/2); 0: pairs (2i, 2i + 1)                      */
    float rotary_base, rotary_scale;         /* position * scale / base^(2i/dims)                */
    float local_base;                        /* of local layers, whose scale is 1                */
    const gguf_tensor *rotary_factors;       /* f32 [dims/2] that divide the angles, or null     */
    int32_t window;                          /* of local layers; 0: none                         */
    int32_t experts, experts_used;           /* 0: dense                                         */
    float norm_epsilon, attention_scale, embedding_scale, logit_cap;
    uint32_t glu; /* opreg_glu */
    const gguf_tensor *embedding, *output_norm, *output;
    model_layer *layer;
} model;

/* Opens the families llama, qwen2, qwen3, gemma3, qwen3moe and llama with experts.  0 with the
 * reason for everything else, also for a tensor that this engine would not use. */
int model_open(const char *path, model *out, reason *why);
void model_close(model *m); /* of an opened model, or zeros */

#endif /* DECODE_MODEL_H */
