/* SPDX-License-Identifier: MIT
 * output.c - printing that the subcommands share. */
#define _POSIX_C_SOURCE 200809L
#include "output.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

void print_json(json_t *object) {
    json_dumpf(object, stdout, JSON_COMPACT | JSON_ENSURE_ASCII | JSON_REAL_PRECISION(6));
    putchar('\n');
    fflush(stdout);
    json_decref(object);
}

json_t *json_number(double value) {
    return isfinite(value) ? json_real(value) : json_null();
}

json_t *json_bytes(uint64_t bytes) {
    return bytes <= INT64_MAX ? json_integer((json_int_t)bytes) : json_null();
}

int finish_output(void) {
    if (fflush(stdout) == 0 && !ferror(stdout)) {
        return 0;
    }
    fprintf(stderr, "opreg: cannot write the output: %s\n", strerror(errno));
    return -1;
}

const char *level_name(uint32_t level) {
    switch (level) {
    case OPREG_LEVEL_CANONICAL:
        return "canonical";
    case OPREG_LEVEL_INT:
        return "int";
    case OPREG_LEVEL_BAND:
        return "band";
    default:
        return "any";
    }
}

const char *plugin_state_name(uint32_t state) {
    switch (state) {
    case OPREG_PLUGIN_OFF:
        return "off";
    case OPREG_PLUGIN_READY:
        return "ready";
    case OPREG_PLUGIN_NO_DEVICE:
        return "no-device";
    case OPREG_PLUGIN_FAILED:
        return "failed";
    case OPREG_PLUGIN_UNLOADED:
        return "unloaded";
    default:
        return "?";
    }
}

const char *device_name(const opreg_device *device, char text[96]) {
    static const char *const kinds[] = {"?", "cpu", "cuda", "hip"};
    snprintf(text, 96, "%s:%d/%.31s", kinds[device->kind < 4 ? device->kind : 0], device->ordinal,
             device->arch);
    return text;
}

double seconds_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

void progress_start(progress *p) {
    p->start = seconds_now();
    p->shown = 0;
    p->dirty = 0;
    p->terminal = isatty(STDERR_FILENO);
}

void progress_show(progress *p, const char *format, ...) {
    va_list list;
    double now;
    if (!p->terminal) {
        return;
    }
    now = seconds_now();
    if (now - p->start < 2.0 || now - p->shown < 0.1) {
        return;
    }
    p->shown = now;
    p->dirty = 1;
    fputs("\r\x1b[K", stderr);
    va_start(list, format);
    vfprintf(stderr, format, list);
    va_end(list);
    fflush(stderr);
}

void progress_clear(progress *p) {
    if (p->dirty) {
        fputs("\r\x1b[K", stderr);
        fflush(stderr);
        p->dirty = 0;
    }
}
