/* SPDX-License-Identifier: MIT
 * matmul.h - the operators with weights, for the reference and the variants of a tile kernel. */
#ifndef OPREG_CPU_MATMUL_H
#define OPREG_CPU_MATMUL_H

#include "cpu/product.h"

/* moe_matmul, moe_glu and moe_down are one computation. */
opreg_status matmul_run(const opreg_matmul_bt_quant *p, const opreg_call *call, tile_finder find);
opreg_status moe_matmul_run(const opreg_moe_matmul *p, const opreg_call *call, tile_finder find);
opreg_status ffn_run(const opreg_moe_ffn *p, const opreg_call *call, tile_finder find);

#endif /* OPREG_CPU_MATMUL_H */
