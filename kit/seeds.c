/* SPDX-License-Identifier: MIT
 * seeds.c - the table of kept cases, from seeds.inc. */
#include "seeds.h"

#define KEEP(op, format, index, seed, fault) {{OPREG_OP_##op, format, index, 0, seed}, fault},
const kept_case kept_cases[] = {
#include "seeds.inc"
};
#undef KEEP
const size_t kept_case_count = sizeof kept_cases / sizeof kept_cases[0];

uint32_t kept_cases_of(opreg_op op, uint32_t format) {
    uint32_t count = 0;
    for (size_t i = 0; i < kept_case_count; i++) {
        count += kept_cases[i].key.op == op && kept_cases[i].key.format == format;
    }
    return count;
}
