/* SPDX-License-Identifier: MIT
 * error.c - the per-thread error text and the names of the statuses. */
#include "error.h"

#include <stdio.h>
#include <string.h>

static _Thread_local char error_text[ERROR_TEXT_BYTES];
static _Thread_local uint32_t error_count;

opreg_status fail_v(opreg_status status, const char *format, va_list arguments) {
    char text[ERROR_TEXT_BYTES];
    int length = vsnprintf(text, sizeof text, format, arguments);
    if (length < 0) {
        text[0] = '\0';
    } else if ((size_t)length >= sizeof text) {
        memcpy(text + sizeof text - 4, "...", 4);
    }
    memcpy(error_text, text, strlen(text) + 1);
    error_count++;
    return status;
}

opreg_status fail(opreg_status status, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    fail_v(status, format, arguments);
    va_end(arguments);
    return status;
}

uint32_t error_mark(void) { return error_count; }

const char *error_since(uint32_t mark) { return error_count != mark ? error_text : ""; }

const char *opreg_last_error(void) { return error_text; }

const char *opreg_version(void) { return OPREG_VERSION; }

const char *opreg_status_name(opreg_status status) {
    switch (status) {
    case OPREG_OK:
        return "OPREG_OK";
    case OPREG_E_ARG:
        return "OPREG_E_ARG";
    case OPREG_E_SHAPE:
        return "OPREG_E_SHAPE";
    case OPREG_E_UNSUPPORTED:
        return "OPREG_E_UNSUPPORTED";
    case OPREG_E_DISABLED:
        return "OPREG_E_DISABLED";
    case OPREG_E_WORKSPACE:
        return "OPREG_E_WORKSPACE";
    case OPREG_E_ABI:
        return "OPREG_E_ABI";
    case OPREG_E_LOAD:
        return "OPREG_E_LOAD";
    case OPREG_E_DEVICE:
        return "OPREG_E_DEVICE";
    case OPREG_E_NOMEM:
        return "OPREG_E_NOMEM";
    case OPREG_E_BUSY:
        return "OPREG_E_BUSY";
    case OPREG_E_STRICT:
        return "OPREG_E_STRICT";
    case OPREG_E_CHECK:
        return "OPREG_E_CHECK";
    }
    return "unknown status";
}
