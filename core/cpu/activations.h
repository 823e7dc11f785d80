/* SPDX-License-Identifier: MIT
 * activations.h - rows of x as a weight format is dotted with them: f32, or planes of codes. */
#ifndef OPREG_CPU_ACTIVATIONS_H
#define OPREG_CPU_ACTIVATIONS_H

#include "cpu/cpu.h"

/* dtype F32: x and x_stride are set.  Q8_0, Q8_K: the planes of quantize_act. */
typedef struct activations {
    uint32_t dtype;
    int64_t k;
    const float *x;
    int64_t x_stride; /* elements */
    const int8_t *codes;
    const float *scales;
    const int16_t *sums;
} activations;

/* Rows of x as the caller has them. */
typedef struct activation_source {
    uint32_t dtype; /* F32 F16 BF16, or Q8_0 Q8_K: planes */
    int64_t rows, k, stride;
    const void *x; /* or the codes */
    const void *scales, *sums;
} activation_source;

/* Values that share a scale: 32 or 256. */
int64_t activations_block(uint32_t act_dtype);

/* Bytes of workspace that activations_make takes. */
uint64_t activations_bytes(uint32_t act_dtype, uint32_t x_dtype, int64_t rows, int64_t k);

/* The source as act_dtype, which planes have already; converts into the workspace at *used where
 * needed, in parallel. */
activations activations_make(const opreg_host *host, uint32_t act_dtype,
                             const activation_source *source, void *workspace, uint64_t *used);

/* Quantizes rows of f32, f16 or bf16 to planes, in parallel. */
void activations_quantize(const opreg_host *host, uint32_t act_dtype,
                          const activation_source *source, int8_t *codes, float *scales,
                          int16_t *sums);

/* The f32 dot of row n of an expert's weights, in any layout of the backend, with activation row m,
 * by the canonical order: 32 accumulators, tree, final factor, tensor scale. */
float activations_dot(const activations *x, int64_t m, const format_info *format,
                      const opreg_weight_view *weight, int64_t expert, int64_t n);

#endif /* OPREG_CPU_ACTIVATIONS_H */
