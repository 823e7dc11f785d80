/* SPDX-License-Identifier: MIT
 * Which devices the plugin opens, against a driver that has one device of capability 9.0. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "cuda_gpu.h"

#define NO_CONTEXT 201 /* what the fake driver says once a device was accepted */

static char last_line[512], last_error[512];
static int jit_is_on;

static CUresult fake_init(unsigned int flags) {
    (void)flags;
    return 0;
}

static CUresult fake_count(int *count) {
    *count = 1;
    return 0;
}

static CUresult fake_get(CUdevice *device, int ordinal) {
    *device = ordinal;
    return 0;
}

static CUresult fake_attribute(int *value, int which, CUdevice device) {
    (void)device;
    *value = which == CU_ATTRIBUTE_MAJOR ? 9 : which == CU_ATTRIBUTE_MINOR ? 0 : 132;
    return 0;
}

static CUresult fake_retain(CUcontext *context, CUdevice device) {
    (void)device;
    *context = NULL;
    return NO_CONTEXT;
}

int cuda_driver_load(cuda_driver *driver, const char *library, char *text, size_t text_bytes) {
    static int opened;
    (void)library;
    (void)text;
    (void)text_bytes;
    memset(driver, 0, sizeof *driver);
    driver->library = &opened;
    driver->init = fake_init;
    driver->device_count = fake_count;
    driver->device_get = fake_get;
    driver->device_attribute = fake_attribute;
    driver->context_retain = fake_retain;
    return 0;
}

void cuda_driver_describe(const cuda_driver *driver, CUresult error, char *text,
                          size_t text_bytes) {
    (void)driver;
    snprintf(text, text_bytes, "error %d", error);
}

static void keep_line(void *ctx, opreg_log_level level, const char *line) {
    (void)ctx;
    (void)level;
    snprintf(last_line, sizeof last_line, "%s", line);
}

static void keep_error(void *ctx, const char *format, ...) {
    va_list list;
    (void)ctx;
    va_start(list, format);
    vsnprintf(last_error, sizeof last_error, format, list);
    va_end(list);
}

static int switch_on(void *ctx, const char *name) {
    (void)ctx;
    return jit_is_on && strcmp(name, "jit") == 0;
}

static const gpu_image image = {"image", "text", 0};

/* Opens a program for sm_60, with or without text for the driver's compiler. */
static opreg_status open_program(int jit, int has_text, size_t *count) {
    const opreg_host host = {
        .struct_size = sizeof host, .log = keep_line, .error = keep_error, .switch_on = switch_on};
    const gpu_program program = {.arch = "sm_60",
                                 .major = 6,
                                 .images = &image,
                                 .jit_images = has_text ? &image : NULL,
                                 .num_images = 1};
    opreg_device row;
    opreg_status status;
    jit_is_on = jit;
    last_line[0] = last_error[0] = '\0';
    status = gpu_open(&host, &program, &row, 1, count);
    if (status == OPREG_OK) {
        gpu_close(&host);
    }
    return status;
}

static void a_device_of_another_capability_is_refused_by_its_number(void **state) {
    size_t count = 7;
    (void)state;
    assert_int_equal(open_program(0, 1, &count), OPREG_OK);
    assert_int_equal(count, 0);
    assert_non_null(strstr(last_line, "capability 9.0"));
    assert_non_null(strstr(last_line, "sm_60"));
}

static void the_switch_jit_alone_opens_nothing_where_no_text_is_inside(void **state) {
    size_t count = 7;
    (void)state;
    assert_int_equal(open_program(1, 0, &count), OPREG_OK);
    assert_int_equal(count, 0);
    assert_non_null(strstr(last_line, "none that the driver could compile"));
}

static void the_switch_jit_opens_a_newer_device_where_text_is_inside(void **state) {
    size_t count = 7;
    (void)state;
    assert_int_equal(open_program(1, 1, &count), OPREG_E_DEVICE);
    assert_non_null(strstr(last_error, "cuDevicePrimaryCtxRetain"));
    assert_string_equal(last_line, "");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_device_of_another_capability_is_refused_by_its_number),
        cmocka_unit_test(the_switch_jit_alone_opens_nothing_where_no_text_is_inside),
        cmocka_unit_test(the_switch_jit_opens_a_newer_device_where_text_is_inside),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
