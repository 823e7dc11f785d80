/* SPDX-License-Identifier: MIT
 * dependency.c - the library that missing_dependency needs, built and then not found. */
int fake_dependency(void);

int fake_dependency(void) { return 0; }
