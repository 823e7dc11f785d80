/* SPDX-License-Identifier: MIT
 * random.c - a 64-bit mixing counter generator. */
#include "random.h"

#include <string.h>

random_state random_start(uint64_t seed, uint64_t index) {
    random_state random = {seed * 0x9e3779b97f4a7c15u + index * 0xd1342543de82ef95u};
    (void)random_next(&random);
    return random;
}

uint64_t random_next(random_state *random) {
    uint64_t z = random->word += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

uint32_t random_below(random_state *random, uint32_t count) {
    return (uint32_t)(((random_next(random) >> 32) * count) >> 32);
}

double random_unit(random_state *random) {
    return (double)(random_next(random) >> 11) * 0x1p-53;
}

float random_gauss(random_state *random) {
    double sum = 0;
    for (int i = 0; i < 6; i++) {
        uint64_t word = random_next(random);
        sum += (double)(uint32_t)word * 0x1p-32 + (double)(uint32_t)(word >> 32) * 0x1p-32;
    }
    return (float)(sum - 6.0);
}

void random_bytes(random_state *random, void *out, uint64_t bytes) {
    uint8_t *p = out;
    while (bytes > 0) {
        uint64_t word = random_next(random);
        uint64_t take = bytes < sizeof word ? bytes : sizeof word;
        memcpy(p, &word, take);
        p += take;
        bytes -= take;
    }
}

void random_shuffle(random_state *random, int32_t *values, int32_t count) {
    for (int32_t i = count - 1; i > 0; i--) {
        int32_t j = (int32_t)random_below(random, (uint32_t)i + 1u);
        int32_t t = values[i];
        values[i] = values[j];
        values[j] = t;
    }
}
