/* SPDX-License-Identifier: MIT
 * formats.cu - calls every function of every format header, and of canonical.h, on a device.  It is
 * compiled, never run: what must hold is that one text serves C11, nvcc and clang-HIP. */
#include "canonical.h"
#include "every_format.h" /* written by CMakeLists.txt from formats.inc */

#ifndef __global__ /* clang without a vendor header */
#define __global__ __attribute__((global))
#endif

struct probe_arguments {
    const uint8_t *block;
    const int8_t *q;
    const int16_t *q_sums;
    const float *x;
    const opreg_side *side;
    float *y;
    int i, part, count;
};

#define CALL_SUMS(name)                                                                            \
    int32_t n[2];                                                                                  \
    name##_sums(a.block, a.part, a.q, a.q_sums, a.side, n);                                        \
    a.y[1] = name##_term(a.block, a.part, n, a.x[0], a.side);
#define CALL_FOLD(name) a.y[1] = name##_fold(a.block, a.part, a.x, a.count, a.y[1], a.side);

#define OPREG_FORMAT(ID, name, type, values, bytes, act, unit, kind, final, side_kind)             \
    extern "C" __global__ void probe_##name(probe_arguments a) {                                   \
        a.y[0] = name##_value(a.block, a.i, a.side);                                               \
        CALL_##kind(name)                                                                          \
    }
#include "formats/formats.inc"

extern "C" __global__ void probe_scales(probe_arguments a) {
    uint32_t code = a.block[0];
    a.y[0] = ue4m3_half(code);
    a.y[1] = ue4m3_half_7bit(code);
    a.y[2] = ue4m3_half_nvfp4_host(code);
    a.y[3] = e4m3_half_nvfp4_signed(code);
    a.y[4] = e4m3_signed(code);
    a.y[5] = e8m0_half(code);
    a.y[6] = float_of(f32_to_f16(a.x[0]) << 16 | f32_to_bf16(a.x[1]));
}

extern "C" __global__ void probe_canonical(probe_arguments a) {
    float parts[32];
    for (int i = 0; i < 32; i++) {
        parts[i] = a.x[i];
    }
    a.y[0] = canonical_tree(parts);
    a.y[1] = canonical_exp(a.x[0]);
    a.y[2] = canonical_tanh(a.x[0]);
    a.y[3] = canonical_log(a.x[0]);
    a.y[4] = canonical_glu((uint32_t)a.part, a.x[0], a.x[1], a.x[2], a.x[3]);
}
