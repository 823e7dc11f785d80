/* SPDX-License-Identifier: MIT
 * wrong_major.c - a plugin of the next ABI. */
#define FAKE_NAME "fake-wrong-major"
#define FAKE_WRONG set_major
#include "fake_plugin.h"

static void set_major(opreg_plugin *table) { table->abi_major = 2; }
