/* SPDX-License-Identifier: MIT
 * no_entry.c - a library that is not a plugin. */
int fake_nothing(void);

int fake_nothing(void) { return 0; }
