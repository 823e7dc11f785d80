/* SPDX-License-Identifier: MIT
 * test_loader.c - real libraries that misbehave: each costs its plugin, with a text that says why. */
#define _GNU_SOURCE
#include "loader.h"

#include <dlfcn.h>
#include <unistd.h>

#define FAKE_ENTRY fake_in_process_entry
#include "fake/fake_plugin.h"
#include "fake_folder.h"
#include "registry_harness.h"

static captured said;

/* Finds the fake, switches it on and returns what opreg_enable says. */
static opreg_status enable_fake(opreg_registry *reg, const char *folder, const char *name) {
    char dir[1024];
    fake_dir(dir, sizeof dir, folder);
    assert_works(opreg_discover(reg, dir));
    return opreg_enable(reg, name, "on");
}

static void refuses_fake(const char *folder, const char *name, opreg_status status,
                         const char *part) {
    opreg_registry *reg = quiet_registry(&said);
    opreg_plugin_row row;
    assert_failed(enable_fake(reg, folder, name), status, part);
    row = plugin_row(reg, name);
    assert_int_equal(row.state, OPREG_PLUGIN_FAILED);
    assert_true(row.reason[0] != '\0');
    assert_int_equal(opreg_devices(reg, NULL, 0, 0), 1); /* the processor is still there */
    assert_works(opreg_destroy(reg));
}

static void a_right_plugin_opens_with_its_device(void **state) {
    opreg_registry *reg = quiet_registry(&said);
    opreg_device rows[4];
    (void)state;
    assert_works(enable_fake(reg, "good", "fake-good"));
    assert_int_equal(plugin_row(reg, "fake-good").state, OPREG_PLUGIN_READY);
    assert_string_equal(plugin_row(reg, "fake-good").version, "1.2.3");
    assert_int_equal(opreg_devices(reg, rows, sizeof rows[0], 4), 2);
    assert_string_equal(rows[1].arch, "fake_1");
    assert_works(opreg_destroy(reg));
}

static void a_wrong_major_is_refused_by_both_numbers(void **state) {
    (void)state;
    refuses_fake("wrong_major", "fake-wrong-major", OPREG_E_ABI,
                 "plugin fake-wrong-major is for ABI 2.x, this opreg 0.1.0 has 1.1");
}

static void a_short_row_is_refused_by_its_size(void **state) {
    (void)state;
    refuses_fake("short_struct", "fake-short-struct", OPREG_E_LOAD,
                 "kernel 1 has struct_size 8, it must be at least");
}

static void a_null_row_is_refused_by_its_name(void **state) {
    (void)state;
    refuses_fake("null_row", "fake-null-row", OPREG_E_LOAD,
                 "kernel base has a null run, which is required");
}

static void a_bad_kernel_name_is_refused(void **state) {
    (void)state;
    refuses_fake("bad_name", "fake-bad-name", OPREG_E_LOAD, "kernel 0 is named \"Q4-K gemv\"");
}

static void a_missing_dependency_is_named(void **state) {
    (void)state;
    refuses_fake("missing_dependency", "fake-missing-dependency", OPREG_E_LOAD,
                 "libfake_dependency.so");
}

static void a_missing_symbol_is_found_before_it_is_called(void **state) {
    (void)state;
    refuses_fake("missing_symbol", "fake-missing-symbol", OPREG_E_LOAD, "fake_function_of_nobody");
}

static void names_of_an_open_plugin_are_its_own(void **state) {
    opreg_registry *reg = quiet_registry(&said);
    (void)state;
    assert_works(enable_fake(reg, "good", "fake-good"));
    assert_null(dlsym(RTLD_DEFAULT, "opreg_plugin_entry"));
    assert_works(opreg_destroy(reg));
}

static void a_library_that_is_no_plugin_is_refused(void **state) {
    (void)state;
    refuses_fake("no_entry", "fake-no-entry", OPREG_E_LOAD, "does not export opreg_plugin_entry");
}

static void an_entry_that_refuses_is_quoted(void **state) {
    (void)state;
    refuses_fake("refuses", "fake-refuses", OPREG_E_LOAD,
                 "answered OPREG_E_DEVICE: driver 7 is too old");
}

static void a_library_of_another_plugin_is_refused(void **state) {
    (void)state;
    refuses_fake("other_name", "fake-other-name", OPREG_E_LOAD,
                 "says it is plugin fake-somebody-else");
}

static void a_kernel_that_only_the_manifest_has_is_named(void **state) {
    (void)state;
    refuses_fake("lost_kernel", "fake-lost-kernel", OPREG_E_LOAD, "lists the kernel prepared_one");
}

static void a_kernel_that_the_manifest_has_twice_is_named(void **state) {
    (void)state;
    refuses_fake("twice", "fake-twice", OPREG_E_LOAD, "lists the kernel base twice");
}

