/* SPDX-License-Identifier: MIT
 * rocmfp2_levels.h - written by make_tables.py from rocmfp2_levels.csv; sources there. */
#ifndef OPREG_TABLE_ROCMFP2_LEVELS
#define OPREG_TABLE_ROCMFP2_LEVELS

#include "formats/format.h"

OPREG_TABLE int8_t rocmfp2_levels[4] = {
    -1, 0, 1, 2,
};

#endif /* OPREG_TABLE_ROCMFP2_LEVELS */
