/* SPDX-License-Identifier: MIT
 * fake_folder.h - where the built fake plugins (tests/fake) lie, a folder each. */
#ifndef OPREG_TESTS_FAKE_FOLDER_H
#define OPREG_TESTS_FAKE_FOLDER_H

#include <stdio.h>

static inline void fake_dir(char *out, size_t cap, const char *folder) {
    snprintf(out, cap, "%s/fake/%s", OPREG_TEST_BUILD, folder);
}

#endif
