/* SPDX-License-Identifier: MIT
 * other_name.c - a library that says it is another plugin than its manifest says. */
#define FAKE_NAME "fake-somebody-else"
#include "fake_plugin.h"
