/* SPDX-License-Identifier: MIT
 * bad_name.c - a plugin whose kernel name could not be a flag. */
#define FAKE_NAME "fake-bad-name"
#define FAKE_WRONG rename_kernel
#include "fake_plugin.h"

static opreg_kernel named;
static const opreg_kernel *const named_rows[] = {&named};

static void rename_kernel(opreg_plugin *table) {
    named = fake_kernels[0];
    named.name = "Q4-K gemv";
    table->kernels = named_rows;
    table->num_kernels = 1;
}
