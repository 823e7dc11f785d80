/* SPDX-License-Identifier: MIT
 * allocations.c - counts what the program allocates, for the kit: an object of the program that runs it,
 * as only a program can stand before the C library.  Glibc, and no sanitizer, which has its own. */
#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define HAS_SANITIZER 1
#endif
#endif
#if defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) &&        \
    !defined(HAS_SANITIZER)

extern void *__libc_malloc(size_t bytes);
extern void *__libc_calloc(size_t count, size_t bytes);
extern void *__libc_realloc(void *old, size_t bytes);
extern void *__libc_memalign(size_t align, size_t bytes);

/* Called by the kit (session.h). */
uint64_t opreg_kit_allocations(void);

/* Libraries are to find these and not the C library's. */
#pragma GCC visibility push(default)

static _Atomic uint64_t allocations;

uint64_t opreg_kit_allocations(void) { return atomic_load_explicit(&allocations, memory_order_relaxed); }

static void count(void) { atomic_fetch_add_explicit(&allocations, 1, memory_order_relaxed); }

void *malloc(size_t bytes) {
    count();
    return __libc_malloc(bytes);
}

void *calloc(size_t number, size_t bytes) {
    count();
    return __libc_calloc(number, bytes);
}

void *realloc(void *old, size_t bytes) {
    count();
    return __libc_realloc(old, bytes);
}

void *aligned_alloc(size_t align, size_t bytes) {
    count();
    return __libc_memalign(align, bytes);
}

int posix_memalign(void **out, size_t align, size_t bytes) {
    count();
    *out = __libc_memalign(align, bytes);
    return *out != NULL ? 0 : ENOMEM;
}

#pragma GCC visibility pop
#else
typedef int opreg_kit_counts_nothing; /* C has no empty file */
#endif
