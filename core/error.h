/* SPDX-License-Identifier: MIT
 * error.h - the text behind opreg_last_error: one per thread, written by the line that fails. */
#ifndef OPREG_ERROR_H
#define OPREG_ERROR_H

#include <stdarg.h>

#include "opreg/opreg.h"

/* Longest text, with its end mark; a longer one ends in "...". */
#define ERROR_TEXT_BYTES 4096

/* Sets this thread's text and returns status: `return fail(OPREG_E_SHAPE, "k %lld ...", k);`.
 * The arguments may point into the present text. */
opreg_status fail(opreg_status status, const char *format, ...)
#if defined(__GNUC__)
    __attribute__((format(printf, 2, 3)))
#endif
    ;

/* The same with a va_list, for hosts that pass a plugin's text on. */
opreg_status fail_v(opreg_status status, const char *format, va_list arguments)
#if defined(__GNUC__)
    __attribute__((format(printf, 2, 0)))
#endif
    ;

/* How often this thread has failed: taken before a call into foreign code, which may or may not
 * leave a text, and given to error_since after it. */
uint32_t error_mark(void);

/* The text when there is one since the mark, else "". */
const char *error_since(uint32_t mark);

#endif /* OPREG_ERROR_H */
