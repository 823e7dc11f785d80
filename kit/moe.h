/* SPDX-License-Identifier: MIT
 * moe.h - what the cases of the grouped operators note for their oracle. */
#ifndef OPREG_KIT_MOE_H
#define OPREG_KIT_MOE_H

#include "job.h"

typedef enum routing_kind {
    ROUTING_PLAIN = 0,
    ROUTING_ONE,          /* all entries on one expert                                              */
    ROUTING_SOME_INVALID, /* ids -1, experts, INT32_MAX, INT32_MIN among valid ones                 */
    ROUTING_ALL_INVALID,
    ROUTING_COUNTS,   /* the header's counts are over the capacities                                */
    ROUTING_BAD_DST,  /* some destinations are out of range: those entries are skipped              */
    ROUTING_BAD_TOKEN, /* some tokens are out of range: zero rows                                   */
    ROUTING_BAD_EXPERT, /* some groups name no expert: zero rows                                    */
    ROUTING_BAD_START, /* a group starts at a negative entry, beyond the last or before the one ahead */
    ROUTING_FEWER,     /* the header counts fewer entries than the groups hold                      */
    ROUTING_SAME_DST   /* some entries name the destination of another                              */
} routing_kind;

#define MOE_ZERO    (-1) /* a zero row                                                              */
#define MOE_UNNAMED (-2) /* no entry names it: not written; of moe_ffn, zero                        */
#define MOE_TWICE   (-3) /* several entries name it: it may hold anything                           */

/* By destination row: the row of x and the expert, or one of the above in both. */
typedef struct moe_notes {
    int64_t rows;
    int64_t *x_of, *expert_of; /* [rows], in the same allocation                                    */
} moe_notes;

/* Sets the route buffer of a job and leaves its notes in out->extra. */
int moe_route_make(random_state *random, job *out, uint32_t index, uint32_t routing, int64_t tokens,
                   int32_t top_k, int32_t experts, int by_token);

/* Spoils what a reader must not trust. */
void moe_route_spoil(random_state *random, uint32_t routing, const opreg_route_layout *layout,
                     int64_t tokens, int32_t experts, uint8_t *route);

/* What a route, whoever wrote it, says of each row; notes->rows is set. */
void moe_notes_read(const opreg_route_layout *layout, uint8_t *route, int64_t tokens,
                    int32_t experts, int by_token, moe_notes *notes);

/* Experts without entries must not matter. */
int moe_weights_loose(job_weight *weight, const moe_notes *notes);

#endif /* OPREG_KIT_MOE_H */
