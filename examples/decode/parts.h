/* SPDX-License-Identifier: MIT
 * parts.h - what an engine is made of, for engine.c (opening) and forward.c (decoding). */
#ifndef DECODE_PARTS_H
#define DECODE_PARTS_H

#include "engine.h"
#include "operators.h"

typedef struct layer_weights {
    matrix q, k, v, out, gate, up, down, router;
    float *attn_norm, *q_bias, *k_bias, *v_bias, *out_bias, *q_norm, *k_norm, *attn_post_norm;
    float *ffn_norm, *ffn_post_norm;
} layer_weights;

/* cos and sin of the angle of pair i at a position: [positions, pairs] each. */
typedef struct rotary {
    int32_t pairs;
    float *cosines, *sines;
} rotary;

/* Where the tokens of one engine_decode belong. */
typedef struct placement {
    int32_t tokens, requests, max_q, logit_rows;
    int32_t *ids, *positions, *sequences; /* [batch], of each token                              */
    int32_t *logit_tokens;                /* [batch], tokens whose logits are wanted             */
    int32_t *table, *lengths, *starts;    /* of attention's requests                             */
} placement;

struct engine {
    const model *m;
    engine_options options;
    plans p;
    cache kv;
    layer_weights *layers;
    matrix output;
    float *output_norm;
    rotary global, local;
    placement place;
    input in;
    float *x, *normed, *q, *k, *v, *attended, *delta, *inner, *spare, *router;
    experts moe;
    float *logits;
    int64_t logits_capacity; /* rows */
};

#define ENGINE_PAGE 32 /* positions                                                            */
#define ENGINE_MAX_Q 8 /* tokens of one attention request                                      */

#endif /* DECODE_PARTS_H */
