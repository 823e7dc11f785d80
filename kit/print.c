/* SPDX-License-Identifier: MIT
 * print.c - events and reports as lines. */
#include <stdio.h>
#include <string.h>

#include "opreg/opreg_test.h"

/* Writes what fits and counts everything, as snprintf does. */
typedef struct line {
    char *text;
    size_t cap, length;
} line;

static void put(line *l, const char *text) {
    for (; *text != '\0'; text++, l->length++) {
        if (l->length + 1 < l->cap) {
            l->text[l->length] = *text;
            l->text[l->length + 1] = '\0';
        }
    }
}

static void put_number(line *l, const char *key, uint64_t value) {
    char text[96];
    snprintf(text, sizeof text, ",\"%s\":%llu", key, (unsigned long long)value);
    put(l, text);
}

static void put_string(line *l, const char *key, const char *value) {
    put(l, l->length > 1 ? ",\"" : "\"");
    put(l, key);
    put(l, "\":\"");
    for (; *value != '\0'; value++) {
        char text[8] = {*value, '\0'};
        if (*value == '"' || *value == '\\') {
            snprintf(text, sizeof text, "\\%c", *value);
        } else if ((unsigned char)*value < 0x20) {
            snprintf(text, sizeof text, "\\u%04x", (unsigned)(unsigned char)*value);
        }
        put(l, text);
    }
    put(l, "\"");
}

static const char *kind_name(uint32_t kind) {
    static const char *const names[] = {"", "case", "skip", "cell", "progress"};
    return kind < sizeof names / sizeof names[0] ? names[kind] : "";
}

static const char *verdict_name(const opreg_kit_event *event) {
    static const char *const names[] = {"passed", "failed", "never-run"};
    if (event->kind == OPREG_KIT_SKIP) {
        return "skipped";
    }
    return event->kind == OPREG_KIT_PROGRESS ? "" : event->verdict < 3 ? names[event->verdict] : "";
}

static void print_json(const opreg_kit_event *event, line *l) {
    put(l, "{");
    put_string(l, "kind", kind_name(event->kind));
    put_string(l, "verdict", verdict_name(event));
    put_string(l, "op", event->op != 0 ? opreg_op_name((opreg_op)event->op) : "");
    put_string(l, "plugin", event->plugin);
    put_string(l, "kernel", event->kernel);
    put_string(l, "device", event->device);
    put_string(l, "format", event->format);
    put_string(l, "dtypes", event->dtypes);
    put_string(l, "check", event->check);
    put_string(l, "data", event->data);
    put_string(l, "problem", event->problem);
    put_string(l, "detail", event->detail);
    put_number(l, "seed", event->seed);
    put_number(l, "cases", event->cases);
    put_number(l, "refused", event->refused);
    put(l, "}");
}

size_t opreg_kit_event_print(const opreg_kit_event *event, int json, char *text, size_t cap) {
    line l = {text, text != NULL ? cap : 0, 0};
    char numbers[96];
    if (l.cap > 0) {
        text[0] = '\0';
    }
    if (event == NULL) {
        return 0;
    }
    if (json) {
        print_json(event, &l);
        return l.length;
    }
    put(&l, verdict_name(event));
    switch ((opreg_kit_kind)event->kind) {
    case OPREG_KIT_PROGRESS:
        snprintf(numbers, sizeof numbers, "%llu of %llu cases", (unsigned long long)event->cases,
                 (unsigned long long)event->refused);
        put(&l, numbers);
        return l.length;
    case OPREG_KIT_SKIP:
        put(&l, " ");
        put(&l, event->plugin);
        put(&l, ": ");
        put(&l, event->detail);
        return l.length;
    default: break;
    }
    put(&l, " ");
    put(&l, event->plugin);
    put(&l, "/");
    put(&l, event->kernel);
    put(&l, " on ");
    put(&l, event->device);
    put(&l, " ");
    put(&l, event->format);
    put(&l, " ");
    put(&l, event->dtypes);
    if (event->kind == OPREG_KIT_CELL) {
        snprintf(numbers, sizeof numbers, ": %llu cases, %llu refused",
                 (unsigned long long)event->cases, (unsigned long long)event->refused);
        put(&l, numbers);
        return l.length;
    }
    if (event->verdict == OPREG_KIT_FAILED) {
        put(&l, " [");
        put(&l, event->check);
        put(&l, "] ");
        put(&l, event->detail);
    }
    snprintf(numbers, sizeof numbers, " | seed %llu case %llu %s | ",
             (unsigned long long)event->seed, (unsigned long long)event->cases, event->data);
    put(&l, numbers);
    put(&l, opreg_op_name((opreg_op)event->op));
    put(&l, " ");
    put(&l, event->problem);
    return l.length;
}

size_t opreg_kit_report_print(const opreg_kit_report *report, char *text, size_t cap) {
    int length;
    cap = text != NULL ? cap : 0;
    if (report == NULL) {
        if (cap > 0) {
            text[0] = '\0';
        }
        return 0;
    }
    length = snprintf(text, cap, "%llu passed, %llu failed, %llu skipped, %llu never-run",
                      (unsigned long long)report->passed, (unsigned long long)report->failed,
                      (unsigned long long)report->skipped, (unsigned long long)report->never_run);
    return length > 0 ? (size_t)length : 0;
}
