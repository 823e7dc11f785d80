/* SPDX-License-Identifier: MIT
 * prints.c - a plugin that prints while it is loaded. */
#define FAKE_NAME "fake-prints"
#include "fake_plugin.h"

__attribute__((constructor)) static void greet(void) { puts("hello from a constructor"); }
