/* SPDX-License-Identifier: MIT
 * attention.h - what the cases of attention note for their oracle. */
#ifndef OPREG_KIT_ATTENTION_H
#define OPREG_KIT_ATTENTION_H

#include "job.h"

#define ATTENTION_SEQS 8

typedef struct attention_notes {
    int32_t lengths[ATTENTION_SEQS]; /* clamped                                                     */
    int32_t queries[ATTENTION_SEQS], first[ATTENTION_SEQS + 1];
    int32_t pages[ATTENTION_SEQS]; /* index of the first table entry                                */
} attention_notes;

/* The block of a position, -1 where the table's entry is out of range. */
int32_t attention_block(const job *of, const attention_notes *notes, int32_t seq, int32_t position);

/* 1 when some query token of the request may see the position. */
int attention_visible(const opreg_paged_attn_decode *p, const attention_notes *notes, int32_t seq,
                      int32_t position);

/* 1 when query token `query` (0.. of its request) may. */
int attention_sees(const opreg_paged_attn_decode *p, const attention_notes *notes, int32_t seq,
                   int32_t query, int32_t position);

#endif /* OPREG_KIT_ATTENTION_H */
