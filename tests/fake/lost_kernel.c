/* SPDX-License-Identifier: MIT
 * lost_kernel.c - a plugin whose library lacks a kernel of its manifest. */
#define FAKE_NAME "fake-lost-kernel"
#define FAKE_WRONG drop_kernel
#include "fake_plugin.h"

static void drop_kernel(opreg_plugin *table) { table->num_kernels = 3; }
