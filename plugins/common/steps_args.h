/* SPDX-License-Identifier: MIT
 * steps_args.h - launches of the steps' kernels.  Their parameters are the public structs, but for the
 * table of a gather, whose view is host memory.  Read by C and by device compilers. */
#ifndef OPREG_PLUGINS_STEPS_ARGS_H
#define OPREG_PLUGINS_STEPS_ARGS_H

#include "opreg/opreg_plugin.h"

#define STEPS_THREADS 256 /* of every kernel but these two                                          */
#define STEPS_HEADS_THREADS 128 /* a wave a head                                                    */
#define STEPS_ARGMAX_THREADS 1024

typedef struct step_gather_args {
    const uint8_t *data;
    const opreg_side *side;
    const int32_t *ids;
    float *y;
    int64_t n, k, row_bytes;
    uint32_t format;
    float scale;
} step_gather_args;

/* Kernels in the order of their symbols. */
enum step_kernel {
    STEP_GATHER,
    STEP_NORM,
    STEP_HEADS,
    STEP_EXPERTS,
    STEP_GLU,
    STEP_CAP,
    STEP_ARGMAX,
    STEP_COMPARE,
    STEP_KERNELS
};

/* Rows of a gpu_symbol table, in that order. */
#define STEPS_SYMBOLS(image)                                                                       \
    {"step_gather_rows", image, 0}, {"step_norm_rows", image, 0}, {"step_turn_heads", image, 0},   \
        {"step_choose_experts", image, 0}, {"step_glu_values", image, 0},                          \
        {"step_cap_values", image, 0}, {"step_argmax_rows", image, 0},                             \
        {"step_compare_rows", image, 0},

#endif /* OPREG_PLUGINS_STEPS_ARGS_H */
