/* SPDX-License-Identifier: MIT
 * gqh.h - what GQH3, GQH2_H and GQH4 share: a superblock scale, and a 4-bit ratio for each 16
 * weights. */
#ifndef OPREG_FORMAT_GQH_H
#define OPREG_FORMAT_GQH_H

#include "formats/dot.h"
#include "formats/scales.h"
#include "formats/tables/gqh_ratio.h"

/* Scale of the 16 weights s: the e4m3 byte times the tensor scale, rounded, then times the ratio.
 */
OPREG_FN float gqh_scale(const uint8_t *block, int s, const opreg_side *side) {
    float d = e4m3_signed(block[0]) * side->tensor_scale;
    return d * gqh_ratio[block[1 + (s >> 1)] >> 4 * (s & 1) & 15];
}

#if !OPREG_ON_DEVICE
OPREG_FN const char *gqh_invalid(const uint8_t *block) {
    return (block[0] & 127u) == 127u ? "scale byte is an e4m3 NaN" : NULL;
}
#endif

#endif /* OPREG_FORMAT_GQH_H */
