/* SPDX-License-Identifier: MIT
 * short_struct.c - a plugin whose second kernel row is too short to be one. */
#define FAKE_NAME "fake-short-struct"
#define FAKE_WRONG shorten
#include "fake_plugin.h"

static const opreg_kernel short_row = {.struct_size = 8, .op = OPREG_OP_MATMUL_BT_QUANT};
static const opreg_kernel *const short_rows[] = {&fake_kernels[0], &short_row};

static void shorten(opreg_plugin *table) {
    table->kernels = short_rows;
    table->num_kernels = 2;
}
