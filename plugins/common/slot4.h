/* SPDX-License-Identifier: MIT
 * slot4.h - the prepared weight layout "slot4", in C and on the device: four bits a weight for
 * formats that are stored as rows of a grid, so that no grid is read while they are multiplied.
 *
 * Rows lie one after another, a row is its blocks of 256 weights, a block is 144 bytes: 128 of
 * codes, f16 d, sixteen 4-bit scales (of 16 weights each, low nibble first), six zero bytes.
 * Weight 8 j + 2 f + h of a group of 32 is the nibble 4 f of half h of the group's word j.
 * A code of IQ3_S is (15 + level) / 2, of IQ2_S the rank of its six levels; of IQ3_XXS it is the
 * magnitude's rank, plus 8 where the weight is negative. */
#ifndef OPREG_PLUGINS_SLOT4_H
#define OPREG_PLUGINS_SLOT4_H

#include <stdint.h>

#define PREPARED_SLOT4 2u /* layout id */
#define SLOT4_VALUES   256
#define SLOT4_BYTES    144
#define SLOT4_D        128
#define SLOT4_SCALES   130
#define SLOT4_THREADS  128 /* of a block that packs or unpacks */

/* Kernels of one format: a baseline, and the two ways between the layouts. */
enum slot4_kernel { SLOT4_BASELINE, SLOT4_PACK, SLOT4_UNPACK, SLOT4_KERNELS };

typedef struct slot4_args {
    uint8_t *stored, *slots;
    int64_t rows, n, blocks, stored_stride; /* rows of all experts; blocks of a row */
} slot4_args;

#endif /* OPREG_PLUGINS_SLOT4_H */
