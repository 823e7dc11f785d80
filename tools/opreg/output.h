/* SPDX-License-Identifier: MIT
 * output.h - what the subcommands share to print: JSON lines, numbers, names, progress. */
#ifndef OPREG_TOOLS_OUTPUT_H
#define OPREG_TOOLS_OUTPUT_H

#include <jansson.h>
#include <stdint.h>

#include "opreg/opreg.h"

/* Prints one object on one line of stdout, keys in the order they were set, and frees it. */
void print_json(json_t *object);

/* A number, or null where it is not finite: JSON has no other word for that. */
json_t *json_number(double value);

/* A count of bytes, or null past 2^63 - 1, where the numbers of this JSON end. */
json_t *json_bytes(uint64_t bytes);

/* 0 when everything written to stdout so far arrived; else -1 after a line on stderr. */
int finish_output(void);

const char *level_name(uint32_t level);        /* "canonical", "int", "band", "any"          */
const char *plugin_state_name(uint32_t state); /* "off", "ready", ...                        */
const char *device_name(const opreg_device *device, char text[96]); /* "cuda:0/sm_90" */

/* Seconds of a clock that only goes forward. */
double seconds_now(void);

/* Progress on stderr: shown only where that is a terminal and two seconds have passed since start.
 */
typedef struct progress {
    double start, shown;
    int terminal, dirty;
} progress;
void progress_start(progress *p);
__attribute__((format(printf, 2, 3))) void progress_show(progress *p, const char *format, ...);
void progress_clear(progress *p); /* before anything else is printed */

#endif /* OPREG_TOOLS_OUTPUT_H */
