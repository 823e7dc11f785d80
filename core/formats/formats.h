/* SPDX-License-Identifier: MIT
 * formats.h - the host's table of weight formats, made from formats.inc. */
#ifndef OPREG_FORMATS_H
#define OPREG_FORMATS_H

#include <stddef.h>
#include <stdint.h>

#include "opreg/opreg_plugin.h"

typedef enum format_kind {
    FORMAT_SUMS, /* integer dot: sums and term are set, fold is null */
    FORMAT_FOLD /* f32 activations: fold is set, sums and term are null                           */
} format_kind;

/* What a weight's side data must hold besides the dialect. */
typedef enum format_side {
    FORMAT_SIDE_NONE,
    FORMAT_SIDE_SCALE, /* an optional tensor scale */
    FORMAT_SIDE_GQH,  /* tensor scale and level grid                                              */
    FORMAT_SIDE_MIX4, /* mode and two codebooks of 4 levels                                       */
    FORMAT_SIDE_MIX8  /* mode and two codebooks of 8 levels                                       */
} format_side;

/* One weight format.  The functions are those of its header (format.h has their contract); none
 * of them accepts a null side. */
typedef struct format_info {
    uint32_t id; /* opreg_dtype */
    const char *name;
    int32_t ggml_type;
    int values; /* weights in a block                                                      */
    int bytes;  /* of a block                                                              */
    uint32_t act_dtype; /* OPREG_F32, OPREG_Q8_0 or OPREG_Q8_K */
    int unit; /* weights in a unit; a block of 1 value has many blocks in a unit         */
    format_kind kind;
    float final_factor; /* multiplies the sum of the tree, before the tensor scale */
    format_side side;
    float (*value)(const uint8_t *block, int i, const opreg_side *side);
    void (*sums)(const uint8_t *block, int part, const int8_t *q, const int16_t *q_sums,
                 const opreg_side *side, int32_t n[2]);
    float (*term)(const uint8_t *block, int part, const int32_t n[2], float yd,
                  const opreg_side *side);
    float (*fold)(const uint8_t *block, int part, const float *x, int count, float acc,
                  const opreg_side *side);
    const char *(*invalid)(const uint8_t *block, const opreg_side *side);
} format_info;

/* All of them, in the order of formats.inc; null past the end. */
size_t format_count(void);
const format_info *format_at(size_t index);

/* Null when there is none.  Any thread. */
const format_info *format_by_id(uint32_t id);
const format_info *format_by_name(const char *name);
const format_info *format_by_ggml_type(int32_t type);

#endif /* OPREG_FORMATS_H */
