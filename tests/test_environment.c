/* SPDX-License-Identifier: MIT
 * test_environment.c - what a registry takes from the process around it: variables, folders,
 * rights. */
#define _GNU_SOURCE
#include <sys/auxv.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define FAKE_ENTRY fake_entry
#include "fake/fake_plugin.h"
#include "fake_folder.h"
#include "registry_harness.h"

static captured said;

static int clear_environment(void **state) {
    static const char *const names[] = {"OPREG_FAKE_GOOD",
                                        "OPREG_FAKE_GOOD_BASE",
                                        "OPREG_PLUGIN_DIR",
                                        "OPREG_TRACE",
                                        "OPREG_STRICT",
                                        "OPREG_GUARD",
                                        "OPREG_SHADOW",
                                        "OPREG_FAKE_GOOD_INT_ONE",
                                        "OPREG_CPU_REFERENCE_MATMUL",
                                        "OPREG_FAKE_GOD",
                                        "OPREG_FAKE_GOOD_OLD_ONE",
                                        "OPREG_FAKE"};
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        unsetenv(names[i]);
    }
    return 0;
}

/* A registry that reads the environment of this test. */
static opreg_status create(uint32_t config_flags, opreg_registry **reg) {
    opreg_config config = capture_config(&said, config_flags);
    return opreg_create(&config, reg);
}

static void use_fakes(const char *folder) {
    char dir[1024];
    fake_dir(dir, sizeof dir, folder);
    setenv("OPREG_PLUGIN_DIR", dir, 1);
}

static void with_nothing_set_only_the_cpu_backend_is_open(void **state) {
    opreg_registry *reg = NULL;
    opreg_device rows[4];
    (void)state;
    use_fakes("good");
    assert_works(create(0, &reg));
    assert_int_equal(opreg_devices(reg, rows, sizeof rows[0], 4), 1);
    assert_int_equal(rows[0].kind, OPREG_CPU);
    assert_int_equal(plugin_row(reg, "cpu").state, OPREG_PLUGIN_READY);
    assert_int_equal(plugin_row(reg, "fake-good").state, OPREG_PLUGIN_OFF);
    assert_text(plugin_row(reg, "fake-good").reason, "set OPREG_FAKE_GOOD=on");
    assert_string_equal(said.text, "");
    assert_works(opreg_destroy(reg));
}

static void a_plugin_that_is_off_is_never_opened(void **state) {
    opreg_registry *reg = NULL;
    (void)state;
    use_fakes("crash_constructor");
    assert_works(create(0, &reg));
    assert_works(opreg_destroy(reg));
}

static void the_environment_switches_a_plugin_and_its_variants(void **state) {
    opreg_registry *reg = NULL;
    (void)state;
    use_fakes("good");
    setenv("OPREG_FAKE_GOOD", "exact", 1);
    setenv("OPREG_FAKE_GOOD_INT_ONE", "on", 1);
    assert_works(create(0, &reg));
    assert_int_equal(plugin_row(reg, "fake-good").state, OPREG_PLUGIN_READY);
    assert_int_equal(kernel_row(reg, "fake-good/base").enabled, 1);
    assert_int_equal(kernel_row(reg, "fake-good/exact_one").enabled, 1);
    assert_int_equal(kernel_row(reg, "fake-good/int_one").enabled, 1);
    assert_int_equal(kernel_row(reg, "fake-good/prepared_one").enabled, 0);
    assert_int_equal(flag_row(reg, "fake-good/exact_one").source, OPREG_SOURCE_LEVEL);
    assert_string_equal(flag_row(reg, "fake-good/exact_one").value, "on");
    assert_int_equal(flag_row(reg, "fake-good/int_one").source, OPREG_SOURCE_ENV);
    assert_string_equal(said.text, "");
    assert_works(opreg_destroy(reg));
}

