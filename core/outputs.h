/* SPDX-License-Identifier: MIT
 * outputs.h - what a run must write, row by row, and how two results of it compare. */
#ifndef OPREG_OUTPUTS_H
#define OPREG_OUTPUTS_H

#include "problem.h"

#define OUTPUTS_MAX 3

/* One output buffer as rows of elements.  A route is rows of one 32-bit word. */
typedef struct output {
    uint32_t index;   /* of the buffer                                                              */
    uint32_t dtype;   /* F32 F16 BF16; 0: integers                                                  */
    uint32_t element; /* bytes                                                                      */
    uint32_t reserved;
    int64_t rows, length, stride; /* elements                                                       */
    uint64_t bytes;   /* from the first element to the end of the last                              */
    const char *name;
    uint8_t *owed;    /* [rows]: 1 where the run must write the row; null until outputs_open        */
} output;

typedef struct outputs {
    opreg_op op;
    uint32_t count;
    output rows[OUTPUTS_MAX];
    uint8_t *route;       /* host copy of the route that says which rows are owed; null: all are     */
    uint64_t route_bytes;
    int64_t tokens;
    int32_t top_k, experts;
} outputs;

/* The outputs of a checked problem that is not empty.  E_NOMEM. */
opreg_status outputs_open(opreg_op op, const problem_any *problem, outputs *out);
void outputs_close(outputs *of);

/* Sets owed from the route in of->route, which the caller has filled: the input of the MoE stages,
 * the result of moe_route.  Entries of a route that name no row leave their row as it was. */
void outputs_owe(outputs *of);

/* output: index in outputs.rows. */
typedef opreg_difference difference;

/* Adds one output to *d, which starts as zeros. */
void outputs_compare(const outputs *of, uint32_t output, const uint8_t *got, const uint8_t *want,
                     difference *d);

/* NMSE that a variant of level INT or BAND may be away from the reference: the band of its operator
 * and format for each of the two, plus the rounding of the store. */
double outputs_band(const opreg_kernel *kernel, const problem_any *problem);

#endif /* OPREG_OUTPUTS_H */
