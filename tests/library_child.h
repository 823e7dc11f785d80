/* SPDX-License-Identifier: MIT
 * library_child.h - what a child process does with the shared library: opens, uses, closes, exits. */
#ifndef OPREG_TEST_LIBRARY_CHILD_H
#define OPREG_TEST_LIBRARY_CHILD_H

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "opreg/opreg.h"

/* Does not return: the status is 0 where all of it worked, and exit runs the handlers.  An alarm ends
 * a child that hangs. */
static inline void library_child(const char *path, unsigned seconds) {
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL), *symbol;
    opreg_status (*create)(const opreg_config *, opreg_registry **);
    opreg_status (*destroy)(opreg_registry *);
    opreg_registry *reg = NULL;
    alarm(seconds);
    if (library == NULL) {
        _exit(2);
    }
    symbol = dlsym(library, "opreg_create");
    memcpy(&create, &symbol, sizeof symbol);
    symbol = dlsym(library, "opreg_destroy");
    memcpy(&destroy, &symbol, sizeof symbol);
    if (create(NULL, &reg) != OPREG_OK || destroy(reg) != OPREG_OK || dlclose(library) != 0) {
        _exit(3);
    }
    exit(0);
}

#endif /* OPREG_TEST_LIBRARY_CHILD_H */
