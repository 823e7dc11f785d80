/* SPDX-License-Identifier: MIT
 * cuda_driver.c - opens libcuda.so.1 and names its errors. */
#include "cuda_driver.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

/* POSIX promises that a function fits in a void pointer; ISO C has no cast for it. */
static int resolve(void *library, const char *name, void *member) {
    void *symbol = dlsym(library, name);
    memcpy(member, &symbol, sizeof symbol);
    return symbol != NULL;
}

int cuda_driver_load(cuda_driver *driver, const char *library, char *text, size_t text_bytes) {
    const char *name = library != NULL ? library : "libcuda.so.1";
    memset(driver, 0, sizeof *driver);
    driver->library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (driver->library == NULL) {
        const char *reason = dlerror();
        snprintf(text, text_bytes, "no CUDA driver: %s", reason != NULL ? reason : name);
        return -1;
    }
#define RESOLVE_REQUIRED(symbol, member, arguments)                                                \
    if (!resolve(driver->library, symbol, &driver->member)) {                                      \
        snprintf(text, text_bytes, "the CUDA driver %s has no %s; it is older than CUDA 11.4",     \
                 name, symbol);                                                                    \
        cuda_driver_unload(driver);                                                                \
        return -1;                                                                                 \
    }
#define RESOLVE_OPTIONAL(symbol, member, arguments)                                                \
    (void)resolve(driver->library, symbol, &driver->member);
    CUDA_DRIVER_FUNCTIONS(RESOLVE_REQUIRED, RESOLVE_OPTIONAL)
    return 0;
}

void cuda_driver_unload(cuda_driver *driver) {
    if (driver->library != NULL) {
        dlclose(driver->library);
    }
    memset(driver, 0, sizeof *driver);
}

void cuda_driver_describe(const cuda_driver *driver, CUresult error, char *text,
                          size_t text_bytes) {
    const char *name = NULL, *string = NULL;
    if (driver->error_name != NULL) {
        (void)driver->error_name(error, &name);
        (void)driver->error_string(error, &string);
    }
    snprintf(text, text_bytes, "%s (%d): %s", name != NULL ? name : "unknown CUDA error", error,
             string != NULL ? string : "no text");
}
