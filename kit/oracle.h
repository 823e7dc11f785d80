/* SPDX-License-Identifier: MIT
 * oracle.h - what the kit knows to be right without asking the library. */
#ifndef OPREG_KIT_ORACLE_H
#define OPREG_KIT_ORACLE_H

#include "session.h"

/* Bits of two results of a job, NaN equal to NaN; names the first element that differs. */
int outputs_equal(const job *of, uint8_t *const a[JOB_BUFS], uint8_t *const b[JOB_BUFS],
                  char detail[320]);

/* Checks a result against float64: the integer oracle and the band, as far as the level and the data
 * ask for them.  0 with a finding where it is wrong. */
int oracle_check(const job *of, opreg_level level, uint8_t *const outputs[JOB_BUFS], finding *f);

/* Per operator. */
void oracle_quantize(const job *of, uint8_t *const outputs[JOB_BUFS], finding *f);
void oracle_matmul(const job *of, opreg_level level, uint8_t *const outputs[JOB_BUFS], finding *f);
void oracle_moe(const job *of, opreg_level level, uint8_t *const outputs[JOB_BUFS], finding *f);
void oracle_route(const job *of, uint8_t *const outputs[JOB_BUFS], finding *f);
void oracle_combine(const job *of, uint8_t *const outputs[JOB_BUFS], finding *f);
void oracle_ffn(const job *of, uint8_t *const outputs[JOB_BUFS], finding *f);
void oracle_attention(const job *of, uint8_t *const outputs[JOB_BUFS], finding *f);

/* Shared by them: the band over pairs of results. */
typedef struct band {
    double error, energy;
    double store; /* sum of the squares of half an ulp                                              */
    int64_t count;
} band;
void band_add(band *b, uint32_t y_dtype, double got, double want);
/* Asks for at most `limit` where there are 256 or more outputs.  A store to f16 or bf16 moves every
 * output by at most half an ulp more, so that sqrt(error) grows by at most sqrt(store). */
void band_close(const band *b, double limit, finding *f);
double band_limit(uint32_t format);

/* One element of y against exact +- bound, and the rounding of its store. */
void element_check(uint32_t dtype, double got, double exact, double bound, const char *check,
                   int64_t row, int64_t column, finding *f);

/* glu in float64. */
double glu_exact(uint32_t glu, double alpha, double limit, double gate, double up);

#endif /* OPREG_KIT_ORACLE_H */
