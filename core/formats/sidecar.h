/* SPDX-License-Identifier: MIT
 * sidecar.h - parses the side data of a whole model, which GGUF files carry as u8 arrays.
 *
 * All five wires are little-endian without padding and start with 16 bytes: 8 of magic, u32 count,
 * u32 0.  Then `count` entries, and nothing after them:
 *   GQHh1    u32 length (1..1024), name, u32 type (108, 109, 111), f32 tensor_scale, u8 grid_code,
 *            3 zero bytes
 *   DMX2s1   u32 length, name, u32 type (105, 106), u32 C, u32 K, u8 mode, 3 bytes, C * K bf16
 *   P4MIXv1  u32 layer, E, out, in, C, K; E modes, E rotations (0), E * C * K bf16: type 105
 *   GUMIXs1  u32 layer, surface, E, out, in, C, K; E modes, E * C * K bf16: type 106
 *   DMIXs1   u32 layer, class, type (105, 106), slices (1..4096), C, K; u8 mode, 3 bytes, C * K
 * bf16 C is 2; K is 8 for type 105 and 4 for 106.  The bytes are not trusted: parsing ends in OK or
 * in one error, and takes memory in proportion to the bytes that are really there. */
#ifndef OPREG_FORMATS_SIDECAR_H
#define OPREG_FORMATS_SIDECAR_H

#include <stddef.h>

#include "opreg/opreg.h"

typedef enum sidecar_wire {
    SIDECAR_GQH,     /* GQHh1: names                                                             */
    SIDECAR_DENSE,   /* DMX2s1: names                                                            */
    SIDECAR_DOWN,    /* P4MIXv1: ffn_down_exps of a layer                                        */
    SIDECAR_EXPERTS, /* GUMIXs1: surface 0 ffn_gate_exps, 1 ffn_up_exps, 2 ffn_down_exps         */
    SIDECAR_ATTENTION, /* DMIXs1: class 0 q_a, 1 q_b, 2 kv, 3 output_a, 4 output_b */
    SIDECAR_WIRES
} sidecar_wire;

/* The key of a wire in a GGUF file: "geoquant.gqh.headers" and so on.  Null past the last. */
const char *sidecar_key(sidecar_wire wire);

/* One tensor's entry.  Pointers are into the parsed bytes. */
typedef struct sidecar_entry {
    sidecar_wire wire;
    const char *name; /* no end mark; valid UTF-8, no control characters; null by layer          */
    uint32_t name_bytes;     /* 0 by layer     */
    uint32_t layer, surface; /* surface or class; 0 by name, and for SIDECAR_DOWN */
    int32_t ggml_type;
    uint32_t experts; /* 1 by name; slices for SIDECAR_ATTENTION */
    uint32_t out, in; /* rows and row length of one expert; 0 where the wire does not say */
    const void *side; /* opreg_weight_desc.side and side_bytes */
    uint64_t side_bytes;
    uint64_t offset; /* of the entry in the parsed bytes */
} sidecar_entry;

/* Parses a wire.  *entries is in the order of the bytes, freed by the caller with free(), null when
 * there are none.  E_ARG with the offset and the reason in opreg_last_error: any departure from the
 * above, an entry that side_decode refuses, a tensor that is named twice.  E_NOMEM. */
opreg_status sidecar_parse(sidecar_wire wire, const void *bytes, uint64_t size,
                           sidecar_entry **entries, size_t *count);

/* Whether an entry is for a tensor of this type and shape, dims of ne in use; ne[0] is the row
 * length.  E_SHAPE with the reason in opreg_last_error. */
opreg_status sidecar_fits(const sidecar_entry *entry, int32_t ggml_type, const int64_t *ne,
                          uint32_t dims);

#endif /* OPREG_FORMATS_SIDECAR_H */
