/* SPDX-License-Identifier: MIT
 * rows32_host.h - symbols of the kernels over rows32, in the order of rows32_list.inc. */
#ifndef OPREG_SM90_ROWS32_HOST_H
#define OPREG_SM90_ROWS32_HOST_H

#include "program.h"
#include "rows32_args.h"

/* Kernels of a format, from its first symbol on: units of 32 have the first two, units of 256 all. */
enum rows32_method {
    ROWS32_ONE_W8,
    ROWS32_EIGHT_W8,
    ROWS32_ONE_W4,
    ROWS32_ONE_W16
};

#define ROWS32_MOST_SHARED (200u * 1024u)

typedef struct rows32_format {
    uint32_t id, unit, symbol; /* symbol: of ROWS32_ONE_W8                                         */
    int32_t values, min_sub, table_words;
} rows32_format;

/* Null where no kernel takes the format. */
const rows32_format *rows32_format_find(uint32_t id);
extern const uint32_t rows32_formats[]; /* 0 ends                                                   */

/* The arguments of a grouped call; the registry has checked them. */
void rows32_moe_args(const opreg_moe_matmul *p, const opreg_call *call, matmul_args *args);

#endif /* OPREG_SM90_ROWS32_HOST_H */
