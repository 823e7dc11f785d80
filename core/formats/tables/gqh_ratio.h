/* SPDX-License-Identifier: MIT
 * gqh_ratio.h - written by make_tables.py from gqh_ratio.csv; sources there. */
#ifndef OPREG_TABLE_GQH_RATIO
#define OPREG_TABLE_GQH_RATIO

#include "formats/format.h"

OPREG_TABLE float gqh_ratio[16] = {
    0x0p0f, 0x1.111112p-4f, 0x1.111112p-3f, 0x1.99999ap-3f, 0x1.111112p-2f, 0x1.555556p-2f,
    0x1.99999ap-2f, 0x1.dddddep-2f, 0x1.111112p-1f, 0x1.333334p-1f, 0x1.555556p-1f, 0x1.777778p-1f,
    0x1.99999ap-1f, 0x1.bbbbbcp-1f, 0x1.dddddep-1f, 0x1p0f,
};

#endif /* OPREG_TABLE_GQH_RATIO */
