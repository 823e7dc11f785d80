/* SPDX-License-Identifier: MIT
 * band.h - the band: how far results on gaussian data may be from float64, over all outputs, over each
 * row and over each column (docs/numerics.md). */
#ifndef OPREG_KIT_BAND_H
#define OPREG_KIT_BAND_H

#include "session.h"

/* Sums over some outputs. */
typedef struct band {
    double error, energy;
    double store; /* sum of the squares of half an ulp                                              */
    int64_t count;
} band;

/* NMSE that a weight format admits. */
double band_limit(uint32_t format);
/* The same for a variant, which may declare its own. */
double band_admitted(const opreg_kernel_row *of, uint32_t format);

void band_add(band *b, uint32_t y_dtype, double got, double want);
/* Asks for at most `limit` where there are 256 or more outputs.  A store to f16 or bf16 moves every
 * output by at most half an ulp more, so that sqrt(error) grows by at most sqrt(store). */
void band_close(const band *b, double limit, finding *f);

/* The band of a matrix of outputs, with its rows and columns: a fault in one of them drowns in the sum
 * over all. */
typedef struct banded {
    uint32_t dtype;
    double limit;
    int64_t num_rows, num_columns;
    double power;              /* of all                                                            */
    band all, *rows, *columns; /* of a row or column, energy is power and energy                     */
} banded;

/* 0 when out of memory. */
int banded_open(banded *b, uint32_t dtype, double limit, int64_t rows, int64_t columns);
/* power: that of the error over limit.  In a dot it is the variance of the output over random
 * activations, sum of (w * x)^2: one output may be near zero by chance, and its error is not. */
void banded_add(banded *b, int64_t row, int64_t column, double got, double want, double power);
/* Frees what it holds; f null: asks for nothing. */
void banded_close(banded *b, finding *f);

#endif /* OPREG_KIT_BAND_H */
