/* SPDX-License-Identifier: MIT
 * engine.h - decodes a model: tokens in, logits out, for several sequences at once. */
#ifndef DECODE_ENGINE_H
#define DECODE_ENGINE_H

#include "model.h"
#include "opreg/opreg.h"

typedef struct engine engine;

typedef struct engine_options {
    int32_t sequences; /* that may be alive at once                                              */
    int32_t positions; /* of all sequences together, in pages of 32                              */
    int32_t batch;     /* most tokens of one engine_decode                                       */
    uint32_t level;    /* least opreg_level of every plan: OPREG_LEVEL_ANY takes what is fastest */
    uint32_t no_graphs;         /* 1: launch every kernel, even where a pass could be captured    */
    const opreg_device *device; /* of the registry; null: the CPU                                 */
} engine_options;

/* Tokens that follow what a sequence holds.  Several of one sequence are a prompt, or a draft that
 * is verified: each has the logits that it would have alone. */
typedef struct engine_part {
    int32_t sequence;
    const int32_t *tokens;
    int32_t count;
    int32_t logits; /* of the last so many of these tokens: 0..count                              */
} engine_part;

/* The model and the registry are borrowed until engine_close.  The registry chooses the variants:
 * what is switched on there. */
engine *engine_open(const model *m, opreg_registry *registry, const engine_options *options,
                    reason *why);
void engine_close(engine *e); /* null is fine */

/* Decodes the parts together.  *logits gets the rows asked for, [vocab] each, in order; it is valid
 * until the next call.  0 with the reason: the sequences are as before. */
int engine_decode(engine *e, const engine_part *parts, int32_t num_parts, const float **logits,
                  reason *why);

/* The same, but *ids gets the largest logit's id of each row (sample_greedy's choice), and the logits
 * stay on the device. */
int engine_choose(engine *e, const engine_part *parts, int32_t num_parts, const int32_t **ids,
                  reason *why);

int32_t engine_length(const engine *e, int32_t sequence);

/* Forgets what follows the first length tokens: a rejected draft, or with 0 the sequence. */
void engine_truncate(engine *e, int32_t sequence, int32_t length);

/* Variants in use, for a report: the name of plan i, null past the end. */
const char *engine_kernel(const engine *e, size_t index);

#endif /* DECODE_ENGINE_H */
