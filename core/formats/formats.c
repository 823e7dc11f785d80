/* SPDX-License-Identifier: MIT
 * formats.c - the host's table of weight formats, made from formats.inc. */
#include "formats/formats.h"

#include <string.h>

#include "formats/f32.h"
#include "formats/f16.h"
#include "formats/bf16.h"
#include "formats/q4_0.h"
#include "formats/q4_1.h"
#include "formats/q5_0.h"
#include "formats/q5_1.h"
#include "formats/q8_0.h"
#include "formats/iq4_nl.h"
#include "formats/mxfp4.h"
#include "formats/nvfp4.h"
#include "formats/q1_0.h"
#include "formats/q2_0.h"
#include "formats/q2_k.h"
#include "formats/q3_k.h"
#include "formats/q4_k.h"
#include "formats/q5_k.h"
#include "formats/q6_k.h"
#include "formats/iq4_xs.h"
#include "formats/iq2_xxs.h"
#include "formats/iq2_xs.h"
#include "formats/iq2_s.h"
#include "formats/iq3_xxs.h"
#include "formats/iq3_s.h"
#include "formats/iq1_s.h"
#include "formats/iq1_m.h"
#include "formats/rocmfp4.h"
#include "formats/rocmfp4_fast.h"
#include "formats/rocmfp6.h"
#include "formats/rocmfp8.h"
#include "formats/rocmfp3.h"
#include "formats/rocmfp2.h"
#include "formats/rocmfp3_mix.h"
#include "formats/rocmfp2_mix.h"
#include "formats/gqh3.h"
#include "formats/gqh2_h.h"
#include "formats/gqh2_c.h"
#include "formats/gqh4.h"

/* The functions that the other kind does not have. */
#define SUMS_OF_SUMS(name) name##_sums
#define TERM_OF_SUMS(name) name##_term
#define FOLD_OF_SUMS(name) NULL
#define SUMS_OF_FOLD(name) NULL
#define TERM_OF_FOLD(name) NULL
#define FOLD_OF_FOLD(name) name##_fold

#define OPREG_FORMAT(ID, name, type, values, bytes, act, unit, kind, final, side)                  \
    {OPREG_##ID,                                                                                   \
     #name,                                                                                        \
     type,                                                                                         \
     values,                                                                                       \
     bytes,                                                                                        \
     OPREG_##act,                                                                                  \
     unit,                                                                                         \
     FORMAT_##kind,                                                                                \
     final,                                                                                        \
     FORMAT_SIDE_##side,                                                                           \
     name##_value,                                                                                 \
     SUMS_OF_##kind(name),                                                                         \
     TERM_OF_##kind(name),                                                                         \
     FOLD_OF_##kind(name),                                                                         \
     name##_invalid},

static const format_info table[] = {
#include "formats.inc"
};

size_t format_count(void) {
    return sizeof table / sizeof table[0];
}

const format_info *format_at(size_t index) {
    return index < format_count() ? &table[index] : NULL;
}

const format_info *format_by_id(uint32_t id) {
    for (size_t i = 0; i < format_count(); i++) {
        if (table[i].id == id) {
            return &table[i];
        }
    }
    return NULL;
}

const format_info *format_by_name(const char *name) {
    for (size_t i = 0; i < format_count(); i++) {
        if (strcmp(table[i].name, name) == 0) {
            return &table[i];
        }
    }
    return NULL;
}

const format_info *format_by_ggml_type(int32_t type) {
    for (size_t i = 0; i < format_count(); i++) {
        if (table[i].ggml_type == type) {
            return &table[i];
        }
    }
    return NULL;
}
