/* SPDX-License-Identifier: MIT
 * sample.h - chooses the next token from logits. */
#ifndef DECODE_SAMPLE_H
#define DECODE_SAMPLE_H

#include <stdint.h>

/* The largest; of equal ones the lowest id. */
int32_t sample_greedy(const float *logits, int32_t vocab);

/* Draws from softmax(logits / temperature); temperature 0 is greedy.  *state is the generator's,
 * any number at first: the same state and logits draw the same token everywhere. */
int32_t sample(const float *logits, int32_t vocab, float temperature, uint64_t *state);

/* log softmax(logits)[id], in double. */
double sample_log_probability(const float *logits, int32_t vocab, int32_t id);

#endif /* DECODE_SAMPLE_H */
