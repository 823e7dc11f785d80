/* SPDX-License-Identifier: MIT
 * mix.h - what the two MIX formats share: meta bytes, and codebooks that come from outside the
 * block. */
#ifndef OPREG_FORMAT_MIX_H
#define OPREG_FORMAT_MIX_H

#include "formats/rocmfp.h"

/* Mode 0: the whole meta byte is the scale.  Mode 1: seven bits are, bit 7 chooses the codebook. */
OPREG_FN float mix_scale(uint32_t meta, const opreg_side *side) {
    return ue4m3_half(side->mode ? meta & 127u : meta);
}

/* Both books of a mode 0 tensor hold the fixed levels. */
OPREG_FN uint32_t mix_book(uint32_t meta, const opreg_side *side) {
    return side->mode ? meta >> 7 : 0u;
}

#if !OPREG_ON_DEVICE
OPREG_FN const char *mix_invalid(uint32_t first, uint32_t second, const opreg_side *side) {
    if (side->mode > 1u) {
        return "side data has a mode above 1";
    }
    if (side->mode == 1u) {
        return (first & 127u) == 127u || (second & 127u) == 127u
                   ? "scale bits of a meta byte are 0x7f"
                   : NULL;
    }
    return rocmfp_scales_invalid(first, second);
}
#endif

#endif /* OPREG_FORMAT_MIX_H */
