/* SPDX-License-Identifier: MIT
 * dot.h - float64 dots of decoded weights: the exact value, its admitted error, the raw dot. */
#ifndef OPREG_KIT_DOT_H
#define OPREG_KIT_DOT_H

#include "job.h"

/* x_rows rows of activations, quantized as the weight's format wants. */
typedef struct dot_x {
    int64_t rows, k;
    uint32_t act;    /* OPREG_F32, OPREG_Q8_0 or OPREG_Q8_K                                          */
    int raw_known;   /* 0 where x arrived as planes                                                  */
    float *x;        /* [rows, k]; from planes: code * scale                                         */
    int8_t *codes;   /* [rows, k]                                                                    */
    float *scales;   /* [rows, k / block]                                                            */
    int16_t *sums;   /* [rows, k / 16]                                                               */
} dot_x;

/* Reads rows of a float buffer and quantizes them: 0 when out of memory. */
int dot_x_floats(uint32_t format, const job_buffer *x, int64_t rows, int64_t k, int64_t stride,
                 dot_x *out);
/* Reads planes. */
int dot_x_planes(uint32_t format, const job_buffer *codes, const job_buffer *scales,
                 const job_buffer *sums, int64_t rows, int64_t k, dot_x *out);
void dot_x_clear(dot_x *x);

/* [rows, n] each. */
typedef struct dots {
    int64_t rows, n;
    double *exact; /* NaN where the activations are not finite                                       */
    double *bound; /* |y - exact| of a CANONICAL result; negative: sums may overflow, not asked      */
    double *loose; /* the same for INT                                                               */
    double *raw;   /* against the raw activations                                                    */
    double *power; /* sum of (w * x)^2, x raw: the variance of raw over random x                     */
} dots;

/* Row r takes activation row x_of[r] and expert expert_of[r]; -1 in either: zeros.  The tensor scale
 * is applied.  0 when out of memory. */
int dots_make(const job_weight *weight, const dot_x *x, int64_t rows, const int64_t *x_of,
              const int64_t *expert_of, dots *out);
void dots_clear(dots *d);

#endif /* OPREG_KIT_DOT_H */
