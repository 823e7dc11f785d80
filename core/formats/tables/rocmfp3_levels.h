/* SPDX-License-Identifier: MIT
 * rocmfp3_levels.h - written by make_tables.py from rocmfp3_levels.csv; sources there. */
#ifndef OPREG_TABLE_ROCMFP3_LEVELS
#define OPREG_TABLE_ROCMFP3_LEVELS

#include "formats/format.h"

OPREG_TABLE int8_t rocmfp3_levels[8] = {
    0, 1, 2, 4, 0, -1, -2, -4,
};

#endif /* OPREG_TABLE_ROCMFP3_LEVELS */
