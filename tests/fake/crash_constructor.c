/* SPDX-License-Identifier: MIT
 * crash_constructor.c - a plugin that crashes while it is loaded. */
#define FAKE_NAME "fake-crash-constructor"
#include <signal.h>

#include "fake_plugin.h"

__attribute__((constructor)) static void crash(void) { raise(SIGSEGV); }
