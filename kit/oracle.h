/* SPDX-License-Identifier: MIT
 * oracle.h - what the kit knows to be right without asking the library. */
#ifndef OPREG_KIT_ORACLE_H
#define OPREG_KIT_ORACLE_H

#include "band.h"
#include "dot.h"
#include "session.h"

/* Bits of two results of a job, NaN equal to NaN; names the first element that differs. */
int outputs_equal(const job *of, uint8_t *const a[JOB_BUFS], uint8_t *const b[JOB_BUFS],
                  char detail[320]);

/* Checks a result against float64: the integer oracle and the band, as far as the variant and the data
 * ask for them.  0 with a finding where it is wrong. */
int oracle_check(const job *of, const opreg_kernel_row *variant, uint8_t *const outputs[JOB_BUFS],
                 finding *f);

/* Per operator. */
void oracle_quantize(const job *of, uint8_t *const outputs[JOB_BUFS], finding *f);
void oracle_matmul(const job *of, const opreg_kernel_row *variant, uint8_t *const outputs[JOB_BUFS],
                   finding *f);
void oracle_moe(const job *of, const opreg_kernel_row *variant, uint8_t *const outputs[JOB_BUFS],
                finding *f);
void oracle_route(const job *of, uint8_t *const outputs[JOB_BUFS], finding *f);
void oracle_combine(const job *of, uint8_t *const outputs[JOB_BUFS], finding *f);
void oracle_ffn(const job *of, uint8_t *const outputs[JOB_BUFS], finding *f);
void oracle_attention(const job *of, uint8_t *const outputs[JOB_BUFS], finding *f);

/* One element of y against exact +- bound, and the rounding of its store. */
void element_check(uint32_t dtype, double got, double exact, double bound, const char *check,
                   int64_t row, int64_t column, finding *f);

/* ---- glu in float64 --------------------------------------------------------------------------------- */

typedef struct glu_kind {
    uint32_t kind; /* opreg_glu                                                                     */
    double alpha, limit;
} glu_kind;

double glu_exact(uint32_t glu, double alpha, double limit, double gate, double up);

/* The expected power of the error over the band's limit, from those of gate and up. */
double glu_power(uint32_t glu, double alpha, double limit, const double value[2],
                 const double power[2], double limit_of_band);

/* How far it may be off when gate and up are off by at most their bounds: the slope of the activation
 * is at most 1.13, exp, tanh and the roundings stay within 2^-19 of |gate * up|.  -1 where a bound is. */
double glu_bound(uint32_t glu, double alpha, double limit, const double value[2],
                 const double bound[2]);

/* Element `at` of the dots, plain or as a pair, against the integer oracle and into the band. */
void compare_output(banded *b, const dots d[2], int pair, const glu_kind *glu, opreg_level level,
                    int64_t row, int64_t column, int64_t at, double bias, double got, finding *f);

#endif /* OPREG_KIT_ORACLE_H */
