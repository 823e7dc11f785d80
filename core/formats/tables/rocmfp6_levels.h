/* SPDX-License-Identifier: MIT
 * rocmfp6_levels.h - written by make_tables.py from rocmfp6_levels.csv; sources there. */
#ifndef OPREG_TABLE_ROCMFP6_LEVELS
#define OPREG_TABLE_ROCMFP6_LEVELS

#include "formats/format.h"

OPREG_TABLE int8_t rocmfp6_levels[64] = {
    0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25,
    26, 27, 28, 29, 30, 31, 0, -1, -2, -3, -4, -5, -6, -7, -8, -9, -10, -11, -12, -13, -14, -15,
    -16, -17, -18, -19, -20, -21, -22, -23, -24, -25, -26, -27, -28, -29, -30, -31,
};

#endif /* OPREG_TABLE_ROCMFP6_LEVELS */
