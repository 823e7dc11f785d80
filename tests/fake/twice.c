/* SPDX-License-Identifier: MIT
 * twice.c - a plugin with nothing wrong. */
#define FAKE_NAME "fake-twice"
#include "fake_plugin.h"
