/* SPDX-License-Identifier: MIT
 * good.c - a plugin with nothing wrong. */
#define FAKE_NAME "fake-good"
#include "fake_plugin.h"
