/* SPDX-License-Identifier: MIT
 * missing_symbol.c - a plugin that calls a function which nobody has, but not while it is opened. */
#define FAKE_NAME "fake-missing-symbol"
#define FAKE_WRONG end_badly
#include "fake_plugin.h"

void fake_function_of_nobody(const opreg_host *host);

static void call_nobody(const opreg_host *host) { fake_function_of_nobody(host); }

static void end_badly(opreg_plugin *table) { table->shutdown = call_nobody; }
