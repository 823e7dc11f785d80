/* SPDX-License-Identifier: MIT
 * formats.c - the host's table of weight formats, made from formats.inc. */
#include "formats/formats.h"

#include <string.h>

#include "formats/f32.h"
#define HAVE_f32 YES
#include "formats/f16.h"
#define HAVE_f16 YES
#include "formats/bf16.h"
#define HAVE_bf16 YES
#include "formats/q4_0.h"
#define HAVE_q4_0 YES
#include "formats/q4_1.h"
#define HAVE_q4_1 YES
#include "formats/q5_0.h"
#define HAVE_q5_0 YES
#include "formats/q5_1.h"
#define HAVE_q5_1 YES
#include "formats/q8_0.h"
#define HAVE_q8_0 YES
#include "formats/iq4_nl.h"
#define HAVE_iq4_nl YES
#include "formats/mxfp4.h"
#define HAVE_mxfp4 YES
#include "formats/nvfp4.h"
#define HAVE_nvfp4 YES
#include "formats/q1_0.h"
#define HAVE_q1_0 YES
#include "formats/q2_0.h"
#define HAVE_q2_0 YES
#include "formats/q2_k.h"
#define HAVE_q2_k YES
#include "formats/q3_k.h"
#define HAVE_q3_k YES
#include "formats/q4_k.h"
#define HAVE_q4_k YES
#include "formats/q5_k.h"
#define HAVE_q5_k YES
#include "formats/q6_k.h"
#define HAVE_q6_k YES
#include "formats/iq4_xs.h"
#define HAVE_iq4_xs YES
#if __has_include("formats/iq2_xxs.h")
#include "formats/iq2_xxs.h"
#define HAVE_iq2_xxs YES
#else
#define HAVE_iq2_xxs NO
#endif
#if __has_include("formats/iq2_xs.h")
#include "formats/iq2_xs.h"
#define HAVE_iq2_xs YES
#else
#define HAVE_iq2_xs NO
#endif
#if __has_include("formats/iq2_s.h")
#include "formats/iq2_s.h"
#define HAVE_iq2_s YES
#else
#define HAVE_iq2_s NO
#endif
#if __has_include("formats/iq3_xxs.h")
#include "formats/iq3_xxs.h"
#define HAVE_iq3_xxs YES
#else
#define HAVE_iq3_xxs NO
#endif
#if __has_include("formats/iq3_s.h")
#include "formats/iq3_s.h"
#define HAVE_iq3_s YES
#else
#define HAVE_iq3_s NO
#endif
#if __has_include("formats/iq1_s.h")
#include "formats/iq1_s.h"
#define HAVE_iq1_s YES
#else
#define HAVE_iq1_s NO
#endif
#if __has_include("formats/iq1_m.h")
#include "formats/iq1_m.h"
#define HAVE_iq1_m YES
#else
#define HAVE_iq1_m NO
#endif
#if __has_include("formats/rocmfp4.h")
#include "formats/rocmfp4.h"
#define HAVE_rocmfp4 YES
#else
#define HAVE_rocmfp4 NO
#endif
#if __has_include("formats/rocmfp4_fast.h")
#include "formats/rocmfp4_fast.h"
#define HAVE_rocmfp4_fast YES
#else
#define HAVE_rocmfp4_fast NO
#endif
#if __has_include("formats/rocmfp6.h")
#include "formats/rocmfp6.h"
#define HAVE_rocmfp6 YES
#else
#define HAVE_rocmfp6 NO
#endif
#if __has_include("formats/rocmfp8.h")
#include "formats/rocmfp8.h"
#define HAVE_rocmfp8 YES
#else
#define HAVE_rocmfp8 NO
#endif
#if __has_include("formats/rocmfp3.h")
#include "formats/rocmfp3.h"
#define HAVE_rocmfp3 YES
#else
#define HAVE_rocmfp3 NO
#endif
#if __has_include("formats/rocmfp2.h")
#include "formats/rocmfp2.h"
#define HAVE_rocmfp2 YES
#else
#define HAVE_rocmfp2 NO
#endif
#if __has_include("formats/rocmfp3_mix.h")
#include "formats/rocmfp3_mix.h"
#define HAVE_rocmfp3_mix YES
#else
#define HAVE_rocmfp3_mix NO
#endif
#if __has_include("formats/rocmfp2_mix.h")
#include "formats/rocmfp2_mix.h"
#define HAVE_rocmfp2_mix YES
#else
#define HAVE_rocmfp2_mix NO
#endif
#if __has_include("formats/gqh3.h")
#include "formats/gqh3.h"
#define HAVE_gqh3 YES
#else
#define HAVE_gqh3 NO
#endif
#if __has_include("formats/gqh2_h.h")
#include "formats/gqh2_h.h"
#define HAVE_gqh2_h YES
#else
#define HAVE_gqh2_h NO
#endif
#if __has_include("formats/gqh2_c.h")
#include "formats/gqh2_c.h"
#define HAVE_gqh2_c YES
#else
#define HAVE_gqh2_c NO
#endif
#if __has_include("formats/gqh4.h")
#include "formats/gqh4.h"
#define HAVE_gqh4 YES
#else
#define HAVE_gqh4 NO
#endif

/* The functions that the other kind does not have. */
#define SUMS_OF_SUMS(name) name##_sums
#define TERM_OF_SUMS(name) name##_term
#define FOLD_OF_SUMS(name) NULL
#define SUMS_OF_FOLD(name) NULL
#define TERM_OF_FOLD(name) NULL
#define FOLD_OF_FOLD(name) name##_fold

#define ROW_NO(ID, name, type, values, bytes, act, unit, kind, final, side)
#define ROW_YES(ID, name, type, values, bytes, act, unit, kind, final, side)                       \
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
#define ROW_PASTE(have, ...)        ROW_##have(__VA_ARGS__)
#define ROW_IF(have, ...)           ROW_PASTE(have, __VA_ARGS__)
#define OPREG_FORMAT(ID, name, ...) ROW_IF(HAVE_##name, ID, name, __VA_ARGS__)

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
