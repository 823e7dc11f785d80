/* SPDX-License-Identifier: MIT
 * crash_probe.c - a plugin that crashes when it looks for devices. */
#define FAKE_NAME "fake-crash-probe"
#define FAKE_WRONG set_probe
#include <signal.h>

#include "fake_plugin.h"

static opreg_status crash(const opreg_host *host, opreg_device *rows, size_t cap, size_t *count) {
    (void)host, (void)rows, (void)cap, (void)count;
    raise(SIGSEGV);
    return OPREG_OK;
}

static void set_probe(opreg_plugin *table) { table->probe = crash; }
