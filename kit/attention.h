/* SPDX-License-Identifier: MIT
 * attention.h - what the cases of attention note for their oracle. */
#ifndef OPREG_KIT_ATTENTION_H
#define OPREG_KIT_ATTENTION_H

#include "job.h"

#define ATTENTION_SEQS   136 /* most requests and query tokens of a case */
#define ATTENTION_TOKENS 272

typedef struct attention_notes {
    int32_t lengths[ATTENTION_SEQS]; /* clamped                                                     */
    int32_t pages[ATTENTION_SEQS];   /* index of the first table entry                              */
    int32_t owner[ATTENTION_TOKENS];  /* the request of a query token; -1: none, a zero row         */
    int32_t behind[ATTENTION_TOKENS]; /* query tokens of the request after this one                 */
} attention_notes;

/* What is wrong with a case: bits. */
#define ATTENTION_BAD_LENS     1u /* lengths or last_page_len negative, 0 or too large               */
#define ATTENTION_BAD_INDPTR   2u /* csr: negative, beyond the indices or descending                 */
#define ATTENTION_BAD_Q_INDPTR 4u /* negative, beyond the tokens or descending                       */

void attention_spoil(random_state *random, uint32_t how, job *of);

/* What the integers of a job, whatever they are, mean. */
void attention_notes_read(job *of, attention_notes *notes);

/* The block of a position, -1 where the table's entry is out of range. */
int32_t attention_block(const job *of, const attention_notes *notes, int32_t seq, int32_t position);

/* 1 when some query token of the request may see the position. */
int attention_visible(const opreg_paged_attn_decode *p, const attention_notes *notes, int32_t seq,
                      int32_t position);

/* 1 when the query token, which has an owner, may. */
int attention_sees(const opreg_paged_attn_decode *p, const attention_notes *notes, int32_t token,
                   int32_t position);

#endif /* OPREG_KIT_ATTENTION_H */
