/* SPDX-License-Identifier: MIT
 * rocmfp4_codebook.h - written by make_tables.py from rocmfp4_codebook.csv; sources there. */
#ifndef OPREG_TABLE_ROCMFP4_CODEBOOK
#define OPREG_TABLE_ROCMFP4_CODEBOOK

#include "formats/format.h"

OPREG_TABLE int8_t rocmfp4_codebook[16] = {
    0, 1, 2, 3, 4, 6, 8, 10, 0, -1, -2, -3, -4, -6, -8, -10,
};

#endif /* OPREG_TABLE_ROCMFP4_CODEBOOK */
