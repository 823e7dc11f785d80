/* SPDX-License-Identifier: MIT
 * kvalues_fp4.h - written by make_tables.py from kvalues_fp4.csv; sources there. */
#ifndef OPREG_TABLE_KVALUES_FP4
#define OPREG_TABLE_KVALUES_FP4

#include "formats/format.h"

OPREG_TABLE int8_t kvalues_fp4[16] = {
    0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12,
};

#endif /* OPREG_TABLE_KVALUES_FP4 */