/* A sanitizer's own threads or handlers may keep the trial away. */
static void a_crash_in_a_probe_costs_the_plugin_alone(void **state) {
    (void)state;
    refuses_fake("crash_probe", "fake-crash-probe", OPREG_E_LOAD,
                 "plugin fake-crash-probe crashed in its probe: signal 11");
}

static void a_crash_in_a_constructor_costs_the_plugin_alone(void **state) {
    (void)state;
    refuses_fake("crash_constructor", "fake-crash-constructor", OPREG_E_LOAD,
                 "crashed while its library was loaded");
}

static void a_plugin_that_prints_is_warned_about(void **state) {
    opreg_registry *reg = quiet_registry(&said);
    int out = dup(STDOUT_FILENO);
    (void)state;
    fflush(stdout);
    assert_non_null(freopen("/dev/null", "w", stdout)); /* the real load prints, too */
    assert_works(enable_fake(reg, "prints", "fake-prints"));
    fflush(stdout);
    dup2(out, STDOUT_FILENO);
    close(out);
    assert_text(said.text, "plugin fake-prints prints to stdout while it is opened, where no "
                           "library should: \"hello from a constructor");
    assert_works(opreg_destroy(reg));
}

/* ---- tables that are wrong in one place, in this process ------------------------------------- */

static opreg_plugin table;
static opreg_kernel kernel;
static const opreg_kernel *kernel_rows[2] = {&kernel, &kernel};
static opreg_device_io io;
static opreg_layout layout;
static const opreg_layout *layout_rows[2] = {&layout, &layout};

static opreg_status give_table(const opreg_host *host, opreg_plugin *out) {
    (void)host;
    *out = table;
    return OPREG_OK;
}

static int right_table(void **state) {
    (void)state;
    table = fake_table();
    kernel = fake_kernels[0];
    layout = fake_layout;
    io = fake_io;
    kernel_rows[1] = &kernel;
    table.kernels = kernel_rows;
    table.num_kernels = 1;
    table.layouts = layout_rows;
    table.io = &io;
    return 0;
}

static void refuses_table(opreg_status status, const char *part) {
    opreg_registry *reg = quiet_registry(&said);
    assert_failed(opreg_add(reg, give_table), status, part);
    assert_works(opreg_destroy(reg));
}

static void the_right_table_is_taken(void **state) {
    opreg_registry *reg = quiet_registry(&said);
    (void)state;
    assert_works(opreg_add(reg, give_table));
    assert_works(opreg_destroy(reg));
}

#define REFUSED(name, change, status, part)                                                        \
    static void name(void **state) {                                                               \
        (void)state;                                                                               \
        change;                                                                                    \
        refuses_table(status, part);                                                               \
    }

REFUSED(a_short_table_is_refused, table.struct_size = 16, OPREG_E_ABI, "filled a table of 16 bytes")
REFUSED(a_minor_that_was_not_offered_is_refused, table.abi_minor = 9, OPREG_E_ABI,
        "ABI minor 9, but this opreg offered at most 1")
static opreg_device_steps steps = {.struct_size = sizeof steps};
REFUSED(a_table_with_some_steps_is_refused, table.steps = &steps, OPREG_E_LOAD,
        "has some but not all")
REFUSED(a_null_plugin_name_is_refused, table.name = NULL, OPREG_E_LOAD, "calls itself \"(null)\"")
REFUSED(a_null_version_is_refused, table.version = NULL, OPREG_E_LOAD, "null version")
REFUSED(a_null_probe_is_refused, table.probe = NULL, OPREG_E_LOAD, "null probe")
REFUSED(a_null_kernel_table_is_refused, table.kernels = NULL, OPREG_E_LOAD, "in a null table")
REFUSED(a_null_kernel_row_is_refused, kernel_rows[1] = NULL; table.num_kernels = 2, OPREG_E_LOAD,
        "kernel 1 is a null row")
REFUSED(a_second_kernel_of_one_name_is_refused, table.num_kernels = 2, OPREG_E_LOAD,
        "two kernels are named base")
REFUSED(an_unknown_operator_is_refused, kernel.op = 77, OPREG_E_LOAD, "operator 77")
REFUSED(a_level_that_promises_nothing_is_refused, kernel.level = OPREG_LEVEL_ANY, OPREG_E_LOAD,
        "has level 0")
REFUSED(a_band_that_is_too_wide_is_refused, kernel.level = OPREG_LEVEL_BAND;
        kernel.band = 3e-3, OPREG_E_LOAD, "declares a band of 0.003")
REFUSED(a_band_beside_a_closer_promise_is_refused, kernel.level = OPREG_LEVEL_INT;
        kernel.band = 1e-6, OPREG_E_LOAD, "declares a band of 1e-06")
REFUSED(unknown_kernel_flags_are_refused, kernel.flags = 0x100, OPREG_E_LOAD, "unknown flags 0x100")
REFUSED(a_matmul_without_formats_is_refused, kernel.formats = NULL, OPREG_E_LOAD,
        "must have a list of formats")
REFUSED(a_layout_that_is_not_there_is_refused, kernel.layout = 9, OPREG_E_LOAD,
        "reads layout 9, which the plugin does not have")
