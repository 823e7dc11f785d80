/* SPDX-License-Identifier: MIT
 * null_row.c - a plugin whose kernel has no run. */
#define FAKE_NAME "fake-null-row"
#define FAKE_WRONG drop_run
#include "fake_plugin.h"

static opreg_kernel no_run;
static const opreg_kernel *const no_run_rows[] = {&no_run};

static void drop_run(opreg_plugin *table) {
    no_run = fake_kernels[0];
    no_run.run = NULL;
    table->kernels = no_run_rows;
    table->num_kernels = 1;
}
