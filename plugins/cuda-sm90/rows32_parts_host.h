/* SPDX-License-Identifier: MIT
 * rows32_parts_host.h - which calls rows32_parts takes, and its launches. */
#ifndef OPREG_SM90_ROWS32_PARTS_HOST_H
#define OPREG_SM90_ROWS32_PARTS_HOST_H

#include "rows32_host.h"
#include "rows32_parts_args.h"

/* The first of a format's kernels, in the order of enum parts_method; 0 where it has none. */
uint32_t rows32_parts_symbol(const rows32_format *f);

/* A grouped call that goes entry by entry. */
int rows32_parts_takes(const rows32_format *f, const opreg_moe_matmul *p, uint32_t units);
/* route_first: a chained launch reads the route before the launch ahead of it has ended. */
opreg_status rows32_parts_run(const opreg_call *call, const gpu_plan *plan, const rows32_format *f,
                              const matmul_args *base, int route_first);

/* A dense call of one row whose tiles fill the multiprocessors evenly. */
int rows32_parts_takes_row(const rows32_format *f, const opreg_matmul_bt_quant *p, uint32_t units);
opreg_status rows32_parts_run_row(const opreg_call *call, const gpu_plan *plan,
                                  const rows32_format *f, const matmul_args *base);

#endif /* OPREG_SM90_ROWS32_PARTS_HOST_H */
