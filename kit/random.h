/* SPDX-License-Identifier: MIT
 * random.h - the kit's seeded numbers: the same on every machine and compiler. */
#ifndef OPREG_KIT_RANDOM_H
#define OPREG_KIT_RANDOM_H

#include <stdint.h>

typedef struct random_state {
    uint64_t word;
} random_state;

/* A state for item `index` of the stream `seed`. */
random_state random_start(uint64_t seed, uint64_t index);
uint64_t random_next(random_state *random);
uint32_t random_below(random_state *random, uint32_t count); /* 0 when count is 0                     */
double random_unit(random_state *random);                     /* [0, 1)                               */
float random_gauss(random_state *random); /* sum of twelve uniforms: exact steps, no libm              */
void random_bytes(random_state *random, void *out, uint64_t bytes);
void random_shuffle(random_state *random, int32_t *values, int32_t count);

#endif /* OPREG_KIT_RANDOM_H */
