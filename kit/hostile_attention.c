/* SPDX-License-Identifier: MIT
 * hostile_attention.c - lengths, page tables and token ranges that no engine should pass, and what
 * any of them means (docs/contracts.md, paged_attn_decode). */
#include <string.h>

#include "attention.h"

static int32_t *integers(job *of, uint32_t index) {
    return (int32_t *)(void *)of->bufs[index].data;
}

static int64_t clamp(int64_t value, int64_t low, int64_t high) {
    return value < low ? low : value > high ? high : value;
}

static int32_t draw_wild(random_state *random, int32_t limit) {
    const int32_t wild[] = {-1, INT32_MIN, INT32_MAX, limit + 1, 0, limit};
    return random_below(random, 4) ? wild[random_below(random, 6)]
                                   : (int32_t)random_below(random, (uint32_t)limit + 1);
}

void attention_spoil(random_state *random, uint32_t how, job *of) {
    const opreg_paged_attn_decode *p = &of->problem.attn;
    uint32_t at = random_below(random, (uint32_t)p->seqs + 1);
    if (p->seqs == 0) {
        return;
    }
    if ((how & ATTENTION_BAD_LENS) != 0) {
        int32_t limit = p->flags & OPREG_PF_CSR ? p->block_size : p->max_seq_len;
        for (int32_t s = 0; s < p->seqs; s++) {
            integers(of, OPREG_ATTN_LENS)[s] = draw_wild(random, limit);
        }
    }
    if ((how & ATTENTION_BAD_INDPTR) != 0 && (p->flags & OPREG_PF_CSR) != 0) {
        integers(of, OPREG_ATTN_INDPTR)[at] = draw_wild(random, p->table_stride);
        integers(of, OPREG_ATTN_INDPTR)[p->seqs / 2] = draw_wild(random, p->table_stride);
    }
    if ((how & ATTENTION_BAD_Q_INDPTR) != 0 && (p->flags & OPREG_PF_Q_INDPTR) != 0) {
        integers(of, OPREG_ATTN_Q_INDPTR)[at] = draw_wild(random, p->tokens);
    }
}

/* Length and first table entry of a request. */
static void read_request(job *of, int32_t seq, attention_notes *notes) {
    const opreg_paged_attn_decode *p = &of->problem.attn;
    int64_t length = integers(of, OPREG_ATTN_LENS)[seq];
    int64_t first = (int64_t)seq * p->table_stride, pages;
    if ((p->flags & OPREG_PF_CSR) != 0) {
        const int32_t *indptr = integers(of, OPREG_ATTN_INDPTR);
        first = clamp(indptr[seq], 0, p->table_stride);
        pages = clamp(indptr[seq + 1], 0, p->table_stride) - first;
        length = pages > 0 ? (pages - 1) * p->block_size + clamp(length, 0, p->block_size) : 0;
    }
    notes->lengths[seq] = (int32_t)clamp(length, 0, p->max_seq_len);
    notes->pages[seq] = (int32_t)first;
}

void attention_notes_read(job *of, attention_notes *notes) {
    const opreg_paged_attn_decode *p = &of->problem.attn;
    for (int32_t s = 0; s < p->seqs; s++) {
        read_request(of, s, notes);
    }
    for (int32_t t = 0; t < p->tokens; t++) {
        notes->owner[t] = (p->flags & OPREG_PF_Q_INDPTR) != 0 ? -1 : t;
        notes->behind[t] = 0;
    }
    /* from the last request to the first, as the first that claims a token has it */
    for (int32_t s = p->seqs - 1; (p->flags & OPREG_PF_Q_INDPTR) != 0 && s >= 0; s--) {
        int64_t first = clamp(integers(of, OPREG_ATTN_Q_INDPTR)[s], 0, p->tokens);
        int64_t last = clamp(integers(of, OPREG_ATTN_Q_INDPTR)[s + 1], 0, p->tokens);
        last = clamp(last, first, first + p->max_q);
        for (int64_t t = first; t < last; t++) {
            notes->owner[t] = s;
            notes->behind[t] = (int32_t)(last - 1 - t);
        }
    }
}