static void the_levels_admit_more_and_more(void **state) {
    static const struct {
        const char *word;
        uint32_t base, exact, with_int, band;
    } rows[] = {
        {"off", 0, 0, 0, 0}, {"on", 1, 0, 0, 0}, {"exact", 1, 1, 0, 0}, {"fast", 1, 1, 1, 1}};
    opreg_registry *reg = quiet_registry(&said);
    (void)state;
    assert_works(opreg_add(reg, fake_entry));
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        assert_works(opreg_enable(reg, "fake", rows[i].word));
        assert_int_equal(kernel_row(reg, "fake/base").enabled, rows[i].base);
        assert_int_equal(kernel_row(reg, "fake/exact_one").enabled, rows[i].exact);
        assert_int_equal(kernel_row(reg, "fake/int_one").enabled, rows[i].with_int);
        assert_int_equal(kernel_row(reg, "fake/prepared_one").enabled, rows[i].band);
    }
    assert_works(opreg_enable(reg, "fake/exact_one", "off"));
    assert_int_equal(kernel_row(reg, "fake/exact_one").enabled, 0);
    assert_works(opreg_destroy(reg));
}

static void a_variant_of_a_closed_plugin_is_warned_about(void **state) {
    opreg_registry *reg = NULL;
    (void)state;
    use_fakes("good");
    setenv("OPREG_FAKE_GOOD_INT_ONE", "on", 1);
    assert_works(create(0, &reg));
    assert_text(said.text, "OPREG_FAKE_GOOD_INT_ONE is on, but plugin fake-good is off and stays "
                           "closed: set OPREG_FAKE_GOOD=on");
    assert_int_equal(plugin_row(reg, "fake-good").state, OPREG_PLUGIN_OFF);
    assert_works(opreg_destroy(reg));
}

static void the_environment_is_read_once(void **state) {
    opreg_registry *reg = NULL;
    (void)state;
    assert_works(create(0, &reg));
    setenv("OPREG_FAKE", "off", 1);
    assert_works(opreg_add(reg, fake_entry));
    assert_int_equal(kernel_row(reg, "fake/base").enabled, 1);
    assert_works(opreg_destroy(reg));
}

static void an_added_plugin_is_on_unless_a_flag_says_else(void **state) {
    opreg_registry *reg = NULL;
    (void)state;
    setenv("OPREG_FAKE", "off", 1);
    assert_works(create(0, &reg));
    assert_works(opreg_add(reg, fake_entry));
    assert_int_equal(plugin_row(reg, "fake").state, OPREG_PLUGIN_OFF);
    assert_int_equal(opreg_devices(reg, NULL, 0, 0), 1);
    assert_works(opreg_enable(reg, "fake", "on"));
    assert_int_equal(opreg_devices(reg, NULL, 0, 0), 2);
    assert_works(opreg_destroy(reg));
}

static void strict_makes_errors_of_warnings(void **state) {
    opreg_registry *reg = NULL;
    (void)state;
    use_fakes("wrong_major");
    setenv("OPREG_FAKE_GOD", "on", 1);
    setenv("OPREG_TRACE", "loud", 1);
    assert_works(create(0, &reg));
    assert_works(opreg_destroy(reg));
    assert_failed(create(OPREG_CF_STRICT, &reg), OPREG_E_STRICT,
                  "OPREG_FAKE_GOD is not a variable");
    assert_text(opreg_last_error(), "OPREG_TRACE=\"loud\" counts as off");
    setenv("OPREG_STRICT", "on", 1);
    assert_failed(create(0, &reg), OPREG_E_STRICT, "OPREG_FAKE_GOD");
}

static opreg_status refusing_entry(const opreg_host *host, opreg_plugin *out) {
    (void)host;
    (void)out;
    return OPREG_E_DEVICE;
}

