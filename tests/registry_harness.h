/* SPDX-License-Identifier: MIT
 * registry_harness.h - a registry with a captured log, and the problems that the fake plugin takes. */
#ifndef REGISTRY_HARNESS_H
#define REGISTRY_HARNESS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "opreg/opreg_plugin.h"

/* Lines that a registry logged, each with its newline. */
typedef struct captured {
    char text[16384];
    size_t length;
} captured;

static inline void capture(void *user, opreg_log_level level, const char *line) {
    captured *c = user;
    if (level <= OPREG_LOG_INFO) {
        int wrote = snprintf(c->text + c->length, sizeof c->text - c->length, "%s\n", line);
        c->length += wrote > 0 ? (size_t)wrote : 0;
    }
}

static inline opreg_config capture_config(captured *log, uint32_t config_flags) {
    memset(log, 0, sizeof *log);
    return (opreg_config){.struct_size = sizeof(opreg_config),
                          .flags = config_flags | OPREG_CF_NO_INSTALLED,
                          .log = capture,
                          .log_user = log};
}

/* A registry that reads no variable. */
static inline opreg_registry *quiet_registry(captured *log) {
    opreg_config config = capture_config(log, OPREG_CF_NO_ENV);
    opreg_registry *reg = NULL;
    assert_int_equal(opreg_create(&config, &reg), OPREG_OK);
    return reg;
}

static inline void assert_text(const char *text, const char *part) {
    if (strstr(text, part) == NULL) {
        fail_msg("\"%s\" is not in \"%s\"", part, text);
    }
}

static inline void assert_no_text(const char *text, const char *part) {
    if (strstr(text, part) != NULL) {
        fail_msg("\"%s\" is in \"%s\"", part, text);
    }
}

/* The call failed with this status and a text that has this part. */
static inline void assert_failed(opreg_status got, opreg_status want, const char *part) {
    if (got != want) {
        fail_msg("%s (\"%s\") instead of %s", opreg_status_name(got), opreg_last_error(),
                 opreg_status_name(want));
    }
    assert_text(opreg_last_error(), part);
}

/* The call worked, or says why not. */
static inline void assert_works(opreg_status got) {
    if (got != OPREG_OK) {
        fail_msg("%s: %s", opreg_status_name(got), opreg_last_error());
    }
}

static inline opreg_device device_of(uint32_t kind, int32_t ordinal, const char *arch) {
    opreg_device dev = {.struct_size = sizeof dev, .kind = kind, .ordinal = ordinal};
    snprintf(dev.arch, sizeof dev.arch, "%s", arch);
    return dev;
}

static inline opreg_matmul_bt_quant matmul_of(const char *text) {
    opreg_matmul_bt_quant problem;
    assert_works(opreg_problem_parse(OPREG_OP_MATMUL_BT_QUANT, text, &problem));
    return problem;
}

/* The rows of that name, or a failed test. */
static inline opreg_plugin_row plugin_row(opreg_registry *reg, const char *name) {
    opreg_plugin_row rows[16];
    size_t count = opreg_plugins(reg, rows, sizeof rows[0], 16);
    for (size_t i = 0; i < count; i++) {
        if (strcmp(rows[i].name, name) == 0) {
            return rows[i];
        }
    }
    fail_msg("no plugin %s", name);
    return rows[0];
}

static inline opreg_kernel_row kernel_row(opreg_registry *reg, const char *flag) {
    opreg_kernel_row rows[64];
    size_t count = opreg_kernels(reg, rows, sizeof rows[0], 64);
    assert_true(count <= 64);
    for (size_t i = 0; i < count; i++) {
        if (strcmp(rows[i].flag, flag) == 0) {
            return rows[i];
        }
    }
    fail_msg("no kernel %s", flag);
    return rows[0];
}

static inline opreg_flag_row flag_row(opreg_registry *reg, const char *flag) {
    opreg_flag_row rows[64];
    size_t count = opreg_flags(reg, rows, sizeof rows[0], 64);
    for (size_t i = 0; i < count; i++) {
        if (strcmp(rows[i].flag, flag) == 0) {
            return rows[i];
        }
    }
    fail_msg("no flag %s", flag);
    return rows[0];
}

#endif /* REGISTRY_HARNESS_H */
