/* SPDX-License-Identifier: MIT
 * seeds.h - cases that once found a fault: run whatever the seed of the run. */
#ifndef OPREG_KIT_SEEDS_H
#define OPREG_KIT_SEEDS_H

#include "cases.h"

typedef struct kept_case {
    case_key key;
    const char *fault; /* what it found, in words                                                   */
} kept_case;

extern const kept_case kept_cases[];
extern const size_t kept_case_count;

/* How many are kept of an operator and format. */
uint32_t kept_cases_of(opreg_op op, uint32_t format);

#endif /* OPREG_KIT_SEEDS_H */