static void variables_of_a_linked_plugin_are_known_when_creation_gets_its_entry(void **state) {
    const opreg_entry_fn entries[] = {fake_entry}, wrong[] = {fake_entry, refusing_entry};
    opreg_config config = capture_config(&said, OPREG_CF_STRICT);
    opreg_registry *reg = NULL;
    (void)state;
    setenv("OPREG_FAKE", "exact", 1);
    setenv("OPREG_FAKE_INT_ONE", "on", 1);
    assert_failed(opreg_create(&config, &reg), OPREG_E_STRICT, "OPREG_FAKE is not a variable");
    config.entries = entries;
    config.num_entries = 1;
    assert_works(opreg_create(&config, &reg));
    assert_int_equal(plugin_row(reg, "fake").state, OPREG_PLUGIN_READY);
    assert_int_equal(opreg_devices(reg, NULL, 0, 0), 2);
    assert_works(opreg_destroy(reg));
    config.entries = wrong;
    config.num_entries = 2;
    assert_failed(opreg_create(&config, &reg), OPREG_E_STRICT, "OPREG_E_DEVICE");
    config.flags &= ~OPREG_CF_STRICT;
    assert_works(opreg_create(&config, &reg));
    assert_int_equal(opreg_devices(reg, NULL, 0, 0), 2);
    assert_works(opreg_destroy(reg));
    config.entries = NULL;
    assert_failed(opreg_create(&config, &reg), OPREG_E_ARG, "they are null");
}

static void strict_refuses_a_plugin_that_does_not_load(void **state) {
    opreg_registry *reg = NULL;
    (void)state;
    use_fakes("null_row");
    setenv("OPREG_FAKE_NULL_ROW", "on", 1);
    assert_failed(create(OPREG_CF_STRICT, &reg), OPREG_E_STRICT, "null run");
    assert_works(create(0, &reg));
    assert_int_equal(plugin_row(reg, "fake-null-row").state, OPREG_PLUGIN_FAILED);
    assert_works(opreg_destroy(reg));
    unsetenv("OPREG_FAKE_NULL_ROW");
}

static void a_removed_flag_says_what_to_use(void **state) {
    opreg_registry *reg = NULL;
    (void)state;
    use_fakes("good");
    setenv("OPREG_FAKE_GOOD_OLD_ONE", "on", 1);
    assert_works(create(0, &reg));
    assert_text(said.text, "OPREG_FAKE_GOOD_OLD_ONE is gone: use OPREG_FAKE_GOOD_EXACT_ONE");
    assert_works(opreg_destroy(reg));
}

static void no_env_reads_nothing(void **state) {
    opreg_registry *reg = NULL;
    (void)state;
    setenv("OPREG_FAKE_GOD", "on", 1);
    setenv("OPREG_STRICT", "on", 1);
    assert_works(create(OPREG_CF_NO_ENV, &reg));
    assert_string_equal(said.text, "");
    assert_works(opreg_destroy(reg));
}

static void one_file_found_twice_is_one_plugin(void **state) {
    opreg_registry *reg = quiet_registry(&said);
    char dir[1024];
    (void)state;
    fake_dir(dir, sizeof dir, "good");
    assert_works(opreg_discover(reg, dir));
    assert_works(opreg_discover(reg, dir));
    assert_int_equal(opreg_plugins(reg, NULL, 0, 0), 2);
    assert_works(opreg_destroy(reg));
}

static void two_files_of_one_name_are_an_error_that_names_both(void **state) {
    opreg_registry *reg = quiet_registry(&said);
    char dir[1024], copy[] = "/tmp/opreg-registry-XXXXXX", command[4096];
    (void)state;
    assert_non_null(mkdtemp(copy));
    fake_dir(dir, sizeof dir, "good");
    snprintf(command, sizeof command, "cp '%s'/* '%s'", dir, copy);
    assert_int_equal(system(command), 0);
    assert_works(opreg_discover(reg, dir));
    assert_failed(opreg_discover(reg, copy), OPREG_E_LOAD, "two plugins are named fake-good");
    assert_text(opreg_last_error(), dir);
    assert_text(opreg_last_error(), copy);
    assert_failed(opreg_enable(reg, "fake-good", "on"), OPREG_E_LOAD, "two plugins are named");
    snprintf(command, sizeof command, "rm -rf '%s'", copy);
    assert_int_equal(system(command), 0);
    assert_works(opreg_destroy(reg));
}

static void a_directory_must_be_absolute(void **state) {
    opreg_registry *reg = quiet_registry(&said);
    (void)state;
    assert_failed(opreg_discover(reg, "plugins"), OPREG_E_ARG, "not an absolute path");
    assert_failed(opreg_discover(reg, "/nowhere"), OPREG_E_LOAD, "/nowhere");
    assert_works(opreg_destroy(reg));
}

