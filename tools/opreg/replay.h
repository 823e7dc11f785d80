/* SPDX-License-Identifier: MIT
 * replay.h - a replay file of the library's shadow: one call with its inputs and weights. */
#ifndef OPREG_TOOLS_REPLAY_H
#define OPREG_TOOLS_REPLAY_H

#include <stdio.h>

#include "opreg/opreg.h"
#include "options.h"

#define REPLAY_INPUTS 16

typedef struct replay_input {
    int is_weight;
    uint32_t index, format, dialect;
    uint64_t bytes, side_bytes;
    int64_t experts, n, k;
    double tensor_scale;
} replay_input;

typedef struct replay {
    FILE *file; /* at the first input's bytes                                                     */
    opreg_op op;
    _Alignas(16) unsigned char problem[512];
    char text[2048], kernel[128], reference[128], device[64], difference[1024];
    uint32_t count;
    replay_input inputs[REPLAY_INPUTS];
} replay;

/* Reads the lines and checks that the file has the bytes they announce.  0 after a line on stderr. */
int replay_open(const command *self, const char *path, replay *out);
void replay_close(replay *r);

/* A problem of one line may ask for any memory: 1 where the file has every input and weight of its
 * problem once, of exactly their size, and outputs are no larger than those account for; else 0, with
 * the reason in opreg_last_error.  To be asked before anything is allocated for the call. */
int replay_accounts_for_call(const replay *r, const opreg_registry *reg);

/* The next bytes of the file; 0 when they are not there. */
int replay_read(replay *r, void *out, uint64_t bytes);

#endif /* OPREG_TOOLS_REPLAY_H */
