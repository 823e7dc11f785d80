/* SPDX-License-Identifier: MIT
 * cases_far.h - cases far out: one axis is as long as in a model, the others short.  A kernel that is
 * right on every edge of a tile may still be wrong in row 1120, for expert 200 or at position 5,000.
 *
 * Their indices start at CASE_FAR.  The axis goes round by index and format, so that a run with one
 * far case a format still meets every axis of an operator. */
#ifndef OPREG_KIT_CASES_FAR_H
#define OPREG_KIT_CASES_FAR_H

#include "cases.h"

#define CASE_FAR 100000u

/* Far cases of an operator: CASE_FAR .. CASE_FAR + cases_far - 1.  flags: OPREG_KIT_*. */
uint32_t cases_far(opreg_op op, uint32_t flags);

static inline int is_far(const case_key *key) { return key->index >= CASE_FAR; }

/* The shape of a far case in place of the maker's own.  step: of k (hidden), in weights. */
void far_quantize(const case_key *key, opreg_quantize_act *p);
void far_matmul(const case_key *key, int64_t step, opreg_matmul_bt_quant *p);
void far_moe(const case_key *key, int64_t step, opreg_moe_matmul *p);
void far_combine(const case_key *key, opreg_moe_combine *p);
/* The steps of hidden and of inter, in weights. */
void far_ffn(const case_key *key, int64_t hidden_step, int64_t inter_step, opreg_moe_ffn *p);
/* Pairs of a route; slots, experts and form are the maker's. */
int64_t far_pairs(const case_key *key, int32_t top_k);
int32_t far_experts(const case_key *key);

/* Attention: what is long. */
typedef enum far_axis { FAR_HEADS, FAR_SEQS, FAR_POSITIONS, FAR_PAGES, FAR_AXES } far_axis;
far_axis far_attention_axis(const case_key *key);
/* Heads, lengths and pages; the longest length goes to *length, 0 where lengths stay short.  spare:
 * pages that no request uses. */
void far_attention(const case_key *key, opreg_paged_attn_decode *p, int32_t *length, int32_t *spare);

#endif /* OPREG_KIT_CASES_FAR_H */
