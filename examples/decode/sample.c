/* SPDX-License-Identifier: MIT
 * sample.c - greedy choice, and draws with a fixed generator and a fixed exp. */
#include "sample.h"

#include "canonical.h"

int32_t sample_greedy(const float *logits, int32_t vocab) {
    int32_t best = 0;
    for (int32_t i = 1; i < vocab; i++) {
        best = logits[i] > logits[best] ? i : best;
    }
    return best;
}

/* Uniform in [0, 1): splitmix64. */
static double draw(uint64_t *state) {
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return (double)((z ^ z >> 31) >> 11) * 0x1p-53;
}

int32_t sample(const float *logits, int32_t vocab, float temperature, uint64_t *state) {
    int32_t best = sample_greedy(logits, vocab);
    double total = 0.0, aim;
    if (!(temperature > 0.0f)) {
        return best;
    }
    for (int32_t i = 0; i < vocab; i++) {
        total += (double)canonical_exp((logits[i] - logits[best]) / temperature);
    }
    aim = draw(state) * total;
    for (int32_t i = 0; i < vocab; i++) {
        aim -= (double)canonical_exp((logits[i] - logits[best]) / temperature);
        if (aim < 0.0) {
            return i;
        }
    }
    return best;
}

double sample_log_probability(const float *logits, int32_t vocab, int32_t id) {
    double max = logits[sample_greedy(logits, vocab)], total = 0.0;
    for (int32_t i = 0; i < vocab; i++) {
        total += exp(logits[i] - max);
    }
    return logits[id] - max - log(total);
}
