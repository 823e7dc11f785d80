/* SPDX-License-Identifier: MIT
 * missing_dependency.c - a plugin that needs a library that is not found. */
#define FAKE_NAME "fake-missing-dependency"
#define FAKE_WRONG call_dependency
#include "fake_plugin.h"

int fake_dependency(void);

static void call_dependency(opreg_plugin *table) { table->abi_minor += (uint32_t)fake_dependency(); }
