/* SPDX-License-Identifier: MIT
 * grouped.h - rows times expert weights by a route: what moe_matmul, moe_glu and moe_down are. */
#ifndef OPREG_CPU_GROUPED_H
#define OPREG_CPU_GROUPED_H

#include "cpu/activations.h"
#include "cpu/route.h"

typedef struct grouped {
    const opreg_host *host;
    const format_info *format;
    const opreg_weight_view *weights[2]; /* the second only with a glu */
    uint32_t glu;
    float glu_alpha, glu_limit;
    route route;
    uint32_t x_rows; /* OPREG_X_BY_TOKEN or OPREG_X_BY_DST */
    activations x;
    void *y;
    uint32_t y_dtype;
    int64_t n, y_stride;
} grouped;

/* Writes the row of every entry; a row whose entry has no expert or no token is zero. */
void grouped_run(const grouped *job);

#endif /* OPREG_CPU_GROUPED_H */
