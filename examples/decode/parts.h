/* SPDX-License-Identifier: MIT
 * parts.h - what an engine is made of, for engine.c (opening) and forward.c (decoding). */
#ifndef DECODE_PARTS_H
#define DECODE_PARTS_H

#include "engine.h"
#include "graphs.h"
#include "operators.h"

/* Vectors are f32 on the device; null where the family has none. */
typedef struct layer_weights {
    matrix q, k, v, out, gate, up, down, router;
    float *attn_norm, *q_bias, *k_bias, *v_bias, *out_bias, *q_norm, *k_norm, *attn_post_norm;
    float *ffn_norm, *ffn_post_norm;
} layer_weights;

/* cos and sin of the angle of pair i at a position: [positions, pairs] each, on the device. */
typedef struct rotary {
    int32_t pairs;
    float *cosines, *sines;
} rotary;

/* Where the tokens of one pass belong: all that a pass sends to the device, in one copy. */
typedef struct placement_arrays {
    int64_t *places;                        /* [batch], of the first head of each token in a cache */
    int32_t *ids, *positions;               /* [batch], of each token                              */
    int32_t *logit_tokens;                  /* [batch], tokens whose logits are wanted             */
    int32_t *lengths, *starts, *table;      /* of attention's requests                             */
} placement_arrays;

typedef struct placement {
    pass_shape shape;
    void *host, *device;         /* the bytes of both */
    placement_arrays at, seen;   /* in host memory, and the same as the device sees them           */
} placement;

struct engine {
    const model *m;
    engine_options options;
    machine on;
    plans p;
    graphs captured;
    cache kv;
    layer_weights *layers;
    matrix output;
    opreg_weight *embedding;
    float *output_norm;
    rotary global, local;
    placement place;
    input in;
    float *x, *normed, *q, *k, *v, *attended, *delta, *inner, *spare, *router;
    experts moe;
    float *logits; /* on the device */
    int32_t *choices;
    int64_t logits_capacity; /* rows */
    float *host_logits;
    int32_t *host_choices;
};

#define ENGINE_PAGE 32 /* positions                                                            */
#define ENGINE_MAX_Q 8 /* tokens of one attention request                                      */

#endif /* DECODE_PARTS_H */
