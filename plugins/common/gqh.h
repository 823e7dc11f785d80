/* SPDX-License-Identifier: MIT
 * gqh.h - host side of the GQH kernels (gqh.cuh): a plugin puts their symbols right after those of
 * qdot.h in its gpu_program. */
#ifndef OPREG_PLUGINS_GQH_H
#define OPREG_PLUGINS_GQH_H

#include "baseline.h"
#include "gqh_args.h"

extern const uint32_t gqh_formats[]; /* 0 ends                                                     */

BASELINE_DECLARE(gqh_gemv)
BASELINE_DECLARE(gqh_cols)

/* Rows of a gpu_symbol table for one format. */
#define GQH_SYMBOLS(name, image)                                                                   \
    {"gqh_" #name "_deep", image, 0}, {"gqh_" #name "_wide", image, 0},                            \
        {"gqh_" #name "_2", image, 0}, {"gqh_" #name "_3", image, 0},                              \
        {"gqh_" #name "_4", image, 0}, {"gqh_" #name "_5", image, 0},                              \
        {"gqh_" #name "_6", image, 0}, {"gqh_" #name "_7", image, 0},                              \
        {"gqh_" #name "_8", image, 0},

#endif /* OPREG_PLUGINS_GQH_H */