static size_t plugins_from_here(const char *named) {
    opreg_registry *reg = NULL;
    size_t count;
    unsetenv("OPREG_PLUGIN_DIR");
    if (named != NULL) {
        setenv("OPREG_PLUGIN_DIR", named, 1);
    }
    assert_works(create(0, &reg));
    count = opreg_plugins(reg, NULL, 0, 0);
    assert_works(opreg_destroy(reg));
    return count;
}

static void nothing_is_found_in_the_current_directory(void **state) {
    char before[1024], fakes[1024];
    size_t count;
    (void)state;
    assert_non_null(getcwd(before, sizeof before));
    fake_dir(fakes, sizeof fakes, "good");
    assert_int_equal(chdir("/"), 0);
    count = plugins_from_here(NULL);
    assert_int_equal(chdir(fakes), 0);
    assert_int_equal(plugins_from_here(fakes), count + 1);
    assert_int_equal(plugins_from_here(NULL), count);
    assert_int_equal(plugins_from_here("."), count);
    assert_int_equal(plugins_from_here("../good"), count);
    assert_int_equal(plugins_from_here(""), count);
    assert_int_equal(chdir(before), 0);
}

static void a_directory_that_every_user_may_write_is_warned_about(void **state) {
    char dir[] = "/tmp/opreg-open-XXXXXX";
    opreg_registry *reg = quiet_registry(&said);
    (void)state;
    assert_non_null(mkdtemp(dir));
    assert_works(opreg_discover(reg, dir));
    assert_no_text(said.text, "every user may write");
    assert_int_equal(chmod(dir, 0777), 0);
    assert_works(opreg_discover(reg, dir));
    assert_text(said.text, "every user may write");
    assert_text(said.text, dir);
    assert_int_equal(rmdir(dir), 0);
    assert_works(opreg_destroy(reg));
}

static void the_reference_cannot_be_switched_off(void **state) {
    opreg_registry *reg = NULL;
    (void)state;
    setenv("OPREG_CPU_REFERENCE_MATMUL", "off", 1);
    assert_failed(create(OPREG_CF_STRICT, &reg), OPREG_E_STRICT, "it takes on");
    assert_works(create(0, &reg));
    assert_text(said.text, "OPREG_CPU_REFERENCE_MATMUL=\"off\" counts as on: it takes on");
    assert_int_equal(kernel_row(reg, "cpu/reference_matmul").enabled, 1);
    assert_failed(opreg_enable(reg, "cpu/reference_matmul", "off"), OPREG_E_ARG,
                  "does not take \"off\", it takes: on");
    assert_int_equal(kernel_row(reg, "cpu/reference_matmul").enabled, 1);
    assert_works(opreg_enable(reg, "cpu/reference_matmul", "on"));
    assert_works(opreg_destroy(reg));
}

static int lines_seen, broken_lines;

static void count_lines(void *user, opreg_log_level level, const char *line) {
    (void)user, (void)level;
    lines_seen++;
    for (; *line != '\0'; line++) {
        broken_lines += (unsigned char)*line < ' ';
    }
}

static void a_logged_line_is_one_line_whatever_it_quotes(void **state) {
    opreg_config config = {
        .struct_size = sizeof config, .log = count_lines, .flags = OPREG_CF_NO_INSTALLED};
    opreg_registry *reg = NULL;
    const opreg_device_io *io;
    const opreg_host *host;
    opreg_device cpu;
    (void)state;
    lines_seen = broken_lines = 0;
    setenv("OPREG_TRACE", "off\nopreg: error: \x1b[31mnot mine", 1);
    assert_works(opreg_create(&config, &reg));
    assert_true(lines_seen > 0);
    lines_seen = 0;
    assert_int_equal(opreg_devices(reg, &cpu, sizeof cpu, 1), 1);
    assert_works(opreg_device_io_get(reg, &cpu, &io, &host));
    host->log(host->ctx, OPREG_LOG_WARN, "two\r\nlines");
    assert_int_equal(lines_seen, 1);
    assert_int_equal(broken_lines, 0);
    assert_works(opreg_destroy(reg));
}