REFUSED(a_reserved_layout_id_is_refused, layout.id = 0, OPREG_E_LOAD, "reserved id 0")
REFUSED(a_second_layout_of_one_id_is_refused, table.num_layouts = 2, OPREG_E_LOAD,
        "share the id 1")
REFUSED(a_null_pack_is_refused, layout.pack = NULL, OPREG_E_LOAD, "pack or unpack")
REFUSED(a_null_io_function_is_refused, io.copy = NULL, OPREG_E_LOAD,
        "a required function of its io table is null")
REFUSED(half_of_the_graph_functions_are_refused, io.capture_begin = fake_sync, OPREG_E_LOAD,
        "some graph functions but not all")

static opreg_status no_device(const opreg_host *host, opreg_device *rows, size_t cap,
                              size_t *count) {
    (void)host, (void)rows, (void)cap;
    *count = 0;
    return OPREG_OK;
}

static void a_plugin_without_a_device_is_open_and_says_so(void **state) {
    opreg_registry *reg = quiet_registry(&said);
    (void)state;
    table.probe = no_device;
    assert_works(opreg_add(reg, give_table));
    assert_int_equal(plugin_row(reg, FAKE_NAME).state, OPREG_PLUGIN_NO_DEVICE);
    assert_works(opreg_destroy(reg));
}

static opreg_status many_devices(const opreg_host *host, opreg_device *rows, size_t cap,
                                 size_t *count) {
    (void)host;
    *count = 40;
    for (size_t i = 0; i < cap && i < 40; i++) {
        rows[i].kind = OPREG_HIP;
        rows[i].ordinal = (int32_t)i;
    }
    return OPREG_OK;
}

static void more_devices_than_room_are_asked_for_again(void **state) {
    opreg_registry *reg = quiet_registry(&said);
    (void)state;
    table.probe = many_devices;
    assert_works(opreg_add(reg, give_table));
    assert_int_equal(opreg_devices(reg, NULL, 0, 0), 41);
    assert_works(opreg_destroy(reg));
}

#define WITH_TABLE(test) cmocka_unit_test_setup(test, right_table)

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_right_plugin_opens_with_its_device),
        cmocka_unit_test(a_wrong_major_is_refused_by_both_numbers),
        cmocka_unit_test(a_short_row_is_refused_by_its_size),
        cmocka_unit_test(a_null_row_is_refused_by_its_name),
        cmocka_unit_test(a_bad_kernel_name_is_refused),
        cmocka_unit_test(a_missing_dependency_is_named),
        cmocka_unit_test(a_missing_symbol_is_found_before_it_is_called),
        cmocka_unit_test(names_of_an_open_plugin_are_its_own),
        cmocka_unit_test(a_library_that_is_no_plugin_is_refused),
        cmocka_unit_test(an_entry_that_refuses_is_quoted),
        cmocka_unit_test(a_library_of_another_plugin_is_refused),
        cmocka_unit_test(a_kernel_that_only_the_manifest_has_is_named),
        cmocka_unit_test(a_kernel_that_the_manifest_has_twice_is_named),
        cmocka_unit_test(a_crash_in_a_probe_costs_the_plugin_alone),
        cmocka_unit_test(a_crash_in_a_constructor_costs_the_plugin_alone),
        cmocka_unit_test(a_plugin_that_prints_is_warned_about),
        WITH_TABLE(the_right_table_is_taken),
        WITH_TABLE(a_short_table_is_refused),
        WITH_TABLE(a_table_with_some_steps_is_refused),
        WITH_TABLE(a_minor_that_was_not_offered_is_refused),
        WITH_TABLE(a_null_plugin_name_is_refused),
        WITH_TABLE(a_null_version_is_refused),
        WITH_TABLE(a_null_probe_is_refused),
        WITH_TABLE(a_null_kernel_table_is_refused),
        WITH_TABLE(a_null_kernel_row_is_refused),
        WITH_TABLE(a_second_kernel_of_one_name_is_refused),
        WITH_TABLE(an_unknown_operator_is_refused),
        WITH_TABLE(a_level_that_promises_nothing_is_refused),
        WITH_TABLE(a_band_that_is_too_wide_is_refused),
        WITH_TABLE(a_band_beside_a_closer_promise_is_refused),
        WITH_TABLE(unknown_kernel_flags_are_refused),
        WITH_TABLE(a_matmul_without_formats_is_refused),
        WITH_TABLE(a_layout_that_is_not_there_is_refused),
        WITH_TABLE(a_reserved_layout_id_is_refused),
        WITH_TABLE(a_second_layout_of_one_id_is_refused),
        WITH_TABLE(a_null_pack_is_refused),
        WITH_TABLE(a_null_io_function_is_refused),
        WITH_TABLE(half_of_the_graph_functions_are_refused),
        WITH_TABLE(a_plugin_without_a_device_is_open_and_says_so),
        WITH_TABLE(more_devices_than_room_are_asked_for_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
