/* SPDX-License-Identifier: MIT
 * reason.c - writes the text of reason.h. */
#include "reason.h"

#include <stdarg.h>
#include <stdio.h>

int refuse(reason *why, const char *format, ...) {
    va_list list;
    va_start(list, format);
    vsnprintf(why->text, sizeof why->text, format, list);
    va_end(list);
    return 0;
}
