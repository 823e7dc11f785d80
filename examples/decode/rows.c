/* SPDX-License-Identifier: MIT
 * rows.c - decodes rows with the format headers that opreg installs for plugins. */
#include "rows.h"

#include <stddef.h>

#include "formats/bf16.h"
#include "formats/f16.h"
#include "formats/f32.h"
#include "formats/iq4_nl.h"
#include "formats/iq4_xs.h"
#include "formats/q2_k.h"
#include "formats/q3_k.h"
#include "formats/q4_0.h"
#include "formats/q4_1.h"
#include "formats/q4_k.h"
#include "formats/q5_0.h"
#include "formats/q5_1.h"
#include "formats/q5_k.h"
#include "formats/q6_k.h"
#include "formats/q8_0.h"

typedef struct decoder {
    uint32_t ggml_type;
    int values, bytes;
    float (*value)(const uint8_t *block, int i, const opreg_side *side);
} decoder;

static const decoder decoders[] = {
    {0, 1, 4, f32_value},        {1, 1, 2, f16_value},        {30, 1, 2, bf16_value},
    {2, 32, 18, q4_0_value},     {3, 32, 20, q4_1_value},     {6, 32, 22, q5_0_value},
    {7, 32, 24, q5_1_value},     {8, 32, 34, q8_0_value},     {20, 32, 18, iq4_nl_value},
    {10, 256, 84, q2_k_value},   {11, 256, 110, q3_k_value},  {12, 256, 144, q4_k_value},
    {13, 256, 176, q5_k_value},  {14, 256, 210, q6_k_value},  {23, 256, 136, iq4_xs_value},
};

int row_decode(uint32_t ggml_type, const uint8_t *row, int64_t count, float *out) {
    static const opreg_side none = {0};
    for (size_t i = 0; i < sizeof decoders / sizeof decoders[0]; i++) {
        const decoder *d = &decoders[i];
        if (d->ggml_type == ggml_type) {
            for (int64_t k = 0; k < count; k++) {
                out[k] = d->value(row + k / d->values * d->bytes, (int)(k % d->values), &none);
            }
            return 1;
        }
    }
    return 0;
}
