/* SPDX-License-Identifier: MIT
 * kvalues_iq4nl.h - written by make_tables.py from kvalues_iq4nl.csv; sources there. */
#ifndef OPREG_TABLE_KVALUES_IQ4NL
#define OPREG_TABLE_KVALUES_IQ4NL

#include "formats/format.h"

OPREG_TABLE int8_t kvalues_iq4nl[16] = {
    -127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113,
};

#endif /* OPREG_TABLE_KVALUES_IQ4NL */
