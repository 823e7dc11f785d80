/* SPDX-License-Identifier: MIT
 * truth.h - what a product of quantized weights should be, in float64, and how far a variant may be
 * from it.
 *
 * Weights are decoded one by one by the formats' value functions, never by the code of a kernel.
 * Two exact dots are made of each output: of the activations as they are (for the NMSE), and of the
 * activations as the format quantizes them (for the integer oracle), with the oracle's bound. */
#ifndef OPREG_TOOLS_TRUTH_H
#define OPREG_TOOLS_TRUTH_H

#include <stdint.h>

#include "opreg/opreg_plugin.h"

/* One output row: y[y_row] = x[x_row] * W[expert]^T. */
typedef struct truth_entry {
    int64_t expert, x_row, y_row;
} truth_entry;

typedef struct truth_input {
    uint32_t format;
    const uint8_t *data; /* stored blocks of the first row of expert 0 */
    uint64_t row_bytes, expert_stride;
    const opreg_side *sides; /* [experts] */
    int64_t n, k;
    const float *x; /* [x_rows, k], gaussian */
    int64_t x_rows, y_rows;
    const truth_entry *entries; /* sorted by expert */
    int64_t num_entries;
    unsigned threads;
} truth_input;

typedef struct truth {
    double *raw;   /* [y_rows, n], of the activations as they are                                 */
    double *exact; /* [y_rows, n], of the quantized ones                                          */
    double *bound; /* [y_rows, n], largest |y - exact| of a canonical order                       */
    double int_scale; /* the bound of INT is bound times this */
    double band; /* largest NMSE on gaussian data                                               */
    int64_t n, y_rows;
} truth;

/* 0 when memory is short. */
int truth_make(const truth_input *input, truth *out);
void truth_free(truth *t);

typedef struct truth_result {
    int64_t outputs; /* that were compared */
    double nmse;  /* of those                                                                    */
    double worst; /* largest |y - exact| / bound; 0 where both are 0, inf for a NaN              */
    int64_t worst_row, worst_column;
} truth_result;

/* Compares the first rows * n outputs of y. */
truth_result truth_compare(const truth *t, const float *y, int64_t rows, uint32_t level);

/* Gaussian values, mean 0, deviation 1, from a seed. */
void truth_gaussian(uint64_t seed, float *x, int64_t count);

#endif /* OPREG_TOOLS_TRUTH_H */
