/* SPDX-License-Identifier: MIT
 * grouped.h - rows times expert weights by a route: what moe_matmul, moe_glu and moe_down are. */
#ifndef OPREG_CPU_GROUPED_H
#define OPREG_CPU_GROUPED_H

#include "cpu/product.h"
#include "cpu/route.h"

typedef struct grouped {
    const opreg_host *host;
    product product;
    route route;
    uint32_t x_rows; /* OPREG_X_BY_TOKEN or OPREG_X_BY_DST */
    void *y;
    uint32_t y_dtype;
    int64_t y_stride;
} grouped;

/* Writes the row of every entry; a row whose entry has no expert or no token is zero. */
void grouped_run(const grouped *job);

#endif /* OPREG_CPU_GROUPED_H */
