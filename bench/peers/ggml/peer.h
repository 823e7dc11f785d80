/* SPDX-License-Identifier: MIT
 * peer.h - what the comparison's files share: arms that are timed in turn, and their figures. */
#ifndef PEER_H
#define PEER_H

#include <stdint.h>

#include <opreg/opreg.h>

typedef struct options {
    int threads;
    const char
        *variant; /* part of the names of opreg's variants to run: "avx2", "avx512", "" all */
    int rounds;
    int amx; /* 1: ggml may use AMX tiles, which opreg has no variant for */
} options;

/* One way to compute a problem.  run computes with copy set of the inputs. */
typedef struct arm {
    char name[64];
    void (*run)(void *state, int set);
    void *state;
    double *us; /* [rounds] */
    double least, median, spread;
} arm;

/* Times the arms in turn, round by round over the sets, each after some runs that are not timed. */
void time_arms(arm *arms, int count, int sets, int rounds);

/* A line an arm: ratio is the fastest ggml arm's time over this one's. */
void print_arms(const char *problem, const arm *arms, int count, double bytes);

float gaussian(void); /* seeded by the first call */
void stop(const char *format, ...);

opreg_device cpu_device(opreg_registry *reg);
void compare_matmul(opreg_registry *reg, const options *o);
void compare_attention(opreg_registry *reg, const options *o);

#endif /* PEER_H */
