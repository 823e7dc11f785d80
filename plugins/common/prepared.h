/* SPDX-License-Identifier: MIT
 * prepared.h - the prepared weight layout "rows32", in C and on the device.
 *
 * The rows of an expert form tiles of 32 (the last one is filled up with zero rows).  Along a row,
 * `blocks` stored blocks form a group (the last one is filled up with zeros); its bytes are reordered
 * so that equal fields of its blocks lie side by side, largest first.  A group of one tile is
 * contiguous: 16-byte pieces of the reordered bytes, each for the 32 rows side by side (512 bytes),
 * then one piece each of 8, 4, 2 and 1 bytes as the rest needs.  So lane = row reads a group with
 * coalesced 16-byte loads.  Tile t, group u of an expert begins at (t * groups + u) * 32 *
 * group_bytes. */
#ifndef OPREG_PLUGINS_PREPARED_H
#define OPREG_PLUGINS_PREPARED_H

#include <stdint.h>

#define PREPARED_ROWS32 1u /* layout id */
#define PREPARED_FIELDS 5

typedef struct prepared_shape {
    uint32_t block_bytes, blocks; /* stored bytes of a block; blocks of a group                    */
    uint32_t fields;
    uint16_t offset[PREPARED_FIELDS], length[PREPARED_FIELDS]; /* of each field in the stored block */
} prepared_shape;

#if defined(__HIP__)
#define PREPARED_FN static inline __attribute__((device, always_inline))
#elif defined(__CUDACC__)
#define PREPARED_FN static __device__ __forceinline__
#else
#define PREPARED_FN static inline
#endif

/* Where byte i of block `block` of a group goes in the reordered group. */
PREPARED_FN uint32_t prepared_position(const prepared_shape *shape, uint32_t block, uint32_t i) {
    uint32_t base = 0;
    for (uint32_t f = 0; f < shape->fields; f++) {
        uint32_t within = i - shape->offset[f];
        if (within < shape->length[f]) {
            return base + block * shape->length[f] + within;
        }
        base += shape->length[f] * shape->blocks;
    }
    return 0;
}

/* Where byte p of row r's reordered group goes in the tile's group. */
PREPARED_FN uint32_t prepared_offset(uint32_t group_bytes, uint32_t r, uint32_t p) {
    uint32_t done = group_bytes & ~15u;
    if (p < done) {
        return (p / 16u) * 512u + r * 16u + p % 16u;
    }
    for (uint32_t piece = 8u; piece > 0u; piece >>= 1) {
        if (group_bytes & piece) {
            if (p < done + piece) {
                return done * 32u + r * piece + (p - done);
            }
            done += piece;
        }
    }
    return 0;
}

#endif /* OPREG_PLUGINS_PREPARED_H */
