/* SPDX-License-Identifier: MIT
 * side.h - decodes what a weight carries outside its blocks into one opreg_side per expert.
 *
 * The bytes of opreg_weight_desc.side, little-endian, by format; where two sizes are listed, the
 * size says which form it is, and they never meet:
 *   GQH3, GQH2_H, GQH4   5 bytes: f32 tensor_scale (finite, above 0), u8 grid_code (0..11)
 *   ROCMFP2_MIX, K = 4   E * 17 bytes: E modes (0 or 1), then E * 2 * K bf16, book 0 before book 1
 *   ROCMFP3_MIX, K = 8   E * 33 bytes: the same; or
 *                        E * 34 bytes: with E rotation bytes, all 0, after the modes
 *   both MIX             4 + 4 * K bytes, one codebook for every expert: u8 mode, 3 bytes that are
 *                        not read, 2 * K bf16
 *   every other format   none
 * E is opreg_weight_desc.experts.  Levels must be finite, and each book of a mode 1 strictly
 * ascending.  These are the bytes of one entry of the wires in sidecar.h, as they are. */
#ifndef OPREG_FORMATS_SIDE_H
#define OPREG_FORMATS_SIDE_H

#include "opreg/opreg_plugin.h"

/* Decodes the side data, dialect and tensor scale of a weight.  rows has desc->experts records, or
 * is null to check only; it is written on OPREG_OK only.  A record's dialect is the reading in
 * force: where the format has several, never OPREG_DIALECT_DEFAULT.  E_ARG, with the reason in
 * opreg_last_error: an unknown format, a dialect that is not the format's, a tensor scale where
 * there is none, or bad side data. */
opreg_status side_decode(const opreg_weight_desc *desc, opreg_side *rows);

/* The reading that a dialect means for a format, the default resolved.  *known is 0 when the format
 * has no such dialect. */
uint32_t side_dialect(uint32_t format, uint32_t dialect, int *known);

#endif /* OPREG_FORMATS_SIDE_H */