/* What this program does when it is started again with raised rights: 0 when it behaved. */
static int behave_elevated(void) {
    opreg_registry *reg = NULL;
    opreg_config config = capture_config(&said, 0);
    if (getauxval(AT_SECURE) == 0) {
        return 77; /* the file system does not give them */
    }
    config.flags &= ~OPREG_CF_NO_INSTALLED; /* an open folder lies where installed plugins do */
    if (opreg_create(&config, &reg) != OPREG_OK) {
        return 1;
    }
    if (strstr(said.text, "raised rights") == NULL || strstr(said.text, "FAKE_GOD") != NULL ||
        opreg_discover(reg, "/tmp") != OPREG_E_ARG) {
        return 2;
    }
    return strstr(said.text, "every user may write into the plugin directory") != NULL &&
                   strstr(said.text, "it is not used") != NULL &&
                   opreg_plugins(reg, NULL, 0, 0) == 1
               ? 0
               : 3;
}

/* Copies this program to DIR/bin/engine as one that any user runs with root's rights, and a
 * manifest into a folder beside it that any user may write, where an installation has its plugins.
 */
static int make_elevated(const char *dir) {
    char command[1400];
    snprintf(
        command, sizeof command,
        "set -e; cd %s; chmod 755 .; mkdir bin; cp /proc/%d/exe bin/engine; "
        "chmod 4755 bin/engine; for l in lib lib/x86_64-linux-gnu lib64; do "
        "mkdir -p $l/opreg; cp %s/fake/good/fake-good.manifest $l/opreg; chmod 777 $l/opreg; done",
        dir, (int)getpid(), OPREG_TEST_BUILD);
    return system(command) == 0;
}

static void a_process_with_raised_rights_trusts_neither_variables_nor_open_folders(void **state) {
    char dir[] = "/tmp/opreg-elevated-XXXXXX", engine[64], command[80];
    int status = 0, made;
    pid_t child;
    (void)state;
    if (geteuid() != 0) {
        skip(); /* only root can make such a program */
    }
    assert_non_null(mkdtemp(dir));
    snprintf(engine, sizeof engine, "%s/bin/engine", dir);
    made = make_elevated(dir);
    child = made ? fork() : -1;
    if (child == 0) {
        setenv("OPREG_FAKE_GOD", "on", 1);
        if (setgid(65534) != 0 || setuid(65534) != 0) {
            _exit(77);
        }
        execl(engine, engine, "--elevated", (char *)NULL);
        _exit(77);
    }
    if (child > 0) {
        waitpid(child, &status, 0);
    }
    snprintf(command, sizeof command, "rm -rf %s", dir);
    assert_int_equal(system(command), 0);
    assert_true(child > 0);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77) {
        skip();
    }
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, clear_environment, clear_environment)

int main(int argc, char **argv) {
    if (argc > 1 && strcmp(argv[1], "--elevated") == 0) {
        _exit(behave_elevated());
    }
    const struct CMUnitTest tests[] = {
        TEST(with_nothing_set_only_the_cpu_backend_is_open),
        TEST(a_plugin_that_is_off_is_never_opened),
        TEST(the_environment_switches_a_plugin_and_its_variants),
        TEST(the_levels_admit_more_and_more),
        TEST(a_variant_of_a_closed_plugin_is_warned_about),
        TEST(the_environment_is_read_once),
        TEST(an_added_plugin_is_on_unless_a_flag_says_else),
        TEST(strict_makes_errors_of_warnings),
        TEST(variables_of_a_linked_plugin_are_known_when_creation_gets_its_entry),
        TEST(strict_refuses_a_plugin_that_does_not_load),
        TEST(a_removed_flag_says_what_to_use),
        TEST(no_env_reads_nothing),
        TEST(one_file_found_twice_is_one_plugin),
        TEST(two_files_of_one_name_are_an_error_that_names_both),
        TEST(a_directory_must_be_absolute),
        TEST(nothing_is_found_in_the_current_directory),
        TEST(a_directory_that_every_user_may_write_is_warned_about),
        TEST(the_reference_cannot_be_switched_off),
        TEST(a_logged_line_is_one_line_whatever_it_quotes),
        TEST(a_process_with_raised_rights_trusts_neither_variables_nor_open_folders),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
