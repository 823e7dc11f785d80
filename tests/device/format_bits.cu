/* SPDX-License-Identifier: MIT
 * format_bits.cu - the format headers as device code: one thread computes one unit. */
#include "format_bits.h"

#include "formats/act.h"
#include "formats/bf16.h"
#include "formats/f16.h"
#include "formats/f32.h"
#include "formats/gqh2_c.h"
#include "formats/gqh2_h.h"
#include "formats/gqh3.h"
#include "formats/gqh4.h"
#include "formats/iq1_m.h"
#include "formats/iq1_s.h"
#include "formats/iq2_s.h"
#include "formats/iq2_xs.h"
#include "formats/iq2_xxs.h"
#include "formats/iq3_s.h"
#include "formats/iq3_xxs.h"
#include "formats/iq4_nl.h"
#include "formats/iq4_xs.h"
#include "formats/mxfp4.h"
#include "formats/nvfp4.h"
#include "formats/q1_0.h"
#include "formats/q2_0.h"
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
#include "formats/rocmfp2.h"
#include "formats/rocmfp2_mix.h"
#include "formats/rocmfp3.h"
#include "formats/rocmfp3_mix.h"
#include "formats/rocmfp4.h"
#include "formats/rocmfp4_fast.h"
#include "formats/rocmfp6.h"
#include "formats/rocmfp8.h"

#define SCALE_F32  1.0f
#define SCALE_Q8_0 act_q8_0(c->x, r->q, r->q_sums)
#define SCALE_Q8_K act_q8_k(c->x, r->q, r->q_sums)
#define Y_SUMS(name)                                                                               \
    name##_sums(c->block, c->part, r->q, r->q_sums, &c->side, r->n);                               \
    r->y = name##_term(c->block, c->part, r->n, r->scale, &c->side)
#define Y_FOLD(name) r->y = name##_fold(c->block, c->part, c->x, c->count, 0.5f, &c->side)
#define OPREG_FORMAT(ID, name, type, values, bytes, act, unit, kind, final, side_kind)             \
    case OPREG_##ID:                                                                               \
        r->value = name##_value(c->block, c->weight, &c->side);                                    \
        r->scale = SCALE_##act;                                                                    \
        Y_##kind(name);                                                                            \
        break;

static __global__ void units(const unit_case *cases, int count, unit_result *results) {
    int at = (int)(blockIdx.x * blockDim.x + threadIdx.x);
    if (at < count) {
        const unit_case *c = cases + at;
        unit_result *r = results + at;
        switch (c->format) {
#include "formats/formats.inc"
        }
    }
}

int device_units(const unit_case *cases, int count, unit_result *results) {
    size_t in_bytes = (size_t)count * sizeof *cases, out_bytes = (size_t)count * sizeof *results;
    unit_case *in = NULL;
    unit_result *out = NULL;
    cudaMalloc(&in, in_bytes);
    cudaMalloc(&out, out_bytes);
    cudaMemcpy(in, cases, in_bytes, cudaMemcpyHostToDevice);
    cudaMemset(out, 0, out_bytes);
    units<<<(count + 63) / 64, 64>>>(in, count, out);
    cudaMemcpy(results, out, out_bytes, cudaMemcpyDeviceToHost);
    cudaFree(in);
    cudaFree(out);
    return (int)cudaGetLastError();
}
